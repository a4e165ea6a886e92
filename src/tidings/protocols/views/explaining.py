"""Why a message waits, or a view: in words, from the state alone."""

from typing import TYPE_CHECKING, Any

from tidings.core import Members, MessageId
from tidings.protocols.views.packets import NO_BALLOT
from tidings.protocols.views.standing import NOWHERE

if TYPE_CHECKING:
    from tidings.protocols.views.protocol import Views


def why(member: "Views", message: MessageId) -> str:
    me, standing = member.me, member.standing
    if standing.number == NOWHERE:
        return f"{me} is not in the group yet"
    if message.origin not in member.members and (gone := _why_gone(member, message)):
        return gone
    log = member.present.log
    if standing.is_inside and member.is_wedged and log.delivered[message.origin] < message.seq:
        return f"{message} waits at {me} for view {standing.number + 1}; {_what_is_missing(member)}"
    if standing.has_left:
        return standing.farewell()
    return member.current.why(message)


def _why_gone(member: "Views", message: MessageId) -> str:
    """Of an origin that is in this view no more; empty if it never was in one."""
    views = [view for view in member.chain[: member.number + 1] if message.origin in view.members]
    if not views:
        return ""
    number = views[-1].number + 1
    if message.seq > dict(member.chain[number].cut)[message.origin]:
        return f"{message} is void: {message.origin} was removed in view {number} before it"
    if number <= member.standing.first.number:
        return f"{message} was delivered before {member.me} came"
    return f"{member.me} has delivered {message}"


def missing(member: "Views") -> Members:
    """Whom this member waits for on the way to the next view."""
    proposer, gathering = member.proposer, member.gathering
    if not (member.is_wedged or proposer.canvassing) or not member.standing.is_member:
        return ()
    if gathering.missing():
        return tuple(sorted(gathering.asked - {member.me}))
    if member.standing.following is not None:
        return ()
    if proposer.canvassing or proposer.ballot != NO_BALLOT:
        heard = (
            proposer.ready.keys()
            if proposer.canvassing
            else (proposer.accepted if proposer.is_sent else proposer.promises.keys())
        )
        return tuple(one for one in member.others if one not in heard)
    return (member.acceptor.promised.proposer,)


def _what_is_missing(member: "Views") -> str:
    names = ", ".join(missing(member)) or "nobody"
    if origins := member.gathering.missing():
        return f"it lacks messages of {', '.join(origins)}, and has asked {names}"
    return f"it has yet to hear from {names}"


def why_not(member: "Views", count: int) -> str:
    """Why so many messages cannot be broadcast now."""
    standing, me = member.standing, member.me
    if standing.number == NOWHERE:
        return f"{me} is not in the group yet"
    if standing.has_left:
        return standing.farewell()
    if member.is_wedged:
        return f"the group is about to install view {standing.number + 1}"
    log, former = member.present.log, member.formers.kept()
    kept = former + sum(log.held.values()) - sum(log.forgotten.values())
    if former and kept + count > member.options["log_limit"]:
        return f"the log of {me} is full: it keeps {kept} messages for {member.kept_for()}"
    return member.current.why_not(count)


def described(member: "Views") -> dict[str, Any]:
    """Which view is installed, who is missing for the next, and what messages wait for."""
    standing = member.standing
    view = str(member.chain[standing.number]) if standing.number != NOWHERE else "none yet"
    log = member.present.log
    following = [MessageId(origin, count + 1) for origin, count in log.delivered.items()]
    waiting = [one for one in following if one.seq <= log.held[one.origin]]
    return {
        "view": view,
        "missing": list(missing(member)),
        "waiting": [why(member, one) for one in waiting],
    }
