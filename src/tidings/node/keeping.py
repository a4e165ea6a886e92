"""What a member keeps of its trace: the oldest segments go, and what they said is noted first.

A cut stands in the member's part of the manifest, on disk, before anything is deleted. It is made
in a thread: to know what a segment says it has to be read. The same thread gives segments their
names, once they are on disk: a power failure damages only what is still open.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from tidings.core import DataError, Members
from tidings.disk.files import whole_file
from tidings.node.config import Config
from tidings.node.logs import get_logger
from tidings.protocols.views.packets import View
from tidings.trace import HistoryCut, Manifest
from tidings.trace.cutting import OutOfSequenceError, Past
from tidings.trace.schema import SCHEMA_VERSION
from tidings.trace.segments import CLOSED, OPEN, Reader, opened, segments_of


class Keeper:
    """The manifest of one member, and its segments but for the one that is being written."""

    def __init__(self, config: Config, member: str) -> None:
        self._config = config
        self._member = member
        self._folder = config.trace_folder
        self.path = self._folder / f"{member}.manifest.jsonl"
        self._logger = get_logger(member=member)
        self._complaint = ""
        self._lock = Lock()
        self._thread: ThreadPoolExecutor | None = None
        self.ended = Future[None]()
        """Done when the thread has nothing to do."""
        self.ended.set_result(None)
        self.unnamed: OSError | None = None
        """Why the last segment that is complete could not get its name, if so."""
        self.fault: OSError | None = None
        """Why the manifest could not be written when the member started, if so."""
        self.cut: HistoryCut | None = None
        self._names: Members = ()
        self._views: tuple[Members, ...] = ()
        if member in config.members:
            self._names, self._views = config.members, (config.members,)
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            # What an earlier life noted.
            part = msgspec.json.decode(self.path.read_bytes(), type=Manifest)
            self.cut = part.cuts.get(member)
            if len(part.views) > 1:
                self._names, self._views = part.names, part.views

    @property
    def begin(self) -> int:
        """Where the history begins."""
        return self.cut.index if self.cut is not None else 0

    def write_manifest(self) -> None:
        """This member's part; the same in every life, but for the cut and what views there are."""
        config = self._config
        part = Manifest(
            schema=SCHEMA_VERSION,
            run=config.name,
            names=self._names,
            views=self._views,
            digest=config.trace.digest,
            process=self._member,
            protocol=config.protocol,
            options=config.options,
            clock="wall",
            cuts={self._member: self.cut} if self.cut is not None else {},
        )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock, whole_file(self.path) as draft:
            draft.write_bytes(msgspec.json.encode(part) + b"\n")

    def know(self, chain: Sequence[View]) -> None:
        """All views so far. Names are in the order in which they came, so that it stays.

        A member that is alone decides on a view within a tick. If it was killed before that was on
        disk, its next life may decide on another one.
        """
        views = tuple(view.members for view in chain)
        if views != self._views[: len(views)]:
            added = [view.added for view in chain if view.added]
            self._names, self._views = (*views[0], *added), views
            self.write_manifest()

    # --- what is complete

    def name(self, path: Path, file: int) -> None:
        """Close this segment, and give it its name once it is on disk; returns at once."""
        self._begin(self._name, path, file)

    def _name(self, path: Path, file: int) -> None:
        try:
            os.fsync(file)
            opened(path).rename(path)
        except OSError as fault:
            self.unnamed = OSError(fault.errno, fault.strerror, str(path))
        finally:
            os.close(file)

    # --- what is deleted

    def sweep(self) -> None:
        """Delete what need not be kept; returns at once."""
        if self._config.trace.retention_bytes or self._config.trace.retention_age_s:
            self._begin(self._sweep)

    def _begin(self, work: Callable[..., None], *about: Any) -> None:
        """In the thread, when it has done what it was asked before."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{self._member}-trace")
        self.ended = self._thread.submit(work, *about)

    def close(self) -> None:
        """Begin nothing more; what is under way goes on."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _sweep(self) -> None:
        try:
            self._delete_what_is_cut_off()
            self._cut_off(self._needless())
        except OutOfSequenceError as why:
            self._complain(f"{why}: that is evidence, which is kept")
        except (OSError, DataError) as fault:
            self._complain(str(fault))

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            self._complaint = reason
            self._logger.warning("the trace is not shortened", reason=reason)

    def _delete_what_is_cut_off(self) -> None:
        """What an earlier life had noted, and was killed before it could delete."""
        for path in segments_of(self._folder, self._member)[:-2]:
            first = next(Reader(path).blocks(), None)
            if first is None or first.index >= self.begin:
                return
            path.unlink()

    def _needless(self) -> list[Path]:
        """Never the last two: one is being written, and without any there is no end."""
        about = {path: _about(path) for path in segments_of(self._folder, self._member)}
        size, now_s = sum(one.st_size for one in about.values()), time.time()
        trace, needless = self._config.trace, list[Path]()
        for path in list(about)[:-2]:
            is_too_much = 0 < trace.retention_bytes < size
            is_too_old = 0 < trace.retention_age_s < now_s - about[path].st_mtime
            if not (is_too_much or is_too_old):
                break
            needless.append(path)
            size -= about[path].st_size
        return needless

    def _cut_off(self, needless: list[Path]) -> None:
        """As many of these as can be told apart by numbers, one after the other."""
        past, done = Past(self._member, self.cut), list[Path]()
        for path in needless:
            past.read(Reader(path).blocks())
            done.append(path)
            if not past.unsure:
                self.cut = past.cut
                self.write_manifest()
                for one in done:
                    one.unlink()
                done.clear()


def _about(path: Path) -> os.stat_result:
    """Of a segment; the one that is being written may get its name meanwhile."""
    try:
        return path.stat()
    except FileNotFoundError:
        return path.with_name(path.name.removesuffix(OPEN) + CLOSED).stat()
