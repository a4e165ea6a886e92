"""What of a cut is missing here, and who could send it."""

from collections.abc import Mapping

from tidings.core import Members, Part, Send, Span
from tidings.protocols.frontier.packets import Pull
from tidings.protocols.views.packets import InView
from tidings.protocols.views.present import Present
from tidings.protocols.views.wrapping import Effects


class Gathering(Part):
    present: Present
    wanted: dict[str, int] = {}
    holders: dict[str, dict[str, int]] = {}
    """Members that can be asked, and what they hold of each origin."""
    asked: set[str] = set()

    def begin(self, members: Members) -> None:
        self.members = members
        self._stop()

    def _stop(self) -> None:
        self.wanted, self.holders, self.asked = {}, {}, set()

    def want(self, cut: Mapping[str, int], holders: Mapping[str, Mapping[str, int]]) -> None:
        if self.wanted != dict(cut):
            self._stop()
            self.wanted = dict(cut)
        self.holders |= {name: dict(counts) for name, counts in holders.items()}

    def missing(self) -> list[str]:
        """Origins of which something is missing."""
        return self.present.lacks(self.wanted)

    def ask(self, out: Effects, *, again: bool = False) -> None:
        """Ask for what is missing; somebody else only if the first does not answer."""
        if self.asked and not again:
            return
        held, wanted = self.present.log.held, self.wanted
        for holder, origins in self._helpers(self.missing()).items():
            if holder != self.me:
                spans = tuple(Span(one, held[one] + 1, wanted[one]) for one in origins)
                out.append(Send((holder,), InView(self.present.number, Pull(spans))))

    def end(self) -> None:
        """Forget who was asked, if nothing is missing."""
        if self.wanted and not self.missing():
            self._stop()

    def go_on(self, sender: str, out: Effects) -> None:
        """It has sent something, and may have more."""
        if self.missing():
            self.asked.discard(sender)
            self.ask(out, again=True)

    def _helpers(self, missing: list[str]) -> dict[str, list[str]]:
        """Whom to ask next, and for messages of which origins; everybody once, then all over."""
        for _ in range(2):
            helpers: dict[str, list[str]] = {}
            for origin in missing:
                for name, counts in sorted(self.holders.items()):
                    if name not in self.asked and counts.get(origin, 0) >= self.wanted[origin]:
                        helpers.setdefault(name, []).append(origin)
                        break
            if helpers:
                self.asked |= helpers.keys()
                return helpers
            self.asked = set()
        return {}
