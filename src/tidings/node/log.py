"""The durable log of one member: what it was told to persist, on disk before anything relies on it.

A folder of segments, ``00000001.log`` and so on, each of them

    tidings log 1\\n     what this is, and its format
    entries             one per commit

and an entry is

    mark      4 bytes
    number    8 bytes, counted over all segments
    length    4 bytes, of the body
    check     8 bytes, XXH64 of the body, seeded with its place
    check     4 bytes, XXH32 of the 24 bytes before
    body      msgpack

The first entry of a segment says whose log this is and stands for everything older that is still
needed, except the messages; so the oldest segments can be thrown away as soon as nobody needs
their messages any more.

One commit is one entry: after a crash it is there or not, never in part. Only the last entry can
be torn, since the next is begun when the one before it is on disk. It is torn if the file ends
within it, or if a stretch of it was never written and reads as zeros. A torn entry was never
acknowledged by anybody and is cut off. Anything else that does not match its check is damage, and
nobody can say what it was: the log is refused.

Why not sqlite: it takes about twice as long for a commit (bench/log.py).
"""

import fcntl
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from tidings.core import DataError, EnvironmentMissing, Members, Process
from tidings.node.config import Retention

FORMAT = 1
_TITLE = b"tidings log "
_FIRST_LINE = b"%s%d\n" % (_TITLE, FORMAT)
_MARK = b"\xf7log"
_HEAD = struct.Struct("!4sQIQ")
_HEAD_CHECK = struct.Struct("!I")
_ENTRY = _HEAD.size + _HEAD_CHECK.size
_SECTOR = 512
_PAGE = 256 * 1024
MEND = "nothing that anybody relies on is lost: mend the disk and start again"
RECALL_BYTES = 1024 * 1024
"""About how much is read back at a time."""

Ranges = dict[str, tuple[int, int]]
"""Of each origin a first and a last message."""
_encode = msgspec.msgpack.Encoder().encode
_NO_RETURN = "this member cannot return to its group (docs/node.md, Who lost its disk)"


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
        if self.traced != file.traced:
            began, now = (str(one.traced).lower() for one in (self, file))
            return f"the log has trace.on = {began}, the group file {now}; {back}"
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


class Page(msgspec.Struct):
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
    bytes: int = 0
    messages: int = 0
    held: Ranges = {}
    pages: list[Page] = []
    written_s: float = 0.0
    index: int = 0
    """Which place in the history of the member comes next where it begins."""

    @property
    def number(self) -> int:
        return int(self.path.stem)

    def is_needless(self, forgotten: Mapping[str, int]) -> bool:
        return all(last <= forgotten.get(origin, 0) for origin, (_, last) in self.held.items())

    def add(self, size: int, held: Ranges, messages: int) -> None:
        """One more entry at the end."""
        if not self.pages or self.pages[-1].end - self.pages[-1].start >= _PAGE:
            self.pages.append(Page(self.bytes, self.bytes, {}))
        self.bytes += size
        self.messages += messages
        self.pages[-1].end = self.bytes
        merge(self.held, held)
        merge(self.pages[-1].held, held)


def merge(into: Ranges, more: Ranges) -> None:
    for origin, (first, last) in more.items():
        low, high = into.get(origin, (first, last))
        into[origin] = (min(low, first), max(high, last))


class Decoders:
    """Entries, and the records of one protocol."""

    def __init__(self, kind: type[Process]) -> None:
        self.entry = msgspec.msgpack.Decoder(Beginning | Commit).decode
        self.records = msgspec.msgpack.Decoder(tuple[record_type(kind), ...]).decode  # type: ignore[misc]

    def entries(self, path: Path, start: int, end: int) -> Iterator[Beginning | Commit]:
        """What stands in this stretch of a file, which was whole when it was last read."""
        with _told(path), path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        place = 0
        while place < len(data):
            try:
                _, body = _parse(data, place, place=start + place)
            except _Bad as bad:
                raise DataError(f"{path}: damaged at byte {start + place:,}: {bad}") from None
            yield self.entry(body)
            place += _ENTRY + len(body)


class Records:
    """Everything that earlier lives persisted, in order.

    It may be more than fits into memory; so it is read from the disk whenever somebody goes
    through it.
    """

    def __init__(self, segments: Sequence[Segment], decode: Decoders) -> None:
        self._segments = tuple(segments)
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        for segment in self._segments:
            for entry in self._entries(segment):
                yield from self._decode.records(entry.records)

    def blocks(self, since: int) -> Iterator[bytes]:
        """The trace of what happened from this index on, and perhaps of some that came before."""
        for number, segment in enumerate(self._segments, start=1):
            is_last = number == len(self._segments)
            if is_last or self._segments[number].index > since:
                for entry in self._entries(segment):
                    if isinstance(entry, Commit) and entry.block:
                        yield entry.block

    def _entries(self, segment: Segment) -> Iterator[Beginning | Commit]:
        end = segment.pages[0].start if segment.pages else segment.bytes
        yield from self._decode.entries(segment.path, len(_FIRST_LINE), end)
        for page in segment.pages:
            yield from self._decode.entries(segment.path, page.start, page.end)


