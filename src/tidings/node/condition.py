"""How a member is doing: how far it is, what it waits for, and whether it could deliver now.

Two questions of whoever looks after it have short answers. Is it *healthy*: does its loop turn, and
does its disk answer? If not, only a new start helps. Is it *ready*: would something that it
broadcast now be delivered? If not, it waits for something, most often for other members.
"""

import asyncio
from collections.abc import Callable

import msgspec

from tidings.core import Members, MessageId, quorum
from tidings.node.config import Config
from tidings.node.disk import SLOW_S
from tidings.node.engine import Engine
from tidings.node.errors import LogFull
from tidings.node.ledger import Ledger
from tidings.node.log import DurableLog
from tidings.node.logs import get_logger
from tidings.node.reading import Reading

PATIENCE_S = 1.0
"""How long a broadcast of its own may get nowhere before the reason is logged."""


class Status(msgspec.Struct, frozen=True):
    """How a member is doing."""

    member: str
    members: Members
    linked: Members
    """Whose links are up."""
    broadcast: int
    """How many of its own messages were accepted in this life."""
    own: int
    """The number of its own last message; in a durable group, in all lives."""
    queued: int
    """How many were broadcast and are not accepted yet: who leaves now has not said them."""
    waiting: int
    """How many are not yet known to be held by half of the members."""
    delivered: dict[str, int]
    """Of each origin the last message delivered; in a durable group, in all lives."""
    stable: dict[str, int]
    """Of each origin the last message that all members are known to hold, in this life."""
    unread: int
    """How many wait for the program."""
    log_bytes: int
    refusal: str
    """Why no broadcast is taken at the moment, if so."""
    stuck: str
    """Why nothing of its own was delivered for a second or longer, if so."""
    awaited: Members = ()
    """After a start: members of which some must answer before anything is broadcast."""
    view: int = 0
    """How often the group has changed; -1 for a newcomer that is in no view yet."""
    wedged_s: float = 0.0
    """For how long the group has been about to change: broadcasts wait meanwhile."""
    missing: Members = ()
    """Members whose links are down."""


