"""What a log that counts nothing any more still does: others get from it what they lack.

That is the log of a member that is wedged, and of a view that is over.
"""

from collections.abc import Mapping, Sequence

from tidings.core import MessageId, Persist, Recall, Recalled, Send, Span
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Batch, Pull, Push
from tidings.protocols.frontier.records import ProcessedRecord
from tidings.protocols.views.packets import InView
from tidings.protocols.views.records import InNumber, Written
from tidings.protocols.views.wrapping import Effects


def answer(log: Log, number: int, asker: str, pull: Pull, out: Effects) -> None:
    for found in log.answers(pull.wanted):
        if isinstance(found, Span):
            out.append(Recall(asker, MessageId(found.origin, found.first), found.last))
        else:
            _push(number, asker, found, out)


def answer_recalled(log: Log, number: int, recalled: Recalled, out: Effects) -> None:
    span = Span(recalled.first.origin, recalled.first.seq, recalled.last)
    batches = log.recalled(span, InNumber(recalled.records, number))
    if batches:
        _push(number, recalled.peer, batches, out)


def _push(number: int, asker: str, batches: Sequence[Batch], out: Effects) -> None:
    out.append(Send((asker,), InView(number, Push(tuple(batches)))))


def process(log: Log, number: int, upto: Mapping[str, int], out: Effects) -> None:
    """The application is done with these, of whatever origins there are in the log."""
    if log.process({origin: last for origin, last in upto.items() if origin in log.held}):
        cursor = ProcessedRecord(log.vector(log.processed))
        out.append(Persist((Written(number, cursor),)))


def is_recalled_from(log: Log, recalled: Recalled) -> bool:
    """Whether these messages had left the memory of this log: views have none in common."""
    origin, first = recalled.first
    return origin in log.held and log.forgotten[origin] < first <= log.spilled.get(origin, 0)
