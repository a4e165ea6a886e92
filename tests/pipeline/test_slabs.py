"""One long run in slabs, cut anywhere: the verdicts of the specification, to the last witness."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from pipeline_ways import by_arrays, specified_by
from slabs import LEAST_AND_MOST, Shuffled, any_limits, judged_anywhere, runs_of_all_kinds
from tidings.pipeline.arrays import rows as arrays_rows
from tidings.pipeline.arrays.findings import NOTHING
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.causes import Answer
from tidings.pipeline.arrays.long.early import OfPair
from tidings.pipeline.arrays.long.packing import Home, Note
from tidings.pipeline.arrays.plan import NotByArraysError
from tidings.pipeline.arrays.rows import read
from tidings.trace import parquet
from traces import random_cut_runs, random_runs, write_drafts

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from rivals import generate

RUNS = 200


@pytest.mark.parametrize(("seed", "group", "most"), [(0, 60, None), (1, 11, 2), (2, 200, 1)])
def test_slabs_cut_anywhere_and_the_specification_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, group: int, most: int | None
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", group)
    write_drafts(tmp_path / "trace", runs_of_all_kinds(RUNS, seed))
    (tmp_path / "spool").mkdir()
    found, exchange = judged_anywhere(tmp_path / "trace", tmp_path / "spool", seed, most)
    assert found is not None
    for run, verdicts in specified_by(tmp_path / "trace").items():
        shown = [msgspec.structs.replace(v, violations=v.violations[:most]) for v in verdicts]
        assert list(found[run]) == shown, run
    _assert_not_vacuous(exchange)


def _assert_not_vacuous(exchange: Shuffled) -> None:
    """Rows away from their messages, suspected texts, causes in other slabs: all these happened."""
    seen = Counter(type(one).__name__ for one in exchange.seen)
    assert seen[Note.__name__] > RUNS, seen
    assert seen[Answer.__name__] > RUNS, seen
    homes = [one for one in exchange.seen if isinstance(one, Home)]
    assert sum(home.digests is not None for home in homes) > RUNS // 10
    listed = [one for one in exchange.seen if isinstance(one, OfPair)]
    inherited = sum(int((one.early.cause[:, 0] == NOTHING).sum()) for one in listed)
    assert sum(len(one.early.at) for one in listed) > RUNS // 10
    assert inherited > RUNS // 50


@pytest.mark.parametrize("seed", range(4))
def test_slabs_as_they_are_cut_and_the_specification_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", 30)
    write_drafts(tmp_path / "trace", [*random_runs(40, seed), *random_cut_runs(20, seed)])
    (tmp_path / "spool").mkdir()
    limits = any_limits(Random(seed))
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert found == specified_by(tmp_path / "trace"), limits


@pytest.mark.parametrize("limit", ["most_slab_rows", "most_slab_cells"])
def test_a_slab_that_would_not_fit_in_memory_is_left_to_the_queries(
    tmp_path: Path, limit: str
) -> None:
    """However the run is cut, all rows about one message are in one slab."""
    write_drafts(tmp_path / "trace", random_runs(3, seed=5))
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=1, slab_rows=1)._replace(**{limit: 3})
    with pytest.raises(NotByArraysError, match=r"run run-0 has a slab that would not fit"):
        by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")


@pytest.mark.parametrize(
    ("spare", "again"), [(0, ("digest",)), (-1, ("digest", "kind", "origin", "seq"))]
)
def test_what_was_surveyed_is_read_again_only_if_it_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, again: tuple[str, ...]
) -> None:
    generate.long_run(tmp_path / "trace", 3000, 3)
    (tmp_path / "spool").mkdir()
    rows = sum(pq.read_metadata(file).num_rows for file in (tmp_path / "trace").glob("*.parquet"))
    seen = list[tuple[str, ...]]()

    def reading(path: str, columns: Sequence[str], groups: Sequence[int]) -> Any:
        seen.append(tuple(columns))
        return read(path, columns, groups)

    monkeypatch.setattr(arrays_rows, "read", reading)
    limits = JudgingLimits(batch_rows=1, kept_rows=rows + spare)
    by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert seen[3:] == [again] * 3


def test_every_limit_of_a_long_run_is_drawn() -> None:
    about_others = {"batch_rows", "batch_share", "longest_rows", "few_long_runs"}
    too_large = {"most_slab_rows", "most_slab_cells"}
    assert {*LEAST_AND_MOST} | about_others | too_large == {*JudgingLimits._fields}


def test_tasks_and_slabs_follow_from_the_rows() -> None:
    limits = JudgingLimits(task_rows=100, least_tasks=4, most_tasks=16, slab_rows=30)
    assert [limits.tasks(rows) for rows in (0, 400, 401, 1600, 10**9)] == [4, 4, 5, 16, 16]
    assert [limits.slabs(rows) for rows in (0, 120, 121, 10**4)] == [4, 4, 8, 336]
