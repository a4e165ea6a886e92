"""What earlier lives left on the disk: cut where it is torn, refused where it is damaged.

The last entry is written once more. Whoever wrote it may have been killed before the sync, or the
sync may have failed: then the kernel can have the entry in memory, count it as written and never
try again. All entries before it were on disk when the next one was begun.
"""

from pathlib import Path

import msgspec

from tidings.core import DataError, Process
from tidings.disk.files import UNREADABLE, explained, rewrite, sync
from tidings.disk.frames import BadFrameError, DiskFrame, FrameFile
from tidings.node.log.entries import About, Beginning, CommitEntry, Identity
from tidings.node.log.segments import FIRST_LINE, LOG, NAMES, Decoders, Records, Recovered, Segment

_NO_RETURN = "this member cannot return to its group (docs/node.md, A lost disk)"


class LogReader:
    def __init__(self, folder: Path, about: About, kind: type[Process], page_bytes: int) -> None:
        self.about = about
        self.page_bytes = page_bytes
        self.folder = folder
        self.paths = sorted(folder.glob(NAMES))
        self.segments: list[Segment] = []
        self.number = 0
        self.identity: Identity | None = None
        self.index = 0
        self.oldest = 0
        self.address = ""
        self.delivered: dict[str, int] = {}
        self.decode = Decoders(kind)
        self._last_place = 0
        """Where the last entry begins, in the last segment."""

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
        for path in self.paths:
            if path < self.segments[0].path:
                with explained(path):
                    path.unlink(missing_ok=True)
        self._rewrite_the_last_entry()
        records = Records(self.segments, self.decode)
        if not self.about.address:
            self.about = msgspec.structs.replace(self.about, address=self.address)
        return Recovered(self.identity, records, self.index, self.delivered, self.address)

    def _rewrite_the_last_entry(self) -> None:
        segment, place = self.segments[-1], self._last_place
        with explained(segment.path):
            with FrameFile(segment.path, LOG) as file:
                start = place if place > len(FIRST_LINE) else 0
                entry = file.read(start, segment.bytes - start)
            rewrite(segment.path, start, entry)
            sync(self.folder, strict=True)

    def _read_segment(self, path: Path, is_last: bool) -> None:
        with explained(path, UNREADABLE), FrameFile(path, LOG) as file:
            written_s = path.stat().st_mtime
            segment = Segment(path, self.page_bytes, file.is_current, written_s=written_s)
            try:
                if file.has_a_first_line(is_last, self.number):
                    frames = file.frames(file.first, may_be_torn=is_last, expected=self.number)
                    for frame in frames:
                        self._add(segment, frame)
                        self._last_place = frame.start
            except BadFrameError as bad:
                words = f"{path}: {bad}; what was there is lost, and {_NO_RETURN}"
                raise DataError(words) from None
        if segment.pages:
            self.segments.append(segment)
        elif is_last:
            # It was only just begun, and nothing is in it.
            with explained(path):
                path.unlink()
        else:
            raise DataError(f"{path}: cut off; what was there is lost, and {_NO_RETURN}")

    def _add(self, segment: Segment, frame: DiskFrame) -> None:
        entry = self._decoded(segment.path, frame.body)
        is_first = not segment.pages
        place = f"damaged at byte {frame.start:,}"
        if is_first and not isinstance(entry, Beginning):
            raise BadFrameError(f"{place}: an entry that does not belong there")
        if not is_first and frame.number != self.number:
            raise BadFrameError(f"{place}: entry {frame.number} where {self.number} comes next")
        if isinstance(entry, Beginning):
            self._begin(segment.path, frame.number, entry)
        segment.add(frame.end - frame.start, entry)
        self.delivered |= entry.delivered
        self.number = frame.number + 1

    def _decoded(self, path: Path, body: memoryview) -> Beginning | CommitEntry:
        try:
            entry: Beginning | CommitEntry = self.decode.entry(body)
            self.decode.records(entry.records)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise DataError(f"{path}: made by another tidings: {fault}") from None
        return entry

    def _begin(self, path: Path, number: int, entry: Beginning) -> None:
        if self.identity is not None and number != self.number:
            if not entry.oldest:
                raise DataError(f"{path}: a segment before this one is missing")
            # Those before the missing one count no more; whether it was needed, the end says.
            self.segments.clear()
        if self.identity is not None and entry.identity.incarnation != self.identity.incarnation:
            raise DataError(f"{path}: of somebody else who went by the same name")
        if mismatch := entry.about.mismatch(self.about):
            raise DataError(f"{path}: {mismatch}")
        self.identity = entry.identity
        self.index = entry.index
        self.oldest = entry.oldest
        self.address = entry.about.address
