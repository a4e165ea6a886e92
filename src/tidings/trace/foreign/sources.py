"""The rows of a foreign file, a batch at a time: JSON Lines, CSV or Parquet.

Only the columns that the mapping names are kept, each value as the text that stands in the file
(or as bytes, where a Parquet file has bytes). A batch is small whatever the rows are like, so files
of any size can be read.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.core import DataError, UsageError
from tidings.trace.foreign.mapping import Csv

ROWS_A_BATCH = 1 << 16
BYTES_A_BATCH = 1 << 25
LONGEST_LINE = 1 << 26


class LogRows(NamedTuple):
    """Rows of one file, column by column, each with the number of its line."""

    path: Path
    lines: Any
    columns: Mapping[str, Any]
    read_bytes: int
    """How much of the file has been read by now."""

    def where(self, chosen: Any) -> "LogRows":
        """The chosen rows alone."""
        mask = pa.array(chosen)
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
        return self._replace(lines=self.lines[chosen], columns=columns)

    def refuse(self, row: int, fault: str) -> NoReturn:
        raise DataError(f"{place(self.path, int(self.lines[row]))}: {fault}")


def place(path: Path, line: int) -> str:
    """A row as errors name it."""
    return f"{path}: row {line}" if path.suffix == ".parquet" else f"{path}:{line}"


def batches(path: Path, columns: Sequence[str], form: Csv) -> Iterator[LogRows]:
    """The rows of the file; its ending says what it is."""
    match path.suffix:
        case ".jsonl" | ".ndjson" | ".json" | ".log":
            yield from _json_lines(path, columns)
        case ".csv" | ".tsv":
            yield from _csv(path, columns, form)
        case ".parquet":
            yield from _parquet(path, columns)
        case _:
            raise UsageError(f"{path}: not a .jsonl, .csv or .parquet file")


# --- JSON Lines

# Numbers with a point stay as they are written: as floats, nanoseconds would be lost.
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


def _json_lines(path: Path, columns: Sequence[str]) -> Iterator[LogRows]:
    nested = [(at, name.split(".")) for at, name in enumerate(columns) if "." in name]

    def rows(file: BinaryIO) -> Iterator[tuple[int, list[Any]]]:
        for number, line in _lines(path, file):
            try:
                row = _decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
                raise DataError(f"{path}:{number}: {fault}") from None
            values = [row.get(name) for name in columns]
            for at, steps in nested:
                if values[at] is None:
                    values[at] = _within(row, steps)
            yield number, values

    with path.open("rb") as file:
        yield from _collected(path, columns, file, rows(file))


def _within(row: Any, steps: Sequence[str]) -> Any:
    """What ``meta.id`` stands for: a field of an object in the row."""
    for step in steps:
        row = row.get(step) if isinstance(row, dict) else None
    return row


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), start=1):
        if len(line) > LONGEST_LINE:
            raise DataError(
                f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB; "
                "one JSON object is expected on each line"
            )
        if not line.isspace():
            yield number, line


def _collected(
    path: Path, columns: Sequence[str], file: Any, rows: Iterable[tuple[int, Sequence[Any]]]
) -> Iterator[LogRows]:
    """Rows with their lines, in batches."""
    waiting: list[tuple[int, Sequence[Any]]] = []
    began_at = file.tell()
    for row in rows:
        waiting.append(row)
        if len(waiting) % 64 == 0 and (
            len(waiting) == ROWS_A_BATCH or file.tell() - began_at >= BYTES_A_BATCH
        ):
            yield _batch(path, columns, waiting, file.tell())
            waiting, began_at = [], file.tell()
    yield _batch(path, columns, waiting, file.tell())


def _batch(
    path: Path, columns: Sequence[str], rows: list[tuple[int, Sequence[Any]]], read_bytes: int
) -> LogRows:
    lines = [line for line, _ in rows]
    by_column = list(zip(*(row for _, row in rows), strict=True)) or [()] * len(columns)
    texts = {
        name: _strings(path, lines, values) for name, values in zip(columns, by_column, strict=True)
    }
    return LogRows(path, np.array(lines, np.int64), texts, read_bytes)


def _strings(path: Path, lines: Sequence[int], values: Sequence[Any]) -> Any:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        pass  # numbers among them, or something worse
    texts = []
    for line, value in zip(lines, values, strict=True):
        text = _text_of(value)
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise DataError(f"{path}:{line}: half of a surrogate pair in a text") from None
        texts.append(text)
    return pa.array(texts, pa.string())


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return msgspec.json.encode(value).decode()


# --- CSV


def _csv(path: Path, columns: Sequence[str], form: Csv) -> Iterator[LogRows]:
    csv.field_size_limit(LONGEST_LINE)
    delimiter = "\t" if path.suffix == ".tsv" else form.delimiter
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = _csv_rows(path, csv.reader(file, delimiter=delimiter, strict=True))
        header = list(form.header) or next(rows, (1, []))[1]
        _check_columns(path, columns, header)
        picked = [header.index(column) for column in columns]

        def pick(line: int, row: list[str]) -> tuple[int, list[str]]:
            if len(row) != len(header):
                raise DataError(f"{path}:{line}: {len(row)} columns where {len(header)} belong")
            return line, [row[position] for position in picked]

        yield from _collected(path, columns, file.buffer, starmap(pick, rows))


def _csv_rows(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line on which it begins."""
    begin = 1
    try:
        for row in reader:
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as fault:
        raise DataError(f"{path}:{begin}: {fault}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}:{_line_that_is_not_utf_8(path)}: not UTF-8") from None


def _line_that_is_not_utf_8(path: Path) -> int:
    """Text is decoded ahead of the lines that are read, so the line is looked for anew."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"{path} is UTF-8 after all")


def _check_columns(path: Path, wanted: Sequence[str], found: Sequence[str]) -> None:
    for column in wanted:
        if column not in found:
            raise DataError(f"{path}: no column {column!r}; there are: {', '.join(found)}")


# --- Parquet


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[LogRows]:
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, columns, file.schema_arrow.names)
            total = path.stat().st_size
            per_row = sum(
                file.metadata.row_group(group).total_byte_size
                for group in range(file.metadata.num_row_groups)
            ) // max(1, file.metadata.num_rows)
            size = max(1, min(ROWS_A_BATCH, BYTES_A_BATCH // max(1, per_row)))
            row = 0
            for part in file.iter_batches(size, columns=list(columns)):
                lines = np.arange(row + 1, row + 1 + part.num_rows)
                row += part.num_rows
                values = {name: _texts(path, name, part.column(name)) for name in columns}
                yield LogRows(path, lines, values, total * row // file.metadata.num_rows)
    except (pa.ArrowInvalid, OSError) as fault:
        reason = str(fault).splitlines()[0]
        raise DataError(f"{path}: not a Parquet file, or a damaged one: {reason}") from None


def _texts(path: Path, name: str, values: Any) -> Any:
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        values = values.cast(pa.binary())
    try:
        texts = values.cast(pa.string())
        texts.validate(full=True)  # a file may call bytes a text that are none
        return texts
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if pa.types.is_binary(values.type):
            return values
        raise DataError(f"{path}: column {name!r} ({kind}) has values that are no text") from None
