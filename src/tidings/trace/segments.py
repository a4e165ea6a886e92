"""A history as a node writes it while it runs: blocks of rows, expanded when they are read.

At the speed of a node a row for every event would cost more than the event. So a tick is one
block, and in it a stretch of messages of one origin is one item: their first, their number, their
digests. ``p1-1.segment``, ``p1-2.segment`` and so on are the history of p1; the last one is
``p1-3.segment.open`` while p1 writes it, and stays so if p1 is killed. A segment is

    tidings trace 3 frames 2\\n     what this is, its schema, and its format
    frames                         one per write (disk/frames.py), numbered by their places

The first frame says which run and process it belongs to, the others have one or more blocks. A
frame that is torn is the end of a segment that is still open; anywhere else it is bad data.

A block stands in the log, too, before it is in the trace, so it does not depend on its place:

    length    4 bytes, of the body
    check     4 bytes, XXH32 of the body
    check     4 bytes, XXH32 of the 8 bytes before
    body      msgpack

Before there were frames, segments had such blocks one after the other; these are still read.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import xxhash
from msgspec import Meta

from tidings.core import DataError
from tidings.core.group import natural
from tidings.disk.files import whole_file
from tidings.disk.frames import (
    WRITTEN,
    BadFrameError,
    FileKind,
    FrameFile,
    Head,
    Unmarked,
    packed,
    version_in,
)
from tidings.trace.histories import Histories
from tidings.trace.layout import SEGMENTS
from tidings.trace.schema import (
    READABLE,
    SCHEMA_VERSION,
    Count,
    Kind,
    Name,
    Number,
    Row,
    unreadable,
)

CLOSED, OPEN = SEGMENTS
_TITLE = b"tidings trace "
_HEAD = struct.Struct("!II")
_HEAD_BYTES = _HEAD.size + 4
DIGEST_BYTES = 8


class Messages(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What happened to consecutive messages of one origin, one by one."""

    kind: Kind
    origin: Name
    first: Count
    count: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    digests: bytes = b""
    view: Count | None = None

    @property
    def rows(self) -> int:
        return self.count


