"""Cost and reach: what the five guarantees allow, and nobody wants."""

import pytest
from msgspec.structs import replace

from flaw_scenes import COSTS, SCENARIOS, leaves_somebody_out, packets, played, runs
from tidings.core import MessageId
from tidings.protocols import PROTOCOLS
from tidings.report import explain
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script
from tidings.spec import Extra, Guarantee, Place, broken, cost, judge, reach
from tidings.trace import Manifest, Row, Run, collect, digest

VIEWS = (("p1", "p2"), ("p1", "p2", "p3"))


def answer(**histories: str) -> Run:
    """Histories in shorthand: ``b1/0`` broadcasts the first to view 0, ``dp1#1`` delivers."""
    rows = []
    for process, words in histories.items():
        for index, word in enumerate(words.split()):
            name, _, view = word[1:].partition("/")
            origin, _, seq = name.rpartition("#")
            fields = {"run": "r", "process": process, "index": index, "time_ns": index}
            message = {"origin": origin or process, "seq": int(seq), "digest": digest(b"text")}
            if word[0] == "b":
                rows.append(Row(kind="broadcast", view=int(view), **fields, **message))
            else:
                rows.append(Row(kind="deliver", **fields, **message))
    return collect(Manifest(schema=1, run="r", names=("p1", "p2", "p3"), views=VIEWS), rows)


def sent(*times_ns: tuple[str, int], about: bool = True) -> Run:
    """A broadcast by p2 at time 5, and packets sent at the given times."""
    message = {"origin": "p2", "seq": 1}
    rows = [
        Row(run="r", process="p2", index=0, kind="broadcast", time_ns=5, view=0,
            digest=digest(b"text"), **message)
    ]  # fmt: skip
    indexes = {"p1": 0, "p2": 1}
    for process, time_ns in times_ns:
        rows.append(
            Row(run="r", process=process, index=indexes[process], kind="send", time_ns=time_ns,
                peer="p3", packet=indexes[process], packet_kind="copy", bytes=1,
                **(message if about else {}))
        )  # fmt: skip
        indexes[process] += 1
    return collect(Manifest(schema=1, run="r", names=("p1", "p2", "p3"), views=VIEWS), rows)


# --- cost


def test_as_many_packets_as_allowed_are_not_too_many() -> None:
    assert cost(sent(("p1", 6), ("p2", 7)), 2) == ()


def test_the_packet_too_many_is_found_by_the_clock() -> None:
    (violation,) = cost(sent(("p1", 6), ("p1", 9), ("p2", 7), ("p2", 8)), 2)
    assert (violation.guarantee, violation.process) == (Extra.COST, "p2")
    assert violation.witness == (Place("p2", 2),)
    assert violation.message == MessageId("p2", 1)
    assert violation.note == "the 3rd packet, where 2 are allowed"


@pytest.mark.parametrize(
    ("allowed", "answer"),
    [
        (0, "the 1st packet (25 after this step), where 0 are allowed"),
        (10, "the 11th packet (25 after this step), where 10 are allowed"),
        (21, "the 22nd packet (25 after this step), where 21 are allowed"),
        (24, "the 25th packet, where 24 are allowed"),
    ],
)
def test_the_packet_too_many_is_named_by_its_number(allowed: int, answer: str) -> None:
    """And what follows in the same breath is counted, but not what comes later."""
    (violation,) = cost(sent(*[("p1", 6)] * 25, ("p2", 7)), allowed)
    assert violation.note == answer


def test_at_one_moment_the_order_is_that_of_the_names() -> None:
    (violation,) = cost(sent(("p2", 6), ("p2", 6), ("p1", 6)), 1)
    assert violation.witness == (Place("p2", 1),)


def test_a_packet_about_nothing_is_laid_to_the_first_broadcast() -> None:
    (violation,) = cost(sent(("p1", 6), about=False), 0)
    assert violation.message == MessageId("p2", 1)


