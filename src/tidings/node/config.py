"""group.toml: one file for all members, every mistake in it named with its line.

    name = "chat"

    [members]
    p1 = "10.0.0.1:7001"
    p2 = "10.0.0.2:7001"
    p3 = "p3.example.org:7001"

    [tls]
    folder = "certs"

Everything else has a default, written down in the structs below. Paths in the file are relative to
the file.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import signature
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta, structs, to_builtins

from tidings.core import (
    MOST_MEMBERS,
    Choose,
    DataError,
    Members,
    Process,
    UsageError,
    first_of,
    is_name,
    ordered,
    take_first,
)
from tidings.core.likeness import did_you_mean
from tidings.core.toml_file import TomlFile, TomlTable
from tidings.guests import factory
from tidings.trace.schema import DIGEST, Digest

T = TypeVar("T")
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Ms = Annotated[int, Meta(ge=1, le=24 * 60 * 60 * 1000)]

KIB, MIB, GIB = 1024, 1024**2, 1024**3
FRAME_ROOM = MIB
"""Room in a frame beside a longest text: a packet carries other texts, and what it says of them."""


SET_ELSEWHERE = {
    "window": "limits.window",
    "until_processed": "durable",
    "memory": "limits.memory_messages",
    "memory_bytes": "limits.memory_bytes",
    "early_bytes": "limits.memory_bytes",
    "log_limit": "limits.log_bytes",
    "push": "limits.batch_messages",
}
"""Options that follow from other settings."""
NO_LIMIT = 2**53
STABLE_MS = 50
"""How long acknowledgements wait that only tell others what is stable."""


class Limits(TomlTable, frozen=True):
    text_bytes: Positive = MIB
    """The longest text that can be broadcast."""
    frame_bytes: Positive = 2 * MIB
    """The longest frame that is accepted from a member."""
    frame_packets: Positive = 10_000
    """How many packets a frame may have."""
    packet_bytes: Annotated[int, Meta(ge=512 * KIB, le=2**53)] = 512 * KIB
    """How long a packet may be beside its texts: what is decoded of it keeps a member busy, for
    up to a third of a microsecond a byte if it is made for that."""
    batch_messages: Positive = 4_000
    """How many texts a packet may have."""
    batch_bytes: Positive = MIB
    """About how much text a member puts into one packet of its own; always one text, and never more
    than fits into a frame."""
    tick_bytes: Positive = MIB
    """About how much text one tick takes from the application, before it sees to the network
    again."""
    tick_ms: Ms = 10
    """For how long a member works on what has come in before it looks for anything else; the
    packet in hand is always finished."""
    queue_bytes: Positive = 64 * MIB
    """How much may wait to be sent to one member; beyond, the link is dropped and made again."""
    unread_messages: Positive = 100_000
    """How much may wait for the application in memory; a durable member reads the rest back from
    its disk, any other reads nothing more from the network."""
    unread_bytes: Positive = 64 * MIB
    """The same, for how long their texts are."""
    window: Positive = 10_000
    """How many of its own messages a member may have under way; beyond, ``broadcast`` waits."""
    window_bytes: Annotated[int, Meta(ge=1, le=GIB)] = 32 * MIB
    """The same, for how long their texts are. All of them may share one entry of the log, which
    can be 4 GiB."""
    memory_messages: Positive = 100_000
    """How many messages a durable member keeps in memory for those who may still ask for them;
    the others it reads back from its disk."""
    memory_bytes: Positive = 64 * MIB
    """The same, for how long their texts are."""
    log_bytes: Positive = 10 * GIB
    """How long the log may grow while a member is away; beyond, broadcasts are refused."""
    segment_bytes: Positive = 64 * MIB
    """The log is kept in files of about this size, and forgotten by whole files."""
    commit_bytes: Positive = 4 * MIB
    """About how much is written at once, if there is more; what is read back is read in such
    pieces."""
    commit_ticks: Positive = 64
    """How many ticks may wait for the commit under way before nothing more is read from the
    network."""
    page_bytes: Positive = 256 * KIB
    """A member remembers which messages stand in each so many bytes of its log: what it reads back,
    it reads in whole pages."""
    recall_bytes: Positive = MIB
    """About how much of the log is read back at a time, and how much of that waits in memory to be
    handed over."""
    snapshots: Positive = 2
    """How many newcomers a member makes a snapshot for at the same time."""
    snapshot_piece_bytes: Annotated[int, Meta(ge=1, le=MIB)] = 256 * KIB
    """How much of a snapshot is sent at once; a few pieces of it are in memory."""
    snapshot_wait_ms: Ms = 60_000
    """How long a newcomer waits for the next piece before it asks somebody else: the other program
    has to read all that was delivered before the newcomer came."""


class Retention(TomlTable, frozen=True):
    """How much is kept of what every member has: as long as any of the three asks for it."""

    messages: Count = 0
    bytes: Count = 0
    age_s: Count = 0


class Links(TomlTable, frozen=True):
    alive_ms: Ms = 1_000
    """A link on which nothing is said for so long says that it is alive."""
    silence_ms: Ms = 5_000
    """A link on which nothing is heard for so long is dead."""
    hello_ms: Ms = 5_000
    """How long the other side may take to say who it is."""
    back_off_ms_min: Ms = 50
    back_off_ms_max: Ms = 1_000
    """How long until a member that could not be reached is tried again: doubled, up to here."""
    refused_ms_max: Ms = 5 * 60 * 1000
    """The same for a member with another group file or another format, which will not agree with
    us before somebody has changed one of the two."""
    resend_bytes: Positive = 64 * MIB
    """Protocols that mend no links: how much is kept to be sent again after a reconnect. A member
    that misses more counts as crashed."""
    strangers: Positive = 64
    """How many connections may be open that have not yet said who they are."""
    strangers_per_address: Positive = 16
    """The same for those from one address, or from one network of IPv6 (/64)."""
    newcomers: Positive = 8
    """How many may be linked that are no members: newcomers, and members that were removed."""
    calls_per_s: Positive = 100
    """How many of one address are answered in a second; each costs a handshake."""
    hello_bytes: Annotated[int, Meta(ge=16 * KIB, le=2**53)] = 64 * KIB
    """How long a handshake may be, and then the frame in which somebody says who it is."""
    complaints: Positive = 256
    """How many reasons for having no link are remembered, so that none is logged twice."""
    complaints_per_minute: Positive = 10
    """About one member, or about all strangers together: reasons can be made up."""
    close_ms: Ms = 5_000
    """How long a member that leaves waits for what it has said to leave."""


class Tracing(TomlTable, frozen=True):
    on: bool = True
    folder: str = "trace"
    segment_bytes: Positive = 64 * MIB
    retention_bytes: Count = 0
    """How much of a member's trace is kept; beyond, its oldest segments are deleted. 0: all."""
    retention_age_s: Count = 0
    """How long a segment is kept after it was written last. 0: for ever."""
    on_failure: Literal["warn", "stop"] = "warn"
    """What a member does when its trace cannot be written: go on without, or stop."""
    retry_ms: Ms = 1_000
    """How long until it is tried again."""
    digest: Digest = DIGEST
    """What stands in it for a text: the same for the whole group, from its first start on."""
    conform: bool = False
    """Whether what the process is handed is recorded beside it, for ``tidings conform``."""
    conform_bytes: Positive = GIB
    """How much of that in one life; the rest of it is not recorded."""


