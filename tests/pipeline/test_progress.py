"""What a progress line says, and when; and that every kind of Spark is heard."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidings.pipeline.arrays.following import MARKS, Marking, followed
from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage, exchanged_plainly
from tidings.pipeline.progress import Progress, StageProgress, marked
from tidings.pipeline.spark.tasks import tasks_of


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
        (
            StageProgress("asking", 10.0, tasks=(4, 8)),
            "asking: 10 s so far, 4 of 8 known tasks done",
        ),
        (StageProgress("reading", 100.0, 0.1), "reading: 10 %, about 15 min left"),
        (StageProgress("reading", 3600.0, 0.1), "reading: 10 %, about 9 h left"),
        (StageProgress("reading", 10.0, 0.9999), "reading: 99 %, about 1 s left"),
        (StageProgress("reading", 40.0, 0.5, still_s=39.0), "reading: 50 %, about 40 s left"),
        (StageProgress("reading", 40.0, 0.5, still_s=40.0), "reading: 50 %, 40 s so far"),
        (StageProgress("reading", 70.0, 0.9999, still_s=60.0), "reading: 70 s so far"),
        (StageProgress("reading", 10.0, 1.0, 1000), "reading: 100 events/s, 10 s so far"),
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


def test_before_the_first_stage_nothing_is_reported() -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    clock.now += 60.0
    progress.look()
    assert spoken == []


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


def _sum_at_three_places(exchange: Exchange) -> list[Parcel]:
    """Two items, each with a parcel for two of three places."""
    return exchange(
        [0, 1],
        lambda item: [Parcel(item, item), Parcel(item + 1, item)],
        [Stage(3, 3, lambda place, some: [Parcel(place, sum(some))])],
    )


SUMS = [Parcel(0, 0), Parcel(1, 1), Parcel(2, 1)]


def test_tasks_leave_marks_when_they_have_packed_and_when_they_have_worked(tmp_path: Path) -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)

    def looked_at(
        items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
    ) -> list[Parcel]:
        def look(item: Any) -> Iterable[Parcel]:
            packed = list(elsewhere(item))
            clock.now += 3
            progress.look()
            return packed

        elsewhere, folder = pack, next((tmp_path / "marks").iterdir())
        found = exchanged_plainly(items, look, stages)
        assert sum(file.stat().st_size for file in folder.iterdir()) == pytest.approx(MARKS, abs=3)
        progress.look()
        return found

    progress("judging")
    exchange = followed(looked_at, progress, tmp_path / "marks")
    assert _sum_at_three_places(exchange) == SUMS
    assert spoken == [
        "judging",
        "judging: 25 %, about 9 s left",
        "judging: 50 %, about 6 s left",
        "judging: 6 s so far",
    ]


def test_an_exchange_that_is_used_again_is_a_stage_of_its_own(tmp_path: Path) -> None:
    spoken: list[str] = []
    progress = Progress(spoken.append)
    progress("judging")
    exchange = followed(exchanged_plainly, progress, tmp_path / "marks")
    assert [_sum_at_three_places(exchange) for _ in "abc"] == 3 * [SUMS]
    assert spoken == ["judging", *2 * ["judging, once more where something is wrong"]]


def test_every_piece_that_is_done_makes_a_mark(tmp_path: Path) -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    progress("running")
    progress.expect_marks(tmp_path / "marks", 4)
    pieces = marked(("a", "b"), str(tmp_path / "marks"))
    clock.now += 6
    assert next(pieces) == "a"
    progress.look()
    assert list(pieces) == ["b"]
    progress.look()
    assert spoken[1:] == ["running: 6 s so far", "running: 50 %, about 6 s left"]


def test_a_worker_that_cannot_leave_marks_works_all_the_same(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert list(marked(("a", "b"), gone)) == ["a", "b"]
    assert list(Marking(lambda item: [Parcel(item, item)], gone, 9)(7)) == [Parcel(7, 7)]


def test_the_tasks_of_a_session_are_counted(spark: SparkSession) -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    spark.range(10).count()
    with progress.following(tasks_of(spark)):
        progress("counting")
        clock.now += 4
        progress.look()
        assert spoken[-1] == "counting: 4 s so far", "what was done before does not count"
        spark.range(0, 100, 1, 4).count()
        progress.look()
        before = spoken[-1]
        spark.range(0, 100, 1, 3).count()
        progress.look()
    counts = [
        re.fullmatch(r"counting: 4 s so far, (\d+) of \1 known tasks done", words)
        for words in (before, spoken[-1])
    ]
    assert all(counts)
    first, second = (int(match[1]) for match in counts if match)
    assert first < second, "more jobs may always follow"


def test_nobody_promises_that_almost_nothing_is_left_while_nothing_moves() -> None:
    """Never "99 %, about 0 s left": what takes that long is not about to end."""
    for share in (0.5, 0.98, 0.99, 0.9999, 1.0):
        for seconds in (3.0, 100.0, 10_000.0):
            for still_s in (0.0, 1.0, seconds):
                pace = StageProgress("judging", seconds, share, still_s=still_s)
                assert "0 s left" not in re.sub(r"[1-9]\d*0 s left", "", pace.words), pace
                left_s = seconds * (1 / share - 1)
                if still_s >= left_s:
                    assert "left" not in pace.words
                    assert "99 %" not in pace.words


def test_a_stage_that_goes_on_after_all_was_counted_promises_nothing() -> None:
    clock, spoken = Clock(), list[str]()
    progress = Progress(spoken.append, clock=clock)
    progress("judging")
    clock.now += 10
    progress.done(0.995)
    for _ in range(3):
        progress.look()
        clock.now += 1
    progress.done(1.0)
    progress.look()
    assert spoken[1:] == [
        "judging: 99 %, about 1 s left",
        "judging: 11 s so far",
        "judging: 12 s so far",
        "judging: 13 s so far",
    ]
