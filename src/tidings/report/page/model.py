"""What a page shows: plain data, filled by whoever has the numbers.

Every part may be missing; a section without data is left out. Words are plain text.
"""

from collections.abc import Container, Sequence

import msgspec

from tidings.report.charts.model import (
    Chart,
    Line,
    LineChart,
    ParetoChart,
    Shown,
    SpreadChart,
    StateChart,
)
from tidings.report.markup import Markup
from tidings.spec import Extra, Guarantee, Value

# --- the verdicts


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee of one entry, over all its runs."""

    value: Value
    runs: int
    violated: int = 0
    """In how many runs it was violated."""
    unknown: int = 0
    """In how many it could not be judged."""
    low: float | None = None
    """The exact interval of the share of runs that violate it, from 0 to 1: None where the runs
    are no sample, as in a single trace. Without any violation only ``high`` is shown."""
    high: float | None = None
    note: str = ""
    """What else there is to say: what was judged, why it is unknown."""
    picture: str | None = None
    """The key of the picture that shows a counterexample."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the matrix: an algorithm with its options, or a run."""

    name: str
    cells: dict[Guarantee | Extra, Cell]
    flawed: bool = False
    """Whether it is meant to fail."""
    note: str = ""


class Matrix(Shown, frozen=True, kw_only=True):
    entries: tuple[Entry, ...]
    confidence: float = 0.95
    """Of the intervals in its cells."""
    what: str = "algorithm"
    """What an entry is."""


class CauseRow(msgspec.Struct, frozen=True):
    """What violations follow from."""

    run: str
    words: str
    violated: dict[Guarantee, int]
    """How many violations of each guarantee follow from it."""


class CauseTable(Shown, frozen=True, kw_only=True):
    rows: tuple[CauseRow, ...]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is better or worse than it was elsewhere, beyond noise."""

    where: str
    measure: str
    before: float
    after: float
    pairs: int
    """Of runs with the same luck."""
    chance: float
    """How likely that is by chance alone."""
    is_worse: bool


class Comparison(Shown, frozen=True, kw_only=True):
    """With a baseline; without changes, the note says all there is to say."""

    baseline: str
    changes: tuple[Change, ...]


class CostRow(msgspec.Struct, frozen=True):
    """Packets of one kind, per broadcast."""

    kind: str
    packets: float
    bytes: float


class CostTable(Chart, frozen=True, kw_only=True):
    """What was sent for one broadcast, where there is only one size of group."""

    rows: tuple[CostRow, ...]
    broadcasts: int


# --- runs


class Episode(msgspec.Struct, frozen=True):
    """A sentence about what happened, and the key of the picture that shows it."""

    words: str
    picture: str | None = None


class Moment(msgspec.Struct, frozen=True):
    """A column of a picture: one step of its story."""

    x: float
    where: str
    words: str
    is_violation: bool = False


class Happening(msgspec.Struct, frozen=True, array_like=True):
    """An event of a picture, and its past: of each process, the last index that came before."""

    process: int
    index: int
    moment: int
    past: tuple[int, ...]


class Spoken(msgspec.Struct, frozen=True):
    """A message of a picture, and the number of the happening that is its broadcast."""

    name: str
    text: str
    broadcast: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a space-time diagram that can be stepped through; made by ``pictures``."""

    key: str
    """Unique on the page; letters, digits and hyphens."""
    title: str
    entry: str
    """Whose run it is, as in the matrix."""
    facts: str
    """What the run was: its name, its seed, counts."""
    svg: Markup
    names: Markup
    """Of its lanes, to stay in view."""
    symbols: tuple[tuple[Markup, str], ...]
    """The signs in it, and what they mean."""
    processes: tuple[str, ...]
    moments: tuple[Moment, ...]
    happenings: tuple[Happening, ...]
    messages: tuple[Spoken, ...]
    is_violation: bool = False
    summary: str = ""
    """The one sentence that says what is wrong."""
    proof: str = ""
    left_out: str = ""
    replay: str = ""
    """The command that plays it again, if there is one."""
    shrink: str = ""
    """The command that makes it shorter, where it is too long to be shown whole."""


# --- the page


