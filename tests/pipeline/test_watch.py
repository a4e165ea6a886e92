"""The judge of a running group answers to the specification, however the rows reach it."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from random import Random

import msgspec
import pytest

from changing_traces import changing_runs, simulated
from shorthand import Shorthand
from tidings.core import DataError, Exit
from tidings.demo.simulated import BREAKS
from tidings.pipeline.watching.final import final_verdicts, verdicts
from tidings.pipeline.watching.judge import Judge, WatchLimits
from tidings.pipeline.watching.mapped import manifest_of
from tidings.pipeline.watching.pieces import Piece, pieces_of_rows
from tidings.pipeline.watching.stored import loaded, stored
from tidings.simulator import Plan, walk
from tidings.spec import Extra, Guarantee, Value, Violation, exit_status, judge
from tidings.trace import HistoryCut, Row, Run
from traces import Draft, random_cut_runs, random_runs
from watched_runs import Source, as_run, in_pieces, in_turns, without_causes

DEFAULT = WatchLimits()
TINY = WatchLimits(window_rows=8, waiting_rows=4, chunk_rows=3)
NONE = WatchLimits(window_rows=0, waiting_rows=0, chunk_rows=2, strays=3)
HARSH = {"processes": 5, "broadcasts": 60, "crashes": 2, "duplicated": 0.1, "mid_broadcast": 1.0}


def _drafts(count: int, seed: int) -> list[Draft]:
    """Good and flawed, with restarts, gaps, cuts, and groups that change."""
    return [
        *random_runs(count, seed),
        *random_cut_runs(count // 2, seed),
        *changing_runs(count // 4, seed),
    ]


def _watched(run: Run, rng: Random, limits: WatchLimits, stops: bool = False) -> Judge:
    watch = Judge(run.manifest, limits, Source(run))
    for some in in_pieces(run, rng):
        watch.take(some)
        if stops and rng.random() < 0.3:
            watch = loaded(stored(watch), limits, watch.rows.recall)
    return watch


@pytest.mark.parametrize("stops", [False, True])
def test_pieces_in_any_order_are_judged_as_specified(stops: bool) -> None:
    for draft in _drafts(100, seed=int(stops)):
        run = as_run(draft)
        watch = _watched(run, Random(draft.run), DEFAULT, stops)
        found = without_causes(final_verdicts(watch, run.manifest))
        assert found == without_causes(judge(run)), draft.run


@pytest.mark.parametrize("what", BREAKS)
def test_each_mutant_is_judged_as_specified(what: str) -> None:
    runs = (walk(Plan(protocol=BREAKS[what], **HARSH), seed) for seed in range(20))
    run = next(run for run in runs if exit_status(judge(run)) is Exit.VIOLATED)
    watch = _watched(run, Random(1), DEFAULT)
    found = without_causes(final_verdicts(watch, run.manifest))
    assert found == without_causes(judge(run))
    violated = [one.guarantee for one in found if one.value is Value.VIOLATED]
    assert violated == [dict(zip(BREAKS, Guarantee, strict=True))[what]]


@pytest.mark.parametrize(("limits", "least"), [(TINY, 0.97), (NONE, 0.6)])
def test_what_leaves_a_tiny_window_is_read_again_or_unknown(
    limits: WatchLimits, least: float
) -> None:
    same = []
    for draft in _drafts(70, seed=7):
        run = as_run(draft)
        watch = _watched(run, Random(draft.run), limits, stops=True)
        for found, expected in zip(
            without_causes(final_verdicts(watch, run.manifest)),
            without_causes(judge(run)),
            strict=True,
        ):
            same.append(found == expected)
            if not same[-1]:
                gave_up = found.reason not in ("", expected.reason) or "not all" in found.note
                assert gave_up, f"{draft.run}: {found} instead of {expected}"
                assert found.value in (Value.UNKNOWN, expected.value), draft.run
    assert sum(same) > least * len(same)


def test_without_a_source_nothing_is_accused_that_cannot_be_shown() -> None:
    given_up = 0
    for draft in _drafts(40, seed=8):
        run = as_run(draft)
        watch = Judge(run.manifest, TINY)
        for some in in_pieces(run, Random(draft.run)):
            watch.take(some)
        found = without_causes(final_verdicts(watch, run.manifest))
        for one, expected in zip(found, without_causes(judge(run)), strict=True):
            given_up += one != expected
            assert one.value in (Value.UNKNOWN, expected.value), f"{draft.run}: {one}"
    assert given_up > 20


def _safety(run: Run) -> set[Violation]:
    return {one for verdict in without_causes(judge(run)) for one in verdict.violations}


def test_every_alarm_is_a_violation_of_the_whole_run() -> None:
    """Except where a later gap excuses, or a second broadcast explains a forged text.

    And a view that was installed in two ways stands with another row when more have been read.
    """
    alarms = 0
    for draft in _drafts(100, seed=3):
        run = as_run(draft)
        watch = Judge(run.manifest, recall=Source(run))
        raised = [one for some in in_turns(run) for one in watch.take(some)]
        is_renamed = any(use.witness[0].process == use.process for use in raised
                         if use.guarantee is Guarantee.NO_CREATION)  # fmt: skip
        if not run.holed and not is_renamed:
            of_five = {one for one in raised if one.guarantee is not Extra.VIEWS}
            assert of_five <= _safety(run), draft.run
            alarms += len(of_five)
        assert len(raised) == len(set(raised))
    assert alarms > 60


def test_groups_that_change_as_they_should_raise_no_alarm() -> None:
    """In whichever order the rows come."""
    for seed, run in enumerate(simulated()):
        watch = Judge(run.manifest, DEFAULT, Source(run))
        for some in in_pieces(run, Random(seed)):
            assert not watch.take(some)
        assert not watch.given_up
        assert final_verdicts(watch, run.manifest) == judge(run)


def test_what_breaks_a_rule_of_views_raises_an_alarm() -> None:
    """Of most violations the same as at the end: another row may stand for a decision by then."""
    known = expected = 0
    for draft in changing_runs(60, seed=5):
        run = as_run(draft)
        watch = Judge(run.manifest, DEFAULT, Source(run))
        raised = {one for some in in_turns(run) for one in watch.take(some)}
        *_, views = judge(run)
        if views.guarantee is Extra.VIEWS and not run.holed:
            assert bool(views.violations) <= any(one.guarantee is Extra.VIEWS for one in raised)
            expected += len(views.violations)
            known += len(raised & set(views.violations))
    assert known > 0.9 * expected > 20


def test_a_watch_that_stops_raises_the_same_alarms() -> None:
    for draft in _drafts(30, seed=4):
        run = as_run(draft)
        through, stopped = Judge(run.manifest), Judge(run.manifest)
        for some in in_pieces(run, Random(draft.run)):
            expected = through.take(some)
            again = loaded(stored(stopped))
            assert again.take(some) == expected, draft.run
            stopped = loaded(stored(again))


def test_a_checkpoint_of_another_version_is_refused() -> None:
    of_another = msgspec.msgpack.encode({"format": 1, "run": "r"})
    with pytest.raises(DataError, match="of another version of tidings"):
        loaded(of_another)


def test_in_a_run_without_faults_the_state_does_not_grow() -> None:
    sizes = {}
    for broadcasts in (50, 200):
        run = walk(Plan(protocol="frontier", processes=3, broadcasts=broadcasts), seed=1)
        watch = Judge(run.manifest)
        for some in in_turns(run):
            watch.take(some)
        sizes[broadcasts] = len(stored(watch))
        assert [one.value for one in final_verdicts(watch, run.manifest)] == ["holds"] * 5
    assert sizes[200] < 1.1 * sizes[50]


def test_a_member_that_was_away_for_long_is_judged_by_what_the_source_still_has() -> None:
    sent = " ".join(f"b{number} dp1#{number}" for number in range(1, 101))
    heard = " ".join(f"dp1#{number}" for number in range(1, 101))
    swapped = heard.replace("dp1#70 dp1#71", "dp1#71 dp1#70")
    script = Shorthand(p1=f"{sent} settle", p2=f"{heard} settle", p3=f"{swapped} settle")
    run = script.run()
    watch = Judge(run.manifest, WatchLimits(window_rows=50, chunk_rows=40), source := Source(run))
    for some in in_turns(run):
        watch.take([piece for piece in some if piece.process != "p3"])
    assert source.asked == 0
    assert sum(history.events.size for history in watch.histories) <= 50
    alarms = []
    for some in in_turns(run):
        alarms += watch.take([piece for piece in some if piece.process == "p3"])
    assert source.asked > 0
    assert [str(one.message) for one in alarms] == ["p1#71"]
    found = without_causes(final_verdicts(watch, run.manifest))
    assert found == without_causes(judge(run))


def test_rows_that_come_before_the_cut_is_known_are_no_part_behind_a_hole() -> None:
    script = Shorthand(p1="b3 dp1#3 settle", p2="dp1#3 settle", p3="dp1#3 settle")
    script.cuts = {"p1": HistoryCut(index=4, broadcast=2, delivered={"p1": 2})}
    run = script.run()
    before = msgspec.structs.replace(run.manifest, cuts={})
    watch = Judge(before)
    first, *rest = in_turns(run, count=1)
    watch.take(first)
    watch.know(run.manifest)
    for some in rest:
        watch.take(some)
    assert final_verdicts(watch, run.manifest) == judge(run)
    assert exit_status(judge(run)) is Exit.HOLDS


def _heard(last: int) -> str:
    return " ".join(f"dp1#{number}" for number in range(1, last + 1))


def test_what_is_repeated_again_and_again_does_not_read_the_whole_history_each_time() -> None:
    sent = " ".join(f"b{number} dp1#{number}" for number in range(1, 301))
    repeated = "dp1#270 dp1#5 dp1#270 dp1#5 dp1#271"
    script = Shorthand(p1=f"{sent} settle", p2=f"{_heard(300)} {repeated} settle", p3="crash")
    run = script.run()
    p1, p2, p3 = (run.histories[name] for name in ("p1", "p2", "p3"))
    watch = Judge(run.manifest, WatchLimits(window_rows=20, chunk_rows=10), source := Source(run))
    for begin in range(0, 300, 10):
        rows = [*p1[2 * begin : 2 * begin + 20], *p2[begin : begin + 10]]
        watch.take(pieces_of_rows(rows))
    asked = []
    for row in p2[300:]:
        source.asked = 0
        watch.take(pieces_of_rows([row]))
        asked.append(source.asked)
    recent, long_ago, again, long_ago_again, next_one, nothing = asked
    assert again < recent < 15 < long_ago_again < long_ago
    assert next_one < 15
    assert nothing == 0
    watch.take(pieces_of_rows([*p1[600:], *p3]))
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def test_names_that_are_used_again_are_looked_for_all_at_once() -> None:
    """And that one of them is used with the same text a third time is nothing to remember."""
    sent = " ".join(f"b{number} dp1#{number}" for number in range(1, 101))
    again = " ".join(f"b{number}" for number in range(1, 101))
    heard = f"{_heard(100)} settle"
    run = Shorthand(p1=f"{sent} {again} {again} settle", p2=heard, p3=heard).run()
    watch = Judge(run.manifest, WatchLimits(chunk_rows=50), source := Source(run))
    for rows in run.histories.values():
        watch.take(pieces_of_rows(rows[:200]))
    assert sum(history.events.size for history in watch.histories) == 0
    for begin in (200, 300):
        source.asked = 0
        alarms = watch.take(pieces_of_rows(run.histories["p1"][begin : begin + 100]))
        assert len(alarms) == 100
        assert source.asked <= 4
    assert {len(texts) for texts in watch.findings.again.values()} == {1}
    watch.take(pieces_of_rows(run.histories["p1"][400:]))
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def test_what_left_the_window_before_its_broadcast_came_is_decided_without_reading_all_again() -> (
    None
):
    swapped = _heard(400).replace("dp1#70 dp1#71", "dp1#71 dp1#70")
    sent = " ".join(f"b{number} dp1#{number}" for number in range(1, 401))
    script = Shorthand(p1=f"{sent} settle", p2=f"{swapped} settle", p3="crash")
    run = script.run()
    limits, source = WatchLimits(window_rows=100, waiting_rows=50, chunk_rows=50), Source(run)
    asked: Counter[str] = Counter()

    def recall(name: str, process: str, begin: int, end: int) -> Iterator[Piece]:
        asked[process] += 1
        return source(name, process, begin, end)

    watch = Judge(run.manifest, limits, recall)
    watch.take(pieces_of_rows([*run.histories["p2"], *run.histories["p3"]]))
    assert len(watch.strays.waiting) > 200
    alarms = [
        alarm
        for begin in range(0, 900, 20)
        for alarm in watch.take(pieces_of_rows(run.histories["p1"][begin : begin + 20]))
    ]
    assert [str(one.message) for one in alarms] == ["p1#71"]
    # p1 is behind p2 by now, and reads what it has yet to pass, chunk by chunk.
    assert asked["p1"] <= 1
    assert asked["p2"] < 200
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def test_what_waits_for_a_cause_that_never_comes_reads_nothing_meanwhile() -> None:
    """Nobody broadcast p3#9, which p1 delivered before it broadcast what p2 delivers."""
    run = Shorthand(
        p1="dp3#9 b1 b2 b3 dp1#1 dp1#2 dp1#3 settle",
        p2="dp1#1 dp1#2 dp1#3 settle",
        p3="dp1#1 dp1#2 dp1#3 settle",
    ).run()
    limits = WatchLimits(window_rows=0, waiting_rows=0, chunk_rows=2)
    watch = Judge(run.manifest, limits, source := Source(run))
    watch.take(pieces_of_rows(run.histories["p2"]))
    watch.take(pieces_of_rows(run.histories["p1"]))
    assert watch.strays.waiting
    source.asked = 0
    for _ in range(20):
        watch.take([])
    assert source.asked == 0
    watch.take(pieces_of_rows(run.histories["p3"]))
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def _with_causes_of_p3(seqs: range) -> Judge:
    """Nobody waits any longer for what p3 broadcast. p1 delivered it before its own messages."""
    seen = " ".join(f"dp3#{seq} b{place}" for place, seq in enumerate(seqs, start=1))
    swapped = " ".join(f"dp1#{place} dp3#{seq}" for place, seq in enumerate(seqs, start=1))
    run = Shorthand(p1=seen, p2=swapped).run()
    watch = Judge(run.manifest, WatchLimits(strays=20))
    watch.take(piece for rows in run.histories.values() for piece in pieces_of_rows(rows))
    watch.take([], since=watch.standing)
    return loaded(stored(watch), watch.limits)


