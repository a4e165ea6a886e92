"""What waits for the disk, and the one thread that writes.

Ticks that come while it is busy gather and share the next commit, or the next few if they are
long; each of them is finished, in order, when all of that is on disk. A new segment of the log
begins exactly between two ticks, where the process said in short what it has persisted.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from tidings.core import Checkpoint, MessageId, Process
from tidings.node.config import Config
from tidings.node.log import DurableLog, Ranges, merge
from tidings.node.tick import Tick

SLOW_S = 0.5
"""A commit that takes longer is what everything waits for."""
WARN_PERCENT = (50, 80, 95)
"""Of ``limits.log_bytes``: each is reported when the log reaches it."""


class Disk:
    def __init__(
        self,
        log: DurableLog,
        config: Config,
        finish: Callable[[Sequence[Tick]], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.log = log
        self.commits = 0
        self.commit_s = 0.0
        self._config = config
        self._log_bytes = config.limits.log_bytes
        # A log that can hold only one segment would be full before it could be shortened.
        self._segment_bytes = min(config.limits.segment_bytes, self._log_bytes // 4)
        self._finish = finish
        self._fail = fail
        self.waiting: list[Tick] = []
        """For the commit that is under way, or until something waits for them."""
        self._is_due = False
        """Whether something does."""
        self._writing: list[Tick] = []
        self._began_s = 0.0
        self._warned = 0
        """The last percentage that was reported, unless the log has become smaller."""
        self._is_rotating = False
        self._is_over = False
        """Nothing more is written: something failed, or the log is being closed."""
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{log.about.member}-disk")
        self.ended = Future[None]()
        """Done when the log is closed."""

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self._writing)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written, nor about to be."""
        return not self._writing and not self._is_due

    @property
    def is_slow(self) -> bool:
        return bool(self._writing) and time.perf_counter() - self._began_s > SLOW_S

    async def answers(self, patience_s: float) -> bool:
        """Whether the thread is done in time with everything that it was asked."""
        if self._is_over:
            return True
        done = asyncio.wrap_future(self._thread.submit(lambda: None))
        await asyncio.wait([done], timeout=patience_s)
        return done.done()

    def will_deliver(self, message: MessageId) -> bool:
        """Whether it is delivered as soon as what has yet to be written is on disk."""
        origin, seq = message
        ticks = (*self._writing, *self.waiting)
        return any(tick.delivered.get(origin, 0) >= seq for tick in ticks)

    def newly_full(self, process: Process) -> int:
        """Which percentage the log has reached since this was last asked; 0 if none.

        What is kept although nobody needs it does not count: it makes room.
        """
        percent = 100 * self.fullness(process)
        reached = max((one for one in WARN_PERCENT if one <= percent), default=0)
        before, self._warned = self._warned, reached
        return reached if reached > before else 0

    def fullness(self, process: Process) -> float:
        """How much of ``limits.log_bytes`` somebody needs: from 1 on, broadcasts are refused."""
        return self._needed(process) / self._log_bytes

    def is_full(self, process: Process) -> bool:
        """Whether the log is too long, and the next tick cannot make it shorter."""
        return self.log.size > self._log_bytes and self._needed(process) > self._log_bytes

    def _needed(self, process: Process) -> int:
        """How many bytes of the log somebody needs."""
        checkpoint = process.checkpoint()
        return self.log.needed_bytes(checkpoint.forgotten if checkpoint is not None else {})

    def add(self, tick: Tick, process: Process) -> None:
        """``write`` this as soon as something waits for it, and finish it then."""
        self._rotate_in_time(tick, process)
        self.waiting.append(tick)
        are_many = len(self.waiting) > self._config.limits.commit_ticks // 2
        self._is_due |= tick.is_due or tick.checkpoint is not None or are_many

    def flush(self) -> None:
        """Write what nothing waits for, too."""
        self._is_due = bool(self.waiting)
        self.write()

    def write(self) -> None:
        """Commit what has gathered, if something waits for it and nothing is under way."""
        if self._is_due and not self._writing and not self._is_over:
            ticks, self.waiting, self._is_due = self.waiting, [], False
            self._writing, self._began_s = ticks, time.perf_counter()
            self._in_thread(partial(self._commit, ticks), partial(self._committed, ticks))

    def _committed(self, ticks: list[Tick]) -> None:
        self._writing = []
        try:
            if self._finish(ticks) and self.log.thrown and not self._is_over:
                # Only now does the trace have what the log said in them.
                self._in_thread(self.log.throw_away, lambda: None)
        except Exception as error:
            self._failed(error)
        self.write()

    def _failed(self, error: BaseException) -> None:
        self._is_over = True
        self._fail(error)

    def _rotate_in_time(self, tick: Tick, process: Process) -> None:
        """Begin a new segment when this one is long, or the log is full and could be shorter."""
        is_long = self.log.segment_size > self._segment_bytes
        if self._is_rotating or not (is_long or self.log.size > self._log_bytes):
            return
        checkpoint = process.checkpoint()
        if checkpoint is not None and (is_long or self.log.can_forget(checkpoint.forgotten)):
            tick.checkpoint = checkpoint
            self._is_rotating = True

    async def recall(self, origin: str, first: int, last: int, most_bytes: int) -> tuple[Any, ...]:
        """Records that were written, after what has yet to be."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self.log.recall, origin, first, last, most_bytes
        )

    def close(self) -> None:
        """The thread ends when it has done what it was asked, and gives the folder back last."""
        self._is_over = True
        self.ended = self._thread.submit(self.log.close)
        self._thread.shutdown(wait=False)

    def _in_thread(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        self._thread.submit(self._do, work, then)

    # --- in the thread

    def _do(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """And then that in the loop, without a future in between: a lone commit is to be quick."""
        try:
            work()
        except Exception as error:
            then = partial(self._failed, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(then)

    def _commit(self, ticks: Sequence[Tick]) -> None:
        begin_s = time.perf_counter()
        part: list[Tick] = []
        size = 0
        for tick in ticks:
            part.append(tick)
            size += tick.bytes
            if size >= self._config.limits.commit_bytes or tick.checkpoint is not None:
                self._write(part)
                part, size = [], 0
            if tick.checkpoint is not None:
                self._rotate(tick.checkpoint, tick.index)
        if part:
            self._write(part)
        self.commit_s += time.perf_counter() - begin_s

    def _write(self, ticks: Sequence[Tick]) -> None:
        held: Ranges = {}
        delivered: dict[str, int] = {}
        for tick in ticks:
            merge(held, tick.held)
            delivered |= tick.delivered
        self.log.commit(
            tuple([record for tick in ticks for record in tick.records]),
            b"".join([tick.block for tick in ticks]),
            held,
            sum(tick.messages for tick in ticks),
            delivered,
        )
        self.commits += 1

    def _rotate(self, checkpoint: Checkpoint, index: int) -> None:
        most, retention = self._log_bytes - self._segment_bytes, self._config.retention
        needless = self.log.needless(checkpoint.forgotten, retention, most)
        self.log.begin_segment(checkpoint.records, index, needless)
        self._is_rotating = False
