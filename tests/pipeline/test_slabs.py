"""One long run in slabs, cut anywhere: the verdicts of the specification, to the last witness."""

from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from pipeline_ways import by_arrays, specified_by
from slabs import Shuffled, any_cutting, renumber, worse_runs
from tidings.pipeline.arrays import long
from tidings.pipeline.arrays.findings import NOTHING
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.causes import Answer
from tidings.pipeline.arrays.long.early import OfPair
from tidings.pipeline.arrays.long.packing import Home, Note
from tidings.pipeline.spark import plan
from tidings.pipeline.spark.plan import NotByArraysError
from tidings.trace import parquet
from traces import random_cut_runs, random_runs, write_drafts

RUNS = 200


@pytest.mark.parametrize(
    ("seed", "group", "most"), [(0, 60, None), (1, 11, None), (2, 5, 2), (3, 200, 1)]
)
def test_slabs_cut_anywhere_and_the_specification_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, group: int, most: int | None
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", group)
    monkeypatch.setattr(plan, "FEW_LONG_RUNS", RUNS)
    dice = np.random.default_rng(seed)
    monkeypatch.setattr(
        long, "cutting_for", lambda marks, low, begins, slabs: any_cutting(dice, len(low))
    )
    drafts = [
        *random_runs(RUNS // 2, seed),
        *random_cut_runs(RUNS // 4, seed),
        *worse_runs(RUNS // 4, seed),
    ]
    renumber(drafts, Random(seed))
    write_drafts(tmp_path / "trace", drafts)
    (tmp_path / "spool").mkdir()
    limits, exchange = JudgingLimits(batch_rows=1, slab_rows=20), Shuffled(seed)
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces", most, exchange)
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
    assert sum(one.found for one in listed) > RUNS // 10
    assert inherited > RUNS // 50


@pytest.mark.parametrize(("slab_rows", "tasks"), [(1, 1), (7, 2), (25, 3), (1000, 4)])
def test_slabs_as_they_are_cut_and_the_specification_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slab_rows: int, tasks: int
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", 30)
    monkeypatch.setattr(plan, "FEW_LONG_RUNS", RUNS)
    drafts = [*random_runs(60, slab_rows), *random_cut_runs(30, slab_rows)]
    write_drafts(tmp_path / "trace", drafts)
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=1, least_tasks=tasks, slab_rows=slab_rows)
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert found == specified_by(tmp_path / "trace")


def test_a_slab_that_would_not_fit_in_memory_is_left_to_the_queries(tmp_path: Path) -> None:
    """However the run is cut, all rows about one message are in one slab."""
    write_drafts(tmp_path / "trace", random_runs(3, seed=5))
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=1, slab_rows=1, most_slab_rows=3)
    with pytest.raises(NotByArraysError, match="about the same few messages"):
        by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