def _presumed(watch: Judge) -> list[tuple[int, int]]:
    """What of p3 was taken as never broadcast when p2 was judged; nothing else was."""
    (by_reader,) = watch.strays.presumed.values()
    assert watch.strays.presumed.keys() == {watch.numbers["p3"]}
    assert by_reader.keys() == {watch.numbers["p2"]}
    return by_reader[watch.numbers["p2"]].pairs


def test_causes_that_never_come_are_kept_as_ranges() -> None:
    watch = _with_causes_of_p3(range(1, 101))
    assert not watch.given_up
    assert _presumed(watch) == [(1, 100)]
    known = pieces_of_rows(Shorthand(p3=" ".join(f"b{seq}" for seq in range(1, 51))).rows())
    watch.take(known)
    assert watch.given_up == "p3#1 was read too late to say whether all came after it"
    assert _presumed(watch) == [(51, 100)]


def test_of_too_many_causes_that_never_come_the_first_and_the_last_are_kept() -> None:
    watch = _with_causes_of_p3(range(1, 101, 2))
    assert watch.given_up == "too many messages were delivered whose broadcasts are not read"
    assert _presumed(watch) == [(1, 99)]


def test_what_came_before_strays_is_limited() -> None:
    """p2 delivers every other message of p1, whose history is late: a range for each."""
    heard = " ".join(f"dp1#{seq}" for seq in range(1, 200, 2))
    run = Shorthand(p2=heard).run()
    watch = Judge(run.manifest, WatchLimits(waiting_rows=0, stray_ranges=1_000))
    for some in in_turns(run, count=10):
        watch.take(some)
    kept = [len(pairs) for one in watch.strays.waiting for pairs in one.earlier.values()]
    assert 500 < sum(kept) <= 1_000
    assert "p2's deliveries wait for p1's history longer than" in watch.given_up


