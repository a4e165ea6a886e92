"""Where a member did something else than its process would have done."""

from typing import NamedTuple

import msgspec

from tidings.core import Effect, Event


class StepTaken(NamedTuple):
    """One step: what was handed over, and what the process makes of it."""

    events: tuple[Event, ...]
    effects: list[Effect]


class Divergence(msgspec.Struct, frozen=True):
    """Where a member did what its protocol would not have done."""

    member: str
    life: int
    words: str
    tick: int | None = None
    index: int | None = None
    """The row in question, if there is one."""
    would: str = ""
    did: str = ""
    before: tuple[StepTaken, ...] = ()
    """The steps that led there, and the one in question last."""


class Diverged(Exception):  # noqa: N818 - reads as what happened
    """What a member did differs from what its process would have done, here."""

    def __init__(
        self, words: str, would: str = "", did: str = "", index: int | None = None
    ) -> None:
        super().__init__(words)
        self.would = would
        self.did = did
        self.index = index
