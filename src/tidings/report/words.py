"""Small ways to say things, shared by everything that is told."""

from collections.abc import Mapping, Sequence

from tidings.spec import Extra, Guarantee, Value
from tidings.trace import Row

MARKS = {Value.HOLDS: "✓", Value.VIOLATED: "✗", Value.UNKNOWN: "?"}
LIVENESS = (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT)
"""What can only be broken by something that never comes."""


def listed(words: Sequence[str]) -> str:
    """p1; p1 and p2; p1, p2 and p3."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def many(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {_PLURALS.get(noun, f'{noun}s')}"


def judged(count: int, guarantee: Guarantee | Extra) -> str:
    if guarantee is Extra.VIEWS:
        return many(count, "install")
    return many(count, "broadcast" if guarantee in LIVENESS else "delivery")


_PLURALS = {
    "copy": "copies",
    "crash": "crashes",
    "delivery": "deliveries",
    "entry": "entries",
    "process": "processes",
}


def with_options(protocol: str, options: Mapping[str, object]) -> str:
    """As on the command line: ``majority-relay notice=yes``."""
    return protocol + "".join(
        f" {name}={('no', 'yes')[value] if isinstance(value, bool) else value}"
        for name, value in options.items()
    )


def printable(text: str) -> str:
    """The text, with everything that no page can show (controls, line ends) spelt out."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def shown(text: bytes) -> str:
    """The text of a message, in one line."""
    return printable(text.decode("utf-8", "backslashreplace"))


def packet_of(row: Row) -> str:
    """What a packet is: its kind, and the message it is about."""
    return f"{row.packet_kind} {row.message}" if row.origin else str(row.packet_kind)