def test_a_newcomer_owes_only_what_is_addressed_to_it() -> None:
    alone, both = ("p1", "p2"), ("p1", "p2", "p3")
    old = " ".join(f"b{number}/0 dp1#{number}" for number in range(1, 9))
    heard = " ".join(f"dp1#{number}" for number in range(1, 9))
    script = Shorthand(
        (alone, both),
        p1=f"{old} b9/1 b10/1 dp1#9 dp1#10 settle",
        p2=f"{heard} dp1#9 dp1#10 settle",
        p3="dp1#10 dp1#9 settle",
    )
    run = script.run()
    before = msgspec.structs.replace(run.manifest, names=alone, views=(alone,))
    watch = Judge(before)
    for process, count in (("p1", 16), ("p2", 8)):
        assert not watch.take(pieces_of_rows(run.histories[process][:count]))
    assert sum(history.events.size for history in watch.histories) == 0
    watch.know(run.manifest)
    rows = [row for process, count in (("p1", 16), ("p2", 8), ("p3", 0))
            for row in run.histories[process][count:]]  # fmt: skip
    (alarm,) = watch.take(pieces_of_rows(rows))
    assert (alarm.process, str(alarm.message)) == ("p3", "p1#10")
    found = without_causes(final_verdicts(watch, run.manifest))
    assert found == without_causes(judge(run))


