"""Links to the other members: one TCP connection per pair, made again whenever it breaks.

Both sides say who they are before a single packet counts (calling.py says which of them calls).
While a connection lasts it loses nothing and keeps the order; what was on the way when it broke
may be gone. Protocols that can live with that (those that recover) are told
of links going down and coming up. For all others the transport numbers packets, keeps them until
the other side has said that they arrived, and sends them again after a reconnect; a member that
would need more than may be kept counts as crashed, for good.

Nothing here waits for a slow member: what does not fit into its queue costs it the connection.
What a member says waits here, as bytes, until the holder gets to it; while more than a frame of it
waits, no more is read from that connection.

A link belongs to one process. Another process under the same name, by mistake or with a copy of
its folder, is turned away as long as that link lives; so it disturbs nobody. A process that takes
the place of a dead one waits until the dead one's link is seen to be dead: it breaks, or nothing
comes from it while we listen. While we do not read, or do not run at all, nobody is silent.
"""

import asyncio
import time
from asyncio import TaskGroup
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

import msgspec

from tidings.core import EnvironmentMissing
from tidings.node.calling import Calls
from tidings.node.complaints import Complaints
from tidings.node.config import Address, Config, network_words
from tidings.node.connection import Connection, Knock, Peer
from tidings.node.credentials import Credentials
from tidings.node.logs import get_logger
from tidings.node.membership import Membership, Role
from tidings.node.secure import Secure
from tidings.node.strangers import Strangers
from tidings.node.wire import (
    CAST_OUT,
    GREETING,
    HUNG_UP,
    Bye,
    Came,
    Codec,
    Frame,
    Hello,
    Kind,
    SnapshotDenied,
    SnapshotWish,
    SnapshotWords,
    Why,
    WireFault,
    bye_frame,
    framed,
    head_of_packets,
    hello_frame,
    snapshot_frame,
)
from tidings.protocols.views.standing import NOWHERE

NEW_NAME = "its name cannot be used again; somebody new needs another, such as p2+1 after p2"
RELEASE_S = 0.05
"""How often an injector lets go of what it holds back."""
FRAME_COST = 1024
"""What a frame that waits takes beside its bytes, about: many small ones count, too."""
BUFFER_BYTES = 256 * 1024
"""How much is read from a connection at once."""
LIFE_SHIFT = 40
"""A packet's number begins with the life of its sender, so that no life repeats another's."""


class Holder(Protocol):
    """Who receives what the links bring."""

    def link_up(self, peer: str, incarnation: int) -> None:
        """What comes from this peer now comes from this incarnation of it."""

    def link_down(self, peer: str) -> None:
        """What was on the way may be gone."""

    def received(self, peer: str, packets: Iterator[Came]) -> None:
        """The packets are decoded as they are taken; what a frame costs is up to its taker."""

    def cast_out(self, reason: str) -> None:
        """The others go on without us."""

    def forget(self, peer: str) -> None:
        """It is no peer any more."""

    def heard(self, peer: str, words: SnapshotWords) -> None:
        """It speaks of a snapshot."""


class Injecting(Protocol):
    """Decides in experiments which packets a link, (sender, receiver), brings, and in which order.

    ``testkit.injector`` explains the calls.
    """

    def pass_on(self, link: tuple[str, str], packets: Sequence[Came]) -> list[Came]:
        """What the link brings when these have come."""

    def release(self) -> dict[tuple[str, str], list[Came]]:
        """What was held back long enough."""

    def forget(self, link: tuple[str, str]) -> None:
        """The link is down, and what was held back on it is lost."""


