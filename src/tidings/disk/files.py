"""Files and folders: what is written stays, whole or not at all, and nobody else writes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from tidings.core import EnvironmentMissing

MEND = "nothing that anybody relies on is lost: mend the disk and start again"
UNREADABLE = "mend the disk and start again; without this file a member is lost (docs/node.md)"
LOCK = "lock"
"""The file that says who writes in a folder."""
OUTPUT = "standard output"
"""What nobody has opened is called so."""


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


def sync(path: Path, *, strict: bool = False) -> None:
    """What was written to a file, or the names in a folder, are on disk from now on.

    Not every file system that is shared can do this for a folder: that is a fault if ``strict``.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:
        if strict or not path.is_dir():
            raise
    finally:
        os.close(file)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to; the file gets its own name when the block ends well, or vanishes.

    It is on disk before it has its name: when the power fails, no name stands for half a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".open")
    try:
        with named(path):
            yield draft
            sync(draft)
            draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def refuse_unwritable(path: Path) -> None:
    """A file or folder that cannot be written is reported before the work that fills it."""
    folder = path if path.is_dir() else next(one for one in path.parents if one.exists())
    try:
        TemporaryFile(dir=folder).close()
    except OSError as fault:
        raise EnvironmentMissing(f"{path}: {fault.strerror}") from None


def make_folder(folder: Path) -> None:
    """With its parents, and on disk: what stands in a folder is lost with the folder's name.

    For its owner alone: what a group says is nobody else's business.
    """
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync(folder.parent, strict=True)


def gone(path: Path) -> EnvironmentMissing:
    """What others may rely on is not there any more."""
    return EnvironmentMissing(
        f"{path}: deleted or replaced while it was in use; put back what was there before the next "
        "start (docs/node.md, A lost disk)"
    )


class NamedFile:
    """A file that is open, and must be found under its name as long as it is.

    If it is not, somebody deleted or replaced it, or a folder that it is in: what is written to it
    is lost when it is closed.
    """

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        """As the kernel knows it; -1 once it is closed."""
        self._path = path
        self._opened = os.fstat(number)

    def check(self) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(self._path.stat(), self._opened):
                return
        raise gone(self._path)

    def close(self) -> None:
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


def lock(file: int, how: int = fcntl.LOCK_EX) -> bool:
    """Whether nobody else has it from now on, until it is closed, however this process ends."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:  # not every file system can
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether somebody has it."""
    with path.open("rb") as file:
        return not lock(file.fileno(), fcntl.LOCK_SH)


class InUse(EnvironmentMissing):
    """Another process has the lock."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path}: in use by process {owner}")
        self.path = path
        self.owner = owner


def locked(folder: Path, way_out: str) -> int:
    """Nobody else may write here as long as this file is open."""
    path = folder / LOCK
    try:
        make_folder(folder)
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as fault:
        raise EnvironmentMissing(f"{path}: {fault.strerror}; {way_out}") from None
    try:
        _own(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _own(file: int, path: Path) -> None:
    with explained(path):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(path, os.read(file, 20).decode(errors="replace") or "?") from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """What the disk refuses says which file it is about: of one that is open, only we know that."""
    try:
        yield
    except OSError as fault:
        if fault.errno is not None:  # otherwise the fault is all words, and a name would hide them
            fault.filename = fault.filename or str(path)
        raise


@contextmanager
def explained(path: Path, way_out: str = MEND) -> Iterator[None]:
    """What the disk refuses is one line, with the way out."""
    try:
        yield
    except FileNotFoundError:
        raise gone(path) from None  # there is nothing to mend
    except OSError as fault:
        raise EnvironmentMissing(f"{path}: {fault.strerror}; {way_out}") from None
