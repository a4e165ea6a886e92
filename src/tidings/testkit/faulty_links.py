"""What a link can suffer: the machinery behind ``proxy``, where its faults are explained.

A *link* is one direction between two members, whoever called whom. What is said on it (an opening,
bytes, an end, a reset) waits in a *pipe* until it may arrive, and every fault is a rule of what may
leave the pipe. So a cut also keeps back that somebody has died, and a delay also delays the news.

Everything happens in callbacks of the loop: when ``cut`` returns, nothing more passes.
"""

import asyncio
import random
import socket
import struct
from asyncio import TaskGroup, TimerHandle, timeout
from collections import deque
from contextlib import suppress
from enum import Enum

from tidings.core import EnvironmentMissing, UsageError
from tidings.node.config import Address

HERE = "127.0.0.1"
MOST_CONNECTIONS = 256
"""How many connections one door bears; who calls beyond is hung up on."""
CALL_S = 10.0
"""How long the called member may take to be reached."""
PIECE_BYTES = 64 * 1024
"""How much passes in one go, and so how much at most has left a pipe and is not taken."""
SLICE_S = 0.02
"""A throttled link passes what it may in this time, then pauses."""
AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends a reset, and no end."""
FOREVER = float("inf")


class Sign(Enum):
    """What is said on a link beside bytes."""

    OPENING = "opening"
    END = "end"
    RESET = "reset"


Item = memoryview | Sign


class Flow(Enum):
    OPEN = "open"
    CUT = "cut"
    HOLE = "hole"


class FaultyLink:
    """One direction between two members, over all connections between them."""

    def __init__(self, sender: str, receiver: str, seed: int) -> None:
        self.sender = sender
        self.receiver = receiver
        self.delay_ms = self.jitter_ms = 0.0
        self.bytes_per_s: float | None = None
        self.flow = Flow.OPEN
        self.bytes_to_reset: int | None = None
        self.bytes_passed = self.bytes_swallowed = 0
        self.resets = 0
        """How many connections have been reset by order."""
        self.door: Door
        """Where the sender calls the receiver."""
        self.pipes: dict[Pipe, None] = {}
        self.free_s = 0.0
        """When a throttled link can pass something again."""
        self._dice = random.Random(f"{seed} {self}")

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}"

    # --- what it can suffer

    def delay(self, ms: float, jitter_ms: float = 0.0) -> None:
        """Whatever is said from now on takes so long, and up to ``jitter_ms`` longer."""
        if not (0 <= ms < FOREVER and 0 <= jitter_ms < FOREVER):
            raise UsageError(f"a delay is 0 ms or more, not {ms:g} ms, jitter {jitter_ms:g} ms")
        self.delay_ms, self.jitter_ms = ms, jitter_ms

    def throttle(self, bytes_per_s: float | None) -> None:
        """Pass no more than this; None for as much as there is."""
        if bytes_per_s is not None and not 1 <= bytes_per_s < FOREVER:
            raise UsageError(f"a link passes 1 byte per second or more, not {bytes_per_s:g}")
        self.bytes_per_s = bytes_per_s
        self.free_s = 0.0
        self._pump()

    def cut(self) -> None:
        self.flow = Flow.CUT

    def hole(self) -> None:
        self.flow = Flow.HOLE
        self._pump()

    def refuse(self) -> None:
        self.door.refuse()

    def reset(self, after: int = 0) -> None:
        """Reset the connection on which so many more bytes have passed; now, if it is none."""
        if after < 0:
            raise UsageError(f"a link is reset after 0 bytes or more, not {after}")
        self.bytes_to_reset = after or None
        if not after:
            for pipe in list(self.pipes):
                self.resets += 1
                pipe.connection.reset()

    def half_open(self) -> None:
        """The sender is told that its connections are gone; the receiver is not."""
        for pipe in list(self.pipes):
            pipe.connection.lose(pipe.source)

    def heal(self) -> None:
        self.flow = Flow.OPEN
        self.bytes_to_reset = None
        self.door.listen()
        for pipe in [pipe for pipe in self.pipes if pipe.has_gap]:
            pipe.connection.reset()
        self._pump()

    # --- what it is like

    @property
    def is_refusing(self) -> bool:
        return not self.door.is_listening

    @property
    def bytes_waiting(self) -> int:
        return sum(pipe.bytes_waiting for pipe in self.pipes)

    # --- for its pipes

    def latency_s(self) -> float:
        return (self.delay_ms + self._dice.random() * self.jitter_ms) / 1e3

    def most_now(self) -> int:
        """How many bytes may pass in one go."""
        to_reset = PIECE_BYTES if self.bytes_to_reset is None else self.bytes_to_reset
        slice_bytes = PIECE_BYTES if self.bytes_per_s is None else int(self.bytes_per_s * SLICE_S)
        return min(PIECE_BYTES, to_reset, max(1, slice_bytes))

    def passed(self, count: int, now_s: float) -> bool:
        """So many bytes have passed; whether their connection is to be reset for it."""
        self.bytes_passed += count
        if self.bytes_per_s is not None:
            # Timers come late; one slice may be caught up with, no more.
            self.free_s = max(self.free_s, now_s - SLICE_S) + count / self.bytes_per_s
        if self.bytes_to_reset is None:
            return False
        self.bytes_to_reset = self.bytes_to_reset - count or None
        self.resets += self.bytes_to_reset is None
        return self.bytes_to_reset is None

    def _pump(self) -> None:
        for pipe in list(self.pipes):  # they may go while they are looked at
            pipe.pump()


class Pipe:
    """One direction of one connection: what was said, until it may arrive."""

    def __init__(self, connection: "ProxiedConnection", link: FaultyLink, limit: int) -> None:
        self.connection = connection
        self.link = link
        self.source: SocketEnd
        self.sink: SocketEnd
        self.bytes_waiting = 0
        self.has_gap = False
        """Something was swallowed: what comes after it must never arrive."""
        self.is_dead = False
        """Nobody is left at the other end, and the source is not told."""
        self._limit = limit
        self._waiting: deque[tuple[float, Item]] = deque()
        self._timer: TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        link.pipes[self] = None

    def put(self, item: Item) -> None:
        if self.is_dead:
            self.link.bytes_swallowed += _size(item)
            if isinstance(item, Sign):
                self.connection.reset()
            return
        self._waiting.append((self._loop.time() + self.link.latency_s(), item))
        self.bytes_waiting += _size(item)
        self.pump()

    def pump(self) -> None:
        """Let pass what may pass now, and come back when more may."""
        self._stop_timer()
        while self._waiting and self.link.flow is not Flow.CUT:
            due_s, item = self._waiting[0]
            if not isinstance(item, Sign):
                due_s = max(due_s, self.link.free_s)
            if due_s > self._loop.time():
                self._timer = self._loop.call_at(due_s, self.pump)
                break
            if self.link.flow is Flow.HOLE:
                self._swallow()
            elif not self._pass_on(item):
                break
        # Who fills a pipe is no longer read from, until there is room again.
        transport = self.source.transport
        if transport is not None and not self.source.has_ended:
            if self.bytes_waiting >= self._limit:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def close(self) -> None:
        self._stop_timer()
        self._waiting.clear()
        self.bytes_waiting = 0
        self.link.pipes.pop(self, None)

    def _pass_on(self, item: Item) -> bool:
        """Whether it could pass: not all can be told to somebody who is not there yet."""
        if not isinstance(item, Sign):
            if self.sink.can_take:
                self._pass_bytes(item)
            return self.sink.can_take
        if item is Sign.END and self.sink.transport is None:
            return False
        self._waiting.popleft()
        self.connection.heard(self, item)
        return True

    def _pass_bytes(self, data: memoryview) -> None:
        due_s, _ = self._waiting.popleft()
        piece = data[: self.link.most_now()]
        if len(piece) < len(data):
            self._waiting.appendleft((due_s, data[len(piece) :]))
        self.bytes_waiting -= len(piece)
        self.sink.say(piece)
        if self.link.passed(len(piece), self._loop.time()):
            self.connection.reset()

    def _swallow(self) -> None:
        _, item = self._waiting.popleft()
        self.has_gap = True
        self.bytes_waiting -= _size(item)
        self.link.bytes_swallowed += _size(item)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _size(item: Item) -> int:
    return 0 if isinstance(item, Sign) else len(item)


class SocketEnd(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(self, connection: "ProxiedConnection", sends: Pipe, heard: Pipe) -> None:
        self.connection = connection
        self.sends = sends
        self.heard = heard
        self.transport: asyncio.Transport | None = None
        self.can_take = False
        self.has_ended = False
        """It says nothing more."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # What the kernel does not take stays in the pipe, where it counts and can be cut off.
        transport.set_write_buffer_limits(high=0)
        if self.connection.is_over:
            self.reset()
        else:
            self.resume_writing()

    def data_received(self, data: bytes) -> None:
        self.sends.put(memoryview(data))

    def eof_received(self) -> bool:
        """One side says nothing more, and the other will hear of it.

        But who gives up before it got through has never called: nothing is left to be told.
        """
        self.has_ended = True
        if self.connection.has_opened or self.connection.near.sends.link.flow is Flow.OPEN:
            self.sends.put(Sign.END)
        else:
            self.connection.reset()
        return True

    def connection_lost(self, fault: Exception | None) -> None:
        """One socket is gone, and the news of it travels like anything else."""
        self.can_take, self.has_ended = False, True
        if self.connection.is_over or self is self.connection.removed:
            return
        if self.connection.has_opened and self.connection.removed is None:
            self.sends.put(Sign.RESET)
        else:
            self.connection.reset()

    def pause_writing(self) -> None:
        self.can_take = False

    def resume_writing(self) -> None:
        self.can_take = True
        self.heard.pump()

    # --- what it is told

    def say(self, data: memoryview) -> None:
        assert self.transport is not None, "bytes for nobody"
        self.transport.write(data)
        if self.transport.is_closing():
            self.can_take = False  # it is gone; asyncio tells so a turn later

    def end(self) -> None:
        """Say that nothing more will come."""
        assert self.transport is not None, "an end for nobody"
        with suppress(OSError):  # it may be gone by now
            self.transport.write_eof()

    def reset(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            with suppress(OSError):
                sock = self.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            self.transport.abort()


class ProxiedConnection:
    """From who called, the near end, to who was called: two sockets, two pipes."""

    def __init__(self, door: "Door", there: FaultyLink, back: FaultyLink, limit: int) -> None:
        self.door = door
        self.is_over = False
        forward, backward = Pipe(self, there, limit), Pipe(self, back, limit)
        self.near = forward.source = backward.sink = SocketEnd(self, sends=forward, heard=backward)
        self.far = backward.source = forward.sink = SocketEnd(self, sends=backward, heard=forward)
        self.has_opened = False
        self._ends_heard = 0
        self.removed: SocketEnd | None = None
        self._calling: asyncio.Task[None] | None = None

    def heard(self, pipe: Pipe, sign: Sign) -> None:
        """A sign has come through."""
        match sign:
            case Sign.OPENING:
                self.has_opened = True
                self._calling = self.door.tasks.create_task(self._call())
            case Sign.END:
                pipe.sink.end()
                self._ends_heard += 1
                if self._ends_heard == 2:
                    self._forget()
                    for end in (self.near, self.far):
                        assert end.transport is not None, "closed before it began"
                        end.transport.close()
            case Sign.RESET:
                self.reset()

    def lose(self, end: SocketEnd) -> None:
        """Take away one side, so that the other does not know."""
        if not self.has_opened:
            self.reset()
            return
        self.removed = end
        for pipe in (end.sends, end.heard):
            pipe.close()
            pipe.is_dead = True
        end.reset()

    def reset(self) -> None:
        self._forget()
        self.near.reset()
        self.far.reset()

    def _forget(self) -> None:
        self.is_over = True
        self.near.sends.close()
        self.far.sends.close()
        self.door.connections.pop(self, None)
        if self._calling is not None:
            self._calling.cancel()

    async def _call(self) -> None:
        try:
            async with timeout(CALL_S):
                await self.door.loop.create_connection(lambda: self.far, *self.door.leads_to)
        except OSError:
            # The call has been taken here already; that nobody is there can only be told by
            # breaking it off.
            if not self.is_over:
                self.far.sends.put(Sign.RESET)


class Door:
    """Where one member calls another. It keeps its port, also while it refuses."""

    def __init__(
        self,
        sock: socket.socket,
        leads_to: Address,
        links: tuple[FaultyLink, FaultyLink],
        tasks: TaskGroup,
        limit: int,
    ) -> None:
        """``sock`` is bound; ``links`` are the one there and the one back."""
        self.leads_to = leads_to
        self.tasks = tasks
        self.connections: dict[ProxiedConnection, None] = {}
        self.is_listening = False
        self._links = links
        self._limit = limit
        self.loop = asyncio.get_running_loop()
        self._socket = sock
        self.address = Address(*sock.getsockname())
        self.listen()

    def listen(self) -> None:
        if not self.is_listening:
            self._socket.listen()
            self.loop.add_reader(self._socket, self._take_call)
            self.is_listening = True

    def refuse(self) -> None:
        """A port that is bound and not listened to refuses, and nobody else gets it by chance."""
        if self.is_listening:
            self.close()
            self._socket = bound(self.address.port)

    def close(self) -> None:
        if self.is_listening:
            self.loop.remove_reader(self._socket)
        self._socket.close()
        self.is_listening = False

    def _take_call(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        if len(self.connections) >= MOST_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        connection = ProxiedConnection(self, *self._links, self._limit)
        self.connections[connection] = None
        connection.near.sends.put(Sign.OPENING)
        self.tasks.create_task(self.loop.connect_accepted_socket(lambda: connection.near, sock))


def bound(port: int) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((HERE, port))
    except OSError as fault:
        sock.close()
        raise EnvironmentMissing(f"no port for a link: {fault.strerror}") from None
    return sock
