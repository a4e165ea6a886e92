"""Texts that name their origin and their place in its order, and the check of every delivery."""

import time

FIRST = ord("a")
LETTERS = [bytes([letter]) for letter in range(FIRST, ord("z") + 1)]


def text_of(place: int, seq: int, size: int) -> bytes:
    """What the second member broadcasts as its 17th: a ``b``, eight bytes for 17, and dots.

    Every member makes every text, to compare: so it has to be quick, or this is what is measured.
    """
    return (LETTERS[place] + seq.to_bytes(8, "big")).ljust(size, b".")


class WrongDeliveryError(Exception):
    """A text was lost, repeated, altered, or overtook another of its origin."""


class Deliveries:
    """What one application was handed: of each origin exactly the next text, and how many."""

    def __init__(self, members: int) -> None:
        self.size = 0
        self.last = [0] * members
        """Of each origin the last that came."""
        self.count = 0
        self.at_ns = 0
        """When the last of all came."""
        self.stamps: list[list[int]] | None = None
        """Of each origin when its texts came, if that is kept."""

    def add(self, text: bytes) -> int:
        """Check one; the place of its origin."""
        place = text[0] - FIRST
        seq = self.last[place] + 1
        if text != text_of(place, seq, self.size):
            raise WrongDeliveryError(f"{text[:40]!r} came instead of number {seq} of its origin")
        self.last[place] = seq
        self.count += 1
        self.at_ns = now_ns = time.monotonic_ns()
        if self.stamps is not None:
            self.stamps[place].append(now_ns)
        return place