class Transport:
    def __init__(
        self,
        hello: Hello,
        life: int,
        config: Config,
        codec: Codec,
        holder: Holder,
        membership: Membership,
        *,
        resends: bool,
        injector: Injecting | None = None,
    ) -> None:
        self.me = hello.name
        self.config = config
        self.resends = resends
        self.log = get_logger(member=self.me)
        self.peers: dict[str, Peer] = {}
        self.membership = membership
        self._guests: set[str] = set()
        """Peers that are no members: newcomers that have called, or that we were asked to call;
        and members that were removed."""
        self._first_number = life << LIFE_SHIFT
        self._numbers: dict[str, int] = {}
        """Where to go on with peers that we have parted with."""
        self._hello = hello
        self._codec = codec
        self._holder = holder
        self._injector = injector
        self.credentials = Credentials(config, self.me, self.log)
        self.refused: Counter[str] = Counter()
        """How often we have refused somebody, by the reason."""
        self._server: asyncio.Server | None = None
        self._calls = Calls(self)
        self._tasks: list[asyncio.Task[None]] = []
        self._strangers = Strangers(config.links)
        self._complaints = Complaints(config.links, self.log)
        self._wants_more = True
        """Whether the application and the disk can follow."""
        self.is_listening = False
        self.is_closing = False
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        """For what a connection has just read; all take turns."""

    # --- starting and ending

    async def start(self, tasks: TaskGroup, begin: Callable[[], None] = lambda: None) -> None:
        """Listen, and call the others.

        When the address is ours, and before anybody hears of us, ``begin`` is called. Cancelled or
        failed, it leaves nothing behind that ``fall_silent`` does not end.
        """
        address = self.config.listens_on(self.me)
        with self._listening_on(address):
            self._server = await asyncio.get_running_loop().create_server(
                lambda: self._secured(Connection(self, None)),
                address.host,
                address.port,
                start_serving=False,
            )
        begin()
        with self._listening_on(address):
            await self._server.start_serving()
        self.create_task = tasks.create_task
        self.is_listening = True
        self.follow()
        jobs = [self._keep_alive()]
        if self.credentials.identity is not None:
            jobs.append(self._watch_certificates())
        if self._injector is not None:
            jobs.append(self._release(self._injector))
        self._tasks += map(tasks.create_task, jobs)

    @contextmanager
    def _listening_on(self, address: Address) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            elsewhere = "; if it is reached elsewhere, start it with --address HOST:PORT"
            raise EnvironmentMissing(
                f"{self.me} cannot listen on {address}: {network_words(fault)}"
                f"{elsewhere if self.me not in self.config.members else ''}"
            ) from None

    def fall_silent(self) -> None:
        """Hang up on everybody, once what was said has left, and answer no more calls."""
        self._stop_calling()
        for _, link in self._links():
            link.transport.close()

    def _links(self) -> list[tuple[Peer, Connection]]:
        """Those that are up."""
        return [(peer, peer.link) for peer in self.peers.values() if peer.link is not None]

    def _stop_calling(self) -> None:
        self.is_closing = True
        self._calls.end_all()
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for stranger in self._strangers.dismissed():
            stranger.transport.abort()

    async def close(self) -> None:
        """Say good-bye, and wait until everything that was said has left, or for so long."""
        self._stop_calling()
        links = [link for _, link in self._links()]
        for link in links:
            if not link.transport.is_closing():
                link.transport.resume_reading()
                link.write(bye_frame(f"{self.me} leaves"))
                # The other side reads to the end, then closes. Were we to close first, what it
                # has sent and we have not read would make the kernel drop what we have sent.
                with suppress(OSError):  # it may be gone, and asyncio not know yet
                    link.transport.write_eof()
        try:
            if links:
                timeout_s = self.config.links.close_ms / 1e3
                await asyncio.wait([link.lost for link in links], timeout=timeout_s)
        finally:
            for link in links:
                link.transport.abort()

    # --- who there is

    def follow(self) -> None:
        """Have a link with everybody who belongs to the group, and with nobody else."""
        if not self.is_listening or self.is_closing:
            return
        there = self.membership.reachable()
        for name, address in there.items():
            self._guests.discard(name)
            peer = self.peers.get(name)
            if peer is None or peer.address is None:
                self._call_at(name, address)
            elif peer.link is not None:
                peer.link.reader.limit = self.config.limits.frame_bytes
        for name in list(self.peers):
            if name not in there and name not in self._guests:
                self._part_with(name)

    def invite(self, name: str, address: Address) -> Peer:
        """Call somebody who may become a member."""
        if name not in self.membership.reachable():
            self._guests.add(name)
        return self._call_at(name, address)

    def uninvite(self, name: str) -> None:
        if name in self._guests:
            self._part_with(name)

    def _call_at(self, name: str, address: Address) -> Peer:
        peer = self._peer(name)
        peer.address = address
        self._calls.begin(peer)
        return peer

    def _peer(self, name: str) -> Peer:
        if name not in self.peers:
            number = self._numbers.get(name, self._first_number)
            self.peers[name] = Peer(name, None, number)
        return self.peers[name]

    def _part_with(self, name: str) -> None:
        """Call it no more; a link that is up stays as long as the other side wants it."""
        self._calls.end(name)
        peer = self.peers[name]
        peer.address = None
        self._guests.add(name)
        if peer.link is None:
            self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        self._guests.discard(peer.name)
        self._numbers[peer.name] = peer.sent
        del self.peers[peer.name]
        self._holder.forget(peer.name)

    # --- calling and being called

    async def connect(self, protocol: Connection | Knock, peer: Peer) -> None:
        """Call a member: where its name leads is found out again each time."""
        assert peer.address is not None, f"nobody knows where {peer.name} is"
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._secured(protocol), *peer.address)

    def _secured(self, protocol: Connection | Knock) -> asyncio.BaseProtocol:
        identity = self.credentials.identity
        if identity is None:
            return protocol
        if isinstance(protocol, Connection):
            protocol.identity = identity
        most_bytes = self.config.links.hello_bytes
        return Secure(protocol, identity, self.me, most_bytes, self.buffer)

    def knocked(self, connection: Connection, name: str) -> None:
        """Whoever says so, it costs us a call."""
        connection.check_name(name)
        connection.transport.close()
        if name in self.peers:
            self.peers[name].has_knocked.set()

    def meet(self, connection: Connection) -> None:
        """Somebody calls; it has to say who it is before long, or before too many others call."""
        if self.is_closing:
            connection.transport.abort()
            return
        late = partial(self.refuse, connection, "it does not say who it is", "late")
        for one in self._strangers.met(connection, late):
            self.refused["crowd"] += 1
            one.transport.abort()

    def hello_to(self, peer: Peer) -> Hello:
        return msgspec.structs.replace(
            self._own_hello(),
            to=peer.name,
            received=peer.received,
            received_from=peer.incarnation or 0,
        )

    def _own_hello(self) -> Hello:
        membership = self.membership
        return msgspec.structs.replace(
            self._hello, members=membership.founding, view=membership.number
        )

    def greet(self, connection: Connection, theirs: Hello) -> None:
        """The other side has said who it is: the link is up, unless something is wrong."""
        connection.check_name(theirs.name)
        called = connection.peer
        if called is not None and theirs.name != called.name:
            raise WireFault(f"it is {theirs.name}, and not {called.name}", "name")
        if quarrel := self._own_hello().quarrel(theirs):
            raise WireFault(quarrel, "settings")
        if words := self._why_not(theirs):
            self.complain(theirs.name, words)
            connection.hang_up(f"{self.me}: {words}", Why.USED, theirs.incarnation)
            return
        peer = self._peer(theirs.name)
        connection.peer = peer
        connection.session = theirs.session
        if self.resends and (why := self._is_dead_to_us(peer, theirs)):
            self.complain(peer.name, f"counts as crashed: {CAST_OUT[why]}")
            connection.hang_up(_cast_out_words(peer.name, why), why, theirs.incarnation)
            return
        if self._has_another(peer, theirs):
            reason = f"another process is linked as {peer.name}"
            self.complain(peer.name, f"called twice: {reason}")
            connection.hang_up(f"{self.me}: {reason}", Why.TAKEN)
            return
        if not connection.is_ours:
            connection.write(GREETING + hello_frame(self.hello_to(peer)))
            self._strangers.forget(connection)
        self._put_up(connection, peer, theirs)

    def _why_not(self, theirs: Hello) -> str:
        """Why somebody with a certificate of this group may not talk to us; empty if it may.

        A member that was removed may: it has to hear of that, and others may need what it has.
        """
        name, role = theirs.name, self.membership.role_of(theirs.name)
        if role is Role.MEMBER:
            return ""
        if role is Role.FORMER and theirs.view == NOWHERE:
            return f"{name} was a member before; somebody new needs another name"
        if role is Role.FORMER:
            self.complain(name, "it was removed from the group, and is about to hear it")
        if name not in self.peers:
            guests, most = len(self._guests), self.config.links.newcomers
            if guests >= most and self.membership.chain:
                words = f"{guests} newcomers are linked; {most} is the limit (links.newcomers)"
                raise WireFault(words, "crowd")
            self._guests.add(name)
        return ""

    def _put_up(self, connection: Connection, peer: Peer, theirs: Hello) -> None:
        if peer.link is not None:
            self._drop(peer, "it called again")
        connection.is_up = True
        limits, is_guest = self.config.limits, peer.name in self._guests
        connection.reader.limit = limits.packet_bytes if is_guest else limits.frame_bytes
        peer.link = connection
        peer.is_linked.set()
        peer.has_left = False
        peer.incarnation = theirs.incarnation
        self._complaints.forget(peer.name)
        self._read_on(connection)
        connection.greeted.set()
        self.log.info("link up", peer=peer.name)
        if self.resends:
            peer.forget_up_to(theirs.received)
            for _, frame in peer.kept:
                connection.write(frame)
        self._holder.link_up(peer.name, theirs.incarnation)

    def _has_another(self, peer: Peer, theirs: Hello) -> bool:
        """Whether another process has a link under this name, and is not known to be dead."""
        link = peer.link
        if link is None or link.session == theirs.session or link.is_rejected:
            return False
        return not link.transport.is_closing()

    def reject(self, name: str, incarnation: int) -> None:
        """The process refuses this one; its link must not keep out the one that it waits for."""
        peer = self.peers.get(name)
        if peer is not None and peer.link is not None and peer.incarnation == incarnation:
            peer.link.is_rejected = True

    def _take_down(self, peer: Peer, reason: str) -> None:
        self._drop(peer, reason)
        self._see_off(peer)

    def _drop(self, peer: Peer, reason: str) -> None:
        """The link is gone; what was queued on it is lost, or will be sent again."""
        link, peer.link = peer.link, None
        assert link is not None, f"{peer.name} has no link to take down"
        link.transport.abort()
        # What mends its links asks again for what it misses; all others count what has come.
        link.is_over = not self.resends
        self._tell_down(peer, reason)

    def _tell_down(self, peer: Peer, reason: str) -> None:
        if self._injector is not None:
            self._injector.forget((peer.name, self.me))
        self.log.info("link down", peer=peer.name, reason=reason)
        self._holder.link_down(peer.name)

    def _see_off(self, peer: Peer) -> None:
        """Somebody whom we do not call is a peer as long as it has a link."""
        if peer.name in self._guests and peer.address is None:
            self._forget(peer)

    def refuse(self, connection: Connection, reason: str, counted_as: str = "frame") -> None:
        """One line here, one line there, and the connection is over."""
        self.refused[counted_as] += 1
        connection.is_refused = connection.is_over = True
        # Where a newcomer waits, the members look for the one that it is to replace.
        is_usual = reason == HUNG_UP and self.membership.installed is None
        who = connection.peer.name if connection.peer else connection.where
        self.complain(who, reason, is_usual=is_usual)
        if not connection.transport.is_closing():
            connection.hang_up(f"{self.me}: {reason}")
        self.lost(connection, None)

    def lost(self, connection: Connection, fault: Exception | None) -> None:
        self._strangers.forget(connection)
        peer = connection.peer
        if peer is not None and peer.link is connection:
            peer.link = None
            if not self.is_closing:
                self._tell_down(peer, str(fault or "closed"))
                self._see_off(peer)

    def bye(self, connection: Connection, bye: Bye) -> None:
        """Somebody we called, or who has said who it is, hangs up; nobody else has a say here."""
        peer = connection.peer
        assert peer is not None, "a farewell of nobody"
        if bye.why is Why.USED and bye.incarnation == self._hello.incarnation:
            self._holder.cast_out(f"{self.me} was a member of this group before: {NEW_NAME}")
        elif bye.why in CAST_OUT and self.resends and bye.incarnation == self._hello.incarnation:
            self._holder.cast_out(_cast_out_words(self.me, bye.why))
        elif connection.is_up:
            peer.has_left = True
            self.log.info("farewell", peer=peer.name, reason=bye.reason)
        else:
            connection.is_refused = bye.why is not Why.TAKEN
            self.complain(peer.name, f"refuses us: {bye.reason}")
        connection.transport.close()

    def complain(self, who: str, reason: str, *, is_usual: bool = False) -> None:
        if not self.is_closing:
            about = who if who in self.peers else "strangers"
            now_s = asyncio.get_running_loop().time()
            self._complaints.tell(who, about, reason, now_s, is_usual=is_usual)

    # --- packets

    def number(self, name: str, count: int) -> int:
        """The number of the first of so many packets that will be sent to this member next."""
        peer = self.peers.get(name)
        if peer is None:  # it has just gone
            self._numbers[name] = self._numbers.get(name, self._first_number) + count
            return self._numbers[name] - count + 1
        peer.sent += count
        return peer.sent - count + 1

    def send(self, to: Sequence[tuple[str, int]], body: bytes, count: int) -> None:
        """The same packets to many, numbered for each; what cannot leave now is lost or kept."""
        for name, number in to:
            peer = self.peers.get(name)
            if peer is None or (peer.link is None and not self.resends):
                continue
            frame = head_of_packets(number, body) + body
            if self.resends and not self._can_keep(peer, number + count - 1, frame):
                continue
            if peer.link is not None:
                waiting = peer.link.transport.get_write_buffer_size() + len(frame)
                if waiting > self.config.limits.queue_bytes:
                    self.overflow(name, waiting)
                else:
                    peer.link.write(frame)

    def overflow(self, name: str, waiting: int) -> None:
        """Too much waits for this member: its link is dropped, and it catches up later."""
        peer = self.peers.get(name)
        if peer is not None and peer.link is not None:
            self._take_down(peer, f"{waiting:,} bytes wait for it")

    def packets(self, connection: Connection, frame: Frame) -> None:
        peer = connection.peer
        assert peer is not None, "packets from nobody"
        if peer.link is not connection:
            return
        packets = self._codec.cut(frame)
        last = frame.number + len(packets) - 1
        if not self.resends and frame.number <= connection.last_number:
            words = f"packet {frame.number} after {connection.last_number}: its numbers go back"
            raise WireFault(words, "numbers")
        connection.last_number = last
        if self.resends:
            if last <= peer.received:
                return  # sent again, though it had come
            if peer.received and frame.number != peer.received + 1:
                raise WireFault(f"packet {frame.number} where {peer.received + 1} comes next")
        peer.received = last
        connection.waiting += len(frame.body) + FRAME_COST
        self._read_on(connection)
        self._holder.received(peer.name, self._decoded(connection, peer, frame, packets))
        if self.resends and connection.unconfirmed > self.config.links.resend_bytes // 8:
            self._confirm(connection, peer)

    def _decoded(
        self, connection: Connection, peer: Peer, frame: Frame, packets: list[memoryview]
    ) -> Iterator[Came]:
        """The packets of a frame, as they are taken; none after one that ends the connection."""
        try:
            for number, packet in enumerate(packets, start=frame.number):
                if connection.is_over:
                    return
                came = self._codec.decode(number, packet, peer.name)
                if self._injector is None or peer.link is not connection:
                    yield came  # what is held back on a link goes down with it
                else:
                    yield from self._injector.pass_on((peer.name, self.me), (came,))
        except WireFault as fault:
            self.refuse(connection, str(fault), fault.reason)
        connection.waiting -= len(frame.body) + FRAME_COST
        self._read_on(connection)

    async def _release(self, injector: Injecting) -> None:
        """For tests: what is held back does not stay so for ever."""
        while True:
            await asyncio.sleep(RELEASE_S)
            for (peer, _), packets in injector.release().items():
                self._holder.received(peer, iter(packets))

    # --- snapshots

    def hearing(self) -> list[str]:
        """With whom to speak of snapshots: guests do not listen, nor are they listened to."""
        return [peer.name for peer, _ in self._links() if peer.name not in self._guests]

    def say(self, name: str, words: SnapshotWords) -> None:
        """If there is no link, nobody hears it; whoever waits for it will know that, too."""
        peer = self.peers.get(name)
        if peer is not None and peer.link is not None:
            peer.link.write(snapshot_frame(words))

    def heard(self, connection: Connection, words: SnapshotWords) -> None:
        peer = connection.peer
        if peer is None or peer.link is not connection:
            return
        if peer.name not in self._guests:
            self._holder.heard(peer.name, words)
        elif isinstance(words, SnapshotWish) and not connection.transport.get_write_buffer_size():
            # It may be a member already, and we may be late to hear it: it need not wait for us.
            self.say(peer.name, SnapshotDenied(words.serial, "it does not know this member yet"))

    # --- for protocols that mend no links

    def _is_dead_to_us(self, peer: Peer, theirs: Hello) -> Why | None:
        """Not the member, if only somebody else calls itself so: the member may live and return."""
        if peer.incarnation is not None and peer.incarnation != theirs.incarnation:
            return Why.FORGETFUL
        return peer.crashed

    def _can_keep(self, peer: Peer, last: int, frame: bytes) -> bool:
        if peer.crashed:
            return False
        if peer.kept_bytes + len(frame) > self.config.links.resend_bytes:
            peer.crashed = Why.LATE
            missed = f"it has missed more than {peer.kept_bytes:,} bytes"
            self.log.warning("counts as crashed", peer=peer.name, reason=missed)
            peer.kept.clear()
            peer.kept_bytes = 0
            if peer.link is not None:
                self._take_down(peer, "it counts as crashed")
            return False
        peer.keep(last, frame)
        return True

    def alive(self, connection: Connection, received: int) -> None:
        if self.resends and connection.peer is not None:
            connection.peer.forget_up_to(received)

    def _confirm(self, connection: Connection, peer: Peer) -> None:
        connection.unconfirmed = 0
        connection.write(framed(Kind.ALIVE, peer.received))

    # --- staying alive, and not drowning

    def reload(self) -> bool:
        """Read our certificates again; whether there is anything new.

        If so, every link is made again: only a handshake says who is still believed. Nothing is
        lost by that, as by any other cut.
        """
        if not self.credentials.reload():
            return False
        self._link_again()
        return True

    def ends_s(self) -> dict[str, float]:
        """When certificates end, in seconds since 1970: ours, and those of linked members."""
        identity = self.credentials.identity
        own = {self.me: identity.own.ends_s} if identity is not None else {}
        links = [(peer.name, link.proof) for peer, link in self._links()]
        return own | {name: proof.ends_s for name, proof in links if proof is not None}

    def _link_again(self) -> None:
        for peer, _ in self._links():
            self._take_down(peer, "certificates were reloaded")
        for stranger in self._strangers.dismissed():
            stranger.transport.abort()
        self._calls.again()

    async def _watch_certificates(self) -> None:
        """Those that end, and those that somebody asks us to read again."""
        while True:
            self.credentials.warn()
            await asyncio.sleep(self.config.links.alive_ms / 1e3)
            if self.credentials.reload_if_asked():
                self._link_again()
            for peer, link in self._links():
                if link.proof is not None and link.proof.ends_s <= time.time():
                    self.refused["expired"] += 1
                    self._take_down(peer, "its certificate has ended")

    async def _keep_alive(self) -> None:
        links = self.config.links
        round_ms = links.alive_ms / 2
        while True:
            await asyncio.sleep(round_ms / 1e3)
            for peer, link in self._links():
                # Rounds are counted, not the clock: a process that was stopped has not listened.
                is_paused = not (link.transport.is_reading() or link.transport.is_closing())
                link.silence_ms = 0.0 if is_paused else link.silence_ms + round_ms
                if link.silence_ms > links.silence_ms:
                    self._take_down(peer, f"silent for {link.silence_ms:,.0f} ms")
                elif link.unconfirmed or not link.has_sent:
                    self._confirm(link, peer)
                link.has_sent = False

    def read(self, on: bool) -> None:
        """Whether to go on reading: off while the application, or the disk, cannot keep up."""
        if on != self._wants_more:
            self._wants_more = on
            for _, link in self._links():
                self._read_on(link)

    def _read_on(self, connection: Connection) -> None:
        """Read from this one, unless nobody wants more, or enough of it waits."""
        is_enough = not self._wants_more or connection.waiting > self.config.limits.frame_bytes
        if is_enough == connection.is_paused:
            return
        if self.is_closing or connection.transport.is_closing():
            return
        connection.is_paused = is_enough
        if is_enough:
            connection.transport.pause_reading()
        else:
            connection.transport.resume_reading()


def _cast_out_words(name: str, why: Why) -> str:
    return f"{name} counts as crashed: {CAST_OUT[why]}; its name cannot return to this group"
