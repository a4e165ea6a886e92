"""The bytes of the log: the first line of a file, and entries with their checks."""

import struct
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from tidings.core import DataError, Members

FORMAT = 1
_TITLE = b"tidings log "
FIRST_LINE = b"%s%d\n" % (_TITLE, FORMAT)
_MARK = b"\xf7log"
_HEAD = struct.Struct("!4sQIQ")
_HEAD_CHECK = struct.Struct("!I")
HEAD_BYTES = _HEAD.size + _HEAD_CHECK.size
"""What an entry takes beside its body."""
_SECTOR = 512

Ranges = dict[str, tuple[int, int]]
"""Of each origin a first and a last message."""
encode = msgspec.msgpack.Encoder().encode


class About(msgspec.Struct, frozen=True, array_like=True):
    """Whose log this is."""

    group: str
    member: str
    members: Members
    protocol: str
    traced: bool

    def mismatch(self, file: "About") -> str:
        """What the group file says otherwise than this log, and what to do; empty if nothing."""
        back = "set it back, or begin a new group, with data and trace.folder of its own"
        if self.member != file.member:
            return f"this is the log of {self.member}, and not of {file.member}"
        if self.group != file.group:
            return f'the log has name = "{self.group}", the group file "{file.group}"; {back}'
        if self.members != file.members:
            return (
                f"the log has members {', '.join(self.members)}, the group file "
                f"{', '.join(file.members)}; the members of a group cannot change yet: {back}"
            )
        if self.protocol != file.protocol:
            began, now = self.protocol, file.protocol
            return f'the log has protocol = "{began}", the group file "{now}"; {back}'
        return ""


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """Who the member is, and which of its lives this is."""

    incarnation: int
    life: int = 0


class Beginning(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """The first entry of a segment."""

    about: About
    identity: Identity
    index: int
    """Which place in the history of the member comes next."""
    delivered: dict[str, int]
    records: msgspec.Raw
    oldest: int = 0
    """The number of the oldest segment that is kept from here on; 0 if it was not written down."""


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """What is written at once."""

    records: msgspec.Raw
    block: bytes
    """The trace of what follows: once this is on disk, it has happened."""
    held: Ranges
    """Of each origin the first and the last message in the records."""
    messages: int
    delivered: dict[str, int]
    """Of each origin of which one was delivered, the last."""


def merge(into: Ranges, more: Ranges) -> None:
    for origin, (first, last) in more.items():
        low, high = into.get(origin, (first, last))
        into[origin] = (min(low, first), max(high, last))


# --- entries as bytes


def packed(number: int, place: int, body: bytes) -> bytes:
    head = _HEAD.pack(_MARK, number, len(body), xxhash.xxh64_intdigest(body, seed=place))
    return b"".join((head, _HEAD_CHECK.pack(_check_of_head(head)), body))


def _check_of_head(head: bytes) -> int:
    return xxhash.xxh32_intdigest(head)


class BadEntryError(Exception):
    """An entry that does not match its checks."""


def checked_first_line(path: Path, data: bytes, is_last: bool) -> int:
    """Refuse another format; otherwise, how long the line is, or 0 if it is torn."""
    line = data[: len(FIRST_LINE)]
    if line == FIRST_LINE:
        return len(FIRST_LINE)
    if is_last and FIRST_LINE.startswith(line):
        return 0
    title, _, version = data.partition(b"\n")[0].rpartition(b" ")
    if title + b" " == _TITLE and version.isdigit():
        raise DataError(f"{path}: log format {int(version)}, this tidings reads {FORMAT}")
    raise DataError(f"{path}: not a log of tidings")


def parsed(data: bytes, start: int, place: int | None = None) -> tuple[int, memoryview]:
    """The number and the body of the entry that begins here, and in its file at this place."""
    end = start + HEAD_BYTES
    if end > len(data):
        raise BadEntryError("the file ends within an entry")
    mark, number, length, check = _HEAD.unpack_from(data, start)
    (head_check,) = _HEAD_CHECK.unpack_from(data, start + _HEAD.size)
    if mark != _MARK or head_check != _check_of_head(data[start : start + _HEAD.size]):
        raise BadEntryError("an entry's head is wrong")
    if end + length > len(data):
        raise BadEntryError("the file ends within an entry")
    body = memoryview(data)[end : end + length]
    if check != xxhash.xxh64_intdigest(body, seed=start if place is None else place):
        raise BadEntryError("an entry's body is wrong")
    return number, body


def is_torn(data: bytes, start: int, expected: int) -> bool:
    """Whether the entry that begins here looks like the last one, broken off while written."""
    place = data.find(_MARK, start + 1)
    while place >= 0:
        with suppress(BadEntryError):
            number, _ = parsed(data, place)
            if number > expected:
                return False  # a later one was begun, so this one had been on disk
        place = data.find(_MARK, place + 1)
    end = len(data)
    with suppress(struct.error):
        head = data[start : start + _HEAD.size]
        mark, _, length, _ = _HEAD.unpack(head)
        (head_check,) = _HEAD_CHECK.unpack_from(data, start + _HEAD.size)
        if mark == _MARK and head_check == _check_of_head(head):
            end = start + HEAD_BYTES + length
            if end > len(data):
                return True
    return len(data) - start < HEAD_BYTES or _has_a_hole(data, start, min(end, len(data)))


def _has_a_hole(data: bytes, start: int, end: int) -> bool:
    """Whether some sector of this stretch, or the rest of the file from its head on, is zero."""
    if not data[start:].strip(b"\0"):
        return True
    first = -(-start // _SECTOR) * _SECTOR
    return any(
        not data[sector : sector + _SECTOR].strip(b"\0") for sector in range(first, end, _SECTOR)
    )
