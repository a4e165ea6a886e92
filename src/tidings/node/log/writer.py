"""The log as it is written: commits, new segments, what is read back and what is thrown away."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import Any

import msgspec

from tidings.core import Process
from tidings.disk.files import LOCK, NamedFile, explained, gone, locked, sync, write_all
from tidings.disk.frames import packed
from tidings.node.config import Limits, Retention
from tidings.node.log.entries import About, Beginning, CommitEntry, Identity, Ranges, encode
from tidings.node.log.reader import LogReader
from tidings.node.log.segments import FIRST_LINE, LogPage, Recovered, Segment

USUAL = Limits()


class DurableLog:
    """Made by ``open_log``; every failure to write is final, since nothing is known after it."""

    def __init__(
        self,
        found: LogReader,
        identity: Identity,
        lock: int,
        limits: Limits,
        made: Sequence[Path] = (),
    ) -> None:
        self.about = found.about
        self.identity = identity
        self.size = sum(segment.bytes for segment in found.segments)
        """In bytes."""
        self.thrown: list[Segment] = []
        """The oldest files, which nobody needs, and which are still there."""
        self._folder = found.folder
        self._made = made
        """The folders that were not there before, the innermost first."""
        self._segments = found.segments
        self._number = found.number
        self._decode = found.decode
        self._limits = limits
        self._delivered = dict(found.delivered)
        self._lock = NamedFile(lock, self._folder / LOCK)
        self._file: NamedFile | None = None
        self._in_hand: dict[tuple[Path, int, int], list[Any]] = {}
        """The pages that were read back last; ``recall_bytes`` of them, and at least one."""
        self._changed_ns = -1
        """When the folder had last changed, as we last looked."""

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
        raw = msgspec.Raw(encode(records))
        self._append(CommitEntry(raw, block, held or {}, messages, delivered or {}))
        self._delivered |= delivered or {}

    def begin_life(self, index: int) -> None:
        """Go on where the life before this one ended; nothing was written for this one so far."""
        last = self._segments[-1] if self._segments else None
        if last is None or not last.is_current:
            self.begin_segment((), index)
            return
        with explained(last.path):
            self._file = NamedFile(os.open(last.path, os.O_WRONLY | os.O_APPEND), last.path)
        self._append(self._beginning((), index))

    def begin_segment(self, records: tuple[Any, ...], index: int, needless: int = 0) -> None:
        """Go on in a new file; the records stand for all before them, except the messages.

        So many of the oldest segments belong to the log no more; ``throw_away`` deletes them. The
        new one says so itself: whoever misses one that is needed will know.
        """
        self._close_file()
        number = self._segments[-1].number + 1 if self._segments else 1
        path = self._folder / f"{number:08}.log"
        with explained(path):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            self._file = NamedFile(file, path)
            write_all(file, FIRST_LINE)
        self._segments.append(Segment(path, self._limits.page_bytes))
        self.size += len(FIRST_LINE)
        self._append(self._beginning(records, index, needless))
        with explained(path):
            sync(self._folder, strict=True)
        self.thrown += self._segments[:needless]
        self.size -= sum(segment.bytes for segment in self._segments[:needless])
        del self._segments[:needless]

    def throw_away(self) -> None:
        """Delete the segments that are no longer part of the log."""
        while self.thrown:
            segment = self.thrown.pop(0)
            with explained(segment.path):
                segment.path.unlink(missing_ok=True)

    def _beginning(self, records: tuple[Any, ...], index: int, needless: int = 0) -> Beginning:
        raw, oldest = msgspec.Raw(encode(records)), self._segments[needless].number
        return Beginning(self.about, self.identity, index, self._delivered, raw, oldest)

    def _append(self, entry: Beginning | CommitEntry) -> None:
        assert self._file is not None, "nothing was begun"
        segment = self._segments[-1]
        data = packed(self._number, segment.bytes, encode(entry))
        with explained(segment.path):
            write_all(self._file.number, data)
            os.fdatasync(self._file.number)
            self._check_that_it_is_kept(self._file)
        self._number += 1
        self.size += len(data)
        segment.written_s = time.time()
        segment.add(len(data), entry)

    def _check_that_it_is_kept(self, file: NamedFile) -> None:
        """Nobody may rely on what is in a file that has no name any more."""
        self._lock.check()
        file.check()
        changed_ns = self._folder.stat().st_mtime_ns
        if changed_ns != self._changed_ns:  # some file came or went
            for segment in self._segments:
                if not segment.path.exists():
                    raise gone(segment.path)
            self._changed_ns = changed_ns

    def first_kept(self, origin: str) -> int | None:
        """The first message of an origin that may still be read back."""
        return min(
            (one.held[origin][0] for one in self._segments if origin in one.held), default=None
        )

    def recall(
        self, origin: str, first: int, last: int, most_bytes: int | None = None
    ) -> tuple[Any, ...]:
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
        most = self._limits.recall_bytes if most_bytes is None else most_bytes
        records: list[Any] = []
        size = 0
        for lacks_first, _, _, page, segment in pages:
            if lacks_first and size >= most:
                break
            size += page.end - page.start
            records += self._read_back(segment.path, page)
        return tuple(records)

    def _read_back(self, path: Path, page: LogPage) -> list[Any]:
        """The records of a page; the pages that were read last are in hand.

        Whoever reads on, a few messages at a time, would read each of them many times.
        """
        place = (path, page.start, page.end)
        records = self._in_hand.pop(place, None)
        if records is None:
            records = [
                record
                for entry in self._decode.entries(*place)
                for record in self._decode.records(entry.records)
            ]
        self._in_hand[place] = records
        size = sum(end - start for _, start, end in self._in_hand)
        while size > self._limits.recall_bytes and len(self._in_hand) > 1:
            oldest = next(iter(self._in_hand))
            del self._in_hand[oldest]
            size -= oldest[2] - oldest[1]
        return records

    def can_forget(self, forgotten: Mapping[str, int]) -> bool:
        """Whether nobody needs the oldest segment."""
        return self._segments[0].is_needless(forgotten)

    def needed_bytes(self, forgotten: Mapping[str, int]) -> int:
        """How long the log is from the first segment on that somebody needs."""
        kept = dropwhile(lambda one: one.is_needless(forgotten), tuple(self._segments))
        return sum(segment.bytes for segment in kept)

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

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    def close(self) -> None:
        self._close_file()
        if self._made and not self._segments:
            self._remove_what_was_made()
        self._lock.close()

    def _remove_what_was_made(self) -> None:
        """Nothing was begun: a name that was misspelt, or a port that was taken."""
        with suppress(OSError):  # something of somebody else lies there meanwhile
            (self._folder / LOCK).unlink()
            for folder in self._made:
                folder.rmdir()


def open_log(
    folder: Path,
    about: About,
    kind: type[Process],
    incarnation: int,
    limits: Limits = USUAL,
) -> tuple[DurableLog, Recovered | None]:
    """The log of a member and what it holds; a new one, under this incarnation, if there is none.

    It is the caller who begins the life of this number: a start that fails leaves no trace here.
    """
    # A program may change its working directory.
    folder = folder.absolute()
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    lock = locked(folder, "a durable member needs a folder to write to: see data in the group file")
    try:
        reader = LogReader(folder, about, kind, limits.page_bytes)
        found = reader.read()
    except BaseException:
        os.close(lock)
        raise
    identity = Identity(incarnation)
    if found is not None:
        identity = Identity(found.identity.incarnation, found.identity.life + 1)
    return DurableLog(reader, identity, lock, limits, made), found
