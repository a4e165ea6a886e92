"""Figures of many passes as tables: medians, ranges, and ratios to Tidings."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.core.ranks import percentile
from tidings.report.charts import Axis, LineChart, Point, document, lines_of


class Measure(NamedTuple):
    """One table."""

    title: str
    digits: int = 0


class Figure(NamedTuple):
    system: str
    measure: Measure
    column: str
    value: float


class Spread(NamedTuple):
    median: float
    low: float
    high: float


class Results:
    """Systems, measures and columns stand in the order in which they first came."""

    def __init__(self, kept_on_disk: dict[str, bool]) -> None:
        self.kept_on_disk = kept_on_disk
        """Of each system. Ratios refer to the first in memory and to the first on disk."""
        self._values: dict[tuple[str, Measure, str], list[float]] = {}

    def add(self, figure: Figure) -> None:
        self._values.setdefault(figure[:3], []).append(figure.value)

    def systems(self) -> list[str]:
        measured = {system for system, _, _ in self._values}
        return [name for name in self.kept_on_disk if name in measured]

    def measures(self) -> list[Measure]:
        return list(dict.fromkeys(measure for _, measure, _ in self._values))

    def columns(self, measure: Measure) -> list[str]:
        return list(dict.fromkeys(column for _, one, column in self._values if one == measure))

    def spread(self, system: str, measure: Measure, column: str) -> Spread | None:
        values = sorted(self._values.get((system, measure, column), ()))
        return Spread(percentile(50, values), values[0], values[-1]) if values else None

    def reference(self, system: str) -> str:
        on_disk = self.kept_on_disk[system]
        return next(name for name, kept in self.kept_on_disk.items() if kept == on_disk)

    def cell(self, system: str, measure: Measure, column: str) -> str:
        """``1,200 ×0.8 (1,100 to 1,250)``; the range only if there is more than one pass."""
        spread = self.spread(system, measure, column)
        if spread is None:
            return "-"
        words = f"{spread.median:,.{measure.digits}f}"
        reference = self.spread(self.reference(system), measure, column)
        if reference is not None and reference.median and self.reference(system) != system:
            words += f" ×{spread.median / reference.median:.2g}"
        if len(self._values[system, measure, column]) > 1:
            low, high = (f"{one:,.{measure.digits}f}" for one in spread[1:])
            words += f" ({low} to {high})"
        return words

    def listed(self) -> list[dict[str, object]]:
        """Every value of every pass."""
        return [
            {"system": system, "measure": measure.title, "column": column, "values": values}
            for (system, measure, column), values in self._values.items()
        ]

    def tables(self) -> Iterator[str]:
        """Markdown."""
        for measure in self.measures():
            columns = self.columns(measure)
            yield f"**{measure.title}**\n"
            yield f"system | {' | '.join(columns)}\n---|{'|'.join(['---:'] * len(columns))}"
            for system in self.systems():
                cells = (self.cell(system, measure, column) for column in columns)
                yield f"{system} | {' | '.join(cells)}"
            yield ""


def chart(
    results: Results, measure: Measure, windows: Sequence[int], columns: Sequence[str]
) -> str:
    """One measure over the window, in memory and on disk."""

    def points(on_disk: bool) -> Iterator[tuple[str, Point]]:
        for system in results.systems():
            for window, column in zip(windows, columns, strict=True):
                spread = results.spread(system, measure, column)
                if spread is not None and results.kept_on_disk[system] == on_disk:
                    yield system, Point(window, spread.median, spread.low, spread.high)

    charts = [
        LineChart(
            title=title,
            x=Axis("window of each member", logarithmic=True),
            y=Axis("broadcasts per second", logarithmic=True),
            lines=lines_of(points(on_disk)),
        )
        for title, on_disk in (("In memory", False), ("On disk", True))
    ]
    return document(f"{measure.title}: three members on one machine", charts)