class Recovered(msgspec.Struct, frozen=True):
    """What earlier lives left behind."""

    identity: Identity
    records: Any
    """``Records``; a process goes through them as if they were a tuple."""
    index: int
    """Which place in the history of the member comes next, unless the records go further."""
    delivered: dict[str, int]
    """Of each origin the last message that was delivered."""


def record_type(kind: type[Process]) -> Any:
    """What a process of this class persists: the ``Record`` of its module, or of a base's."""
    modules = [sys.modules[each.__module__] for each in kind.__mro__]
    return next((vars(module)["Record"] for module in modules if "Record" in vars(module)), None)


class Log:
    """Made by ``open_log``; every failure to write is final, since nothing is known after it."""

    def __init__(
        self,
        folder: Path,
        about: About,
        identity: Identity,
        segments: list[Segment],
        number: int,
        decode: Decoders,
    ) -> None:
        self.about = about
        self.identity = identity
        self.size = sum(segment.bytes for segment in segments)
        """In bytes."""
        self._folder = folder
        self._segments = segments
        self._number = number
        self._decode = decode
        self._delivered: dict[str, int] = {}
        self._file = -1
        self._lock = -1

    @property
    def segment_size(self) -> int:
        """Of the segment that is being written."""
        return self._segments[-1].bytes

    def commit(
        self,
        records: tuple[Any, ...],
        block: bytes = b"",
        held: Ranges | None = None,
        messages: int = 0,
        delivered: dict[str, int] | None = None,
    ) -> None:
        """Write, and return when it is on disk."""
        raw = msgspec.Raw(_encode(records))
        self._append(Commit(raw, block, held or {}, messages, delivered or {}))
        self._delivered |= delivered or {}

    def begin_segment(self, records: tuple[Any, ...], index: int, needless: int = 0) -> None:
        """Go on in a new file; the records stand for all before them, except the messages.

        When it is on disk, so many of the oldest segments are thrown away. It says so itself:
        whoever misses one that is needed will know.
        """
        self.close_file()
        number = self._segments[-1].number + 1 if self._segments else 1
        path = self._folder / f"{number:08}.log"
        with _told(path):
            self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            os.write(self._file, _FIRST_LINE)
        self._segments.append(Segment(path, bytes=len(_FIRST_LINE), index=index))
        self.size += len(_FIRST_LINE)
        raw = msgspec.Raw(_encode(records))
        oldest = self._segments[needless].number
        self._append(Beginning(self.about, self.identity, index, self._delivered, raw, oldest))
        with _told(path):
            _sync_folder(self._folder)
        for segment in self._segments[:needless]:
            with _told(segment.path):
                segment.path.unlink()
            self.size -= segment.bytes
        del self._segments[:needless]

    def _append(self, entry: Beginning | Commit) -> None:
        segment = self._segments[-1]
        data = _entry(self._number, segment.bytes, _encode(entry))
        with _told(segment.path):
            _write_all(self._file, data)
            os.fdatasync(self._file)
        self._number += 1
        self.size += len(data)
        segment.written_s = time.time()
        if isinstance(entry, Commit):
            segment.add(len(data), entry.held, entry.messages)
        else:
            segment.bytes += len(data)

    def first_kept(self, origin: str) -> int | None:
        """The first message of an origin that may still be read back."""
        return min(
            (one.held[origin][0] for one in self._segments if origin in one.held), default=None
        )

    def recall(self, origin: str, first: int, last: int) -> tuple[Any, ...]:
        """The records about these messages, or the first of them if they are many.

        What overtook its predecessors stands before them; so whatever may hold the first one is
        read in any case.
        """
        pages = [
            (not page.has(origin, first, first), page.held[origin], number, page, segment)
            for number, segment in enumerate(self._segments)
            for page in segment.pages
            if page.has(origin, first, last)
        ]
        pages.sort(key=lambda one: one[:3])
        records: list[Any] = []
        size = 0
        for lacks_first, _, _, page, segment in pages:
            if lacks_first and size >= RECALL_BYTES:
                break
            size += page.end - page.start
            for entry in self._decode.entries(segment.path, page.start, page.end):
                records += self._decode.records(entry.records)
        return tuple(records)

    def can_forget(self, forgotten: Mapping[str, int]) -> bool:
        """Whether nobody needs the oldest segment."""
        return self._segments[0].is_needless(forgotten)

    def needless(self, forgotten: Mapping[str, int], retention: Retention, most: int) -> int:
        """How many of the oldest segments nobody needs, nor does retention ask for them.

        It asks in vain while the log has more than ``most`` bytes.
        """
        messages = sum(segment.messages for segment in self._segments)
        size, count = self.size, 0
        for segment in self._segments:
            has_room = size <= most
            messages -= segment.messages
            size -= segment.bytes
            is_asked_for = (
                messages < retention.messages
                or size < retention.bytes
                or time.time() - segment.written_s < retention.age_s
            )
            if not segment.is_needless(forgotten) or (is_asked_for and has_room):
                break
            count += 1
        return count

    def close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def close(self) -> None:
        self.close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def open_log(
    folder: Path, about: About, kind: type[Process], incarnation: int
) -> tuple[Log, Recovered | None]:
    """The log of a member and what it holds; a new one, under this incarnation, if there is none.

    A new segment is begun only by the caller: what it must begin with, the process knows.
    """
    lock = _lock(folder)
    try:
        reader = _Reader(folder, about, kind)
        found = reader.read()
    except BaseException:
        os.close(lock)
        raise
    if found is None:
        identity = Identity(incarnation)
    else:
        identity = Identity(found.identity.incarnation, found.identity.life + 1)
    log = Log(folder, about, identity, reader.segments, reader.number, reader.decode)
    log._lock = lock
    log._delivered = dict(reader.delivered)
    return log, found


