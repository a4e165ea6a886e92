"""A process of somebody else does everything twice: itself, and a copy of it.

Replay, shrinking and the explorer rely on it that a process in the same state does the same. One
that keeps something outside of its attributes, on its class or in its module, does not, and what
they would say of it is not true. So the copy is asked too, with the same draws, and the answers
are compared. The process itself goes on with a copy of its state, too: two copies of a set are
iterated in the same order, a set and its copy need not be. Only sets of objects that hash by
their address still differ, so the order of effects is not compared.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from tidings.core import Deliver, Effect, Event, Process, Send
from tidings.core.state import fingerprint

NOT_THE_SAME = (
    "it does not do the same twice: a copy of it, in the same state, {} (does it keep something on "
    "its class or in its module, iterate over a set of objects, draw otherwise than with "
    "self.choose, or read a file or a clock?)"
)


class Twin:
    """A copy of a process, taken before it acts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._drawn: list[tuple[str, list[int], int]] = []
        self._copy = process.fork(self._draw_again)
        process.renew()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take down what the process draws."""
        choose = self._process.choose

        def noted(label: str, weights: Sequence[int]) -> int:
            drawn = choose(label, weights)
            self._drawn.append((label, list(weights), drawn))
            return drawn

        self._process.choose = noted
        try:
            yield
        finally:
            self._process.choose = choose

    def _draw_again(self, label: str, weights: Sequence[int]) -> int:
        if not self._drawn or self._drawn[0][:2] != (label, list(weights)):
            raise _DrawsOtherwise
        return self._drawn.pop(0)[2]

    def difference(self, event: Event, effects: Sequence[Effect]) -> str | None:
        """What the copy does otherwise, if anything, in the words that NOT_THE_SAME wants."""
        try:
            with redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
                again = _gist(self._copy.step(event))
        except _DrawsOtherwise:
            return "draws something else"
        except (Exception, SystemExit) as error:
            return f"raises {type(error).__name__}"
        if self._drawn:
            return "draws something else"
        if again != _gist(effects):
            return "has other effects"
        self._copy.choose = self._process.choose  # which a state that knows its process includes
        if self._copy.fingerprint() != self._process.fingerprint():
            return "comes into another state"
        return None


class _DrawsOtherwise(BaseException):
    """Not an Exception, so that the process does not catch it."""


def _gist(effects: Sequence[Effect]) -> list[bytes]:
    """What is to be done, in no order."""
    return sorted(fingerprint(part) for effect in effects for part in _parts(effect))


def _parts(effect: Effect) -> list[Any]:
    match effect:
        case Send(to, packet):
            return [["send", receiver, packet] for receiver in to]
        case Deliver(messages):
            return [["deliver", message] for message in messages]
    return [effect]


@cache
def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")
