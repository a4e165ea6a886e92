"""Names of members, and how many of them are enough."""

import re
from collections.abc import Iterable

Members = tuple[str, ...]
"""The members of a group, always in the order of `ordered`, so that all agree on positions."""

MOST_MEMBERS = 1_000
"""A larger group is refused: what one member says of all of them must stay small."""

_NAME = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,63})(?:\+([1-9][0-9]{0,8}))?")


NO_NAME = "not a name: a letter, then letters, digits, _ . or -"
"""What is said of whoever is called otherwise."""


def ordered(names: Iterable[str]) -> Members:
    """Each name once, in the order a person expects: p2 before p10."""
    return tuple(sorted(set(names), key=natural))


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A key by which numbers in names count as numbers."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((bool(i % 2), int(part) if i % 2 else 0, part) for i, part in enumerate(parts))


def is_name(name: str) -> bool:
    """A word such as p2, or such as p2+1: whoever replaces p2, then p2+2."""
    return _NAME.fullmatch(name) is not None


def replacement(name: str, used: Iterable[str]) -> str:
    """The name of whoever replaces this member; no name that was ever used is used again."""
    found = _NAME.fullmatch(name)
    assert found is not None, f"{name!r} is no name"
    alike = filter(None, map(_NAME.fullmatch, (name, *used)))
    return f"{found[1]}+{1 + max(int(one[2] or 0) for one in alike if one[1] == found[1])}"


def first_of(name: str) -> str:
    """Whose place it is that this one has: p2's, if it is p2+1, and its own, if it is p2."""
    return name.partition("+")[0]


def quorum(size: int) -> int:
    """The fewest processes that must include a correct one.

    At most ceil(n/2) - 1 of n crash, so any ceil(n/2) of them include a survivor. "At least
    half" is enough, for even n too; floor(n/2) is not, for odd n.
    """
    return (size + 1) // 2


def majority(size: int) -> int:
    """How many members stay correct when only a minority crashes."""
    return size // 2 + 1
