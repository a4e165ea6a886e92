"""Groups that change by agreement: what is owed to whom, and what no view may be.

Histories are written in shorthand: ``b1/0`` broadcasts the first message to the list at place 0,
``dp2#1`` delivers, ``r1/1`` binds the first message to the list at place 1, ``v1/1:p1=2,p2=1``
installs view 1 (the list at place 1) with this cut, ``j...`` joins it, ``l1`` leaves by decision 1,
``x`` crashes, ``c`` comes back and ``s`` settles.
"""

import msgspec
import pytest

from tidings.core import Members
from tidings.spec import Extra, Guarantee, Value, Verdict, ViewRule, judge, reach
from tidings.trace import Fate, Manifest, Row, Run, collect, digest


def run_of(views: str, **histories: str) -> Run:
    """``views`` are the lists, such as ``p1 p2 p3, p1 p2``."""
    lists: tuple[Members, ...] = tuple(tuple(one.split()) for one in views.split(","))
    names = tuple(histories)
    rows = [
        Row(run="r", process=process, index=index, time_ns=0, **_columns(process, word))
        for process, words in histories.items()
        for index, word in enumerate(words.split())
    ]
    return collect(Manifest(schema=3, run="r", names=names, views=lists), rows)


def _columns(process: str, word: str) -> dict[str, object]:
    text = digest(b"text")
    kind, rest = word[0], word[1:]
    if kind in "xcs":
        return {"kind": {"x": "crash", "c": "recover", "s": "settle"}[kind]}
    if kind == "l":
        return {"kind": "leave"} | ({"value": int(rest)} if rest else {})
    if kind == "d":
        origin, _, seq = rest.rpartition("#")
        return {"kind": "deliver", "origin": origin, "seq": int(seq), "digest": text}
    if kind in "vj":
        place, _, cut = rest.partition(":")
        number, view = place.split("/")
        counts = dict(one.split("=") for one in cut.split(",") if one)
        vector = {origin: int(last) for origin, last in counts.items()}
        name = {"v": "view", "j": "join"}[kind]
        return {"kind": name, "view": int(view), "value": int(number), "vector": vector}
    seq, view = rest.split("/")
    bound = {"origin": process, "seq": int(seq), "view": int(view)}
    return (
        {"kind": "rebind"} | bound if kind == "r" else {"kind": "broadcast", "digest": text} | bound
    )


def verdict(run: Run, guarantee: Guarantee | Extra) -> Verdict:
    return next(one for one in judge(run) if one.guarantee is guarantee)


def is_sound(run: Run) -> bool:
    return {one.value for one in judge(run)} == {Value.HOLDS}


def rules(run: Run) -> list[tuple[str, ViewRule]]:
    found = verdict(run, Extra.VIEWS).violations
    return [(one.process, ViewRule(one.note)) for one in found]


# --- who is owed what


def test_a_group_that_becomes_smaller_goes_on_owing() -> None:
    """Seven become three, and four of the seven are gone in the end: by agreement, not failed."""
    seven, three = "p1 p2 p3 p4 p5 p6 p7", "p1 p2 p3"
    leaving = dict.fromkeys(["p4", "p5", "p6", "p7"], "dp1#1 l1")
    staying = {"p2": "dp1#1 v1/1:p1=1 dp1#2 s", "p3": "dp1#1 v1/1:p1=1 dp1#2 s"}
    run = run_of(f"{seven},{three}", p1="b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 s", **staying, **leaving)
    assert is_sound(run)
    assert verdict(run, Guarantee.UNIFORM_AGREEMENT).not_owed == 0
    staying["p3"] = "dp1#1 v1/1:p1=1 s"
    run = run_of(f"{seven},{three}", p1="b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 s", **staying, **leaving)
    assert verdict(run, Guarantee.UNIFORM_AGREEMENT).violated == 1


@pytest.mark.parametrize(
    ("end", "is_owed"), [("l1", True), ("v1/1:p1=1 s", True), ("s", True), ("x", False)]
)
def test_of_two_both_have_to_get_through(end: str, is_owed: bool) -> None:
    """One of two that crashed is more than a minority; one that was removed did not crash."""
    later = "p1" if end == "l1" else "p1 p2"
    run = run_of(f"p1 p2,{later}", p1="b1/0 dp1#1 v1/1:p1=1 s", p2=f"dp1#1 {end}")
    agreement = verdict(run, Guarantee.UNIFORM_AGREEMENT)
    assert (agreement.judged, agreement.not_owed) == ((1, 0) if is_owed else (0, 1))


