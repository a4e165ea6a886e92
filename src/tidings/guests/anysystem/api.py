"""What a file written for AnySystem or dslab-mp imports: the same names, without the framework.

A handler says what it wants through its ``ctx``. Nothing happens before it has returned; then the
adapter takes what was asked (foreign.py).
"""

import json
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, NamedTuple

ITSELF = "to itself "
"""How the timers begin by which a message to oneself travels (foreign.py)."""


class AnySystemMessage:
    """A type and a dict of values that JSON can carry."""

    def __init__(self, message_type: str, data: dict[str, Any]) -> None:
        self._type = message_type
        self._data = data

    @property
    def type(self) -> str:
        return self._type

    @property
    def data(self) -> dict[str, Any]:
        return self._data

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._data[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str, default: Any = None) -> Any:
        return self._data.get(key, default)

    def remove(self, key: str) -> None:
        self._data.pop(key, None)

    def to_dict(self) -> dict[str, Any]:
        return {"type": self._type, "data": self._data}

    @staticmethod
    def from_dict(message: dict[str, Any]) -> "AnySystemMessage":
        return AnySystemMessage(message["type"], message["data"])

    @staticmethod
    def from_json(message_type: str, text: str) -> "AnySystemMessage":
        return AnySystemMessage(message_type, json.loads(text))

    from_inner_data = from_json

    def __repr__(self) -> str:
        return f"Message({self._type!r}, {self._data!r})"


class AskedSend(NamedTuple):
    type: str
    data: str
    """JSON, written when the message was handed in: what becomes of the dict later is not sent."""
    to: str


class AskedDelivery(NamedTuple):
    text: str


class TimerSet(NamedTuple):
    name: str
    delay_s: float
    once: bool
    """Leave alone a timer of this name that is running."""


class TimerCancelled(NamedTuple):
    name: str


Asked = AskedSend | AskedDelivery | TimerSet | TimerCancelled


class Context:
    """What a handler can do. Mistakes are refused here, so that they show where they are made."""

    def __init__(self, time_s: float | None, ids: Collection[str]) -> None:
        self._time_s = time_s
        self._ids = tuple(ids)
        self._asked: list[Asked] | None = []

    def send(self, msg: AnySystemMessage, to: str) -> None:
        kind, data = _checked(msg)
        if to not in self._ids:
            raise ValueError(f"there is no process {to!r}; there are: {', '.join(self._ids)}")
        self._ask(AskedSend(kind, data, to))

    def send_local(self, msg: AnySystemMessage) -> None:
        kind, data = _checked(msg)
        text = json.loads(data).get("text")
        if kind != "DELIVER" or not isinstance(text, str):
            raise ValueError(f"a local message is DELIVER with a text, a str; not {msg}")
        self._ask(AskedDelivery(text))

    def set_timer(self, timer_name: str, delay: float) -> None:
        self._ask(TimerSet(_checked_name(timer_name), _checked_delay(delay), once=False))

    def set_timer_once(self, timer_name: str, delay: float) -> None:
        self._ask(TimerSet(_checked_name(timer_name), _checked_delay(delay), once=True))

    def cancel_timer(self, timer_name: str) -> None:
        self._ask(TimerCancelled(_checked_name(timer_name)))

    def time(self) -> float:
        return checked_time(self._time_s)

    def _ask(self, asked: Asked) -> None:
        if self._asked is None:
            raise RuntimeError("this ctx belonged to a handler that has returned")
        self._asked.append(asked)

    def _close(self) -> list[Asked]:
        """Everything that was asked, in order; the context can be used no more."""
        asked, self._asked = self._asked or [], None
        return asked


def _checked(msg: AnySystemMessage) -> tuple[str, str]:
    if not isinstance(msg, AnySystemMessage):
        raise TypeError(f"what is sent is a Message, not {msg!r}")
    if not isinstance(msg.type, str) or not 1 <= len(msg.type) <= 255:
        raise ValueError(f"the type of a message is a short str, not {msg.type!r}")
    if not isinstance(msg.data, dict):
        raise TypeError(f"the data of a message is a dict, not {msg.data!r}")
    return msg.type, json.dumps(msg.data)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or name.startswith(ITSELF):
        raise ValueError(f"a timer's name is a str that does not begin with {ITSELF!r}: {name!r}")
    return name


def _checked_delay(delay: float) -> float:
    if not isinstance(delay, int | float) or not 0 <= delay < 1e9:
        raise ValueError(f"a timer's delay is a number of seconds, 0 or more, not {delay!r}")
    return delay


def checked_time(time_s: float | None) -> float:
    if time_s is None:
        raise RuntimeError("only a process whose file speaks of 'time' has a clock")
    return time_s


class AnySystemProcess:
    """The base of such classes; whoever leaves a handler out does nothing there."""

    def on_start(self, ctx: Context) -> None: ...

    def on_local_message(self, msg: AnySystemMessage, ctx: Context) -> None: ...

    def on_message(self, msg: AnySystemMessage, sender: str, ctx: Context) -> None: ...

    def on_timer(self, timer_name: str, ctx: Context) -> None: ...


def state_member(value: Any) -> Any:
    """Early versions of dslab-mp had attributes declared as state; here all of them are."""
    return value


def is_such_a_class(kind: Any) -> bool:
    return isinstance(kind, type) and all(
        callable(getattr(kind, handler, None)) for handler in ("on_local_message", "on_message")
    )


def module_with(name: str, contents: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name, f"What tidings offers in place of {name}.")
    vars(module).update(contents)
    return module


_CONTENTS = {
    "Context": Context,
    "Message": AnySystemMessage,
    "Process": AnySystemProcess,
    "StateMember": state_member,
    "JSON": Any,
}
MODULES = {name: module_with(name, _CONTENTS) for name in ("anysystem", "dslabmp")}
