"""Reductions on random protocols: whatever the protocol, they keep every way a run can end."""

from itertools import permutations

import pytest

from random_protocols import RandomProtocol, random_protocol
from tidings.explore import ALL, Reduction, Scope, expand
from tidings.explore.branch import Branch
from tidings.explore.expand import Explorer
from tidings.explore.reactions import NotInertError

SEEDS = range(90)
MOST_STATES = 3_000

Ending = tuple[str, tuple, tuple]
"""What is broken or that it settled, who crashed, and who delivered what."""


class TooManyError(Exception):
    pass


def endings(
    protocol: type[RandomProtocol], scope: Scope, reductions: frozenset[Reduction], monkeypatch
) -> set[Ending]:
    monkeypatch.setattr(expand, "factory", lambda name, options: protocol)
    lively: frozenset[str] = frozenset()
    while True:
        try:
            return _endings(Explorer(scope, reductions, lively))
        except NotInertError as mistake:
            lively |= {mistake.kind}


def _endings(explorer: Explorer) -> set[Ending]:
    found: set[Ending] = set()
    seen: set[int] = set()
    waiting = list(explorer.first())
    while waiting:
        branch = waiting.pop()
        number = explorer.signatures.number(branch.total())
        if number in seen:
            continue
        if branch.broken:
            found |= {(what.value, (), ()) for what in branch.broken}
            continue
        seen.add(number)
        if len(seen) > MOST_STATES:
            raise TooManyError
        if explorer.is_settled(branch):
            found.add(ending_of(branch))
        waiting += explorer.following(branch)
    return found


def ending_of(branch: Branch) -> Ending:
    delivered = sorted(
        (process, message.origin, message.seq)
        for process, mask in branch.delivered.items()
        for message, bit in branch.bits.items()
        if mask & bit
    )
    return ("settled", tuple(sorted(branch.crashed)), tuple(delivered))


def under_all_names(found: set[Ending], members: tuple[str, ...]) -> set[Ending]:
    """Everything that exchanging names makes of these endings."""
    images = set()
    for names in permutations(members):
        new = dict(zip(members, names, strict=True))
        images |= {
            (
                what,
                tuple(sorted(new[one] for one in crashed)),
                tuple(sorted((new[by], new[origin], seq) for by, origin, seq in delivered)),
            )
            for what, crashed, delivered in found
        }
    return images


def test_no_reduction_loses_an_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = broken = 0
    for seed in SEEDS:
        protocol, scope = random_protocol(seed)
        try:
            whole = endings(protocol, scope, frozenset(), monkeypatch)
        except TooManyError:
            continue
        compared += 1
        broken += any(what != "settled" for what, _, _ in whole)
        for reductions in (*([one] for one in ALL), ALL):
            kept = endings(protocol, scope, frozenset(reductions), monkeypatch)
            if Reduction.SYMMETRY in reductions:
                kept, all_of_them = (under_all_names(one, scope.members) for one in (kept, whole))
            else:
                all_of_them = whole
            assert kept == all_of_them, f"seed {seed}, {reductions}"
    assert compared >= 50
    assert broken >= 10
