"""Plain state can be copied, fingerprinted, shown and measured without its owner's help."""

import copy
from typing import Any

import msgspec

from tidings.core.intervals import IntervalSet
from tidings.core.message import MessageId

_IMMUTABLE = (str, int, bytes, float, tuple, frozenset, type(None))
_encode = msgspec.msgpack.Encoder().encode


def copied(value: Any) -> Any:
    """A copy that shares only what cannot change."""
    match value:
        case dict():
            return {key: copied(item) for key, item in value.items()}
        case list():
            return [copied(item) for item in value]
        case set() | IntervalSet():
            return value.copy()
        case msgspec.Struct() if value.__struct_config__.frozen:
            return value
        case _ if isinstance(value, _IMMUTABLE):
            return value
    return copy.deepcopy(value)


def fingerprint(value: Any) -> bytes:
    """Canonical bytes: equal values, equal bytes, whatever the hash seed or insertion order."""
    return _encode(_canonical(value))


def _canonical(value: Any) -> Any:
    match value:
        case dict():
            return [[key, _canonical(item)] for key, item in sorted(value.items(), key=_key)]
        case set() | frozenset():
            return sorted(value)
        case list():
            return [_canonical(item) for item in value]
        case IntervalSet():
            return value.ranges
    return value


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def shown(value: Any) -> Any:
    """The value in JSON's own types, message ids and texts as a person writes them."""
    match value:
        case MessageId():
            return str(value)
        case dict():
            return {str(key): shown(item) for key, item in sorted(value.items(), key=_key)}
        case set() | frozenset():
            return [shown(item) for item in sorted(value)]
        case list() | tuple():
            return [shown(item) for item in value]
        case IntervalSet():
            return str(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case msgspec.Struct():
            return {name: shown(getattr(value, name)) for name in value.__struct_fields__}
    return value


def measured(state: Any) -> dict[str, int]:
    """How much is kept: message ids, ranges of them, texts, and bytes in all.

    Numbers count eight bytes each, whatever their value: a counter that counts is not a state
    that grows.
    """
    counts = {"ids": 0, "ranges": 0, "texts": 0, "bytes": 0}
    _count(state, counts)
    return counts


def _count(value: Any, counts: dict[str, int]) -> None:
    match value:
        case bool() | None:
            counts["bytes"] += 1
        case int() | float():
            counts["bytes"] += 8
        case str():
            counts["bytes"] += len(value.encode())
        case bytes():
            counts["texts"] += 1
            counts["bytes"] += len(value)
        case IntervalSet():
            counts["ranges"] += len(value.ranges)
            counts["bytes"] += 16 * len(value.ranges)
        case dict():
            for item in value.items():
                _count(item, counts)
        case list() | tuple() | set() | frozenset():
            counts["ids"] += isinstance(value, MessageId)
            for item in value:
                _count(item, counts)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _count(getattr(value, name), counts)
