"""Which mutants of the node ``tidings conform`` rejects, and which it cannot see.

A mutant here makes a member do what its process would not have done. ``REJECTED`` says what conform
complains about; ``UNSEEN`` says of each mutant of mutants.py that it passes why that is so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

import mutants
from tidings.core import (
    CancelTimer,
    Choose,
    Deliver,
    Effect,
    EnvironmentMissing,
    Event,
    Message,
    Persist,
    Process,
    Receive,
    Send,
    Timeout,
    each_message,
)
from tidings.node import tracing
from tidings.node.config import Config
from tidings.node.engine import Engine
from tidings.node.log import DurableLog
from tidings.node.tick import Tick
from tidings.node.tracing import Tracer
from tidings.node.transport import Transport
from tidings.node.wire import Came
from tidings.protocols.frontier.flawed import QuorumOfF

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
WRONG = "p2"
"""The member that goes wrong, the others being as they should."""


def performing(patch: Patch, change: Callable[[list[Effect]], list[Effect]]) -> None:
    """The engine performs other effects than its process asked for."""
    begin = Engine.__init__

    def made(engine: Engine, process: Process, *what: Any, **more: Any) -> None:
        steps = process.steps
        if process.me == WRONG:
            process.steps = lambda events: change(steps(events))  # type: ignore[method-assign]
        begin(engine, process, *what, **more)

    patch.setattr(Engine, "__init__", made)


def first_of(effects: Sequence[Effect], kind: type) -> int | None:
    return next((at for at, one in enumerate(effects) if isinstance(one, kind)), None)


def without(kind: type) -> Callable[[list[Effect]], list[Effect]]:
    return lambda effects: [one for one in effects if not isinstance(one, kind)]


# --- effects


def send_dropped(patch: Patch) -> None:
    performing(patch, without(Send))


def delivery_dropped(patch: Patch) -> None:
    performing(patch, without(Deliver))


def two_effects_reordered(patch: Patch) -> None:
    """What is delivered with a packet to send is sent first."""

    def change(effects: list[Effect]) -> list[Effect]:
        send, deliver = first_of(effects, Send), first_of(effects, Deliver)
        if send is not None and deliver is not None:
            effects[send], effects[deliver] = effects[deliver], effects[send]
        return effects

    performing(patch, change)


def delivered_twice(patch: Patch) -> None:
    def change(effects: list[Effect]) -> list[Effect]:
        at = first_of(effects, Deliver)
        return effects if at is None else [*effects, effects[at]]

    performing(patch, change)


def text_changed(patch: Patch) -> None:
    """What is delivered has another text than what was broadcast."""

    def change(effects: list[Effect]) -> list[Effect]:
        return [
            Deliver(tuple(Message(*message.id, b"other") for message in each_message(one.messages)))
            if isinstance(one, Deliver)
            else one
            for one in effects
        ]

    performing(patch, change)


def record_skipped(patch: Patch) -> None:
    """The engine forgets the last record of every tick."""
    persist = Engine._persist

    def forgetful(engine: Engine, effect: Persist, tick: Tick) -> None:
        persist(engine, Persist(effect.records[:-1]), tick)

    patch.setattr(Engine, "_persist", forgetful)


def another_protocol(patch: Patch) -> None:
    """The member runs something else than its manifest says."""
    process = Config.process

    def flawed(config: Config, name: str, choose: Choose) -> Process:
        if name != WRONG:
            return process(config, name, choose)
        return QuorumOfF(name, config.members, choose, **config.process_options())

    patch.setattr(Config, "process", flawed)


# --- events


def packet_handed_twice(patch: Patch) -> None:
    step = Engine._step

    def twice(engine: Engine, events: Iterable[Event], tick: Tick) -> None:
        step(engine, (one for one in events for _ in range(1 + isinstance(one, Receive))), tick)

    patch.setattr(Engine, "_step", twice)


def packet_heard_twice(patch: Patch) -> None:
    """The same, and the trace says so."""
    coming(patch, lambda packets: (one for one in packets for _ in range(2)))


def packet_lost(patch: Patch) -> None:
    """In the middle of a connection."""
    losing(patch, 3)


def first_packet_lost(patch: Patch) -> None:
    losing(patch, 1)


def losing(patch: Patch, which: int) -> None:
    seen = [0]

    def without_it(packets: Iterator[Came]) -> Iterator[Came]:
        for one in packets:
            seen[0] += 1
            if seen[0] != which:
                yield one

    coming(patch, without_it)


def packet_changed(patch: Patch) -> None:
    """Under the number of one packet comes another, which came before."""
    seen: list[Came] = []

    def fourth_changed(packets: Iterator[Came]) -> Iterator[Came]:
        for one in packets:
            seen.append(one)
            yield Came(one.number, *seen[0][1:]) if len(seen) == 4 else one

    coming(patch, fourth_changed)


def coming(patch: Patch, change: Callable[[Iterator[Came]], Iterator[Came]]) -> None:
    """What comes from p1 is changed on the way to its process."""
    received = Engine.received

    def changed(engine: Engine, peer: str, packets: Iterator[Came]) -> None:
        is_wrong = (peer, engine.me) == ("p1", WRONG)
        received(engine, peer, change(packets) if is_wrong else packets)

    patch.setattr(Engine, "received", changed)


def cancelled_timer_rings(patch: Patch) -> None:
    cancel = Engine._cancel_timer

    def wrong(engine: Engine, effect: Any, tick: Tick) -> None:
        cancel(engine, effect, tick)
        if isinstance(effect, CancelTimer):
            engine.post(Timeout(effect.name))

    patch.setattr(Engine, "_cancel_timer", wrong)


# --- numbers, and what lasts


def number_given_twice(patch: Patch) -> None:
    number = Transport.number

    def repeated(transport: Transport, peer: str, count: int) -> int:
        first = number(transport, peer, count)
        if transport.me == WRONG and transport.peers[peer].sent % 5 == 0:
            transport.peers[peer].sent -= 1
        return first

    patch.setattr(Transport, "number", repeated)


def record_lost_by_the_disk(patch: Patch) -> None:
    commit = DurableLog.commit

    def lossy(log: DurableLog, records: tuple[Any, ...], *what: Any, **more: Any) -> None:
        kept = records[:-1] if log.about.member == WRONG and len(records) > 1 else records
        commit(log, kept, *what, **more)

    patch.setattr(DurableLog, "commit", lossy)


def comes_back_from_further_on(patch: Patch) -> None:
    """A member takes more for delivered than it has delivered."""
    resume = tracing.resume

    def boasting(config: Config, name: str, *what: Any) -> Tracer:
        *rest, standing = what
        more = {origin: count + 1 for origin, count in standing.delivered.items()}
        standing = standing._replace(delivered=more) if name == WRONG else standing
        return resume(config, name, *rest, standing)

    patch.setattr(tracing, "resume", boasting)


def sent_and_then_dead(patch: Patch) -> None:
    """Packets leave before the trace is written, and the member dies in between."""
    finish = Engine._finish

    def dying(engine: Engine, ticks: Sequence[Tick]) -> bool:
        frames = [frame for tick in ticks for frame in tick.frames]
        if engine.me == WRONG and engine.ticks > 5 and frames:
            for frame in frames:
                engine.transport.send(*frame)
            raise EnvironmentMissing("the member dies here")
        return finish(engine, ticks)

    patch.setattr(Engine, "_finish", dying)


class Rejected(NamedTuple):
    words: str
    """What conform says of some member."""
    lives: int = 1
    """How often the members have to come back for it to show."""
    settings: tuple[str, ...] = ()


ROWS = "its rows tell something else"

REJECTED: dict[Mutant, Rejected] = {
    send_dropped: Rejected(ROWS),
    delivery_dropped: Rejected(ROWS),
    two_effects_reordered: Rejected(ROWS),
    delivered_twice: Rejected(ROWS),
    text_changed: Rejected(ROWS),
    another_protocol: Rejected(ROWS),
    packet_handed_twice: Rejected(ROWS),
    packet_heard_twice: Rejected("where packet"),
    packet_lost: Rejected("where packet"),
    first_packet_lost: Rejected("had sent earlier ones after the link came up"),
    packet_changed: Rejected("with other bytes than"),
    cancelled_timer_rings: Rejected("ran out, and is not set", 1, ('options.mode = "origin"',)),
    number_given_twice: Rejected("where packet"),
    record_skipped: Rejected("the records that it gave to its disk are others"),
    record_lost_by_the_disk: Rejected("it finds on its disk what it did not write", 2),
    sent_and_then_dead: Rejected("never sent"),
    comes_back_from_further_on: Rejected("does not know how far it had come", 2),
}

_PROGRAM = "what the program is handed is no part of the trace"
_REFUSED = "whom to refuse, and when to hang up, its process does not decide"
_OLDER = "the member finds its log older than its trace, and does not come back"
_DISK = "the steps do not tell when bytes are on disk"

UNSEEN: dict[Mutant, str] = {
    mutants.forgotten_sync: _DISK,
    mutants.name_not_synced: _DISK,
    mutants.lock_not_acquired: _DISK,
    mutants.torn_end_left: "the reader cuts it off all the same, or refuses the log",
    mutants.damage_mistaken_for_a_torn_end: "only a damaged log shows it",
    mutants.failed_write_unnoticed: "only a full disk shows it, like record_lost_by_the_disk",
    mutants.needed_segment_deleted: "a log may begin with any of its segments",
    mutants.life_not_counted: "the second life is not recorded, so the verdict is unknown",
    mutants.delivered_cursor_not_written: _OLDER,
    mutants.reused_number: _OLDER,
    mutants.acknowledged_before_the_commit: "only a kill shows it; then the log is refused",
    mutants.sent_before_the_trace: "only a kill shows it: sent_and_then_dead",
    mutants.back_pressure_ignored: "how fast a member reads, its process does not decide",
    mutants.read_again_for_every_question: "every question is answered, as it should be",
    mutants.cut_off_when_leaving: "what is lost at the end of a connection may be lost",
    mutants.receipt_too_early: _PROGRAM,
    mutants.stable_when_delivered: _PROGRAM,
    mutants.replay_skipped: _PROGRAM,
    mutants.replay_not_marked: _PROGRAM,
    mutants.processed_cursor_not_written: _PROGRAM,
    mutants.second_reader_allowed: _PROGRAM,
    mutants.frame_limit_ignored: _REFUSED,
    mutants.hello_not_compared: _REFUSED,
    mutants.packet_not_checked: _REFUSED,
    mutants.resend_forgotten: "the transport refuses what comes after the missing packet",
    mutants.resent_accepted_twice: "no member of ours sends again what is known to have come",
    mutants.peer_obeyed: _REFUSED,
    mutants.living_link_replaced: _REFUSED,
}
