"""``tidings group``: the file that all members need, and a certificate for each of them."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer

from tidings.cli.common import GroupFile, app, say
from tidings.core import NO_NAME, DataError, UsageError, is_name
from tidings.disk.files import make_folder, named
from tidings.node.config import new_group_file, parse_config

AUTHORITY = "authority"
"""The folder of the key that signs, beside the group file."""
Days = Annotated[int, typer.Option(min=1, max=36500, help="How long a certificate is valid.")]


@app.command(
    "group",
    epilog="Example: tidings group p1=10.0.0.1:7001 p2=p2.example.org:7001 --group two.toml",
)
def new_group(
    members: Annotated[
        list[str],
        typer.Argument(help="All members: p1=HOST:PORT, or only p1 for one on this machine."),
    ],
    group: GroupFile = Path("group.toml"),
    port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="The first port here; ports in use are skipped."),
    ] = 7001,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Without certificates: for members on this machine only."),
    ] = False,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="A port on loopback for metrics and health; then the next."
        ),
    ] = None,
    days: Days = 365,
    authority_days: Annotated[
        int, typer.Option(min=1, max=36500, help="How long the authority is valid.")
    ] = 3650,
) -> None:
    """Write a group file, and a certificate for each member.

    To try it, each in its own terminal: tidings group alice bob carol, then tidings chat alice,
    tidings chat bob, tidings chat carol.

    On several machines: copy group.toml and certs/p1 to the machine of p1, and so on. The folder
    authority has the key that signs certificates; it is copied to nobody. docs/node.md lists all
    settings of the file.
    """
    addresses = _addresses(members, port)
    name = group.stem if is_name(group.stem) else "group"
    asked = _metrics(addresses, metrics) if metrics is not None else None
    text = new_group_file(name, addresses, plain=plain, metrics=asked)
    try:
        config = parse_config(text, group)
    except DataError as fault:
        raise UsageError(str(fault).partition(": ")[2]) from None
    authority = group.with_name(AUTHORITY)
    certificates = config.certificates
    folders = (authority, certificates) if certificates is not None else ()
    for path in (group, *folders):
        if path.exists():
            raise UsageError(f"{path} is there already; it stays as it is")
    make_folder(group.parent)
    group.touch(exist_ok=False)  # of two who make the same group, only one goes on
    with _all_or_none(group, *folders):
        if certificates is not None:
            # Imported late: the library that signs takes a moment.
            from tidings.node.authority import certify

            certify(config, authority, days, authority_days)
        with named(group):
            group.write_text(text, encoding="utf-8")
    say(f"{group}: " + ", ".join(f"{member} on {address}" for member, address in addresses.items()))
    if certificates is not None:
        say(f"{certificates}: a folder for each member; it needs its own, and {group.name}")
        say(f"{authority}: the key that signs certificates; keep it, and copy it to nobody")


@contextmanager
def _all_or_none(*paths: Path) -> Iterator[None]:
    """If the disk is full, nothing stays that would be in the way of the same command later."""
    try:
        yield
    except BaseException:
        for path in paths:
            rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _addresses(members: list[str], port: int) -> Mapping[str, str]:
    """Where each is reached: as it was said, or on free ports of this machine."""
    given: dict[str, str] = {}
    for words in members:
        member, _, address = words.partition("=")
        if not is_name(member):
            raise UsageError(f"{member!r} is {NO_NAME}")
        if member in given:
            raise UsageError(f"{member} is there twice")
        if "=" in words and (not address or set(address) & set("\"'\\\n\r")):
            raise UsageError(f"{words!r}: write an address like p1=10.0.0.1:7001")
        given[member] = address
    here = iter(_free_addresses(list(given.values()).count(""), port))
    return {member: address or next(here) for member, address in given.items()}


def _metrics(addresses: Mapping[str, str], port: int) -> dict[str, str]:
    """Each on this port of its own machine; those that share one, on the next."""
    hosts = [address.rpartition(":")[0] for address in addresses.values()]
    before = (hosts[:number].count(host) for number, host in enumerate(hosts))
    return {
        member: f"127.0.0.1:{port + others}"
        for member, others in zip(addresses, before, strict=True)
    }


def _free_addresses(count: int, port: int) -> list[str]:
    """So many ports from this one on that nobody listens on at the moment."""
    found: list[str] = []
    while len(found) < count:
        if port > 65535:
            raise UsageError(f"there are not {count} free ports from there on")
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            found.append(f"127.0.0.1:{port}")
        port += 1
    return found
