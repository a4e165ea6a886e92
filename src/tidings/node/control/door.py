"""What an operator can ask of a running member, and what it answers.

request | answer
---|---
``GET /status`` | how the member is doing (``Report``)
``GET /members`` | the members as it knows them (``Roster``)
``GET /why?message=p3%2317`` | what a message waits for here; without one, the oldest of its own
``POST /members`` | a change, as ``{"add": "p4", "address": "10.0.0.4:7001", "remove": "p2"}``

A change is answered by lines of JSON, one for each ``state``: ``calling`` (the newcomer), ``asked``
(the members, whether they are there), ``ready`` (a majority and the newcomer are, and lack little),
``promised`` (members stop where they are, for a moment), and in the end ``installed`` with the new
view, or ``denied`` with the reason. An answer that breaks off before these two says that the member
stopped; the others may still finish what it began.

A request that is wrong in itself gets ``{"error": ..., "status": ...}``, the status being what a
command ends with.
"""

import asyncio
import os
from asyncio import StreamReader, StreamWriter, Task, TaskGroup, timeout
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.core import Change, Exit, Members, TidingsError, UsageError, majority
from tidings.node.condition import Status
from tidings.node.control.http import HttpFault, Lines, Request, read_request, send_json
from tidings.node.control.place import bound
from tidings.node.engine import Engine
from tidings.node.membership import GroupView

if TYPE_CHECKING:
    from tidings.node.member import Member

LOOK_S = 0.02
"""How often to look whether members have promised."""
NAMES = {"approved": "ready"}
"""What states are called here, if a program knows them by another name."""


class Report(Status, frozen=True, kw_only=True):
    """How a member is doing, for whoever looks after it."""

    group: str
    pid: int
    behind: dict[str, int]
    """Of each peer, how many messages it is not known to hold that are held here."""
    held_back: dict[str, int]
    """Of each origin, how many messages have arrived and are not delivered yet."""
    log_limit_bytes: int
    """0 for a member without a log."""
    kept_for: str
    """Whom most of what is kept is kept for."""


class Roster(msgspec.Struct, frozen=True):
    """The members of a group, as one of them knows them."""

    group: str
    member: str
    """Who says so."""
    view: int
    """How often the group has changed."""
    addresses: dict[str, str]
    """Of each member."""
    linked: Members
    replacements: dict[str, str]
    """Of each member, the name of whoever replaces it."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the group, as it is sent."""

    add: str = ""
    remove: str = ""
    address: str = ""

    def check(self) -> None:
        if not self.add and not self.remove:
            raise UsageError("nothing to change: add, remove, or both, which is to replace")
        if bool(self.add) != bool(self.address):
            raise UsageError("whoever is added has an address, and nobody else")

    def __str__(self) -> str:
        if self.add and self.remove:
            return f"replace {self.remove} by {self.add} at {self.address}"
        return f"add {self.add} at {self.address}" if self.add else f"remove {self.remove}"


