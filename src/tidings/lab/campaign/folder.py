"""Where a campaign lies on disk.

    campaign.json       the plan as it is run: who goes on must have the same
    plan.toml           the same as somebody wrote it
    cells.parquet       the grid
    trace/              task-00012.parquet and its manifest: whole runs, a file for each task
    tasks/              task-00012.jsonl: what became of its runs; there once the task is done
    measures/           costs, latencies and state of every run (docs/tables.md)
    runs.parquet, ...   the tables of docs/campaign.md, each as .csv, too
    counterexamples/    a small run for every guarantee that was violated, with its story
    good/               a run that is as it should be, for the page
    again/              runs that somebody wanted to see again
    report.html         the page

Nothing is half-written: each file appears under its name when it is complete.
"""

from pathlib import Path
from typing import Any

import msgspec

from tidings import __version__
from tidings.core import DataError, UsageError
from tidings.lab.campaign.cells import Cell, Task, cells_of, table_of, tasks_of
from tidings.lab.campaign.plan import Campaign
from tidings.lab.campaign.tables import write_table
from tidings.trace import refuse_to_overwrite
from tidings.trace.layout import whole_file

PLAN = "campaign.json"


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in campaign.json."""

    tidings: str
    plan: Campaign
    text: str = ""
    """Of the file that the plan was read from."""


class Folder:
    """A campaign and the folder in which it is, or is to be."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path = path.absolute()
        self.shown = path
        """As the user calls it."""
        self.campaign = campaign
        self.cells: list[Cell] = cells_of(campaign)
        self.tasks: list[Task] = tasks_of(self.cells, campaign.seeds)

    @property
    def trace(self) -> Path:
        return self.path / "trace"

    @property
    def measures(self) -> Path:
        return self.path / "measures"

    @property
    def plan_file(self) -> Path:
        """The plan as its file had it; with other numbers of seeds it is the same campaign."""
        return self.path / "plan.toml"

    @property
    def good(self) -> Path:
        return self.path / "good"

    @property
    def page(self) -> Path:
        return self.path / "report.html"

    def table(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    def outcomes(self, task: Task) -> Path:
        """What became of the runs of a task; it is there if the task is done."""
        return self.path / "tasks" / f"{task.name}.jsonl"

    def cell_of(self, run: str) -> tuple[Cell, int]:
        """The cell and the seed of a run, by its name."""
        number, _, seed = run.partition("-")
        if number.isdecimal() and seed.isdecimal() and int(number) < len(self.cells):
            cell = self.cells[int(number)]
            if int(seed) < self.campaign.seeds and cell.run_name(int(seed)) == run:
                return cell, int(seed)
        last = self.cells[-1].run_name(self.campaign.seeds - 1)
        raise UsageError(f"{self.shown} has no run {run}; it has 00000-0 to {last}")


def is_campaign(path: Path) -> bool:
    return (path / PLAN).is_file()


def opened(path: Path) -> Folder:
    """The campaign that lies in a folder."""
    return Folder(path, _stored(path).plan)


def begun(path: Path, campaign: Campaign, text: str = "") -> Folder:
    """The folder for a campaign: a new one, or one in which the same was begun.

    ``text`` is that of the file that the plan was read from.
    """
    folder = Folder(path, campaign)
    if is_campaign(path):
        stored = _stored(path)
        if stored.tidings != __version__:
            raise UsageError(
                f"{path} was begun by tidings {stored.tidings}, this is {__version__}; choose "
                "another folder"
            )
        if stored.plan != campaign:
            raise UsageError(f"{path} holds a campaign with another plan; choose another folder")
    else:
        refuse_to_overwrite(path)
        stored = _Stored(tidings=__version__, plan=campaign, text=text)
        with whole_file(folder.path / PLAN) as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(stored)))
    _complete(folder, stored.text)
    return folder


def _complete(folder: Folder, text: str) -> None:
    """What follows from campaign.json comes after it: whoever is killed in between goes on."""
    if text and not folder.plan_file.exists():
        with whole_file(folder.plan_file) as draft:
            draft.write_text(text, encoding="utf-8")
    if not folder.table("cells").with_suffix(".csv").exists():
        write_table(folder.table("cells"), table_of(folder.cells, folder.campaign.seeds))


def _stored(path: Path) -> _Stored:
    file = path / PLAN
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Stored)
    except OSError as fault:
        raise UsageError(f"{path} is no campaign: {file}: {fault.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise DataError(f"{file}: not the plan of a campaign: {fault}") from None


def lines(path: Path, kind: type[Any]) -> list[Any]:
    """A file with one struct for each line."""
    return msgspec.json.Decoder(kind).decode_lines(path.read_bytes())
