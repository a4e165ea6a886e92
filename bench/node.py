"""What a group of Tidings carries: OS processes on loopback, all broadcast, all read.

    .venv/bin/python bench/node.py              100 bytes, window 2,000, three members, in memory
    .venv/bin/python bench/node.py --durable    on disk before anything is acknowledged
    .venv/bin/python bench/node.py --tls        encrypted, with certificates
    .venv/bin/python bench/node.py --all        every window, size and number of members, latencies
    .venv/bin/python bench/node.py --latency --per-s 200 30000    and how long a text takes then

A broadcast is outstanding until its own sender's application has it back; a window of 10 allows
each member 10 of them. A broadcast counts once, when the slowest member's application has it.
Every member checks every text and its place in the order of its origin. docs/performance.md says
the rest.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from load.crew import Crew, CrewError, NoDiskError, Sample, check_disk, sigterm_as_interrupt
from load.phases import Phase
from load.tidings_group import tidings_group
from tidings.core.ranks import percentile
from tidings.trace.schema import DIGEST, DIGESTS

WINDOWS, SIZES, MEMBERS = (1, 10, 2_000), (100, 1_000, 10_000), (3, 5, 7, 9, 15)
Row = dict[str, Any]


def figures(sample: Sample, members: int) -> Row:
    row: Row = {
        "broadcasts_per_s": sample.per_s,
        "cpu_us_per_broadcast": sample.cpu_us,
        "cpu_us_per_broadcast_and_member": sample.cpu_us / members,
        "commits_per_broadcast_and_member": sample.commits / sample.broadcasts / members,
    }
    if sample.latencies_ns:
        row |= {f"p{one}_ms": percentile(one, sample.latencies_ns) / 1e6 for one in (50, 99)}
    return row


def fastest(crew: Crew, size: int, asked: argparse.Namespace) -> Iterator[tuple[str, Sample]]:
    for window in asked.window:
        seconds = 600.0 if asked.count else asked.seconds
        phase = Phase("window", size, seconds, window=window, most=asked.count or 1_000_000)
        yield f"window {window:,}", crew.run(phase)


def unhurried(
    crew: Crew, size: int, most_per_s: float, members: int, asked: argparse.Namespace
) -> Iterator[tuple[str, Sample]]:
    """Latencies at a few rates, and of one member that awaits each receipt."""
    rates = {f"{per_s:,.0f} per s": per_s for per_s in asked.per_s}
    for words, per_s in (rates | {"half of the most": most_per_s / 2}).items():
        yield words, crew.run(Phase("paced", size, asked.seconds, per_s=per_s / members))
    yield "one sender, each receipt", crew.run(Phase("alone", size, asked.seconds))


def settings(asked: argparse.Namespace) -> list[str]:
    return [
        f"trace.on = {str(not asked.untraced).lower()}",
        f'trace.digest = "{asked.digest}"',
        *(["trace.conform = true"] if asked.conform else []),
        *asked.set,
    ]


def measured(members: int, durable: bool, asked: argparse.Namespace) -> Iterator[Row]:
    """One group, led through all phases."""
    with tempfile.TemporaryDirectory(dir=asked.disk) as folder:
        if durable:
            check_disk(Path(folder))
        with tidings_group(
            *(Path(folder), members),
            durable=durable,
            settings=settings(asked),
            doors=asked.doors,
            profile=asked.profile,
            loop=asked.loop,
            tls=asked.tls,
        ) as crew:
            crew.run(Phase("window", SIZES[0], 0.5, window=100))
            for size in asked.size:
                done = dict(fastest(crew, size, asked))
                if asked.latency:
                    most_per_s = max(sample.per_s for sample in done.values())
                    done |= unhurried(crew, size, most_per_s, members, asked)
                for what, sample in done.items():
                    about = {"members": members, "durable": durable, "bytes": size, "load": what}
                    yield about | figures(sample, members)


def show(rows: Iterable[Row], as_json: bool) -> None:
    if as_json:
        print(json.dumps(list(rows), indent=1))
        return
    print(
        f"{'members':>7} {'kept':>7} {'bytes':>7}  {'load':<25}{'per s':>9}{'CPU us':>9}"
        f"{'/member':>9}{'commits':>9}{'p50 ms':>9}{'p99 ms':>9}"
    )
    for row in rows:
        kept = "on disk" if row["durable"] else "memory"
        print(
            f"{row['members']:>7} {kept:>7} {row['bytes']:>7,}  {row['load']:<25}"
            f"{row['broadcasts_per_s']:>9,.0f}{row['cpu_us_per_broadcast']:>9,.1f}"
            f"{row['cpu_us_per_broadcast_and_member']:>9,.1f}"
            f"{row['commits_per_broadcast_and_member']:>9.3f}"
            + "".join(f"{row[one]:>9,.2f}" for one in ("p50_ms", "p99_ms") if one in row),
            flush=True,
        )


def asked_for() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a group of Tidings carries; see the file.")
    parser.add_argument("--window", type=int, nargs="+", default=[2_000], help="of each member")
    parser.add_argument("--size", type=int, nargs="+", default=[100], help="bytes of a text")
    parser.add_argument("--members", type=int, nargs="+", default=[3])
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--latency", action="store_true", help="and of one sender alone")
    parser.add_argument("--per-s", type=float, nargs="+", default=[200.0], help="of --latency")
    parser.add_argument("--all", action="store_true", help="all of it; takes some minutes")
    parser.add_argument("--seconds", type=float, default=3.0, help="for which each phase sends")
    parser.add_argument("--count", type=int, help="broadcasts of each member, instead of seconds")
    parser.add_argument("--doors", choices=("plain", "many"), default="plain")
    parser.add_argument("--untraced", action="store_true")
    parser.add_argument("--conform", action="store_true", help="record every step")
    parser.add_argument("--digest", default=DIGEST, choices=DIGESTS)
    parser.add_argument("--set", nargs="+", default=[], help="lines of the group file")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--tls", action="store_true", help="with certificates")
    parser.add_argument("--disk", type=Path, help="where the logs go")
    parser.add_argument("--profile", default="-", help="a member to profile, into p1.prof")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def every(asked: argparse.Namespace) -> Iterator[Row]:
    """Every window and size with three members, then more members with the widest window."""
    whole = argparse.Namespace(**{**vars(asked), "window": WINDOWS, "size": SIZES, "latency": True})
    narrow = argparse.Namespace(**{**vars(asked), "window": WINDOWS[-1:], "size": SIZES[:1]})
    for durable in (False, True):
        yield from measured(MEMBERS[0], durable, whole)
        for members in MEMBERS[1:]:
            yield from measured(members, durable, narrow)


def main() -> int:
    asked = asked_for()
    one_by_one = (row for one in asked.members for row in measured(one, asked.durable, asked))
    try:
        with sigterm_as_interrupt():
            show(every(asked) if asked.all else one_by_one, asked.json)
    except (CrewError, NoDiskError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
