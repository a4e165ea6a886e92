"""The specification is tested by what it rejects, and by what it refuses to say."""

from collections import Counter
from copy import deepcopy

import pytest

from shorthand import Shorthand
from tidings.core import MessageId
from tidings.demo.simulated import BREAKS
from tidings.report import explain
from tidings.simulator import Plan, walk
from tidings.spec import (
    Guarantee,
    Place,
    Value,
    Verdict,
    Violation,
    below_the_cuts,
    exit_status,
    judge,
)
from tidings.trace import HistoryCut, Run, collect, digest
from tidings.trace.cutting import summed
from traces import Draft, cut_histories, random_cut_runs, random_run

HARSH = {"processes": 5, "broadcasts": 60, "crashes": 2, "duplicated": 0.1, "mid_broadcast": 1.0}


def broken(run: Run) -> set[str]:
    return {v.guarantee.value for v in judge(run) if v.value is Value.VIOLATED}


@pytest.mark.parametrize("what", BREAKS)
def test_each_mutant_breaks_its_own_guarantee_and_no_other(what) -> None:
    guarantee = dict(zip(BREAKS, Guarantee, strict=True))[what]
    seen = set()
    for seed in range(20):
        seen |= broken(walk(Plan(protocol=BREAKS[what], **HARSH), seed))
    assert seen == {guarantee.value}


# --- traces written by hand


def verdicts(views=(("p1", "p2", "p3"),), fates=None, **histories: str) -> dict[str, Verdict]:
    script = Shorthand(views, **histories)
    script.fates = fates or {}
    return {v.guarantee.name.lower(): v for v in judge(script.run())}


def values(**histories) -> dict[str, str]:
    return {name: v.value.value for name, v in verdicts(**histories).items()}


ALL_HOLD = dict.fromkeys([guarantee.name.lower() for guarantee in Guarantee], "holds")


def test_a_faultless_run_holds() -> None:
    everyone = "dp1#1 settle"
    assert values(p1="b1 dp1#1 settle", p2=everyone, p3=everyone) == ALL_HOLD


def test_a_crash_in_mid_broadcast_owes_nothing_if_nobody_delivered() -> None:
    assert values(p1="b1 crash", p2="settle", p3="settle") == ALL_HOLD


def test_a_second_delivery_is_a_duplicate_even_in_a_process_that_crashed() -> None:
    found = verdicts(p1="b1 dp1#1 settle", p2="dp1#1 settle", p3="dp1#1 dp1#1 crash")
    (violation,) = found["no_duplication"].violations
    assert violation.witness == (Place("p3", 0), Place("p3", 1))


@pytest.mark.parametrize("invented", ["p1#9", "ghost#1"])
def test_what_nobody_broadcast_was_created(invented: str) -> None:
    found = verdicts(p1="settle", p2=f"d{invented} settle", p3="settle")
    assert found["no_creation"].value is Value.VIOLATED
    assert found["uniform_agreement"].value is Value.HOLDS, "that is one breach, not two"


def test_another_text_was_created() -> None:
    found = verdicts(p1="b1 dp1#1 settle", p2="dp1#1/other settle", p3="dp1#1 settle")
    (violation,) = found["no_creation"].violations
    assert violation.witness == (Place("p2", 0), Place("p1", 0))


def test_one_name_for_two_broadcasts_is_a_creation() -> None:
    found = verdicts(p1="b1 b1 dp1#1 settle", p2="dp1#1 settle", p3="dp1#1 settle")
    (violation,) = found["no_creation"].violations
    assert violation.witness == (Place("p1", 0), Place("p1", 1))


def test_a_correct_origin_must_deliver_its_own() -> None:
    found = verdicts(p1="b1 settle", p2="settle", p3="settle")
    assert found["validity"].value is Value.VIOLATED
    assert found["uniform_agreement"].value is Value.HOLDS


def test_what_a_crashed_process_delivered_binds_the_others() -> None:
    found = verdicts(p1="b1 dp1#1 crash", p2="dp1#1 settle", p3="settle")
    (violation,) = found["uniform_agreement"].violations
    assert (violation.process, violation.message) == ("p3", MessageId("p1", 1))


