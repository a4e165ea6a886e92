"""Lines of CSV and of JSON as columns of cells, each as the text that stands there.

A block of lines goes through a parser that reads all of them at once (Arrow for CSV, msgspec for
JSON), if a glance at its bytes says that this parser reads them as we do. Otherwise, and if it
refuses them, they are read one by one: that is exact, and finds the first that cannot be read.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

QUOTE = b'"'
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TornLine(NamedTuple):
    """A line that cannot be read at all."""

    position: int
    why: str


class Cells(NamedTuple):
    """Rows of one source, in the order of their positions if these are lines."""

    columns: Sequence[Any]
    """Texts; of tables also bytes and moments."""
    positions: Any
    torn: TornLine | None = None
    """The first of the rows that are missing here."""


class OpenQuoteError(Exception):
    """A quote is open at the end of a line of CSV: the next line belongs to it."""


class _NotAlikeError(Exception):
    """The fast parser would read these lines differently."""


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def line_ends(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


def line_count(data: bytes) -> int:
    """The last line need not have an end."""
    return line_ends(data) + (data != b"" and not data.endswith(b"\n"))


def as_texts(columns: Sequence[Any], positions: Any) -> Cells:
    """Columns of a table, without the rows that have a text in them that is none."""
    try:
        for column in columns:
            column.validate(full=True)
    except pa.ArrowInvalid:
        is_sound = np.array(
            [all(_is_sound(column[row]) for column in columns) for row in range(len(positions))]
        )
        torn = TornLine(int(positions[~is_sound].min()), "a text in it is not UTF-8")
        columns = [column.filter(pa.array(is_sound)) for column in columns]
        return Cells(columns, positions[is_sound], torn)
    return Cells(columns, positions)


def _is_sound(value: Any) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


# --- CSV


class CsvLines(NamedTuple):
    """How the lines of a CSV file become the columns that are looked at."""

    columns: Sequence[str]
    header: Sequence[str]
    delimiter: str
    has_header: bool
    """Whether the first line of the file is its header."""
    joins_lines: bool = False
    """Whether a quote may go on in the next line."""

    def whole(self, data: bytes) -> int:
        """How many of these bytes are whole records."""
        end = data.rfind(b"\n") + 1
        if not self.joins_lines or data.count(QUOTE, 0, end) % 2 == 0:
            return end
        lines, is_open = _lines(data)
        return int(lines[~is_open][-1]) + 1 if not is_open.all() else 0

    def cells(self, data: bytes, first: int) -> Cells:
        """Of whole lines, the first of which has this number."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if data and not data.endswith(b"\n"):
            data += b"\n"
        ends = self._ends(data)
        rows = _rows(data, ends)
        try:
            return Cells(self._at_once(data, len(rows), ends is not None), first + rows)
        except (pa.ArrowInvalid, _NotAlikeError):
            return self._one_by_one(data, first)

    def _ends(self, data: bytes) -> Any | None:
        """Where records end, if a quote goes over lines; what else is strange is refused later."""
        if QUOTE not in data:
            return None
        lines, is_open = _lines(data)
        if is_open.any() and not self.joins_lines:
            raise OpenQuoteError
        return np.stack([lines, is_open])

    def _at_once(self, data: bytes, rows: int, has_quotes: bool) -> Sequence[Any]:
        if b"\r" in data or not _is_text(data) or not self._is_well_quoted(data):
            raise _NotAlikeError
        names = [f"h{number}" for number in range(len(self.header))]
        wanted = [f"h{self.header.index(name)}" for name in self.columns]
        if not rows:
            return [pa.array([], pa.string()) for _ in wanted]
        table = pacsv.read_csv(
            pa.py_buffer(data),
            pacsv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            pacsv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=QUOTE.decode() if has_quotes else False,
                newlines_in_values=has_quotes,
            ),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(dict.fromkeys(wanted)),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        if table.num_rows != rows:
            raise _NotAlikeError
        return [table[name].combine_chunks() for name in wanted]

    def _is_well_quoted(self, data: bytes) -> bool:
        """Whether every quote stands at the beginning or at the end of a cell, or is doubled."""
        if QUOTE not in data:
            return True
        letters = np.frombuffer(b"\n" + data, np.uint8)
        quotes = np.flatnonzero(letters == ord(QUOTE))
        around = [ord(QUOTE), ord(self.delimiter), ord("\n")] if self.delimiter.isascii() else []
        is_right = np.isin(letters[quotes[::2] - 1], around).all()
        return len(quotes) % 2 == 0 and bool(
            is_right and np.isin(letters[quotes[1::2] + 1], around).all()
        )

    def _one_by_one(self, data: bytes, first: int) -> Cells:
        places = [self.header.index(name) for name in self.columns]
        found: list[Sequence[str]] = []
        positions: list[int] = []
        torn = None
        for number, record in self._records(data, first):
            why = why_torn_csv(record, self.header, self.delimiter)
            if why is not None:
                torn = TornLine(number, why)
                break
            if record:
                row = _csv_row(record.decode(), self.delimiter)
                found.append([row[place] for place in places])
                positions.append(number)
        columns = zip(*found, strict=True) if found else [()] * len(places)
        return Cells(
            [pa.array(list(column), pa.string()) for column in columns],
            np.array(positions, np.int64),
            torn,
        )

    def _records(self, data: bytes, first: int) -> Iterator[tuple[int, bytes]]:
        lines = enumerate(data.split(b"\n")[:-1], first)
        for number, line in lines:
            record = line.rstrip(b"\r")
            while self.joins_lines and record.count(QUOTE) % 2:
                _, more = next(lines, (0, None))
                if more is None:
                    break
                record += b"\n" + more.rstrip(b"\r")
            yield number, record