def _mentioned_late() -> tuple[Run, list[Piece], list[Piece]]:
    """The manifest of a stream that has none grows with it: p3 is mentioned in the second half."""
    run = Shorthand(
        p1=" ".join(f"b{number} dp1#{number}" for number in range(1, 7)) + " settle",
        p2=f"{_heard(6)} settle",
        p3="dp1#6 crash",
    ).run()
    p1, p2, p3 = (run.histories[name] for name in ("p1", "p2", "p3"))
    return (
        run,
        list(pieces_of_rows([*p1[:10], *p2[:5]])),
        list(pieces_of_rows([*p1[10:], *p2[5:], *p3])),
    )


@pytest.mark.parametrize("is_there", [True, False])
def test_a_member_that_a_stream_mentions_late_was_one_all_along(is_there: bool) -> None:
    """What all others had passed is read again, or it is unknown what the member lacks."""
    run, first, second = _mentioned_late()
    two = msgspec.structs.replace(run.manifest, names=("p1", "p2"), views=(("p1", "p2"),))
    watch = Judge(two, DEFAULT, Source(run)) if is_there else Judge(two)
    assert not watch.take(first)
    watch.know(run.manifest)
    alarms = watch.take(second)
    assert [(one.process, str(one.message)) for one in alarms] == [("p3", "p1#6")] * is_there
    found = without_causes(final_verdicts(watch, run.manifest))
    if is_there:
        assert found == without_causes(judge(run))
    else:
        assert {one.value for one in found} == {Value.UNKNOWN}


