"""Which event came before which, and what became of each packet: from the rows alone.

An event comes before another if both are of one process and it stands earlier in its history, if
it sent the packet that the other received, or through a chain of such steps. Where a trace has no
packets at all, a broadcast comes before its deliveries.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise, takewhile

from tidings.core import Members, MessageId, ordered
from tidings.report.schedule import losses
from tidings.spec import Place
from tidings.spec.evidence import place
from tidings.trace import Row, Run

Frontier = Mapping[str, int]
"""A past: of each process that is part of it, the last index that is."""

ON_ITS_WAY = "still on its way"


class Causality:
    """The events of a run, put in order."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.processes: Members = ordered((*run.manifest.members, *run.histories))
        sent = {(row.process, row.peer, row.packet): row for row in run.rows if row.kind == "send"}
        self.sources: dict[Place, Row] = {}
        """The send of each receive."""
        self.arrivals: dict[Place, list[Row]] = {place(row): [] for row in sent.values()}
        """The receives of each send: none if it was lost, two if it was duplicated."""
        for row in run.rows:
            source = sent.get((str(row.peer), row.process, row.packet))
            if row.kind == "receive" and source is not None:
                self.sources[place(row)] = source
                self.arrivals[place(source)].append(row)

    @cached_property
    def has_packets(self) -> bool:
        return any(row.kind in ("send", "receive") for row in self.run.rows)

    @cached_property
    def unnamed(self) -> list[Row]:
        """The sends whose packets name no message: they may speak of many."""
        return [row for row in self.run.rows if row.kind == "send" and not row.origin]

    @cached_property
    def broadcasts(self) -> dict[MessageId, Row]:
        """The first of each message."""
        rows = reversed([row for row in self.run.rows if row.kind == "broadcast"])
        return {row.message: row for row in rows}

    def source(self, row: Row) -> Row | None:
        """The event of another process that this one could not do without, if there is one."""
        if row.kind == "deliver" and not self.has_packets:
            broadcast = self.broadcasts.get(row.message)
            return broadcast if broadcast and broadcast.process != row.process else None
        return self.sources.get(place(row))

    @cached_property
    def packets(self) -> Counter[str]:
        """How many were sent of each kind."""
        return Counter(str(row.packet_kind) for row in self.run.rows if row.kind == "send")

    @cached_property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.run.histories.values()))

    def breath(self, row: Row) -> list[Row]:
        """What its process did in the same moment, in order."""
        rows = self.run.histories[row.process]
        at = bisect_right(rows, row.index, key=lambda one: one.index)

        def is_same(one: Row) -> bool:
            return (one.time_ns, one.incarnation) == (row.time_ns, row.incarnation)

        earlier = [*takewhile(is_same, reversed(rows[:at]))]
        return [*reversed(earlier), *takewhile(is_same, rows[at:])]

    # --- one order for all

    @cached_property
    def order(self) -> list[Row]:
        """Every row after all that came before it; beyond that, as the clock has it.

        A broken trace may hold a circle, which has no such order: there the clock decides alone.
        """
        rest = {process: iter(rows) for process, rows in self.run.histories.items()}
        heads = {process: next(rows) for process, rows in rest.items()}
        rank = {process: position for position, process in enumerate(self.processes)}
        done: set[Place] = set()
        order: list[Row] = []

        def at_its_turn(row: Row) -> tuple[int, bool, bool, int]:
            # Others may greet a newcomer in the moment in which it comes; it comes first. And
            # who has begun to do something finishes it.
            comes = row.kind in ("recover", "join")
            goes_on = bool(order) and order[-1].process == row.process
            return (row.time_ns, not comes, not goes_on, rank[row.process])

        while heads:
            free = [
                row
                for row in heads.values()
                if (source := self.source(row)) is None or place(source) in done
            ]
            row = min(free or heads.values(), key=at_its_turn)
            order.append(row)
            done.add(place(row))
            following = next(rest[row.process], None)
            if following is None:
                del heads[row.process]
            else:
                heads[row.process] = following
        return order

    @cached_property
    def position(self) -> dict[Place, int]:
        return {place(row): position for position, row in enumerate(self.order)}

    # --- pasts

    def past(self, places: Iterable[Place]) -> Frontier:
        """These events and everything that came before any of them."""
        frontier: dict[str, int] = {}
        todo = list(places)
        while todo:
            last = todo.pop()
            known = frontier.get(last.process, -1)
            if last.index > known:
                frontier[last.process] = last.index
                rows = self.run.histories.get(last.process, ())
                start, end = (
                    bisect_right(rows, index, key=lambda row: row.index)
                    for index in (known, last.index)
                )
                todo += [place(source) for row in rows[start:end] if (source := self.source(row))]
        return frontier

    def missing_cause(self, process: str, message: MessageId) -> MessageId | None:
        """The first message that comes before this one and that the process did not deliver."""
        histories = self.run.histories
        delivered = {row.message for row in histories.get(process, ()) if row.kind == "deliver"}
        of_origin = [
            row.message
            for row in histories.get(message.origin, ())
            if row.kind in ("broadcast", "deliver")
        ]
        for earlier in takewhile(lambda one: one != message, of_origin):
            sent = self.broadcasts.get(earlier)
            addressees = self.run.manifest.views[sent.view or 0] if sent else ()
            if process in addressees and earlier not in delivered:
                return earlier
        return None

    # --- what became of a packet

    @cached_property
    def lost(self) -> list[Row]:
        """The sends whose packets never arrived, in order."""
        return [row for row in self.order if row.kind == "send" and not self.arrivals[place(row)]]

    def is_on_its_way(self, sent: Row) -> bool:
        """Whether nothing kept a packet from arriving but the end of the trace."""
        return not self.arrivals[place(sent)] and self.loss(sent) == ON_ITS_WAY

    def loss(self, sent: Row) -> str:
        """Why a packet never arrived, in words that follow the packet."""
        sender, receiver = sent.process, str(sent.peer)
        position = self.position[place(sent)]
        if known := self._recorded_losses.get((sender, receiver, sent.packet)):
            return known
        if self.is_down(receiver, position):
            return f"{receiver} had crashed"
        crashed = [
            name
            for name in (sender, receiver)
            if any(down and when >= position for when, down in self._turns.get(name, ()))
        ]
        if crashed:
            lost, manifest = lost_with(*crashed), self.run.manifest
            # Such links lose nothing of which the schedule does not tell.
            links = manifest.plan.get("links") if manifest.clock == "simulated" else "real"
            return lost if links in (None, "retrying") else f"lost on the way, or {lost}"
        return "lost on the way" if self.has_settled else ON_ITS_WAY

    @cached_property
    def _recorded_losses(self) -> dict[tuple[str, str, object], str]:
        return {
            packet: lost_with(crashed) if crashed else "lost on the way"
            for packet, crashed in losses(self.run.manifest)
        }

    @cached_property
    def has_settled(self) -> bool:
        return any(rows and rows[-1].kind == "settle" for rows in self.run.histories.values())

    def has_crashed(self, process: str) -> bool:
        """Whether it was down at the end."""
        return self.is_down(process, len(self.order))

    @cached_property
    def _turns(self) -> dict[str, list[tuple[int, bool]]]:
        """When each process went down or came up, as positions in the order."""
        turns: dict[str, list[tuple[int, bool]]] = {name: [] for name in self.processes}
        for position, row in enumerate(self.order):
            if row.kind in ("crash", "recover"):
                turns[row.process].append((position, row.kind == "crash"))
        for row in self.kills:
            turns[row.process].append((self.position[place(row)], True))
        for process, fate in self.run.manifest.fates.items():
            if fate == "crashed" and not self.run.histories.get(process):
                turns[process].append((-1, True))
        return {process: sorted(of_process) for process, of_process in turns.items()}

    @cached_property
    def kills(self) -> list[Row]:
        """The last row of each life that ended without a last word."""
        return [last for last, _ in self.ends if last.kind != "crash"]

    @cached_property
    def ends(self) -> list[tuple[Row, Row | None]]:
        """Where processes went down: the last row of such a life, and the first of the next."""
        fates = self.run.manifest.fates
        ends: list[tuple[Row, Row | None]] = []
        for process, rows in self.run.histories.items():
            ends += [pair for pair in pairwise(rows) if pair[1].kind == "recover"]
            last = rows[-1]
            is_over = last.kind in ("leave", "settle")
            if last.kind == "crash" or (fates.get(process) == "crashed" and not is_over):
                ends.append((last, None))
        return sorted(ends, key=lambda end: end[0].time_ns)

    def is_down(self, process: str, position: int) -> bool:
        """Whether it was down at a position of the order."""
        turns = reversed(self._turns.get(process, ()))
        return next((down for when, down in turns if when < position), False)

    def about(self, message: MessageId) -> Iterator[Row]:
        """Every row that names the message, in order."""
        return (row for row in self.order if row.origin and row.message == message)


def lost_with(*crashed: str) -> str:
    return f"lost with {' and '.join(crashed)}, who crashed"


def is_in(row: Row, frontier: Frontier) -> bool:
    return row.index <= frontier.get(row.process, -1)
