"""How a program reads what is delivered, and what of that it has processed.

There is one reader at a time. Asking for the next message says that the one before is processed,
unless the program says so itself; what is processed, the engine takes with its next tick.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tidings.core import EnvironmentMissing, Message, Replay, TextSpan, UsageError
from tidings.node.config import Config
from tidings.node.errors import Closed, Removed
from tidings.node.unread import Recall, Unread

if TYPE_CHECKING:
    from tidings.node.engine import Engine


CALLER: ContextVar[object] = ContextVar("caller")
"""Who reads or waits for something, if that is not a task: a thread (blocking.py)."""

Make = Callable[[], Any]
Made = tuple[Any, dict[str, int]]
"""A state, and what is in it."""


class Reading:
    def __init__(
        self, name: str, config: Config, recall: Recall, *, acknowledges_next: bool, listens: bool
    ) -> None:
        self.name = name
        self.engine: Engine | None = None
        """Who wants to know what is processed; none before the program has joined."""
        self.unread = Unread(config.members, config.limits, recall if config.durable else None)
        self.delivered: dict[str, int] = {}
        """Of each origin the last message delivered."""
        self.end: BaseException | None = None
        """Why nothing more will come, if so."""
        self.is_awaited = False
        """Whether somebody waits for the next message."""
        self._is_durable = config.durable
        self._acknowledges_next = config.durable and acknowledges_next
        self._listens = listens
        self._news: asyncio.Future[None] | None = None
        """What the reader waits for: something to read, or to hear that there is nothing more."""
        self._reader: object = None
        self._busy_reader: object = None
        """The reader, while it waits for something else than the next message."""
        self._wanted: list[tuple[Mapping[str, int], Make, asyncio.Future[Made]]] = []
        """Who wants to know the state of the program once it has processed so much."""
        self._delivery = asyncio.Event()
        """Set whenever something is delivered."""
        self._is_held_back = False
        """Whether the program has to take its state before it reads anything."""
        self._base: dict[str, int] = {}
        """What the program had processed before this life."""
        self._newly_processed: dict[str, int] = {}
        self._processed: dict[str, int] = {}
        """What the program has said of itself to be processed, of each origin the last."""

    # --- for the program

    def begin(self) -> None:
        """Somebody begins to read."""
        self._refuse_a_second_reader()
        self._reader = _caller()

    async def messages(self) -> AsyncIterator[Message]:
        """What ``async for`` goes through; another reader may go on in between."""
        unread = self.unread
        while await self.something_in_hand():
            unread.at_once = 1
            for message in unread.messages:
                yield message

    async def batches(self) -> AsyncIterator[TextSpan]:
        self._reader = _caller()
        while await self.something_in_hand():
            yield self.unread.pop_all()

    async def something_in_hand(self) -> bool:
        """Wait for the next message; whoever asks for it is done with the one before.

        False if there will be none, since the program has left.
        """
        self._refuse_a_second_reader()
        if self._reader is None:
            self._reader = _caller()
        while not self._turn():
            if not await self._wait_for_news():
                return False
        return True

    def _turn(self) -> bool:
        unread = self.unread
        if self._wanted:
            self._show_state()
        if self._is_held_back:
            return False
        if unread.has_more_in_hand:
            return True
        done = unread.turn()
        if done is not None and self._acknowledges_next:
            self._newly_processed[done.origin] = done.seq
        return bool(unread.hand.texts)

    def _refuse_a_second_reader(self) -> None:
        if self.is_awaited:
            raise UsageError(
                f"somebody else reads the messages of {self.name} already; one reader at a time"
            )

    async def _wait_for_news(self) -> bool:
        """Until something is ready; False if that cannot be any more."""
        if self.engine is not None:
            if self._newly_processed and self.engine.refusal:
                self.engine.wake()  # it may be what the process waits for
            elif self._newly_processed:
                self.engine.wake_soon()
            self.engine.balance()
        self.is_awaited = True
        try:
            self._show_state()
            while self._is_held_back or not self.unread.is_ready:
                if isinstance(self.end, Closed):
                    return False
                if self.end is not None and not self._may_read_on:
                    raise self.end
                if self.unread.has_later and not self._is_held_back:
                    await self.unread.read_back(self._processed)
                else:
                    self._news = asyncio.get_running_loop().create_future()
                    await self._news
        finally:
            self.is_awaited = False
        return True

    @property
    def _may_read_on(self) -> bool:
        """A member that was removed never comes back to read the rest, if it has its state."""
        is_there = self.unread.has_later and not self._is_held_back
        return isinstance(self.end, Removed) and is_there

    def processed(self, message: object) -> None:
        """This message, and every one of its origin before it, need not be handed over again."""
        if not isinstance(message, Message):
            kind = type(message).__name__
            raise UsageError(f"processed takes a message of this group, not {kind}")
        if message.seq > self.delivered.get(message.origin, 0):
            raise UsageError(
                f"{message.id} is not delivered at {self.name} yet: it cannot be processed"
            )
        self.note_processed(message.origin, message.seq)

    def note_processed(self, origin: str, seq: int) -> None:
        if seq > self._processed.get(origin, 0):
            self._processed[origin] = self._newly_processed[origin] = seq
            if self.engine is not None:
                self.engine.wake()

    # --- the state of the program

    async def at(self, cut: Mapping[str, int], make: Make) -> Made:
        """What ``make`` returns between two messages, once so much is processed; how much is."""
        future: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        self._wanted.append((cut, make, future))
        if self.is_awaited:
            self._show_state()
        return await future

    def _show_state(self) -> None:
        """The program asks for the next message: its state is what it made of all before."""
        wanted, self._wanted = self._wanted, []
        vector = self._position() if wanted else {}
        for cut, make, future in wanted:
            if future.done():
                continue
            if any(vector.get(origin, 0) < last for origin, last in cut.items()):
                self._wanted.append((cut, make, future))
                continue
            try:
                future.set_result((make(), vector))
            except Exception as fault:
                future.set_exception(fault)

    def _position(self) -> dict[str, int]:
        if self._acknowledges_next or not self._is_durable:
            return self.unread.position()
        upto = dict(self._base)
        for origin, last in self._processed.items():
            upto[origin] = max(last, upto.get(origin, 0))
        return upto

    async def has_delivered(self, vector: Mapping[str, int]) -> None:
        """Return when all of these are delivered here."""
        while any(self.delivered.get(origin, 0) < last for origin, last in vector.items()):
            self._delivery.clear()
            await self._delivery.wait()

    def hold_back(self) -> None:
        """Hand over nothing until the program has its state."""
        self._is_held_back = True

    def go_on_after(self, vector: Mapping[str, int]) -> None:
        """The program has taken a state in which all of these are."""
        self._is_held_back = False
        self.unread.skip(vector)
        self._base |= vector
        self.tell()

    # --- for the engine

    def wait(self, is_waiting: bool) -> None:
        """The reader cannot read while it waits: what it waits for must come all the same."""
        caller = _caller()
        if not is_waiting and caller == self._busy_reader:
            self._busy_reader = None
        elif is_waiting and caller == self._reader:
            self._busy_reader = caller
            if self.engine is not None:
                self.engine.balance()

    @property
    def is_full(self) -> bool:
        """Whether there is no place any more for what is delivered: in memory, or on disk."""
        engine = self.engine
        if self._busy_reader is not None or self._is_held_back or engine is None:
            return False
        if engine.disk is None:
            return self.unread.is_too_much
        return self.unread.has_later and engine.disk.is_full(engine.process)

    def come_back(self, delivered: Mapping[str, int]) -> None:
        """So much was delivered in earlier lives."""
        self.delivered = dict(delivered)
        self._base = dict(delivered)
        self.unread.begin(delivered)

    def begin_at(self, cut: Mapping[str, int]) -> None:
        """A newcomer need not read what was delivered before it came."""
        self.delivered |= cut
        self._base |= cut
        self.unread.pass_over(cut)

    def add(self, spans: Sequence[TextSpan]) -> None:
        for one in spans:
            self.delivered[one.origin] = one.last
        self._delivery.set()
        if self._listens:
            self.unread.add(spans)
            if self._is_held_back and not self._is_durable and self.unread.is_too_much:
                # To read no more from the network would be no way out: its state comes that way.
                raise EnvironmentMissing(
                    f"{self.words()}, which takes too long to take its state "
                    "(limits.unread_messages, limits.unread_bytes); where durable = true, they "
                    "wait on disk"
                )
            self.tell()
        else:
            for one in spans:
                self._newly_processed[one.origin] = one.last

    def replay(self, replay: Replay) -> None:
        self._base |= replay.after
        if self._listens:
            self.unread.replay(replay.after, replay.upto)
            self.tell()
        else:
            for origin, last in replay.upto.items():
                self.note_processed(origin, last)

    def tell(self) -> None:
        """There is something to read, or nothing more to come."""
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)

    def newly_processed(self) -> Mapping[str, int] | None:
        """What was processed since the engine last asked."""
        upto, self._newly_processed = self._newly_processed, {}
        if not self._is_durable:
            return None
        if self._acknowledges_next and (done := self.unread.done_in_hand()):
            upto[done.origin] = max(done.seq, upto.get(done.origin, 0))
        return upto

    def words(self) -> str:
        return f"{len(self.unread):,} messages wait for the program of {self.name} to read them"


def _caller() -> object:
    return CALLER.get(None) or asyncio.current_task()
