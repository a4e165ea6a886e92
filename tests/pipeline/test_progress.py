"""What a progress line says, and when; and that every kind of Spark is heard."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.pipeline.spark.progress import Progress, StageProgress


class Clock:
    """Time as the test tells it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (StageProgress("reading", 1.9, 0.5, 1000), "reading"),
        (StageProgress("reading", 9.0), "reading: 9 s so far"),
        (StageProgress("reading", 10.0, 0.01, 500_000), "reading: 1 %, 500 events/s"),
        (
            StageProgress("reading", 10.0, 0.25, 400_000_123),
            "reading: 25 %, 10,000,000 events/s, about 30 s left",
        ),
        (
            StageProgress("running", 10.0, 0.5, 84, "runs"),
            "running: 50 %, 4 runs/s, about 10 s left",
        ),
        (StageProgress("asking", 10.0, 0.5, is_sure=False), "asking: 50 %, at least 10 s left"),
        (StageProgress("reading", 100.0, 0.1), "reading: 10 %, about 15 min left"),
        (StageProgress("reading", 3600.0, 0.1), "reading: 10 %, about 9 h left"),
        (StageProgress("reading", 10.0, 1.0), "reading: 99 %, about 0 s left"),
    ],
)
def test_the_line_says_what_is_known_and_no_more(pace: StageProgress, words: str) -> None:
    assert pace.words == words


def test_a_stage_is_reported_at_once_and_figures_only_after_two_seconds() -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, every_s=5.0, clock=clock)
    progress("reading")
    progress.expect(1000, "runs")
    for second in range(13):
        clock.now = 100.0 + second
        progress.done(second / 20)
        progress.look()
    assert spoken == [
        "reading",
        "reading: 25 %, 50 runs/s, about 15 s left",
        "reading: 50 %, 50 runs/s, about 10 s left",
    ]


def test_what_is_done_is_not_undone_and_every_stage_begins_with_nothing() -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    progress("reading")
    clock.now += 10
    progress.done(0.5)
    progress.done(0.2)
    progress.look()
    progress("judging")
    clock.now += 10
    progress.look()
    assert spoken == [
        "reading",
        "reading: 50 %, about 10 s left",
        "judging",
        "judging: 10 s so far",
    ]


def test_tasks_leave_a_mark_for_every_piece_they_have_read(tmp_path: Path) -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    progress("judging")
    answer = progress.marked(("a", "b"), 2, tmp_path / "marks")
    elsewhere = pickle.loads(pickle.dumps(answer))
    assert list(elsewhere) == ["a", "b"]
    clock.now += 6
    progress.look()
    assert next(iter(elsewhere)) == "a"
    assert list(zip(elsewhere, "xy", strict=True)) == [("a", "x"), ("b", "y")]
    progress.look()
    assert spoken[1:] == ["judging: 50 %, about 6 s left", "judging: 99 %, about 0 s left"]


def test_a_worker_that_cannot_leave_marks_works_all_the_same(tmp_path: Path) -> None:
    answer = Progress().marked(("a", "b"), 1, tmp_path / "marks")
    (tmp_path / "marks").rmdir()
    assert list(answer) == ["a", "b"]


def test_the_tasks_of_a_session_are_counted(spark: SparkSession) -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    spark.range(10).count()
    with progress.following(spark):
        progress("counting")
        clock.now += 4
        progress.look()
        assert spoken[-1] == "counting: 4 s so far", "what was done before does not count"
        spark.range(0, 100, 1, 4).count()
        progress.look()
    assert spoken[-1] == "counting: 99 %, at least 0 s left"
