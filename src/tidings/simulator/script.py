"""The commands of scenario files: each line becomes choices, and the group answers.

docs/simulate.md lists the commands.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tidings.core import Change, Members, MessageId, Packet, UsageError, is_name, ordered
from tidings.guests import factory
from tidings.protocols import DEFAULT
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Link, PacketId
from tidings.simulator.conversation import Conversation
from tidings.simulator.play import recorded, until_quiet
from tidings.simulator.world import InFlight, Links, World, draw_first
from tidings.trace import Row, Run

_MS = 1_000_000


class Script:
    """A world that listens to commands. Every event takes one simulated millisecond."""

    def __init__(self, run: str) -> None:
        self.run_name = run
        self.members: Members = ()
        self.protocol = DEFAULT
        self.options: dict[str, Any] = {}
        self.links: Links = "retrying"
        self.forced: dict[tuple[str, str], list[int]] = {}
        self.time_ns = 0
        self.rows: list[Row] = []
        self._world: World | None = None
        self._conversation = Conversation()

    @property
    def world(self) -> World:
        if self._world is None:
            if not self.members:
                raise UsageError("say who is in the group first: group p1 p2 p3")
            self._world = World(
                run=self.run_name,
                members=self.members,
                factory=factory(self.protocol, self.options),
                links=self.links,
                draw=self._draw,
                watch=self._conversation.watch,
            )
        return self._world

    def command(self, line: str) -> list[str]:
        """Do what one line says, and answer as the group does."""
        words = line.split()
        if not words or words[0].startswith("#"):
            return []
        verb, _, rest = line.strip().partition(" ")
        if verb == "at":
            when, _, line = rest.partition(" ")
            if not line.strip():
                raise UsageError("write: at 20ms COMMAND")
            self.time_ns = max(self.time_ns, _time_ns(when) - _MS)
            return self.command(line)
        if verb in _SETTINGS:
            if self._world is not None:
                raise UsageError(f"{verb!r} comes before the first event")
            _SETTINGS[verb](self, rest)
            return []
        if verb not in _VERBS:
            known = ", ".join([*_SETTINGS, *_VERBS, "at"])
            raise UsageError(f"unknown command {verb!r}; known: {known}")
        return [line for choice in _VERBS[verb](self, rest) for line in self._apply(choice)]

    def run(self) -> Run:
        return recorded(self.world, self.rows, protocol=self.protocol, options=self.options)

    def _apply(self, choice: Choice) -> list[str]:
        in_flight = dict(self.world.in_flight)
        self.time_ns += _MS
        rows = self.world.apply(choice, self.time_ns)
        self.rows += rows
        return self._conversation.answer(choice, in_flight, self.world)

    def _draw(self, process: str, label: str, weights: Sequence[int]) -> int:
        if queue := self.forced.get((process, label)):
            drawn = queue.pop(0)
            if not 0 <= drawn < len(weights):
                raise UsageError(f"{process} chooses {label!r} among 0..{len(weights) - 1}")
            return drawn
        return draw_first(process, label, weights)

    # --- settings

    def _group(self, rest: str) -> None:
        for name in rest.split():
            if not is_name(name):
                raise UsageError(f"{name!r} is not a name")
        self.members = ordered(rest.split())
        if len(self.members) < len(rest.split()):
            raise UsageError("a name stands twice in the group")

    def _protocol(self, rest: str) -> None:
        self.protocol, self.options = protocol_of(rest)
        factory(self.protocol, self.options)

    def _links(self, rest: str) -> None:
        if rest not in ("retrying", "lossy"):
            raise UsageError(f"links are retrying or lossy, not {rest!r}")
        self.links = rest  # type: ignore[assignment]

    # --- events

    def _broadcast(self, rest: str) -> Iterator[Choice]:
        process, _, text = rest.partition(" ")
        if not process:
            raise UsageError("write: broadcast p1 any text")
        yield choices.UserBroadcast(process, text.encode())

    def _receive(self, rest: str) -> Iterator[Choice]:
        if rest == "all":
            while arriving := [
                c for c in self.world.choices() if isinstance(c, choices.PacketArrival)
            ]:
                yield arriving[0]
        else:
            yield choices.PacketArrival(self._packet(rest))

    def _duplicate(self, rest: str) -> Iterator[Choice]:
        yield choices.Duplicate(self._packet(rest))

    def _drop(self, rest: str) -> Iterator[Choice]:
        yield choices.Drop(self._packet(rest))

    def _timeout(self, rest: str) -> Iterator[Choice]:
        process, _, name = rest.partition(" ")
        yield choices.TimerExpiry(process, name)

    def _choose(self, rest: str) -> Iterator[Choice]:
        try:
            process, label, drawn = rest.split()
            self.forced.setdefault((process, label), []).append(int(drawn))
        except ValueError:
            raise UsageError("write: choose PROCESS LABEL POSITION") from None
        return iter(())

    def _crash(self, rest: str) -> Iterator[Choice]:
        if after := re.fullmatch(r"(\S+) after (\d+) sends?", rest):
            yield choices.Doom(after[1], int(after[2]))
            return
        if writing := re.fullmatch(r"(\S+) at write (\d+)", rest):
            yield choices.Doom(writing[1], 0, int(writing[2]))
            return
        process, _, fate = rest.partition(" ")
        mine = [packet for packet in self.world.in_flight if packet.link.sender == process]
        how, _, named = fate.partition(" ")
        if how not in ("", "losing", "keeping"):
            raise UsageError(
                "write: crash P [losing|keeping PACKET, ... | after N sends | at write N]"
            )
        chosen = [self._packet(one.strip()) for one in named.split(",") if one.strip()]
        lost = chosen if how == "losing" else [one for one in mine if one not in chosen]
        yield choices.Crash(process, tuple(lost))

    def _recover(self, rest: str) -> Iterator[Choice]:
        process, _, how = rest.partition(" ")
        if how not in ("", "without its disk", "from its backup"):
            raise UsageError(
                "write: recover p1, or: recover p1 without its disk, or: recover p1 from its backup"
            )
        yield choices.Recover(
            process, disk_lost=how == "without its disk", disk_old=how == "from its backup"
        )

    def _backup(self, rest: str) -> Iterator[Choice]:
        yield choices.Backup(rest)

    def _take(self, rest: str) -> Iterator[Choice]:
        process, *messages = rest.replace(",", " ").split() or [""]
        if not messages:
            raise UsageError("write: take p1 p2#4, p3#1")
        yield choices.UserProcessed(process, tuple(map(MessageId.parse, messages)))

    def _join(self, rest: str) -> Iterator[Choice]:
        process, _, contact = rest.partition(" via ")
        if not is_name(process) or not contact:
            raise UsageError("write: join p4 via p1")
        yield choices.Join(process, contact)

    def _change(self, rest: str) -> Iterator[Choice]:
        yield change_request(rest)

    def _cut(self, rest: str) -> Iterator[Choice]:
        if "|" in rest:
            one, other = (side.split() for side in rest.split("|", maxsplit=1))
            links = [Link(*pair) for a in one for b in other for pair in ((a, b), (b, a))]
        else:
            links = [_link(word) for word in rest.split()]
        if not links:
            raise UsageError("write: cut p1 p2 | p3, or: cut p1->p3")
        yield choices.Cut(tuple(links))

    def _heal(self, rest: str) -> Iterator[Choice]:
        _nothing_more("heal", rest)
        yield choices.Heal()

    def _settle(self, rest: str) -> Iterator[Choice]:
        _nothing_more("settle", rest)
        if self.world.cut:
            yield choices.Heal()
        yield from until_quiet(self.world)
        yield choices.Settle()

    def _packet(self, words: str) -> PacketId:
        """The oldest packet in flight on a link that fits: p1->p2 [kind] [message]."""
        first, *wanted = words.split() or [""]
        link = _link(first)
        for packet, found in self.world.in_flight.items():
            described = (found.content.kind, str(found.content.about))
            if packet.link == link and all(want in described for want in wanted):
                return packet
        raise UsageError(f"nothing in flight fits {words!r}")


_SETTINGS: dict[str, Callable[[Script, str], None]] = {
    "group": Script._group,
    "protocol": Script._protocol,
    "links": Script._links,
}

_VERBS: dict[str, Callable[[Script, str], Iterator[Choice]]] = {
    "broadcast": Script._broadcast,
    "receive": Script._receive,
    "duplicate": Script._duplicate,
    "drop": Script._drop,
    "timeout": Script._timeout,
    "choose": Script._choose,
    "crash": Script._crash,
    "recover": Script._recover,
    "backup": Script._backup,
    "take": Script._take,
    "join": Script._join,
    "change": Script._change,
    "cut": Script._cut,
    "heal": Script._heal,
    "settle": Script._settle,
}


def line_for(choice: Choice, in_flight: Mapping[PacketId, InFlight]) -> str:
    """The line that makes this choice; ``in_flight`` is what was in flight before it."""

    def packets(*which: PacketId) -> str:
        # Kind and message are enough to find it; what else is in it stands in the answer.
        named = ((one.link, Packet.__str__(in_flight[one].content)) for one in which)
        return ", ".join(f"{link} {name}" for link, name in named)

    match choice:
        case choices.UserBroadcast(process, text):
            return f"broadcast {process} {text.decode('utf-8', 'backslashreplace')}"
        case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
            return f"{choice.kind} {packets(packet)}"
        case choices.TimerExpiry(process, name):
            return f"timeout {process} {name}"
        case choices.Crash(process, lost):
            kept = [one for one in in_flight if one.link.sender == process and one not in lost]
            if lost and len(lost) < len(kept):
                return f"crash {process} losing {packets(*lost)}"
            return f"crash {process} keeping {packets(*kept)}" if kept else f"crash {process}"
        case choices.Doom(process, sends, writes):
            if writes:
                return f"crash {process} at write {writes}"
            return f"crash {process} after {sends} send{'s' if sends > 1 else ''}"
        case choices.Recover(process, disk_lost, disk_old):
            how = " without its disk" if disk_lost else " from its backup" if disk_old else ""
            return f"recover {process}{how}"
        case choices.Backup(process):
            return f"backup {process}"
        case choices.UserProcessed(process, upto):
            return f"take {process} {', '.join(map(str, upto))}"
        case choices.Join(process, contact):
            return f"join {process} via {contact}"
        case choices.ChangeRequest(process, add, remove):
            return f"change {process} {Change(add, remove)}"
        case choices.Cut(links):
            return f"cut {' '.join(map(str, links))}"
        case choices.Heal() | choices.Settle():
            return choice.kind
        case choices.Sample():
            return "# every process notes how much it keeps"


def _nothing_more(verb: str, rest: str) -> None:
    if rest:
        raise UsageError(f"{verb} stands alone, without {rest!r}")


def _link(words: str) -> Link:
    sender, arrow, receiver = words.partition("->")
    if not (sender and arrow and receiver):
        raise UsageError(f"{words!r} is not a link; write it as p1->p2")
    return Link(sender, receiver)


def _time_ns(word: str) -> int:
    if not (number := re.fullmatch(r"(\d+(?:\.\d+)?)ms", word)):
        raise UsageError(f"{word!r} is not a time; write it as 20ms")
    return round(float(number[1]) * _MS)


def change_request(words: str) -> choices.ChangeRequest:
    """What an operator asks of a member, as in ``p1 add p4 remove p3``."""
    process, *rest = words.split() or [""]
    pairs = dict(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or not pairs or not pairs.keys() <= {"add", "remove"}:
        raise UsageError("write a change as p1 add p4, p1 remove p3, or p1 add p4 remove p3")
    for name in pairs.values():
        if not is_name(name):
            raise UsageError(f"{name!r} is not a name")
    return choices.ChangeRequest(process, pairs.get("add", ""), pairs.get("remove", ""))


def protocol_of(words: str) -> tuple[str, dict[str, Any]]:
    """A protocol and its options, as in ``majority-relay notice=yes pull=yes``.

    Or a class in a file, whose name may have spaces: ``my file.py:MyProcess fast=yes``.
    """
    found = re.match(r"(.+?\.py(?::\w*)?)(?:\s+|$)", words)
    name, *pairs = [found[1], *words[found.end() :].split()] if found else words.split() or [""]
    options = {}
    for pair in pairs:
        option, mark, value = pair.partition("=")
        if not mark:
            raise UsageError(f"write options as name=value, not {pair!r}")
        options[option] = _value(value)
    return name, options


def _value(word: str) -> Any:
    """The value of an option: a number, yes or no, or a word."""
    if word in ("yes", "no"):
        return word == "yes"
    try:
        return int(word)
    except ValueError:
        return word