class Control:
    """The door of one member: open from ``open`` to ``close``."""

    def __init__(self, member: "Member", engine: Engine) -> None:
        self._member = member
        self._process, self._membership = engine.process, engine.membership
        self._limits = member.config.control
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._under_way: set[Task[None]] = set()

    async def open(self, tasks: TaskGroup) -> None:
        """EnvironmentMissing if another process has it, OSError if there is no place for it."""
        listener, path = bound(self._member.config, self._member.name)

        def called(reader: StreamReader, writer: StreamWriter) -> None:
            task = tasks.create_task(self._serve(reader, writer))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

        try:
            limit = self._limits.request_bytes
            self._server = await asyncio.start_unix_server(called, sock=listener, limit=limit)
        except BaseException:
            path.unlink(missing_ok=True)
            listener.close()
            raise
        self._path = path

    def close(self) -> None:
        """Whoever is being answered hears no more."""
        server, self._server = self._server, None
        if server is not None and self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            server.close()
            for task in self._under_way:
                task.cancel()

    # --- one request

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Whatever is asked, and however, the member goes on."""
        try:
            try:
                await self._hear(reader, writer)
            except HttpFault as fault:
                await self._refuse(writer, fault.code, str(fault), Exit.USAGE)
            except TidingsError as error:
                is_usage = error.status is Exit.USAGE
                code = HTTPStatus.BAD_REQUEST if is_usage else HTTPStatus.SERVICE_UNAVAILABLE
                await self._refuse(writer, code, str(error), error.status)
            except (EOFError, OSError):
                pass  # whoever asked is gone
            except Exception as error:
                code = HTTPStatus.INTERNAL_SERVER_ERROR
                await self._refuse(writer, code, _bug(error), Exit.BUG)
        finally:
            writer.close()

    async def _hear(self, reader: StreamReader, writer: StreamWriter) -> None:
        if len(self._under_way) > self._limits.connections:
            words = f"{self._limits.connections} others are being answered; ask again"
            raise TooMany(words)
        try:
            async with timeout(self._limits.request_ms / 1e3):
                request = await read_request(reader, self._limits.request_bytes)
        except TimeoutError:
            raise HttpFault(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
        match request.method, request.path:
            case "GET", "/status":
                await self._send(writer, request, self.report())
            case "GET", "/members":
                await self._send(writer, request, self.roster())
            case "GET", "/why":
                message = request.query.pop("message", None)
                await self._send(writer, request, {"why": self._member.why(message)})
            case "POST", "/members":
                await self._change(reader, writer, request)
            case _, ("/status" | "/members" | "/why") as path:
                raise HttpFault(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes no such request")
            case _, path:
                words = f"there is no {path[:40]}; there are /status, /members and /why"
                raise HttpFault(HTTPStatus.NOT_FOUND, words)

    async def _send(self, writer: StreamWriter, request: Request, value: Any) -> None:
        if request.query or request.body:
            words = f"{request.path} takes nothing more than docs/node.md says"
            raise HttpFault(HTTPStatus.BAD_REQUEST, words)
        await self._in_time(send_json(writer, HTTPStatus.OK, value))

    async def _refuse(
        self, writer: StreamWriter, code: HTTPStatus, words: str, status: Exit
    ) -> None:
        with suppress(OSError):
            await self._in_time(send_json(writer, code, {"error": words, "status": int(status)}))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        """A reader that does not read is gone; TimeoutError is an OSError."""
        async with timeout(self._limits.request_ms / 1e3):
            await sending

    # --- what is asked for

    def report(self) -> Report:
        status, config = self._member.status(), self._member.config
        return Report(
            **{name: getattr(status, name) for name in Status.__struct_fields__},
            group=config.name,
            pid=os.getpid(),
            behind=dict(self._process.behind()),
            held_back=dict(self._process.held_back()),
            log_limit_bytes=config.limits.log_bytes if config.durable else 0,
            kept_for=self._kept_for(),
        )

    def _kept_for(self) -> str:
        """Nobody, if nothing is: a process takes that for granted."""
        kept = (*self._process.behind().values(), *self._process.held_back().values())
        return self._process.kept_for() if any(kept) or self._member.status().unread else ""

    def roster(self) -> Roster:
        view = self._member.view()
        replaced_by = self._membership.replacement_of
        return Roster(
            group=self._member.config.name,
            member=self._member.name,
            view=view.number,
            addresses={name: view.addresses[name] for name in view.members},
            linked=self._member.status().linked,
            replacements={name: replaced_by(name) for name in view.members},
        )

    async def _change(self, reader: StreamReader, writer: StreamWriter, request: Request) -> None:
        try:
            asked = msgspec.json.decode(request.body, type=Asked)
        except msgspec.DecodeError as fault:
            raise UsageError(f"not a change of a group: {fault}") from None
        asked.check()
        lines = Lines(writer)
        steps = _Steps(lines)
        looking = asyncio.create_task(self._look_for_promises(steps))
        try:
            view = await self._while_heard(self._carried_out(asked, steps), reader)
        except TidingsError as error:
            reason = "; ".join(filter(None, (str(error), self._way_out())))
            lines.send(state="denied", reason=reason, status=int(error.status))
        except EOFError:
            return
        except Exception as error:
            lines.send(state="denied", reason=_bug(error), status=int(Exit.BUG))
        else:
            steps.reach("promised")  # or there would be no view
            lines.send(state="installed", view=view.number, members=view.members)
        finally:
            looking.cancel()
        await self._in_time(lines.end())

    async def _while_heard(
        self, change: Coroutine[Any, Any, GroupView], reader: StreamReader
    ) -> GroupView:
        """What is under way may go on for ever; whoever hangs up does not wait for it."""
        waiting, gone = asyncio.create_task(change), asyncio.create_task(_end_of(reader))
        try:
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise EOFError
            return waiting.result()
        finally:
            waiting.cancel()
            gone.cancel()
            await asyncio.wait((waiting, gone))

    async def _carried_out(self, asked: Asked, steps: "_Steps") -> GroupView:
        if asked.add and asked.remove:
            newcomer = self._membership.replacement_of(asked.remove)
            if asked.add != newcomer:
                raise UsageError(f"whoever replaces {asked.remove} is {newcomer}")
        change = Change(asked.add, asked.remove, asked.address)
        return await self._member.change(change, steps.reach)

    async def _look_for_promises(self, steps: "_Steps") -> None:
        while not (self._membership.is_wedged and steps.has_reached("ready")):
            await asyncio.sleep(LOOK_S)
        steps.reach("promised")

    def _way_out(self) -> str:
        """What to do if too few members are up to decide anything."""
        status = self._member.status()
        size, up = len(status.members), len(status.members) - len(status.missing)
        needed, missing = majority(size), " or ".join(status.missing)
        if up >= needed:
            return ""
        if size == 2:
            return (
                f"a group of two changes only while both are up: start {missing} again, or begin "
                "a new group (docs/node.md, A lost disk)"
            )
        return f"{needed} of {size} must be up, and {up} are: start {missing} again"


class _Steps:
    """How far a change has come: each state once."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._reached: set[str] = set()

    def has_reached(self, state: str) -> bool:
        return state in self._reached

    def reach(self, state: str) -> None:
        name = NAMES.get(state, state)
        if name not in self._reached:
            self._reached.add(name)
            self._lines.send(state=name)


def _bug(error: Exception) -> str:
    return f"a bug in tidings: {type(error).__name__}: {error}"


async def _end_of(reader: StreamReader) -> None:
    """Return when the other side has hung up; what it says until then means nothing."""
    with suppress(OSError):
        while await reader.read(1024):
            pass


class TooMany(TidingsError):  # noqa: N818 - reads as what happened
    """More ask at once than the group file allows."""

    status = Exit.ENVIRONMENT
