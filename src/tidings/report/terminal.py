"""Verdicts in a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from tidings.report.words import many
from tidings.spec import Guarantee, Value, Verdict

_STYLE = {Value.HOLDS: "bold green", Value.VIOLATED: "bold red", Value.UNKNOWN: "bold yellow"}
_MARK = {Value.HOLDS: "✓", Value.VIOLATED: "✗", Value.UNKNOWN: "?"}


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """One run, five lines."""
    table = Table(box=None, pad_edge=False)
    table.add_column("guarantee")
    table.add_column("verdict")
    table.add_column("judged", justify="right")
    table.add_column("violations", justify="right")
    table.add_column("not owed", justify="right")
    for verdict in verdicts:
        table.add_row(
            verdict.guarantee.value,
            Text(f"{_MARK[verdict.value]} {verdict.value.value}", _STYLE[verdict.value]),
            many(verdict.judged, _unit(verdict.guarantee)),
            f"{verdict.violated:,}" if verdict.violated else "-",
            f"{verdict.not_owed:,}" if verdict.not_owed else "-",
        )
    return table


def _unit(guarantee: Guarantee) -> str:
    liveness = guarantee in (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT)
    return "broadcast" if liveness else "delivery"


def campaign_table(verdicts_of_runs: Mapping[str, Sequence[Verdict]]) -> Table:
    """Many runs: for each guarantee, in how many it held."""
    table = Table(box=None, pad_edge=False)
    table.add_column("guarantee")
    for value in Value:
        table.add_column(Text(value.value, _STYLE[value]), justify="right")
    table.add_column("first violated in")
    for guarantee, of_guarantee in zip(
        Guarantee, zip(*verdicts_of_runs.values(), strict=True), strict=True
    ):
        counts = Counter(verdict.value for verdict in of_guarantee)
        named = zip(verdicts_of_runs, of_guarantee, strict=True)
        first = next((run for run, verdict in named if verdict.value is Value.VIOLATED), "")
        table.add_row(guarantee.value, *(f"{counts[value]:,}" for value in Value), Text(first))
    return table


def property_table(values: Mapping[str, Value]) -> Table:
    """Properties that were looked for in many runs at once: one verdict for each."""
    table = Table(box=None, pad_edge=False)
    table.add_column("property")
    table.add_column("verdict")
    for name, value in values.items():
        table.add_row(str(name), Text(f"{_MARK[value]} {value.value}", _STYLE[value]))
    return table


def plain_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """Any rows with the same columns; what looks like a number stands to the right."""
    table = Table(box=None, pad_edge=False)
    first = next(iter(rows[0]))  # what one has to type
    for name in rows[0]:
        is_number = all(row[name][:1].isdigit() or row[name][:1] == ">" for row in rows)
        # In a narrow terminal words are folded, figures never cut.
        table.add_column(
            name,
            justify="right" if is_number else "left",
            no_wrap=is_number or name == first,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row.values()))
    return table
