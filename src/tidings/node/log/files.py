"""The disk: what is written stays, nobody else writes, and what it refuses is told in one line."""

import fcntl
import os
from pathlib import Path
from typing import Any

from tidings.core import EnvironmentMissing

MEND = "nothing that anybody relies on is lost: mend the disk and start again"
LOCK = "lock"
"""The file that says who writes in a folder."""


def write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])


def rewrite(path: Path, place: int, end: bytes) -> None:
    """Let the file end so from this place on, whatever stood there, and have it on disk."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(file, place + len(end))
        os.lseek(file, place, os.SEEK_SET)
        write_all(file, end)
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(folder: Path) -> None:
    """With its parents, and on disk: what stands in a folder is lost with the folder's name."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def gone(path: Path) -> EnvironmentMissing:
    """What others may rely on is not there any more."""
    return EnvironmentMissing(
        f"{path}: deleted or replaced while it was in use; put back what was there before the next "
        "start (docs/node.md, A lost disk)"
    )


class Kept:
    """A file that is open, and must be found under its name as long as it is.

    If it is not, somebody deleted or replaced it, or a folder that it is in: what is written to it
    is lost when it is closed.
    """

    def __init__(self, file: int, path: Path) -> None:
        self._path = path
        opened = os.fstat(file)
        self._place = opened.st_dev, opened.st_ino

    def check(self) -> None:
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._place:
            raise gone(self._path)


def locked(folder: Path, way_out: str) -> int:
    """Nobody else may write here as long as this file is open, however this process ends."""
    path = folder / LOCK
    with told(path, way_out):
        make_folder(folder)
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
    with told(path):
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)


class told:  # noqa: N801 - reads as a statement
    """What the disk refuses is told in one line, with the way out."""

    def __init__(self, path: Path, way_out: str = MEND) -> None:
        self.path = path
        self.way_out = way_out

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, fault: BaseException | None, trace: Any) -> None:
        if isinstance(fault, FileNotFoundError) and self.way_out is MEND:
            raise gone(self.path) from None  # there is nothing to mend
        if isinstance(fault, OSError):
            raise EnvironmentMissing(f"{self.path}: {fault.strerror}; {self.way_out}") from None