MOVED = {
    "p1": "b1/0 b2/0 v1/1 r1/1 r2/1 b3/1 dp1#1 dp1#2 dp1#3 settle",
    "p2": "v1/1 dp1#1 dp1#2 dp1#3 settle",
    "p4": "j1/1 dp1#2 dp1#1 dp1#3 settle",
}
"""p3 goes, p4 comes, and what p1 had broadcast is moved; p4 delivers it in another order."""


@pytest.mark.parametrize("order", list(permutations(("p1", "p2", "p4"))), ids=" ".join)
@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_what_is_moved_to_a_newcomer_s_view_is_asked_of_the_newcomer(
    order: tuple[str, ...], count: int
) -> None:
    run = Shorthand((("p1", "p2", "p3"), ("p1", "p2", "p4")), p3="crash", **MOVED).run()
    watch = Judge(run.manifest, DEFAULT, Source(run))
    alarms = []
    for process in ("p3", *order):
        rows = run.histories[process]
        for begin in range(0, len(rows), count):
            alarms += watch.take(pieces_of_rows(rows[begin : begin + count]))
    (alarm,) = alarms
    assert (alarm.process, str(alarm.message), str(alarm.cause)) == ("p4", "p1#2", "p1#1")
    assert not watch.given_up
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def test_members_that_come_one_by_one_are_judged_as_if_all_had_been_known() -> None:
    judged = 0
    for draft in random_runs(60, seed=6):
        run, seen, watch = as_run(draft), None, None
        if len(run.manifest.views) > 1 or run.holed:
            continue
        for some in in_pieces(run, Random(draft.run)):
            seen = manifest_of(None, draft.run, seen, some)
            watch = watch or Judge(seen, DEFAULT, Source(run))
            watch.know(seen)
            watch.take(some)
        if watch is not None and seen is not None:
            judged += 1
            found = without_causes(final_verdicts(watch, seen))
            assert found == without_causes(judge(Run(seen, run.histories, run.holed))), draft.run
    assert judged > 10


