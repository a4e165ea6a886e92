"""The certificates of a running member: watched for their end, and read again when asked.

``tidings certs reload`` asks by a file in the member's folder, which the member removes when it
obeys: so any program that has joined can be asked, whatever it does with signals.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidings.core import EnvironmentMissing, TidingsError
from tidings.node.config import Config
from tidings.node.identity import Identity

ASKED = "reload"
"""The file that asks."""
DAY_S = 24 * 60 * 60


class Credentials:
    def __init__(self, config: Config, member: str, log: Any) -> None:
        self._folder = config.certificates / member if config.certificates is not None else None
        self._group, self._member = config.name, member
        self._warn_s = config.tls.warn_days * DAY_S
        self._log = log
        self._warned_s = 0.0
        self._obeyed_ns = 0
        """When the last request to reload was made."""
        self.identity = self._read()
        """None in a plain group."""

    def _read(self) -> Identity | None:
        if self._folder is None:
            return None
        return Identity(self._folder, self._group, self._member)

    def reload(self) -> bool:
        """Whether the files say something new, which counts from now on."""
        before, after = self.identity, self._read()
        if before is None or after is None or before.digest == after.digest:
            return False
        self.identity = after
        self._warned_s = 0.0
        self._log.info("certificates reloaded", ends=_day(after.own.ends_s))
        return True

    def reload_if_asked(self) -> bool:
        """The same, if somebody has asked; what is wrong with the files is logged."""
        if not self._is_asked():
            return False
        try:
            return self.reload()
        except TidingsError as fault:
            self._log.warning("certificates not reloaded", reason=str(fault))
            return False

    def _is_asked(self) -> bool:
        """Each request once, even if its file cannot be removed."""
        if self._folder is None:
            return False
        asked = self._folder / ASKED
        try:
            request_ns = asked.stat().st_mtime_ns
        except OSError:
            return False
        is_new, self._obeyed_ns = request_ns != self._obeyed_ns, request_ns
        with suppress(OSError):
            asked.unlink()
        return is_new

    def warn(self) -> None:
        """Once a day, from some days before our certificate ends."""
        if self.identity is None:
            return
        now_s, ends_s = time.time(), self.identity.own.ends_s
        if ends_s - now_s < self._warn_s and now_s - self._warned_s >= DAY_S:
            self._warned_s = now_s
            self._log.warning("certificate ends", ends=_day(ends_s), way_out="tidings certs renew")


def _day(ends_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ends_s)) + " UTC"


def ask_to_reload(folder: Path) -> Path:
    """Ask whoever runs with this folder; the file is gone once it obeys."""
    asked = folder / ASKED
    try:
        asked.touch()
    except OSError as fault:
        raise EnvironmentMissing(f"{asked}: {fault.strerror}") from None
    return asked