@pytest.mark.parametrize("after", ["", "c", "c x", "c s", "c x c s"])
@pytest.mark.parametrize("fate", ["up", "crashed", None])
def test_what_starts_under_the_name_of_one_that_left_owes_nothing(
    after: str, fate: Fate | None
) -> None:
    """It left before it had delivered all of its view; the group refuses its name."""
    staying = "dp1#1 v1/1:p1=1 s"
    run = run_of("p1 p2 p3,p1 p2", p1=f"b1/0 {staying}", p2=staying, p3=f"l1 {after}")
    run = _with_fates(run, {"p3": fate} if fate else {})
    assert is_sound(run)
    assert verdict(run, Guarantee.UNIFORM_AGREEMENT).judged == 1


@pytest.mark.parametrize("inside", ["c v1/1:p1=1 s", "j1/1:p1=1 s"])
def test_one_that_is_in_a_view_again_owes_what_any_other_does(inside: str) -> None:
    staying = "dp1#1 v1/1:p1=1 s"
    run = run_of("p1 p2 p3,p1 p2 p3", p1=f"b1/0 {staying}", p2=staying, p3=f"l1 {inside}")
    (violation,) = verdict(run, Guarantee.UNIFORM_AGREEMENT).violations
    assert violation.process == "p3"


def test_one_that_left_without_a_decision_may_come_back() -> None:
    """Then the last row tells what became of it, as in any group without agreed views."""
    run = run_of("p1 p2 p3", p1="b1/0 dp1#1 s", p2="dp1#1 s", p3="l c s")
    (violation,) = verdict(run, Guarantee.UNIFORM_AGREEMENT).violations
    assert violation.process == "p3"
    run = run_of("p1 p2 p3", p1="b1/0 dp1#1 s", p2="dp1#1 s", p3="l c")
    assert "p3 neither settled" in verdict(run, Guarantee.UNIFORM_AGREEMENT).reason


def test_what_starts_under_the_name_of_one_that_left_may_have_broadcast() -> None:
    """Whoever left owes nothing; but of a history that breaks off nobody knows the rest."""
    staying = "v1/1 dp3#1 s"
    run = run_of("p1 p2 p3,p1 p2", p1=staying, p2=staying, p3="l1 c")
    assert verdict(run, Guarantee.NO_CREATION).value is Value.UNKNOWN
    run = run_of("p1 p2 p3,p1 p2", p1=staying, p2=staying, p3="l1 c s")
    assert verdict(run, Guarantee.NO_CREATION).value is Value.VIOLATED


def _with_fates(run: Run, fates: dict[str, Fate]) -> Run:
    manifest = msgspec.structs.replace(run.manifest, fates=fates)
    return msgspec.structs.replace(run, manifest=manifest)


@pytest.mark.parametrize(("ends", "is_owed"), [("l1 x", True), ("x x", False), ("l1 l1", True)])
def test_of_four_three_have_to_get_through(ends: str, is_owed: bool) -> None:
    fourth, third = ends.split()
    run = run_of(
        "p1 p2 p3 p4,p1 p2",
        p1="b1/0 dp1#1 v1/1:p1=1 s",
        p2="dp1#1 v1/1:p1=1 s",
        p3=third,
        p4=f"dp1#1 {fourth}",
    )
    agreement = verdict(run, Guarantee.UNIFORM_AGREEMENT)
    assert (agreement.judged, agreement.not_owed) == ((1, 0) if is_owed else (0, 1))


def test_a_list_that_lost_its_majority_forsakes_no_later_one() -> None:
    """What is a cause in the next view was delivered before it by everybody there."""
    run = run_of(
        "p1 p2,p1 p2 p3",
        p1="b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 s",
        p2="dp1#1 x",
        p3="j1/1:p1=1 s",
    )
    agreement = verdict(run, Guarantee.UNIFORM_AGREEMENT)
    assert (agreement.judged, agreement.not_owed, agreement.violated) == (1, 1, 1)
    (violation,) = agreement.violations
    assert (violation.process, str(violation.message)) == ("p3", "p1#2")


def test_a_member_that_is_left_alone_in_an_old_view_owes_nothing() -> None:
    """Those that removed it are gone, and with them all that knew it."""
    run = run_of(
        "p1 p2 p3,p1 p2",
        p1="b1/0 dp1#1 v1/1:p1=1 x",
        p2="dp1#1 v1/1:p1=1 x",
        p3="b1/0 s",
    )
    assert verdict(run, Guarantee.UNIFORM_AGREEMENT).value is Value.HOLDS
    assert verdict(run, Guarantee.VALIDITY).value is not Value.VIOLATED


