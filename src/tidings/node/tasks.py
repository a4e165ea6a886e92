"""The tasks of a member, in a TaskGroup that belongs to none of the program's tasks.

A TaskGroup cancels whoever entered it when one of its tasks fails. A program may open its group in
one task and close it in another, so that would hit somebody who has nothing to do with it. Here a
task of our own enters it, and what goes wrong in there stops the member.
"""

import asyncio
from asyncio import TaskGroup
from collections.abc import Callable


class Tasks:
    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        self.group = TaskGroup()
        self._on_fault = on_fault
        self._is_over = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None

    async def open(self) -> None:
        entered = asyncio.Event()
        self._holder = asyncio.create_task(self._hold(entered))
        self._holder.add_done_callback(self._ended)
        await entered.wait()

    async def _hold(self, entered: asyncio.Event) -> None:
        async with self.group:
            entered.set()
            await self._is_over.wait()

    def _ended(self, holder: asyncio.Task[None]) -> None:
        error = None if holder.cancelled() else holder.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is not None:
            self._on_fault(error)

    def cancel(self) -> None:
        if self._holder is not None:
            self._holder.cancel()

    async def close(self) -> None:
        """Return when all of them have ended; cancelled, it cancels them."""
        self._is_over.set()
        if self._holder is None:
            return
        try:
            await asyncio.wait([self._holder])
        except asyncio.CancelledError:
            self._holder.cancel()
            await asyncio.wait([self._holder])
            raise
