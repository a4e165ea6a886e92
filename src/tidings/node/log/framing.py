"""Entries as bytes: the first line of a file, heads and checks; what is torn, and what is damaged.

Two formats differ in how the content of an entry lies in its file: sectors.py is written,
format_1.py is still read.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import xxhash

from tidings.core import DataError
from tidings.node.log import format_1, sectors
from tidings.node.log.sectors import FORMAT as FORMAT
from tidings.node.log.sectors import SECTOR

_TITLE = b"tidings log "
_LAYOUTS: dict[int, "_Layout"] = {format_1.FORMAT: format_1, sectors.FORMAT: sectors}
_LINES = {b"%s%d\n" % (_TITLE, number): number for number in _LAYOUTS}
FIRST_LINE = b"%s%d\n" % (_TITLE, FORMAT)
FIRST_PLACE = len(FIRST_LINE)
"""Where the first entry of a file begins, in any format."""
_MARK = b"\xf7log"
_HEAD = struct.Struct("!4sQIQ")
_HEAD_CHECK = struct.Struct("!I")
_HEAD_BYTES = _HEAD.size + _HEAD_CHECK.size
PIECE_BYTES = 256 * 1024
"""How much of a file is read at once, unless one entry is longer."""


class _Layout(Protocol):
    """How the content of an entry, which is its head, its body and its tail, lies in a file."""

    def tail(self, length: int) -> bytes: ...
    def spread_size(self, place: int, length: int) -> int: ...
    def gathered(self, place: int, data: bytes) -> bytes | bytearray | None: ...


class BadEntryError(Exception):
    """An entry that does not match its checks."""


class Entry(NamedTuple):
    number: int
    body: memoryview
    end: int
    """Where the next one begins."""


class _Head(NamedTuple):
    number: int
    length: int
    check: int
    """Of the body, as is the length."""


def packed(number: int, place: int, body: bytes) -> bytes:
    """An entry as it stands in its file from this place on."""
    head = _HEAD.pack(_MARK, number, len(body), xxhash.xxh64_intdigest(body, seed=place))
    check = _HEAD_CHECK.pack(xxhash.xxh32_intdigest(head))
    return sectors.spread(place, b"".join((head, check, body, sectors.tail(len(body)))))


class SegmentFile:
    """A segment, read entry by entry: the whole of it may be more than fits into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=PIECE_BYTES)
        self.size = os.fstat(self._file.fileno()).st_size
        self.format = _LINES.get(self.read(0, FIRST_PLACE), FORMAT)
        self._layout = _LAYOUTS[self.format]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)

    # --- what is whole

    def has_a_first_line(self, is_last: bool, expected: int) -> bool:
        """False if it is torn; what is no log, or one of a format to come, is refused."""
        line = self.read(0, FIRST_PLACE)
        if line in _LINES:
            return True
        is_short = any(known.startswith(line) for known in _LINES)
        if is_last and (is_short or (self._is_blank(0) and not self._has_later(0, expected))):
            return False
        title, _, version = self.read(0, 2 * FIRST_PLACE).partition(b"\n")[0].rpartition(b" ")
        if title + b" " == _TITLE and version.isdigit():
            known = " and ".join(map(str, _LAYOUTS))
            raise DataError(f"{self.path}: log format {int(version)}, this tidings reads {known}")
        raise DataError(f"{self.path}: not a log of tidings")

    def entry(self, place: int) -> Entry:
        """The one that begins here."""
        head = self._head(place)
        end = self._end(place, head)
        if end > self.size:
            raise BadEntryError("the file ends within an entry")
        content = self._layout.gathered(place, self.read(place, end - place))
        if content is None:
            raise BadEntryError("a sector's mark is wrong")
        body = memoryview(content)[_HEAD_BYTES : _HEAD_BYTES + head.length]
        if head.check != xxhash.xxh64_intdigest(body, seed=place):
            raise BadEntryError("an entry's body is wrong")
        if content[_HEAD_BYTES + head.length :] != self._layout.tail(head.length):
            raise BadEntryError("an entry's end is wrong")
        return Entry(head.number, body, end)

    def _head(self, place: int) -> _Head:
        size = self._layout.spread_size(place, _HEAD_BYTES)
        data = self.read(place, size)
        if len(data) < size:
            raise BadEntryError("the file ends within an entry")
        content = self._layout.gathered(place, data)
        if content is not None:
            mark, *rest = _HEAD.unpack_from(content)
            (check,) = _HEAD_CHECK.unpack_from(content, _HEAD.size)
            if mark == _MARK and check == xxhash.xxh32_intdigest(content[: _HEAD.size]):
                return _Head(*rest)
        raise BadEntryError("an entry's head is wrong")

    def _end(self, place: int, head: _Head) -> int:
        length = _HEAD_BYTES + head.length + len(self._layout.tail(head.length))
        return place + self._layout.spread_size(place, length)

    # --- what is not

    def is_torn(self, place: int, expected: int) -> bool:
        """Whether the entry that begins here is the last one, broken off while it was written.

        Then the file ends within it, or has a sector of it that was never written. One that has
        all of its sectors was whole.
        """
        end_of_head = place + self._layout.spread_size(place, _HEAD_BYTES)
        if self._has_blanks(place, end_of_head):
            return not self._has_later(place, expected)
        if end_of_head > self.size:
            return True
        try:
            end = self._end(place, self._head(place))
        except BadEntryError:
            return False
        if end > self.size:
            return True
        # Were there anything behind it, then it had been on disk.
        return self._has_blanks(place, end) and self._is_zero(end, self.size)

    def _has_blanks(self, place: int, end: int) -> bool:
        """Whether some sector, or the rest of it behind the place, was never written."""
        sectors_after = range(place - place % SECTOR + SECTOR, min(end, self.size), SECTOR)
        return any(map(self._is_blank, (place, *sectors_after)))

    def _is_blank(self, place: int) -> bool:
        return self._is_zero(place, min(place - place % SECTOR + SECTOR, self.size))

    def _is_zero(self, start: int, end: int) -> bool:
        pieces = range(start, end, PIECE_BYTES)
        return not any(self.read(at, min(PIECE_BYTES, end - at)).strip(b"\0") for at in pieces)

    def _has_later(self, place: int, expected: int) -> bool:
        """Whether a later entry than the one expected here was begun: then that was on disk."""
        for candidate in self._candidates(place + 1):
            with suppress(BadEntryError):
                if self.entry(candidate).number > expected:
                    return True
        return False

    def _candidates(self, start: int) -> Iterator[int]:
        """Where an entry might begin."""
        for piece in range(start, self.size, PIECE_BYTES):
            data = self.read(piece, PIECE_BYTES)
            at = data.find(_MARK[:1])
            while at >= 0:
                yield piece + at
                at = data.find(_MARK[:1], at + 1)
