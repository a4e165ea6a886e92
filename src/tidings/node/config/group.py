"""A group file that has passed every check, as the parts of a node see it."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from tidings.core import Choose, Members, Process, UsageError, first_of, is_name, ordered
from tidings.core.likeness import did_you_mean
from tidings.core.toml_file import TomlFile
from tidings.guests import factory
from tidings.node.config.address import (
    LOOPBACK,
    METRICS_ARE_HERE,
    PLAIN_IS_HERE,
    Address,
    is_loopback,
    parse_address,
)
from tidings.node.config.checks import Given, checked
from tidings.node.config.settings import (
    Control,
    Limits,
    Links,
    Retention,
    Settings,
    Tls,
    Tracing,
)
from tidings.trace.schema import DIGEST

NO_LIMIT = 2**53
STABLE_MS = 50
"""How long acknowledgements wait that only tell others what is stable."""


class Config(Settings, frozen=True, kw_only=True):
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
        return cls(**checked(Given(Path(folder), to_builtins(given, enc_hook=str))))

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


def read_config(path: Path, member: str = "", way_out: str = "") -> Config:
    """The group file; ``member`` is the one that needs it, if it is known already.

    ``way_out`` is for whoever needs a file that is there, and not a new one.
    """
    try:
        return Config(**checked(TomlFile(path)))
    except UsageError as fault:
        if isinstance(fault.__cause__, FileNotFoundError):
            names = f"{member} OTHER ..." if is_name(member) else "p1 p2 p3"
            raise UsageError(f"{fault}; {way_out or f'tidings group {names} makes one'}") from None
        raise


def parse_config(text: str, path: Path) -> Config:
    """The text of a group file; ``path`` is where its own paths begin, and what errors name."""
    return Config(**checked(TomlFile(path, text)))
