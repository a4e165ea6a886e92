"""The files of the log, and what stands where in them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.core import DataError, Process
from tidings.disk.files import UNREADABLE, explained
from tidings.disk.frames import BadFrameError, FileKind, FrameFile, Unmarked, version_in
from tidings.node.log.entries import (
    Beginning,
    CommitEntry,
    Identity,
    Ranges,
    first_view,
    merge,
)
from tidings.node.log.upgrading import Readable, upgraded

_TITLE = b"tidings log "
FIRST_LINE = _TITLE + b"2\n"
NAMES = "[0-9]" * 8 + ".log"
"""Whatever else lies in the folder is somebody else's."""


def _refusal(begin: bytes) -> str:
    version = version_in(begin, _TITLE)
    if version is None:
        return "not a log of tidings"
    return f"log format {version}, this tidings reads 1 and 2"


LOG = FileKind(FIRST_LINE, {_TITLE + b"1\n": Unmarked()}, _refusal)


class LogPage(msgspec.Struct):
    """A stretch of a file, and which messages stand in it: read whole, or not at all."""

    start: int
    end: int
    held: Ranges

    def has(self, origin: str, first: int, last: int) -> bool:
        low, high = self.held.get(origin, (1, 0))
        return low <= last and first <= high


class Segment(msgspec.Struct):
    """One file, where what stands in it, and what it takes to throw it away."""

    path: Path
    page_bytes: int
    """About how much of it is read back whole."""
    is_current: bool = True
    """Whether it is of the format that is written now."""
    bytes: int = len(FIRST_LINE)
    messages: int = 0
    held: Ranges = {}
    pages: list[LogPage] = []
    written_s: float = 0.0
    index: int = 0
    """Which place in the history of the member comes next where it begins."""

    @property
    def number(self) -> int:
        return int(self.path.stem)

    def is_needless(self, forgotten: Mapping[str, int]) -> bool:
        held = self.held.copy()  # another thread may be adding to it
        return all(last <= forgotten.get(origin, 0) for origin, (_, last) in held.items())

    def add(self, size: int, entry: Beginning | CommitEntry) -> None:
        """One more entry at the end."""
        if not self.pages and isinstance(entry, Beginning):
            self.index = entry.index
        if not self.pages or self.pages[-1].end - self.pages[-1].start >= self.page_bytes:
            self.pages.append(LogPage(self.bytes, self.bytes, {}))
        self.bytes += size
        self.pages[-1].end = self.bytes
        if isinstance(entry, CommitEntry):
            self.messages += entry.messages
            merge(self.held, entry.held)
            merge(self.pages[-1].held, entry.held)


class Decoders:
    """Entries, and the records of one protocol."""

    def __init__(self, kind: type[Process]) -> None:
        self.entry = msgspec.msgpack.Decoder(Beginning | CommitEntry).decode
        self.upgrades = kind.changes
        """Whether the log may have begun before the group could change."""
        record = Readable if kind.changes else record_type(kind)
        self._decode = msgspec.msgpack.Decoder(tuple[record, ...]).decode  # type: ignore[valid-type]

    def records(self, encoded: msgspec.Raw) -> tuple[Any, ...]:
        records: tuple[Any, ...] = self._decode(encoded)
        return tuple(upgraded(records)) if self.upgrades else records

    def entries(self, path: Path, start: int, end: int) -> Iterator[Beginning | CommitEntry]:
        """What stands in this stretch of a file, which was whole when it was last read."""
        with explained(path, UNREADABLE), FrameFile(path, LOG) as file:
            try:
                for frame in file.frames(start, end):
                    yield self.entry(frame.body)
            except BadFrameError as bad:
                raise DataError(f"{path}: {bad}") from None


class Records:
    """Everything that earlier lives persisted, in order.

    It may be more than fits into memory; so it is read from the disk, an entry at a time, whenever
    somebody goes through it.
    """

    def __init__(self, segments: Sequence[Segment], decode: Decoders) -> None:
        following = [*(segment.index for segment in segments[1:]), sys.maxsize]
        self._parts = [
            (one.path, one.bytes, end) for one, end in zip(segments, following, strict=True)
        ]
        """The files, how long they are (the last one will go on to grow), and where in the history
        of the member each ends."""
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        has_begun = False
        for path, size, _ in self._parts:
            for entry in self._decode.entries(path, len(FIRST_LINE), size):
                if not has_begun and self._decode.upgrades:
                    yield from first_view(entry)
                has_begun = True
                yield from self._decode.records(entry.records)

    def blocks(self, since: int) -> Iterator[bytes]:
        """The trace of what happened from this index on, and perhaps of some that came before."""
        for path, size, end in self._parts:
            if end > since:
                for entry in self._decode.entries(path, len(FIRST_LINE), size):
                    if isinstance(entry, CommitEntry) and entry.block:
                        yield entry.block


class Recovered(msgspec.Struct, frozen=True):
    """What earlier lives left behind."""

    identity: Identity
    records: Any
    """``Records``; a process goes through them as if they were a tuple."""
    index: int
    """Which place in the history of the member comes next, unless the records go further."""
    delivered: dict[str, int]
    """Of each origin the last message that was delivered."""
    address: str = ""
    """Where the member was reached, if the group file does not say it."""


def record_type(kind: type[Process]) -> Any:
    """What a process of this class persists: the ``Record`` of its module, or of a base's."""
    modules = [sys.modules[each.__module__] for each in kind.__mro__]
    return next((vars(module)["Record"] for module in modules if "Record" in vars(module)), None)