def test_a_majority_that_is_up_in_an_old_view_has_to_get_on() -> None:
    run = run_of(
        "p1 p2 p3 p4 p5,p1 p2 p3 p4",
        p1="b1/0 dp1#1 x",
        p2="dp1#1 v1/1:p1=1 x",
        p3="s",
        p4="s",
        p5="s",
    )
    assert verdict(run, Guarantee.UNIFORM_AGREEMENT).violated == 3


def test_a_message_belongs_to_the_view_of_its_last_binding() -> None:
    p1 = "b1/0 v1/1 r1/1 dp1#1 s"
    run = run_of("p1 p2,p1 p2 p3", p1=p1, p2="v1/1 dp1#1 s", p3="j1/1 dp1#1 s")
    assert is_sound(run)
    run = run_of("p1 p2,p1 p2 p3", p1=p1, p2="v1/1 dp1#1 s", p3="j1/1 s")
    (violation,) = verdict(run, Guarantee.UNIFORM_AGREEMENT).violations
    assert violation.process == "p3"


def test_a_newcomer_misses_no_cause_at_or_below_the_cut() -> None:
    run = run_of(
        "p1 p2,p1 p2 p3",
        p1="b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 s",
        p2="dp1#1 v1/1:p1=1 dp1#2 s",
        p3="j1/1:p1=1 dp1#2 s",
    )
    assert is_sound(run)


def test_a_void_message_is_owed_to_nobody() -> None:
    run = run_of("p1 p2 p3,p1 p2", p1="v1/1 s", p2="v1/1 s", p3="b1/0 l1")
    assert is_sound(run)
    assert verdict(run, Guarantee.VALIDITY).judged == 0


def test_a_smaller_group_is_not_short_of_reach() -> None:
    run = run_of("p1 p2,p1", p1="b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 s", p2="dp1#1 l1")
    assert reach(run) == ()


def test_without_numbers_there_is_no_verdict_on_views() -> None:
    rows = [
        Row(run="r", process="p1", index=0, kind="view", time_ns=0, view=0),
        Row(run="r", process="p1", index=1, kind="settle", time_ns=0),
    ]
    run = collect(Manifest(schema=3, run="r", names=("p1",), views=(("p1",),)), rows)
    assert [one.guarantee for one in judge(run)] == list(Guarantee)


# --- what no view may be

GOOD = {
    "p1": "b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 v2/2:p1=2 s",
    "p2": "dp1#1 v1/1:p1=1 dp1#2 v2/2:p1=2 s",
    "p3": "dp1#1 l1",
    "p4": "j1/1:p1=1 dp1#2 v2/2:p1=2 s",
}
LISTS = "p1 p2 p3,p1 p2 p4,p1 p2 p4"


def test_two_changes_one_after_the_other_are_sound() -> None:
    run = run_of(LISTS, **GOOD)
    assert is_sound(run)
    assert verdict(run, Extra.VIEWS).judged == 7


