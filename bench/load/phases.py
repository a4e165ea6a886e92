"""What all members of a group do for some seconds, as one line of words.

- ``window``: each member broadcasts as long as fewer than so many of its own broadcasts are
  outstanding. A broadcast is outstanding until the application of its own sender has it back. This
  can be said of every system, and counts nothing that a system only promises.
- ``paced``: each member broadcasts so many times per second, however the system fares, and a task
  awaits every receipt.
- ``alone``: the second member broadcasts and awaits the receipt before its next; the others are
  silent. (The second, since the first is the sequencer of JGroups.)
"""

from typing import Literal, NamedTuple, Self

Kind = Literal["window", "paced", "alone"]
NO_STAMPS = "-"


class Phase(NamedTuple):
    kind: Kind
    size: int
    """How long each text is."""
    seconds: float
    window: int = 0
    per_s: float = 0.0
    """Broadcasts per second of each member, if paced."""
    most: int = 1_000_000
    """No member broadcasts more than this."""
    stamps: str = NO_STAMPS
    """The folder for the times of all broadcasts and deliveries, if they are kept."""

    def line(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def of(cls, line: str) -> Self:
        kind, size, seconds, window, per_s, most, stamps = line.split()
        assert kind in ("window", "paced", "alone"), line
        return cls(
            kind,  # type: ignore[arg-type]
            *(int(size), float(seconds), int(window), float(per_s), int(most), stamps),
        )