class _UpTo20(Shorthand):
    """The next view begins behind the twentieth message of p1."""

    def row(self, process: str, index: int, word: str) -> Row:
        row = super().row(process, index, word)
        return msgspec.structs.replace(row, vector={"p1": 20}) if row.kind == "view" else row


def _misplaced(count: int = 1) -> Run:
    """p2 delivers what belongs to the next view before it installs that."""
    of_next = " ".join(f"b{number}/1 dp1#{number}" for number in range(21, 60))
    return _UpTo20(
        (("p1", "p2"), ("p1", "p2")),
        p1=" ".join(f"b{number}/0 dp1#{number}" for number in range(1, 21))
        + f" v1/1 {of_next} settle",
        p2=f"{_heard(20 + count)} v1/1 "
        + " ".join(f"dp1#{number}" for number in range(21 + count, 60))
        + " settle",
    ).run()


@pytest.mark.parametrize("has_window", [True, False])
def test_a_delivery_in_another_view_is_looked_for_once(has_window: bool) -> None:
    """In the window, or in the source, which deletes it then; and the alarm names its place."""
    run, asked, is_deleted = _misplaced(), Counter[str](), False

    def recall(name: str, process: str, begin: int, end: int) -> Iterator[Piece] | None:
        asked[process] += 1
        return None if is_deleted else Source(run)(name, process, begin, end)

    limits = DEFAULT if has_window else WatchLimits(window_rows=0)
    watch = Judge(run.manifest, limits, recall)
    p1, p2 = run.histories["p1"], run.histories["p2"]
    alarms = watch.take(pieces_of_rows(p1[:45]))
    for begin in range(0, len(p2), 10):
        alarms += watch.take(pieces_of_rows(p2[begin : begin + 10]))
        watch = loaded(stored(watch), limits, recall)
    (violation,) = judge(run)[-1].violations
    assert [one for one in alarms if one.guarantee is Extra.VIEWS] == [violation]
    assert asked["p2"] == 0 if has_window else asked["p2"] < 5
    is_deleted = True
    alarms = watch.take(pieces_of_rows(p1[45:]))
    assert not [one for one in alarms if one.guarantee is Extra.VIEWS]
    assert final_verdicts(watch, run.manifest)[-1].violations == (violation,)


