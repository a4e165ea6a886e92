"""Links that misbehave when they are told to: TCP proxies between the members, without root.

    async with Proxy(config.addresses, seed=7) as links:
        links["p1", "p2"].delay(20, jitter_ms=10)
        links["p2", "p1"].reset(after=100)
        links.part({"p1", "p2"}, {"p3"})
        links.heal()

A member still listens where it always did; but where it calls another there is now a *door* of
the proxy, one for each pair of caller and called. So every member has its own idea of the others'
addresses: ``addresses_for`` says which, ``config_for`` and ``group_file_for`` put them where
a member finds them.

``links["p1", "p2"]`` is what p1 says to p2, whoever called whom. It can suffer

- ``delay``, ``throttle``: what is said comes later, or slower. The order stays.
- ``cut``: nothing passes until the link is healed. Then everything does, as if TCP had sent it
  again.
- ``hole``: everything is taken, and nothing arrives. A connection that has lost something so is
  reset when the link is healed: no TCP connection goes on with a gap in it.
- ``refuse``: who calls finds nobody listening. Connections that are there stay.
- ``reset``: after so many more bytes both sides find their connection reset.
- ``half_open``: only the sender finds its connection reset; the receiver knows nothing, and what
  it says is taken.

``heal`` mends what is broken (cut, hole, refuse, a reset to come) and leaves a slow link slow.
What waits is bounded: who sends to somebody that stalls is stalled.
"""

import asyncio
import re
import socket
from asyncio import TaskGroup
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Protocol, Self, TypeVar

import msgspec

from tidings.core import DataError, UsageError, ordered
from tidings.core.toml_file import line_of
from tidings.node.config import MIB, Address, Config, parse_config
from tidings.testkit.faulty_links import Door, FaultyLink, bound
from tidings.testkit.injector import LinkName

T = TypeVar("T")


class Proxy:
    """The links between the members of a group."""

    def __init__(
        self, addresses: Mapping[str, Address], *, seed: int = 0, buffer_bytes: int = MIB
    ) -> None:
        """``addresses`` are those on which the members listen.

        The seed decides the jitter of each link. ``buffer_bytes`` is about what waits in one
        direction of a connection: it bounds how much passes in the time of a delay.
        """
        if len(addresses) < 2:
            raise UsageError("a link takes two members")
        self.members = ordered(addresses)
        self.addresses = dict(addresses)
        self._buffer_bytes = buffer_bytes
        self._links: dict[LinkName, FaultyLink] = {
            (one, other): FaultyLink(one, other, seed)
            for one in self.members
            for other in self.members
            if one != other
        }
        self._tasks = TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        used = {address.port for address in self.addresses.values()}
        for (caller, called), link in self._links.items():
            links = (link, self._links[called, caller])
            link.door = Door(
                _bound_beside(used), self.addresses[called], links, self._tasks, self._buffer_bytes
            )
        return self

    async def __aexit__(self, *fault: object) -> None:
        for link in self:
            link.door.close()
            for connection in list(link.door.connections):
                connection.reset()
        # A fault of the body is its own: the group need not wrap it.
        await self._tasks.__aexit__(None, None, None)
        await asyncio.sleep(0)  # asyncio closes sockets a turn later

    # --- addresses

    def addresses_for(self, member: str) -> dict[str, Address]:
        """Where this member listens, and where it calls the others."""
        self._check(member)
        return {
            name: self.addresses[name] if name == member else self[member, name].door.address
            for name in self.members
        }

    def config_for(self, member: str, config: Config) -> Config:
        """The configuration with which this member joins through the proxy."""
        return msgspec.structs.replace(config, addresses=self.addresses_for(member))

    def group_file_for(self, member: str, text: str, path: Path) -> str:
        """A group file as this member must read it; ``path`` is where the text is from."""
        lines = text.splitlines(keepends=True)
        addresses = self.addresses_for(member)
        for name, address in addresses.items():
            line = line_of(text, ["members", name]) - 1
            written = re.escape(str(self.addresses[name]))
            lines[line] = re.sub(rf"([\"']){written}\1", f'"{address}"', lines[line])
        seen = "".join(lines)
        if parse_config(seen, path).addresses != addresses:
            raise DataError(f"{path}: cannot be rewritten; write members as p1 = '127.0.0.1:7001'")
        return seen

    # --- links

    def __getitem__(self, pair: LinkName) -> FaultyLink:
        for name in pair:
            self._check(name)
        if pair not in self._links:
            raise UsageError(f"there is no link from {pair[0]} to itself")
        return self._links[pair]

    def __iter__(self) -> Iterator[FaultyLink]:
        return iter(self._links.values())

    def between(self, one: Collection[str], other: Collection[str]) -> list[FaultyLink]:
        """The links between two sides, in both directions."""
        return [
            self[pair]
            for here in ordered(one)
            for there in ordered(other)
            for pair in ((here, there), (there, here))
        ]

    def part(self, one: Collection[str], other: Collection[str]) -> None:
        """Cut everything between two sides."""
        for link in self.between(one, other):
            link.cut()

    def heal(self) -> None:
        for link in self:
            link.heal()

    def _check(self, name: str) -> None:
        if name not in self.members:
            raise UsageError(f"there is no {name!r}; there are: {', '.join(self.members)}")


def _bound_beside(used: Collection[int]) -> socket.socket:
    """On a port that nobody has, and that no member will want when it comes up."""
    while (sock := bound(0)).getsockname()[1] in used:
        sock.close()
    return sock


class Do(Protocol):
    def __call__(self, action: Callable[[], T]) -> T: ...


@contextmanager
def in_background(proxy: Proxy) -> Iterator[Do]:
    """The proxy in a thread of its own, for a program without a loop of its own.

    What is yielded does something there and returns its result: ``do(proxy.heal)``.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def hold() -> None:
        try:
            async with proxy:
                enough = asyncio.Event()
                started.set_result((asyncio.get_running_loop(), enough))
                await enough.wait()
        except Exception as fault:
            if started.done():
                raise
            started.set_exception(fault)

    thread = Thread(target=lambda: asyncio.run(hold()), name="proxy")
    thread.start()
    loop, enough = started.result()

    def do(action: Callable[[], T]) -> T:
        async def act() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), loop).result()

    try:
        yield do
    finally:
        loop.call_soon_threadsafe(enough.set)
        thread.join()
