"""Costs, latencies, hold-back and state: Spark's tables, and the same in plain Python."""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from churn_runs import churned
from guides import columns_in
from measured_by_hand import Table, Tables, measured_by_hand, overview_by_hand
from random_runs import plan_for
from tidings.compare import CONTENDERS
from tidings.core import DataError, EnvironmentMissing, UsageError
from tidings.pipeline.queries import measures
from tidings.simulator import Plan, walk
from tidings.trace import Manifest, Row, Run, digest, read_runs, write_runs
from tidings.trace.segments import Block, Mark, Messages, Owner, whole_segment
from traces import random_runs, write_trace
from views_runs import ChangingRun

DOCS = Path(__file__).parents[2] / "docs" / "report.md"
TEXT = digest(b"hello")

# --- the runs


def simulated_runs(count: int) -> Iterator[Run]:
    """Every protocol and every fault; some go without rows that not every trace has."""
    for seed in range(count):
        contender = CONTENDERS[seed % len(CONTENDERS)]
        plan = msgspec.structs.replace(plan_for(contender, seed), sample_ms=10.0)
        if contender.protocol == "frontier":
            plan = msgspec.structs.replace(plan, restarts=2)
        run = walk(plan, seed)
        yield _renamed(run, f"walk-{seed}", LEFT_OUT[seed % len(LEFT_OUT)])
    for seed in REBINDING:
        yield _renamed(churned(seed), f"churn-{seed}", ())
    yield _renamed(ChangingRun(NAME_TAKEN).play(), "name taken", ())


REBINDING = (26, 37)
"""Seeds of groups that change, in which a message is bound to another list."""
NAME_TAKEN = 1002493
"""One that left without a message of its view; somebody else settled under its name."""
LEFT_OUT = ((), (), ("send", "receive"), ("held",), ("state",), ("settle",), ("send", "state"))


def _renamed(run: Run, label: str, left_out: tuple[str, ...]) -> Run:
    manifest = msgspec.structs.replace(run.manifest, run=label)
    histories = {
        process: [
            msgspec.structs.replace(row, run=label, index=index)
            for index, row in enumerate(row for row in history if row.kind not in left_out)
        ]
        for process, history in run.histories.items()
    }
    return Run(manifest, histories)


