"""How members went down and came back: with how much of their last message out, and how far behind.

From the rows alone. A node that was killed leaves no row: its life ends with the last thing that
it did, and either its fate says so or the next life begins. From the rows nobody can tell whether
such a node was killed or stopped, so of those that came back it is only said that they went down.

Clocks decide here what had happened when a member came back. That is narration: no verdict
depends on it.
"""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from tidings.core import Members, MessageId, ordered
from tidings.report.causality import Causality
from tidings.report.focus import UNTOLD, Focus, leading
from tidings.report.words import listed, many
from tidings.spec import Place
from tidings.spec.evidence import place
from tidings.trace import Row, Run


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a life, and what became of the last message that it broadcast."""

    process: str
    end: Place
    """The last thing that it did."""
    is_final: bool
    """Whether it is known to have crashed; else it came back, and may have been stopped."""
    message: MessageId | None = None
    """The last that it broadcast in that life."""
    copies: int = 0
    """Of ``others``, how many had received it from its origin, then or ever."""
    others: int = 0
    delivered_by: Members = ()
    came_from_disk: bool = False
    """Whether it delivered that itself, but only when it was back."""
    back: Place | None = None
    """Where it came back, if it did."""
    behind: int = 0
    """How many messages others had delivered by then, and it had not."""
    caught_up: int = 0
    """Of those, how many it delivered."""

    @property
    def is_in_mid_broadcast(self) -> bool:
        return self.message is not None and self.copies < self.others

    def in_words(self) -> str:
        """One sentence, without its full stop."""
        verb = "died" if self.is_final else "went down"
        if self.message is None:
            return f"{self.process} {verb}, and had broadcast nothing"
        readers = f"{listed(self._readers() or ('nobody',))} delivered it"
        if self.is_in_mid_broadcast:
            arrived = f"{self.copies} of {many(self.others, 'copy')} had arrived"
            return f"{self.process} {verb} broadcasting {self.message}: {arrived}; {readers}"
        return f"{self.process} {verb} after it had broadcast {self.message}; {readers}"

    def return_in_words(self) -> str:
        missed = many(self.behind, "message")
        caught_up = "delivered them all"
        if self.caught_up < self.behind:
            caught_up = f"delivered {self.caught_up:,} of them"
        if not self.behind:
            return f"{self.process} came back, and had missed nothing"
        return f"{self.process} came back {missed} behind, and {caught_up}"

    def _readers(self) -> Members:
        """Who delivered it, and how that can be."""
        from_disk = {self.process: f"{self.process} (from its disk, when it was back)"}
        known = from_disk if self.came_from_disk else {}
        return tuple(known.get(name, name) for name in self.delivered_by)


def crashes_of(causality: Causality) -> list[Crash]:
    """Every end of a life that no process chose, the earliest first."""
    return [_crash(causality.run, *end) for end in causality.ends]


def _crash(run: Run, last: Row, following: Row | None) -> Crash:
    process = last.process
    crash = Crash(
        process=process,
        end=place(last),
        is_final=following is None or last.kind == "crash",
        back=place(following) if following is not None else None,
    )
    life = [row for row in run.histories[process] if row.incarnation == last.incarnation]
    broadcasts = [row for row in life if row.kind == "broadcast"]
    if broadcasts:
        crash = msgspec.structs.replace(crash, **_last_words(run, broadcasts[-1], life))
    return crash if following is None else _come_back(crash, run, following)


def _last_words(run: Run, broadcast: Row, life: list[Row]) -> dict[str, object]:
    """What became of the message that a life broadcast last."""
    process, message = broadcast.process, broadcast.message
    sent = {(row.peer, row.packet) for row in _copies(broadcast, life)}
    arrived = {
        row.process
        for row in run.rows
        if row.kind == "receive" and row.peer == process and (row.process, row.packet) in sent
    }
    delivered = {
        row.process: row.incarnation
        for row in run.rows
        if row.kind == "deliver" and row.message == message
    }
    others = len(run.manifest.views[broadcast.view or 0]) - 1
    return {
        "message": message,
        "copies": len(arrived) if sent else others,
        "others": others,
        "delivered_by": ordered(delivered),
        "came_from_disk": delivered.get(process, 0) > broadcast.incarnation,
    }


def _copies(broadcast: Row, life: list[Row]) -> list[Row]:
    """What was sent of it: a packet with several messages has the name of their first."""
    return [
        row
        for row in life
        if row.index > broadcast.index
        and row.kind == "send"
        and row.origin is not UNSET
        and row.origin == broadcast.process
    ]


def _come_back(crash: Crash, run: Run, back: Row) -> Crash:
    deliveries = [row for row in run.rows if row.kind == "deliver"]
    own = [row for row in deliveries if row.process == crash.process]
    known = {row.message for row in own if row.index < back.index}
    theirs = {row.message for row in deliveries if row.time_ns <= back.time_ns}
    missed = theirs - known
    caught_up = missed & {row.message for row in own if row.index > back.index}
    return msgspec.structs.replace(crash, behind=len(missed), caught_up=len(caught_up))


# --- what to draw of it


def around(crash: Crash, causality: Causality, most: int) -> Focus:
    """The way of the last message: who got it, from whom, and where the crash struck."""
    assert crash.message is not None, f"{crash.process} broadcast nothing before {crash.end}"
    wanted = {place(row) for row in _way(crash, crash.message, causality)}
    rows = [row for row in causality.order if place(row) in wanted and row.kind not in UNTOLD]
    note = f"Only the way of {crash.message} is shown: {len(rows):,} of {causality.count:,} rows."
    if len(rows) > most:
        note = f"Of {len(rows):,} rows about {crash.message} only the first {most:,} are shown."
    shown = leading(rows[:most], causality)
    if any(_is_named_after_an_earlier(row, crash.message) for row in shown):
        note = f"{note} A packet with several messages has the name of their first."
    return Focus(shown, wanted, note)


def _is_named_after_an_earlier(row: Row, message: MessageId) -> bool:
    is_of_the_same = bool(row.origin) and row.origin == message.origin
    return row.kind == "send" and is_of_the_same and row.message.seq < message.seq


def _way(crash: Crash, message: MessageId, causality: Causality) -> Iterator[Row]:
    for row in causality.about(message):
        yield row
        if row.kind == "held" and row.process != crash.process:
            yield from _how_it_came(row, message, causality)
    history = causality.run.histories[crash.process]
    broadcast = causality.broadcasts[message]
    life = [row for row in history if row.incarnation == broadcast.incarnation]
    yield from _copies(broadcast, life)
    for row in history:
        if place(row) in (crash.end, crash.back) and row.kind in ("crash", "recover"):
            yield row


def _how_it_came(held: Row, message: MessageId, causality: Causality) -> Iterator[Row]:
    """The packet that brought the text, and the question that it answers, if there was one.

    A packet with several messages has the name of their first, or none. Of packets without a name
    that came in the same moment, the rarest kind is taken: most of them only acknowledge.
    """
    came = [row for row in causality.breath(held) if row.kind == "receive"]
    known = [row for row in came if causality.source(row) is not None]
    named = [row for row in known if row.origin and row.origin == message.origin]
    if any(row.message == message for row in named):
        return
    earlier = [row for row in named if row.message.seq < message.seq]
    brought = earlier[-1:] or _rarest([row for row in known if not row.origin], causality)
    for row in brought:
        sent = causality.sources[place(row)]
        yield from (row, sent)
        asked = [
            one
            for one in causality.breath(sent)
            if one.kind == "receive" and one.peer == held.process and one.index < sent.index
        ]
        for one in _rarest([one for one in asked if not one.origin], causality):
            question = causality.source(one)
            if question is not None:
                yield from (one, question)


def _rarest(packets: list[Row], causality: Causality) -> list[Row]:
    """The one of which fewest were sent in the run, or nothing."""
    return sorted(packets, key=lambda row: causality.packets[str(row.packet_kind)])[:1]
