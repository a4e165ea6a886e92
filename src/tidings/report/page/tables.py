"""What was found, as tables: verdicts, causes, what changed since a baseline, costs, the story."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING

from tidings.report.markup import Markup, element, joined
from tidings.report.numbers import figure, percent, percents
from tidings.report.page.model import (
    CauseTable,
    Cell,
    Comparison,
    CostRow,
    CostTable,
    Entry,
    Episode,
    Matrix,
)
from tidings.report.page.parts import mark, note, table
from tidings.report.words import MARKS, many
from tidings.spec import JUDGED, Extra, Guarantee, Value

WORSE, BETTER = "↗ worse:", "↘ better:"


# --- what happened


def episode_list(episodes: Sequence[Episode]) -> Markup:
    """Each with a way to the picture that shows it."""
    lines = [
        element(
            "li",
            element("span", episode.words),
            element("a", "see it", href=f"#{episode.picture}") if episode.picture else None,
        )
        for episode in episodes
    ]
    return element("ol", *lines, class_="episodes")


# --- the verdicts


def matrix_table(matrix: Matrix) -> Markup:
    guarantees = [one for one in JUDGED if any(one in entry.cells for entry in matrix.entries)]
    head = element(
        "tr",
        element("th", matrix.what, scope="col", role="columnheader"),
        *(element("th", one.value, scope="col", role="columnheader") for one in guarantees),
        role="row",
    )
    rows = [_entry(entry, guarantees) for entry in matrix.entries]
    has_bounds = any(cell.high is not None for row in matrix.entries for cell in row.cells.values())
    bounds = (
        f"Shares of violating runs with exact {percent(matrix.confidence)} confidence intervals; "
        "“at most” is what no violation seen in so many runs still allows."
    )
    return joined(
        element(
            "table",
            element("thead", head, role="rowgroup"),
            element("tbody", *rows, role="rowgroup"),
            class_="matrix",
            role="table",
            aria_label="Verdicts",
        ),
        note(bounds if has_bounds else "", matrix.note),
    )


def _entry(entry: Entry, guarantees: Sequence[Guarantee | Extra]) -> Markup:
    return element(
        "tr",
        element(
            "th",
            element("span", entry.name, class_="name"),
            element("span", "flawed on purpose", class_="tag") if entry.flawed else None,
            element("span", entry.note, class_="small") if entry.note else None,
            scope="row",
            role="rowheader",
        ),
        *(_cell(entry.cells.get(one), one) for one in guarantees),
        role="row",
        class_="flawed" if entry.flawed else None,
    )


def _cell(cell: Cell | None, guarantee: Guarantee | Extra) -> Markup:
    if cell is None:
        return element("td", "–", role="cell", data_label=guarantee.value, class_="none")
    word = element("span", mark(MARKS[cell.value]), " ", _word(cell), class_="word")
    if cell.picture is not None:
        word = element("a", word, element("span", " see it", class_="see"), href=f"#{cell.picture}")
    return element(
        "td",
        word,
        *(element("span", line, class_="small") for line in _counts(cell)),
        role="cell",
        data_label=guarantee.value,
        class_=cell.value,
    )


def _word(cell: Cell) -> str:
    """What holds in every run of a sample was not seen violated; more is not known."""
    is_sampled = cell.value is Value.HOLDS and cell.high is not None
    return "not seen" if is_sampled else cell.value.value


def _counts(cell: Cell) -> Iterator[str]:
    """In how many of those that could be judged, and what that proves."""
    judged = cell.runs - cell.unknown
    if cell.high is not None and judged and not cell.violated:
        yield f"in {many(judged, 'run')}, at most {percent(cell.high, ROUND_CEILING)}"
    elif cell.runs > 1 and judged:
        yield f"{cell.violated:,} of {judged:,} runs"
        if cell.low is not None and cell.high is not None:
            yield percents(cell.low, cell.high)
    if cell.runs > 1 and cell.unknown:
        yield f"{cell.unknown:,} unknown"
    if cell.note:
        yield cell.note


def cause_table(causes: CauseTable) -> Markup:
    guarantees = [one for one in Guarantee if any(one in row.violated for row in causes.rows)]
    with_runs = len({row.run for row in causes.rows}) > 1
    rows = [
        [
            row.words,
            *([row.run] if with_runs else []),
            *(f"{row.violated[one]:,}" if one in row.violated else "–" for one in guarantees),
        ]
        for row in causes.rows
    ]
    head = ["what went wrong", *(["run"] if with_runs else []), *(one.value for one in guarantees)]
    return element(
        "figure",
        element("figcaption", "What the violations follow from"),
        table(head, rows),
        note(causes.note),
    )


def change_table(comparison: Comparison) -> Markup:
    rows = [
        [
            change.where,
            f"{WORSE if change.is_worse else BETTER} {change.measure}",
            figure(change.before),
            figure(change.after),
            f"{change.pairs:,}",
            f"{change.chance:.2g}",
        ]
        for change in comparison.changes
    ]
    return element(
        "figure",
        element("figcaption", f"Compared with {comparison.baseline}"),
        table(["where", "what", "before", "after", "pairs", "chance"], rows)
        if rows
        else element("p", "Nothing is better or worse beyond noise."),
        note(comparison.note),
    )


# --- costs


def cost_table(costs: CostTable) -> Markup:
    total = CostRow(
        "altogether",
        sum(row.packets for row in costs.rows),
        sum(row.bytes for row in costs.rows),
    )
    rows = [[row.kind, figure(row.packets), figure(row.bytes)] for row in (*costs.rows, total)]
    of = f"{costs.title}, on average of {many(costs.broadcasts, 'broadcast')}"
    return element(
        "figure",
        element("figcaption", of),
        table(["kind of packet", "packets", "bytes"], rows, has_total=True),
        note(costs.note),
    )
