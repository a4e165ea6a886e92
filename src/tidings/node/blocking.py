"""A group for programs without asyncio: the same calls, and each returns when it is done.

    with tidings.join_blocking("p1") as group:
        receipt = group.broadcast(b"hello")
        receipt.delivered(timeout=5)
        for message in group:
            ...

The member runs in an event loop of its own, in a daemon thread. Any thread may call; one of them
reads at a time, as in any group. Every call is a trip into that loop and back, some 50 to 100
microseconds: whoever has many messages takes ``broadcast_many`` and ``batches``.
"""

import asyncio
import threading
from asyncio import timeout
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidings.core import Message, MessageId, TextSpan, UsageError
from tidings.node.condition import Status
from tidings.node.config import Config
from tidings.node.errors import Closed
from tidings.node.group import Acknowledge, Group, join
from tidings.node.ledger import Receipt
from tidings.node.membership import GroupView
from tidings.node.reading import CALLER
from tidings.node.running import fastest

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
"""What is to be done in the loop."""
Late = Callable[[], str]
"""What took too long, and what it waits for."""


def join_blocking(
    name: str,
    group: str | Path | Config = "group.toml",
    *,
    acknowledge: Acknowledge = "next",
    listen: bool = True,
    founding: bool = False,
    address: str = "",
    metrics: str | int = "",
) -> "BlockingGroup":
    """Take part in a group as this member; ``join`` explains the arguments. It has to be closed."""
    options: dict[str, Any] = {"acknowledge": acknowledge, "listen": listen, "founding": founding}
    joining = join(name, group, address=address, metrics=metrics, **options)
    loop = _Loop(name)
    try:
        loop.call(joining.__aenter__)
    except BaseException:
        loop.end()
        raise
    return BlockingGroup(joining, loop)


class BlockingReceipt:
    """What becomes of one broadcast. TimeoutError after so many seconds, if it takes longer."""

    def __init__(self, receipt: Receipt, group: Group, loop: "_Loop") -> None:
        self._receipt = receipt
        self._group = group
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._receipt)

    @property
    def id(self) -> MessageId | None:
        return self._receipt.id

    def delivered(self, timeout: float | None = None) -> MessageId:
        return self._loop.call(self._receipt.delivered, timeout, lambda: self._late("delivered"))

    def stable(self, timeout: float | None = None) -> MessageId:
        return self._loop.call(self._receipt.stable, timeout, lambda: self._late("stable"))

    def _late(self, aim: str) -> str:
        missing = ", ".join(self._group.status().missing)
        link = f"; {self._group.name} has no link to {missing}" if missing else ""
        return f"{self.id or 'a text'} is not {aim} yet: {self._group.why(self.id)}{link}"