class Packets(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One packet, and with whom it was exchanged under which numbers."""

    kind: Kind
    peers: tuple[tuple[Name, Count], ...]
    packet_kind: Name
    bytes: Count
    origin: Name | None = None
    seq: Count | None = None

    @property
    def rows(self) -> int:
        return len(self.peers)


class Mark(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Something that concerns no message and no packet.

    A ``recover`` tells how far the process had come: of each origin the last message that it had
    delivered, and the last of its own. ``number`` is that of an agreed view.
    """

    kind: Kind
    view: Count | None = None
    delivered: dict[Name, Count] | None = None
    broadcast: Count = 0
    number: Count | None = None

    @property
    def rows(self) -> int:
        return 1


class Gap(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What happened and could not be written: one row, which takes the places of all of them.

    ``delivered`` and ``broadcast`` say how far the process came meanwhile: the last message of
    each origin that it delivered, and the last of its own, or 0.
    """

    kind: Kind
    count: Annotated[int, Meta(ge=1, le=2**62)]
    delivered: dict[Name, Count] = {}
    broadcast: Count = 0

    @property
    def rows(self) -> int:
        return self.count


Item = Messages | Packets | Mark | Gap


class Block(msgspec.Struct, frozen=True, array_like=True):
    """What happened in one tick."""

    index: Count
    time_ns: Number
    incarnation: Count
    items: tuple[Item, ...]

    @property
    def end(self) -> int:
        """The index that comes after it."""
        return self.index + sum([item.rows for item in self.items])


class _Blocks(Unmarked):
    """Segments from before there were frames: every block has its own checks."""

    mark = b""
    head_bytes = _HEAD_BYTES

    def head(self, content: bytes) -> Head | None:
        is_whole = xxhash.xxh32_digest(content[: _HEAD.size]) == content[_HEAD.size :]
        return Head(0, *_HEAD.unpack_from(content)) if is_whole else None

    def check(self, body: memoryview, place: int) -> int:
        return xxhash.xxh32_intdigest(body)


def _refusal(begin: bytes) -> str:
    version = version_in(begin, _TITLE)
    is_readable = version is None or version in READABLE
    return "not a segment of a trace" if is_readable else unreadable(version)


_TRACE = FileKind(
    b"%s%d frames 2\n" % (_TITLE, SCHEMA_VERSION),
    {b"%s%d\n" % (_TITLE, version): _Blocks() for version in (1, 2)}
    | {b"%s2 frames 2\n" % _TITLE: WRITTEN},
    _refusal,
)


class Owner(msgspec.Struct, frozen=True, array_like=True):
    run: Name
    process: Name


_encode = msgspec.msgpack.Encoder().encode
_decode_block = msgspec.msgpack.Decoder(Block).decode
_decode_owner = msgspec.msgpack.Decoder(Owner).decode


# --- writing


def beginning(owner: Owner) -> bytes:
    """What a segment begins with."""
    return _TRACE.line + framed(_encode(owner), len(_TRACE.line))


def encoded(block: Block) -> bytes:
    """A block as it stands in a frame, and in the log."""
    body = _encode(block)
    head = _HEAD.pack(len(body), xxhash.xxh32_intdigest(body))
    return b"".join((head, xxhash.xxh32_digest(head), body))


def framed(blocks: bytes, place: int) -> bytes:
    """Encoded blocks as they stand in a segment from this place on."""
    return packed(place, place, blocks)


def whole_segment(owner: Owner, *blocks: Block) -> bytes:
    """A whole segment."""
    data = beginning(owner)
    for block in blocks:
        data += framed(encoded(block), len(data))
    return data


def segments_of(folder: Path, process: str) -> list[Path]:
    """The segments of one process, in their order."""
    begin = f"{process}-"
    found = [
        path
        for path in folder.glob("*" + CLOSED + "*")
        if path.name.endswith(SEGMENTS)
        and path.name.startswith(begin)
        and path.name.removeprefix(begin).partition(".")[0].isdigit()
    ]
    return sorted(found, key=lambda path: natural(path.name))


def next_segment(folder: Path, process: str) -> Path:
    """The name of a segment that does not exist yet, under which it will be closed."""
    last = segments_of(folder, process)[-1:]
    numbers = [int(path.name.removeprefix(f"{process}-").partition(".")[0]) for path in last]
    return folder / f"{process}-{max(numbers, default=0) + 1}{CLOSED}"


def opened(path: Path) -> Path:
    """What a segment is called while it is written."""
    return path.with_name(path.name + ".open")


def settle(folder: Path, run: str, processes: Iterable[str], time_ns: int) -> None:
    """The runner's last word: load and faults are over, and these were up and have said it all.

    Written when they have stopped, as one more segment of each; nothing is written if it cannot
    be so of one of them.
    """
    ends = {process: last_block(folder, run, process) for process in processes}
    for process, last in ends.items():
        if is_settled(last):
            raise DataError(f"{folder}: {process} is settled already")
    for process, last in ends.items():
        index, life = (last.end, last.incarnation) if last is not None else (0, 0)
        block = Block(index, time_ns, life, (Mark("settle"),))
        with whole_file(next_segment(folder, process)) as draft:
            draft.write_bytes(whole_segment(Owner(run, process), block))


def is_settled(last: Block | None) -> bool:
    """Whether a history that ends with this block has its runner's last word."""
    return last is not None and last.items[-1:] == (Mark("settle"),)


def has_left(last: Block | None) -> bool:
    """Whether a history that ends with this block is that of a member that was removed."""
    return last is not None and isinstance(end := last.items[-1], Mark) and end.kind == "leave"


def last_block(folder: Path, run: str, process: str) -> Block | None:
    """How the history of a process in this run ends; None if nothing has ever happened to it."""
    paths = segments_of(folder, process)
    if not paths:
        raise DataError(f"{folder}: {process} left no segments here")
    for path in reversed(paths):
        reader = Reader(path)
        last = deque(reader.blocks(), maxlen=1)
        if reader.owner is not None and reader.owner != Owner(run, process):
            theirs = reader.owner
            raise DataError(
                f"{path}: of {theirs.process} in run {theirs.run}, not of {process} in run {run}"
            )
        if last:  # otherwise it was begun just before the end
            return last[0]
    return None


# --- reading


class VanishedError(DataError):
    """A segment was deleted by the member that wrote it."""


class Reader:
    """One segment, open or closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_open = path.name.endswith(OPEN)
        self.owner: Owner | None = None
        """Whose history it is; None in a segment that was opened and then nothing."""
        self.is_current = False
        """Whether it is of the format that is written now, once its first line is read."""
        self.whole = 0
        """How many bytes of the file are whole frames, once all are read."""

    def blocks(self) -> Iterator[Block]:
        with self._opened() as file:
            if not file.has_a_first_line(self.is_open):
                return
            self.is_current, self.whole = file.is_current, file.first
            number = 0
            try:
                for frame in file.frames(file.first, may_be_torn=self.is_open):
                    if number == 0:
                        self.owner = _decode_owner(frame.body)
                        number = 1
                    else:
                        is_block = file.format is not WRITTEN
                        for body in (frame.body,) if is_block else _bodies(frame.body):
                            yield _checked(_decode_block(body))
                            number += 1
                    self.whole = frame.end
            except BadFrameError as bad:
                raise DataError(f"{self.path}: {bad}") from None
            except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, DataError) as fault:
                raise DataError(f"{self.path}: block {number}: {fault}") from None
        if self.owner is None and not self.is_open:
            raise DataError(f"{self.path}: cut off before its first block")

    def whole_end(self, begin: int, most: int) -> int:
        """Where the last of the frames from ``begin`` on ends that fit into ``most`` bytes.

        One at least, if it is whole. What is torn, or being written, waits; 0 is the beginning.
        """
        with self._opened() as file:
            if not file.has_a_first_line(self.is_open):
                return begin
            start = begin or file.first
            try:
                end = file.whole_end(start, start + most, may_be_torn=self.is_open)
            except BadFrameError as bad:
                raise DataError(f"{self.path}: {bad}") from None
            return begin if end == file.first else end

    def blocks_between(self, begin: int, end: int) -> Iterator[Block]:
        """Those of the frames between two places that ``whole_end`` has named."""
        place = begin
        with self._opened() as file:
            try:
                file.has_a_first_line(may_be_torn=False)
                of_owner = file.frame(file.first)
                self.owner = _decode_owner(of_owner.body)
                self.is_current = file.is_current
                for frame in file.frames(max(begin, of_owner.end), end):
                    place = frame.start
                    for body in _bodies(frame.body) if self.is_current else (frame.body,):
                        yield _checked(_decode_block(body))
            except BadFrameError as bad:
                raise DataError(f"{self.path}: {bad}") from None
            except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, DataError) as fault:
                raise DataError(f"{self.path}: the frame at byte {place:,}: {fault}") from None

    def _opened(self) -> FrameFile:
        """Under its other name, if its writer has closed it meanwhile, or goes on in it."""
        closed = self.path.with_name(self.path.name.removesuffix(".open"))
        for path in (self.path, closed, opened(closed)):
            with suppress(FileNotFoundError):
                file = FrameFile(path, _TRACE)
                self.path, self.is_open = path, path.name.endswith(OPEN)
                return file
        raise VanishedError(
            f"{self.path}: it is gone: a member that still runs deletes its segments; try again, "
            "or read a copy"
        )


def _checked(block: Block) -> Block:
    for item in block.items:
        if isinstance(item, Messages) and len(item.digests) not in (0, DIGEST_BYTES * item.count):
            raise DataError(f"{len(item.digests)} bytes of digests for {item.count} messages")
    return block


def blocks_in(data: bytes) -> Iterator[Block]:
    """Blocks as ``encoded`` made them, one after the other."""
    return map(_decode_block, _bodies(memoryview(data)))


def _bodies(blocks: memoryview) -> Iterator[memoryview]:
    start = 0
    while start < len(blocks):
        length, _ = _HEAD.unpack_from(blocks, start)
        start += _HEAD_BYTES + length
        yield blocks[start - length : start]


def read_rows(path: Path, into: Histories) -> None:
    into.begin_file()
    reader = Reader(path)
    for block in reader.blocks():
        owner = reader.owner
        assert owner is not None, f"{path}: blocks of nobody"
        if into.passes_over(owner.run, owner.process, block.end):
            continue
        try:
            for row in expanded(owner, block):
                into.add(row)
        except DataError as fault:
            raise DataError(f"{path}: {fault}") from None


def expanded(owner: Owner, block: Block) -> Iterator[Row]:
    """The rows that a block stands for."""
    index = block.index
    for item in block.items:
        for place, columns in enumerate(_columns(item, index)):
            yield Row(
                run=owner.run,
                process=owner.process,
                index=index + place,
                kind=item.kind,
                time_ns=block.time_ns,
                incarnation=block.incarnation,
                **{name: value for name, value in columns.items() if value is not None},
            )
        index += item.rows


def _columns(item: Item, index: int) -> Iterator[dict[str, Any]]:
    match item:
        case Messages(_, origin, first, count, digests, view):
            for place in range(count):
                digest = digests[DIGEST_BYTES * place : DIGEST_BYTES * (place + 1)].hex()
                yield {
                    "origin": origin,
                    "seq": first + place,
                    "digest": digest or None,
                    "view": view,
                }
        case Packets(_, peers, packet_kind, size, origin, seq):
            for peer, number in peers:
                yield {
                    "peer": peer,
                    "packet": number,
                    "packet_kind": packet_kind,
                    "bytes": size,
                    "origin": origin,
                    "seq": seq,
                }
        case Mark(_, view, delivered, broadcast, number):
            yield {
                "view": view,
                "vector": delivered,
                "seq": broadcast or None,
                "value": number,
            }
        case Gap(_, count, delivered, broadcast):
            yield {
                "value": index + count - 1,
                "vector": delivered or None,
                "seq": broadcast or None,
            }
