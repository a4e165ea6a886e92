"""Asking a running member of this machine, as commands do: without a loop, one request each."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from tidings.core import DataError, EnvironmentMissing, Exit, Members, TidingsError, UsageError
from tidings.node.config import Config
from tidings.node.control.door import Asked, Report, Roster
from tidings.node.control.place import live

T = TypeVar("T")
PATIENCE_S = 10.0
"""How long a member may take to answer; for what comes of a change, there is no telling."""
LAST = ("installed", "denied")
"""How a change ends."""
ERRORS = {one.status: one for one in (UsageError, DataError, EnvironmentMissing)}


class Broken(EnvironmentMissing):
    """The member stopped, or was stopped, before it had answered."""


def running(config: Config) -> dict[str, Path]:
    """The members that run here, each with its socket."""
    here: dict[str, Path] = {}
    try:
        here.update(live(config))
    except PermissionError as fault:
        if not here:
            raise EnvironmentMissing(
                f"{fault.filename}: {fault.strerror}; ask as the user that its member runs as"
            ) from None
    return here


def unknown(name: str, members: Members) -> UsageError:
    """That nobody has this name, and who may be meant."""
    close = get_close_matches(name, members, n=1)
    whom = f"did you mean {close[0]}?" if close else f"its members: {', '.join(members)}"
    return UsageError(f"{name} is not in the group; {whom}")


def found(config: Config, member: str | None = None, other_than: str = "") -> "RunningMember":
    """This member, or any that runs here, if possible another than one."""
    here = running(config)
    if member is None:
        chosen = next((one for one in here if one != other_than), other_than)
    else:
        chosen = member
        if member not in here and member not in (members := _members(config, here)):
            raise unknown(member, members)
    if chosen not in here:
        whoever = f"no member of {config.name} runs" if member is None else f"{member} does not run"
        start = member or (*config.certified_here(), *config.members)[0]
        way_out = f"ask where one does, or start it: tidings node {start}"
        raise EnvironmentMissing(f"{whoever} on this machine; {way_out}")
    return RunningMember(chosen, here[chosen])


def _members(config: Config, here: Mapping[str, Path]) -> Members:
    """In the newest view that one here reports; if nobody does, those of the group file."""
    rosters: list[Roster] = []
    for name, path in here.items():
        with suppress(TidingsError):
            rosters.append(RunningMember(name, path).roster())
    newest = max(rosters, key=lambda one: one.view, default=None)
    return tuple(newest.addresses) if newest is not None and newest.addresses else config.members


class RunningMember:
    """A member that runs on this machine, seen from outside."""

    def __init__(self, member: str, path: Path) -> None:
        self.member = member
        self._path = path

    def report(self) -> Report:
        return self._get("/status", Report)

    def roster(self) -> Roster:
        return self._get("/members", Roster)

    def why(self, message: str | None = None) -> str:
        query = f"?message={quote(message, safe='')}" if message is not None else ""
        return self._get(f"/why{query}", dict[str, str])["why"]

    def change(self, asked: Asked) -> Iterator[Mapping[str, Any]]:
        """What comes of it, step by step, as ``node/control/door.py`` says."""
        with self._answer("POST", "/members", msgspec.json.encode(asked)) as (answer, line):
            line.settimeout(None)
            state = ""
            while state not in LAST:
                # Nothing, where the answer breaks off: that is no JSON.
                step = msgspec.json.decode(answer.readline(), type=dict[str, Any])
                state = step["state"]
                yield step

    def _get(self, target: str, kind: type[T]) -> T:
        with self._answer("GET", target) as (answer, _):
            return msgspec.json.decode(answer.read(), type=kind)

    @contextmanager
    def _answer(
        self, method: str, target: str, body: bytes | None = None
    ) -> Iterator[tuple[HTTPResponse, socket.socket]]:
        with socket.socket(socket.AF_UNIX) as line, closing(HTTPConnection("localhost")) as caller:
            line.settimeout(PATIENCE_S)
            caller.sock = line
            try:
                line.connect(str(self._path))
                with suppress(BrokenPipeError):  # it may refuse us without having heard us
                    caller.request(method, target, body)
                answer = caller.getresponse()
                if answer.status >= 400:
                    raise _refusal(answer.read())
                yield answer, line
            except TimeoutError:
                words = f"{self.member} runs, and does not answer for {PATIENCE_S:g} s"
                raise EnvironmentMissing(words) from None
            except (OSError, HTTPException, msgspec.DecodeError):
                words = f"{self.member} stopped before it had answered"
                raise Broken(words) from None


def error_of(words: str, status: int) -> TidingsError:
    """What the member raised, as far as a command can tell: the words, and how to end."""
    return ERRORS.get(Exit(status), TidingsError)(words)


def _refusal(body: bytes) -> TidingsError:
    given = msgspec.json.decode(body, type=dict[str, Any])
    return error_of(given["error"], given["status"])