class Control(TomlTable, frozen=True):
    """How much whoever asks a running member on this machine may ask (node/control)."""

    connections: Annotated[int, Meta(ge=2, le=2**53)] = 16
    """How many are answered at once; beyond, one is sent away. A command needs two for a moment:
    it looks for the member before it asks."""
    request_bytes: Annotated[int, Meta(ge=512, le=2**53)] = 16 * KIB
    """How long the head of a request may be, and its body."""
    request_ms: Ms = 5_000
    """How long a request may take to arrive, and its answer to be read."""
    health_ms: Ms = 1_500
    """How long a disk may take to answer, and as long again the loop, before ``/healthz`` says that
    the member is not healthy."""
    wedged_ms: Ms = 10_000
    """For how long the group may be about to change before ``/readyz`` says so."""


class Tls(TomlTable, frozen=True):
    """How members prove who they are."""

    folder: str = "certs"
    """Where the certificates are: each member's in a folder of its name."""
    plain: bool = False
    """Instead: anybody who reaches a port may speak as any member. On loopback only."""
    warn_days: Count = 30
    """From how many days before the end of its certificate on a member warns of it."""


class _Settings(TomlTable, frozen=True):
    """What is the same in the file and once it has passed every check."""

    name: str
    protocol: str = "frontier"
    options: dict[str, Any] = {}
    durable: bool = True
    limits: Limits = Limits()
    retention: Retention = Retention()
    links: Links = Links()
    trace: Tracing = Tracing()
    control: Control = Control()


