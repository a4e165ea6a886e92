"""Operators that have a group add, remove and replace members while it runs, as a seed decides.

A member is asked when the time has come, and the change is drawn from what the group is then: any
member may be removed, the one that is asked among them. A replacement of p2 is called p2+1, the
next one p2+2; nobody else ever has that name.
"""

from collections import Counter
from typing import Literal

from tidings.core import Members, majority
from tidings.simulator.choices import ChangeRequest
from tidings.simulator.luck import Luck
from tidings.simulator.world import World

Kind = Literal["add", "remove", "replace"]
AS_PLANNED = 0.7
"""The share of broadcasts that a member makes of which it was planned before the group changed."""
KINDS: tuple[Kind, ...] = ("add", "remove", "replace")


class Churn:
    def __init__(self, world: World, luck: Luck) -> None:
        self.world = world
        self.luck = luck
        self.added = len(world.processes)
        self._replaced: Counter[str] = Counter()
        self._spoken = 0

    @property
    def inside(self) -> Members:
        """The members that are up."""
        return tuple(filter(self.world.is_inside, self.world.up))

    def request(self, number: int, rival: int, asked: str = "") -> ChangeRequest | None:
        """The change of this number, or that of its rival, as somebody asks for it now."""
        key = (number, rival, asked)
        if not self.inside or (asked and asked not in self.inside):
            return None
        asked = asked or self.luck.one_of(self.inside, "asked", *key)
        kind = self.luck.one_of(KINDS, "change", *key)
        members = self.world.processes[asked].members
        remove = "" if kind == "add" else self.luck.one_of(members, "removed", *key)
        return ChangeRequest(asked, "" if kind == "remove" else self._newcomer(remove), remove)

    def _newcomer(self, replaced: str) -> str:
        if not replaced:
            self.added += 1
            return f"p{self.added}"
        name, _, _ = replaced.partition("+")
        self._replaced[name] += 1
        return f"{name}+{self._replaced[name]}"

    def speaker(self, planned: str) -> str:
        """Who broadcasts for one that may have left: newcomers speak, too."""
        self._spoken += 1
        if not self.inside:
            return planned
        anybody = self.luck.one_of(self.inside, "speaker now", self._spoken)
        stays = self.luck.share("as planned", self._spoken) < AS_PLANNED
        return planned if stays and planned in self.inside else anybody

    def may_crash(self, process: str) -> bool:
        """Whether the latest view keeps its majority without it: beyond that nothing is owed."""
        latest = self.world.views[-1]
        up = [one for one in latest if one in self.world.up and one != process]
        return process not in latest or len(up) >= majority(len(latest))