@pytest.mark.parametrize("name", COSTS)
def test_flaws_of_cost_are_found_and_their_mended_forms_are_not(name: str) -> None:
    scope, bound = COSTS[name]
    flawed = [run for _, run in runs(name, scope, range(200))]
    assert [bool(cost(run, bound)) for run in flawed] == [packets(run) > bound for run in flawed]
    assert any(cost(run, bound) for run in flawed)
    for _, run in runs(PROTOCOLS[name].instead_of, scope, range(200)):
        assert not cost(run, bound)


# --- reach


def test_an_answer_must_reach_whom_the_question_reached() -> None:
    (violation,) = reach(answer(p1="b1/1", p2="dp1#1 b1/0"))
    assert (violation.guarantee, violation.process) == (Extra.REACH, "p2")
    assert (violation.cause, violation.message) == (MessageId("p1", 1), MessageId("p2", 1))
    assert violation.witness == (Place("p2", 0), Place("p2", 1))
    assert violation.note == "not addressed to p3"


def test_what_was_broadcast_before_is_a_cause_like_what_was_delivered() -> None:
    (violation,) = reach(answer(p1="b1/1 b2/0"))
    assert violation.witness == (Place("p1", 0), Place("p1", 1))


@pytest.mark.parametrize(
    "histories",
    [
        {"p1": "b1/0", "p2": "dp1#1 b1/1"},
        {"p1": "b1/1", "p2": "b1/0 dp1#1"},
        {"p1": "b1/1", "p2": "dp1#1 b1/1"},
        {"p2": "dp1#9 b1/0"},
    ],
    ids=["reaching further", "not a cause", "reaching as far", "a cause nobody broadcast"],
)
def test_what_reaches_far_enough_is_not_accused(histories) -> None:
    assert reach(answer(**histories)) == ()


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_those_who_leave_somebody_out_lack_reach(name: str) -> None:
    for one in (name, PROTOCOLS[name].instead_of):
        run = played(one, SCENARIOS[name])
        assert bool(reach(run)) == leaves_somebody_out(run) == (one == "flawed/leaving-out")


# --- any one property


def test_exactly_the_property_asked_for_is_looked_at() -> None:
    run = walk(Plan(protocol="flawed/careless", broadcasts=60), seed=3)
    for verdict in judge(run):
        # What it follows from is known only when all properties are.
        first = [replace(one, root=None) for one in verdict.violations[:1]] or [None]
        assert [broken(run, verdict.guarantee)] == first
    assert broken(run, Guarantee.CAUSAL_ORDER) is not None
    assert broken(run, Extra.REACH) is None
    assert broken(run, Extra.COST, packets(run)) is None
    assert broken(run, Extra.COST, packets(run) - 1) is not None


def test_cost_without_a_number_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="a number of packets"):
        broken(sent(), Extra.COST)


# --- told


def test_both_extras_are_explained_as_proofs() -> None:
    leaving = played("flawed/leaving-out", SCENARIOS["flawed/leaving-out"])
    (violation,) = reach(leaving)
    assert explain(violation, "r").splitlines() == [
        "REACH violated at p2                           run r",
        "Let:",
        "  m1 = p1#1     broadcast by p1",
        "  m2 = p2#1     broadcast by p2",
        "Then:",
        "  - m1 happened before m2: p2 delivered m1 (its event 5) before it broadcast m2 "
        "(its event 6).",
        "  - However, m2 was not addressed to p4, to whom m1 was addressed.",
    ]
    script = Script("r")
    for line in ("group p1 p2 p3", "protocol flawed/forgetful-relay", "broadcast p1 x", "settle"):
        script.command(line)
    (violation,) = cost(script.run(), 6)
    assert explain(violation, "r").splitlines() == [
        "COST violated at p3                            run r",
        "Let:",
        "  m = p1#1     broadcast by p1",
        "Then:",
        "  - p3 sent another packet (its event 6) on account of m.",
        "  - However, it was the 7th packet (8 after this step), where 6 are allowed.",
    ]
