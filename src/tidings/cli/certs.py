"""``tidings certs``: what members prove who they are with, from the first day to the last."""

import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidings.cli.common import AsJson, GroupFile, err, group_that_is, say
from tidings.cli.common import app as whole
from tidings.cli.group import AUTHORITY, Days
from tidings.core import NO_NAME, EnvironmentMissing, TidingsError, UsageError, is_name
from tidings.node.config import Config

if TYPE_CHECKING:
    from tidings.node.authority import Authority

app = typer.Typer(
    name="certs",
    help="The certificates of a group: issue, renew, revoke, reload, show.",
    epilog="Example: tidings certs renew p1, copy certs/p1 to where p1 runs, tidings certs reload "
    "p1 there",
    no_args_is_help=False,
)
whole.add_typer(app)

Members = Annotated[list[str], typer.Argument(help="Members of the group.")]
AnyMembers = Annotated[list[str] | None, typer.Argument(help="Only these members.")]
AuthorityFolder = Annotated[
    Path | None,
    typer.Option("--authority", help="The folder of the key that signs, if it has moved."),
]
FILE = Path("group.toml")
LOOK_S, PATIENCE_S = 0.05, 10.0
"""How often to look whether a member has obeyed, and for how long at least."""


@app.command(epilog="Example: tidings certs issue p2 --days 90")
def issue(
    members: Members,
    group: GroupFile = FILE,
    authority: AuthorityFolder = None,
    days: Days = 365,
    newcomer: Annotated[
        bool, typer.Option("--newcomer", help="For somebody who is to be added to the group.")
    ] = False,
) -> None:
    """Make a key and a certificate for members that have none, or whose were revoked.

    For whoever is not in the group file yet: tidings certs issue p4 --newcomer
    """
    config, folder = _certified(group)
    signer = _signer(group, authority)
    if not newcomer:
        try:
            _check(members, config, _later(signer))
        except UsageError as fault:
            raise UsageError(f"{fault}; for one that is to be added: --newcomer") from None
    elif wrong := [one for one in members if not is_name(one)]:
        raise UsageError(f"{wrong[0]!r} is {NO_NAME}, or p2+1")
    live = {one.member for one in signer.issued() if one.state == "valid"}
    for member in members:
        if member in live:
            raise UsageError(f"{member} has a certificate; tidings certs renew {member} renews it")
    for member in members:
        _issue(signer, config, member, folder, days)


@app.command(epilog="Example: tidings certs renew p1 p2")
def renew(
    members: Members, group: GroupFile = FILE, authority: AuthorityFolder = None, days: Days = 365
) -> None:
    """Make a new key and certificate for members; the old ones are valid until they end.

    A running member goes on with its old one until it reloads.
    """
    config, folder = _certified(group)
    signer = _signer(group, authority)
    _check(members, config, _later(signer))
    for member in members:
        _issue(signer, config, member, folder, days)


def _issue(signer: "Authority", config: Config, member: str, folder: Path, days: int) -> None:
    ends = signer.issue(config.name, member, folder / member, days)
    say(f"{folder / member}: valid until {ends:%Y-%m-%d}; copy it to where {member} runs")


@app.command(epilog="Example: tidings certs revoke p2")
def revoke(members: Members, group: GroupFile = FILE, authority: AuthorityFolder = None) -> None:
    """Take back all certificates of members: nobody believes them any more.

    That holds at each member once it has the new list, crl.pem, and has reloaded.
    """
    config, folder = _certified(group)
    signer = _signer(group, authority)
    _check(members, config, _later(signer))
    newly = signer.revoke(*members)
    for one in newly:
        say(f"{one.member}: {one.serial} is revoked")
    for member in members:
        if all(one.member != member for one in newly):
            say(f"{member}: everything was revoked before")
    for member in _here(config):
        signer.publish(folder / member)
    say(f"copy {signer.revoked} into the folder of each member, and reload: tidings certs reload")


@app.command(epilog="Example: tidings certs reload p1")
def reload(members: AnyMembers = None, group: GroupFile = FILE) -> None:
    """Have members that run here read their certificates again.

    Their links are made again, and nothing is lost. A member whose files are no good is named and
    goes on as before. To a tidings node, SIGHUP says the same.
    """
    from tidings.node.credentials import ask_to_reload
    from tidings.node.identity import Identity

    config, folder = _certified(group)
    certified = _here(config)
    here = members or certified
    _check(here, config, certified)
    if not here:
        raise UsageError(f"{folder} has no folder of any member")
    asked: dict[str, Path] = {}
    faults: list[TidingsError] = []
    for member in here:
        try:
            Identity(folder / member, config.name, member)  # what it would refuse is refused here
            asked[member] = ask_to_reload(folder / member)
        except TidingsError as fault:
            faults.append(fault)
    ends_s = time.monotonic() + max(PATIENCE_S, 3 * config.links.alive_ms / 1e3)
    while any(path.exists() for path in asked.values()) and time.monotonic() < ends_s:
        time.sleep(LOOK_S)
    for member, path in asked.items():
        if path.exists():
            path.unlink(missing_ok=True)
            words = f"{member} does not run with {folder / member}, or hangs"
            faults.append(EnvironmentMissing(words))
        else:
            say(f"{member} reads its certificates again; if it refuses them, its log says why")
    for one in faults:
        err.print(f"tidings: {one}", soft_wrap=True)
    if faults:
        raise typer.Exit(faults[0].status)


@app.command(epilog="Example: tidings certs show")
def show(
    group: GroupFile = FILE, authority: AuthorityFolder = None, as_json: AsJson = False
) -> None:
    """List the certificates that were issued, and their state."""
    _certified(group)
    issued = _signer(group, authority).issued()
    if as_json:
        print(msgspec.json.encode(issued).decode())
        return
    width = max([6, *(len(one.member) for one in issued)])
    say(f"{'member':<{width}}  {'from':<10}  {'until':<10}  {'state':<13}  serial")
    for one in issued:
        say(
            f"{one.member:<{width}}  {one.begins:%Y-%m-%d}  {one.ends:%Y-%m-%d}  "
            f"{one.state:<13}  {one.serial}"
        )


def _certified(group: Path) -> tuple[Config, Path]:
    config = group_that_is(group)
    if config.certificates is None:
        raise UsageError(f"{group} says tls.plain = true: there are no certificates")
    return config, config.certificates


def _check(members: Iterable[str], config: Config, later: Collection[str]) -> None:
    """Each is in the group file, or came later."""
    for member in members:
        if member not in later:
            config.check_member(member)


def _later(signer: "Authority") -> set[str]:
    """Whom it has certified: members that the group file does not have among them."""
    return {one.member for one in signer.issued()}


def _here(config: Config) -> list[str]:
    """Whose certificates are on this machine, and not only a folder for them."""
    from tidings.node.identity import CERTIFICATE

    folder = config.certificates
    assert folder is not None, "a group with certificates"
    return [one for one in config.certified_here() if (folder / one / CERTIFICATE).exists()]


def _signer(group: Path, folder: Path | None) -> "Authority":
    # Imported late: the library that signs takes a moment, and the other commands need it not.
    from tidings.node.authority import Authority

    return Authority(folder or group.with_name(AUTHORITY))
