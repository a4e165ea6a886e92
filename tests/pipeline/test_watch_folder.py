"""What can happen to a trace folder, and to the watch, while the one reads what the other gets."""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from shorthand import Shorthand
from tidings import pipeline
from tidings.cli import watch
from tidings.core import DataError, UsageError
from tidings.pipeline.watching import running
from tidings.pipeline.watching.growing import Growing, Offset, pieces_in
from tidings.pipeline.watching.running import WatchOptions, conclusion
from tidings.pipeline.watching.status import Status, read_status, write_status
from tidings.spec import Value
from tidings.trace.segments import Mark, Reader
from watched_folders import Reading
from writing_members import NAMES, Writer, broadcast, deliver, new_trace, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_trace(tmp_path)


def test_a_run_of_which_nothing_was_read_is_unknown(folder: Path, tmp_path: Path) -> None:
    """Somebody interrupted the watch before its first batch, or nobody has written anything."""
    for name in NAMES:
        Writer(folder, name)
    found = conclusion(WatchOptions(str(tmp_path / "checkpoint"), str(folder)))
    assert {one.value for one in found["live"]} == {Value.UNKNOWN}
    assert found == pipeline.audit_here(folder).verdicts


# --- files come in any order


def _segments(folder: Path, count: int) -> list[Path]:
    """As p1 leaves them, ten broadcasts in each; the last one is open."""
    p1 = Writer(folder, "p1")
    for number in range(count):
        p1.write(broadcast("p1", 10 * number + 1))
        if number + 1 < count:
            p1.turn_over()
    return [*(folder / f"p1-{number}.segment" for number in range(1, count)), p1.path]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_segments_are_read_in_whichever_order_they_come(
    folder: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    paths = _segments(folder, 4)
    for path in paths:
        path.rename(tmp_path / path.name)
    growing = Growing(folder)
    offset: Offset = {}
    begun: list[int] = []
    for number in order:
        (tmp_path / paths[number].name).rename(paths[number])
        after = growing.latest(offset, 1 << 30)
        for _ in range(2):  # a batch that is repeated reads the same
            read = [one.begin for part in growing.slices(offset, after) for one in pieces_in(part)]
            assert read == [10 * number]
        begun += read
        offset = after
    assert sorted(begun) == [0, 10, 20, 30]
    assert growing.latest(offset, 1 << 30) == offset


def test_a_segment_that_came_late_is_not_read_while_it_is_open(folder: Path) -> None:
    _, second, _ = _segments(folder, 3)
    opened = second.rename(second.with_name("p1-2.segment.open"))
    hidden = opened.rename(folder / "elsewhere")
    growing = Growing(folder)
    offset = growing.latest({}, 1 << 30)
    hidden.rename(opened)
    assert growing.latest(offset, 1 << 30) == offset
    opened.rename(second)
    after = growing.latest(offset, 1 << 30)
    assert [one.name for one in growing.slices(offset, after)] == [second.name]


def test_what_retention_deletes_unread_is_not_waited_for(folder: Path) -> None:
    first, second, *others = _segments(folder, 4)
    growing = Growing(folder)
    offset = growing.latest({}, first.stat().st_size)
    second.unlink()
    assert "2" in growing.latest(offset, 1 << 30)["p1"]
    first.unlink()
    assert "2" not in growing.latest(offset, 1 << 30)["p1"]
    assert all(path.exists() for path in others)


def test_a_segment_may_get_its_other_name_while_one_looks_for_it(folder: Path) -> None:
    p1 = Writer(folder, "p1")
    p1.write(broadcast("p1", 1))
    reader = Reader(p1.path)
    closed = p1.path.rename(folder / "p1-1.segment")
    assert [block.index for block in reader.blocks()] == [0]
    reader = Reader(closed)
    closed.rename(p1.path)  # its writer goes on in it
    p1.write(broadcast("p1", 11), torn=3)
    assert [block.index for block in reader.blocks()] == [0]


def test_a_segment_deleted_while_one_looks_for_it_has_no_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = _segments(folder, 2)
    growing = Growing(folder)
    after = growing.latest({}, 1 << 30)
    slices = growing.slices({}, after)
    listed = growing.segments()
    monkeypatch.setattr("tidings.pipeline.watching.growing._named", lambda closed: closed)
    monkeypatch.setattr(growing, "segments", lambda: listed)
    first.unlink()
    assert [piece.begin for part in slices for piece in pieces_in(part)] == [10]
    assert growing.recall("live", "p1", 0, 5) is None


def test_a_file_that_grows_after_it_was_read_is_refused(folder: Path) -> None:
    rows = [msgspec.json.encode(row) for row in Shorthand(p1="b1 dp1#1").rows()]
    path, growing = folder / "rows.jsonl", Growing(folder)
    path.write_bytes(rows[0] + b"\n")
    offset = growing.latest({}, 1 << 30)
    assert growing.latest(offset, 1 << 30) == offset
    path.write_bytes(b"\n".join(rows) + b"\n")
    with pytest.raises(DataError, match=r"rows\.jsonl: changed after it was read"):
        growing.latest(offset, 1 << 30)
    path.unlink()
    assert growing.latest(offset, 1 << 30) == offset


def test_a_file_that_is_deleted_while_the_folder_is_listed_has_no_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, deleted = folder / "a.jsonl", folder / "b.jsonl"
    kept.write_bytes(b"")
    listed = [*folder.iterdir(), deleted]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    assert Growing(folder).files() == {"a.jsonl": 0}


def test_a_segment_with_a_number_far_too_high_is_refused(folder: Path) -> None:
    first, *_ = _segments(folder, 2)
    far = folder / "p1-99999999999.segment"
    far.write_bytes(first.read_bytes())
    with pytest.raises(DataError, match=r"p1-99999999999\.segment: more than 10,000 segments"):
        Growing(folder).latest({}, 1 << 30)
    far.unlink()
    assert Growing(folder).latest({}, 1 << 30)["p1"]["segment"] == 2


def test_rows_may_come_a_moment_before_the_manifest_that_tells_of_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q1 = Writer(folder, "q1")
    q1.write(msgspec.structs.replace(broadcast("q1", 1), view=1))
    reading = Reading(folder, tmp_path / "checkpoint")
    monkeypatch.setattr("time.sleep", lambda _: write_manifest(folder, lone=("q1",)))
    reading.look()
    status = read_status(reading.options.place)
    assert status is not None
    assert status.rows == 10


@pytest.mark.parametrize(
    ("process", "view", "words"),
    [("q1", 0, "q1 is not among the manifest's names"), ("p1", 1, "p1: view 1 is not in the man")],
)
def test_rows_that_no_manifest_tells_of_are_bad_data(
    folder: Path, tmp_path: Path, process: str, view: int, words: str
) -> None:
    Writer(folder, process).write(msgspec.structs.replace(broadcast(process, 1), view=view))
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.options = msgspec.structs.replace(reading.options, patience_s=0.0)
    reading.restart()
    with pytest.raises(DataError, match=words):
        reading.look()


# --- patience

PATIENCE_S = WatchOptions("").patience_s


def _without_a_part(folder: Path, number: int) -> Path:
    """Everybody has said all, but this segment of p1 has not come; where it is."""
    p1, p2, p3 = (Writer(folder, name) for name in NAMES)
    p1.write(broadcast("p1", 1))
    p1.turn_over()
    p1.write(deliver("p1", 1))
    p1.turn_over()
    p1.write(Mark("settle"))
    for one in (p2, p3):
        one.write(deliver("p1", 1), Mark("settle"))
    return (folder / f"p1-{number}.segment").rename(folder / "late")


def test_what_comes_after_the_driver_was_down_for_long_is_no_hole(
    folder: Path, tmp_path: Path
) -> None:
    late = _without_a_part(folder, 2)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    reading.restart()
    reading.look(100 * PATIENCE_S)
    late.rename(folder / "p1-2.segment")
    reading.look(100.5 * PATIENCE_S)
    assert conclusion(reading.options) == pipeline.audit_here(folder).verdicts
    assert {one.value for one in conclusion(reading.options)["live"]} == {Value.HOLDS}


def test_what_comes_in_the_last_moment_is_no_hole(folder: Path, tmp_path: Path) -> None:
    late = _without_a_part(folder, 2)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    late.rename(folder / "p1-2.segment")
    reading.look(2 * PATIENCE_S)
    assert {one.value for one in conclusion(reading.options)["live"]} == {Value.HOLDS}


def test_a_beginning_that_does_not_come_is_a_hole_like_any_other(
    folder: Path, tmp_path: Path
) -> None:
    _without_a_part(folder, 1)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    reading.look(2 * PATIENCE_S)
    status = read_status(reading.options.place)
    assert status is not None
    assert [one.late for one in status.runs[0].members] == [0, 0, 0]
    assert "a part of p1's history is missing" in {one.reason for one in status.verdicts}


# --- when the watch ends


class _Restarted:
    """A watch of a run that had ended when the last driver stopped, and goes on."""

    def __init__(self, options: WatchOptions, steps: Iterator[None]) -> None:
        self.options = options
        self.query = SimpleNamespace(isActive=True, stop=lambda: None)
        self._steps = steps

    @property
    def status(self) -> Status | None:
        return read_status(self.options.place)

    def judge_what_is_there(self) -> None:
        next(self._steps, None)

    def refuse_failure(self) -> None:
        pass


def test_a_watch_does_not_end_by_what_its_last_start_had_seen(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "CALM_S", 0.0)
    reading = Reading(folder, tmp_path / "checkpoint")
    members = [Writer(folder, name) for name in NAMES]

    def lives() -> Iterator[None]:
        for first in (1, 11):
            members[0].write(Mark("recover"), broadcast("p1", first))
            for one in members:
                one.write(deliver("p1", first), Mark("settle"))
            reading.look()
            yield

    steps = lives()
    next(steps)
    watching: Any = _Restarted(reading.options, steps)
    show = watch._Show(watching, "trace", None, as_json=True)
    watch._follow(watching, show, once=False)
    assert show.status is not None
    assert show.status.batch == 1
    assert {one.value for one in conclusion(reading.options)["live"]} == {Value.HOLDS}


def _ended(reading: Reading) -> tuple[bool, bool]:
    status = read_status(reading.options.place)
    assert status is not None
    (run,) = status.runs
    return run.has_ended, run.has_ended_but_for_parts


def test_a_hole_does_not_keep_a_watch_from_ending(folder: Path, tmp_path: Path) -> None:
    _without_a_part(folder, 2)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    assert _ended(reading) == (False, True)
    reading.look(2 * PATIENCE_S)
    assert _ended(reading) == (True, True)


def test_a_hole_at_the_beginning_does_not_keep_it_either(folder: Path, tmp_path: Path) -> None:
    _without_a_part(folder, 1)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    assert _ended(reading) == (False, True)


@pytest.mark.parametrize("fate", ["crashed", None])
def test_a_member_without_rows_is_waited_for_unless_its_fate_is_known(
    folder: Path, tmp_path: Path, fate: Any
) -> None:
    manifest = next(iter(Growing(folder).manifests().values()))
    with_fate = msgspec.structs.replace(manifest, fates={"p3": fate} if fate else {})
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(with_fate) + b"\n")
    for name in NAMES[:2]:
        Writer(folder, name).write(Mark("settle"))
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look()
    assert _ended(reading) == (False, fate is not None)


