"""One of our processes as a class of AnySystem or dslab-mp.

``tidings adapt`` writes a small module for their test programs; its class passes every call on to
a Guest. A packet travels as a message whose type is the tag of the packet's class and whose data
are its fields, in JSON; what the framework gives as a text is UTF-8 here. The receiver finds the
class by its tag. (A packet's kind is for people: one that wraps another has the kind of that one.)
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from tidings.core import (
    Broadcast,
    CancelTimer,
    Choose,
    Deliver,
    Effect,
    Event,
    Packet,
    Process,
    Receive,
    Send,
    SetTimer,
    Start,
    Timeout,
    each_message,
    ordered,
    take_first,
)
from tidings.guests.loading import factory


class Host(NamedTuple):
    """What a guest finds there: how to draw, and the framework's own Message."""

    choose: Choose
    message: Callable[[str, dict[str, Any]], Any]


class Guest:
    """A process of ours. Between two calls it keeps nothing of its host.

    Their model checkers store a process with ``pickle``, which could not follow.
    """

    def __init__(
        self, protocol: str, options: Mapping[str, Any], me: str, everybody: Sequence[str]
    ) -> None:
        self.process = factory(protocol, options)(me, ordered(everybody), take_first)
        self.started = False

    def on_start(self, ctx: Any, host: Host) -> None:
        """Not every version of the frameworks says when a process starts."""
        if not self.started:
            self.started = True
            self._step(Start(), ctx, host)

    def on_local_message(self, msg: Any, ctx: Any, host: Host) -> None:
        self.on_start(ctx, host)
        if msg.type == "SEND":
            self._step(Broadcast((msg["text"].encode(),)), ctx, host)

    def on_message(self, msg: Any, sender: str, ctx: Any, host: Host) -> None:
        self.on_start(ctx, host)
        kind = packets_of(type(self.process))[msg.type]
        values = [msg[field] for field in kind.__struct_fields__]
        self._step(Receive(sender, msgspec.convert([msg.type, *values], kind)), ctx, host)

    def on_timer(self, timer_name: str, ctx: Any, host: Host) -> None:
        self._step(Timeout(timer_name), ctx, host)

    def _step(self, event: Event, ctx: Any, host: Host) -> None:
        self.process.choose = host.choose
        try:
            effects = self.process.step(event)
        finally:
            self.process.choose = take_first
        for effect in effects:
            _perform(effect, ctx, host)


def _perform(effect: Effect, ctx: Any, host: Host) -> None:
    match effect:
        case Send(to, packet):
            for receiver in to:
                ctx.send(host.message(tag_of(type(packet)), fields_of(packet)), receiver)
        case Deliver(messages):
            for message in each_message(messages):
                ctx.send_local(host.message("DELIVER", {"text": message.text.decode()}))
        case SetTimer(name, delay_ms):
            ctx.set_timer(name, delay_ms / 1e3)
        case CancelTimer(name):
            ctx.cancel_timer(name)


def fields_of(packet: Packet) -> dict[str, Any]:
    """The fields by name, in JSON's own types; bytes become base64."""
    _, *values = msgspec.to_builtins(packet)
    return dict(zip(packet.__struct_fields__, values, strict=True))


def tag_of(packet: type[Packet]) -> str:
    return str(packet.__struct_config__.tag)


@cache
def packets_of(protocol: type[Process]) -> dict[str, type[Packet]]:
    """The packets of a protocol, by tag: all that its file, or an ancestor's file, speaks of.

    Of two with the same tag, one that is defined in such a file is meant.
    """
    files = [ancestor.__module__ for ancestor in protocol.__mro__]
    seen = [thing for file in files for thing in vars(sys.modules[file]).values()]
    packets = [thing for thing in seen if isinstance(thing, type) and issubclass(thing, Packet)]
    packets.sort(key=lambda packet: packet.__module__ in files)
    return {tag_of(packet): packet for packet in packets}


# --- the module that is written

MODULE = '''"""{title}, for AnySystem and dslab-mp.

Written by: {command}
Put this file where the test program looks for its solution. There, tidings must be importable.
"""

import random

try:
    from anysystem import Context, Message, Process
except ImportError:
    from dslabmp import Context, Message, Process

from tidings.guests.anysystem.guest import Guest, Host


def choose(label, weights):
    """The test program seeds this."""
    return random.choices(range(len(weights)), weights)[0]


HOST = Host(choose, Message)


class BroadcastProcess(Process):
    def __init__(self, proc_id, processes):
        self._guest = Guest({protocol!r}, {options!r}, proc_id, processes)

    def on_start(self, ctx: Context):
        self._guest.on_start(ctx, HOST)

    def on_local_message(self, msg: Message, ctx: Context):
        self._guest.on_local_message(msg, ctx, HOST)

    def on_message(self, msg: Message, sender: str, ctx: Context):
        self._guest.on_message(msg, sender, ctx, HOST)

    def on_timer(self, timer_name: str, ctx: Context):
        self._guest.on_timer(timer_name, ctx, HOST)
'''


def module_for(protocol: str, options: Mapping[str, Any], *, command: str) -> str:
    """A module with a class for those frameworks' test programs; ``command`` is what wrote it."""
    factory(protocol, options)  # refuses what does not exist
    title = " ".join([protocol, *(f"{name}={value}" for name, value in options.items())])
    return MODULE.format(title=title, command=command, protocol=protocol, options=dict(options))
