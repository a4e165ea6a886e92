"""What earlier lives left on the disk: read whole, cut where it is torn, refused where damaged."""

from pathlib import Path

import msgspec

from tidings.core import DataError, Process
from tidings.node.log.entries import (
    FIRST_LINE,
    HEAD_BYTES,
    About,
    BadEntryError,
    Beginning,
    Identity,
    checked_first_line,
    is_torn,
    parsed,
)
from tidings.node.log.files import cut, told
from tidings.node.log.segments import Decoders, Records, Recovered, Segment

_NO_RETURN = "this member cannot return to its group (docs/node.md, Who lost its disk)"


class Reader:
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
        with told(path):
            data = path.read_bytes()
            segment = Segment(path, written_s=path.stat().st_mtime)
        segment.bytes = checked_first_line(path, data, is_last)
        while segment.bytes < len(data):
            try:
                number, body = parsed(data, segment.bytes)
                self._take(segment, path, number, body)
            except BadEntryError as bad:
                if not (is_last and is_torn(data, segment.bytes, self.number)):
                    raise DataError(
                        f"{path}: damaged at byte {segment.bytes:,}: {bad}; what was there is "
                        f"lost, and {_NO_RETURN}"
                    ) from None
                break
        self._keep_or_repair(segment, is_last)

    def _keep_or_repair(self, segment: Segment, is_last: bool) -> None:
        with told(segment.path):
            if segment.bytes <= len(FIRST_LINE):
                # It was only just begun, and nothing is in it.
                segment.path.unlink()
                return
            if is_last:
                cut(segment.path, segment.bytes)
        self.segments.append(segment)

    def _take(self, segment: Segment, path: Path, number: int, body: memoryview) -> None:
        try:
            entry = self.decode.entry(body)
            self.decode.records(entry.records)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise DataError(f"{path}: made by another tidings: {fault}") from None
        is_first = segment.bytes == len(FIRST_LINE)
        if is_first != isinstance(entry, Beginning):
            raise BadEntryError("an entry that does not belong there")
        if isinstance(entry, Beginning):
            self._begin(path, number, entry)
            segment.bytes += HEAD_BYTES + len(body)
            segment.index = entry.index
        else:
            if number != self.number:
                raise BadEntryError(f"entry {number} where {self.number} comes next")
            segment.add(HEAD_BYTES + len(body), entry.held, entry.messages)
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