def spoilt_runs(count: int) -> Iterator[tuple[Manifest, list[Row]]]:
    """Names used twice, deliveries repeated, lost and invented, lists that differ; times that jump.

    A third of them has no clock.
    """
    dice = random.Random(3)
    for number, draft in enumerate(random_runs(count, seed=11)):
        clock: Any = ("wall", "simulated", None)[number % 3]
        manifest = msgspec.structs.replace(draft.manifest(), clock=clock)
        holes = draft.holes
        rows = [
            msgspec.structs.replace(row, time_ns=dice.randrange(-(2**40), 2**40))
            for row in draft.rows()
            if not holes.get(row.process, (0, 0))[0]
            <= row.index
            < holes.get(row.process, (0, 0))[1]
        ]
        yield manifest, rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the runs as lines, half as a table, and one as the segments of a node."""
    simulated, spoilt = list(simulated_runs(48)), list(spoilt_runs(120))
    nothing = Manifest(schema=1, run="nothing", names=("p1",), views=(("p1",),))
    segmented = Manifest(
        schema=1, run="node", names=("p2", "p1"), views=(("p1", "p2"),), clock="wall"
    )
    # A hole is a gap between files: what follows one is written as a table, the rest as lines.
    lines = [row for run in simulated[::2] for row in run.rows]
    table = [row for run in simulated[1::2] for row in run.rows]
    for _, rows in spoilt:
        reached: dict[str, int] = {}
        for row in rows:
            is_next = row.index == reached.get(row.process, 0)
            reached[row.process] = row.index + 1 if is_next else -1
            (lines if is_next else table).append(row)
    manifests = [
        *(run.manifest for run in simulated),
        *(manifest for manifest, _ in spoilt),
        *(nothing, segmented),
    ]
    folder = write_trace(
        tmp_path_factory.mktemp("trace") / "a [trace]", manifests, lines=lines, table=table
    )
    texts = bytes.fromhex(TEXT) * 3
    blocks = (
        Block(
            0,
            100,
            0,
            (Messages("broadcast", "p1", 1, 3, texts, view=0), Messages("held", "p1", 1, 3)),
        ),
        Block(6, 250, 0, (Messages("deliver", "p1", 1, 2, texts[:16]),)),
        Block(
            8, 300, 1, (Mark("recover"), Messages("deliver", "p1", 3, 1, texts[:8]), Mark("settle"))
        ),
    )
    segment = whole_segment(Owner("node", "p1"), *blocks)
    (folder / "p1-1.segment").write_bytes(segment)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> Tables:
    return measured_by_hand(read_runs(folder))


@pytest.fixture(scope="module")
def written(spark: SparkSession, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables") / "of a [trace]"
    measures.write_tables(spark, folder, out)
    return out


def rows_in(folder: Path) -> Table:
    return [tuple(row.values()) for row in pq.read_table(folder).to_pylist()]


# --- the tests


EXACT = [name for name in measures.TABLES if not name.startswith("states_by")]


@pytest.mark.parametrize("name", EXACT)
def test_spark_and_plain_python_measure_the_same(
    written: Path, expected: Tables, name: str
) -> None:
    assert Counter(rows_in(written / name)) == Counter(expected[name])


def test_the_way_for_large_groups_gives_the_same_latencies(
    spark: SparkSession, folder: Path, expected: Tables
) -> None:
    with measures.record(spark, folder) as recording:
        large = recording._replace(width=32_767)
        found = measures.latencies(large).toArrow().to_pylist()
    assert Counter(tuple(row.values()) for row in found) == Counter(expected["latencies"])


@pytest.mark.parametrize("name", ["states_by_process", "states_by_run"])
def test_spark_and_plain_python_see_the_same_growth(
    written: Path, expected: Tables, name: str
) -> None:
    found = sorted(rows_in(written / name), key=lambda row: row[:3])
    assert found == [pytest.approx(row) for row in sorted(expected[name], key=lambda row: row[:3])]


def test_the_runs_that_are_measured_are_not_vacuous(expected: Tables) -> None:
    own, first, half, last = zip(*(row[5:] for row in expected["latencies"]), strict=True)
    for measure in (own, first, half, last):
        assert sum(value is None for value in measure) > 100
        assert sum(value is not None for value in measure) > 300
    assert sum(one != other for one, other in zip(half, last, strict=True)) > 100
    assert sum(row[-1] is None for row in expected["hold_back"]) > 10
    assert sum((row[-1] or 0) > 0 for row in expected["hold_back"]) > 100
    assert {row[1] for row in expected["latency_summary"]} == {"simulated", "wall"}
    assert sum(row[2] is None for row in expected["run_costs"]) > 20
    assert any(row[-1] and row[-1] > 0 for row in expected["states_by_run"])


def test_percentiles_are_those_of_numpy_by_nearest_rank(spark: SparkSession) -> None:
    dice = np.random.default_rng(5)
    groups = {f"g{size}": dice.integers(-9, 99, size) for size in (1, 2, 3, 10, 99, 100, 101, 1000)}
    rows = [(name, int(value)) for name, values in groups.items() for value in values]
    values = spark.createDataFrame([*rows, ("g1", None)], "name string, value_ns bigint")
    found = {row.name: tuple(row)[1:] for row in measures.percentiles(values, "name").collect()}
    for name, group in groups.items():
        ranks = np.percentile(group, (50, 90, 99), method="inverted_cdf")
        assert found[name] == (len(group), group.min(), *ranks, group.max())


def test_a_page_has_the_same_numbers_as_plain_python(spark: SparkSession, folder: Path) -> None:
    runs = list(read_runs(folder))
    groups = {run.manifest.run: f"group {number % 3}" for number, run in enumerate(runs)}
    found = measures.overview(spark, folder, groups)
    assert found == overview_by_hand(runs, groups)
    assert len(found.waits) == 12
    assert found.kept == {}


def test_a_page_shows_some_of_many_samples_and_the_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = walk(Plan(processes=3, broadcasts=40, sample_ms=1.0), seed=2)
    write_runs(tmp_path / "one", [run])
    groups = {run.manifest.run: "all"}
    whole = overview_by_hand([run], groups)
    assert measures.overview(spark, tmp_path / "one", groups, most_samples=10_000) == whole
    thinned = measures.overview(spark, tmp_path / "one", groups, most_samples=10).kept
    for process, samples in thinned.items():
        assert 5 < len(samples) <= 10 < len(whole.kept[process])
        step = math.ceil(len(whole.kept[process]) / 10)
        assert samples == whole.kept[process][::-step][::-1]


def test_the_documented_columns_are_those_that_are_written(written: Path) -> None:
    documented = {}
    for section in DOCS.read_text().split("\n### ")[1:]:
        name = re.match(r"`(\w+)`", section)
        if name:
            documented[name[1]] = columns_in(section)
    stored = {
        name: {field.name: str(field.type) for field in pq.read_table(written / name).schema}
        for name in measures.TABLES
    }
    assert documented == stored


def _row(process: str, index: int, kind: Any, time_ns: int, **columns: Any) -> Row:
    return Row(run="r", process=process, index=index, kind=kind, time_ns=time_ns, **columns)


def test_the_first_delivery_counts_by_its_index_and_not_by_its_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """p2's clock is set back between two deliveries of one message."""
    message = {"origin": "p1", "seq": 1, "digest": TEXT}
    rows = [
        _row("p1", 0, "broadcast", 100, view=0, **message),
        _row("p1", 1, "deliver", 130, **message),
        _row("p1", 2, "settle", 900),
        _row("p2", 0, "deliver", 500, **message),
        _row("p2", 1, "deliver", 110, **message),
        _row("p2", 2, "settle", 900),
    ]
    names = ("p1", "p2")
    manifest = Manifest(schema=1, run="r", names=names, views=(names,), clock="wall")
    write_trace(tmp_path, [manifest], table=rows)
    with measures.record(spark, tmp_path) as recording:
        (found,) = measures.latencies(recording).collect()
    assert tuple(found) == ("r", "p1", 1, 2, 2, 30, 30, 400, 400)