# --- reading


class _Reader:
    def __init__(self, folder: Path, about: About, kind: type[Process]) -> None:
        self.about = about
        self.paths = sorted(folder.glob("*.log"))
        self.segments: list[Segment] = []
        self.number = 0
        self.identity: Identity | None = None
        self.index = 0
        self.oldest = 0
        self.delivered: dict[str, int] = {}
        self.decode = Decoders(kind)

    def read(self) -> Recovered | None:
        for path in self.paths:
            self._read_segment(path, is_last=path == self.paths[-1])
        if self.identity is None:
            return None
        if 0 < self.oldest < self.segments[0].number:
            raise DataError(
                f"{self.segments[0].path}: segments before this one are missing, from "
                f"{self.oldest:08}.log on; {_NO_RETURN}"
            )
        records = Records(self.segments, self.decode)
        return Recovered(self.identity, records, self.index, self.delivered)

    def _read_segment(self, path: Path, is_last: bool) -> None:
        with _told(path):
            data = path.read_bytes()
            segment = Segment(path, written_s=path.stat().st_mtime)
        segment.bytes = _check_first_line(path, data, is_last)
        while segment.bytes < len(data):
            try:
                number, body = _parse(data, segment.bytes)
                self._take(segment, path, number, body)
            except _Bad as bad:
                if not (is_last and _is_torn(data, segment.bytes, self.number)):
                    raise DataError(
                        f"{path}: damaged at byte {segment.bytes:,}: {bad}; what was there is "
                        f"lost, and {_NO_RETURN}"
                    ) from None
                break
        self._keep_or_repair(segment, is_last)

    def _keep_or_repair(self, segment: Segment, is_last: bool) -> None:
        with _told(segment.path):
            if segment.bytes <= len(_FIRST_LINE):
                # It was only just begun, and nothing is in it.
                segment.path.unlink()
                return
            if is_last:
                _cut(segment.path, segment.bytes)
        self.segments.append(segment)

    def _take(self, segment: Segment, path: Path, number: int, body: memoryview) -> None:
        try:
            entry = self.decode.entry(body)
            self.decode.records(entry.records)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise DataError(f"{path}: made by another tidings: {fault}") from None
        is_first = segment.bytes == len(_FIRST_LINE)
        if is_first != isinstance(entry, Beginning):
            raise _Bad("an entry that does not belong there")
        if isinstance(entry, Beginning):
            self._begin(path, number, entry)
            segment.bytes += _ENTRY + len(body)
            segment.index = entry.index
        else:
            if number != self.number:
                raise _Bad(f"entry {number} where {self.number} comes next")
            segment.add(_ENTRY + len(body), entry.held, entry.messages)
        self.delivered |= entry.delivered
        self.number = number + 1

    def _begin(self, path: Path, number: int, entry: Beginning) -> None:
        if self.identity is not None and number != self.number:
            raise DataError(f"{path}: a segment before this one is missing")
        if self.identity is not None and entry.identity.incarnation != self.identity.incarnation:
            raise DataError(f"{path}: of somebody else who went by the same name")
        if mismatch := entry.about.mismatch(self.about):
            raise DataError(f"{path}: {mismatch}")
        self.identity = entry.identity
        self.index = entry.index
        self.oldest = entry.oldest