def test_what_is_missing_behind_the_last_rows_is_waited_for_as_long_as_patience_lasts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark calls the judge for new rows only, and none come."""
    _without_a_part(folder, 2)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look()
    watching: Any = _Restarted(reading.options, iter(()))
    show = watch._Show(watching, "trace", None, as_json=True)
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(
        watch, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    )
    watch._follow(watching, show, once=False)
    assert next(clock) > PATIENCE_S
    assert {one.value for one in conclusion(reading.options)["live"]} == {Value.UNKNOWN}


def test_whoever_interrupts_gets_lines_of_json_and_no_others(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look()
    watching: Any = _Restarted(reading.options, iter(()))

    class Interrupted(watch._Show):
        def look(self) -> bool:
            is_new = super().look()
            if not self.is_interrupted:
                self.is_interrupted = True
                raise KeyboardInterrupt
            return is_new

        is_interrupted = False

    watch._follow(watching, Interrupted(watching, "trace", None, as_json=True), once=False)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "interrupted" in printed.err


def test_an_alarm_is_printed_once_even_if_its_batch_is_not_done_yet(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    p1 = Writer(folder, "p1")
    p1.write(broadcast("p1", 1), deliver("p1", 1))
    reading.look()
    watching: Any = _Restarted(reading.options, iter(()))
    show = watch._Show(watching, "trace", None, as_json=True)

    def look_and_write(place: Path, status: Status) -> None:
        assert show.look()
        write_status(place, status)

    monkeypatch.setattr(running, "write_status", look_and_write)
    p1.write(deliver("p1", 1, 1))
    reading.look()
    assert show.look()
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_what_came_when_nobody_waited_any_longer_is_audited(folder: Path, tmp_path: Path) -> None:
    late = _without_a_part(folder, 2)
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0.0)
    reading.look(2 * PATIENCE_S)
    assert {one.value for one in conclusion(reading.options)["live"]} == {Value.UNKNOWN}
    late.rename(folder / "p1-2.segment")
    reading.look(3 * PATIENCE_S)
    watching: Any = SimpleNamespace(
        options=reading.options, verdicts=lambda: conclusion(reading.options)
    )
    assert {one.value for one in watch._concluded(watching)["live"]} == {Value.HOLDS}


# --- what is owed


def _owed_by_p2(reading: Reading, now_s: float) -> list[tuple[int, int, float]]:
    reading.look(now_s)
    status = read_status(reading.options.place)
    assert status is not None
    owed = status.runs[0].owed
    return [(one.first, one.last, one.since_s) for one in owed if one.process == "p2"]


def test_a_member_that_lags_owes_since_then_and_not_since_its_last_delivery(
    folder: Path, tmp_path: Path
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    p1, p2 = Writer(folder, "p1"), Writer(folder, "p2")
    p1.write(broadcast("p1", 1), deliver("p1", 1))
    assert _owed_by_p2(reading, 100.0) == [(1, 10, 100.0)]
    p1.write(broadcast("p1", 11), deliver("p1", 11))
    p2.write(deliver("p1", 1, 5))
    assert _owed_by_p2(reading, 110.0) == [(6, 20, 100.0)]
    reading.restart()
    p2.write(deliver("p1", 6, 7))
    assert _owed_by_p2(reading, 120.0) == [(13, 20, 110.0)]
    p2.write(deliver("p1", 13, 8))
    assert _owed_by_p2(reading, 130.0) == []


def test_since_when_something_is_owed_is_known_about_well_after_any_time() -> None:
    steps: list[tuple[int, float]] = []
    for second in range(1, 3_001):
        first = max(1, second - 600)
        steps = running._stepped(steps, first, second, float(second))
        assert first <= steps[0][1] <= first + 60
        assert len(steps) <= running.STEPS


def test_a_checkpoint_that_cannot_be_read_is_refused(folder: Path, tmp_path: Path) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look()
    (reading.options.place / "state").write_bytes(b"something else")
    with pytest.raises(DataError, match="of another version of tidings, or damaged"):
        conclusion(reading.options)


def test_a_checkpoint_is_of_one_folder(tmp_path: Path) -> None:
    here, there = (WatchOptions(str(tmp_path / "c"), str(tmp_path / one)) for one in ("a", "b"))
    running.refuse_another_source(here)
    running.refuse_another_source(here)
    with pytest.raises(UsageError, match=r"is of a watch of .*/a; choose another one"):
        running.refuse_another_source(there)
