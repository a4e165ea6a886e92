"""Keeping connections: who calls whom, how often, and what is said when nobody answers.

Of two members the one that comes first in the group calls the other; the other one, when it starts,
knocks once, so that it is called at once. Where a group can change, the first may not know yet
where the other is, or that there is one. So there the other calls, too, if it is not called for a
while.
"""

import asyncio
import random
from asyncio import timeout
from contextlib import suppress
from typing import TYPE_CHECKING

from tidings.core import ordered
from tidings.node.config import network_words
from tidings.node.connection import Connection, Knock, Peer

if TYPE_CHECKING:
    from tidings.node.transport import Transport

QUIET_S = 2.0
"""How long a member may be out of reach before that is logged: not all start at the same moment."""


class Calls:
    def __init__(self, owner: "Transport") -> None:
        self._owner = owner
        self._links = owner.config.links
        self._jobs: dict[str, asyncio.Task[None]] = {}

    def begin(self, peer: Peer) -> None:
        """Keep a connection to this peer from now on, as far as that is up to us."""
        if peer.name in self._jobs or peer.address is None:
            return
        is_first = ordered((self._owner.me, peer.name))[0] == self._owner.me
        if is_first:
            job = self._call(peer, patience_s=0.0)
        elif self._owner.membership.changes:
            job = self._call(peer, patience_s=2 * self._links.back_off_ms_max / 1e3)
        else:
            job = self._knock(peer)
        self._jobs[peer.name] = self._owner.create_task(job)

    def end(self, name: str) -> None:
        job = self._jobs.pop(name, None)
        if job is not None:
            job.cancel()

    def end_all(self) -> None:
        for name in list(self._jobs):
            self.end(name)

    def again(self) -> None:
        """All links are down, and whoever was given up may be believed now."""
        for peer in self._owner.peers.values():
            peer.has_knocked.set()
            if ordered((self._owner.me, peer.name))[0] != self._owner.me:
                self._owner.create_task(self._knock(peer))

    # --- calling

    async def _call(self, peer: Peer, patience_s: float) -> None:
        """Keep a connection to this member; if it counts as crashed, to tell it so."""
        links = self._links
        loop = asyncio.get_running_loop()
        back_off_ms = links.back_off_ms_min
        peer.missed_s = loop.time()
        if patience_s:
            await self._knock(peer)
        while True:
            if await self._is_called(peer, patience_s):
                back_off_ms = links.back_off_ms_min
                continue
            connection = await self._called(peer)
            if connection is not None and connection.is_up:
                back_off_ms = links.back_off_ms_min
                # Shielded: who leaves cancels this task, and still waits for that end itself.
                await asyncio.shield(connection.lost)
                peer.missed_s = loop.time()
            is_refused = connection is not None and connection.is_refused
            most_ms = links.refused_ms_max if is_refused else links.back_off_ms_max
            back_off_ms = min(back_off_ms, most_ms)
            with suppress(TimeoutError):
                async with timeout(back_off_ms * random.uniform(0.5, 1.0) / 1e3):
                    await peer.has_knocked.wait()
            back_off_ms = 2 * back_off_ms

    async def _is_called(self, peer: Peer, patience_s: float) -> bool:
        """Whether the other side has called in time; if so, return when that link is over."""
        if peer.link is None and patience_s:
            peer.is_linked.clear()
            with suppress(TimeoutError):
                async with timeout(patience_s * random.uniform(1.0, 1.5)):
                    await peer.is_linked.wait()
        if peer.link is None:
            return False
        await asyncio.shield(peer.link.lost)
        return True

    async def _called(self, peer: Peer) -> Connection | None:
        connection: Connection | None = None
        peer.has_knocked.clear()
        try:
            async with timeout(self._links.hello_ms / 1e3):
                called = Connection(self._owner, peer)
                await self._owner.connect(called, peer)
                connection = called
                await connection.greeted.wait()
        except TimeoutError:
            self._miss(peer, "cannot be reached: no answer")
        except OSError as fault:
            self._miss(peer, f"cannot be reached: {network_words(fault)}")
        finally:
            if connection is not None and not connection.is_up:
                connection.transport.abort()
        return connection

    def _miss(self, peer: Peer, reason: str) -> None:
        """Told once, if it lasts; who has said good-bye is not missed."""
        peer.missed_because = reason
        if peer.has_left or asyncio.get_running_loop().time() - peer.missed_s < QUIET_S:
            self._owner.log.debug("no link", peer=peer.name, reason=reason)
        else:
            self._owner.complain(peer.name, reason)

    async def _knock(self, peer: Peer) -> None:
        """It may have given us up for minutes, over a group file that we no longer have."""
        with suppress(OSError, TimeoutError):
            async with timeout(self._links.hello_ms / 1e3):
                is_plain = self._owner.credentials.identity is None
                knock = Knock(self._owner.me, peer.name, is_plain=is_plain)
                try:
                    await self._owner.connect(knock, peer)
                    await knock.over
                finally:
                    knock.abort()