class GroupFile(_Settings, frozen=True, kw_only=True):
    members: dict[str, str]
    data: str = "data"
    """Where the logs are: each member's in a folder of its name."""
    tls: Tls | None = None
    """It must be there: nobody has a plain group without having said so."""
    listen: dict[str, str] = {}
    """Where a member listens, if that is not where the others reach it."""
    metrics: dict[str, str] = {}
    """Where each member answers Prometheus; who is not listed does not."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Config(_Settings, frozen=True, kw_only=True):
    """A group file that has passed every check."""

    members: Members
    addresses: dict[str, Address]
    """Where each member is reached."""
    listen: dict[str, Address]
    """Where members listen that are reached at another address."""
    metrics: dict[str, Address]
    tls: Tls
    certificates: Path | None
    """Where the members' certificates are; None in a plain group."""
    data: Path
    trace_folder: Path

    @classmethod
    def of(
        cls,
        *,
        name: str,
        members: Mapping[str, str],
        tls: Tls | None = None,
        protocol: str = "frontier",
        options: Mapping[str, Any] | None = None,
        durable: bool = True,
        data: str | Path = "data",
        listen: Mapping[str, str] | None = None,
        metrics: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        retention: Retention | None = None,
        links: Links | None = None,
        trace: Tracing | None = None,
        control: Control | None = None,
        folder: str | Path = ".",
    ) -> "Config":
        """What a group file in this folder would give, checked in the same way."""
        given = {key: value for key, value in locals().items() if value is not None}
        del given["cls"], given["folder"]
        return _ConfigReader(_Given(Path(folder), to_builtins(given, enc_hook=str))).config()

    def alike(self) -> dict[str, bool | int | str]:
        """What must be the same for all members, beside who they are and what protocol they run:
        what they promise each other, and everything by which one refuses what another says."""
        limits = ("text_bytes", "frame_bytes", "frame_packets", "packet_bytes", "batch_messages")
        settings: dict[str, bool | int | str] = {"durable": self.durable}
        settings |= {f"limits.{name}": getattr(self.limits, name) for name in limits}
        if self.trace.digest != DIGEST:  # members from before there was a choice send none
            settings["trace.digest"] = self.trace.digest
        return settings

    def listens_on(self, name: str) -> Address:
        return self.listen.get(name, self.addresses[name])

    def check_member(self, name: str) -> None:
        if name not in self.members:
            meant = did_you_mean(name, self.members)
            members = ", ".join(self.members)
            raise UsageError(f"{name} is not in the group; its members: {members}{meant}")

    def certified_here(self) -> Members:
        """Whose certificates are on this machine."""
        if self.certificates is None or not self.certificates.is_dir():
            return ()
        return ordered(one.name for one in self.certificates.iterdir() if one.is_dir())

    def with_newcomer(self, name: str, address: str) -> "Config":
        """The group as somebody sees it who is not in the file, and wants to be reached there.

        Whoever replaces a member of the file is reached at that one's address, if it names no
        other, and listens and tells metrics where that one did. Only those who know the newest
        view can say whether anybody else is still reached there.
        """
        place = first_of(name)
        if not address and place not in self.addresses:
            return self
        found = parse_address(address) if address else self.addresses[place]
        if found is None:
            raise UsageError(f"{address!r} is not an address like 127.0.0.1:7001")
        if self.tls.plain and not is_loopback(found.host):
            raise UsageError(f"{address} is not on loopback; {PLAIN_IS_HERE}")
        config = structs.replace(self, addresses=self.addresses | {name: found})
        if found != self.addresses.get(place):
            return config
        listen, metrics = (_as_before(one, place, name) for one in (self.listen, self.metrics))
        return structs.replace(config, listen=listen, metrics=metrics)

    def with_metrics(self, name: str, where: str) -> "Config":
        """The group with this member's metrics there, whatever the file says: a port on loopback,
        or an address."""
        address = parse_address(f"{LOOPBACK}:{where}" if where.isdecimal() else where)
        if address is None:
            raise UsageError(
                f"metrics: {where!r} is neither a port nor an address like {LOOPBACK}:9464"
            )
        if not is_loopback(address.host):
            raise UsageError(f"metrics: {address} is not on loopback; {METRICS_ARE_HERE}")
        if name in self.addresses and address == self.listens_on(name):
            raise UsageError(f"metrics: {address} is where {name} listens to the others")
        return structs.replace(self, metrics=self.metrics | {name: address})

    def process(self, name: str, choose: Choose) -> Process:
        """The process of this member; what the node decides for it is not left to ``options``."""
        process = factory(self.protocol, self.process_options())(name, self.members, choose)
        if not process.changes:
            self.check_member(name)
        return process

    def process_options(self) -> dict[str, Any]:
        """The options of the file, and those that follow from other settings."""
        limits = self.limits
        ours = {
            "window": limits.window,
            "early_bytes": limits.memory_bytes,
            "push": limits.batch_messages,
            "until_processed": self.durable,
        }
        if self.durable:
            ours |= {
                "memory": limits.memory_messages,
                "memory_bytes": limits.memory_bytes,
                "log_limit": NO_LIMIT,  # in messages: on disk, bytes are limited instead
            }
        # Acknowledgements gather while a tick is busy, so they need not wait for anything else,
        # unless nobody waits for them.
        usual = {"batch_ms": 0, "stable_ms": STABLE_MS}
        possible = signature(factory(self.protocol)).parameters
        usual, ours = (
            {option: value for option, value in those.items() if option in possible}
            for those in (usual, ours)
        )
        return usual | self.options | ours


