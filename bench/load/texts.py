"""Texts that name their origin and their place in its order, and the check of every delivery."""

from time import monotonic_ns

FIRST = ord("a")
LETTERS = [bytes([letter]) for letter in range(FIRST, ord("z") + 1)]
MOST_BYTES = 64 << 20
"""How long the texts may be together that wait to be checked."""


def text_of(place: int, seq: int, size: int) -> bytes:
    """What the second member broadcasts as its 17th: a ``b``, eight bytes for 17, and dots."""
    return (LETTERS[place] + seq.to_bytes(8, "big")).ljust(size, b".")


class WrongDeliveryError(Exception):
    """A text was lost, repeated, altered, or overtook another of its origin."""


class Deliveries:
    """What one application was handed: of each origin exactly the next text.

    To take a text is quick. Whether it is the right one is seen later, when no clock runs, or when
    so much has come that it should not all be kept: to check a text takes about as long as the
    fastest system here takes to bring it.
    """

    def __init__(self, members: int) -> None:
        self.size = 0
        """How long each text has to be."""
        self.texts: list[bytes] = []
        self.times_ns: list[int] = []
        """What came since the last check, and when."""
        self.last = [0] * members
        """Of each origin the last that was checked."""
        self.stamps: list[list[int]] | None = None
        """Of each origin when its texts came, if that is kept."""
        self._checked = 0
        self._at_ns = 0

    @property
    def count(self) -> int:
        return self._checked + len(self.texts)

    @property
    def at_ns(self) -> int:
        """When the last of all came."""
        return self.times_ns[-1] if self.times_ns else self._at_ns

    def add(self, text: bytes) -> None:
        self.texts.append(text)
        self.times_ns.append(monotonic_ns())
        if len(self.texts) * self.size > MOST_BYTES:
            self.check()

    def check(self) -> None:
        """Every text that came, and its place in the order of its origin."""
        for text, time_ns in zip(self.texts, self.times_ns, strict=True):
            place = text[0] - FIRST
            seq = self.last[place] + 1
            if text != text_of(place, seq, self.size):
                words = f"{text[:40]!r} came instead of number {seq} of its origin"
                raise WrongDeliveryError(words)
            self.last[place] = seq
            if self.stamps is not None:
                self.stamps[place].append(time_ns)
        self._checked += len(self.texts)
        self._at_ns = self.at_ns
        self.texts.clear()
        self.times_ns.clear()