class _Bad(Exception):  # noqa: N818 - never leaves this module
    """An entry that does not match its checks."""


def _check_first_line(path: Path, data: bytes, is_last: bool) -> int:
    """Refuse another format; otherwise, how long the line is, or 0 if it is torn."""
    line = data[: len(_FIRST_LINE)]
    if line == _FIRST_LINE:
        return len(_FIRST_LINE)
    if is_last and _FIRST_LINE.startswith(line):
        return 0
    title, _, version = data.partition(b"\n")[0].rpartition(b" ")
    if title + b" " == _TITLE and version.isdigit():
        raise DataError(f"{path}: log format {int(version)}, this tidings reads {FORMAT}")
    raise DataError(f"{path}: not a log of tidings")


def _parse(data: bytes, start: int, place: int | None = None) -> tuple[int, memoryview]:
    """The number and the body of the entry that begins here, and in its file at this place."""
    end = start + _ENTRY
    if end > len(data):
        raise _Bad("the file ends within an entry")
    mark, number, length, check = _HEAD.unpack_from(data, start)
    (head_check,) = _HEAD_CHECK.unpack_from(data, start + _HEAD.size)
    if mark != _MARK or head_check != _check_of_head(data[start : start + _HEAD.size]):
        raise _Bad("an entry's head is wrong")
    if end + length > len(data):
        raise _Bad("the file ends within an entry")
    body = memoryview(data)[end : end + length]
    if check != xxhash.xxh64_intdigest(body, seed=start if place is None else place):
        raise _Bad("an entry's body is wrong")
    return number, body


def _is_torn(data: bytes, start: int, expected: int) -> bool:
    """Whether the entry that begins here looks like the last one, broken off while written."""
    place = data.find(_MARK, start + 1)
    while place >= 0:
        with suppress(_Bad):
            number, _ = _parse(data, place)
            if number > expected:
                return False  # a later one was begun, so this one had been on disk
        place = data.find(_MARK, place + 1)
    end = len(data)
    with suppress(struct.error):
        head = data[start : start + _HEAD.size]
        mark, _, length, _ = _HEAD.unpack(head)
        (head_check,) = _HEAD_CHECK.unpack_from(data, start + _HEAD.size)
        if mark == _MARK and head_check == _check_of_head(head):
            end = start + _ENTRY + length
            if end > len(data):
                return True
    return len(data) - start < _ENTRY or _has_a_hole(data, start, min(end, len(data)))


def _has_a_hole(data: bytes, start: int, end: int) -> bool:
    """Whether some sector of this stretch, or the rest of the file from its head on, is zero."""
    if not data[start:].strip(b"\0"):
        return True
    first = -(-start // _SECTOR) * _SECTOR
    return any(
        not data[sector : sector + _SECTOR].strip(b"\0") for sector in range(first, end, _SECTOR)
    )


# --- writing


def _entry(number: int, place: int, body: bytes) -> bytes:
    head = _HEAD.pack(_MARK, number, len(body), xxhash.xxh64_intdigest(body, seed=place))
    return b"".join((head, _HEAD_CHECK.pack(_check_of_head(head)), body))


def _check_of_head(head: bytes) -> int:
    return xxhash.xxh32_intdigest(head)


def _write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])


def _cut(path: Path, size: int) -> None:
    """For good: in a segment that is no longer the last, a torn entry would be damage.

    What stays may not be on disk either, if its writer was killed before it could sync; and from
    now on it is relied on.
    """
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _make_folder(folder: Path) -> None:
    """With its parents, and on disk: what stands in a folder is lost with the folder's name."""
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _lock(folder: Path) -> int:
    """Nobody else may write here as long as this file is open, however this process ends."""
    path = folder / "lock"
    with _told(path, "a durable member needs a folder to write to: see data in the group file"):
        _make_folder(folder)
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _own(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _own(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(file, 20).decode(errors="replace")
        raise EnvironmentMissing(f"{path}: in use by process {owner or '?'}") from None
    with _told(path):
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)


class _told:  # noqa: N801 - reads as a statement
    """What the disk refuses is told in one line, with the way out."""

    def __init__(self, path: Path, way_out: str = MEND) -> None:
        self.path = path
        self.way_out = way_out

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, fault: BaseException | None, trace: Any) -> None:
        if isinstance(fault, OSError):
            raise EnvironmentMissing(f"{self.path}: {fault.strerror}; {self.way_out}") from None
