"""Receipts that come in order: how many have come, and who waits for which."""

import asyncio
from collections import deque


class Milestone:
    def __init__(self) -> None:
        self.reached = 0
        self._waiters = deque[tuple[int, asyncio.Future[None]]]()

    async def reach(self, number: int) -> None:
        if number > self.reached:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((number, waiter))
            await waiter

    def advance(self, count: int = 1) -> None:
        self.reached += count
        while self._waiters and self._waiters[0][0] <= self.reached:
            self._waiters.popleft()[1].set_result(None)