def _lines(data: bytes) -> tuple[Any, Any]:
    """Where each line ends, and whether a quote is open there."""
    letters = np.frombuffer(data, np.uint8)
    lines = np.flatnonzero(letters == ord("\n"))
    quotes = np.flatnonzero(letters == ord(QUOTE))
    return lines, np.searchsorted(quotes, lines) % 2 == 1


def _rows(data: bytes, ends: Any | None) -> Any:
    """The number of the first line of each record that is not empty, from 0."""
    if ends is None and not data.startswith(b"\n") and b"\n\n" not in data:
        return np.arange(line_ends(data))
    if ends is None:
        lines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        ends = np.stack([lines, np.zeros(len(lines), bool)])
    is_end = ends[1] == 0
    begins = np.append(True, is_end[:-1])
    is_empty = begins & (np.diff(ends[0], prepend=-1) == 1) & is_end
    return np.flatnonzero(begins & ~is_empty)


def _csv_row(record: str, delimiter: str) -> Sequence[str]:
    if QUOTE.decode() not in record:
        return record.split(delimiter)
    return next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter, strict=True), [])


def why_torn_csv(record: bytes, header: Sequence[str], delimiter: str) -> str | None:
    """What is wrong with a record, as a reader of single lines puts it."""
    try:
        row = _csv_row(record.decode(), delimiter)
    except UnicodeDecodeError:
        return "not UTF-8"
    except csv.Error as fault:
        return str(fault)
    if not record or len(row) == len(header):
        return None
    return f"{len(row)} columns where {len(header)} belong"


# --- JSON


Kinds = Mapping[str, type]
_BLANK = b" \t\r"
_HALVES = re.compile(
    rb"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]", re.IGNORECASE
)
"""Of a surrogate pair JSON may have one half alone: no text in UTF-8 has that."""


