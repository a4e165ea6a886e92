"""How a process runs whose work is to be a member."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, fast: bool = True) -> T:
    """Like ``asyncio.run``, and faster, if it can be.

    On uvloop if that is installed (``tidings[fast]``). And the collector runs less often: messages
    live too short to be worth its while, and modules live forever.
    """
    try:
        with asyncio.Runner(loop_factory=fastest() if fast else None) as runner, _quiet_collector():
            return runner.run(main)
    finally:
        if asyncio.iscoroutine(main):
            main.close()  # Ctrl-C may come before it has begun, and Python would complain of that


@contextmanager
def _quiet_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def fastest() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """How to make a loop of uvloop, if that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
