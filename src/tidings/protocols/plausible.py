"""Whether a packet can be meant for this group: a process need not be ready for anything else.

A packet that decodes may still name somebody who is no member, hold a vector of another length, or
numbers that nothing can be counted with. That is what a member of another group would send, or
somebody who tries what happens. And it may hold a text that nobody could have broadcast, or so
many that they keep a member busy for too long. Whether a count is true is not judged: what it
claims, only the protocol understands.
"""

from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from tidings.core import MOST_MEMBERS, Members, MessageId, is_name, ordered
from tidings.core.renaming import Digests, NamedDigests, SortedIds, SortedNames, Vector
from tidings.protocols.views.packets import View

MembersOf = Callable[[int], Members | None]
"""The members of the view of this number, if it is known."""


class Bounds(NamedTuple):
    """What fits into this group."""

    members: Members | None
    """Of the view that a packet is about; None where that is not known here, or anybody may be
    named: then names must be names."""
    text_bytes: int
    texts: int
    """How many texts one packet may hold."""
    views: MembersOf = lambda number: None
    """Who was in which view, as far as that is known here."""


Check = Callable[[Any, Bounds], str]
"""What is wrong, in words that go after the kind of a packet; empty if nothing is."""
NAMES = ("origin", "member")
"""Fields that hold the name of a member, wherever they stand."""
DIGESTS = ("digest",)
"""Fields that hold bytes, and no text."""
DIGEST_BYTES = 64
"""No digest is longer."""
MOST = 2**62
"""No count comes near; and with a few more added, it still fits where 63 bits are kept."""
LINE_CHARS = 1_000
"""The longest text in words."""
FOREIGN = "that is not meant for this group"


def fault_of(packet: msgspec.Struct, bounds: Bounds) -> str:
    """Why this packet cannot be meant for this group; empty if it can."""
    for field, default, check in _checks(type(packet)):
        value = getattr(packet, field)
        if value is not default and (fault := check(value, bounds)):
            return fault
    return ""


@cache
def _checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any, Check], ...]:
    """The fields of a struct that have to fit the group, and how to see whether they do.

    What a field is when nothing was said fits any group.
    """
    hints = get_type_hints(kind, include_extras=True)
    first_default = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    checks = {
        field: _check(hints[field], may_lack=place >= first_default)
        for place, field in enumerate(kind.__struct_fields__)
    }
    checks |= {field: _is_member for field in NAMES if hints.get(field) is str}
    checks |= {field: _is_digest for field in DIGESTS if hints.get(field) is bytes}
    usual = dict(zip(kind.__struct_fields__[first_default:], kind.__struct_defaults__, strict=True))
    return tuple(
        (field, usual.get(field, msgspec.NODEFAULT), check)
        for field, check in checks.items()
        if check is not None
    )


def _check(hint: Any, may_lack: bool = False) -> Check | None:
    if hint is View:
        return lambda view, bounds: _are_views((view,), bounds)
    if isinstance(hint, UnionType) and all(map(_is_struct, get_args(hint))):
        return fault_of
    if _is_struct(hint):
        return fault_of
    if hint == Vector and may_lack:
        return _fits_or_lacks
    known = next((check for one, check in _OF_HINT if one == hint), None)
    plain = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    if known is None and get_origin(plain) is tuple and get_args(plain)[1:] == (...,):
        return _check_each(get_args(plain)[0])
    return known


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _check_each(hint: Any) -> Check | None:
    if hint is bytes:
        return _are_few_and_short
    if hint is View:
        return _are_views
    check = _check(hint)
    fields = getattr(hint, "__struct_fields__", ())
    if check is not None and "origin" in fields:
        return _at_most_one_for_each_member(check)
    if "texts" in fields:
        return _with_few_texts(_each(fault_of))
    return _each(check) if check is not None else None


def _is_member(name: str, bounds: Bounds) -> str:
    is_so = is_name(name) if bounds.members is None else name in bounds.members
    return "" if is_so else FOREIGN


def _is_of_member(message: MessageId, bounds: Bounds) -> str:
    return _is_member(message.origin, bounds) or ("" if 1 <= message.seq <= MOST else FOREIGN)


def _are_views(views: tuple[View, ...], bounds: Bounds) -> str:
    """Each follows the one before it, or one that is known; what no view can say is refused."""
    before: View | None = None
    for view in views:
        members = bounds.views(view.number - 1)
        if before is not None:
            members = before.members if view.number == before.number + 1 else ()
        if not (_is_view(view) and (members is None or _follows(view, members))):
            return FOREIGN
        before = view
    return ""


