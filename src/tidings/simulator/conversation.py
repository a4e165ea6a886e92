"""What happens in a world, in plain words."""

from collections.abc import Mapping

from tidings.core import (
    Approve,
    CancelTimer,
    Deliver,
    Deny,
    Effect,
    Event,
    Halt,
    Leave,
    Packet,
    Persist,
    Rebind,
    Recall,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    SetTimer,
    Span,
    Stable,
    each_message,
    listed,
)
from tidings.simulator.choices import Choice, PacketArrival, PacketId
from tidings.simulator.world import InFlight, World
from tidings.trace import Row


class Conversation:
    """Describes each choice and what came of it, in the order in which it happened.

    What a process keeps to itself is indented: what it writes, reads back and hands over again, and
    what it knows to be stable.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._packet = Packet()

    def watch(self, process: str, seen: Event | Effect | Row) -> None:
        match seen:
            case Send(_, packet):
                self._packet = packet
            case Row(kind="send", peer=peer):
                self._lines.append(f"{process} -> {peer}  {self._packet}")
            case Row(kind="crash"):
                if self._lines and self._lines[-1].startswith(f"  {process} writes "):
                    self._lines[-1] = self._lines[-1].replace("writes", "fails to write", 1)
                self._lines.append(f"{process} crashes")
            case Deliver(messages):
                for message in each_message(messages):
                    text = message.text.decode("utf-8", "backslashreplace")
                    self._lines.append(f'{process} delivers {message.id} "{text}"')
            case _ if line := in_words(process, seen):
                self._lines.append(line)

    def answer(
        self, choice: Choice, before: Mapping[PacketId, InFlight], world: World
    ) -> list[str]:
        """What was seen since the last answer, and what of that in flight before was lost."""
        lines, self._lines = self._lines, []
        lost = [
            one for one in before if one not in world.in_flight and choice != PacketArrival(one)
        ]
        return lines + [f"lost: {_arrow(one)}  {before[one].content}" for one in lost]


def in_words(process: str, seen: Event | Effect | Row) -> str:
    """One line about what a process was handed, does or wants done; empty where none is needed."""
    match seen:
        case Receive(sender, packet):
            return f"{process} receives {packet} from {sender}"
        case Row(kind="recover" | "settle"):
            return f"{process} {seen.kind}s"
        case Row(kind="join"):
            return f"{process} joins view {seen.view}"
        case Row(kind="view"):
            return f"{process} installs view {seen.view}"
        case Rebind(ids):
            return f"{process} broadcasts {listed(*ids)} to this view instead"
        case SetTimer(name, delay_ms):
            return f"{process} sets timer {name}, {delay_ms:g} ms"
        case CancelTimer(name):
            return f"{process} cancels timer {name}"
        case Refuse(reason):
            return f"{process} refuses the broadcast: {_in_one_line(reason)}"
        case Approve(change):
            return f"{process} approves: {change}"
        case Deny(change, reason):
            return f"{process} denies {change}: {_in_one_line(reason)}"
        case Leave(reason):
            return f"{process} leaves: {_in_one_line(reason)}"
        case Reject(peer, reason):
            return f"{process} rejects {peer}: {_in_one_line(reason)}"
        case Halt(reason):
            return f"{process} halts: {_in_one_line(reason)}"
        case Persist(records):
            return f"  {process} writes {_in_one_line(listed(*records))}"
        case Recall(peer, first, last):
            return f"  {process} reads {Span(*first, last)} back for {peer}"
        case Replay(after, upto):
            again = (Span(one, after[one] + 1, last) for one, last in upto.items())
            return f"  {process} replays {listed(*again)}"
        case Stable(upto):
            counts = (f"{origin}<={count}" for origin, count in upto.items())
            return f"  {process} knows that all hold {listed(*counts)}"
    return ""


def _in_one_line(words: str) -> str:
    return " ".join(words.split())


def _arrow(packet: PacketId) -> str:
    return f"{packet.link.sender} -> {packet.link.receiver}"
