"""The audit at length: random runs by every judge, mutants, and one bad event among millions.

``TIDINGS_EVENTS=50e6`` makes the long trace as long as the benchmark's.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline_ways import by_arrays, specified_by
from slab_mutants import MUTANTS
from slabs import any_limits, judged_anywhere, runs_of_all_kinds, spoil_anywhere
from tidings import pipeline
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.spec import Guarantee, Value, judge
from tidings.trace import parquet, read_runs
from traces import random_runs, write_drafts

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from rivals import generate

EVENTS = int(float(os.environ.get("TIDINGS_EVENTS", "5e6")))
RUNS = 2000


def test_the_queries_and_the_specification_agree_on_all_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_drafts(tmp_path, random_runs(RUNS))
    audited = pipeline.audit(spark, tmp_path, examples=None, checker="sql")
    for run in read_runs(tmp_path):
        for found, expected in zip(audited.verdicts[run.manifest.run], judge(run), strict=True):
            nothing = {"violations": ()}
            assert msgspec.structs.replace(found, **nothing) == msgspec.structs.replace(
                expected, **nothing
            )
            assert Counter(found.violations) == Counter(expected.violations)


@pytest.mark.parametrize("seed", range(10))
def test_runs_in_pieces_and_the_specification_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", 10 + 20 * seed)
    write_drafts(tmp_path / "trace", random_runs(200, seed=seed))
    (tmp_path / "spool").mkdir()
    limits = any_limits(Random(seed))
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert found == specified_by(tmp_path / "trace")


# --- slabs, cut anywhere


@pytest.mark.parametrize("seed", range(10, 18))
def test_slabs_cut_anywhere_and_the_specification_agree_on_many_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", 5 + 30 * (seed % 4))
    write_drafts(tmp_path / "trace", runs_of_all_kinds(400, seed))
    (tmp_path / "spool").mkdir()
    found, _ = judged_anywhere(tmp_path / "trace", tmp_path / "spool", seed)
    assert found == specified_by(tmp_path / "trace")


@pytest.fixture(scope="module")
def cut_anywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anywhere")
    write_drafts(folder, runs_of_all_kinds(200, seed=0))
    return folder


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_of_the_slabs_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_anywhere: Path, name: str
) -> None:
    MUTANTS[name].live(monkeypatch)
    try:
        found, _ = judged_anywhere(cut_anywhere, tmp_path, seed=0)
    except (AssertionError, IndexError):
        return
    assert found != specified_by(cut_anywhere)


@pytest.mark.parametrize("seed", range(12))
def test_a_long_run_with_faults_is_judged_in_slabs_as_at_once(tmp_path: Path, seed: int) -> None:
    """Cut as it would be: every count, and every violation with its witnesses."""
    rng = np.random.default_rng(seed)
    generate.long_run(tmp_path / "good", 300_000, 5, seed)
    spoil_anywhere(tmp_path / "good", tmp_path / "trace", rng)
    (tmp_path / "spool").mkdir()
    (tmp_path / "again").mkdir()
    limits = JudgingLimits(batch_rows=1, least_tasks=3, slab_rows=int(rng.integers(2, 50)) * 5000)
    at_once = by_arrays(tmp_path / "trace", tmp_path / "spool", JudgingLimits(), "at once")
    assert by_arrays(tmp_path / "trace", tmp_path / "again", limits, "pieces") == at_once
    assert at_once is not None
    assert sum(one.violated for one in at_once["long"]) > 0


# --- one bad event among millions


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    generate.long_run(folder, EVENTS, 5)
    return folder


Spoil = Callable[[Any], tuple[Any, int]]
"""Takes the last group of rows of p2, returns it with one bad event, and the row it is at."""


def _spoilt(trace: Path, folder: Path, spoil: Spoil) -> int:
    """A copy of the trace with one bad event near the end of p2's history; its index."""
    folder.mkdir()
    for file in trace.iterdir():
        if file.name != "p2.parquet":
            (folder / file.name).symlink_to(file)
    with pq.ParquetFile(trace / "p2.parquet") as file:
        last = file.num_row_groups - 1
        with pq.ParquetWriter(folder / "p2.parquet", parquet.ARROW, **parquet.FORM) as writer:
            for group in range(last):
                writer.write_table(file.read_row_group(group))
            table, row = spoil(file.read_row_group(last))
            writer.write_table(table.cast(parquet.ARROW))
            return int(table["index"][row].as_py())


