"""A history as a node writes it while it runs: blocks of rows, expanded when they are read.

At the speed of a node a row for every event would cost more than the event. So a tick is one
block, and in it a stretch of messages of one origin is one item: their first, their number, their
digests. ``p1-1.segment``, ``p1-2.segment`` and so on are the history of p1; the last one is
``p1-3.segment.open`` while p1 writes it, and stays so if p1 is killed. A segment is

    tidings trace 2\\n     what this is, and its schema
    blocks                length of the body, XXH32 of the body, XXH32 of these two, four bytes
                          each; then the body in msgpack

Its first block says which run and process it belongs to. A block that is not whole is the torn
end of a segment that is still open; anywhere else it is bad data.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import xxhash
from msgspec import Meta

from tidings.core import DataError
from tidings.core.group import natural
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
_FIRST_LINE = b"%s%d\n" % (_TITLE, SCHEMA_VERSION)
_FIRST_LINES = tuple(b"%s%d\n" % (_TITLE, version) for version in READABLE)
_HEAD = struct.Struct("!II")
_BLOCK = _HEAD.size + 4
DIGEST_BYTES = 8
_FEW = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_MANY = Annotated[int, Meta(ge=1, le=2**62)]


class Messages(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What happened to consecutive messages of one origin, one by one."""

    kind: Kind
    origin: Name
    first: Count
    count: _FEW
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
    delivered, and the last of its own.
    """

    kind: Kind
    view: Count | None = None
    delivered: dict[Name, Count] | None = None
    broadcast: Count = 0

    @property
    def rows(self) -> int:
        return 1


class Gap(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What happened and could not be written: one row, which takes the places of all of them.

    ``delivered`` and ``broadcast`` say how far the process came meanwhile: the last message of
    each origin that it delivered, and the last of its own, or 0.
    """

    kind: Kind
    count: _MANY
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
        return self.index + sum(item.rows for item in self.items)


class Owner(msgspec.Struct, frozen=True, array_like=True):
    run: Name
    process: Name


_encode = msgspec.msgpack.Encoder().encode
_decode_block = msgspec.msgpack.Decoder(Block).decode
_decode_owner = msgspec.msgpack.Decoder(Owner).decode


# --- writing


def beginning(owner: Owner) -> bytes:
    return _FIRST_LINE + _framed(_encode(owner))


def encoded(block: Block) -> bytes:
    """A block as it stands in the file."""
    return _framed(_encode(block))


def _framed(body: bytes) -> bytes:
    head = _HEAD.pack(len(body), xxhash.xxh32_intdigest(body))
    return b"".join((head, xxhash.xxh32_digest(head), body))


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
        path = next_segment(folder, process)
        opened(path).write_bytes(beginning(Owner(run, process)) + encoded(block))
        opened(path).rename(path)


def is_settled(last: Block | None) -> bool:
    """Whether a history that ends with this block has its runner's last word."""
    return last is not None and last.items[-1:] == (Mark("settle"),)


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


class Reader:
    """One segment, open or closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_open = path.name.endswith(OPEN)
        self.owner: Owner | None = None
        """Whose history it is; None in a segment that was opened and then nothing."""
        self.is_current = False
        """Whether it is of the version that is written now, once its first line is read."""
        self.whole = 0
        """How many bytes of the file are whole blocks, once all are read."""

    def blocks(self) -> Iterator[Block]:
        with self._opened() as file:
            line = file.readline(len(_FIRST_LINE))
            if line not in _FIRST_LINES:
                self._refuse_or_end(line)
                return
            self.is_current = line == _FIRST_LINE
            self.whole = len(line)
            number = 0
            while (body := self._body(file, number)) is not None:
                try:
                    if number == 0:
                        self.owner = _decode_owner(body)
                    else:
                        yield _checked(_decode_block(body))
                except (msgspec.MsgspecError, UnicodeDecodeError, DataError) as fault:
                    raise DataError(f"{self.path}: block {number}: {fault}") from None
                self.whole += _BLOCK + len(body)
                number += 1
        if self.owner is None and not self.is_open:
            raise DataError(f"{self.path}: cut off before its first block")

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            raise DataError(
                f"{self.path}: it is gone: a member that still runs closes and deletes its "
                "segments; try again, or read a copy"
            ) from None

    def _refuse_or_end(self, line: bytes) -> None:
        if self.is_open and any(first.startswith(line) for first in _FIRST_LINES):
            return
        title, _, version = line.rstrip(b"\n").rpartition(b" ")
        if title + b" " == _TITLE and version.isdigit():
            raise DataError(f"{self.path}: {unreadable(int(version))}")
        raise DataError(f"{self.path}: not a segment of a trace")

    def _body(self, file: BinaryIO, number: int) -> bytes | None:
        """The next body; None at the end, torn or not."""
        head = file.read(_BLOCK)
        if not head:
            return None
        is_torn = len(head) < _BLOCK
        if not is_torn and xxhash.xxh32_digest(head[: _HEAD.size]) == head[_HEAD.size :]:
            length, check = _HEAD.unpack_from(head)
            body = file.read(length)
            if len(body) == length and check == xxhash.xxh32_intdigest(body):
                return body
            is_torn = len(body) < length
        if self.is_open and (is_torn or not (head + file.read()).strip(b"\0")):
            return None
        raise DataError(f"{self.path}: block {number}: {'cut off' if is_torn else 'damaged'}")

    def rows(self) -> Iterator[Row]:
        for block in self.blocks():
            assert self.owner is not None, f"{self.path}: blocks of nobody"
            yield from expanded(self.owner, block)


def _checked(block: Block) -> Block:
    for item in block.items:
        if isinstance(item, Messages) and len(item.digests) not in (0, DIGEST_BYTES * item.count):
            raise DataError(f"{len(item.digests)} bytes of digests for {item.count} messages")
    return block


def blocks_in(data: bytes) -> Iterator[tuple[Block, bytes]]:
    """Blocks as ``encoded`` made them, one after the other: each, and its bytes."""
    start = 0
    while start < len(data):
        length, _ = _HEAD.unpack_from(data, start)
        end = start + _BLOCK + length
        yield _decode_block(data[start + _BLOCK : end]), data[start:end]
        start = end


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
        case Mark(_, view, delivered, broadcast):
            yield {"view": view, "vector": delivered, "seq": broadcast or None}
        case Gap(_, count, delivered, broadcast):
            yield {
                "value": index + count - 1,
                "vector": delivered or None,
                "seq": broadcast or None,
            }
