"""Every flaw found and every mended form clean, in the scopes that take longer than a moment.

Two-phase, pull, the ring and frontier may be cut in theirs, and so may what is larger still;
what was seen is told then.
"""

import time
from pathlib import Path

import pytest

from smallest_scopes import SMALLEST, mended_scope_of
from tidings.core import Exit
from tidings.explore import Explored, Scope, SearchProgress, explore
from tidings.protocols import PROTOCOLS
from tidings.simulator.script import protocol_of
from tidings.spec import Value

MOST_MINUTES = 30
LARGER_MINUTES = 4
MAY_BE_CUT = ("two-phase", "majority-relay pull=yes", "stage-gossip", "frontier")


def shown(what: str, explored: Explored) -> None:
    pace = explored.pace
    print(
        f"\n{what}: {pace.states:,} states, {pace.transitions:,} transitions, {pace.depth} deep, "
        f"{pace.seconds:.1f} s, {pace.states_per_second:,.0f} states/s, {pace.memory_mb:,} MB, "
        f"{explored.cut or 'complete'}"
    )


@pytest.mark.parametrize("name", SMALLEST)
def test_each_flaw_is_found_within_a_minute_with_a_story(name: str, tidings) -> None:
    scope = SMALLEST[name]
    words = ["explore", "--protocol", name]
    for option, value in scope.items():
        if option == "texts":
            words += [word for text in value for word in ("--text", text.decode())]
        else:
            words += [f"--{option.replace('_', '-')}", str(value)]
    started = time.monotonic()
    answer = tidings(*words)
    assert time.monotonic() - started < 60
    assert answer.status == Exit.VIOLATED
    assert list(Path("runs").glob("*/story.md"))
    print(f"\n{name}: {answer.out.splitlines()[1]}")


@pytest.mark.parametrize("name", SMALLEST)
def test_each_mended_form_is_clean_where_the_flaw_shows(name: str) -> None:
    scope = mended_scope_of(name)
    explored = explore_for_minutes(scope)
    shown(f"{PROTOCOLS[name].instead_of}, where {name} shows", explored)
    assert not explored.found
    if not any(PROTOCOLS[name].instead_of.startswith(one) for one in MAY_BE_CUT):
        assert not explored.cut
        assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


LARGER = [
    ("majority-relay", {"broadcasts": 3}),
    ("majority-relay notice=yes", {"broadcasts": 3}),
    ("majority-relay postpone=yes", {"broadcasts": 2}),
    ("majority-relay pull=yes", {"broadcasts": 2}),
    ("history-sets", {"broadcasts": 3}),
    ("interval-history", {"broadcasts": 3}),
    ("two-phase", {"broadcasts": 3}),
    ("stage-gossip", {"broadcasts": 3}),
    ("stage-gossip form=news", {"broadcasts": 2}),
    ("majority-relay", {"processes": 4, "broadcasts": 2}),
    ("majority-relay", {"processes": 5, "broadcasts": 1, "crashes": 2}),
    ("history-sets", {"broadcasts": 2, "duplicates": 1}),
    ("two-phase", {"broadcasts": 2, "duplicates": 1}),
]


@pytest.mark.parametrize(("words", "scope"), LARGER, ids=str)
def test_larger_scopes_break_nothing_either(words: str, scope: dict[str, int]) -> None:
    protocol, options = protocol_of(words)
    defaults = {"processes": 3, "crashes": 1}
    explored = explore_for_minutes(
        Scope(protocol=protocol, options=options, **(defaults | scope)), minutes=LARGER_MINUTES
    )
    shown(f"{words} {scope}", explored)
    assert not explored.found


def explore_for_minutes(scope: Scope, minutes: float = MOST_MINUTES) -> Explored:
    def stop_in_time(pace: SearchProgress) -> None:
        if pace.seconds > 60 * minutes:
            raise KeyboardInterrupt

    return explore(scope, progress=stop_in_time)
