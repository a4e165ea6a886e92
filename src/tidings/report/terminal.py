"""Verdicts in a terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from tidings.report.words import MARKS, judged, many
from tidings.spec import JUDGED, Extra, Value, Verdict

_STYLE = {Value.HOLDS: "bold green", Value.VIOLATED: "bold red", Value.UNKNOWN: "bold yellow"}


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """One run, five lines; with agreed views, six."""
    numbers = (Column(name, justify="right") for name in ("judged", "violations", "not owed"))
    table = Table("guarantee", "verdict", *numbers, box=None, pad_edge=False)
    for verdict in verdicts:
        table.add_row(
            verdict.guarantee.value,
            in_a_word(verdict.value, verdict.causes if verdict.violated > 1 else 0),
            judged(verdict.judged, verdict.guarantee),
            f"{verdict.violated:,}" if verdict.violated else "-",
            f"{verdict.not_owed:,}" if verdict.not_owed else "-",
        )
    return table


def in_a_word(value: Value, causes: int = 0) -> Text:
    word = f"{MARKS[value]} {value.value}"
    return Text(f"{word}: {many(causes, 'cause')}" if causes else word, _STYLE[value])


def campaign_table(verdicts_of_runs: Mapping[str, Sequence[Verdict]]) -> Table:
    """Many runs: for each guarantee, in how many it held."""
    numbers = (Column(Text(value.value, _STYLE[value]), justify="right") for value in Value)
    table = Table("guarantee", *numbers, "first violated in", box=None, pad_edge=False)
    for guarantee in JUDGED:
        of_runs = {
            run: verdict.value
            for run, verdicts in verdicts_of_runs.items()
            for verdict in verdicts
            if verdict.guarantee is guarantee
        }
        if not of_runs and guarantee is Extra.VIEWS:
            continue
        values = list(of_runs.values())
        first = next((run for run, value in of_runs.items() if value is Value.VIOLATED), "")
        table.add_row(guarantee.value, *(f"{values.count(one):,}" for one in Value), Text(first))
    return table


def property_table(values: Mapping[str, Value]) -> Table:
    """Properties that were looked for in many runs at once: one verdict for each."""
    table = Table("property", "verdict", box=None, pad_edge=False)
    for name, value in values.items():
        table.add_row(str(name), in_a_word(value))
    return table


def plain_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """Any rows with the same columns; what looks like a number stands to the right."""
    table = Table(box=None, pad_edge=False)
    first = next(iter(rows[0]))  # what one has to type
    for name in rows[0]:
        cells = [row[name] for row in rows]
        is_number = all(one[:1].isdigit() or one[:1] == ">" or one == "?" for one in cells)

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
