"""Canonical bytes of whatever a process of somebody else may keep in its attributes.

Our own protocols keep plain state (state.py). Other people's keep their own classes, dataclasses,
a Counter, a deque. Such a value is taken apart as ``pickle`` would do it; what cannot be pickled
cannot be copied either, and is no state.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
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
    return _encode(_Apart().of(value, ()))


class _Apart:
    """Values in lists and atoms, each list headed by the type that it stands for.

    Objects that hold the same others would be taken apart once for every way that leads to them.
    So each is known by a digest, unless it is within itself.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}
        """By identity, an object, so that it keeps its identity, and what it comes to."""
        self._cycles = 0

    def of(self, value: Any, within: Path) -> Any:
        kind = type(value)
        if kind is str:
            return value if value.isascii() else ["str", value.encode("utf-8", "surrogatepass")]
        if kind is int:
            return value if abs(value) < 2**63 else ["int", str(value)]
        if kind in (bytes, float, bool, type(None)):
            return value
        if id(value) in within:
            self._cycles += 1
            return ["itself", within.index(id(value))]
        match value:
            case type() | FunctionType() | BuiltinFunctionType() | MethodType():
                return ["name", full_name(value)]
        within = (*within, id(value))
        match value:
            case OrderedDict():
                parts = self._each(value.items(), within)
            case dict():
                parts = sorted(self._each(value.items(), within), key=_encode)
            case set() | frozenset():
                parts = sorted(self._each(value, within), key=_encode)
            case list() | tuple():
                parts = self._each(value, within)
            case IntervalSet():
                parts = [list(ends) for ends in value.ranges]
            case _:
                return self._of_object(value, within)
        return [full_name(kind), parts]

    def _each(self, values: Iterable[Any], within: Path) -> list[Any]:
        return [self.of(value, within) for value in values]

    def _of_object(self, value: Any, within: Path) -> Any:
        if id(value) in self._known:
            return self._known[id(value)][1]
        cycles = self._cycles
        apart = [full_name(type(value)), self._each(_held_by(value), within)]
        if self._cycles > cycles:
            return apart  # it says how deep it stands
        digest = blake2b(_encode(apart), digest_size=16).digest()
        self._known[id(value)] = value, digest
        return digest


def full_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _held_by(value: Any) -> list[Any]:
    """The fields of a struct; what another object is made of, as it would tell ``pickle``."""
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
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