def _as_before(where: dict[str, Address], place: str, name: str) -> dict[str, Address]:
    """Whoever has this place now has what was there for it, unless it has its own."""
    return {name: where[place]} | where if place in where else where


def new_group_file(
    name: str,
    addresses: Mapping[str, str],
    *,
    plain: bool = False,
    metrics: Mapping[str, str] | None = None,
) -> str:
    """The text of a first group file, with what one is likely to change as comments."""
    keys = {one: one if re.fullmatch("[A-Za-z0-9_-]+", one) else f'"{one}"' for one in addresses}
    members = "\n".join(f'{keys[one]} = "{address}"' for one, address in addresses.items())
    return FIRST_FILE.format(
        name=name,
        members=members,
        first=next(iter(keys.values())),
        tls=PLAIN if plain else CERTIFIED,
        metrics="".join(
            ["\n[metrics]                # what Prometheus and health checks ask, on loopback\n"]
            + [f'{keys[one]} = "{address}"\n' for one, address in metrics.items()]
        )
        if metrics
        else "",
    )


CERTIFIED = """\
[tls]
folder = "certs"         # each member's certificate and key, in a folder of its name
"""
PLAIN = """\
[tls]
plain = true             # anybody on this machine may speak as any member
"""
FIRST_FILE = """\
name = "{name}"
protocol = "views"       # members can be added, removed and replaced
# durable = false        # nothing on disk: a crashed member cannot return
# data = "data"          # where the logs are, relative to this file

[members]                # where each is reached; by a name or an address
{members}

{tls}{metrics}
# [listen]               # where one listens, if that is another address
# {first} = "0.0.0.0:7001"

# [retention]            # keep so much of what every member has, for group.history()
# messages = 1000000

# [trace]                # what happened, for tidings audit
# on = false
# retention_bytes = 1000000000
"""


LOOPBACK = "127.0.0.1"
METRICS_ARE_HERE = "metrics are for this machine only"
PLAIN_IS_HERE = "plain TCP (tls.plain) stays on this machine; members elsewhere need certificates"
NO_TLS = (
    "nothing says how members prove who they are; for a plain group on this machine add the line "
    'tls.plain = true at the top, or else tls.folder = "certs" (see tidings certs --help)'
)


