"""Random little protocols, most of them nonsense: what is true of exploring is true of these too.

A protocol is a table: in this state, on this event, go to that state and do these things. It has
a few states, three kinds of packets, a timer, dice, and a limited strength to speak, so that its
runs end.
"""

import random
from typing import Any

from tidings.core import (
    Accept,
    Broadcast,
    Deliver,
    Effect,
    Event,
    Message,
    MessageId,
    Packet,
    Process,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Timeout,
    take_first,
)
from tidings.explore import Scope

STATES = 4
KINDS = ("red", "green", "blue")


class Red(Packet, frozen=True, tag="red"):
    id: MessageId
    text: bytes


class Green(Red, frozen=True, tag="green"):
    pass


class Blue(Red, frozen=True, tag="blue"):
    pass


PACKETS = {"red": Red, "green": Green, "blue": Blue}

Action = tuple[str, ...]
Row = list[tuple[int, list[Action]]]
"""What may be drawn on an event: each with the next state and what is done."""


class RandomProtocol(Process):
    """Does what its table says. Subclasses have a table."""

    table: dict[tuple[int, str], Row]
    strength: int
    is_indifferent: bool
    delivers_once: bool

    def __init__(self, me: str, members: tuple[str, ...], choose: Any = take_first) -> None:
        super().__init__(me, members, choose)
        self.phase = 0
        self.seq = 0
        self.left = self.strength
        self.delivered: set[MessageId] = set()
        self.last: Message | None = None

    @property
    def indifferent(self) -> bool:
        return self.is_indifferent

    def step(self, event: Event) -> list[Effect]:
        row = self.table.get((self.phase, self._name_of(event)), [])
        if not row:
            return [Refuse("not now")] if isinstance(event, Broadcast) else []
        drawn = self.choose("row", (1,) * len(row)) if len(row) > 1 else 0
        self.phase, actions = row[drawn]
        effects: list[Effect] = []
        if isinstance(event, Broadcast):
            if ("refuse",) in actions:
                return [Refuse("not now")]
            self.seq += 1
            self.last = Message(self.me, self.seq, event.texts[0])
            effects.append(Accept((self.last.id,)))
        elif isinstance(event, Receive):
            self.last = Message(*event.packet.id, event.packet.text)
        for action in actions:
            effects += self._do(action, event)
        return effects

    def _name_of(self, event: Event) -> str:
        match event:
            case Broadcast():
                return "broadcast"
            case Timeout():
                return "timeout"
            case Receive(sender, packet):
                side = "" if self.is_indifferent else "<" if sender < self.me else ">"
                return packet.kind + side
        return "nothing"

    def _do(self, action: Action, event: Event) -> list[Effect]:
        if self.last is None:
            return []
        match action:
            case ("deliver",):
                if self.delivers_once and self.last.id in self.delivered:
                    return []
                self.delivered.add(self.last.id)
                return [Deliver((self.last,))]
            case ("timer",) if self.left:
                self.left -= 1
                return [SetTimer("tick", 1.0)]
            case ("send", kind, where) if self.left:
                self.left -= 1
                to = {
                    "others": self.others,
                    "back": (event.sender,) if isinstance(event, Receive) else self.others,
                    "first": self.members[:1],
                    "all": self.members,
                }[where]
                return [Send(to, PACKETS[kind](self.last.id, self.last.text))] if to else []
        return []


def random_protocol(seed: int) -> tuple[type[RandomProtocol], Scope]:
    """A protocol and a scope that fits it."""
    dice = random.Random(seed)
    is_indifferent = dice.random() < 0.5
    has_timers, draws, talks_to_itself = (dice.random() < share for share in (0.4, 0.4, 0.2))
    sides = ("",) if is_indifferent else ("<", ">")
    wheres = ["others", "others", "back"] + ([] if is_indifferent else ["first"])
    wheres += ["all"] if talks_to_itself else []
    events = ["broadcast", *(kind + side for kind in KINDS for side in sides)]
    events += ["timeout"] if has_timers else []

    def actions(event: str) -> list[Action]:
        chosen: list[Action] = []
        for _ in range(dice.randrange(3)):
            one = dice.random()
            if one < 0.4:
                chosen.append(("deliver",))
            elif one < 0.9 or not has_timers:
                chosen.append(("send", dice.choice(KINDS), dice.choice(wheres)))
            else:
                chosen.append(("timer",))
        if event == "broadcast":
            chosen.append(("send", dice.choice(KINDS), "others"))
            if dice.random() < 0.1:
                chosen.append(("refuse",))
        return chosen

    def row(event: str, state: int) -> Row:
        if event != "broadcast" and dice.random() < 0.4:
            return [(state, [])]
        ways = 2 if draws and dice.random() < 0.15 else 1
        return [(dice.randrange(STATES), actions(event)) for _ in range(ways)]

    class Drawn(RandomProtocol):
        pass

    Drawn.is_indifferent = is_indifferent
    Drawn.delivers_once = dice.random() < 0.8
    Drawn.strength = dice.choice((1, 2, 2, 3))
    Drawn.table = {(state, event): row(event, state) for state in range(STATES) for event in events}
    processes = dice.choice((2, 3, 3))
    scope = Scope(
        protocol="random",
        processes=processes,
        broadcasts=dice.choice((1, 1, 2)),
        crashes=int(processes == 3 and dice.random() < 0.5),
        duplicates=int(dice.random() < 0.2),
    )
    return Drawn, scope
