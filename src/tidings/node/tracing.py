"""A node's own trace: every tick is one block, written before anything of it leaves the node.

The order within a tick is: commit, trace, frames, hand-over. Whatever of it survives a kill, the
next life can complete: what the trace lacks, the log has, since a commit holds the blocks of what
it makes happen (trace/segments.py has the format).

A trace that cannot be written does not stop a member, unless its group file asks for that. What is
missing then is one row, a gap, written as soon as that is possible again.
"""

import errno
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tidings.core import DataError, EnvironmentMissing, MessageId, UsageError
from tidings.disk.files import lock, sync, write_all
from tidings.node.config import Config
from tidings.node.errors import Halted, replacing_helps
from tidings.node.keeping import Keeper
from tidings.node.log import Records
from tidings.node.logs import get_logger
from tidings.protocols.views.packets import View
from tidings.trace.schema import DIGESTS
from tidings.trace.segments import (
    OPEN,
    Block,
    Gap,
    Item,
    Mark,
    Messages,
    Owner,
    Reader,
    beginning,
    blocks_in,
    encoded,
    framed,
    next_segment,
    opened,
    segments_of,
)

_MORE = ("", *(f"-{number}" for number in range(2, 1_000)))
"""So that a damaged segment never replaces another that had its name."""
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
"""Failures of a disk that may pass. Any other at the start is a mistake in the group file."""


class Standing(NamedTuple):
    """How far a member has come, as its log tells it."""

    delivered: Mapping[str, int]
    broadcast: int
    holds: Callable[[MessageId], bool]


