"""What happens in a world, in plain words."""

from collections.abc import Mapping, Sequence

from tidings.core import Halt, Packet, Refuse, Reject
from tidings.simulator import choices
from tidings.simulator.choices import Choice, PacketId
from tidings.simulator.world import InFlight, World
from tidings.trace import Row, digest


class Conversation:
    """Tells each choice and what came of it; knows the texts, of which rows keep only digests."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._timers: list[str] = []

    def note_timer(self, process: str, name: str, delay_ms: float) -> None:
        self._timers.append(f"{process} sets timer {name}, {delay_ms:g} ms")

    def answer(
        self,
        choice: Choice,
        rows: Sequence[Row],
        before: Mapping[PacketId, InFlight],
        world: World,
    ) -> list[str]:
        if isinstance(choice, choices.UserBroadcast):
            text = choice.text.decode("utf-8", "backslashreplace")
            self._texts[digest(choice.text)] = f'"{text}"'
        lines = [line for row in rows if (line := self._line(row))]
        lines += [_explanation(process, effect) for process, effect in world.explained]
        gone = [packet for packet in before if packet not in world.in_flight]
        if not isinstance(choice, choices.PacketArrival):
            lines += [f"lost: {_arrow(packet)}  {told(before[packet].content)}" for packet in gone]
        lines += self._timers
        self._timers.clear()
        return lines

    def _line(self, row: Row) -> str:
        match row.kind:
            case "send":
                return f"{row.process} -> {row.peer}  {_packet_of(row)}"
            case "receive":
                return f"{row.process} receives {_packet_of(row)} from {row.peer}"
            case "deliver":
                text = self._texts.get(str(row.digest), "with a text that nobody broadcast")
                return f"{row.process} delivers {row.message} {text}"
            case "crash":
                return f"{row.process} crashes"
            case "recover" | "settle":
                return f"{row.process} {row.kind}s"
            case "join" | "view":
                return f"{row.process} {row.kind}s view {row.view}"
        return ""


def _explanation(process: str, effect: Refuse | Reject | Halt) -> str:
    """One line, whatever the process has to say."""
    reason = " ".join(effect.reason.split())
    match effect:
        case Refuse():
            return f"{process} refuses the broadcast: {reason}"
        case Reject(peer):
            return f"{process} rejects {peer}: {reason}"
        case Halt():
            return f"{process} halts: {reason}"


def _arrow(packet: PacketId) -> str:
    return f"{packet.link.sender} -> {packet.link.receiver}"


def told(packet: Packet) -> str:
    return f"{packet.kind} {packet.about}" if packet.about else packet.kind


def _packet_of(row: Row) -> str:
    return f"{row.packet_kind} {row.message}" if row.origin else str(row.packet_kind)
