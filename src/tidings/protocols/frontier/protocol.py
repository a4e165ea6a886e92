"""The events of a frontier process, and what follows from each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Choose,
    Effect,
    Event,
    Halt,
    LinkDown,
    LinkUp,
    Members,
    MessageId,
    Packet,
    Processed,
    Recall,
    Recalled,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    SetTimer,
    Span,
    Start,
    Timeout,
    UsageError,
    take_first,
)
from tidings.core.renaming import NamedDigests
from tidings.protocols.frontier.histories import BLOCK, MOST_IN_BLOCK, Mark
from tidings.protocols.frontier.knowledge import Knowledge, Turn, named
from tidings.protocols.frontier.log import size_of
from tidings.protocols.frontier.packets import (
    REASONS,
    Asking,
    Batch,
    Commit,
    Counts,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    Refusal,
    State,
    Twins,
    Why,
    counts_of,
)
from tidings.protocols.frontier.records import Admitted, Delivered, Forgotten, Pinned, Stored, Taken

Mode = Literal["auto", "all", "origin"]

LARGEST_ALL = 7
"""Up to this size the mode is ``all`` unless set: it has one delay less."""

MIB = 1024 * 1024

COMMIT_MS = 5.0
"""origin: how long an origin that has a majority waits for the rest before it says so."""
ASK_MS = 200.0
"""origin: how long one waits for the origin to say that all hold what one holds."""
PULL_MS = 100.0
"""How long what is missing may take to come by itself, and an answer to a PULL."""
SHORT_DIGEST = 8
"""How many bytes of a digest go with an acknowledgement; a STATE has all of them."""
REPEAT_MS = 200.0
MOST_DOUBLINGS = 5
"""On lossy links STATE is repeated after 200, 400, ... and at last every 6,400 ms."""


class Frontier(Knowledge):
    recovers = True

    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        mode: Mode = "auto",
        batch_ms: int = -1,
        window: int = 10_000,
        log_limit: int = 10_000_000,
        memory: int = 0,
        memory_bytes: int = 0,
        early: int = 10_000,
        early_bytes: int = 64 * MIB,
        push: int = 10_000,
        push_bytes: int = 256 * 1024,
        marks: int = 64,
        block: int = BLOCK,
        strict: bool = False,
        confirmed: bool = False,
    ) -> None:
        if min(window, log_limit, early, early_bytes) < 1 or min(memory, memory_bytes) < 0:
            raise UsageError(
                "window, log_limit, early and early_bytes are 1 or more, memory limits 0 or more"
            )
        if push < 1 or not 1 <= push_bytes <= MIB // 4:
            raise UsageError(f"push is 1 or more, push_bytes 1 to {MIB // 4:,}")
        if marks < 2 or not 1 <= block <= MOST_IN_BLOCK:
            raise UsageError(f"marks is 2 or more, block 1 to {MOST_IN_BLOCK}")
        super().__init__(me, members, choose, confirmed=confirmed, most_marks=marks, block=block)
        size = len(members)
        self.mode = mode if mode != "auto" else "all" if size <= LARGEST_ALL else "origin"
        self.batch_ms = batch_ms if batch_ms >= 0 else size
        self.window = window
        self.log_limit = log_limit
        self.memory, self.memory_bytes = memory, memory_bytes
        self.most_early, self.most_early_bytes = early, early_bytes
        self.push, self.push_bytes = push, push_bytes
        self.lossy = False
        nothing_of_others = dict.fromkeys(self.others, 0)
        self.stamped = dict(nothing_of_others)
        """What was delivered when this process last broadcast."""
        self.told = dict(nothing_of_others)
        """What everybody was told to be held here; in mode origin, or need not be told."""
        self.waiting: dict[str, int] = {}
        """origin: what was held, and not told, when the ask timer was set."""
        self.heard: dict[str, int] = {}
        """origin: up to where somebody asked who holds it, and was not answered yet."""
        self.reached = dict.fromkeys(members, 0)
        """origin: so many all members hold, except those that are owed a question about it."""
        self.owed: dict[str, dict[str, int]] = {}
        """origin: by member and origin, what it may lack, or may know more about."""
        self.committed = Known(me, 0, 0)
        """origin: what everybody was told of one's own."""
        self.asked: dict[str, set[str]] = {}
        """Of what is missing: who was asked for it."""
        self.timers: set[str] = set()
        self.doublings = 0
        self.strict = strict
        self.unheard: set[str] = set()
        """Members that might remember more of this process than it does, and have not said in
        this life what they know. Empty once enough of them have."""
        self.answers = 0
        """How many of them have to, before this process gives a number to anything."""
        self.restarted: dict[str, int] = {}
        """Origins that may have used numbers twice: when so many are held, it is said what."""
        self.vouched: dict[str, int] = {}
        """The same, and it was said."""
        self.reported: dict[str, set[str]] = {}
        """Of each origin in ``twins``: who was told, over the links that there are now."""

    @property
    def indifferent(self) -> bool:
        return True

    def step(self, event: Event) -> list[Effect]:
        turn = Turn()
        match event:
            case Receive(sender, packet) if not packet.may_come_from(sender):
                pass
            case Receive(sender, packet):
                if sender not in self.refused:
                    self._receive(sender, packet, turn)
                elif isinstance(packet, State) and packet.asks:
                    self._refuse(sender, turn)  # once more: it has not heard
            case Broadcast(texts):
                self._broadcast(texts, turn)
            case Timeout(name):
                self.timers.discard(name)
                self._time_out(name, turn)
            case LinkUp(peer, incarnation):
                self._link_up(peer, incarnation, turn)
            case LinkDown(peer):
                self.down.add(peer)
            case Processed(taken):
                self._processed(taken, turn)
            case Recalled():
                self._push_recalled(event, turn)
            case Start():
                self._start(event, turn)
        if self.twins:
            self._report_twins(turn)
        if turn.lost_disk or self.me in self.twins:
            return self._leave("lost disk" if turn.lost_disk else "two histories")
        self._conclude(turn)
        return turn.effects()

    def _conclude(self, turn: Turn) -> None:
        """What follows from what was learnt: deliver, forget, speak, fetch."""
        if turn.touched:
            self._count(turn)
            self._deliver(turn)
            self._forget(turn)
        if self.stable[self.me] >= self.restarted.get(self.me, 0):
            self.restarted.pop(self.me, None)
        if self.mode == "all":
            self._tell_all(turn)
        else:
            self._tell_origin(turn)
        self._fetch(turn)
        if self.lossy:
            self._watch(turn)

    # --- broadcasting and holding

    def _broadcast(self, texts: tuple[bytes, ...], turn: Turn) -> None:
        if reason := self.why_not(len(texts)):
            turn.answer.append(Refuse(reason))
            return
        if not texts:
            turn.answer.append(Accept(()))
            return
        new = [origin for origin in self.others if self.delivered[origin] > self.stamped[origin]]
        first = MessageId(self.me, self.held[self.me] + 1)
        batch = Batch(first, texts, counts_of(new, self.delivered))
        for origin in new:
            self.stamped[origin] = self.delivered[origin]
        self._hold(batch, turn)
        turn.answer.append(Accept(tuple(batch.ids())))
        turn.data = batch

    def awaited(self) -> Members:
        return tuple(one for one in self.others if one in self.unheard)

    def why_not(self, count: int = 1) -> str:
        """Why so many messages cannot be broadcast now; empty if they can."""
        if self.unheard and not self.admitted:
            return f"{self.me} starts with nothing and has yet to meet {named(self.unheard)}"
        if self.unheard:
            return (
                f"{self.me} has restarted and waits for {self.answers} of {named(self.unheard)} "
                "to say what they hold of its messages"
            )
        most = min(self.window, self.log_limit)
        if count > most:
            return f"{count} messages at once are too many: {most} is the limit"
        unsafe = self.held[self.me] + count - self.safe[self.me]
        if unsafe > self.window:
            return (
                f"{self.me} has {unsafe - count} messages that {self.quorum} members are not known "
                f"to hold yet, and {self.window} is the limit"
            )
        kept = sum(self.held.values()) - sum(self.forgotten.values())
        if kept + count > self.log_limit:
            messages = "message" if kept == 1 else "messages"
            return f"the log of {self.me} is full: it keeps {kept} {messages} for {self.kept_for()}"
        return ""

    def kept_for(self) -> str:
        lack = {
            peer: sum(max(0, count - self._held_by(peer, one)) for one, count in self.held.items())
            for peer in self.others
        }
        last = max(self.others, key=lambda peer: lack[peer], default=self.me)
        if lack.get(last, 0) > 0:
            return last
        if self.confirmed and self.delivered != self.taken:
            return "the application, which has not taken them"
        return f"{self.me}, which cannot deliver them yet"

    def _hold(self, batch: Batch, turn: Turn) -> None:
        origin, before = batch.id.origin, self.held[batch.id.origin]
        for new in self._store(batch):
            turn.records.append(Stored(new))
            turn.held += new.ids()
        if self.held[origin] > before:
            turn.grown[origin] = turn.touched[origin] = None

    # --- delivering and forgetting

    def _deliver(self, turn: Turn) -> None:
        turn.delivered += self._deliver_up_to(self.safe)
        if turn.delivered:
            turn.records.append(Delivered(self._vector(self.delivered)))

    def _processed(self, taken: Mapping[str, int], turn: Turn) -> None:
        if not self.confirmed:
            return
        for origin, count in taken.items():
            if origin not in self.taken:
                raise UsageError(f"{origin} is not a member")
            if self.taken[origin] < min(count, self.delivered[origin]):
                self.taken[origin] = min(count, self.delivered[origin])
                turn.touched[origin] = None
        if turn.touched:
            turn.late_records.append(Taken(self._vector(self.taken)))

    def _forget(self, turn: Turn) -> None:
        if self._forget_up_to({origin: self._needless(origin) for origin in self.members}):
            turn.late_records.append(Forgotten(self._vector(self.forgotten)))
        if self._is_crowded():
            self._spill_up_to(self.delivered)

    # --- acknowledging

    def _acknowledged(self, origins: Sequence[str]) -> tuple[Counts, NamedDigests]:
        """How much is held of these; and what, of those that may have used numbers twice."""
        doubtful = [origin for origin in origins if origin in self.restarted]
        return counts_of(origins, self.held), self._digests(doubtful)

    def _digests(self, origins: Iterable[str]) -> NamedDigests:
        heads = ((origin, self.histories.head(origin).digest) for origin in origins)
        return tuple(sorted((origin, head[:SHORT_DIGEST]) for origin, head in heads if head))

    def _vouch(self, origins: Iterable[str]) -> None:
        """It was said what is held of these."""
        for origin in origins:
            if origin in self.restarted and self.restarted[origin] <= self.held[origin]:
                self.vouched[origin] = self.restarted.pop(origin)

    def _hear_of_restart(self, origin: str, count: int, turn: Turn) -> None:
        """Up to so many, others may hold something else."""
        if origin == self.me or count <= self.vouched.get(origin, 0):
            return
        self.restarted[origin] = max(count, self.restarted.get(origin, 0))
        if count <= self.told[origin]:
            self.told[origin] = count - 1
            turn.vouch[origin] = None

    # --- telling, mode all

    def _untold(self) -> list[str]:
        return [origin for origin in self.others if self.held[origin] > self.told[origin]]

    def _tell_all(self, turn: Turn) -> None:
        """What is newly held goes with the next message, or at once if none was told just now."""
        news = self._untold()
        if turn.data is not None:
            self._say(self.others, self._data(turn.data, news), turn)
        elif news and "batch" not in self.timers:
            self._say(self.others, Holding(*self._acknowledged(news)), turn)
            if self.batch_ms:
                self._set_timer("batch", self.batch_ms, turn)
        else:
            return
        self._vouch(news)
        for origin in news:
            self.told[origin] = self.held[origin]

    def _data(self, batch: Batch, news: Sequence[str] = (), *commit: Known) -> Data:
        held, digests = self._acknowledged(news)
        return Data(batch, held, commit, digests, self.me in self.restarted)

    # --- telling, mode origin

    def _tell_origin(self, turn: Turn) -> None:
        self._tell_what_is_safe(turn)
        for origin in turn.grown | turn.vouch:
            if origin != self.me:
                self._say((origin,), Holding(*self._acknowledged([origin])), turn)
                self._vouch([origin])
        for origin in self._untold():
            # Nobody needs to be asked: all hold it but those owed, and nobody waits to hear of it.
            if self.held[origin] <= self._spread(origin) and origin not in self.heard:
                self.told[origin] = self.held[origin]
        news = self._untold()
        if not news or "ask" not in self.timers:
            self.waiting = {origin: self.held[origin] for origin in news}
        self._want_timer("ask", bool(news or self._debts()), ASK_MS, turn)

    def _spread(self, origin: str) -> int:
        """So many are held by all members, except for those that are owed a question."""
        return max(self.stable[origin], self.reached[origin])

    def _tell_what_is_safe(self, turn: Turn) -> None:
        known = self._own_known(is_riding=turn.data is not None)
        due = known != self.committed
        if turn.data is not None:
            self._say(self.others, self._data(turn.data, (), *([known] if due else ())), turn)
        elif due and (turn.commit or self._is_complete()):
            self._say(self.others, Commit((known,)), turn)
        else:
            self._want_timer("commit", due, COMMIT_MS, turn)
            return
        self.committed = known
        self._want_timer("commit", False, COMMIT_MS, turn)

    def _own_known(self, is_riding: bool) -> Known:
        """How far own messages have spread.

        With a new message goes what holds of all that can be reached, so that it names few.
        """
        safe, stable = self.safe[self.me], self.stable[self.me]
        holding = {one: self._held_by(one, self.me) for one in self.others}
        lacking = [one for one in self.others if holding[one] < safe]
        if is_riding:
            lacking = [one for one in lacking if one in self.down or one in self.refused]
        if not lacking:
            return Known(self.me, safe, stable)
        reached = min([safe, *(holding[one] for one in self.others if one not in lacking)])
        return Known(self.me, safe, stable, reached, tuple(lacking))

    def _is_complete(self) -> bool:
        """Whether all hold everything that can be reached."""
        unavailable = self.down | self.refused.keys()
        held = self.held[self.me]
        return self.safe[self.me] == held and all(
            self._held_by(one, self.me) == held for one in self.others if one not in unavailable
        )

    def _take_known(self, sender: str, known: Known, turn: Turn) -> None:
        """Whoever is lacking may hear of it from nobody else: each holder owes it a question."""
        self._learn(sender, known, turn)
        origin, reached = known.origin, known.reached
        is_for_us = origin != self.me and self.me not in known.lacking
        if self.mode == "origin" and is_for_us and reached > self.reached[origin]:
            self.reached[origin] = reached
            for peer in known.lacking:
                self._owe(peer, origin, reached)

    def _owe(self, peer: str, origin: str, count: int) -> None:
        """A debt only grows: what was told of less may come later."""
        if peer != origin:
            owed = self.owed.setdefault(peer, {})
            owed[origin] = max(owed.get(origin, 0), count)

    def _debts(self) -> dict[str, list[str]]:
        """By member, the origins it is to be asked about, if it can be reached."""
        unavailable = self.down | self.refused.keys()
        debts: dict[str, list[str]] = {}
        for peer, owed in list(self.owed.items()):
            for origin, count in list(owed.items()):
                if count <= self.stable[origin]:
                    del owed[origin]
            if not owed:
                del self.owed[peer]
            elif peer not in unavailable:
                debts[peer] = list(owed)
        return debts

    def _ask(self, turn: Turn) -> None:
        """Everybody about what has waited since the timer was set; others what they are owed."""
        overdue = [
            origin
            for origin in self._untold()
            if origin in self.heard or self.waiting.get(origin, 0) > self._spread(origin)
        ]
        if overdue:
            self._say(self.others, self._question(overdue), turn)
        for origin in overdue:
            self.told[origin] = self.held[origin]
            if self.heard.get(origin, 0) <= self.held[origin]:
                self.heard.pop(origin, None)
        for peer, origins in self._debts().items():
            rest = [origin for origin in origins if origin not in overdue]
            if rest:
                self._say((peer,), self._question(rest), turn)
            del self.owed[peer]

    def _question(self, origins: Sequence[str]) -> Asking:
        ids = sorted(MessageId(origin, self.held[origin]) for origin in origins)
        return Asking(Counts(some=tuple(ids)), self._digests(origins))

    def _answer(self, asker: str, held: Counts, turn: Turn) -> None:
        """Say what is safe; of the rest remember that somebody waits to hear who holds it."""
        answers = []
        for origin, count in held.of(self.members):
            if origin == self.me:
                continue  # what is safe of one's own, everybody is told anyway
            if count <= self.safe[origin]:
                answers.append(self._known_of(origin))
            else:
                self._remember_asked(origin, count)
        if answers:
            self._say((asker,), Commit(tuple(answers)), turn)

    def _known_of(self, origin: str) -> Known:
        """How far the messages of another have spread, as far as is known here."""
        safe, stable, reached = self.safe[origin], self.stable[origin], self.reached[origin]
        if reached <= stable:
            return Known(origin, safe, stable)
        lacking = tuple(one for one in self.others if self._held_by(one, origin) < reached)
        return Known(origin, safe, stable, reached, lacking)

    def _remember_asked(self, origin: str, count: int) -> None:
        if count > self.told[origin]:
            self.heard[origin] = max(self.heard.get(origin, 0), count)

    # --- fetching what is missing

    def _fetch(self, turn: Turn) -> None:
        """Give what is missing time to come by itself, while there is somebody left to ask."""
        for origin in turn.grown:
            # What is missing now is something else, which nobody was asked for before this turn.
            self.asked.pop(origin, None)
        for origin, holder in turn.asked.items():
            self.asked[origin] = {holder}
        helpless = not any(map(self._helpers, self._missing()))
        self._want_timer("pull", not helpless, PULL_MS, turn)

    def _pull(self, turn: Turn) -> None:
        """Ask one holder for each thing that is missing.

        Nobody is asked twice for the same: who lives answers. Only where packets get lost, or
        after the link was down, the question is repeated.
        """
        wanted: dict[str, list[Span]] = {}
        for origin in self._missing():
            helpers = self._helpers(origin)
            if helpers:
                draw = len(helpers) > 1
                holder = helpers[self.choose("holder", (1,) * len(helpers)) if draw else 0]
                self.asked.setdefault(origin, set()).add(holder)
                wanted.setdefault(holder, []).append(self._wanted(origin, holder))
        for holder, spans in wanted.items():
            self._say((holder,), Pull(tuple(spans)), turn)

    def _helpers(self, origin: str) -> list[str]:
        """Who holds more and was not asked yet; the origin, who has most to do, comes last."""
        unavailable = self.asked.get(origin, set()) | self.down | self.refused.keys()
        holders = [
            peer
            for peer in self.others
            if self._held_by(peer, origin) > self.held[origin] and peer not in unavailable
        ]
        return [peer for peer in holders if peer != origin] or holders

    def _may_be_asked_again(self, peer: str) -> None:
        self.asked = {one: rest for one, asked in self.asked.items() if (rest := asked - {peer})}

    def _wanted(self, origin: str, holder: str) -> Span:
        held, gap = self.held[origin], self._gap(origin)
        last = self._held_by(holder, origin)
        return Span(origin, held + 1, min(last, gap) if gap > 0 else last)

    def _push(self, asker: str, wanted: tuple[Span, ...], turn: Turn) -> None:
        batches: list[Batch] = []
        for one in wanted:
            origin = one.origin
            first = max(one.first, self.forgotten[origin] + 1)
            last = min(one.last, self.held[origin])
            spilled = self.spilled.get(origin, 0)
            if first <= min(last, spilled):
                # Who asked will ask for the rest when it has got this.
                last = min(last, spilled)
                turn.said.append(Recall(asker, MessageId(origin, first), last))
            else:
                kept = self._kept(origin, first, last)
                if batches and self._is_too_much([*batches, *kept]):
                    self._say_push(asker, batches, turn)
                    batches = []
                batches += kept
        if batches:
            self._say_push(asker, batches, turn)

    def _say_push(self, asker: str, batches: list[Batch], turn: Turn) -> None:
        origins = {batch.id.origin for batch in batches}
        restarted = origins & (self.restarted.keys() | self.vouched.keys())
        self._say((asker,), Push(tuple(batches), tuple(sorted(restarted))), turn)

    def _is_too_much(self, batches: list[Batch]) -> bool:
        """For one packet: who gets it has to deal with all of it in one step."""
        count = sum([len(batch.texts) for batch in batches])
        return count > self.push or sum(map(size_of, batches)) > self.push_bytes

    def _push_recalled(self, event: Recalled, turn: Turn) -> None:
        batches = self._recalled(event.first, event.last, event.records)
        if batches:
            self._say_push(event.peer, batches, turn)

    def _take_push(self, sender: str, push: Push, turn: Turn) -> None:
        """Keep what came; if there is more where it came from, go on asking."""
        for batch in push.batches:
            origin = batch.id.origin
            if origin in push.restarted:
                self._hear_of_restart(origin, batch.last, turn)
            if origin != self.me:
                self._hold(batch, turn)
            self._know(sender, origin, batch.last, turn)
        more = [one for one in turn.grown if self._held_by(sender, one) > self.held[one]]
        turn.asked = dict.fromkeys(more, sender)
        if more:
            wanted = tuple(self._wanted(origin, sender) for origin in more)
            self._say((sender,), Pull(wanted), turn)

    # --- links

    def _link_up(self, peer: str, incarnation: int, turn: Turn) -> None:
        """Who comes back as somebody else is refused; with the others everything is exchanged."""
        self.down.discard(peer)
        for told in self.reported.values():
            told.discard(peer)
        if peer not in self.pinned:
            self.pinned[peer] = incarnation
            turn.records.append(Pinned(peer, incarnation))
        if self.pinned[peer] != incarnation:
            self._reject(peer, incarnation, "lost disk", turn)
        if self.pinned[peer] != incarnation or peer in self.twins:
            self._refuse(peer, turn)
            return
        # Somebody else under its name was refused, not this one.
        self.refused.pop(peer, None)
        self._may_be_asked_again(peer)
        # It does the same, so neither needs an answer.
        self._say((peer,), self._state_for(peer, asks=False), turn)
        if self.mode == "origin":
            # What it was asked, it may not have heard, or not remember.
            for origin in self.others:
                if self.held[origin] > self.stable[origin]:
                    self._owe(peer, origin, self.held[origin])

    def _state_for(self, peer: str, asks: bool) -> State:
        return State(
            self._vector(self.held),
            self._vector(self.safe),
            self._vector(self.stable),
            self._vector(self._holding(peer)),
            asks,
            greets=peer in self.unheard,
            digests=tuple(self.histories.head(origin).digest for origin in self.members),
        )

    def _take_state(self, sender: str, state: State, turn: Turn) -> None:
        theirs = zip(self.members, state.held, state.safe, state.stable, state.yours, strict=True)
        for origin, held, safe, stable, mine in theirs:
            turn.lost_disk |= mine > self.held[origin]
            self._know(sender, origin, held, turn)
            self._commit(sender, origin, safe, stable, turn)
        for origin, count, digest in zip(self.members, state.held, state.digests, strict=False):
            self._compare(sender, origin, Mark(count, digest))
        self._hear_from(sender, turn)
        if state.asks:
            # On lossy links: what we asked it for, or its answer, may be lost.
            self._may_be_asked_again(sender)
            self._count(turn)
            self._complete(sender, state, turn)

    def _complete(self, sender: str, state: State, turn: Turn) -> None:
        """Tell the sender of a STATE what it does not know."""
        if state.greets:
            self._say((sender,), self._state_for(sender, asks=False), turn)
            return
        theirs = zip(self.members, state.safe, state.stable, state.yours, strict=True)
        held, known = [], []
        for origin, safe, stable, mine in theirs:
            if self.held[origin] > mine:
                held.append(origin)
            if self.safe[origin] > safe or self.stable[origin] > stable:
                known.append(Known(origin, self.safe[origin], self.stable[origin]))
        if held:
            self._say((sender,), Holding(*self._acknowledged(held)), turn)
        if known:
            self._say((sender,), Commit(tuple(known)), turn)

    # --- comparing histories

    def _compare(self, peer: str, origin: str, theirs: Mark) -> None:
        """Whether the peer holds other messages under the same names."""
        ours = self.histories.differs(peer, origin, theirs)
        if ours is not None:
            self._differ(origin, peer, ours)

    def _compare_all(self, peer: str, held: Counts, digests: NamedDigests) -> None:
        if digests:
            counts = dict(held.of(self.members))
            for origin, digest in digests:
                self._compare(peer, origin, Mark(counts.get(origin, 0), digest))

    def _report_twins(self, turn: Turn) -> None:
        """An origin used numbers twice: everybody is to know, and to refuse it."""
        for origin, twins in self.twins.items():
            told = self.reported.setdefault(origin, set())
            rest = tuple(peer for peer in self.others if peer not in (*told, origin))
            self._say(rest, twins, turn)
            told.update(rest)
            refused = self.refused.get(origin)
            if refused is None or refused[1] != "two histories":
                self._refuse_twins(twins, turn)

    def _refuse_twins(self, twins: Twins, turn: Turn) -> None:
        origin = twins.origin
        self.refused[origin] = (self.pinned.get(origin, self.incarnation), "two histories")
        if origin != self.me:
            self._refuse(origin, turn)  # it may be linked, and know nothing of it
        holders = " and ".join(twins.holders)
        words = f"{holders} hold different ones up to {MessageId(origin, twins.count)}"
        reason = REASONS["two histories"].format(origin)
        turn.said.append(Reject(origin, f"{reason} ({words})"))

    def _watch(self, turn: Turn) -> None:
        """On lossy links: repeat while somebody is not known to hold exactly the same."""
        behind = bool(self._behind())
        if turn.touched and self.doublings:
            self.doublings = 0
            self._want_timer("repeat", False, REPEAT_MS, turn)
        self._want_timer("repeat", behind, REPEAT_MS * 2**self.doublings, turn)
        if not behind:
            self.doublings = 0

    def _behind(self) -> list[str]:
        """Linked members not known to hold the same, no less and no more, or not heard yet."""
        unavailable = self.down | self.refused.keys()
        return [
            peer
            for peer in self.others
            if peer not in unavailable
            and (peer in self.unheard or self._holding(peer) != self.held)
        ]

    def _repeat(self, turn: Turn) -> None:
        for peer in self._behind():
            self._say((peer,), self._state_for(peer, asks=True), turn)
        self.doublings = min(self.doublings + 1, MOST_DOUBLINGS)

    # --- starting, coming back, being refused

    def _start(self, start: Start, turn: Turn) -> None:
        self.incarnation = start.incarnation
        self.lossy = start.lossy
        if start.incarnation == 0:
            self.pinned = dict.fromkeys(self.others, 0)
        if start.recovered is not None:
            self._come_back(start.recovered, turn)
        self.admitted |= not start.incarnation
        self.answers = self._answers_needed(start)
        self.unheard = set(self.others) if self.answers else set()
        self._be_admitted(turn)

    def _answers_needed(self, start: Start) -> int:
        """How many others must say what they know before this process numbers anything.

        Its disk may have held more. A process that starts with nothing may have lost one, and any
        other member could be the only one that remembers. A process that comes back may have an
        older copy. Q - 1 others are as many as can be waited for while f members are dead; with
        ``strict`` they are so many that one of them has seen whatever was delivered.
        """
        if not self.admitted and not start.founding:
            return len(self.others)
        if start.recovered is None:
            return 0
        if self.strict:
            return min(len(self.others), len(self.members) // 2 + 1)
        return min(len(self.others), max(1, self.quorum - 1))

    def _hear_from(self, peer: str, turn: Turn) -> None:
        if peer in self.unheard:
            self.unheard.discard(peer)
            self.answers -= 1
            if not self.answers:
                self.unheard.clear()
            self._be_admitted(turn)

    def _be_admitted(self, turn: Turn) -> None:
        """Once all that might object were heard, and nobody did."""
        if not self.unheard and not self.admitted:
            self.admitted = True
            turn.records.append(Admitted())

    def _come_back(self, records: tuple[Any, ...], turn: Turn) -> None:
        self._restore(records)
        self.safe = dict(self.delivered)
        self.stable = dict(self.forgotten)
        for origin in self.others:
            if self.held[origin] > self.stable[origin]:
                self.known[origin][origin] = self.held[origin]
            # Everybody is told what is held when links come up.
            self.told[origin] = self.held[origin]
        self.committed = Known(self.me, self.safe[self.me], self.stable[self.me])
        self.restarted[self.me] = self.held[self.me] + 1
        if self._done() != self.delivered:
            turn.replay = Replay(dict(self._done()), dict(self.delivered))
        turn.touched |= dict.fromkeys(self.members)

    def _reject(self, member: str, incarnation: int, why: Why, turn: Turn) -> None:
        if self.refused.get(member, (None, why))[0] != incarnation:
            self.refused[member] = (incarnation, why)
            turn.said.append(Reject(member, REASONS[why].format(member)))

    def _refuse(self, peer: str, turn: Turn) -> None:
        self._say((peer,), Refusal(peer, *self.refused[peer]), turn)

    def _take_refusal(self, sender: str, refusal: Refusal, turn: Turn) -> None:
        """It stops this very process, or says that its sender stops; any other is not meant."""
        member, incarnation, why = refusal.member, refusal.incarnation, refusal.why
        if member == self.me and incarnation == self.incarnation:
            turn.said.append(Halt(REASONS[why].format(member)))
        elif member == sender and self.pinned.get(member, incarnation) == incarnation:
            self._reject(member, incarnation, why, turn)

    def _leave(self, why: Why) -> list[Effect]:
        refusal = Refusal(self.me, self.incarnation, why)
        return [Send(self.others, refusal), Halt(REASONS[why].format(self.me))]

    # --- events

    def _receive(self, sender: str, packet: Packet, turn: Turn) -> None:
        match packet:
            case Data(batch, held, commit, digests, restarted):
                if restarted:
                    self._hear_of_restart(sender, batch.last, turn)
                self._hold(batch, turn)
                self._know(sender, sender, batch.last, turn)
                self._know_all(sender, held, turn)
                self._compare_all(sender, held, digests)
                for one in commit:
                    self._take_known(sender, one, turn)
            case Holding(held, digests):
                self._know_all(sender, held, turn)
                self._compare_all(sender, held, digests)
            case Asking(held, digests):
                self._know_all(sender, held, turn)
                self._compare_all(sender, held, digests)
                self._answer(sender, held, turn)
            case Commit(known):
                for one in known:
                    self._take_known(sender, one, turn)
            case Pull(wanted):
                self._push(sender, wanted, turn)
            case Push():
                self._take_push(sender, packet, turn)
            case State():
                self._take_state(sender, packet, turn)
            case Twins(origin):
                self.twins.setdefault(origin, packet)
                self.reported.setdefault(origin, set()).add(sender)
            case Refusal():
                self._take_refusal(sender, packet, turn)

    def _time_out(self, name: str, turn: Turn) -> None:
        match name:
            case "commit":
                turn.commit = True
            case "ask":
                self._ask(turn)
            case "pull":
                self._pull(turn)
            case "repeat":
                self._repeat(turn)

    # --- effects

    def _say(self, to: Members, packet: Packet, turn: Turn) -> None:
        if to:
            turn.said.append(Send(to, packet))

    def _set_timer(self, name: str, delay_ms: float, turn: Turn) -> None:
        self.timers.add(name)
        turn.timers.append(SetTimer(name, delay_ms))

    def _want_timer(self, name: str, wanted: bool, delay_ms: float, turn: Turn) -> None:
        """Timers run only while they are needed: one that is not would be one more thing to try."""
        if wanted and name not in self.timers:
            self._set_timer(name, delay_ms, turn)
        elif not wanted and name in self.timers:
            self.timers.discard(name)
            turn.timers.append(CancelTimer(name))
