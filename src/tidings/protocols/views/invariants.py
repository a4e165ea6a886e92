"""What must be true of the members of a changing group, which only a simulator can see."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidings.protocols.frontier import invariants as frontier
from tidings.protocols.frontier.log import Log
from tidings.protocols.views.packets import View

if TYPE_CHECKING:
    from tidings.protocols.views.protocol import Views


def check(member: "Views", group: Mapping[str, "Views"]) -> None:
    _one_chain(member, group)
    for number, former in member.formers.logs.items():
        _ends_at_the_cut(member, number, former)
    if member.present.is_open:
        _counts_in_its_view_alone(member, group)


def _one_chain(member: "Views", group: Mapping[str, "Views"]) -> None:
    """There is one decision for each number, and a vote for another one decides nothing."""
    decided: dict[int, View] = {}
    for one in group.values():
        for view in one.chain:
            first = decided.setdefault(view.number, view)
            assert first == view, f"{member.me}: two views of one number, {first} and {view}"


def _ends_at_the_cut(member: "Views", number: int, former: Log) -> None:
    cut, delivered = dict(member.chain[number + 1].cut), former.delivered
    assert delivered == cut, f"{member.me} left view {number} with {delivered}"


def _counts_in_its_view_alone(member: "Views", group: Mapping[str, "Views"]) -> None:
    """Of those that are in a later view already, nobody can tell what they held in this one."""
    held = {
        name: one.present.log.held
        for name, one in group.items()
        if name in member.members and one.number == member.number and one.standing.is_inside
    }
    frontier.check(member.present.log, member.current.knowledge, held)
