"""What the driver has to know of all rows before any of them is laid out.

One pass over the interpreted rows. It counts the rows of each process by kind and the lines of each
block of a file, and finds the first bad row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.core import DataError
from tidings.pipeline.sources.lookup import place_in
from tidings.pipeline.sources.meaning import IGNORED, NO_ROW, Fault, Meaning, why_torn
from tidings.pipeline.sources.reading import QUOTE, Reading
from tidings.pipeline.sources.unread import named_by_spark
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.schema import KINDS


class OpenQuoteError(Exception):
    """A quote is open at the end of a line of CSV: the next line belongs to it."""


class Block(NamedTuple):
    """Rows of one source that Spark read together."""

    source: str
    start: int
    file: int
    """The place of the source among all, in the order in which they were given."""
    offset: int
    """What makes a position the number of a row in its source."""


class Survey(NamedTuple):
    read: int
    ignored: int
    histories: Mapping[tuple[str, str], Counter[str]]
    """How many rows of each kind a process of a run has; none if it is only an origin."""
    blocks: Sequence[Block]
    labels: Sequence[str]
    """The sources by number, as the user named them."""

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(run for run, _ in self.histories))

    def place(self, place: int) -> str:
        return place_in(self.labels[place >> LINE_BITS], place & (1 << LINE_BITS) - 1)


LINE_BITS = 40
"""A place as one number: that of the source, then that of the row in it."""


def survey(rows: DataFrame, reading: Reading, meaning: Meaning, mapping: LogMapping) -> Survey:
    """Look at all interpreted rows; DataError for the first that is bad."""
    has_origin = "origin" in rows.columns
    bad = F.when(F.col("fault").isNotNull(), F.col("position"))
    found = (
        rows.groupBy(
            *("source", "start", "kind", "run", "process"), *(["origin"] if has_origin else [])
        )
        .agg(
            F.count("*").alias("rows"),
            F.min("position").alias("first"),
            F.min(bad).alias("bad"),
        )
        .toArrow()
    )
    blocks, labels = _blocks(found, reading)
    _refuse_the_first(found, rows, blocks, labels, reading, meaning, mapping)
    total: Counter[int] = Counter()
    histories: dict[tuple[str, str], Counter[str]] = {}
    origins: set[tuple[str, str]] = set()
    order = {(block.source, block.start): number for number, block in enumerate(blocks)}
    for one in sorted(
        found.to_pylist(), key=lambda one: (order[one["source"], one["start"]], one["first"])
    ):
        total[one["kind"]] += one["rows"]
        if one["kind"] >= 0:
            history = histories.setdefault((one["run"], one["process"]), Counter())
            history[KINDS[one["kind"]]] += one["rows"]
            if has_origin and one["origin"] is not None:
                origins.add((one["run"], one["origin"]))
    for key in sorted(origins - histories.keys()):
        histories[key] = Counter()
    return Survey(
        read=sum(total.values()) - total[NO_ROW],
        ignored=total[IGNORED],
        histories=histories,
        blocks=blocks,
        labels=labels,
    )


def _blocks(found: Any, reading: Reading) -> tuple[list[Block], list[str]]:
    """Where each block lies, and what to add to the positions in it."""
    by_block = pa.TableGroupBy(found, ["source", "start"]).aggregate(
        [("rows", "sum"), ("first", "min")]
    )
    given = {name: number for number, name in enumerate(reading.labels.values())}
    labelled = sorted(
        (given.get(reading.label(one["source"]), len(given)), one["source"], one["start"], one)
        for one in by_block.to_pylist()
    )
    blocks: list[Block] = []
    labels: list[str] = []
    before = 0
    for _, source, start, one in labelled:
        if not blocks or blocks[-1].source != source:
            labels.append(reading.label(source))
            before = 0
        offset = before + 1 - one["first_min"] if reading.is_counted else 0
        before += one["rows_sum"]
        blocks.append(Block(source, start, len(labels) - 1, offset))
    return blocks, labels


def _refuse_the_first(
    found: Any,
    rows: DataFrame,
    blocks: Sequence[Block],
    labels: Sequence[str],
    reading: Reading,
    meaning: Meaning,
    mapping: LogMapping,
) -> None:
    bad = {
        (one["source"], one["start"]): one["bad"]
        for one in sorted(
            (one for one in found.to_pylist() if one["bad"] is not None),
            key=lambda one: -one["bad"],
        )
    }
    for block in blocks:
        if (block.source, block.start) in bad:
            position = bad[block.source, block.start]
            row = _row_at(rows, block, position)
            place = place_in(labels[block.file], position + block.offset)
            if not reading.has_places:
                place = labels[block.file]
            fault = meaning.faults[row["fault"]]
            raise DataError(f"{place}: {_words(fault, block, position, reading, mapping)}")


def _words(fault: Fault, block: Block, position: int, reading: Reading, mapping: LogMapping) -> str:
    if not fault.role:
        return _why_torn(block, position, reading, mapping)
    raw = _row_at(reading.rows, block, position)

    def value(role: str) -> Any:
        name = getattr(mapping.columns, role)
        if name in mapping.read_columns:
            return raw[f"c{mapping.read_columns.index(name)}"]
        return Path(named_by_spark(block.source)).stem

    return fault.words(value(fault.role)).replace("{process}", str(value("process")))


def _why_torn(block: Block, position: int, reading: Reading, mapping: LogMapping) -> str:
    if reading.lines is None:
        return "a text in it is not UTF-8"
    line = _row_at(
        reading.lines.withColumn("value", F.col("value").cast("binary")), block, position
    )
    if reading.is_csv and reading.is_counted and line["value"].count(QUOTE.encode()) % 2:
        raise OpenQuoteError
    header, delimiter = reading.headers.get(named_by_spark(block.source), ((), ","))
    return why_torn(bytes(line["value"]), reading.form, header, delimiter)


def _row_at(rows: DataFrame, block: Block, position: int) -> Any:
    is_it = (
        (F.col("source") == block.source)
        & (F.col("start") == block.start)
        & (F.col("position") == position)
    )
    (row, *_) = rows.where(is_it).collect()
    return row
