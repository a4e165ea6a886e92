"""How work is handed out, wherever it is done: Spark's workers, or right here."""

from collections.abc import Callable, Sequence
from typing import Any

Perform = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Does a task for each item of a list, and returns what came of each, in order."""


def plainly(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest Perform: here, one after the other."""
    return [task(item) for item in items]