def read_config(path: Path, member: str = "", way_out: str = "") -> Config:
    """The group file; ``member`` is the one that needs it, if it is known already.

    ``way_out`` is for whoever needs a file that is there, and not a new one.
    """
    try:
        return _ConfigReader(TomlFile(path)).config()
    except UsageError as fault:
        if isinstance(fault.__cause__, FileNotFoundError):
            names = f"{member} OTHER ..." if is_name(member) else "p1 p2 p3"
            raise UsageError(f"{fault}; {way_out or f'tidings group {names} makes one'}") from None
        raise


def parse_config(text: str, path: Path) -> Config:
    """The text of a group file; ``path`` is where its own paths begin, and what errors name."""
    return _ConfigReader(TomlFile(path, text)).config()


class _Given(TomlFile):
    """Settings that a program gives: a mistake among them is on no line."""

    def __init__(self, folder: Path, given: Mapping[str, Any]) -> None:
        super().__init__(folder / "group.toml", "")
        self._given = given

    def as_a(self, kind: type[T]) -> T:
        return self.converted(self._given, kind)

    def error(self, keys: Sequence[str], words: str) -> DataError:
        return DataError(": ".join(filter(None, (".".join(keys), words))))


class _ConfigReader:
    def __init__(self, toml: TomlFile) -> None:
        self.toml = toml

    def _refuse_if(self, is_wrong: bool, keys: Sequence[str], words: str) -> None:
        if is_wrong:
            raise self.toml.error(keys, words)

    def config(self) -> Config:
        file = self.toml.as_a(GroupFile)
        members = self._members(file)
        self._check_protocol(file, members)
        self._check_limits(file.limits, file.links)
        self._check_trace(file.trace)
        folder = self.toml.path.parent
        tls = self._tls(file)
        addresses = self._addresses("members", file.members)
        self._refuse_twice("members", addresses)
        listen = self._addresses("listen", file.listen)
        metrics = self._addresses("metrics", file.metrics)
        if tls.plain:
            self._refuse_remote("members", addresses, PLAIN_IS_HERE)
            self._refuse_remote("listen", listen, PLAIN_IS_HERE)
        self._refuse_remote("metrics", metrics, METRICS_ARE_HERE)
        self._check_metrics(addresses, addresses | listen, metrics)
        shared = {field: getattr(file, field) for field in _Settings.__struct_fields__}
        return Config(
            **shared,
            members=members,
            addresses=addresses,
            listen=listen,
            metrics=metrics,
            tls=tls,
            certificates=None if tls.plain else folder / tls.folder,
            data=folder / file.data,
            trace_folder=folder / file.trace.folder,
        )

    def _members(self, file: GroupFile) -> Members:
        no_name = "not a name: letters, digits, _ . -"
        self._refuse_if(not is_name(file.name), ["name"], f"{file.name!r} is {no_name}")
        self._refuse_if(not file.members, ["members"], "a group has at least one member")
        self._refuse_if(
            len(file.members) > MOST_MEMBERS,
            ["members"],
            f"a group has at most {MOST_MEMBERS:,} members",
        )
        for member in file.members:
            self._refuse_if(not is_name(member), ["members", member], no_name)
        for table in ("listen", "metrics"):
            for member in getattr(file, table):
                meant = did_you_mean(member, file.members)
                self._refuse_if(
                    member not in file.members,
                    [table, member],
                    f"not a member of the group{meant}",
                )
        return ordered(file.members)

    def _tls(self, file: GroupFile) -> Tls:
        if file.tls is None:
            raise self.toml.error(["tls"], NO_TLS)
        self._refuse_if(
            file.tls.plain and file.tls.folder != Tls().folder,
            ["tls", "plain"],
            "a plain group has no tls.folder",
        )
        return file.tls

    def _addresses(self, table: str, given: Mapping[str, str]) -> dict[str, Address]:
        found: dict[str, Address] = {}
        for member, text in given.items():
            address = parse_address(text)
            if address is None:
                keys = [table, member]
                raise self.toml.error(keys, f"{text!r} is not an address like 127.0.0.1:7001")
            found[member] = address
        return found

    def _refuse_twice(self, table: str, addresses: Mapping[str, Address]) -> None:
        used: dict[Address, str] = {}
        for member, address in addresses.items():
            self._refuse_if(
                address in used,
                [table, member],
                f"{address} is the address of {used.get(address)} already",
            )
            used[address] = member

    def _refuse_remote(self, table: str, addresses: Mapping[str, Address], reason: str) -> None:
        for member, address in addresses.items():
            self._refuse_if(
                not is_loopback(address.host),
                [table, member],
                f"{address} is not on loopback; {reason}",
            )

    def _check_metrics(
        self,
        addresses: Mapping[str, Address],
        listen: Mapping[str, Address],
        metrics: Mapping[str, Address],
    ) -> None:
        """Members that are reached at the same host share its ports."""
        for member, address in metrics.items():
            for other in addresses:
                is_near = addresses[other].host == addresses[member].host
                self._refuse_if(
                    is_near and listen[other] == address,
                    ["metrics", member],
                    f"{address} is where {other} listens to the others",
                )
                self._refuse_if(
                    is_near and other < member and metrics.get(other) == address,
                    ["metrics", member],
                    f"{address} is the address of {other} already",
                )

    def _check_protocol(self, file: GroupFile, members: Members) -> None:
        for option, instead in SET_ELSEWHERE.items():
            self._refuse_if(option in file.options, ["options", option], f"set {instead} instead")
        self._made(file, members, {}, ["protocol"])
        for option, value in file.options.items():
            self._made(file, members, {option: value}, ["options", option])
        process = self._made(file, members, file.options, ["options"])
        self._refuse_if(
            file.durable and not process.recovers,
            ["durable"] if "durable" in self.toml.text else ["protocol"],
            f"{file.protocol} keeps nothing on disk; write durable = false, or take frontier",
        )

    def _made(
        self, file: GroupFile, members: Members, options: dict[str, Any], keys: Sequence[str]
    ) -> Process:
        try:
            return factory(file.protocol, options)(members[0], members, take_first)
        except (UsageError, DataError) as fault:
            raise self.toml.error(keys, str(fault)) from None

    def _check_limits(self, limits: Limits, links: Links) -> None:
        needed = limits.text_bytes + FRAME_ROOM
        self._refuse_if(
            limits.frame_bytes < needed,
            _first_given(limits, "frame_bytes", "text_bytes"),
            f"texts of up to {limits.text_bytes:,} bytes (limits.text_bytes) need "
            f"limits.frame_bytes = {needed} or more, not {limits.frame_bytes}",
        )
        self._refuse_if(
            limits.queue_bytes < limits.frame_bytes,
            _first_given(limits, "queue_bytes", "frame_bytes"),
            f"limits.queue_bytes = {limits.queue_bytes} is less than one frame, "
            f"limits.frame_bytes = {limits.frame_bytes}",
        )
        self._refuse_if(
            links.back_off_ms_max < links.back_off_ms_min,
            ["links", "back_off_ms_max"],
            "less than back_off_ms_min",
        )
        self._refuse_if(
            links.refused_ms_max < links.back_off_ms_max,
            ["links", "refused_ms_max"],
            "less than back_off_ms_max",
        )
        self._refuse_if(
            links.silence_ms <= links.alive_ms,
            ["links", "silence_ms"],
            "must be more than alive_ms",
        )

    def _check_trace(self, trace: Tracing) -> None:
        for name, needed in (("on", True), ("retention_bytes", 0), ("retention_age_s", 0)):
            value = "true" if needed is True else needed
            self._refuse_if(
                trace.conform and getattr(trace, name) != needed,
                ["trace", name],
                f"trace.conform needs the whole trace: trace.{name} = {value}",
            )


def _first_given(limits: Limits, *names: str) -> list[str]:
    """The first of these that the file sets: a mistake is reported where it can be corrected."""
    given = (name for name in names if getattr(limits, name) != getattr(Limits(), name))
    return next((["limits", name] for name in given), [])


def parse_address(text: str) -> Address | None:
    match = re.fullmatch(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)", text)
    if match is None or not 0 < int(match["port"]) < 65536:
        return None
    return Address(match["six"] or match["host"], int(match["port"]))


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
