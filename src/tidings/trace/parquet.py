"""Rows as Parquet: for the pipeline.

Names become positions in the dictionary of the run's manifest, digests become signed 64-bit
numbers, and steadily growing columns are stored as differences.

So we write it. We read what any other writer makes of the same columns: only the judged ones have
to be there, a word may be any kind of string, an integer as wide as its writer likes, and columns
that we do not know are left alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from tidings.core import DataError, EnvironmentMissing, with_extra
from tidings.disk.files import whole_file
from tidings.trace.histories import Histories
from tidings.trace.manifest import Manifest
from tidings.trace.schema import (
    COLUMNS,
    JUDGED,
    KINDS,
    READABLE,
    SCHEMA_VERSION,
    Row,
    unreadable,
)

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:  # pragma: no cover - exercised in an environment without it
    raise EnvironmentMissing(f"Parquet needs pyarrow; {with_extra('audit')}") from missing

NAMES = ("process", "origin", "peer")
"""The columns that hold positions in the dictionary of names."""

_WORD = pa.dictionary(pa.int32(), pa.string())
ARROW = pa.schema(
    [
        pa.field("run", _WORD, nullable=False),
        pa.field("process", pa.int16(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("kind", _WORD, nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("incarnation", pa.int64(), nullable=False),
        pa.field("origin", pa.int16()),
        pa.field("seq", pa.int64()),
        pa.field("peer", pa.int16()),
        pa.field("packet", pa.int64()),
        pa.field("packet_kind", _WORD),
        pa.field("bytes", pa.int64()),
        pa.field("digest", pa.int64()),
        pa.field("view", pa.int64()),
        pa.field("name", _WORD),
        pa.field("value", pa.int64()),
        pa.field("vector", pa.map_(pa.int16(), pa.int64())),
    ],
    metadata={"tidings.schema": str(SCHEMA_VERSION)},
)
LOOKED_UP = (
    pa.field("message", pa.string()),
    pa.field("source", _WORD),
    pa.field("place", pa.int64()),
    pa.field("text", pa.string()),
)
"""What a trace may have beside, for a person to look up: nobody judges by it."""
_DELTA = ("index", "time_ns", "seq", "packet")
ROWS_A_GROUP = 1 << 20
FORM = {
    "compression": "zstd",
    "use_dictionary": ["run", "kind", "packet_kind", "name"],
    "column_encoding": dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
    "write_page_checksum": True,
}
"""How the columns are stored; a page that was damaged is noticed by its checksum."""


def words_of(codes: Any, words: Sequence[str]) -> Any:
    """A column of words, by their places in a list; a place below 0 has none."""
    places = pa.array(codes, pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(places, pa.array(words, pa.string()))


def table_of(columns: dict[str, Any]) -> Any:
    """These columns of as many rows, and the others without any value."""
    rows, others = len(columns["run"]), [one for one in ARROW if one.name not in columns]
    return pa.table(columns | {one.name: pa.nulls(rows, one.type) for one in others}, schema=ARROW)


def write_rows(path: Path, rows: Iterable[Row], manifests: Mapping[str, Manifest]) -> None:
    """Write whole runs, sorted by (run, process, index), into one file."""
    with whole_file(path) as draft:
        pq.write_table(rows_table(rows, manifests), draft, row_group_size=ROWS_A_GROUP, **FORM)


def rows_table(rows: Iterable[Row], manifests: Mapping[str, Manifest]) -> Any:
    positions = {
        run: {name: position for position, name in enumerate(manifest.names)}
        for run, manifest in manifests.items()
    }
    columns: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for row in rows:
        position = positions[row.run]
        for column in COLUMNS:
            value = getattr(row, column)
            columns[column].append(None if value is UNSET else _packed(column, value, position))
    return pa.table(columns, schema=ARROW)


def _packed(column: str, value: Any, position: Mapping[str, int]) -> Any:
    if column in NAMES:
        return position[value]
    if column == "digest":
        return int.from_bytes(bytes.fromhex(value), signed=True)
    if column == "vector":
        return [(position[name], count) for name, count in value.items()]
    return value


def check_file(path: Path) -> int:
    """Refuse a file that is not a trace; otherwise, how many rows it has."""
    with _opened(path) as file:
        # The key is the file's own: not every writer repeats it in a schema for Arrow.
        version = (file.metadata.metadata or {}).get(b"tidings.schema")
        if version is None:
            raise DataError(f"{path}: a Parquet file, but not a trace (no tidings.schema in it)")
        if version not in [str(one).encode() for one in READABLE]:
            raise DataError(f"{path}: {unreadable(version.decode(errors='replace'))}")
        _check_columns(path, file.schema_arrow)
        return int(file.metadata.num_rows)


def missing_columns(path: Path) -> list[str]:
    """Which columns of a trace a file does not have."""
    with _opened(path) as file:
        return [column for column in COLUMNS if column not in file.schema_arrow.names]


def _opened(path: Path) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as fault:
        reason = str(fault).splitlines()[0]
        raise DataError(f"{path}: not a Parquet file, or a truncated one: {reason}") from None


def _check_columns(path: Path, schema: Any) -> None:
    for name in JUDGED:
        if name not in schema.names:
            raise DataError(f"{path}: the column {name!r} is missing")
    alike = Counter(name.lower() for name in schema.names)
    for found in schema:
        name = found.name.lower()
        if name not in COLUMNS:
            continue
        # Arrow can tell Kind from kind, and two columns of one name; Spark cannot.
        if alike[name] > 1:
            raise DataError(f"{path}: more than one column is called {name!r}")
        if found.name != name:
            raise DataError(f"{path}: the column {found.name!r} has to be called {name!r}")
        wanted = ARROW.field(name).type
        if not _suits(found.type, wanted):
            raise DataError(f"{path}: column {name!r} is {found.type}, not {_plain(wanted)}")


def _suits(found: Any, wanted: Any) -> bool:
    """Whether all values of one type are values of the other, but for numbers that are too large.

    Spark cannot read unsigned numbers of 64 bits.
    """
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found) and found != pa.uint64())
    if wanted == _WORD:
        return _plain(found) in (pa.string(), pa.large_string(), pa.string_view())
    return bool(found == wanted)


def _plain(kind: Any) -> Any:
    """What the values are, whether they stand in a dictionary or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def narrowed(table: Any) -> Any:
    """The same rows with numbers as wide as we write them; OverflowError if one is too large."""
    for place, field in enumerate(table.schema):
        wanted = ARROW.field(field.name)
        if pa.types.is_integer(field.type) and field.type != wanted.type:
            try:
                table = table.set_column(place, wanted, table.column(place).cast(wanted.type))
            except pa.ArrowInvalid as fault:
                raise OverflowError(f"{field.name}: {fault}") from None
    return table