class JsonLines(NamedTuple):
    """How objects, one in each line, become the columns that are looked at.

    A column is a field, or ``meta.id``: the field of an object in the row.
    """

    columns: Sequence[str]

    def whole(self, data: bytes) -> int:
        """How many of these bytes are whole lines."""
        return data.rfind(b"\n") + 1

    def cells(self, data: bytes, first: int) -> Cells:
        """Of whole lines, the first of which has this number."""
        values = line_count(data)
        if _is_text(data) and not (b"\\u" in data and _HALVES.search(data)):
            for kinds in self._kinds(data):
                with suppress(msgspec.MsgspecError, pa.ArrowException, OverflowError):
                    rows = msgspec.json.Decoder(_struct(self.columns, kinds)).decode_lines(data)
                    if len(rows) == values:
                        positions = np.arange(first, first + values)
                        return Cells(_columns(rows, self.columns, kinds), positions)
        return self.of_values(data.split(b"\n")[:values], range(first, first + values))

    def _kinds(self, data: bytes) -> Iterator[Kinds]:
        """Of which kind each column is on the first line; otherwise all as they stand."""
        with suppress(msgspec.MsgspecError):
            first = msgspec.json.decode(data[: data.find(b"\n") + 1 or None], type=dict[str, Any])
            found = {name: type(first.get(name)) for name in self.columns}
            yield {name: kind for name, kind in found.items() if kind in (str, int)}
        yield {}

    def of_records(self, values: Sequence[bytes], positions: Any) -> Cells:
        """Values that know their positions, whatever is in them."""
        data = b"\n".join(values)
        if data.count(b"\n") != len(values) - 1:
            return self.of_values(values, positions.tolist())
        cells = self.cells(data, 0)
        torn = cells.torn
        if torn is not None:
            torn = TornLine(int(positions[torn.position]), torn.why)
        return Cells(cells.columns, positions[cells.positions], torn)

    def of_values(self, values: Sequence[bytes], positions: Sequence[int]) -> Cells:
        """Each value by itself; what is blank is no row."""
        decoder = msgspec.json.Decoder(_struct(self.columns, {}))
        rows, numbers, torn = [], [], None
        for number, value in zip(positions, values, strict=True):
            if not value.strip(_BLANK):
                continue
            why = why_torn_json(value)
            if why is not None:
                torn = TornLine(number, why)
                break
            rows.append(decoder.decode(value))
            numbers.append(number)
        return Cells(_columns(rows, self.columns, {}), np.array(numbers, np.int64), torn)


def _below(names: Sequence[str]) -> dict[str, list[str]]:
    """The fields of objects that are looked at, by the name of the object."""
    below: dict[str, list[str]] = {}
    for name in names:
        head, dot, rest = name.partition(".")
        if dot:
            below.setdefault(head, []).append(rest)
    return below


def _struct(names: Sequence[str], kinds: Kinds) -> Any:
    """An object with these fields, as they stand unless they are known to be of a kind."""
    below = _below(names)
    fields = {f"f{number}": name for number, name in enumerate(dict.fromkeys([*names, *below]))}
    types = [
        (field, kinds[name] | None if name in kinds and name not in below else msgspec.Raw, None)
        for field, name in fields.items()
    ]
    return msgspec.defstruct("Fields", types, rename=fields)


def _columns(rows: Sequence[Any], names: Sequence[str], kinds: Kinds) -> list[Any]:
    """The texts in these fields of all rows; a name that is there as it is comes first."""
    below = _below(names)
    fields = {name: f"f{number}" for number, name in enumerate(dict.fromkeys([*names, *below]))}
    within: dict[str, Any] = {}
    for head, rest in below.items():
        objects = _objects([getattr(row, fields[head]) for row in rows], rest)
        columns = _columns(objects, rest, {})
        within |= {f"{head}.{name}": one for name, one in zip(rest, columns, strict=True)}
    found = []
    for name in names:
        values = [getattr(row, fields[name]) for row in rows]
        kind = kinds.get(name) if name not in below else None
        if kind is None:
            values = list(map(_text, values))
        texts = pa.array(values, pa.int64() if kind is int else pa.string()).cast(pa.string())
        found.append(pc.coalesce(texts, within[name]) if name in within else texts)
    return found


def _objects(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Objects within the rows; what is none has no fields."""
    fields: Any = _struct(names, {})
    raw = [b"{}" if value is None else bytes(value) for value in values]
    with suppress(msgspec.MsgspecError):
        found: list[Any] = msgspec.json.decode(b"[" + b",".join(raw) + b"]", type=list[fields])
        return found
    return [msgspec.json.decode(one if one.startswith(b"{") else b"{}", type=fields) for one in raw]


def _text(value: Any) -> str | None:
    """A value as it stands: as a float, nanoseconds would be lost."""
    written = b"null" if value is None else bytes(value)
    if written.startswith(QUOTE):
        return str(msgspec.json.decode(written))
    return None if written == b"null" else written.decode()


def why_torn_json(value: bytes) -> str | None:
    """What is wrong with a line, as a reader of single lines puts it."""
    try:
        text = value.decode()
        msgspec.json.encode(msgspec.json.decode(text, type=dict[str, Any]))
    except UnicodeDecodeError:
        return "not UTF-8"
    except msgspec.MsgspecError as fault:
        return str(fault)
    except UnicodeEncodeError:
        return "half of a surrogate pair in a text"
    return "half of a surrogate pair in a text" if _HALVES.search(value) else None