def test_the_answer_must_wait_for_the_question() -> None:
    found = verdicts(
        p1="b1 dp1#1 dp2#1 settle", p2="dp1#1 b1 dp2#1 settle", p3="dp2#1 dp1#1 settle"
    )
    (violation,) = found["causal_order"].violations
    assert violation.process == "p3"
    assert (violation.cause, violation.message) == (MessageId("p1", 1), MessageId("p2", 1))
    assert violation.witness == (Place("p2", 0), Place("p2", 1), Place("p3", 0))


def test_the_order_of_one_origin_comes_from_its_history_not_from_its_numbers() -> None:
    """p1 broadcasts its message 5 before its message 2: whoever delivers 2 needs 5 first."""
    right, wrong = "dp1#5 dp1#2 settle", "dp1#2 dp1#5 settle"
    assert values(p1="b5 b2 " + right, p2=right, p3=right) == ALL_HOLD
    assert values(p1="b5 b2 " + right, p2=wrong, p3=right)["causal_order"] == "violated"


# --- unknown is not green


def test_a_run_cut_short_promises_nothing() -> None:
    found = values(p1="b1", p2="dp1#1", p3="dp1#1")
    assert found == ALL_HOLD | {"validity": "unknown", "uniform_agreement": "unknown"}


def test_a_process_without_history_makes_everything_unknown() -> None:
    assert set(values(p1="b1 dp1#1 settle", p2="dp1#1 settle").values()) == {"unknown"}


def test_the_runner_may_know_a_fate_that_the_trace_does_not() -> None:
    found = values(p1="b1 dp1#1 settle", p2="dp1#1 settle", p3="dp1#1", fates={"p3": "crashed"})
    assert found == ALL_HOLD


def test_a_fate_without_a_single_row_is_no_proof_that_nothing_was_broadcast() -> None:
    """p1's file is lost: what the others delivered of it was not invented."""
    found = values(p2="dp1#1 settle", p3="dp1#1 settle", fates={"p1": "crashed"})
    assert set(found.values()) == {"unknown"}


def test_a_process_reported_up_whose_history_ends_in_a_crash_has_more_to_tell() -> None:
    found = values(p1="b1 dp1#1 settle", p2="dp1#1 settle", p3="crash", fates={"p3": "up"})
    assert found["uniform_agreement"] == found["validity"] == "unknown"


def test_a_violation_stays_one_although_the_rest_is_unknown() -> None:
    found = values(p1="b1", p2="dp1#1 dp1#1", p3="dp1#1")
    assert found["no_duplication"] == "violated"
    assert found["validity"] == "unknown"


def test_an_origin_whose_history_may_go_on_is_not_accused() -> None:
    found = verdicts(p1="b1", p2="dp1#1 dp1#2", p3="dp1#1")
    assert found["no_creation"].value is Value.UNKNOWN
    assert found["no_creation"].reason == "p1's history does not reach p1#2"
    assert found["causal_order"].value is Value.UNKNOWN


def test_a_process_that_came_back_counts_as_correct() -> None:
    found = values(p1="b1 dp1#1 settle", p2="dp1#1 settle", p3="crash recover settle")
    assert found["uniform_agreement"] == "violated"


# --- what is not owed


def test_nothing_is_owed_when_the_majority_is_gone() -> None:
    found = verdicts(p1="b1 settle", p2="dp1#1 crash", p3="crash")
    for name in ("validity", "uniform_agreement"):
        assert (found[name].value, found[name].not_owed) == (Value.UNKNOWN, 1)
        assert "nothing was owed" in found[name].reason


def test_a_message_that_depends_on_a_forsaken_one_is_not_owed_either() -> None:
    """View 1 loses its majority; p1's message in view 0 depends on the one in view 1."""
    views = (("p1", "p2", "p3"), ("p1", "p4", "p5"))
    found = verdicts(
        views=views,
        p1="dp4#1 b1 settle",
        p2="settle",
        p3="b1 dp3#1 settle",
        p4="b1/1 dp4#1 crash",
        p5="crash",
    )
    assert found["validity"].value is Value.HOLDS
    assert (found["validity"].judged, found["validity"].not_owed) == (1, 1)


