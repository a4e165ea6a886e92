"""Plain state can be copied, fingerprinted, shown and measured without its owner's help.

Plain are numbers, strings, bytes, message ids, tuples and frozen structs, and dicts, lists, sets
and IntervalSets of these. That is what our own protocols keep, and it goes fast; anything else
goes too (anything.py).
"""

import copy
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from tidings.core.anything import deep_fingerprint
from tidings.core.errors import DataError
from tidings.core.intervals import IntervalSet
from tidings.core.message import MessageId

_ATOMS = frozenset((str, int, bytes, float, bool, type(None), MessageId))
_encode = msgspec.msgpack.Encoder().encode


def copied(value: Any) -> Any:
    """A copy that shares only what cannot change."""
    kind = type(value)
    if kind in _ATOMS or kind is frozenset:
        return value
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    if kind is set or kind is IntervalSet:
        return value.copy()
    if isinstance(value, tuple) and _is_made_of_atoms(value):
        return value
    if isinstance(value, msgspec.Struct) and value.__struct_config__.frozen:
        return value
    try:
        return copy.deepcopy(value)
    except TypeError as fault:
        raise DataError(f"not everything in a process's state can be copied: {fault}") from None


def fingerprint(value: Any) -> bytes:
    """Canonical bytes: equal values, equal bytes, whatever the hash seed or insertion order."""
    try:
        return _encode(_canonical(value))
    except (TypeError, OverflowError, UnicodeEncodeError):
        # Something is not plain: keys that cannot be compared, an object, a very large number.
        return deep_fingerprint(value)


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return [[key, _canonical(item)] for key, item in sorted(value.items(), key=_key)]
    if kind is set or kind is frozenset:
        return sorted(value)
    if kind is list:
        return [_canonical(item) for item in value]
    if kind is IntervalSet:
        return value.ranges
    if isinstance(value, tuple):
        return value if _is_made_of_atoms(value) else [_canonical(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return value
    raise TypeError(f"a {kind.__name__} is not plain")


def _is_made_of_atoms(values: Iterable[Any]) -> bool:
    return all(type(item) in _ATOMS for item in values)


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def shown(value: Any, within: tuple[int, ...] = ()) -> Any:
    """The value in JSON's own types, message ids and texts as a person writes them.

    ``within`` are the objects inside which it stands: one that contains itself is shown once.
    """
    match value:
        case str() | int() | float() | None:
            return value
        case MessageId() | IntervalSet():
            return str(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case dict():
            return {str(key): shown(item, within) for key, item in _in_order(value.items(), _key)}
        case set() | frozenset():
            return [shown(item, within) for item in _in_order(value)]
        case msgspec.Struct():
            return {name: shown(getattr(value, name), within) for name in value.__struct_fields__}
        case Collection():
            return [shown(item, within) for item in value]
    attributes = _attributes(value)
    if not attributes or id(value) in within:
        return str(value)
    return {name: shown(item, (*within, id(value))) for name, item in attributes.items()}


def _in_order(values: Iterable[Any], key: Callable[[Any], Any] | None = None) -> list[Any]:
    found = list(values)
    try:
        return sorted(found, key=key)
    except TypeError:
        return sorted(found, key=deep_fingerprint)


def _attributes(value: Any) -> dict[str, Any]:
    return {} if isinstance(value, type) else getattr(value, "__dict__", {})


def measured(state: Any) -> dict[str, int]:
    """How much is kept: message ids, ranges of them, texts, and bytes in all.

    Numbers count eight bytes each, whatever their value: a counter that counts is not a state
    that grows.
    """
    counts = {"ids": 0, "ranges": 0, "texts": 0, "bytes": 0}
    _count(state, counts, set())
    return counts


def _count(value: Any, counts: dict[str, int], seen: set[int]) -> None:
    """Add up; ``seen`` are the objects counted already, for one may contain another twice."""
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
                _count(item, counts, seen)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _count(getattr(value, name), counts, seen)
        case Collection():
            counts["ids"] += isinstance(value, MessageId)
            for item in value:
                _count(item, counts, seen)
        case _ if id(value) not in seen:
            seen.add(id(value))
            _count(_attributes(value), counts, seen)