def read_group(path: Path, group: int) -> Any:
    """One group of rows, with the columns that the file has; what is damaged is noticed."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            table = file.read_row_group(group, columns=columns, use_threads=False).select(columns)
        table.validate(full=True)
        return narrowed(table)
    except (pa.ArrowException, OSError, OverflowError) as fault:
        raise DataError(f"{path}: corrupt: {str(fault).splitlines()[0]}") from None


def read_rows(path: Path, manifests: Mapping[str, Manifest], into: Histories) -> None:
    check_file(path)
    into.begin_file()
    for number, values in enumerate(_stored(path), start=1):
        try:
            manifest = manifests.get(values["run"])
            if manifest is None:
                raise DataError(f"run {values['run']!r} is not in the manifest")
            into.add(_unpacked(values, manifest))
        except DataError as fault:
            raise DataError(f"{path}: row {number}: {fault}") from None


def _stored(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=columns):
                yield from batch.select(columns).to_pylist()  # peer does not mean peer.host
    except (pa.ArrowException, OSError) as fault:
        raise DataError(f"{path}: corrupt: {str(fault).splitlines()[0]}") from None


def _unpacked(values: dict[str, Any], manifest: Manifest) -> Row:
    def name(position: int) -> str:
        if not 0 <= position < len(manifest.names):
            raise DataError(f"process number {position} is not in the run's dictionary")
        return manifest.names[position]

    if values["kind"] not in KINDS:
        raise DataError(f"unknown kind {values['kind']!r}")
    given = {column: value for column, value in values.items() if value is not None}
    given.setdefault("time_ns", 0)
    for column in NAMES:
        if column in given:
            given[column] = name(given[column])
    if "digest" in given:
        given["digest"] = given["digest"].to_bytes(8, signed=True).hex()
    if "vector" in given:
        given["vector"] = {name(position): count for position, count in given["vector"]}
    try:
        return msgspec.convert(given, Row)
    except msgspec.ValidationError as fault:
        raise DataError(str(fault)) from None