class Condition:
    """Of one member, from its start on."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        own: Ledger,
        reading: Reading,
        end: Callable[[], BaseException | None],
    ) -> None:
        self.name = engine.me
        self.stable: dict[str, int] = {}
        """Of each origin the last message that all members are known to hold."""
        self._config = config
        self._engine = engine
        self._own = own
        self._reading = reading
        self._end = end
        """Why the program can broadcast nothing more, if so."""
        self._stuck = ""
        self._wedged_since_s: float | None = None
        """Since when the group is about to change and has not yet, as far as anybody looked."""
        self._logger = get_logger(member=self.name)
        self._loop = asyncio.get_running_loop()

    # --- how far it is

    def status(self) -> Status:
        engine, own = self._engine, self._own
        membership, linked = engine.membership, self._linked()
        members = membership.members
        return Status(
            member=self.name,
            members=members,
            linked=linked,
            broadcast=own.accepted,
            own=own.last,
            queued=own.count - own.accepted,
            waiting=own.under_way,
            delivered=dict(self._reading.delivered),
            stable=dict(self.stable),
            unread=len(self._reading.unread),
            log_bytes=engine.disk.log.size if engine.disk is not None else 0,
            refusal=engine.refusal,
            stuck=self._stuck,
            awaited=engine.process.awaited(),
            view=membership.view().number,
            wedged_s=self._wedged_for_s(),
            missing=tuple(one for one in members if one not in (self.name, *linked)),
        )

    def _linked(self) -> Members:
        peers = self._engine.transport.peers
        members = self._engine.membership.members
        return tuple(one for one in members if one in peers and peers[one].link)

    def _wedged_for_s(self) -> float:
        """How long the group has been about to change, to the second: that is how often we look."""
        membership = self._engine.membership
        if not membership.is_wedged or membership.has_left:
            self._wedged_since_s = None
            return 0.0
        now_s = self._loop.time()
        self._wedged_since_s = now_s if self._wedged_since_s is None else self._wedged_since_s
        return now_s - self._wedged_since_s

    # --- what it waits for

    def why(self, message: MessageId) -> str:
        disk = self._engine.disk
        if disk is not None and disk.will_deliver(message):
            return f"{message} waits at {self.name} for its disk, which has yet to write it"
        return self._engine.process.why(message)

    def why_we_wait(self) -> str:
        """What the oldest of our own waits for."""
        engine = self._engine
        if not self._own.under_way:
            return ""
        if self._reading.is_full:
            return f"{self._reading.words()}: until then it hears nothing from the others"
        if engine.disk is not None and engine.disk.is_slow:
            return f"{self.name} waits for its disk, which takes longer than {SLOW_S:g} s to write"
        oldest = self._own.name_of(self._own.delivered.reached + 1)
        if oldest is None:
            return engine.refusal or f"{self.name} has not written it to its disk yet"
        return self.why(oldest)

    async def watch(self) -> None:
        """Tell, once for each reason, when our own broadcasts get nowhere, and when the log fills.

        A program that awaits a receipt would otherwise sit there and never learn what is missing.
        """
        own = self._own
        while True:
            count, reached = own.count, own.delivered.reached
            await asyncio.sleep(PATIENCE_S)
            is_stuck = count > reached == own.delivered.reached and self._end() is None
            before, self._stuck = self._stuck, self.why_we_wait() if is_stuck else ""
            if self._stuck and self._stuck != before:
                self._logger.warning("broadcasts are stuck", reason=self._stuck)
            elif before and not self._stuck and self._end() is None:
                self._logger.info("broadcasts go on")
            self.watch_the_log()
            self._engine.flush()

    def watch_the_log(self) -> None:
        engine = self._engine
        if engine.disk is not None and (percent := engine.disk.newly_full(engine.process)):
            # Kept for a member that lacks what is in the log, or for a program that does not read.
            kept_for = engine.process.kept_for()
            if kept_for not in engine.membership.members and len(self._reading.unread):
                kept_for = f"the program: {self._reading.words()}"
            self._logger.warning(
                "the log fills up",
                percent=percent,
                bytes=engine.disk.log.size,
                limit=self._config.limits.log_bytes,
                kept_for=kept_for,
            )

    def full_log(self, log: DurableLog) -> LogFull:
        if self._reading.unread.has_later:
            reason = f"its program reads on; {self._reading.words()}"
        else:
            silent = [
                name for name, peer in self._engine.transport.peers.items() if peer.link is None
            ]
            reason = (
                f"{', '.join(silent) or 'the slowest member'} has them too; if that cannot be, "
                "raise limits.log_bytes, or begin a new group"
            )
        return LogFull(
            f"the log of {self.name} is full: {log.size:,} bytes are kept until {reason}"
        )

    # --- whether it is healthy, and ready

    async def ailment(self) -> str:
        """What only a new start can mend, in one line; empty if it is healthy."""
        engine, patience_s = self._engine, self._config.control.health_ms / 1e3
        if engine.error is not None:
            return f"{self.name} has stopped: {engine.error}"
        if engine.disk is not None and not await engine.disk.answers(patience_s):
            return f"the disk of {self.name} has not answered for {patience_s:g} s"
        return ""

    def obstacle(self, wedged_s: float = 0.0) -> str:
        """Why what it broadcast now would not be delivered, in one line; empty if it would be.

        While the group changes, broadcasts wait. That counts if it has taken longer than this.
        """
        engine, end = self._engine, self._end()
        if end is not None:
            return str(end)
        if engine.membership.installed is None:
            return f"{self.name} is in no view yet: a member has to add it"
        if too_few := self._too_few():
            return too_few
        if awaited := engine.process.awaited():
            names = ", ".join(awaited)
            return f"{self.name} waits for {names} to report what they hold of its messages"
        if engine.membership.is_wedged and self._wedged_for_s() >= wedged_s:
            return "the group is about to change, and broadcasts wait"
        if engine.disk is not None and engine.disk.is_full(engine.process):
            return str(self.full_log(engine.disk.log))
        return ""

    def may_deliver(self) -> bool:
        """Whether what is under way of its own may be delivered here without anybody's help."""
        has_left = self._engine.membership.has_left
        return not (has_left or self._too_few() or self._reading.is_full)

    def _too_few(self) -> str:
        members, up = self._engine.membership.members, (self.name, *self._linked())
        needed, missing = quorum(len(members)), [one for one in members if one not in up]
        if len(members) - len(missing) >= needed:
            return ""
        return (
            f"{needed} of {len(members)} members must be up to deliver anything; {self.name} has "
            f"no link to {', '.join(missing)}"
        )
