"""How fast a watch judges recorded segments, beside the audit of the same rows.

    python bench/watch.py --rows 20e6
    python bench/watch.py --rows 20e6 --batch-bytes 8e6 --no-audit
    python bench/watch.py --rows 2e6 --stateful
    python bench/watch.py --live 5000 --minutes 10

Five members broadcast in turns and deliver everything; their segments are written first. State and
memory are looked at after every batch: they must not grow. With ``--stateful`` the same judge also
runs in Spark's transformWithState, its state in RocksDB. With ``--live``, three members run and
broadcast so many messages a second together, and the lag is measured: from a row to the end of its
batch.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidings import pipeline
from tidings.pipeline.watching import pieces as packing
from tidings.pipeline.watching.final import final_verdicts
from tidings.pipeline.watching.growing import Growing
from tidings.pipeline.watching.judge import Judge
from tidings.pipeline.watching.stored import loaded, stored
from tidings.pipeline.watching.stream import BYTES_PER_BATCH
from tidings.testkit.fleet import Fleet, free_ports
from tidings.trace import SCHEMA_VERSION, Manifest
from tidings.trace.schema import DIGESTS
from tidings.trace.segments import Block, Mark, Messages, Owner, beginning, encoded, framed

MEMBERS = 5
TICK = 100
"""How many messages of one origin a tick delivers."""
LEAST_SHARE = 0.25
"""Of the speed of the audit."""
MOST_LAG_S = 5.0
SHOWN = (2e6, 5e6, 10e6, 20e6)
"""After so many rows state and memory are printed."""
FLAT = 1.25
"""How much more there may be in the second half of the rows than in the first."""


class Size(NamedTuple):
    """After a batch."""

    rows: int
    state: int
    driver: int
    """Memory of the Python process that judges."""
    java: int


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
    parser.add_argument("--batch-bytes", type=float, default=BYTES_PER_BATCH)
    parser.add_argument("--no-audit", action="store_true", help="do not compare with the audit")
    parser.add_argument("--stateful", action="store_true", help="try transformWithState, too")
    parser.add_argument("--live", type=float, help="broadcasts a second, of running members")
    parser.add_argument("--minutes", type=float, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
    try:
        if asked.live:
            _live(folder, asked.live, asked.minutes)
        else:
            _recorded(folder, int(asked.rows), int(asked.batch_bytes), asked)
    finally:
        shutil.rmtree(folder)


def _recorded(folder: Path, rows: int, batch_bytes: int, asked: argparse.Namespace) -> None:
    trace, warm = folder / "trace", folder / "warm"
    trace.mkdir()
    warm.mkdir()
    rows = record(trace, rows)
    record(warm, 100_000)
    print(f"{rows:,} rows of {MEMBERS} members, {_size(trace) / 1e6:,.0f} MB of segments")
    with pipeline.session() as spark:
        _watch(spark, warm, folder / "warm.checkpoint", batch_bytes)
        begin = time.perf_counter()
        watching, sizes = _watch(spark, trace, folder / "checkpoint", batch_bytes)
        watch_s = time.perf_counter() - begin
        _tell("watch", watch_s, rows)
        found = [_plain(one) for one in watching.verdicts()["recorded"]]
        if not asked.no_audit:
            pipeline.audit(spark, warm)
            begin = time.perf_counter()
            audited = pipeline.audit(spark, trace)
            audit_s = time.perf_counter() - begin
            _tell("audit", audit_s, rows)
            assert found == [_plain(one) for one in audited.verdicts["recorded"]], found
            print(f"the watch has {audit_s / watch_s:.2f} of the speed of the audit")
            assert audit_s / watch_s > LEAST_SHARE
        if asked.stateful:
            _stateful(spark, warm, folder / "warm.stateful", batch_bytes)
            begin = time.perf_counter()
            same = _stateful(spark, trace, folder / "stateful", batch_bytes)
            _tell("transformWithState", time.perf_counter() - begin, rows)
            assert same == found, same
    _tell_sizes(sizes)


def _tell(what: str, seconds: float, rows: int) -> None:
    print(f"{what:20} {seconds:6.1f} s  {rows / seconds:12,.0f} rows/s", flush=True)


def _tell_sizes(sizes: list[Size]) -> None:
    for least in SHOWN:
        for one in [one for one in sizes if one.rows >= 0.99 * least][:1]:
            print(
                f"after {one.rows:>11,} rows: state {one.state:,} bytes, Python "
                f"{one.driver / 2**20:,.0f} MiB, Java {one.java / 2**20:,.0f} MiB"
            )
    half = sizes[-1].rows / 2
    before = [one for one in sizes if one.rows <= half]
    after = [one for one in sizes if one.rows > half]
    if len(before) > 2:
        for name in ("state", "driver"):
            most, first = (max(getattr(one, name) for one in some) for some in (after, before))
            assert most <= FLAT * first, f"{name} grew from {first:,} to {most:,} bytes"


def _live(folder: Path, per_s: float, minutes: float) -> None:
    names = ("p1", "p2", "p3")
    places = zip(names, free_ports(len(names)), strict=True)
    members = "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in places)
    group = folder / "group.toml"
    about = 'name = "live"\nprotocol = "views"\ntrace.folder = "."\ntls.plain = true\n'
    group.write_text(f"{about}\n[members]\n{members}\n")
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
    assert lags[-1] < MOST_LAG_S


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
                sizes.append(Size(status.rows, status.state_bytes, *_memory()))
                if all(run.has_ended for run in status.runs):
                    break
            watching.refuse_failure()
            time.sleep(0.02)
    return watching, sizes


def _memory() -> tuple[int, int]:
    """Of this process, and of its children: that is Java."""
    children = Path("/proc/self/task").glob("*/children")
    pids = [pid for one in children for pid in one.read_text().split()]
    return _resident("self"), sum(map(_resident, pids))


def _resident(pid: str) -> int:
    pages = Path("/proc", pid, "statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# --- the same judge in Spark's state store


def _stateful(spark, trace, checkpoint, batch_bytes):
    """All histories of a run have one key. The verdicts at the end."""
    import pandas as pd
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.streaming import StatefulProcessor

    (manifest,) = Growing(trace).manifests().values()

    class Keeper(StatefulProcessor):
        def init(self, handle):
            self.state = handle.getValueState("judge", "judge binary")

        def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's name
            judge = Judge(manifest)
            if self.state.exists():
                judge = loaded(self.state.get()[0])
            found = judge.take([packing.decode(one) for frame in rows for one in frame["piece"]])
            self.state.update((stored(judge),))
            verdicts = [_plain(one) for one in final_verdicts(judge, manifest)]
            answer = msgspec.json.encode(verdicts).decode()
            yield pd.DataFrame({"found": [len(found)], "verdicts": [answer]})

        def close(self):
            pass

    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    reader = spark.readStream.format("tidings").option("packed", "true")
    pieces = reader.option("bytesPerBatch", str(batch_bytes)).load(str(trace))
    answers = []
    query = (
        pieces.withColumn("run", F.lit(manifest.run))
        .groupBy("run")
        .transformWithStateInPandas(Keeper(), "found long, verdicts string", "Append", "None")
        .writeStream.foreachBatch(lambda frame, _: answers.extend(frame.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()
    return [(one[0], *one[1:]) for one in msgspec.json.decode(answers[-1]["verdicts"])]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