def _with(table: Any, row: int, **values: Any) -> Any:
    """The table with other values in one row."""
    changed = table.slice(row, 1).to_pylist()[0] | values
    one = pa.Table.from_pylist([changed], schema=parquet.ARROW)
    parts = [table.slice(0, row), one, table.slice(row + 1)]
    return pa.concat_tables([part.cast(parquet.ARROW) for part in parts])


def _rows(table: Any, origin: int) -> list[int]:
    """Where messages of this origin are delivered."""
    is_wanted = pc.and_(
        pc.equal(table["kind"].cast("string"), "deliver"), pc.equal(table["origin"], origin)
    )
    return [int(row) for row in pc.indices_nonzero(is_wanted).to_pylist()]


def _alter(table: Any) -> tuple[Any, int]:
    row = _rows(table, 0)[len(_rows(table, 0)) // 2]
    return _with(table, row, digest=1), row


def _swap(table: Any) -> tuple[Any, int]:
    """The last two of p1, which p1 broadcast one after the other."""
    *_, one, other = _rows(table, 0)
    first, second = table.slice(one, 1).to_pylist()[0], table.slice(other, 1).to_pylist()[0]
    names = ("origin", "seq", "digest")
    swapped = _with(table, one, **{name: second[name] for name in names})
    return _with(swapped, other, **{name: first[name] for name in names}), one


def _forget(table: Any) -> tuple[Any, int]:
    """p2's last message of p1 is stored and never delivered."""
    row = _rows(table, 0)[-1]
    return _with(table, row, kind="held"), row


def _forget_ones_own(table: Any) -> tuple[Any, int]:
    row = _rows(table, 1)[-1]
    return _with(table, row, kind="held"), row


def _repeat(table: Any) -> tuple[Any, int]:
    """The last row is ``settle``: before it comes one more delivery."""
    end = len(table) - 1
    first = table.slice(_rows(table, 0)[0], 1).to_pylist()[0]
    index = table["index"][end].as_py()
    again = pa.Table.from_pylist([first | {"index": index}], schema=parquet.ARROW)
    settled = _with(table, end, index=index + 1).slice(end)
    parts = [table.slice(0, end), again, settled]
    return pa.concat_tables([part.cast(parquet.ARROW) for part in parts]), end


CASES: dict[str, tuple[Spoil, dict[Guarantee, int]]] = {
    "an altered text": (_alter, {Guarantee.NO_CREATION: 1}),
    "two swapped": (_swap, {Guarantee.CAUSAL_ORDER: 1}),
    "one forgotten": (_forget, {Guarantee.UNIFORM_AGREEMENT: 1}),
    "ones own forgotten": (
        _forget_ones_own,
        {Guarantee.VALIDITY: 1, Guarantee.UNIFORM_AGREEMENT: 1},
    ),
    "one repeated": (_repeat, {Guarantee.NO_DUPLICATION: 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_bad_event_among_millions_is_found_and_located(
    spark: SparkSession, trace: Path, tmp_path: Path, case: str
) -> None:
    spoil, expected = CASES[case]
    index = _spoilt(trace, tmp_path / "spoilt", spoil)
    audited = pipeline.audit(spark, tmp_path / "spoilt")
    verdicts = audited.verdicts["long"]
    violated = {one.guarantee: one.violated for one in verdicts if one.value is Value.VIOLATED}
    assert violated == expected
    assert all(one.value is not Value.UNKNOWN for one in verdicts)
    for verdict in verdicts:
        for violation in verdict.violations:
            assert violation.process == "p2"
            if "forgotten" not in case:
                assert ("p2", index) in {(at.process, at.index) for at in violation.witness}


@pytest.mark.parametrize("rival", ["duckdb", "polars"])
def test_the_rivals_of_the_benchmark_find_it_too(trace: Path, tmp_path: Path, rival: str) -> None:
    """Else it would be no race."""
    pytest.importorskip(rival, reason=f"{rival} is not installed: pip install 'tidings[bench]'")
    judges = import_module(f"rivals.{rival}_rival").judge
    names = [f"p{number}.parquet" for number in range(1, 6)]
    assert not any(judges([trace / name for name in names], 5).values())
    for number, (spoil, expected) in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        _spoilt(trace, folder, spoil)
        breaches = judges([folder / name for name in names], 5)
        assert {str(guarantee) for guarantee in expected} <= {
            guarantee for guarantee, count in breaches.items() if count
        }


def test_the_good_trace_is_good(spark: SparkSession, trace: Path) -> None:
    audited = pipeline.audit(spark, trace)
    assert {one.value for one in audited.verdicts["long"]} == {Value.HOLDS}
