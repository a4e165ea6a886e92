"""``tidings status``: how the members of this machine are doing, and why something is stuck."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.live import Live
from rich.text import Text

from tidings.cli.common import AsJson, GroupFile, app, group_that_is, out, say
from tidings.core import EnvironmentMissing
from tidings.node.config import Config

if TYPE_CHECKING:
    from tidings.node.control.door import Report

COLUMNS = ("member", "link", "delivered", "stable", "held back", "lacks")
EVERY_S = 1.0
"""How often ``--watch`` looks."""


@app.command(epilog="Example: tidings status p1 --watch")
def status(
    member: Annotated[
        str | None, typer.Argument(help="Only this member; without, all that run here.")
    ] = None,
    group: GroupFile = Path("group.toml"),
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how running members of this machine are doing: links, progress, log, what is stuck.

    Of each member of the group: whether it is linked; the last of its messages that is delivered
    here, and the last that all members hold; how many of its messages wait here to be delivered;
    and how many messages it is not known to have that are here.
    """
    config = group_that_is(group)
    reports = _reports(config, member)
    if not watch:
        _print(reports, as_json)
        return
    with suppress(KeyboardInterrupt), _screen(as_json) as show:
        while True:
            show(reports)
            time.sleep(EVERY_S)
            try:
                reports = _reports(config, member)
            except EnvironmentMissing:
                reports = []  # it has stopped, and may come back


def _reports(config: Config, member: str | None) -> "list[Report]":
    from tidings.node.control.asking import RunningMember, found, running

    if member is not None:
        return [found(config, member).report()]
    here = [RunningMember(name, path) for name, path in running(config).items()]
    return [one.report() for one in here or [found(config)]]


def _print(reports: "list[Report]", as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(reports).decode(), flush=True)
    else:
        say(_page(reports))


@contextmanager
def _screen(as_json: bool) -> "Iterator[Callable[[list[Report]], None]]":
    """On a terminal every page is in the place of the one before, elsewhere below it."""
    if as_json or not out.is_terminal:
        yield lambda reports: _print(reports, as_json)
        return
    with Live(console=out, auto_refresh=False) as live:
        yield lambda reports: live.update(Text(_page(reports)), refresh=True)


def _page(reports: "list[Report]") -> str:
    if not reports:
        return "nobody runs here"
    return "\n\n".join("\n".join(_lines(one)) for one in reports)


def _lines(report: "Report") -> Iterator[str]:
    yield f"{report.member} of {report.group}, view {report.view}, process {report.pid}"
    yield from _table(report)
    yield (
        f"own        {report.own:,} in all, {report.queued:,} not numbered yet, "
        f"{report.waiting:,} not delivered yet"
    )
    yield f"unread     {report.unread:,}"
    if report.log_limit_bytes:
        share = report.log_bytes / report.log_limit_bytes
        kept = f", most for {report.kept_for}" if report.kept_for else ""
        yield f"log        {report.log_bytes:,} bytes, {share:.0%} of limits.log_bytes{kept}"
    if report.missing:
        yield f"missing    {', '.join(report.missing)}"
    if report.wedged_s:
        yield f"changing   for {report.wedged_s:.0f} s; broadcasts wait"
    if reason := report.stuck or report.refusal:
        yield f"stuck      {reason}"


def _table(report: "Report") -> Iterator[str]:
    rows = [list(COLUMNS)]
    for name in report.members:
        is_us = name == report.member
        rows.append(
            [
                name,
                "itself" if is_us else "up" if name in report.linked else "down",
                f"{report.delivered.get(name, 0):,}",
                f"{report.stable.get(name, 0):,}",
                f"{report.held_back.get(name, 0):,}",
                "" if is_us else f"{report.behind.get(name, 0):,}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        words += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join(words).rstrip()
