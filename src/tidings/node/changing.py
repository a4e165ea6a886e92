"""Changes of the group that a program asks of its member, and what becomes of them.

A newcomer has to run before it can be added: whoever is asked to add it calls it, and only when it
answers does the process ask the others. One change is under way at a time; the next one waits.

A process that asks the others waits for a moment, and asks nobody twice. But a member of a busy
machine answers late, and a link that breaks takes the question with it. So a change that is denied
for want of answers is asked for again, for as long as a call may take (``links.hello_ms``).
"""

import asyncio
from asyncio import timeout
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from tidings.core import NO_NAME, Approve, Change, Deny, Event, UsageError, is_name
from tidings.node.config import PLAIN_IS_HERE, Address, Config, is_loopback, parse_address
from tidings.node.errors import ChangeDenied
from tidings.node.membership import GroupView, Membership, Role
from tidings.node.transport import Transport

Progress = Callable[[Literal["calling", "asked", "approved"]], None]
"""What has been reached of a change: the newcomer is called; the others are asked whether they are
there; enough of them are, so that it will happen."""

AGAIN_S = 0.05
"""How long until a change that was denied at once is asked for again."""


class Changes:
    def __init__(
        self,
        config: Config,
        membership: Membership,
        transport: Transport,
        post: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._membership = membership
        self._transport = transport
        self._post = post
        self._patience_s = config.links.hello_ms / 1e3
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        """Set when a view is installed."""
        self._change = Change()
        self._outcome: asyncio.Future[GroupView] | None = None
        """What whoever asked for the change waits for."""
        self._progress: Progress = lambda reached: None
        self._error: BaseException | None = None
        """Why there will be no more views here, if so."""

    async def make(self, change: Change, progress: Progress) -> GroupView:
        if not self._membership.changes:
            raise UsageError(
                f"the members of a group with protocol = {self._config.protocol!r} cannot change; "
                "views can"
            )
        address = self._checked(change) if change.add else None
        async with self._turn:
            try:
                await self._settle()
                if address is not None and self._may_come(change.add):
                    await self._call(change.add, address, progress)
                progress("asked")
                return await self._ask(change, progress)
            finally:
                if change.add:
                    self._transport.uninvite(change.add)

    async def _settle(self) -> None:
        """A change that is under way is most often over soon; if not, the process will say so."""
        with suppress(TimeoutError):
            async with timeout(self._patience_s):
                while self._membership.is_wedged and not self._membership.has_left:
                    self._news.clear()
                    await self._news.wait()

    def _may_come(self, name: str) -> bool:
        """If not, the process will say why."""
        return self._membership.role_of(name) is Role.NEWCOMER

    def _checked(self, change: Change) -> Address:
        if not is_name(change.add):
            raise UsageError(f"{change.add!r} is {NO_NAME}, or p2+1")
        address = parse_address(change.address)
        if address is None:
            raise UsageError(f"{change.address!r} is not an address like 127.0.0.1:7001")
        if self._config.tls.plain and not is_loopback(address.host):
            raise UsageError(f"{address} is not on loopback; {PLAIN_IS_HERE}")
        there = self._membership.who_is_at(address)
        if there not in ("", change.add, change.remove):
            raise UsageError(f"{there} is reached at {address}, and is not the one replaced")
        return address

    async def _call(self, name: str, address: Address, progress: Progress) -> None:
        progress("calling")
        peer = self._transport.invite(name, address)
        if peer.link is None:
            peer.is_linked.clear()
            try:
                async with timeout(self._patience_s):
                    await peer.is_linked.wait()
            except TimeoutError:
                reason = peer.missed_because or "it does not answer"
                raise ChangeDenied(
                    f"{name} at {address} {reason}; a newcomer has to run before it is added"
                ) from None

    async def _ask(self, change: Change, progress: Progress) -> GroupView:
        self._change, self._progress = change, progress
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._patience_s
        while True:
            if self._error is not None:
                raise self._error
            self._outcome = loop.create_future()
            self._post(change)
            try:
                return await self._outcome
            except ChangeDenied:
                if loop.time() > ends_s or self._membership.can_never(change):
                    raise
            finally:
                self._outcome = None
            await asyncio.sleep(AGAIN_S)
            await self._settle()
            if self._is_made(view := self._membership.view()):
                return view

    # --- what the engine tells

    def approved(self, effect: Approve) -> None:
        if self._is_awaited and effect.change == self._change:
            self._progress("approved")

    def denied(self, effect: Deny) -> None:
        if effect.change.remove == self._membership.me and self._membership.has_left:
            return  # that is what it asked for
        if self._is_awaited and effect.change == self._change:
            self._end_with(ChangeDenied(effect.reason))

    def installed(self, view: GroupView) -> None:
        """Whoever had wished for it first: it is as it should be."""
        self._news.set()
        if self._is_awaited and self._is_made(view) and self._outcome is not None:
            self._outcome.set_result(view)

    def _is_made(self, view: GroupView) -> bool:
        add, remove = self._change.add, self._change.remove
        return (not add or add in view.members) and remove not in view.members

    def fail(self, error: BaseException) -> None:
        """Nothing more is decided here, whoever is next in turn."""
        self._error = self._error or error
        self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        if self._is_awaited and self._outcome is not None:
            self._outcome.set_exception(error)

    @property
    def _is_awaited(self) -> bool:
        return self._outcome is not None and not self._outcome.done()