def _is_view(view: View) -> bool:
    members, origins = view.members, [origin for origin, _ in view.cut]
    return (
        0 <= view.number <= MOST
        and 1 <= len(members) <= MOST_MEMBERS
        and members == ordered(members)
        and len(set(origins)) == len(origins)
        and all(map(is_name, (*members, *origins)))
        and all(0 <= count <= MOST for _, count in view.cut)
        and (not view.added or view.added in members)
        and 0 <= view.incarnation <= (MOST if view.added else 0)
        and (view.number > 0 or not (view.cut or view.added))
    )


def _follows(view: View, before: Members) -> bool:
    """It ends what all of those have said, and nobody is new in it but one."""
    stay = set(view.members) - {view.added}
    return stay <= set(before) and {origin for origin, _ in view.cut} == set(before)


def _is_count(number: int, bounds: Bounds) -> str:
    return "" if 0 <= number <= MOST else FOREIGN


def _is_line(words: str, bounds: Bounds) -> str:
    return "" if len(words) <= LINE_CHARS and words.isprintable() else FOREIGN


def _fits(vector: tuple[int, ...], bounds: Bounds) -> str:
    """One count for each member."""
    is_so = _is_of_size(vector, bounds) and min(vector) >= 0 and max(vector) <= MOST
    return "" if is_so else FOREIGN


def _is_of_size(items: tuple[Any, ...], bounds: Bounds) -> bool:
    return bool(items) if bounds.members is None else len(items) == len(bounds.members)


def _fits_or_lacks(vector: tuple[int, ...], bounds: Bounds) -> str:
    """The same, where a vector may be left out."""
    return _fits(vector, bounds) if vector else ""


def _is_digest(digest: bytes, bounds: Bounds) -> str:
    return "" if len(digest) <= DIGEST_BYTES else FOREIGN


def _is_named_digest(named: tuple[str, bytes], bounds: Bounds) -> str:
    name, digest = named
    return _is_member(name, bounds) or _is_digest(digest, bounds)


def _are_digests(digests: tuple[bytes, ...], bounds: Bounds) -> str:
    is_so = not digests or _is_of_size(digests, bounds)
    return _each(_is_digest)(digests, bounds) if is_so else FOREIGN


def _is_short(text: bytes, bounds: Bounds) -> str:
    return _longest_is(len(text), bounds)


def _longest_is(size: int, bounds: Bounds) -> str:
    if size <= bounds.text_bytes:
        return ""
    return f"with a text of {size:,} bytes; {bounds.text_bytes:,} is the limit (text_bytes)"


def _are_few(count: int, bounds: Bounds) -> str:
    most = bounds.texts
    return "" if count <= most else f"with {count:,} texts; {most:,} is the limit (batch_messages)"


def _are_few_and_short(texts: tuple[bytes, ...], bounds: Bounds) -> str:
    return _are_few(len(texts), bounds) or _longest_is(max(map(len, texts), default=0), bounds)


def _with_few_texts(check: Check) -> Check:
    """The limit is for all texts of a packet together."""

    def few(items: tuple[Any, ...], bounds: Bounds) -> str:
        count = sum([len(item.texts) for item in items])
        return _are_few(count, bounds) or check(items, bounds)

    return few


def _each(check: Check) -> Check:
    def each(items: tuple[Any, ...], bounds: Bounds) -> str:
        for item in items:
            if fault := check(item, bounds):
                return fault
        return ""

    return each


def _at_most_one_for_each_member(check: Check) -> Check:
    """Who asks a thousand times for the same in one packet wants something else."""
    each = _each(check)

    def few(items: tuple[Any, ...], bounds: Bounds) -> str:
        most = MOST_MEMBERS if bounds.members is None else len(bounds.members)
        return each(items, bounds) if len(items) <= most else FOREIGN

    return few


_OF_HINT: tuple[tuple[Any, Check], ...] = (
    (MessageId, _is_of_member),
    (Vector, _fits),
    (SortedNames, _each(_is_member)),
    (SortedIds, _at_most_one_for_each_member(_is_of_member)),
    (int, _is_count),
    (str, _is_line),
    (bytes, _is_short),
    (Digests, _are_digests),
    (NamedDigests, _at_most_one_for_each_member(_is_named_digest)),
)
"""How a field of each type is checked, beside structs and tuples of many."""
