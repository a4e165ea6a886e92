"""The same state, with the members' names exchanged.

To a protocol that treats all members alike, a state with two names exchanged is the same state:
the explorer needs to look at one of them only. Names are found wherever they stand: as strings,
in message ids, as words of a timer's name. Two kinds of tuples have to say what they are, with
an annotation on the field: numbers in member order, and collections kept sorted by name.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from tidings.core.group import MOST_MEMBERS, Members, ordered
from tidings.core.message import MessageId

Names = Mapping[str, str]
"""Every member, and whose name it takes."""

PER_MEMBER = "one for each member, in member order"
_SORTED = "in no order of its own: kept sorted"

# At most one for each member: a longer one is refused before it is decoded.
Vector = Annotated[tuple[int, ...], PER_MEMBER, Meta(max_length=MOST_MEMBERS)]
Digests = Annotated[tuple[bytes, ...], PER_MEMBER, Meta(max_length=MOST_MEMBERS)]
SortedNames = Annotated[tuple[str, ...], _SORTED, Meta(max_length=MOST_MEMBERS)]
NamedDigests = Annotated[tuple[tuple[str, bytes], ...], _SORTED, Meta(max_length=MOST_MEMBERS)]
SortedIds = Annotated[tuple[MessageId, ...], _SORTED, Meta(max_length=MOST_MEMBERS)]


def renamed(value: Any, names: Names) -> Any:
    """The value with every member's name replaced; shares nothing mutable with it."""
    match value:
        case str():
            return names.get(value) or _renamed_words(value, names)
        case bytes() | int() | float() | None:
            return value
        case tuple():
            items = (renamed(item, names) for item in value)
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        case dict():
            return _renamed_dict(value, names)
        case list() | set() | frozenset():
            return type(value)(renamed(item, names) for item in value)
        case msgspec.Struct():
            return type(value)(
                *(
                    _renamed_field(getattr(value, field), _marks(type(value)).get(field), names)
                    for field in value.__struct_fields__
                )
            )
    return value.copy()


def _renamed_words(text: str, names: Names) -> str:
    """Timers are named in words: ``relay p1#4``."""
    words = (word.partition("#") for word in text.split(" "))
    return " ".join("".join((names.get(name, name), mark, seq)) for name, mark, seq in words)


def _renamed_dict(value: dict[Any, Any], names: Names) -> dict[Any, Any]:
    items = {renamed(key, names): renamed(item, names) for key, item in value.items()}
    if all(isinstance(key, str) for key in items):
        return {key: items[key] for key in ordered(items)}
    return items


def _renamed_field(value: Any, mark: str | None, names: Names) -> Any:
    if mark == PER_MEMBER and value:
        members = ordered(names)
        moved = {names[member]: item for member, item in zip(members, value, strict=True)}
        return tuple(moved[member] for member in members)
    if mark == _SORTED:
        return tuple(sorted(renamed(value, names)))
    return renamed(value, names)


@cache
def _marks(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The fields of a struct whose order has a meaning, and which."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field: hint.__metadata__[0]
        for field, hint in hints.items()
        if hasattr(hint, "__metadata__") and hint.__metadata__[0] in (PER_MEMBER, _SORTED)
    }


def renamed_state(state: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The state of a process; its list of members keeps its order."""
    members: Members = state["members"]
    return {name: renamed(value, names) for name, value in state.items()} | {
        "members": ordered(renamed(members, names))
    }
