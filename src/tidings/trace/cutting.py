"""How far a history can be cut off: what came before is then told by numbers alone.

Numbers tell it only if everything happened in sequence: the messages of each origin delivered from
1 on, each once, in their order, and one's own broadcast in the same way. Whatever shows that it was
not so is evidence, and stays. Where rows are missing nobody knows what happened; there one waits
for the next ``gap`` or ``recover`` that tells how far the process had come.
"""

from collections.abc import Iterable

from tidings.trace.manifest import Cut
from tidings.trace.segments import Block, Gap, Item, Mark, Span


class OutOfSequenceError(Exception):
    """What happened cannot be told by numbers: the text says what it was."""


class Past:
    """What a process has done since its beginning, as its blocks tell it in order."""

    def __init__(self, process: str, cut: Cut | None) -> None:
        begin = cut or Cut(index=0)
        self.process = process
        self.index = begin.index
        self.broadcast = begin.broadcast
        self.delivered = dict(begin.delivered)
        self.unsure = False
        """Whether rows were missing, and nothing has told since how far the process had come."""

    @property
    def cut(self) -> Cut:
        assert not self.unsure, "nobody knows what happened before"
        return Cut(index=self.index, broadcast=self.broadcast, delivered=dict(self.delivered))

    def read(self, blocks: Iterable[Block]) -> None:
        """Go on with these; what was read before is passed over."""
        for block in blocks:
            if block.end <= self.index:
                continue
            self.unsure |= block.index > self.index
            for item in block.items:
                self._take(item)
            self.index = block.end

    def _take(self, item: Item) -> None:
        match item:
            case Span("deliver", origin, first, count):
                self._check("delivered", origin, first, self.delivered.get(origin, 0))
                self.delivered[origin] = first + count - 1
            case Span("broadcast", origin, first, count):
                self._check("broadcast", origin, first, self.broadcast)
                self.broadcast = first + count - 1
            case Gap(_, _, delivered, broadcast):
                self.delivered |= delivered
                self.broadcast = max(self.broadcast, broadcast)
            case Mark("recover", _, delivered, broadcast) if delivered is not None:
                self.delivered, self.broadcast = dict(delivered), broadcast
                self.unsure = False

    def _check(self, verb: str, origin: str, first: int, last: int) -> None:
        if first <= last or (first > last + 1 and not self.unsure):
            raise OutOfSequenceError(
                f"{self.process} {verb} {origin}#{first} where {origin}#{last + 1} comes next"
            )