class BlockingGroup:
    """One member's view of its group; made by ``join_blocking``. ``Group`` explains the calls."""

    def __init__(self, group: Group, loop: "_Loop") -> None:
        self._group = group
        self._loop = loop
        self._turn = threading.Lock()
        """Held by the thread that reads."""
        self._coming: Future[Message | None] | None = None
        """The next message, if it was asked for: whoever was interrupted may ask again."""

    @property
    def name(self) -> str:
        return self._group.name

    @property
    def config(self) -> Config:
        return self._group.config

    # --- leaving

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(lambda: self._group.__aexit__(kind, error, trace))

    def close(self) -> None:
        self._leave(self._group.close)

    def _leave(self, leaving: Work[None]) -> None:
        """Whoever waits for something else hears of it; interrupted, it leaves in haste."""
        if self._loop.is_over:
            return
        try:
            self._loop.call(leaving)
        finally:
            self._loop.end()

    def ready(self, timeout: float | None = None) -> None:
        self._loop.call(lambda: self._group.ready(timeout))

    # --- broadcasting

    def broadcast(self, text: bytes, timeout: float | None = None) -> BlockingReceipt:
        """TimeoutError if too many of our own are under way for so long; then it has not."""
        receipt = self._loop.call(lambda: self._group.broadcast(text), timeout, self._late)
        return BlockingReceipt(receipt, self._group, self._loop)

    def broadcast_many(
        self, texts: Iterable[bytes], timeout: float | None = None
    ) -> BlockingReceipt:
        batch = list(texts)
        receipt = self._loop.call(lambda: self._group.broadcast_many(batch), timeout, self._late)
        return BlockingReceipt(receipt, self._group, self._loop)

    def _late(self) -> str:
        return f"not broadcast yet: {self._group.why()}"

    def receipt(self, message: MessageId | str | int) -> BlockingReceipt:
        receipt = self._do(lambda: self._group.receipt(message))
        return BlockingReceipt(receipt, self._group, self._loop)

    # --- reading

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if not self._turn.acquire(blocking=False):
            raise UsageError(
                f"another thread reads the messages of {self.name} already; one reader at a time"
            )
        try:
            message = self._next()
        except Closed:
            message = None
        finally:
            self._turn.release()
        if message is None:
            raise StopIteration
        return message

    def _next(self) -> Message | None:
        """Interrupted, it has asked, and what comes is there for whoever asks again."""
        coming = self._coming or self._loop.begin(lambda: _next_of(self._group))
        self._coming = coming
        try:
            return self._loop.end_of(coming)
        finally:
            if coming.done():
                self._coming = None

    def batches(self) -> Iterator[TextSpan]:
        return self._through(self._group.batches())

    def processed(self, message: Message) -> None:
        self._do(lambda: self._group.processed(message))

    def history(self, first: MessageId | str) -> Iterator[Message]:
        return self._through(self._group.history(first))

    def _through(self, found: AsyncIterator[T]) -> Iterator[T]:
        while (one := self._loop.call(lambda: _next_of(found))) is not None:
            yield one

    # --- asking, and changing the group

    def why(self, message: MessageId | str | None = None) -> str:
        return self._do(lambda: self._group.why(message))

    def status(self) -> Status:
        return self._do(self._group.status)

    @property
    def view(self) -> GroupView:
        return self._do(lambda: self._group.view)

    def reload(self) -> bool:
        return self._do(self._group.reload)

    def add(self, name: str, address: str) -> GroupView:
        return self._loop.call(lambda: self._group.add(name, address))

    def remove(self, name: str) -> GroupView:
        return self._loop.call(lambda: self._group.remove(name))

    def replace(self, name: str, address: str) -> GroupView:
        return self._loop.call(lambda: self._group.replace(name, address))

    def _do(self, what: Callable[[], T]) -> T:
        async def done() -> T:
            return what()

        return self._loop.call(done)


class _Loop:
    """An event loop in a thread of its own, and who waits for something in it."""

    def __init__(self, name: str) -> None:
        self.is_over = False
        self._name = name
        self._lock = threading.Lock()
        self._calls: set[Future[Any]] = set()
        self._end = asyncio.Event()
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name=f"{name}-loop", daemon=True
        )
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=fastest()) as runner:
            self._loop = runner.get_loop()
            started.set()
            runner.run(self._until_the_end())

    async def _until_the_end(self) -> None:
        await self._end.wait()

    def call(self, work: Work[T], timeout_s: float | None = None, late: Late = lambda: "") -> T:
        """Interrupted, it is cancelled."""
        begun = self.begin(work, timeout_s, late)
        try:
            return self.end_of(begun)
        except BaseException:
            begun.cancel()
            raise

    def begin(
        self, work: Work[T], timeout_s: float | None = None, late: Late = lambda: ""
    ) -> Future[T]:
        with self._lock:
            if self.is_over:
                raise self._closed()
            done = _done(work, threading.get_ident(), timeout_s, late)
            begun = asyncio.run_coroutine_threadsafe(done, self._loop)
            self._calls.add(begun)
        begun.add_done_callback(self._calls.discard)
        return begun

    def end_of(self, begun: Future[T]) -> T:
        try:
            return begun.result()
        except CancelledError:
            raise self._closed() from None

    def _closed(self) -> Closed:
        return Closed(f"{self._name} has left the group")

    def end(self) -> None:
        """Nothing begins any more, and whoever still waits has waited for nothing."""
        with self._lock:
            self.is_over = True
        with suppress(RuntimeError):  # another thread has ended it
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        for begun in list(self._calls):
            begun.cancel()


async def _done(work: Work[T], thread: int, timeout_s: float | None, late: Late) -> T:
    """A reader that waits for its own broadcast cannot read meanwhile: it is this thread."""
    CALLER.set(thread)
    try:
        async with timeout(timeout_s) as limit:
            return await work()
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"after {timeout_s:g} s, {late()}") from None


async def _next_of(those: Any) -> Any:
    """None after the last."""
    return await anext(those, None)
