"""``tidings report``: what was found, as one HTML page that needs nothing else."""

import shlex
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidings.cli.common import AsJson, app, err, print_json, say
from tidings.cli.spark import Master, Remote, on_spark, refuse_both
from tidings.core import Exit, UsageError
from tidings.disk.files import whole_file
from tidings.report.page import Page, page_of_trace, render
from tidings.report.page.from_trace import MOST_ROWS, entries_of
from tidings.spec import exit_status
from tidings.trace import layout, read_runs

if TYPE_CHECKING:
    from tidings.pipeline import Audit, Overview


PAGE = "report.html"


@app.command(epilog="Example: tidings report runs/7 --open")
def report(
    path: Annotated[Path, typer.Argument(help="A trace, or the folder of a campaign.")],
    out: Annotated[
        Path | None, typer.Option(help=f"The page to write, a .html file; by default PATH/{PAGE}.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Audit a trace on Spark and write one HTML page: verdicts, costs, latencies, pictures.

    The page opens offline. Exits as audit does, with the verdict.
    """
    from tidings.campaign.folder import is_campaign

    refuse_both(master, remote)
    if out is not None and (out.suffix not in (".html", ".htm") or out.is_dir()):
        raise UsageError(f"--out takes a .html file, not {out}")
    target = out or (path.parent if path.is_file() else path) / PAGE
    where = ["--out", str(out)] if out else []
    how = shlex.join(["tidings", "report", str(path), *where])
    reported = of_campaign(path, how) if is_campaign(path) else of_trace(path, how, master, remote)
    size = write_page(reported.page, target)
    if as_json:
        value = reported.page.value.value
        print_json({"answer": reported.page.answer, "value": value, "page": str(target)})
    else:
        say(f"{reported.page.answer}")
        say(f"page   {target}: {size / 1000:,.0f} kB")
    if open_:
        open_page(target)
    raise typer.Exit(reported.status)


def write_page(page: Page, out: Path) -> int:
    """All of it or nothing; how many characters it has."""
    text = render(page)
    with whole_file(out) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")
    return len(text)


def open_page(out: Path) -> None:
    if not webbrowser.open(out.resolve().as_uri()):
        err.print("No browser could be opened.")


class ReportedPage(NamedTuple):
    """A page and how the command ends: one function for each kind of folder makes it."""

    page: Page
    status: Exit


def of_campaign(path: Path, how: str) -> ReportedPage:
    """Of a campaign that is complete: all numbers are there, and nothing is run or judged again."""
    from tidings.campaign.folder import opened
    from tidings.campaign.page import page_of, status_of

    folder = opened(path)
    return ReportedPage(page_of(folder, how), status_of(folder))


def of_trace(path: Path, how: str, master: str | None, remote: str | None) -> ReportedPage:
    """Of a trace. ``how`` is the command that makes the page again."""
    audited, measured = judged_and_measured(path, master, remote)
    runs = read_runs(path) if audited.rows <= MOST_ROWS else []
    page = page_of_trace(
        path, audited.rows, audited.manifests, audited.verdicts, runs, measured, how
    )
    verdicts = [verdict for of_run in audited.verdicts.values() for verdict in of_run]
    return ReportedPage(page, exit_status(verdicts))


def judged_and_measured(
    path: Path, master: str | None = None, remote: str | None = None
) -> tuple["Audit", "Overview"]:
    """All that the page of a trace tells, in one session."""
    layout(path)  # what is not there at all is said before Spark starts
    with on_spark(master, remote) as (spark, progress):
        from tidings import pipeline

        audited = pipeline.audit(spark, path, examples=1, progress=progress)
        entries = entries_of(audited.manifests)
        return audited, pipeline.overview(spark, path, entries, progress=progress)