class TracedFacts:
    """What a trace tells from this index on, or would if it could be written.

    The last message of each origin delivered, and held; of the member itself, broadcast.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.delivered: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.broadcast = 0

    def note(self, block: Block) -> None:
        for item in block.items:
            match item:
                case Messages("deliver", origin, first, count):
                    self.delivered[origin] = first + count - 1
                case Messages("held", origin, first, count):
                    self.held[origin] = first + count - 1
                case Messages("broadcast", _, first, count):
                    self.broadcast = first + count - 1
                case Mark("view" | "join"):
                    self.held.clear()  # what is beyond its cut is void, or is held once more
                case Gap(_, _, delivered, broadcast):
                    self.delivered |= delivered
                    self.broadcast = max(self.broadcast, broadcast)

    def note_all(self, blocks: bytes) -> None:
        for block in blocks_in(blocks):
            self.note(block)

    def gap(self, end: int, life: int) -> bytes:
        """What stands in the trace instead of what is missing up to this index."""
        gap = Gap("gap", end - self.first, self.delivered, self.broadcast)
        return encoded(Block(self.first, time.time_ns(), life, (gap,)))


class Tracer:
    """Writes what one life of one member adds to its segments.

    It goes on in the last one, unless that is full: restarts alone make no files.
    The open one is locked: whoever finds one that is not knows that its writer was killed.
    """

    def __init__(self, config: Config, member: str, life: int, index: int, keeper: Keeper) -> None:
        self.index = index
        self.digests = DIGESTS[config.trace.digest]
        """Those of some texts, one after the other."""
        self._keeper = keeper
        self._folder = config.trace_folder
        self._owner = Owner(config.name, member)
        self._life = life
        self._stops = config.trace.on_failure == "stop"
        self._retry_s = config.trace.retry_ms / 1e3
        self._limit = config.trace.segment_bytes
        if config.trace.retention_bytes:
            # A trace that may hold only one segment could never be shortened.
            self._limit = min(self._limit, config.trace.retention_bytes // 4)
        self._logger = get_logger(member=member)
        self._file = -1
        self._size = 0
        self._path = self._folder
        self._begin = index
        """The index with which the segment begins."""
        self._lost: TracedFacts | None = None
        """What is missing since the trace cannot be written, if so."""
        self._unclosed: list[tuple[Path, int]] = []
        """Segments whose writing failed; they get names when the gap after them is written."""
        self._look_again_s = 0.0

    def begin(self) -> None:
        """Go on in the last segment, or begin one."""
        try:
            if not self._go_on(self.index):
                self._begin_segment(self.index)
        except OSError as error:
            fault = self._keeper.fault or error  # a full disk has no room for the folder, either
            if fault.errno not in PASSING:
                raise self._stopped(fault) from None
            self._fail(fault, self.index)

    def know(self, chain: Sequence[View]) -> None:
        """These are the views that rows may name from now on."""
        try:
            self._keeper.know(chain)
        except OSError as fault:
            self._fail(fault, self.index)

    def block(self, items: Sequence[Item]) -> bytes:
        """What happened, as it will stand in the trace; from here on its places are taken."""
        block = Block(self.index, time.time_ns(), self._life, tuple(items))
        self.index = block.end
        return encoded(block)

    def write(self, blocks: bytes) -> None:
        """To the kernel: from here on a kill cannot lose it."""
        self.check_names()
        if self._lost is not None:
            self._write_after_a_gap(self._lost, blocks)
            return
        try:
            self._look_whether_it_is_there()
            self._append(framed(blocks, self._size))
        except OSError as fault:
            self._fail(fault, _ends(blocks)[0].index).note_all(blocks)
            return
        if self._size > self._limit and self.ended.done():  # no faster than the disk is
            self._rotate(blocks)

    def go_to(self, index: int, life: int) -> None:
        """Go on at this index, in this life. What is missing before it is a gap."""
        if index > self.index:
            self.write(TracedFacts(self.index).gap(index, life))
            self.index = index

    def close(self) -> None:
        """The segment is complete; it has its name once this has ``ended``."""
        if self._lost is not None:
            self._write_after_a_gap(self._lost, b"", is_last=True)
        if self._file >= 0:
            self._keeper.name(self._path, self._file)
            self._file = -1
        self._keeper.close()

    def check_names(self) -> None:
        """A segment that could not get its name looks like that of a killed member."""
        fault, self._keeper.unnamed = self._keeper.unnamed, None
        if fault is not None and self._stops:
            raise EnvironmentMissing(f"{fault.filename}: {fault.strerror}")
        if fault is not None:
            reason = f"{fault.strerror}; the next life of the member will close it"
            self._logger.warning("the trace cannot be written", file=fault.filename, reason=reason)

    @property
    def ended(self) -> Future[None]:
        return self._keeper.ended

    def let_go(self) -> None:
        """Close the file as it is; the next life finds what a killed one leaves behind."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1

    # --- segments

    def _go_on(self, index: int) -> bool:
        """Whether what is written from this index on can follow in the last segment there is."""
        for path in segments_of(self._folder, self._owner.process)[-1:]:
            reader, size = Reader(path), path.stat().st_size
            first = next(reader.blocks(), None)
            is_ours = reader.owner == self._owner and reader.is_current and not reader.is_open
            if is_ours and (first is None or size <= self._limit):
                self._begin = first.index if first is not None else index
                self._path, self._size = path, size
                self._file = self._locked(path)
                path.rename(opened(path))
                return True
        return False

    def _begin_segment(self, index: int) -> None:
        """It begins with this index."""
        self._begin = index
        self._path = next_segment(self._folder, self._owner.process)
        self._size = 0
        self._file = self._locked(opened(self._path), os.O_CREAT | os.O_EXCL)
        self._append(beginning(self._owner))

    def _locked(self, path: Path, flags: int = 0) -> int:
        file = os.open(path, flags | os.O_WRONLY | os.O_APPEND, 0o644)
        lock(file)
        return file

    def _append(self, data: bytes) -> None:
        write_all(self._file, data)
        self._size += len(data)

    def _rotate(self, blocks: bytes) -> None:
        end = _ends(blocks)[1].end
        path, file, size, begin = self._path, self._file, self._size, self._begin
        self._file = -1
        try:
            self._begin_segment(end)
        except OSError as fault:
            self._drop_segment()
            self._path, self._file, self._size, self._begin = path, file, size, begin
            self._fail(fault, end)
        else:
            self._keeper.name(path, file)
            self._keeper.sweep()

    def _look_whether_it_is_there(self) -> None:
        """What is written to a file that was deleted or moved away, nobody will read here."""
        now_s = time.monotonic()
        if now_s >= self._look_again_s:
            self._look_again_s = now_s + self._retry_s
            opened(self._path).stat()
            if os.fstat(self._file).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    # --- when it cannot be written

    def _fail(self, fault: OSError, index: int) -> TracedFacts:
        """From this index on everything is missing; or nothing goes on, if that is asked for."""
        if self._stops:
            raise self._stopped(fault) from None
        reason = f"{fault.strerror}; the member goes on, and what is missing will be a gap"
        self._logger.warning("the trace cannot be written", file=str(self._path), reason=reason)
        self._look_again_s = time.monotonic() + self._retry_s
        if fault.errno == errno.ENOENT:
            # The segment is gone, and perhaps all before it; a new folder can be made at once.
            is_there = bool(segments_of(self._folder, self._owner.process))
            index = self._begin if is_there else self._keeper.begin
            self._look_again_s = 0.0
            self.let_go()
        else:
            self._leave_unclosed()
        self._lost = TracedFacts(index)
        return self._lost

    def _stopped(self, fault: OSError) -> EnvironmentMissing:
        return EnvironmentMissing(f"{self._path}: {fault.strerror}")

    def _leave_unclosed(self) -> None:
        """A member that never tells of its gap looks like one that was killed."""
        if self._file >= 0 and self._size:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            self.let_go()
            self._unclosed.append((self._path, self._size))
        else:
            self._drop_segment()
            self._reopen_the_last()

    def _reopen_the_last(self) -> None:
        """What comes after it is missing, and only a gap can say so."""
        for path in segments_of(self._folder, self._owner.process)[-1:]:
            if not path.name.endswith(OPEN):
                with suppress(OSError):
                    size = path.stat().st_size
                    path.rename(opened(path))
                    self._unclosed.append((path, size))

    def _write_after_a_gap(self, lost: TracedFacts, blocks: bytes, is_last: bool = False) -> None:
        now_s = time.monotonic()
        if now_s < self._look_again_s and not is_last:
            lost.note_all(blocks)
            return
        self._look_again_s = now_s + self._retry_s
        end, life = self.index, self._life
        if blocks:
            first, _ = _ends(blocks)
            end, life = first.index, first.incarnation  # it may come from the log
        gap = lost.gap(end, life) if end > lost.first else b""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._keeper.path.exists():
                self._keeper.write_manifest()
            self._begin_segment(lost.first)
            self._append(framed(gap + blocks, self._size))
        except OSError:
            self._drop_segment()
            lost.note_all(blocks)
            return
        self._lost = None
        for path, size in self._unclosed:
            with suppress(OSError):
                os.truncate(opened(path), size)
                opened(path).rename(path)
        self._unclosed.clear()
        missing = f"{lost.first} to {end - 1}" if gap else "nothing"
        self._logger.warning("the trace is written again", missing=missing)

    def _drop_segment(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            self.let_go()
            with suppress(OSError):
                opened(self._path).unlink()


def _ends(blocks: bytes) -> tuple[Block, Block]:
    """The first of these and the last."""
    first, *rest = blocks_in(blocks)
    return first, rest[-1] if rest else first


# --- the beginning of a life


def begin(config: Config, member: str, changes: bool) -> Tracer:
    """The trace of a member that was never here before, or was killed before it did anything.

    What helps if it was here depends on whether its group ``changes``.
    """
    if any(map(_tells_something, segments_of(config.trace_folder, member))):
        if config.durable:
            # A life writes to its log before it writes to its trace.
            otherwise = ": the others go on without it, or a new group begins, with new folders"
            raise Halted(
                f"{config.data / member} is gone, and {member} has been here before: its trace is "
                f"in {config.trace_folder}. A member that lost its disk cannot return"
                f"{replacing_helps(member) if changes else otherwise}"
            )
        raise UsageError(
            f"{config.trace_folder}: here is the trace of an earlier {member}, which kept nothing "
            "else; move it away first"
        )
    with _begun(Tracer(config, member, 0, 0, _kept(config, member))) as tracer:
        return tracer


def _tells_something(path: Path) -> bool:
    """What is damaged told something once."""
    try:
        return any(True for _ in Reader(path).blocks())
    except DataError:
        return True


def resume(
    config: Config, member: str, life: int, index: int, logged: Records, standing: Standing
) -> Tracer:
    """The trace of a member that comes back: completed from its log, then ``recover``."""
    facts, damaged = _facts_since(config, member, index)
    _refuse_an_older_log(config, member, facts, standing)
    for reader, fault in damaged:
        _set_aside(config, member, reader, fault)
    keeper = _kept(config, member)
    last = _close_what_was_left(config.trace_folder, member)
    last_life = last.incarnation if last is not None else -1
    start = last.end if last is not None else keeper.begin
    with _begun(Tracer(config, member, life, start, keeper)) as tracer:
        for block in (one for part in logged.blocks(start) for one in blocks_in(part)):
            if block.index >= tracer.index:
                tracer.go_to(block.index, block.incarnation)
                tracer.write(encoded(block))
                tracer.index = block.end
                last_life = max(last_life, block.incarnation)
        has_acted = bool(standing.delivered) or standing.broadcast > 0
        is_untraced = last_life < life - 1 if last_life >= 0 else has_acted
        tracer.go_to(max(index, tracer.index + is_untraced), life)
        recover = Mark("recover", None, dict(standing.delivered), standing.broadcast)
        tracer.write(tracer.block([recover]))
        keeper.sweep()
        return tracer


@contextmanager
def _begun(tracer: Tracer) -> Iterator[Tracer]:
    """Whatever fails before somebody has it, no file stays open, nor locked."""
    try:
        tracer.begin()
        yield tracer
    except BaseException:
        tracer.let_go()
        raise


def _kept(config: Config, member: str) -> Keeper:
    keeper = Keeper(config, member)
    try:
        keeper.write_manifest()
    except OSError as fault:
        if fault.errno not in PASSING or config.trace.on_failure == "stop":
            raise EnvironmentMissing(
                f"{keeper.path}: {fault.strerror}; the trace needs a folder to write to: see "
                "trace.folder in the group file"
            ) from None
        keeper.fault = fault
    return keeper


def _close_what_was_left(folder: Path, member: str) -> Block | None:
    """Close open segments, their torn ends cut off; the last block, if there is any."""
    last: Block | None = None
    for path in reversed(segments_of(folder, member)):
        reader = Reader(path)
        if last is not None and not reader.is_open:
            continue
        try:
            end = deque(reader.blocks(), maxlen=1)
        except DataError:
            continue  # of long ago: whoever judges will say so
        with suppress(OSError):  # it can be read as it is
            if reader.is_open and not end:
                path.unlink()  # opened, and then nothing
            elif reader.is_open:
                os.truncate(path, reader.whole)
                sync(path)
                path.rename(path.with_name(path.name.removesuffix(".open")))
        if last is None and end:
            last = end[0]
    return last


def _facts_since(
    config: Config, member: str, index: int
) -> tuple[TracedFacts, list[tuple[Reader, DataError]]]:
    """What the trace tells from this index on, and which of its segments are damaged, and how.

    What stands before the damage counts: a log has to have that, too.
    """
    later: list[Path] = []
    for path in reversed(segments_of(config.trace_folder, member)):
        later.append(path)
        with suppress(DataError):
            first = next(Reader(path).blocks(), None)
            if first is not None and first.index <= index:
                break
    facts, damaged = TracedFacts(), list[tuple[Reader, DataError]]()
    for reader in map(Reader, reversed(later)):
        try:
            for block in reader.blocks():
                if block.end > index:
                    facts.note(block)
        except DataError as fault:
            damaged.append((reader, fault))
    return facts, damaged


def _set_aside(config: Config, member: str, reader: Reader, fault: DataError) -> None:
    """Leave of a damaged segment what stands before the damage, as a killed member would.

    The log tells again what it still has of the rest; what it has not is a gap, or is missing
    between two files, and its judges know what to do with either.
    """
    name = reader.path.name.removesuffix(".open")
    names = (f"{name}.damaged{more}" for more in _MORE)
    aside = next(one for one in map(reader.path.with_name, names) if not one.exists())
    if config.trace.on_failure == "stop":
        raise DataError(
            f"{fault}; the log is sound. Rename it to {aside.name}, and the member goes on, with "
            'a gap in its trace; with trace.on_failure = "warn" it does so by itself'
        )
    try:
        reader.path.rename(aside)
    except OSError as error:
        raise EnvironmentMissing(f"{fault}; it cannot be set aside: {error.strerror}") from None
    with suppress(OSError):  # without room for all of it, a part is as good as a torn end
        start = opened(aside.with_name(name))
        shutil.copyfile(aside, start)
        os.truncate(start, reader.whole)
    reason = f"{fault}; what stood after that is missing, unless the log still has it"
    logger = get_logger(member=member)
    logger.warning("the trace is damaged", file=str(aside), reason=reason)


def _refuse_an_older_log(
    config: Config, member: str, facts: TracedFacts, standing: Standing
) -> None:
    """What is in the trace was in the log before: or the log is not the one that it was."""
    unknown = [f"broadcast {member}#{facts.broadcast}"] * (facts.broadcast > standing.broadcast)
    for origin, last in facts.delivered.items():
        if last > standing.delivered.get(origin, 0):
            unknown.append(f"delivered {origin}#{last}")
    for origin, last in facts.held.items():
        is_known = last <= standing.delivered.get(origin, 0)
        if not is_known and not standing.holds(MessageId(origin, last)):
            unknown.append(f"held {origin}#{last}")
    if unknown:
        raise DataError(
            f"{config.data / member}: the log is older than its trace: {member} has "
            f"{unknown[0]}, of which it does not know. It was put back from an older copy, and "
            "this member cannot return to its group (docs/node.md, A lost disk)"
        )
