"""A node's own trace: every tick is one block, written before anything of it leaves the node.

The order within a tick is: commit, trace, frames, hand-over. Whatever of it survives a kill, the
next life can complete: what the trace lacks, the log has, since a commit holds the blocks of what
it makes happen (trace/segments.py has the format).
"""

import fcntl
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from tidings.core import EnvironmentMissing, MessageId, UsageError
from tidings.node.config import Config
from tidings.node.log import Records
from tidings.trace import Manifest
from tidings.trace.layout import whole_file
from tidings.trace.schema import DIGEST, SCHEMA_VERSION
from tidings.trace.segments import (
    Block,
    Item,
    Mark,
    Owner,
    Reader,
    beginning,
    blocks_in,
    encoded,
    next_segment,
    opened,
    segments_of,
)

Stretch = tuple[str, int, int]
"""An origin, the first of its messages, and how many follow each other from there."""

VIEW = 0
"""The only member list there is until groups can change."""

assert DIGEST == "xxh64-42"
_digest = xxhash.xxh64_digest


def stretches(ids: Iterable[MessageId]) -> list[Stretch]:
    """Ids in their order, what follows each other told as one."""
    found: list[Stretch] = []
    origin, first, after = "", 0, 0
    for its_origin, seq in ids:
        if seq == after and its_origin == origin:
            after += 1
            continue
        if after > first:
            found.append((origin, first, after - first))
        origin, first, after = its_origin, seq, seq + 1
    if after > first:
        found.append((origin, first, after - first))
    return found


def digests(texts: Iterable[bytes]) -> bytes:
    return b"".join([_digest(text, 42) for text in texts])


class Tracer:
    """Writes the segments of one life of one member.

    The open one is locked: whoever finds one that is not knows that its writer was killed.
    """

    def __init__(self, config: Config, member: str, life: int, index: int) -> None:
        self.index = index
        self._folder = config.trace_folder
        self._owner = Owner(config.name, member)
        self._life = life
        self._limit = config.trace.segment_bytes
        self._file = -1
        self._size = 0
        self._path = self._folder
        self._begin_segment()

    def block(self, items: Sequence[Item]) -> bytes:
        """What happened, as it will stand in the trace; from here on its places are taken."""
        block = Block(self.index, time.time_ns(), self._life, tuple(items))
        self.index = block.end
        return encoded(block)

    def write(self, blocks: bytes) -> None:
        """To the kernel: from here on a kill cannot lose it."""
        try:
            written = os.write(self._file, blocks)
            while written < len(blocks):
                written += os.write(self._file, blocks[written:])
        except OSError as fault:
            raise EnvironmentMissing(f"{self._path}: {fault.strerror}") from None
        self._size += len(blocks)
        if self._size > self._limit:
            self.close()
            self._begin_segment()

    def go_to(self, index: int) -> None:
        """Go on at this index. What is missing before it is lost, as if a segment were."""
        if index > self.index:
            self.close()
            self._begin_segment()
            self.index = index

    def sync(self) -> None:
        os.fdatasync(self._file)

    def close(self) -> None:
        """The segment is complete and gets its name."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            opened(self._path).rename(self._path)

    def _begin_segment(self) -> None:
        self._path = next_segment(self._folder, self._owner.process)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        try:
            self._file = os.open(opened(self._path), flags, 0o644)
        except OSError as fault:
            raise EnvironmentMissing(f"{opened(self._path)}: {fault.strerror}") from None
        with suppress(OSError):  # not every file system can
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._size = 0
        self.write(beginning(self._owner))


def begin(config: Config, member: str) -> Tracer:
    """The trace of a member that was never here before, or was killed before it did anything."""
    _write_manifest(config, member)
    earlier = segments_of(config.trace_folder, member)
    if any(True for path in earlier for _ in Reader(path).blocks()):
        if config.durable:
            # A life writes to its log before it writes to its trace.
            raise EnvironmentMissing(
                f"{config.data / member} is gone, and {member} has been here before: its trace is "
                f"in {config.trace_folder}. Who lost its disk cannot return to its group: the "
                "others go on without it, or a new group begins, with folders of its own"
            )
        raise UsageError(
            f"{config.trace_folder}: here is the trace of an earlier {member}, which kept nothing "
            "else; move it away first"
        )
    return Tracer(config, member, life=0, index=0)


def resume(config: Config, member: str, life: int, index: int, logged: Records) -> Tracer:
    """The trace of a member that comes back: completed from its log, then ``recover``."""
    _write_manifest(config, member)
    traced = _close_what_a_kill_left(config.trace_folder, member)
    tracer = Tracer(config, member, life, index=traced)
    for block, data in (one for commit in logged.blocks(traced) for one in blocks_in(commit)):
        if block.index >= tracer.index:
            tracer.go_to(block.index)
            tracer.write(data)
            tracer.index = block.end
    tracer.go_to(max(index, tracer.index))
    tracer.write(tracer.block([Mark("recover")]))
    return tracer


def _close_what_a_kill_left(folder: Path, member: str) -> int:
    """Cut off the torn end of the last segment and close it; the index that comes next."""
    for path in reversed(segments_of(folder, member)):
        reader = Reader(path)
        ends = [block.end for block in reader.blocks()]
        if reader.is_open and not ends:
            path.unlink()  # opened, and then nothing
        elif reader.is_open:
            os.truncate(path, reader.whole)
            path.rename(path.with_name(path.name.removesuffix(".open")))
        if ends:
            return ends[-1]
    return 0


def _write_manifest(config: Config, member: str) -> None:
    """This member's part; the same in every life."""
    part = Manifest(
        schema=SCHEMA_VERSION,
        run=config.name,
        names=config.members,
        views=(config.members,),
        process=member,
        protocol=config.protocol,
        options=config.options,
        clock="wall",
    )
    path = config.trace_folder / f"{member}.manifest.jsonl"
    try:
        with whole_file(path) as draft:
            draft.write_bytes(msgspec.json.encode(part) + b"\n")
    except OSError as fault:
        raise EnvironmentMissing(
            f"{path}: {fault.strerror}; the trace needs a folder to write to: see trace.folder in "
            "the group file"
        ) from None