class Fact(msgspec.Struct, frozen=True):
    name: str
    value: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    answer: str
    """The answer in one sentence."""
    value: Value
    """The answer in one word."""
    about: str = ""
    """What this is: what was run and judged, and how."""
    facts: tuple[Fact, ...] = ()
    episodes: tuple[Episode, ...] = ()
    """What happened to the members, in order."""
    matrix: Matrix | None = None
    causes: CauseTable | None = None
    comparison: Comparison | None = None
    costs: tuple[LineChart, ...] = ()
    cost_table: CostTable | None = None
    latencies: tuple[SpreadChart, ...] = ()
    states: tuple[StateChart, ...] = ()
    pareto: tuple[ParetoChart, ...] = ()
    pictures: tuple[Picture, ...] = ()
    reproduce: tuple[Fact, ...] = ()
    """How to have all of it again: what, and the command."""
    left_out: tuple[str, ...] = ()
    """What the page does not show, in sentences."""


# --- how much of it

MOST_EPISODES = 24
MOST_ENTRIES = 64
"""Rows of the matrix."""
MOST_CAUSE_ROWS = 40
MOST_CHANGES = 40
"""Of a comparison."""
MOST_LINES = 24
"""Lines, distributions, panels or dots of one figure."""
MOST_POINTS = 200
"""Of one line."""
MOST_FIGURES = 16
"""Of one section."""
MOST_PICTURES = 32
MOST_EVENTS = 120
"""Of one picture. Of a violation with a longer past, the rows that its proof names are drawn."""
MOST_LANES = 24
"""Larger groups are not drawn."""


def within_limits(page: Page) -> Page:
    """The page as it can be shown, without what is empty, and in ``left_out`` what is cut."""
    notes = list(page.left_out)

    def first(parts: Sequence[object], most: int, what: str) -> int:
        if len(parts) > most:
            notes.append(f"Only the first {most} of {len(parts):,} {what} are shown.")
        return most

    pictures = page.pictures[: first(page.pictures, MOST_PICTURES, "pictures")]
    keys = {picture.key for picture in pictures}
    episodes = page.episodes[: first(page.episodes, MOST_EPISODES, "crashes and returns")]
    changes: dict[str, object] = {
        "pictures": pictures,
        "episodes": tuple(
            one if one.picture in keys else msgspec.structs.replace(one, picture=None)
            for one in episodes
        ),
    }
    if page.matrix is not None:
        entries = page.matrix.entries
        kept = entries[: first(entries, MOST_ENTRIES, "rows of the matrix")]
        linked = tuple(_linked(entry, keys) for entry in kept)
        changes["matrix"] = msgspec.structs.replace(page.matrix, entries=linked)
    if page.causes is not None:
        rows = page.causes.rows
        kept_rows = rows[: first(rows, MOST_CAUSE_ROWS, "causes")]
        changes["causes"] = msgspec.structs.replace(page.causes, rows=kept_rows)
    if page.comparison is not None:
        changed = page.comparison.changes
        kept_changes = changed[: first(changed, MOST_CHANGES, "changes")]
        changes["comparison"] = msgspec.structs.replace(page.comparison, changes=kept_changes)
    for section, parts in _PARTS.items():
        charts = getattr(page, section)
        charts = charts[: first(charts, MOST_FIGURES, f"figures of {section}")]
        changes[section] = tuple(
            msgspec.structs.replace(chart, **{parts: tuple(map(_thinned, shown[:most]))})
            for chart in charts
            if (shown := [part for part in getattr(chart, parts) if getattr(part, "points", True)])
            for most in [first(shown, MOST_LINES, f"in “{chart.title}”")]
        )
    return msgspec.structs.replace(page, **changes, left_out=tuple(notes))


def _linked(entry: Entry, keys: Container[str]) -> Entry:
    """An entry whose cells lead only to pictures that are there."""
    cells = {
        guarantee: cell
        if cell.picture is None or cell.picture in keys
        else msgspec.structs.replace(cell, picture=None)
        for guarantee, cell in entry.cells.items()
    }
    return msgspec.structs.replace(entry, cells=cells)


_PARTS = {"costs": "lines", "latencies": "spreads", "states": "lines", "pareto": "dots"}


def _thinned(part: object) -> object:
    """A line with no more points than can be told apart; its ends stay."""
    if not isinstance(part, Line) or len(part.points) <= MOST_POINTS:
        return part
    step = (len(part.points) - 1) / (MOST_POINTS - 1)
    kept = tuple(part.points[round(number * step)] for number in range(MOST_POINTS))
    return msgspec.structs.replace(part, points=kept)
