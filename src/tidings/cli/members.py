"""``tidings members``: who is in a running group, and who is to be."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidings.cli.common import AsJson, GroupFile, err, group_that_is, print_json, say
from tidings.cli.common import app as whole
from tidings.core import NO_NAME, UsageError, first_of, is_name
from tidings.node.config import PLAIN_IS_HERE, Config, is_loopback, parse_address

if TYPE_CHECKING:
    from tidings.node.control.asking import RunningMember
    from tidings.node.control.door import Asked, Roster

app = typer.Typer(
    name="members",
    help="The members of a running group: list, add, remove, replace.",
    epilog="Example: tidings members add p4 --via 10.0.0.4:7001",
    no_args_is_help=False,
)
whole.add_typer(app)

FILE = Path("group.toml")
Asks = Annotated[
    str | None,
    typer.Option("--member", help="Which member of this machine to ask; any, if none is named."),
]
Via = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the newcomer is reached.")]
WORDS = {
    "calling": "{newcomer} is called at {address}",
    "asked": "{member} asks the others whether they are there",
    "ready": "ready: a majority is there and lacks little",
    "promised": "promised: broadcasts wait until everybody has the same",
}
"""What each step towards a view is called for people."""


@app.command("list", epilog="Example: tidings members list")
def show(group: GroupFile = FILE, member: Asks = None, as_json: AsJson = False) -> None:
    """List the members as a running member of this machine knows them."""
    from tidings.node.control.asking import found

    roster = found(group_that_is(group), member).roster()
    if as_json:
        print_json(msgspec.to_builtins(roster))
        return
    say(f"{roster.group}, view {roster.view}, as {roster.member} knows it")
    width = max(len(one) for one in ("member", *roster.addresses))
    room = max(len(one) for one in ("address", *roster.addresses.values()))
    say(f"{'member':<{width}}  {'address':<{room}}  link")
    for name, address in roster.addresses.items():
        link = "up" if name in roster.linked else "itself" if name == roster.member else "down"
        say(f"{name:<{width}}  {address:<{room}}  {link}")


@app.command(epilog="Example: tidings members add p4 --via 10.0.0.4:7001")
def add(
    name: Annotated[str, typer.Argument(help="Who is to be added; a name that was never used.")],
    via: Via,
    group: GroupFile = FILE,
    member: Asks = None,
    as_json: AsJson = False,
) -> None:
    """Add a member, which has to run already: what to copy and how to start it is printed first.

    It starts with what is delivered from then on. A majority of the members has to be up.
    """
    from tidings.node.control.asking import found
    from tidings.node.control.door import Asked

    config = group_that_is(group)
    _check_newcomer(name, via, config)
    asks = found(config, member)
    roster = asks.roster()
    if name in roster.addresses:
        raise UsageError(f"{name} is in the group already")
    _print_preparations(name, via, group, config)
    _change(asks, Asked(add=name, address=via), as_json)


@app.command(epilog="Example: tidings members remove p3")
def remove(
    name: Annotated[str, typer.Argument(help="Who is to be removed, running or not.")],
    group: GroupFile = FILE,
    member: Asks = None,
    as_json: AsJson = False,
) -> None:
    """Remove a member for good: its name is never used again, and the others wait for it no more.

    A majority of the members has to be up. To stop a process removes nobody: it may start again.
    """
    from tidings.node.control.asking import found
    from tidings.node.control.door import Asked

    asks = found(group_that_is(group), member, other_than=name)
    _known(name, asks.roster())
    _change(asks, Asked(remove=name), as_json)


@app.command(epilog="Example: tidings members replace p2")
def replace(
    name: Annotated[str, typer.Argument(help="Whose disk or machine is lost.")],
    via: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the newcomer is reached; at the address of the lost one, if none is named.",
        ),
    ] = "",
    group: GroupFile = FILE,
    member: Asks = None,
    as_json: AsJson = False,
) -> None:
    """Put a new member in the place of one that is lost, in one step: p2+1 comes after p2.

    The new one has to run already: what to copy and how to start it is printed first. A majority
    of the members has to be up.
    """
    from tidings.node.control.asking import found
    from tidings.node.control.door import Asked

    config = group_that_is(group)
    asks = found(config, member, other_than=name)
    roster = asks.roster()
    _known(name, roster)
    newcomer, via = roster.replacements[name], via or roster.addresses[name]
    _check_newcomer(newcomer, via, config)
    _print_preparations(newcomer, via, group, config)
    _change(asks, Asked(newcomer, name, via), as_json)


def _known(name: str, roster: "Roster") -> None:
    from tidings.node.control.asking import unknown

    if name not in roster.addresses:
        raise unknown(name, tuple(roster.addresses))


def _check_newcomer(name: str, via: str, config: Config) -> None:
    if not is_name(name):
        raise UsageError(f"{name!r} is {NO_NAME}")
    address = parse_address(via)
    if address is None:
        raise UsageError(f"--via: {via!r} is not an address like 10.0.0.4:7001")
    if config.tls.plain and not is_loopback(address.host):
        raise UsageError(f"--via: {via} is not on loopback; {PLAIN_IS_HERE}")


def _print_preparations(name: str, via: str, group: Path, config: Config) -> None:
    """What whoever sets up the newcomer has to do, if that is not done yet."""
    say(f"{name} has to run before it can be added; if it does not run yet:")
    copied = group.name
    if config.certificates is not None:
        copied = f"{group.name} and {config.tls.folder}/{name}"
        if not (config.certificates / name).is_dir():
            say(f"  where the authority is    tidings certs issue {name} --newcomer")
    say(f"  copy to {via.rpartition(':')[0]:<17} {copied}")
    is_known = config.addresses.get(first_of(name)) == parse_address(via)
    where = "" if is_known else f" --address {via}"
    say(f"  start it there            tidings node {name}{where}")


def _change(asks: "RunningMember", asked: "Asked", as_json: bool) -> None:
    """Ask for it, and follow it to its end: the view, or one line that says why there is none."""
    from tidings.node.control.asking import Broken, error_of

    last: Mapping[str, Any] = {}
    try:
        for last in asks.change(asked):
            if words := WORDS.get(last["state"]):
                about = {"member": asks.member, "newcomer": asked.add, "address": asked.address}
                err.print(words.format(**about), soft_wrap=True)
    except Broken as broken:
        raise Broken(f"{broken}; what came of it, tidings members list says") from None
    if as_json:
        print_json(last)
    if last["state"] == "denied":
        raise error_of(f"{asked} is denied: {last['reason']}", last["status"])
    say(f"view {last['view']}: {', '.join(last['members'])}")
