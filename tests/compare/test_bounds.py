"""The bounds that costs are compared with: each is reached by a plan, and small ones by no less.

A plan is a list of rounds, one per delay, each a list of packets (sender, receiver). Member 0 is
the origin. Every packet carries the text and all that its sender knows of who holds it.
"""

from collections.abc import Iterator
from itertools import combinations

import pytest

from tidings.compare import BOUNDS, BOUNDS_UNTIL_STABLE
from tidings.core import quorum

Round = list[tuple[int, int]]
Plan = list[Round]

SIZES = (3, 4, 5, 6, 7, 10, 20, 50)


def knowledge(size: int, plan: Plan) -> list[set[int]]:
    """Of each member, which holders it knows of in the end."""
    known: list[set[int]] = [{0}, *(set() for _ in range(size - 1))]
    for packets in plan:
        before = [set(holders) for holders in known]
        for sender, receiver in packets:
            if before[sender]:
                known[receiver] |= before[sender] | {receiver}
    return known


def is_safe(size: int, plan: Plan) -> bool:
    """Whether everybody knows f + 1 holders in the end, and may deliver."""
    return all(len(holders) >= quorum(size) for holders in knowledge(size, plan))


def is_stable(size: int, plan: Plan) -> bool:
    return all(len(holders) == size for holders in knowledge(size, plan))


def packets(plan: Plan) -> int:
    return sum(map(len, plan))


def to_all(sender: int, size: int) -> Round:
    return [(sender, other) for other in range(size) if other != sender]


def ring(size: int, f: int) -> Plan:
    """The text goes round; whoever is early hears on the second turn that enough hold it."""
    return [[(hop % size, (hop + 1) % size)] for hop in range(size - 1 + f)]


def gathering(size: int, f: int) -> Plan:
    """f - 1 witnesses pass the text on to one more, which then knows f + 1 and tells everybody."""
    if f < 2:
        return [[(0, 1)], to_all(1, size)]
    witnesses = range(1, f)
    return [[(0, one) for one in witnesses], [(one, f) for one in witnesses], to_all(f, size)]


def through_the_origin(size: int, f: int) -> Plan:
    """The text to f witnesses, f acknowledgements; then the rest get both and those the commit."""
    if f < 2:
        return [to_all(0, size), [(1, 0)]]
    witnesses = range(1, f + 1)
    return [[(0, one) for one in witnesses], [(one, 0) for one in witnesses], to_all(0, size)]


def in_two_delays(size: int, f: int) -> Plan:
    """f witnesses tell the origin and each other; of them the rest hear from f - 1."""
    witnesses = range(1, f + 1)
    rest = [(one, other) for other in range(f + 1, size) for one in witnesses[: max(1, f - 1)]]
    among = [(one, other) for one in witnesses for other in (0, *witnesses) if one != other]
    return [[(0, one) for one in witnesses], among + rest]


def round_and_out(size: int) -> Plan:
    return [*([(hop, hop + 1)] for hop in range(size - 1)), to_all(size - 1, size)]


def everybody_to_everybody(size: int) -> Plan:
    return [to_all(0, size), [pair for one in range(1, size) for pair in to_all(one, size)]]


def acknowledged(size: int) -> Plan:
    """What mode origin does."""
    return [to_all(0, size), [(one, 0) for one in range(1, size)], to_all(0, size)]


REACHED = {
    "any number of delays": (ring, None),
    "two delays": (in_two_delays, 2),
    "three delays": (gathering, 3),
    "three delays, through the origin": (through_the_origin, 3),
}

REACHED_UNTIL_STABLE = {
    "any number of delays": (round_and_out, None),
    "two delays": (everybody_to_everybody, 2),
    "three delays, through the origin": (acknowledged, 3),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", REACHED)
def test_no_bound_until_safe_is_larger_than_what_some_plan_needs(name: str, size: int) -> None:
    make, delays = REACHED[name]
    f = quorum(size) - 1
    plan = make(size, f)
    assert delays is None or len(plan) <= delays
    assert is_safe(size, plan)
    assert packets(plan) == BOUNDS[name](size, f)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", REACHED_UNTIL_STABLE)
def test_no_bound_until_stable_is_larger_than_what_some_plan_needs(name: str, size: int) -> None:
    make, delays = REACHED_UNTIL_STABLE[name]
    plan = make(size)
    assert delays is None or len(plan) <= delays
    assert is_stable(size, plan)
    assert packets(plan) == BOUNDS_UNTIL_STABLE[name](size, quorum(size) - 1)


def plans(size: int, delays: int, count: int) -> Iterator[Plan]:
    """Every plan of so many packets; in the first round only the origin has something to say."""
    pairs = [pair for sender in range(size) for pair in to_all(sender, size)]
    possible = [(0, pair) for pair in to_all(0, size)]
    possible += [(delay, pair) for delay in range(1, delays) for pair in pairs]
    for chosen in combinations(possible, count):
        yield [[pair for when, pair in chosen if when == delay] for delay in range(delays)]


@pytest.mark.parametrize(
    ("size", "delays", "name"),
    [(3, 2, "two delays"), (4, 2, "two delays"), (3, 3, "three delays"), (4, 3, "three delays")],
)
def test_nobody_can_do_with_a_packet_less(size: int, delays: int, name: str) -> None:
    fewer = BOUNDS[name](size, quorum(size) - 1) - 1
    assert not any(is_safe(size, plan) for plan in plans(size, delays, fewer))
    assert any(is_safe(size, plan) for plan in plans(size, delays, fewer + 1))


def test_the_figures_for_fifty() -> None:
    f = quorum(50) - 1
    until_safe = {name: BOUNDS[name](50, f) for name in REACHED}
    assert until_safe == {
        "any number of delays": 73,
        "two delays": 1175,
        "three delays": 95,
        "three delays, through the origin": 97,
    }
