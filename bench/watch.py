"""How fast a watch judges recorded segments, beside the audit of the same rows.

    python bench/watch.py --rows 20e6
    python bench/watch.py --live 5000 --minutes 10

Five members broadcast in turns and deliver everything; their segments are written first. The state
is looked at after every batch: it must not grow. With ``--live``, three members run and broadcast
so many messages a second together, and the lag is measured: from a row to the end of its batch.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from tidings import pipeline
from tidings.pipeline.watching.stream import BYTES_PER_BATCH
from tidings.testkit.fleet import Fleet, free_ports
from tidings.trace import SCHEMA_VERSION, Manifest
from tidings.trace.schema import DIGESTS
from tidings.trace.segments import Block, Mark, Messages, Owner, beginning, encoded, framed

MEMBERS = 5
TICK = 100
"""How many messages of one origin a tick delivers."""


def record(folder: Path, rows: int, segment_rows: int = 2_000_000) -> int:
    """Segments of a run in which all goes well; how many rows they have."""
    names = tuple(f"p{number}" for number in range(1, MEMBERS + 1))
    manifest = Manifest(
        schema=SCHEMA_VERSION, run="recorded", names=names, views=(names,), clock="wall"
    )
    (folder / "runner.manifest.jsonl").write_bytes(msgspec.json.encode(manifest) + b"\n")
    rounds = rows // (MEMBERS * (MEMBERS + 1) * TICK)
    for name in names:
        owner, number, index, data = Owner("recorded", name), 1, 0, bytearray()
        data += beginning(owner)
        for turn in range(rounds):
            first = turn * TICK + 1
            texts = {one: _digests(one, first) for one in names}
            items = (
                Messages("broadcast", name, first, TICK, texts[name], 0),
                *(Messages("deliver", one, first, TICK, texts[one]) for one in names),
            )
            block = Block(index, time.time_ns(), 0, items)
            data += framed(encoded(block), len(data))
            index = block.end
            if index // segment_rows >= number:
                (folder / f"{name}-{number}.segment").write_bytes(data)
                number += 1
                data = bytearray(beginning(owner))
        end = Block(index, time.time_ns(), 0, (Mark("settle"),))
        data += framed(encoded(end), len(data))
        (folder / f"{name}-{number}.segment").write_bytes(data)
    return rounds * MEMBERS * (MEMBERS + 1) * TICK + MEMBERS


def _digests(origin: str, first: int) -> bytes:
    texts = (f"{origin}#{seq}".encode() for seq in range(first, first + TICK))
    return DIGESTS["xxh64-42"](texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=float, default=20e6)
    parser.add_argument("--batch-bytes", type=int, default=BYTES_PER_BATCH)
    parser.add_argument("--live", type=float, help="broadcasts a second, of running members")
    parser.add_argument("--minutes", type=float, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
    try:
        if asked.live:
            _live(folder, asked.live, asked.minutes)
            return
        trace = folder / "trace"
        trace.mkdir()
        rows = record(trace, int(asked.rows))
        print(f"{rows:,} rows of {MEMBERS} members, {_size(trace) / 1e6:,.0f} MB of segments")
        with pipeline.session() as spark:
            warm = folder / "warm"
            warm.mkdir()
            record(warm, 100_000)
            pipeline.audit(spark, warm)
            _watch(spark, warm, folder / "warm.checkpoint", asked.batch_bytes)
            begin = time.perf_counter()
            audited = pipeline.audit(spark, trace)
            audit_s = time.perf_counter() - begin
            begin = time.perf_counter()
            watching, sizes = _watch(spark, trace, folder / "checkpoint", asked.batch_bytes)
            watch_s = time.perf_counter() - begin
            same = [_plain(one) for one in watching.verdicts()["recorded"]]
            assert same == [_plain(one) for one in audited.verdicts["recorded"]], same
        print(f"audit  {audit_s:6.1f} s  {rows / audit_s:12,.0f} rows/s")
        print(f"watch  {watch_s:6.1f} s  {rows / watch_s:12,.0f} rows/s  ({audit_s / watch_s:.2f})")
        print(f"state after each batch, bytes: {', '.join(f'{size:,}' for size in sizes)}")
    finally:
        shutil.rmtree(folder)


def _live(folder: Path, per_s: float, minutes: float) -> None:
    names = ("p1", "p2", "p3")
    places = zip(names, free_ports(len(names)), strict=True)
    members = "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in places)
    group = folder / "group.toml"
    group.write_text(f'name = "live"\ntrace.folder = "."\n\n[members]\n{members}\n')
    lags, sizes = [], []
    with (
        pipeline.session() as spark,
        Fleet(group) as fleet,
        pipeline.watch(spark, folder, checkpoint=folder / "checkpoint") as watching,
    ):
        for member in fleet:
            member.publish(per_s / len(names))
        begin, seen = time.monotonic(), -1
        while (now := time.monotonic() - begin) < minutes * 60:
            watching.refuse_failure()
            status = watching.status
            if status is not None and status.batch != seen:
                seen = status.batch
                if now > 20:  # the first batches wait for Spark to warm up
                    lags.append(status.lag_s)
                    sizes.append(status.state_bytes)
            time.sleep(0.05)
        fleet.settle()
        watching.query.processAllAvailable()
        watching.query.stop()
        found = [_plain(one) for one in watching.verdicts()["live"]]
        assert found == [_plain(one) for one in pipeline.audit_here(folder).verdicts["live"]]
        rows = watching.status.rows
    lags.sort()
    offered = sum(member.offered for member in fleet) / (minutes * 60)
    print(f"{offered:,.0f} broadcasts/s for {minutes:g} min, {rows:,} rows in {len(lags)} batches")
    print(f"lag: median {lags[len(lags) // 2]:.2f} s, at most {lags[-1]:.2f} s")
    print(f"state: at most {max(sizes):,} bytes, at the end {sizes[-1]:,}; verdicts {found}")


def _plain(verdict):
    return verdict.value, verdict.judged, verdict.violated, verdict.not_owed


def _watch(spark, trace, checkpoint, batch_bytes):
    sizes = []
    watching = pipeline.watch(
        spark, trace, checkpoint=checkpoint, every_s=0.05,
        options={"bytesPerBatch": str(batch_bytes)},
    )  # fmt: skip
    with watching:
        seen = -1
        while True:
            status = watching.status
            if status is not None and status.batch != seen:
                seen = status.batch
                sizes.append(status.state_bytes)
                if all(run.has_ended for run in status.runs):
                    break
            watching.refuse_failure()
            time.sleep(0.02)
    return watching, sizes


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
