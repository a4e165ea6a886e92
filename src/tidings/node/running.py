"""How a process runs whose work is to be a member."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, fast: bool = True) -> T:
    """Like ``asyncio.run``, and faster, if it can be.

    On uvloop if that is installed (``tidings[fast]``). And the collector runs less often: messages
    live too short to be worth its while, and modules live forever.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    with asyncio.Runner(loop_factory=_fastest() if fast else None) as runner:
        return runner.run(main)


def _fastest() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
