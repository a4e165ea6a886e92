"""How far members had come when their histories ended, by the last segments of each.

A member that leaves while messages are under way ends without some that the others deliver. To
whoever judges it looks like a loss, so whoever says how a run ended should know of it.
"""

from collections.abc import Iterator
from pathlib import Path

from tidings.core import Members, MessageId
from tidings.trace.segments import Gap, Mark, Messages, Reader, segments_of


def missing_at_the_end(folder: Path, up: Members) -> Iterator[tuple[str, MessageId]]:
    """Who ends without a message of its own, or one that another delivered, and the last such.

    What differs in the newest segments is found; older ones are read for what these do not say.
    """
    histories = {name: _Backwards(folder, name) for name in up}
    for one in histories.values():
        one.read_one()
    origins = {origin for one in histories.values() for origin in one.origins()}
    for one in histories.values():
        one.read_about(origins)
    for origin in sorted(origins):
        most = max(one.delivered.get(origin, 0) for one in histories.values())
        for name, one in histories.items():
            wanted = max(most, one.broadcast) if name == origin else most
            if one.delivered.get(origin, 0) < wanted:
                yield name, MessageId(origin, wanted)


class _Backwards:
    """One history, the newest segment first."""

    def __init__(self, folder: Path, process: str) -> None:
        self.delivered: dict[str, int] = {}
        """Of each origin the last, as far as was read."""
        self.broadcast = 0
        """The last of its own, or 0 where nothing was read of any."""
        self._process = process
        self._segments = reversed(segments_of(folder, process))

    def origins(self) -> set[str]:
        """Of whom it has said something so far."""
        return {*self.delivered, *([self._process] if self.broadcast else [])}

    def read_about(self, origins: set[str]) -> None:
        while origins - self.delivered.keys() and self.read_one():
            pass

    def read_one(self) -> bool:
        """One segment more that says something, if there is one."""
        for path in self._segments:
            items = [item for block in Reader(path).blocks() for item in block.items]
            for item in items:
                self._note(item)
            if items:
                return True
        return False

    def _note(self, item: object) -> None:
        match item:
            case Messages("deliver", origin, first, count):
                self._come_to(origin, first + count - 1)
            case Messages("broadcast", first=first, count=count):
                self.broadcast = max(self.broadcast, first + count - 1)
            case Mark(delivered=vector) | Gap(delivered=vector):
                for origin, last in (vector or {}).items():
                    self._come_to(origin, last)

    def _come_to(self, origin: str, last: int) -> None:
        self.delivered[origin] = max(last, self.delivered.get(origin, 0))
