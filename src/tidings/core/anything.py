"""Canonical bytes of whatever a process of somebody else may keep in its attributes.

Our own protocols keep plain state (state.py). Other people's keep their own classes, dataclasses,
a Counter, a deque. Such a value is taken apart as ``pickle`` would do it; what cannot be pickled
cannot be copied either, and is no state.
"""

from collections import OrderedDict
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec

from tidings.core.errors import DataError
from tidings.core.intervals import IntervalSet

_encode = msgspec.msgpack.Encoder().encode

Path = tuple[int, ...]
"""The identities of the values within which one stands, outermost first."""


def deep_fingerprint(value: Any) -> bytes:
    """Equal values, equal bytes, whatever the hash seed or insertion order; types are told apart.

    A dict and a set have no order here, an OrderedDict has one.
    """
    return _encode(_decomposed(value, ()))


def _decomposed(value: Any, within: Path) -> Any:
    """The value in lists and atoms, each list headed by the type that it stands for."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else ["str", value.encode("utf-8", "surrogatepass")]
    if kind is int:
        return value if abs(value) < 2**63 else ["int", str(value)]
    if kind in (bytes, float, bool, type(None)):
        return value
    if id(value) in within:
        return ["itself", within.index(id(value))]
    within = (*within, id(value))
    match value:
        case type() | FunctionType() | BuiltinFunctionType() | MethodType():
            return ["name", full_name(value)]
        case OrderedDict():
            parts = [_decomposed(item, within) for item in value.items()]
        case dict():
            parts = _sorted(value.items(), within)
        case set() | frozenset():
            parts = _sorted(value, within)
        case list() | tuple():
            parts = [_decomposed(item, within) for item in value]
        case IntervalSet():
            parts = [list(ends) for ends in value.ranges]
        case msgspec.Struct():
            parts = [_decomposed(getattr(value, name), within) for name in value.__struct_fields__]
        case _:
            parts = [_decomposed(part, within) for part in _parts(value)]
    return [full_name(kind), parts]


def _sorted(values: Iterable[Any], within: Path) -> list[Any]:
    return sorted((_decomposed(value, within) for value in values), key=_encode)


def full_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _parts(value: Any) -> list[Any]:
    """What an object is made of, as it would tell ``pickle``."""
    try:
        reduced = value.__reduce_ex__(2)
    except TypeError:
        raise DataError(
            f"a {type(value).__name__} cannot be part of a process's state: it cannot be copied"
        ) from None
    if isinstance(reduced, str):
        return [reduced]
    # How it is made and its attributes; then, as iterators, its items, if it is a list or a dict.
    return [*reduced[:3], *(list(items) for items in reduced[3:5] if items is not None)]