def test_what_is_delivered_in_another_view_is_counted_though_not_all_of_it_is_named() -> None:
    run = _misplaced(count=10)
    *_, expected = judge(run)
    assert expected.violated == 10
    watch = Judge(run.manifest, WatchLimits(violations=4))
    for some in in_turns(run):
        watch.take(some)
    *_, found = final_verdicts(watch, run.manifest)
    assert (found.violated, len(found.violations)) == (10, 4)


def test_no_alarm_names_a_row_that_was_not_found() -> None:
    """p1's broadcasts come when p2's deliveries of them are gone."""
    run = _misplaced()
    watch = Judge(run.manifest, WatchLimits(window_rows=0, waiting_rows=0))
    watch.take(pieces_of_rows(run.histories["p2"]))
    alarms = watch.take(pieces_of_rows(run.histories["p1"]))
    assert not [one for one in alarms if one.guarantee is Extra.VIEWS]
    *_, found = final_verdicts(watch, run.manifest)
    assert (found.value, found.violated, found.violations) == (Value.VIOLATED, 1, ())


def test_who_waits_no_longer_for_one_cause_still_waits_for_others() -> None:
    """Nobody broadcast p3#9. When p2 has waited for it long enough, p3#1 has just been delivered,
    and its broadcast is not read yet."""
    run = Shorthand(
        p1="dp3#9 b1 dp1#1 dp3#1 b2 dp1#2 settle",
        p2="dp1#1 dp3#1 dp1#2 settle",
        p3="b1 dp3#1 dp1#1 dp1#2 settle",
    ).run()
    watch = Judge(run.manifest, DEFAULT, Source(run))
    p1, p2, p3 = (run.histories[name] for name in ("p1", "p2", "p3"))
    watch.take(pieces_of_rows([*p1[:3], *p2[:1]]))
    watch.take(pieces_of_rows(p1[3:5]), since=watch.standing)
    for rows in (p3, p1[5:], p2[1:]):
        watch.take(pieces_of_rows(rows))
    assert not watch.given_up
    assert without_causes(final_verdicts(watch, run.manifest)) == without_causes(judge(run))


def test_what_is_gone_when_witnesses_are_looked_for_leaves_nothing_that_holds() -> None:
    """p1 never delivers its second message, and nobody can say any longer where it broadcast it."""
    run = Shorthand(p1="b1 dp1#1 b2 settle", p2="dp1#1 settle", p3="dp1#1 settle").run()
    watch = Judge(run.manifest, WatchLimits(window_rows=0))
    watch.take(piece for rows in run.histories.values() for piece in pieces_of_rows(rows))
    assert not watch.given_up
    found = {one.guarantee: one.value for one in final_verdicts(watch, run.manifest)}
    assert found.pop(Guarantee.VALIDITY) is Value.VIOLATED
    assert found.pop(Guarantee.UNIFORM_AGREEMENT) is Value.HOLDS
    assert set(found.values()) == {Value.UNKNOWN}


def test_before_the_end_what_is_owed_is_unknown() -> None:
    run = walk(Plan(protocol=BREAKS["agreement"], **HARSH), seed=2)
    watch = Judge(run.manifest)
    for some in in_turns(run):
        assert not [one for one in watch.take(some) if one.guarantee in (
            Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT)]  # fmt: skip
    so_far = {one.guarantee: one for one in verdicts(watch, run.manifest)}
    assert so_far[Guarantee.VALIDITY].value is Value.UNKNOWN
    assert so_far[Guarantee.UNIFORM_AGREEMENT].value is Value.UNKNOWN
