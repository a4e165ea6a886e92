"""What must be true of the members of a changing group, which only a simulator can see."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier import invariants as frontier
from tidings.protocols.views.packets import View

if TYPE_CHECKING:
    from tidings.protocols.views.protocol import Views


def check(member: "Views", group: Mapping[str, "Views"]) -> None:
    _one_chain(member, group)
    for number, former in member.formers.items():
        _ends_at_the_cut(member, number, former)
    if member.is_member and not member.is_wedged:
        _counts_in_its_view_alone(member, group)


def _one_chain(member: "Views", group: Mapping[str, "Views"]) -> None:
    """There is one decision for each number, and a vote for another one decides nothing."""
    decided: dict[int, View] = {}
    for one in group.values():
        for view in one.chain:
            first = decided.setdefault(view.number, view)
            assert first == view, f"{member.me}: two views of one number, {first} and {view}"


def _ends_at_the_cut(member: "Views", number: int, former: Frontier) -> None:
    view = next(view for view in member.chain if view.number == number + 1)
    delivered = former.log.delivered
    assert delivered == dict(view.cut), f"{member.me} left view {number} with {delivered}"


def _counts_in_its_view_alone(member: "Views", group: Mapping[str, "Views"]) -> None:
    held = {
        name: found.log.held
        for name, one in group.items()
        if name in member.members and (found := _frontier_of(one, member.number)) is not None
    }
    frontier.check(member.current.log, member.current.knowledge, held)


def _frontier_of(one: "Views", number: int) -> Frontier | None:
    is_current = one.number == number and not one.has_left
    return one.current if is_current else one.formers.get(number)
