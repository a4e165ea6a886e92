"""From one view to the next: deliver exactly the cut, install the view, and tell the others.

A member that is removed delivers the cut, too, if it can, and leaves. What it holds is there until
those have got it that need it.
"""

from typing import TYPE_CHECKING

from tidings.core import Halt, Install, Leave, Members, Persist, Send, Start, ordered
from tidings.protocols.frontier.packets import REASONS
from tidings.protocols.views.packets import Behind, Decided, Missed, View, as_many_as_fit
from tidings.protocols.views.records import Installed, Preceded, Removed
from tidings.protocols.views.standing import NOWHERE
from tidings.protocols.views.wrapping import Effects

if TYPE_CHECKING:
    from tidings.protocols.views.protocol import Views

# --- what is decided


def tell(member: "Views", peer: str, number: int, out: Effects) -> None:
    """It knows of no view after this one. A peer that is not who it was is told nothing."""
    views = member.standing.chain[max(0, number + 1) :]
    if views and member.number != NOWHERE and peer not in member.current.peers.refused:
        _tell_of(member, views, (peer,), out)


def _tell_of(member: "Views", views: tuple[View, ...], to: Members, out: Effects) -> None:
    through, last = member.standing.through[member.me], views[-1].number
    out.append(
        Send(to, Decided(as_many_as_fit(views, member.tell, member.tell_bytes), through, last))
    )


def hear(member: "Views", sender: str, decided: Decided, out: Effects) -> None:
    standing, views = member.standing, decided.views
    standing.hear_through(sender, decided.through)
    standing.learn(views)
    is_for_me = standing.latest >= 0 or any(member.me in view.members for view in views[-1:])
    if decided.last > standing.latest and is_for_me:
        out.append(Send((sender,), Behind(standing.latest)))
    following = standing.following
    if following is not None and decided.through > member.number and not member.has_left:
        cut = dict(following.cut)
        member.gathering.want(cut, {sender: cut})
        member.gathering.ask(out)


def advance(member: "Views", out: Effects) -> bool:
    """Deliver exactly the cut, then install the next view; whether that was done."""
    if member.number == NOWHERE:
        return _enter(member, out)
    view = member.standing.following
    if view is None or member.has_left:
        return False
    member.close(out)
    cut = dict(view.cut)
    if cut.get(member.me, 0) > member.present.log.held[member.me]:
        out.append(Halt(REASONS["lost disk"].format(member.me)))
        return False
    if member.present.lacks(cut):
        through = member.standing.through.items()
        member.gathering.want(cut, {one: cut for one, last in through if last > member.number})
        member.gathering.ask(out)
        if member.me not in member.standing.chain[-1].members:
            _leave(member, out, complete=False)
        return False
    member.present.deliver_cut(cut, out)
    if member.me in view.members:
        _install(member, view, out)
    else:
        _leave(member, out, complete=True)
    return True


def _enter(member: "Views", out: Effects) -> bool:
    """A newcomer begins at the cut of the first view that it is in."""
    view = next((view for view in member.standing.chain if view.added == member.me), None)
    if view is None:
        return False
    if view.incarnation not in (0, member.incarnation):
        out.append(Halt(REASONS["lost disk"].format(member.me)))
        return False
    member.processing.has_state = False
    out.append(Persist((Preceded(member.standing.chain[: view.number]),)))
    _begin(member, view, out)
    _announce(member, view, view.members, out)
    _catch_up(member, out)
    return True


def _install(member: "Views", view: View, out: Effects) -> None:
    old = member.present.log
    member.formers.keep(member.number, old)
    _begin(member, view, out)
    # Members that were removed keep what one may need that is removed now.
    before = (one for log in member.formers.logs.values() for one in log.members)
    # One that waits for somebody who is removed now may have nobody else to hear it from.
    waiting = member.present.linked.intersection(member.standing.names())
    _announce(member, view, ordered((*before, *waiting, *view.members)), out)
    member.present.carry_over(old, dict(view.cut)[member.me], out)
    _catch_up(member, out)
    member.asking.ask_again(out)


def _begin(member: "Views", view: View, out: Effects) -> None:
    standing = member.standing
    standing.install(view.number)
    out.append(Persist((Installed(view),)))
    if view.incarnation and view.added != member.me:
        member.present.met[view.added] = view.incarnation
    start = Start(member.incarnation, founding=True, lossy=member.lossy)
    frontier = member.frontier_of(view.members)
    member.present.begin(frontier, standing.start(view), start, out)
    out.append(Install(view.members, view.number, standing.before(view)))
    member.adopt(frontier.members)


def _announce(member: "Views", view: View, everybody: Members, out: Effects) -> None:
    """A newcomer hears of all views before, too: which names were used, and who was there."""
    to = tuple(one for one in everybody if one not in (member.me, view.added))
    if to:
        _tell_of(member, (view,), to, out)
    if view.added not in ("", member.me):
        _tell_of(member, member.standing.chain[: view.number + 1], (view.added,), out)


def _catch_up(member: "Views", out: Effects) -> None:
    """What came too early for the view before, and what there was no room for."""
    for peer in member.ahead.to_exchange(member.number) if member.present.is_open else ():
        out.append(Send((peer,), Missed(member.number)))
        member.present.exchange_with(peer, member.choose, out)
    for one in member.ahead.take(member.chain):
        member.receive(one.sender, one.packet, out)


def _leave(member: "Views", out: Effects, *, complete: bool) -> None:
    """No member any more. What others may need is there until they have got it."""
    standing = member.standing
    standing.has_left = True
    member.asking.deny(standing.farewell(), out)
    later = standing.chain[member.number + 1 :]
    out += [
        Persist((Removed(later, complete),)),
        Leave(standing.farewell(), standing.removed_in),
    ]
    if complete:
        member.formers.keep(member.number, member.present.log)
        member.present.leave(member.frontier_of(member.members))
        standing.install(later[0].number)
        rest = [one for one in later[-1].members if one in member.members]
        behind = tuple(one for one in rest if standing.through_of(one) < member.number)
        _announce(member, later[0], behind, out)
    member.processing.end(out)
