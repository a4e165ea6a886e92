"""Tests that do a part of what they do in the soak: fewer random runs, shorter storms.

``make soak ROOM=full`` runs all of them in full. What a test counts is asked of each run, not of
so many: a least of 100 in 1000 runs is one of 10 in 100.
"""

import os

FULL = "TIDINGS_FULL"
"""Set for the soak."""


def amount(usual: int, full: int) -> int:
    """How much of it: as usual, or in full."""
    return full if os.environ.get(FULL) else usual