def test_the_audit_writes_the_tables_beside_its_verdicts(tidings: Any, tmp_path: Path) -> None:
    tidings("simulate", "--seed", "7", "--trace", "seven")
    answer = tidings("audit", "seven", "--tables", "tables")
    assert answer.status == 0
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(measures.TABLES)
    assert rows_in(tmp_path / "tables" / "costs")
    again = tidings("audit", "seven", "--tables", "tables")
    assert (again.status, again.out) == (64, "")
    assert "tables is not an empty folder" in again.err


def _corrupt(folder: Path) -> None:
    whole = bytearray((folder / "rows.parquet").read_bytes())
    whole[4:200] = bytes(196)
    (folder / "rows.parquet").write_bytes(whole)


def _truncate(folder: Path) -> None:
    whole = (folder / "rows.parquet").read_bytes()
    (folder / "rows.parquet").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("spoil", [_corrupt, _truncate])
def test_a_corrupt_file_is_named(
    spark: SparkSession, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    manifest = Manifest(schema=1, run="r", names=("p1",), views=(("p1",),))
    rows = [_row("p1", index, "settle", index) for index in range(100)]
    write_trace(tmp_path / "trace", [manifest], table=rows)
    spoil(tmp_path / "trace")
    with pytest.raises(DataError, match=r"trace/rows.parquet: "):
        measures.write_tables(spark, tmp_path / "trace", tmp_path / "tables")


def test_tables_do_not_replace_what_is_there(
    spark: SparkSession, folder: Path, written: Path
) -> None:
    with pytest.raises(UsageError, match="is not an empty folder"):
        measures.write_tables(spark, folder, written)


def test_a_full_disk_gets_one_line(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark tells it; no disk is filled here."""

    def full(table: Any, place: Path) -> None:
        raise PySparkException(
            "[TASK_WRITE_FAILED] ... java.io.IOException: No space left on device"
        )

    monkeypatch.setattr("tidings.pipeline.queries.measures.tables._write", full)
    with pytest.raises(EnvironmentMissing, match=r"tables: no space left on the disk$"):
        measures.write_tables(spark, folder, tmp_path / "tables")