def test_only_those_addressed_are_owed_a_message_or_its_causes() -> None:
    views = (("p1", "p2"), ("p1", "p2", "p3"))
    found = values(
        views=views,
        p1="b1/0 dp1#1 b2/1 dp1#2 settle",
        p2="dp1#1 dp1#2 settle",
        p3="dp1#2 settle",
    )
    assert found == ALL_HOLD


# --- how it is said


def test_the_worst_verdict_decides_the_exit_status() -> None:
    assert exit_status(judge(Shorthand(p1="b1 dp1#1 dp1#1", p2="dp1#1", p3="dp1#1").run())) == 1
    assert exit_status(judge(Shorthand(p1="b1", p2="dp1#1", p3="dp1#1").run())) == 2
    assert exit_status(judge(Shorthand(p1="settle", p2="settle", p3="settle").run())) == 0


def test_a_violation_is_explained_as_a_proof() -> None:
    found = verdicts(
        p1="b1 dp1#1 dp2#1 settle", p2="dp1#1 b1 dp2#1 settle", p3="dp2#1 dp1#1 settle"
    )
    (violation,) = found["causal_order"].violations
    assert explain(violation, "8f21", 4177) == (
        "CAUSAL ORDER violated at p3                    run 8f21, seed 4177\n"
        "Let:\n"
        "  m1 = p1#1     broadcast by p1\n"
        "  m2 = p2#1     broadcast by p2\n"
        "Then:\n"
        "  - m1 happened before m2: p2 delivered m1 (its event 0) before it broadcast m2 "
        "(its event 1).\n"
        "  - However, p3 delivered m2 (its event 0) and had not delivered m1."
    )


@pytest.mark.parametrize(
    ("histories", "answer"),
    [
        ({"p1": "b1 dp1#1 dp1#1"}, "However, p1 delivered m again (its event 2)."),
        ({"p1": "dp2#4", "p2": "settle"}, "However, p2 never broadcast m."),
        ({"p1": "b1 dp1#1/x"}, "However, p1 delivered m with another text (its event 1)."),
        ({"p1": "b1 b1"}, "another message under the same name (its event 1)."),
        ({"p1": "b1 settle", "p2": "settle", "p3": "settle"}, "However, p1 never delivered m."),
        (
            {"p1": "b1 dp1#1 settle", "p2": "settle", "p3": "dp1#1 settle"},
            "However, p2, to whom m was addressed and who was up when the run settled, never "
            "delivered m.",
        ),
    ],
)
def test_every_kind_of_violation_has_its_own_words(histories, answer) -> None:
    found = verdicts(**histories)
    (violation,) = [v for verdict in found.values() for v in verdict.violations]
    assert answer in explain(violation, "r")


# --- from a cut on


def _found(draft: Draft) -> dict[tuple[Guarantee, str, MessageId], Violation]:
    return {
        (one.guarantee, one.process, one.message): one
        for verdict in judge(collect(draft.manifest(), draft.rows()))
        for one in verdict.violations
    }


def test_a_cut_adds_no_violation_and_hides_none_that_lies_above_it() -> None:
    happened: Counter[str] = Counter()
    for seed in range(600):
        whole = random_run(f"run-{seed}", seed, is_in_sequence=True)
        cut = deepcopy(whole)
        cut_histories(cut)
        before, after = _found(whole), _found(cut)
        assert after.keys() <= before.keys(), seed
        above = {
            key
            for key, one in before.items()
            if all(
                place.process not in cut.cuts or place.index >= cut.cuts[place.process].index
                for place in one.witness
            )
        }
        assert above <= after.keys(), seed
        happened["above"] += len(above)
        happened["hidden"] += len(before.keys() - after.keys())
        happened["clean"] += bool(cut.cuts) and not before
    assert min(happened.values()) > 50, happened


def test_a_verdict_says_that_it_is_judged_from_the_cut_on() -> None:
    everyone = "dp1#2 settle"
    script = Shorthand(p1="b2 dp1#2 settle", p2="dp1#1 dp1#2 settle", p3=everyone)
    script.cuts = {
        "p1": HistoryCut(index=9, broadcast=1, delivered={"p1": 1}),
        "p3": HistoryCut(index=4, delivered={"p1": 1}),
    }
    five = judge(script.run())
    assert {verdict.value for verdict in five} == {Value.HOLDS}
    note = "judged from the cut on (p1 from 9, p3 from 4)"
    assert [verdict.note for verdict in five] == [
        note,
        f"{note}; of 1 deliveries the text cannot be compared",
        note,
        note,
        note,
    ]
    assert [verdict.judged for verdict in five] == [4, 3, 1, 1, 3]


