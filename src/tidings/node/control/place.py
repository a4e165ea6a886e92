"""Where a member can be asked: the path of its socket, which is for its user alone.

It is ``control.sock`` in the member's data folder. A member without one, or whose path is longer
than the kernel allows (107 bytes), has its socket in a folder of its user: ``tidings`` in
$XDG_RUNTIME_DIR, or ``tidings-UID`` in the system's folder for temporary files. Names there begin
with the group and a digest of where its data would be, so that two groups of one name do not meet.

The mode of the file is all there is to keep others out: 0600, set before anybody can connect. In a
folder that everybody may write to, somebody could wait for us under our name; so a runtime folder
counts only if it is ours, and nobody else's.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from tidings.core import EnvironmentMissing
from tidings.node.config import Config

SOCKET = "control.sock"
SHOWN = 16
"""How much of a group's name a path has room for."""


def places(config: Config, member: str) -> list[Path]:
    """Where its socket may be, the best place first."""
    in_data = [config.data.absolute() / member / SOCKET] if config.durable else []
    elsewhere = [one / f"{_mark(config)}{member}.sock" for one in _runtime_folders()]
    return [*in_data, *elsewhere]


def live(config: Config) -> Iterator[tuple[str, Path]]:
    """Members of the group that run on this machine, later ones than the file knows among them.

    A socket that is there and not ours is a PermissionError, after all others.
    """
    names = dict.fromkeys(config.members)
    with suppress(OSError):
        names |= dict.fromkeys(sorted(one.parent.name for one in config.data.glob(f"*/{SOCKET}")))
    mark = _mark(config)
    for folder in _runtime_folders():
        names |= dict.fromkeys(
            sorted(one.stem.removeprefix(mark) for one in folder.glob(f"{mark}*.sock"))
        )
    refused: PermissionError | None = None
    for name in names:
        for place in places(config, name):
            try:
                if is_live(place):
                    yield name, place
                    break
            except PermissionError as fault:
                refused = PermissionError(fault.errno, fault.strerror, str(place))
    if refused is not None:
        raise refused


def is_live(path: Path) -> bool:
    """Whether somebody answers there: the file of a process that was killed stays."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # it has more callers than it can answer
        except PermissionError:
            raise
        except OSError:
            return False
    return True


def bound(config: Config, member: str) -> tuple[socket.socket, Path]:
    """A socket at the best place that can be had; nobody can connect before it listens.

    EnvironmentMissing if a live process has it already, OSError if no place is possible.
    """
    fault = OSError("there is no place for it")
    for place in places(config, member):
        try:
            if is_live(place):
                raise EnvironmentMissing(f"{place}: another process is {member} already")
            if place.name != SOCKET:
                _make_private(place.parent)
            return _bound(place), place
        except OSError as other:
            fault = OSError(f"{place}: {other.strerror or other}")
    raise fault


def _bound(place: Path) -> socket.socket:
    """In place of what a dead process left there, but of nothing else."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(place.lstat().st_mode):
                place.unlink()
        listener.bind(str(place))
        place.chmod(0o600)
    except BaseException:
        listener.close()
        raise
    return listener


def _mark(config: Config) -> str:
    """What the names of this group's sockets begin with, beside those of others."""
    digest = blake2b(os.fsencode(config.data.resolve()), digest_size=6).hexdigest()
    return f"{config.name[:SHOWN]}-{digest}-"


def _runtime_folders() -> list[Path]:
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [Path(given) / "tidings"] if Path(given).is_absolute() else []
    folders.append(Path(tempfile.gettempdir()) / f"tidings-{os.getuid()}")
    return [one for one in folders if _may_be_ours(one)]


def _may_be_ours(folder: Path) -> bool:
    """It is, or can be made: with ``sudo`` the environment may name a folder of somebody else."""
    try:
        return _is_private(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    about = folder.lstat()
    is_ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return is_ours and not about.st_mode & 0o077


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        raise PermissionError(f"{folder} is not ours alone")
