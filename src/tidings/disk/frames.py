"""Frames on disk: bytes with a length and checks, one after the other.

A file begins with a line that says what it is and in which format. In the one that is written, a
frame is

    mark      4 bytes
    number    8 bytes, rising
    length    4 bytes, of the body
    check     8 bytes, XXH64 of the body, seeded with its place
    check     4 bytes, XXH32 of the 24 bytes before
    body
    tail      1 or 2 bytes, so that it has an even length

interrupted by two bytes at every border of two sectors (sectors.py).

The end of a file may be torn: a kill or a power failure came before all of it was on disk. A frame
is torn if the file ends within it, or if one of its sectors was never written: that one has no
marks and reads as zeros. A whole frame behind it shows that it was on disk before. Whatever else
does not match its checks is damage.
"""

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import xxhash

from tidings.core import DataError
from tidings.disk import sectors
from tidings.disk.sectors import SECTOR

_MARK = b"\xf7log"
_HEAD = struct.Struct("!4sQIQ")
_HEAD_CHECK = struct.Struct("!I")
PIECE_BYTES = 256 * 1024
"""How much of a file is read at once, unless one frame is longer."""


class BadFrameError(Exception):
    """A frame that does not match its checks."""


class DiskFrame(NamedTuple):
    number: int
    body: memoryview
    start: int
    end: int
    """Where the next one begins."""


class Head(NamedTuple):
    number: int
    length: int
    check: int
    """Of the body, as is the length."""


class Format:
    """How frames lie in a file: as they are written now."""

    mark = _MARK
    """With which each begins."""
    head_bytes = _HEAD.size + _HEAD_CHECK.size

    def head(self, content: bytes) -> Head | None:
        """What the head says; None if it is damaged."""
        mark, *rest = _HEAD.unpack_from(content)
        (check,) = _HEAD_CHECK.unpack_from(content, _HEAD.size)
        is_whole = mark == _MARK and check == xxhash.xxh32_intdigest(content[: _HEAD.size])
        return Head(*rest) if is_whole else None

    def check(self, body: memoryview, place: int) -> int:
        return xxhash.xxh64_intdigest(body, seed=place)

    tail = staticmethod(sectors.tail)
    spread_size = staticmethod(sectors.spread_size)
    gathered = staticmethod(sectors.gathered)


class Unmarked(Format):
    """Without the marks of sectors, as the first logs were written.

    Where a text had a sector of zeros, nobody can tell whether that was ever written.
    """

    @staticmethod
    def tail(length: int) -> bytes:
        return b""

    @staticmethod
    def spread_size(place: int, length: int) -> int:
        return length

    @staticmethod
    def gathered(place: int, data: bytes) -> bytes | bytearray | None:
        return data


WRITTEN = Format()


class FileKind(NamedTuple):
    """Files of one purpose: what they begin with, and how to refuse others."""

    line: bytes
    """With which those begin that are written now."""
    older: Mapping[bytes, Format]
    """Other lines that are read, and the formats of those files."""
    refusal: Callable[[bytes], str]
    """Why a file is refused that begins so."""

    @property
    def lines(self) -> tuple[bytes, ...]:
        return (self.line, *self.older)


def version_in(begin: bytes, title: bytes) -> int | None:
    """The number behind the title in a first line, if there is one."""
    found = re.match(title + rb"(\d+)[ \n]", begin)
    return int(found[1]) if found else None


def packed(number: int, place: int, body: bytes) -> bytes:
    """A frame as it stands in its file from this place on."""
    head = _HEAD.pack(_MARK, number, len(body), xxhash.xxh64_intdigest(body, seed=place))
    check = _HEAD_CHECK.pack(xxhash.xxh32_intdigest(head))
    return sectors.spread(place, b"".join((head, check, body, sectors.tail(len(body)))))


