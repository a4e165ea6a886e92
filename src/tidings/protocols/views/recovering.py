"""How a member comes back with what it wrote down, and what of that has to be kept.

Every view has its own records, in the words of frontier. Of views that are over and needed no
longer nothing is kept but that they were.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tidings.core import Checkpoint, Found, Message, MessageId, Replay, Start
from tidings.protocols.frontier import records as frontier
from tidings.protocols.frontier.log import Log
from tidings.protocols.views.beginning import cursors_of, ended, reread
from tidings.protocols.views.packets import View
from tidings.protocols.views.records import (
    HasState,
    InNumber,
    Promised,
    Record,
    Recovered,
    Removed,
    Voted,
    Written,
)
from tidings.protocols.views.standing import NOWHERE
from tidings.protocols.views.wrapping import Effects

if TYPE_CHECKING:
    from tidings.protocols.views.protocol import Views


def come_back(member: "Views", start: Start, recovered: Recovered, out: Effects) -> None:
    standing, last, removed = member.standing, recovered.last, recovered.removed
    installed = (recovered.installed[number] for number in sorted(recovered.installed))
    standing.chain = (*recovered.before, *installed, *(removed.views if removed else ()))
    standing.install(last.number)
    member.adopt(last.members)
    member.acceptor.promised, member.acceptor.vote = recovered.promise, recovered.vote
    member.processing.has_state = not recovered.before or recovered.state is not None
    member.processing.snapshot = dict(recovered.state.upto) if recovered.state else {}
    member.present.frontier = member.frontier_of(last.members)
    if removed is not None:
        standing.has_left = True
        if removed.complete:
            standing.install(last.number + 1)
    for view in recovered.live():
        records = InNumber(start.recovered or (), view.number)
        if standing.is_inside and view.number == member.number and not member.is_wedged:
            again = Start(start.incarnation, records, lossy=start.lossy)  # type: ignore[arg-type]
            member.present.step(again, member.choose, out)
        else:
            _have(member, view, start, records)
    member.processing.catch_up(member.choose, out)
    out[:] = [effect for effect in out if not isinstance(effect, Replay)]
    _replay(member, out)


def _have(member: "Views", view: View, start: Start, records: Iterable[frontier.Record]) -> None:
    """What an earlier life stored in a view in which this one counts nothing."""
    stored = member.frontier_of(view.members)
    stored.steps((Start(start.incarnation, founding=True, lossy=start.lossy),))
    reread(stored, records)
    if view.number == member.number:
        member.present.frontier = stored
    else:
        cut = dict(member.chain[view.number + 1].cut)
        member.formers.logs[view.number] = ended(stored.log, cut)


def _replay(member: "Views", out: Effects) -> None:
    """Hand over again what the application has not processed, in whatever view it was delivered."""
    before = member.standing.before(member.chain[member.number])
    after, upto = dict[str, int](), dict[str, int]()
    for log in reversed(_logs(member)):
        for origin, done in log.done().items():
            upto.setdefault(origin, log.delivered[origin])
            if origin not in after or done < log.delivered[origin]:
                after[origin] = done
    if after != upto:
        out.append(Replay(before | after, before | upto))


def _logs(member: "Views") -> list[Log]:
    """Of all views of which something is kept, in order."""
    logs = [log for _, log in sorted(member.formers.logs.items())]
    return [*logs, member.present.log] if member.standing.is_inside else logs


# --- what has to be kept

NEVER_AGAIN = sys.maxsize
"""Nobody will ask for a message of a member that is in no view of which anything is kept."""


def checkpoint(member: "Views") -> Checkpoint | None:
    standing, logs = member.standing, member.formers.logs
    if standing.number == NOWHERE:
        return None
    present = member.current.checkpoint()
    kept: list[Mapping[str, int]] = [log.forgotten for log in logs.values()]
    kept += [present.forgotten] if standing.is_inside else []
    forgotten = dict.fromkeys(standing.names(), NEVER_AGAIN)
    for one in kept:
        forgotten |= {origin: min(last, forgotten[origin]) for origin, last in one.items()}

    def of(view: View) -> Iterable[frontier.Record]:
        return cursors_of(logs[view.number]) if view.number in logs else present.records

    return Checkpoint(_so_far(member).records(of), forgotten)


def _so_far(member: "Views") -> Recovered:
    """What the disk says, but for the records of each view."""
    standing, acceptor, processing = member.standing, member.acceptor, member.processing
    first, number = standing.first.number, standing.number
    last = number if standing.is_inside else number - 1
    live = {*member.formers.logs, *([number] if standing.is_inside else [])}
    snapshot = tuple(sorted(MessageId(*one) for one in processing.snapshot.items()))
    return Recovered(
        before=standing.chain[:first],
        installed={view.number: view for view in standing.chain[first : last + 1]},
        dropped={one for one in range(first, last + 1) if one not in live},
        promised=Promised(number + 1, acceptor.promised) if acceptor.is_bound else None,
        voted=Voted(acceptor.vote) if acceptor.vote is not None else None,
        removed=Removed(standing.chain[last + 1 :], last < number) if standing.has_left else None,
        state=HasState(snapshot) if first and processing.has_state else None,
    )


def compacted(records: Sequence[Any]) -> tuple[Record, ...]:
    def of(view: View) -> Iterable[frontier.Record]:
        return frontier.compacted(tuple(InNumber(records, view.number)), view.members)

    return Recovered.of(records).records(of)


def messages_in(
    records: Iterable[Any], chain: tuple[View, ...], after: Mapping[str, int]
) -> Iterator[Found]:
    """The messages in these records, each once: in the view in which it was, or is, delivered.

    The first one of an origin in a view comes after the whole cut before it.
    """
    written = (record for record in records if isinstance(record, Written))
    for number, some in groupby(written, key=lambda record: record.number):
        inner = (record.record for record in some)
        if number >= len(chain):
            yield from _by_name(inner, after)
            continue
        cut = dict(chain[number].cut)
        ends = dict(chain[number + 1].cut) if number + 1 < len(chain) else {}
        everything = tuple(one for one in chain[number].cut if one.seq)
        for message, causes in frontier.messages_in(inner, chain[number].members, after):
            if message.seq <= ends.get(message.origin, message.seq):
                is_first = message.seq == cut.get(message.origin, 0) + 1
                yield message, (*causes, *everything) if is_first else causes


def _by_name(records: Iterable[frontier.Record], after: Mapping[str, int]) -> Iterator[Found]:
    """The same where nobody knows yet who was in the view: causes cannot be told."""
    for record in records:
        if isinstance(record, frontier.Stored):
            for one, text in zip(record.batch.ids(), record.batch.texts, strict=True):
                if one.seq > after.get(one.origin, 0):
                    yield Message(*one, text), ()