@pytest.mark.parametrize(
    ("guarantee", "p1", "p2", "words"),
    [
        ("no_duplication", "b2 settle", "dp1#1 settle", "p2 delivered m (before its cut)"),
        ("causal_order", "b2 b3 settle", "dp1#3 settle", "p2 delivered m2 (its event 5)"),
        ("uniform_agreement", "b2 settle", "settle", "p3 delivered m (before its cut)"),
    ],
)
def test_what_was_cut_off_still_counts(guarantee: str, p1: str, p2: str, words: str) -> None:
    script = Shorthand(p1=p1, p2=p2, p3="settle")
    script.cuts = {
        "p1": HistoryCut(index=9, broadcast=1, delivered={"p1": 1}),
        "p2": HistoryCut(index=5, delivered={"p1": 1}),
        "p3": HistoryCut(index=7, delivered={"p1": 3}),
    }
    verdict = {v.guarantee.name.lower(): v for v in judge(script.run())}[guarantee]
    assert verdict.value is Value.VIOLATED
    assert words in explain(verdict.violations[0], "r")


def test_a_name_that_was_used_below_the_cut_is_used_twice() -> None:
    script = Shorthand(views=(("p1",),), p1="b1 dp1#2 settle")
    script.cuts = {"p1": HistoryCut(index=3, broadcast=1, delivered={"p1": 1})}
    verdict = judge(script.run())[1]
    assert [one.witness[0].index for one in verdict.violations if len(one.witness) == 2] == [-1]
    assert "p1 broadcast m (before its cut)" in explain(verdict.violations[-1], "r")


def cut_at(count: int, *texts: bytes) -> HistoryCut:
    """p1 has broadcast its first messages, and these texts were delivered of them."""
    total = summed(0, b"".join([bytes.fromhex(digest(text)) for text in texts]))
    return HistoryCut(index=9, delivered={"p1": count}, digests={"p1": f"{total:032x}"})


def test_two_that_have_cut_off_equally_many_messages_have_cut_off_the_same() -> None:
    script = Shorthand(p1="b1 b2 b3 dp1#1 dp1#2 dp1#3 settle", p2="dp1#3 settle", p3="dp1#3 settle")
    script.cuts = {name: cut_at(2, b"text", b"text") for name in ("p2", "p3")}
    assert {verdict.value for verdict in judge(script.run())} == {Value.HOLDS}
    script.cuts["p3"] = cut_at(2, b"text", b"other")
    _, creation, *others = judge(script.run())
    assert {verdict.value for verdict in others} == {Value.HOLDS}
    assert (creation.value, creation.violated) == (Value.VIOLATED, 1)
    (violation,) = creation.violations
    assert (violation.process, str(violation.message)) == ("p3", "p1#2")
    assert [str(one) for one in violation.witness] == ["p2:-1", "p3:-1"]
    answer = explain(violation, "r", folder="runs/r")
    assert "p2 delivered the messages of p1 up to m (before its cut)." in answer
    assert "However, p3 delivered another text under one of their names (before its cut)." in answer
    assert answer.endswith("Replay:  tidings replay runs/r")


def test_cuts_at_other_places_or_without_digests_are_not_compared() -> None:
    script = Shorthand(
        p1="b1 b2 b3 dp1#1 dp1#2 dp1#3 settle", p2="dp1#3 settle", p3="dp1#2 dp1#3 settle"
    )
    script.cuts = {"p2": cut_at(2, b"text", b"text"), "p3": cut_at(1, b"other")}
    assert {verdict.value for verdict in judge(script.run())} == {Value.HOLDS}
    script.cuts["p3"] = HistoryCut(index=9, delivered={"p1": 1})
    assert {verdict.value for verdict in judge(script.run())} == {Value.HOLDS}


def test_random_cuts_differ_often_enough_to_compare_the_judges() -> None:
    assert sum(bool(below_the_cuts(draft.cuts)) for draft in random_cut_runs(200)) >= 10
