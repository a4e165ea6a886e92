"""Why a message waits here, in words, from the state alone."""

from collections.abc import Iterable

from tidings.core import MessageId
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import NOTHING
from tidings.protocols.frontier.peers import Peers


def why(message: MessageId, log: Log, knowledge: Knowledge, peers: Peers) -> str:
    me, (origin, seq) = log.me, message
    if origin not in log.held:
        return f"{origin} is not a member"
    if seq < 1:
        return f"there is no {message}: numbers begin with 1"
    if seq <= log.delivered[origin]:
        return f"{me} has delivered {message}"
    if seq > log.held[origin]:
        return _why_not_held(message, log, knowledge, peers)
    reasons = []
    if seq > knowledge.safe[origin]:
        holders = [me, *_holders(message, knowledge)]
        counted = {*holders, *peers.refused}
        rest = [member for member in log.members if member not in counted]
        missing = knowledge.quorum - len(holders)
        reasons.append(f"{missing} more of {_named(rest)} to be known to hold it")
    if seq > log.delivered[origin] + 1:
        reasons.append(f"{MessageId(origin, seq - 1)} to be delivered first")
    causes = log.missing_causes(log.causes[origin].get(seq, NOTHING))
    reasons += [f"its cause {cause}" for cause in causes]
    return f"{message} waits at {me} for " + ", and for ".join(reasons)


def _why_not_held(message: MessageId, log: Log, knowledge: Knowledge, peers: Peers) -> str:
    me, (origin, seq) = log.me, message
    if seq in log.early[origin]:
        first = MessageId(origin, log.held[origin] + 1)
        return f"{message} waits at {me} for {first} to arrive first"
    holders = set(_holders(message, knowledge))
    within_reach = holders - peers.unavailable()
    if within_reach:
        who = f"{_named(within_reach)} could supply it"
    elif holders:
        who = f"{_named(holders)} could, but cannot be reached"
    else:
        who = "nobody is known to hold it"
    return f"{me} does not hold {message}; {who}"


def _holders(message: MessageId, knowledge: Knowledge) -> list[str]:
    origin, seq = message
    return [peer for peer in knowledge.others if knowledge.held_by(peer, origin) >= seq]


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
