"""Whether a packet can be meant for this group: a process need not be ready for anything else.

A packet that decodes may still name somebody who is no member, hold a vector of another length, or
numbers that nothing can be counted with. That is what a member of another group would send, or
somebody who tries what happens. Whether a count is true is not judged: what it claims, only the
protocol understands.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from tidings.core import Members, MessageId
from tidings.core.renaming import SortedIds, SortedNames, Vector

Check = Callable[[Any, Members], bool]
NAMES = ("origin", "member")
"""Fields that hold the name of a member, wherever they stand."""
PAIRS = ("commit",)
"""Fields that hold two counts, or none."""
MOST = 2**62
"""No count comes near; and with a few more added, it still fits where 63 bits are kept."""
LINE_CHARS = 1_000
"""The longest text in words."""


def is_plausible(packet: msgspec.Struct, members: Members) -> bool:
    for field, check in _checks(type(packet)):  # noqa: SIM110 - takes half the time of all()
        if not check(getattr(packet, field), members):
            return False
    return True


@cache
def _checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, Check], ...]:
    """The fields of a struct that have to fit the group, and how to see whether they do."""
    hints = get_type_hints(kind, include_extras=True)
    first_default = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    checks = {
        field: _check(hints[field], may_lack=place >= first_default)
        for place, field in enumerate(kind.__struct_fields__)
    }
    checks |= {field: _is_member for field in NAMES if hints.get(field) is str}
    checks |= {field: _is_pair for field in PAIRS if field in hints}
    return tuple((field, check) for field, check in checks.items() if check is not None)


def _check(hint: Any, may_lack: bool = False) -> Check | None:
    if hint is MessageId:
        return _is_of_member
    if hint == Vector:
        return _fits_or_lacks if may_lack else _fits
    if hint == SortedNames:
        return _each(_is_member)
    if hint == SortedIds:
        return _each(_is_of_member)
    if hint is int:
        return _is_count
    if hint is str:
        return _is_line
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return is_plausible
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return _check_each(get_args(hint)[0])
    return None


def _check_each(hint: Any) -> Check | None:
    each = _each(_check(hint))
    if each is not None and "origin" in getattr(hint, "__struct_fields__", ()):
        return _one_for_each_origin(each)
    return each


def _is_member(name: str, members: Members) -> bool:
    return name in members


def _is_of_member(message: MessageId, members: Members) -> bool:
    return message.origin in members and 1 <= message.seq <= MOST


def _is_count(number: int, members: Members) -> bool:
    return 0 <= number <= MOST


def _is_line(words: str, members: Members) -> bool:
    return len(words) <= LINE_CHARS and words.isprintable()


def _is_pair(counts: tuple[int, ...], members: Members) -> bool:
    return not counts or (len(counts) == 2 and min(counts) >= 0 and max(counts) <= MOST)


def _fits(vector: tuple[int, ...], members: Members) -> bool:
    """One count for each member."""
    return len(vector) == len(members) and min(vector) >= 0 and max(vector) <= MOST


def _fits_or_lacks(vector: tuple[int, ...], members: Members) -> bool:
    """The same, where a vector may be left out."""
    return not vector or _fits(vector, members)


def _each(check: Check | None) -> Check | None:
    if check is None:
        return None

    def each(items: tuple[Any, ...], members: Members) -> bool:
        for item in items:  # noqa: SIM110
            if not check(item, members):
                return False
        return True

    return each


def _one_for_each_origin(each: Check) -> Check:
    """Who asks a thousand times for the same in one packet wants something else."""

    def few(items: tuple[Any, ...], members: Members) -> bool:
        return len(items) <= len(members) and each(items, members)

    return few