class FrameFile:
    """A file, read frame by frame: the whole of it may be more than fits into memory."""

    def __init__(self, path: Path, kind: FileKind) -> None:
        self.path = path
        self._kind = kind
        self._file = path.open("rb", buffering=PIECE_BYTES)
        self.size = os.fstat(self._file.fileno()).st_size
        self._begin = self.read(0, 2 * max(map(len, kind.lines)))
        self._line = next(filter(self._begin.startswith, kind.lines), b"")
        self.format = kind.older.get(self._line, WRITTEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def first(self) -> int:
        """Where the first frame begins."""
        return len(self._line)

    @property
    def is_current(self) -> bool:
        """Whether it is of the format that is written now."""
        return self._line == self._kind.line

    def read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)

    # --- what is whole

    def has_a_first_line(self, may_be_torn: bool, expected: int = 0) -> bool:
        """False if it is torn; a file of another kind, or of a format to come, is refused."""
        if self._line:
            return True
        is_short = any(known.startswith(self._begin) for known in self._kind.lines)
        if may_be_torn and (is_short or (self._is_blank(0) and not self._has_later(0, expected))):
            return False
        raise DataError(f"{self.path}: {self._kind.refusal(self._begin)}")

    def frames(
        self, start: int, end: int | None = None, may_be_torn: bool = False, expected: int = 0
    ) -> Iterator[DiskFrame]:
        """From this place on; what is torn ends them, where it may be."""
        while start < (self.size if end is None else end):
            try:
                frame = self.frame(start)
            except BadFrameError as bad:
                if may_be_torn and self.is_torn(start, expected):
                    return
                raise BadFrameError(f"damaged at byte {start:,}: {bad}") from None
            yield frame
            start, expected = frame.end, frame.number + 1

    def whole_end(self, start: int, limit: int, may_be_torn: bool) -> int:
        """Where the last frame ends before the limit, or the first one behind it.

        Only heads are read, and the last frame: all others were whole when that was written.
        """
        places = [start]
        while places[-1] < min(limit, self.size):
            try:
                end = self._end(places[-1], self._head(places[-1]))
            except BadFrameError:
                break
            if end > self.size or (end > limit and len(places) > 1):
                break
            places = [places[-1], end]
        if len(places) > 1:
            try:
                self.frame(places[-2])
            except BadFrameError:
                places.pop()
        if places[-1] == start < self.size and not (may_be_torn and self.is_torn(start)):
            self.frame(start)
        return places[-1]

    def frame(self, place: int) -> DiskFrame:
        """The one that begins here."""
        head = self._head(place)
        end = self._end(place, head)
        if end > self.size:
            raise BadFrameError("the file ends within a frame")
        content = self.format.gathered(place, self.read(place, end - place))
        if content is None:
            raise BadFrameError("a sector's mark is wrong")
        begin = self.format.head_bytes
        body = memoryview(content)[begin : begin + head.length]
        if head.check != self.format.check(body, place):
            raise BadFrameError("a frame's body is wrong")
        if content[begin + head.length :] != self.format.tail(head.length):
            raise BadFrameError("a frame's end is wrong")
        return DiskFrame(head.number, body, place, end)

    def _head(self, place: int) -> Head:
        size = self.format.spread_size(place, self.format.head_bytes)
        data = self.read(place, size)
        if len(data) < size:
            raise BadFrameError("the file ends within a frame")
        content = self.format.gathered(place, data)
        head = self.format.head(bytes(content)) if content is not None else None
        if head is None:
            raise BadFrameError("a frame's head is wrong")
        return head

    def _end(self, place: int, head: Head) -> int:
        length = self.format.head_bytes + head.length + len(self.format.tail(head.length))
        return place + self.format.spread_size(place, length)

    # --- what is not

    def is_torn(self, place: int, expected: int = 0) -> bool:
        """Whether the frame that begins here is the last one, broken off while it was written.

        Then the file ends within it, or has a sector of it that was never written. One that has
        all of its sectors was whole. Frames from the ``expected`` number on are behind it.
        """
        end_of_head = place + self.format.spread_size(place, self.format.head_bytes)
        if self._has_blanks(place, end_of_head):
            return not self._has_later(place, expected)
        if end_of_head > self.size:
            return True
        try:
            end = self._end(place, self._head(place))
        except BadFrameError:
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
        """Whether a later frame than the one expected here was begun: then that was on disk."""
        if not self.format.mark:
            return not self._is_zero(place, self.size)
        for candidate in self._candidates(place + 1):
            with suppress(BadFrameError):
                if self.frame(candidate).number > expected:
                    return True
        return False

    def _candidates(self, start: int) -> Iterator[int]:
        """Where a frame might begin."""
        for piece in range(start, self.size, PIECE_BYTES):
            data = self.read(piece, PIECE_BYTES)
            at = data.find(_MARK[:1])
            while at >= 0:
                yield piece + at
                at = data.find(_MARK[:1], at + 1)
