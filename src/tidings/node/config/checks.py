"""Every check of a group file: a mistake is named with its line, or with its setting."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tidings.core import (
    MOST_MEMBERS,
    NO_NAME,
    DataError,
    Members,
    Process,
    UsageError,
    is_name,
    ordered,
    take_first,
)
from tidings.core.likeness import did_you_mean
from tidings.core.toml_file import TomlFile
from tidings.guests import factory
from tidings.node.config.address import (
    METRICS_ARE_HERE,
    PLAIN_IS_HERE,
    Address,
    is_loopback,
    parse_address,
)
from tidings.node.config.settings import (
    FRAME_ROOM,
    GroupFile,
    Limits,
    Links,
    Settings,
    Tls,
    Tracing,
)

T = TypeVar("T")

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
NO_TLS = (
    "nothing says how members prove who they are; for a plain group on this machine add the line "
    'tls.plain = true at the top, or else tls.folder = "certs" (see tidings certs --help)'
)


def checked(toml: TomlFile) -> dict[str, Any]:
    """The fields of a Config, or DataError for the first mistake."""
    return _Checks(toml).fields()


class Given(TomlFile):
    """Settings that a program gives: a mistake among them is on no line."""

    def __init__(self, folder: Path, given: Mapping[str, Any]) -> None:
        super().__init__(folder / "group.toml", "")
        self._given = given

    def as_a(self, kind: type[T]) -> T:
        return self.converted(self._given, kind)

    def error(self, keys: Sequence[str], words: str) -> DataError:
        return DataError(": ".join(filter(None, (".".join(keys), words))))


class _Checks:
    def __init__(self, toml: TomlFile) -> None:
        self.toml = toml

    def _refuse_if(self, is_wrong: bool, keys: Sequence[str], words: str) -> None:
        if is_wrong:
            raise self.toml.error(keys, words)

    def fields(self) -> dict[str, Any]:
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
        shared = {field: getattr(file, field) for field in Settings.__struct_fields__}
        return shared | {
            "members": members,
            "addresses": addresses,
            "listen": listen,
            "metrics": metrics,
            "tls": tls,
            "certificates": None if tls.plain else folder / tls.folder,
            "data": folder / file.data,
            "trace_folder": folder / file.trace.folder,
        }

    def _members(self, file: GroupFile) -> Members:
        self._refuse_if(not is_name(file.name), ["name"], f"{file.name!r} is {NO_NAME}")
        self._refuse_if(not file.members, ["members"], "a group has at least one member")
        self._refuse_if(
            len(file.members) > MOST_MEMBERS,
            ["members"],
            f"a group has at most {MOST_MEMBERS:,} members",
        )
        for member in file.members:
            self._refuse_if(not is_name(member), ["members", member], NO_NAME)
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
