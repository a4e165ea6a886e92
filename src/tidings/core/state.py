"""Plain state can be copied, fingerprinted, shown and measured without its owner's help.

Plain are numbers, strings, bytes, message ids, tuples and frozen structs, and dicts, lists, sets
and IntervalSets of these. That is what our own protocols keep, and it goes fast; anything else
goes too (anything.py).
"""

import copy
from collections.abc import Callable, Collection, Iterable
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from tidings.core.anything import deep_fingerprint, full_name
from tidings.core.errors import DataError
from tidings.core.intervals import IntervalSet
from tidings.core.message import Message, MessageId

_ATOMS = frozenset((str, int, bytes, float, bool, type(None), MessageId, Message))
"""Of these one object will do for all: they cannot change."""
_encode = msgspec.msgpack.Encoder().encode

Memo = dict[int, Any]
"""What was copied already, by the identity of the original; as ``copy.deepcopy`` keeps it."""


def copied(value: Any) -> Any:
    """A copy that shares only what cannot change; what is held twice is held twice there, too."""
    return copied_state({"": value}, {})[""]


def copied_state(state: dict[str, Any], memo: Memo) -> dict[str, Any]:
    """A copy of every value; what two of them hold in common, their copies hold in common."""
    try:
        return {
            name: value if type(value) in _ATOMS else _copied(value, memo)
            for name, value in state.items()
        }
    except TypeError as fault:
        raise DataError(f"not everything in a process's state can be copied: {fault}") from None


def _copied(value: Any, memo: Memo) -> Any:
    kind: Any = type(value)
    if kind is tuple and _is_made_of_atoms(value):
        return value
    me = id(value)
    if me in memo:
        return memo[me]
    if kind is dict:
        twin: Any = {}
        memo[me] = twin
        for key, item in value.items():
            twin[key if type(key) in _ATOMS else _copied(key, memo)] = (
                item if type(item) in _ATOMS else _copied(item, memo)
            )
        return twin
    if kind is list:
        twin = memo[me] = []
        twin += [item if type(item) in _ATOMS else _copied(item, memo) for item in value]
        return twin
    if kind is IntervalSet or (kind is set and _is_made_of_atoms(value)):
        twin = memo[me] = value.copy()
        return twin
    if isinstance(value, msgspec.Struct):
        if not kind.__struct_config__.frozen and not hasattr(value, "__dict__"):
            twin = memo[me] = copy.copy(value)
            for name in kind.__struct_fields__:
                item = getattr(twin, name)
                if type(item) not in _ATOMS:
                    setattr(twin, name, _copied(item, memo))
            return twin
        if _cannot_change(kind) or _has_fixed(value, memo):
            return value
    if isinstance(value, tuple | frozenset) and _is_fixed(value, memo):
        return value
    return copy.deepcopy(value, memo)


def _is_fixed(values: Collection[Any], memo: Memo) -> bool:
    """Whether nothing in them can change: a copy of each would be the thing itself."""
    return all(type(value) in _ATOMS or _copied(value, memo) is value for value in values)


def _has_fixed(value: msgspec.Struct, memo: Memo) -> bool:
    return value.__struct_config__.frozen and _is_fixed(
        [getattr(value, name) for name in value.__struct_fields__], memo
    )


@cache
def _cannot_change(hint: Any) -> bool:
    """Whether values of this type, as it is annotated, are fixed through and through."""
    if hint in _ATOMS or hint is Ellipsis:
        return True
    if get_origin(hint) in (tuple, frozenset, Annotated, Union, UnionType):
        parts = get_args(hint)
        return all(map(_cannot_change, parts[:1] if get_origin(hint) is Annotated else parts))
    if not (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return False
    try:
        fields = get_type_hints(hint)
    except NameError:
        return False
    return hint.__struct_config__.frozen and all(
        _cannot_change(fields[name]) for name in hint.__struct_fields__
    )


def fingerprint(value: Any) -> bytes:
    """Canonical bytes: equal values, equal bytes, whatever the hash seed or insertion order."""
    try:
        return _encode(_canonical(value))
    except (TypeError, OverflowError, UnicodeEncodeError):
        # Something is not plain: keys that cannot be compared, an object, a very large number.
        return deep_fingerprint(value)


def _canonical(value: Any) -> Any:
    """The value in what msgpack knows; what would look alike there is marked by its kind."""
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        if not _is_made_of_atoms(value):
            return {"a dict": _sorted(value.items())}
        return {key: _canonical(item) for key, item in sorted(value.items(), key=_key)}
    if kind is set or kind is frozenset:
        return {"a set": sorted(value) if _is_made_of_atoms(value) else _sorted(value)}
    if kind is list:
        return [_canonical(item) for item in value]
    if kind is IntervalSet:
        return value.ranges
    if kind is tuple:
        return value if _is_made_of_atoms(value) else [_canonical(item) for item in value]
    if isinstance(value, tuple):
        return {_name(kind): [_canonical(item) for item in value]}
    if isinstance(value, msgspec.Struct):
        fields = [_canonical(getattr(value, name)) for name in value.__struct_fields__]
        return {_name(kind): fields}
    raise TypeError(f"a {kind.__name__} is not plain")


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(map(_canonical, values), key=_encode)


def _is_made_of_atoms(values: Iterable[Any]) -> bool:
    return _ATOMS.issuperset(map(type, values))


_name = cache(full_name)


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
