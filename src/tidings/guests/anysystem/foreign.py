"""A class written for AnySystem or dslab-mp as one of our processes.

What needs a decision, and how it was taken:

- *Which message is it?* Such a process delivers a text and says no more, but a trace names
  messages by origin and number, and texts may repeat. ``texts=marked``: the n-th SEND of p1 says
  "p1#n hello" to the process, and the mark is taken off again on DELIVER. ``texts=plain``: the
  process gets the texts as they are. Then every packet carries, besides, the names of all texts
  that its sender has heard of; the k-th delivery of a text is the k-th broadcast of it that this
  process has heard of, and one delivery too many repeats the last. A text that nobody broadcast
  is delivered as a message of ``nobody``: No Creation is violated.
- *Who is who?* Both frameworks' test programs call the processes 0, 1, 2, and solutions rely on
  it. ``ids=numbers`` does so too; with ``ids=names`` they are called p1, p2, p3.
- *A message to oneself* is reliable and takes no time in those frameworks, but is received in a
  call of its own, and the model checker of AnySystem lets anything happen before. So it travels
  as a timer without delay: it is not lost, not doubled, and not counted as a packet.
- *Time* is not shared and not real: one millisecond for every event of this process, and the
  whole delay of each of its timers that ran out. Sums do not depend on the order of events. Even
  so a process with a clock is never twice in the same state: it cannot settle while a timer
  recurs, and there is little for the explorer to leave out. So only files that speak of time
  have one.
- *Chance* comes through ``choose`` (chance.py).
- Effects keep the order in which the handler asked for them. Seconds become milliseconds.
- Texts that are not UTF-8 are refused: such a process knows strings only.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Choose,
    Deliver,
    Effect,
    Event,
    Members,
    Message,
    MessageId,
    Packet,
    Process,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Start,
    Timeout,
    take_first,
)
from tidings.core.anything import deep_fingerprint
from tidings.core.state import measured, shown
from tidings.guests.anysystem import api, chance

Texts = Literal["marked", "plain"]
Ids = Literal["numbers", "names"]

NOBODY = "nobody"
EVENT_US = 1_000

_MARKED = re.compile(r"(\S{1,64})#([0-9]{1,18}) (.*)", re.DOTALL)

Heard = tuple[tuple[str, tuple[MessageId, ...]], ...]
"""Texts, and the names of the broadcasts of each, in the order in which one heard of them."""


class Parcel(Packet, frozen=True, tag="parcel"):
    """A message of that framework: its type, and its data as JSON."""

    label: str
    data: str
    heard: Heard | None = None
    """With plain texts: what the sender has heard of."""

    @property
    def kind(self) -> str:
        return self.label

    @property
    def about(self) -> MessageId | None:
        text = json.loads(self.data).get("text")
        if not isinstance(text, str):
            return None
        if self.heard is None:
            found = _unmarked(text)
            return found.id if found else None
        return dict(self.heard).get(text, (None,))[0]


def _unmarked(text: str) -> Message | None:
    found = _MARKED.fullmatch(text)
    return found and Message(found[1], int(found[2]), _bytes(found[3]))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class Foreign(Process):
    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        kind: type,
        clock: bool = True,
        texts: Texts = "marked",
        ids: Ids = "numbers",
        **options: Any,
    ) -> None:
        super().__init__(me, members, choose)
        numbers = map(str, range(len(members)))
        self.ids = dict(zip(members, members if ids == "names" else numbers, strict=True))
        self.seq = 0
        self.time_us = 0 if clock else None
        self.named = 0
        """How many unique names were given out."""
        self.strange = 0
        """How many texts were delivered that nobody broadcast."""
        self.timers: dict[str, int] = {}
        """The timers that are running, and their delays in microseconds."""
        self.to_itself: dict[str, Parcel] = {}
        """Messages to itself, by the timers that carry them."""
        self.heard: dict[str, tuple[MessageId, ...]] | None = {} if texts == "plain" else None
        self.delivered: dict[str, int] = {}
        """With plain texts: how often each was delivered here."""
        with chance.acting(self):
            self.process = kind(self.ids[me], list(self.ids.values()), **options)

    def step(self, event: Event) -> list[Effect]:
        self._let_pass(EVENT_US)
        return list(self._react(event))

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Start():
                yield from self._call("on_start")
            case Broadcast(texts):
                for text in texts:
                    yield from self._broadcast(text)
            case Receive(sender, Parcel() as parcel):
                yield from self._receive(sender, parcel)
            case Timeout(name) if name in self.to_itself:
                yield from self._receive(self.me, self.to_itself.pop(name))
            case Timeout(name):
                self._let_pass(self.timers.pop(name))
                yield from self._call("on_timer", name)

    def _broadcast(self, text: bytes) -> Iterator[Effect]:
        try:
            spoken = text.decode()
        except UnicodeDecodeError:
            yield Refuse("a process of AnySystem or dslab-mp takes UTF-8 texts only")
            return
        self.seq += 1
        message = MessageId(self.me, self.seq)
        yield Accept((message,))
        if self.heard is None:
            spoken = f"{message} {spoken}"
        else:
            self._hear(((spoken, (message,)),))
        yield from self._call("on_local_message", api.AnySystemMessage("SEND", {"text": spoken}))

    def _receive(self, sender: str, parcel: Parcel) -> Iterator[Effect]:
        self._hear(parcel.heard or ())
        message = api.AnySystemMessage.from_json(parcel.label, parcel.data)
        yield from self._call("on_message", message, self.ids[sender])

    def _hear(self, heard: Heard) -> None:
        for text, names in heard:
            assert self.heard is not None, f"{self.me} has marked texts and hears of {names}"
            known = self.heard.get(text, ())
            self.heard[text] = known + tuple(name for name in names if name not in known)

    # --- what the handlers ask for

    def _call(self, handler: str, *about: Any) -> Iterator[Effect]:
        call = getattr(self.process, handler, None)
        if call is None:
            return
        ctx = api.Context(self.time_s(), self.ids.values())
        with chance.acting(self):
            call(*about, ctx)
        for asked in ctx._close():
            yield from self._do(asked)

    def _do(self, asked: api.Asked) -> Iterator[Effect]:
        match asked:
            case api.AskedSend(kind, data, to):
                heard = None if self.heard is None else tuple(self.heard.items())
                yield from self._send(Parcel(kind, data, heard), to)
            case api.AskedDelivery(text):
                yield Deliver((self._delivered(text),))
            case api.TimerSet(name, delay_s, once):
                if not (once and name in self.timers):
                    self.timers[name] = round(delay_s * 1e6)
                    yield SetTimer(name, delay_s * 1e3)
            case api.TimerCancelled(name):
                if self.timers.pop(name, None) is not None:
                    yield CancelTimer(name)

    def _send(self, parcel: Parcel, to: str) -> Iterator[Effect]:
        if to == self.ids[self.me]:
            # Numbers are used again, so that the same state has the same names.
            timers = (f"{api.ITSELF}{number}" for number in range(1, len(self.to_itself) + 2))
            timer = next(name for name in timers if name not in self.to_itself)
            self.to_itself[timer] = parcel
            yield SetTimer(timer, 0.0)
        else:
            yield Send(tuple(member for member, its_id in self.ids.items() if its_id == to), parcel)

    def _delivered(self, text: str) -> Message:
        if self.heard is None:
            return _unmarked(text) or self._invented(text)
        names = self.heard.get(text, ())
        before = self.delivered[text] = self.delivered.get(text, 0) + 1
        return (
            Message(*names[min(before, len(names)) - 1], _bytes(text))
            if names
            else self._invented(text)
        )

    def _invented(self, text: str) -> Message:
        self.strange += 1
        return Message(NOBODY, self.strange, _bytes(text))

    # --- chance and time

    def draw(self, size: int) -> int:
        return self.choose("random", (1,) * size)

    def _let_pass(self, duration_us: int) -> None:
        if self.time_us is not None:
            self.time_us += duration_us

    def time_s(self) -> float | None:
        return None if self.time_us is None else self.time_us / 1e6

    def unique(self) -> str:
        self.named += 1
        return f"{self.me} {self.named}"

    # --- state

    def fingerprint(self) -> bytes:
        return deep_fingerprint(self.state())

    def describe(self) -> dict[str, Any]:
        """The attributes of the process itself, as its author knows them, and its timers."""
        attributes = shown(getattr(self.process, "__dict__", {}))
        return {**attributes, "timers": sorted((*self.timers, *self.to_itself))}

    def kept(self) -> dict[str, int]:
        return measured(self.process)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and self.fingerprint() == other.fingerprint()

    __hash__ = None