SPOILT: dict[str, tuple[dict[str, str], list[tuple[str, ViewRule]]]] = {
    "another list under the same number": (
        {"p2": "dp1#1 v1/0:p1=1 dp1#2 v2/2:p1=2 s"},
        [("p2", ViewRule.ANOTHER)],
    ),
    "another cut under the same number": (
        {"p4": "j1/1:p1=1,p2=1 dp1#2 v2/2:p1=2 s"},
        [("p4", ViewRule.ANOTHER)],
    ),
    "a view left out": (
        {"p2": "dp1#1 dp1#2 v2/2:p1=2 s"},
        [("p2", ViewRule.MISPLACED), ("p2", ViewRule.OUT_OF_TURN)],
    ),
    "a name that joins twice": (
        {"p2": "dp1#1 v1/1:p1=1 dp1#2 j2/2:p1=2 s"},
        [("p2", ViewRule.OUT_OF_TURN)],
    ),
    "a view without the one that installs it": (
        {"p3": "dp1#1 v1/1:p1=1 s"},
        [("p3", ViewRule.OUT_OF_TURN)],
    ),
    "a newcomer that does not join": (
        {"p4": "v1/1:p1=1 dp1#2 v2/2:p1=2 s"},
        [("p4", ViewRule.OUT_OF_TURN)],
    ),
    "a cut that falls": (
        {
            "p1": "b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 v2/2:p2=0 s",
            "p2": "dp1#1 v1/1:p1=1 dp1#2 v2/2 s",
            "p4": "j1/1:p1=1 dp1#2 v2/2 s",
        },
        [
            ("p1", ViewRule.MISPLACED),
            ("p1", ViewRule.FALLING),
            ("p2", ViewRule.MISPLACED),
            ("p4", ViewRule.MISPLACED),
        ],
    ),
    "leaving by a decision that keeps it": (
        {"p4": "j1/1:p1=1 dp1#2 l2"},
        [("p4", ViewRule.STAYING)],
    ),
    "bound to a list of others": (
        {"p1": "b1/0 dp1#1 v1/1:p1=1 b2/0 dp1#2 v2/2:p1=2 s"},
        [("p1", ViewRule.ELSEWHERE)],
    ),
    "rebound to a view that is over": (
        {"p1": "b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 v2/2:p1=2 r2/1 s"},
        [("p1", ViewRule.ELSEWHERE)],
    ),
    "delivered after the next view": (
        {"p2": "dp1#1 v1/1:p1=1 v2/2:p1=2 dp1#2 s"},
        [("p2", ViewRule.MISPLACED)],
    ),
    "delivered before its view": (
        {"p2": "dp1#1 dp1#2 v1/1:p1=1 v2/2:p1=2 s"},
        [("p2", ViewRule.MISPLACED)],
    ),
    "delivered by one that was removed": (
        {"p3": "dp1#1 dp1#2 l1"},
        [("p3", ViewRule.MISPLACED)],
    ),
    "delivered by one that crashed before the decision": (
        {"p3": "dp1#1 dp1#2 x"},
        [("p3", ViewRule.MISPLACED)],
    ),
    "delivered below the cut at which a newcomer starts": (
        {"p4": "j1/1:p1=1 dp1#1 dp1#2 v2/2:p1=2 s"},
        [("p4", ViewRule.MISPLACED)],
    ),
    "delivered before joining": (
        {"p4": "dp1#1 j1/1:p1=1 dp1#2 v2/2:p1=2 s"},
        [("p4", ViewRule.MISPLACED)],
    ),
    "of a removed origin, beyond the cut": (
        {"p3": "dp1#1 b1/0 l1", "p2": "dp1#1 v1/1:p1=1 dp1#2 v2/2:p1=2 dp3#1 s"},
        [("p2", ViewRule.MISPLACED)],
    ),
    "left out of the cut by one": (
        {"p2": "dp1#1 v1/1:p1=1 v2/2:p1=2 s"},
        [("p2", ViewRule.LEFT_OUT)],
    ),
    "a cut that nobody has delivered": (
        {
            "p1": "b1/0 dp1#1 v1/1:p1=1 b2/1 dp1#2 v2/2:p1=2,p2=1 s",
            "p2": "dp1#1 v1/1:p1=1 dp1#2 v2/2:p1=2,p2=1 s",
            "p4": "j1/1:p1=1 dp1#2 v2/2:p1=2,p2=1 s",
        },
        [("p1", ViewRule.LEFT_OUT), ("p2", ViewRule.LEFT_OUT), ("p4", ViewRule.LEFT_OUT)],
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_each_rule_is_broken_by_a_trace_of_its_own(name: str) -> None:
    spoilt, expected = SPOILT[name]
    assert rules(run_of(LISTS, **GOOD | spoilt)) == expected


def test_every_rule_has_such_a_trace() -> None:
    assert {rule for _, expected in SPOILT.values() for _, rule in expected} == set(ViewRule)


def test_views_are_judged_on_any_prefix() -> None:
    """Of a history that stops anywhere nothing is held against anybody."""
    for process, words in GOOD.items():
        for end in range(1, len(words.split())):
            cut = {process: " ".join(words.split()[:end])}
            assert rules(run_of(LISTS, **GOOD | cut)) == []


def test_a_witness_shows_the_limit_and_the_row_beyond_it() -> None:
    spoilt, _ = SPOILT["of a removed origin, beyond the cut"]
    (violation,) = verdict(run_of(LISTS, **GOOD | spoilt), Extra.VIEWS).violations
    assert [str(one) for one in violation.witness] == ["p2:3", "p2:4"]
    assert str(violation.message) == "p3#1"
    spoilt, _ = SPOILT["delivered by one that was removed"]
    (violation,) = verdict(run_of(LISTS, **GOOD | spoilt), Extra.VIEWS).violations
    assert [str(one) for one in violation.witness] == ["p1:2", "p3:1"]
