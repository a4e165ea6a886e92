"""Where a campaign lies on disk.

    campaign.json       the plan as it is run: who goes on must have the same
    plan.toml           the same as somebody wrote it
    cells.parquet       the grid
    trace/              task-00012.parquet and its manifest: whole runs, a file for each task
    tasks/              task-00012.jsonl: what became of its runs; there once the task is done
    measures/           costs, latencies and state of every run (docs/report.md)
    runs.parquet, ...   the tables of docs/campaign.md, each as .csv, too
    counterexamples/    a small run for every guarantee that was violated, with its story
    good/               a run that is as it should be, for the page
    again/              runs that somebody wanted to see again
    report.html         the page

    lock                held by the campaign that runs here

Nothing is half-written: each file appears under its name when it is complete. Nothing is mixed:
campaign.json has a digest of tidings itself and of every file of one's own that the plan names, and
who has others cannot go on. (What such a file imports is not looked at.)
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path

import msgspec

import tidings
from tidings import __version__
from tidings.campaign.cells import GridCell, Task, cells_of, table_of, tasks_of
from tidings.campaign.plan import Campaign
from tidings.core import DataError, UsageError
from tidings.disk.files import locked, whole_file
from tidings.trace import refuse_to_overwrite

PLAN = "campaign.json"
_FIRST = {"lock", f"{PLAN}.open"}
"""What somebody who was killed while beginning leaves behind."""


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in campaign.json."""

    tidings: str
    plan: Campaign
    text: str = ""
    """Of the file that the plan was read from."""
    sources: str = ""
    """The digest of tidings."""
    own: dict[str, str] = {}
    """The digest of each file of one's own."""


class Folder:
    """A campaign and the folder in which it is, or is to be."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path = path.absolute()
        self.shown = path
        """As the user calls it."""
        self.campaign = campaign
        self.cells: list[GridCell] = cells_of(campaign)
        self.trace = self.path / "trace"
        self.measures = self.path / "measures"
        self.plan_file = self.path / "plan.toml"
        """The plan as its file had it; with other numbers of seeds it is the same campaign."""
        self.good = self.path / "good"
        self.page = self.path / "report.html"

    @cached_property
    def tasks(self) -> list[Task]:
        return tasks_of(self.cells, self.campaign.seeds)

    def table(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    def outcomes(self, task: Task) -> Path:
        """What became of the runs of a task; it is there if the task is done."""
        return self.path / "tasks" / f"{task.name}.jsonl"

    def cell_of(self, run: str) -> tuple[GridCell, int]:
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


def plan_of(path: Path) -> Campaign:
    """The plan of the campaign that lies in a folder."""
    return _stored(path).plan


def opened(path: Path) -> Folder:
    """The campaign that lies in a folder; none of its algorithms has to be there."""
    return Folder(path, plan_of(path))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """One campaign at a time: nobody else may write here while the block lasts."""
    _refuse_what_is_not_ours(path)
    lock = locked(path, "a campaign needs a folder to write to: see --out")
    try:
        yield
    finally:
        os.close(lock)


def _refuse_what_is_not_ours(path: Path) -> None:
    is_begun = path.is_dir() and {file.name for file in path.iterdir()} <= _FIRST
    if not is_begun and not is_campaign(path):
        refuse_to_overwrite(path)


def begun(path: Path, campaign: Campaign, text: str = "") -> Folder:
    """The folder for a campaign: a new one, or one in which the same was begun.

    ``text`` is that of the file that the plan was read from.
    """
    _refuse_what_is_not_ours(path)
    folder = Folder(path, campaign)
    if is_campaign(path):
        stored = _stored(path)
        if stored.plan != campaign:
            raise UsageError(f"{path} holds a campaign with another plan; choose another folder")
        refuse_other_code(path)
    else:
        stored = _Stored(
            tidings=__version__,
            plan=campaign,
            text=text,
            sources=_sources(),
            own={file: _digest(Path(file)) for file in campaign.own_files},
        )
        with whole_file(folder.path / PLAN) as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(stored)))
    # Late: whether a folder is that of a campaign can be asked where there is no Parquet.
    from tidings.campaign.tables import write_table

    # What follows from campaign.json comes after it: whoever is killed in between goes on.
    if stored.text and not folder.plan_file.exists():
        with whole_file(folder.plan_file) as draft:
            draft.write_text(stored.text, encoding="utf-8")
    if not folder.table("cells").with_suffix(".csv").exists():
        write_table(folder.table("cells"), table_of(folder.cells, campaign.seeds))
    return folder


def refuse_other_code(path: Path) -> None:
    """Results of two codes in one table would be those of neither."""
    if changed := other_code(path):
        raise UsageError(f"{changed}; choose another folder with --out")


def other_code(path: Path) -> str:
    """What is not as it was when the campaign was begun, in words; empty if all is."""
    stored = _stored(path)
    if (stored.tidings, stored.sources) != (__version__, _sources()):
        other = f"tidings {stored.tidings}" if stored.tidings != __version__ else "another tidings"
        return f"{path} was begun with {other}, and not with this one ({__version__}, {_PACKAGE})"
    changed = [file for file, digest in stored.own.items() if _digest(Path(file)) != digest]
    return f"{', '.join(changed)} has changed since {path} was begun" if changed else ""


_PACKAGE = Path(tidings.__file__).parent


@cache
def _sources() -> str:
    """Once for each process: what was loaded counts, not what was edited since."""
    found = blake2b(digest_size=16)
    for file in sorted(_PACKAGE.rglob("*.py")):
        found.update(f"{file.relative_to(_PACKAGE)} {_digest(file)}\n".encode())
    return found.hexdigest()


def _digest(file: Path) -> str:
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError as fault:
        raise UsageError(f"{file}: {fault.strerror}") from None


def _stored(path: Path) -> _Stored:
    file = path / PLAN
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Stored)
    except OSError as fault:
        raise UsageError(f"{path} is no campaign: {file}: {fault.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise DataError(f"{file}: not the plan of a campaign: {fault}") from None
