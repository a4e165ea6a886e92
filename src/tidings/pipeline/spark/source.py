"""``spark.read.format("tidings")``: a trace as a table, for notebooks and SQL.

The columns are those of a trace in Parquet, with names where that has positions in the dictionary
of the run. Each file of lines, each segment and each group of rows of a Parquet file is a task,
and leaves it as Arrow batches. Spark hands over no list of columns, but it does hand over filters:
those by run, process or kind are applied before rows reach Java.

What cannot be read is refused. Whether rows make whole histories is the question of an audit, which
reads the files in its own, faster way.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.types import StructType

from tidings.core import DataError, UsageError
from tidings.pipeline.watching.stream import BYTES_PER_BATCH, PACKED, SegmentStream
from tidings.trace import Manifest, layout, parquet, read_manifests, unpack
from tidings.trace.files import read_lines
from tidings.trace.histories import Histories
from tidings.trace.layout import SEGMENTS

NAMED = (
    "run string, process string, index bigint, kind string, time_ns bigint, incarnation bigint, "
    "origin string, seq bigint, peer string, packet bigint, packet_kind string, bytes bigint, "
    "digest bigint, view bigint, name string, value bigint, vector map<string, bigint>"
)
"""The columns of the table, as Spark calls their types."""
FILTERED = ("run", "process", "kind")
FILTERING = "spark.sql.python.filterPushdown.enabled"
"""Without this setting Spark refuses a source that can filter."""
_BATCH_ROWS = 1 << 16
"""Java holds a whole batch, outside of its heap."""


def register(spark: SparkSession) -> None:
    """Let a session that is not ours read ``format("tidings")``.

    Ours find it by themselves (``pyspark_tidings``), and have the setting from the start.
    """
    spark.dataSource.register(TidingsSource)
    spark.conf.set(FILTERING, "true")


class TidingsSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidings"

    def schema(self) -> str:
        if self._is_packed:
            return PACKED
        layout(_path(self.options))  # what is not there is refused at once, as by other formats
        return NAMED

    def reader(self, schema: StructType) -> "TraceReader":
        for name in schema.names:
            if name not in parquet.ARROW.names:
                raise UsageError(f"a trace has no column {name!r}")
        return TraceReader(_path(self.options), schema.names)

    def streamReader(self, schema: StructType) -> SegmentStream:  # noqa: N802 - Spark's name
        most = int(self.options.get("bytesPerBatch", BYTES_PER_BATCH))
        return SegmentStream(_path(self.options), schema.names, self._is_packed, most)

    @property
    def _is_packed(self) -> bool:
        return self.options.get("packed") == "true"


def _path(options: Mapping[str, str]) -> Path:
    path = options.get("path")
    if path is None:
        raise UsageError('which trace? spark.read.format("tidings").load(FOLDER)')
    uri = urlsplit(path)
    if uri.scheme == "file":
        return Path(unquote(uri.path))
    if "://" in path:
        raise UsageError(f"{path}: format 'tidings' reads folders that all workers see as files")
    return Path(path)


class TraceReader(DataSourceReader):
    """Travels to the workers, so of the manifests it has only what names rows."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.files = layout(path)
        self.manifests = {
            run: Manifest(
                schema=one.schema, run=run, names=one.names, views=one.views, cuts=one.cuts
            )
            for run, one in read_manifests(self.files.manifests).items()
        }
        self.columns = columns
        self.wanted: list[tuple[str, list[str]]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep those that are applied here, and give back the others."""
        for one in filters:
            if isinstance(one, EqualTo | In) and one.attribute in [(name,) for name in FILTERED]:
                values = one.value if isinstance(one, In) else [one.value]
                self.wanted.append(
                    (one.attribute[0], [text for text in values if text is not None])
                )
            else:
                yield one

    def partitions(self) -> list[InputPartition]:
        files = self.files
        whole = [InputPartition((path, 0)) for path in (*files.jsonl, *files.segments)]
        return whole + [
            InputPartition((path, group)) for path in files.parquet for group in _groups(path)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:  # Spark's way to say that there is no partition
            return
        path, group = partition.value
        for batch in self._stored(path, group):
            named = _Names(batch["run"], self.manifests, path).given_to(batch)
            for column, values in self.wanted:
                named = named.filter(pc.is_in(named[column], pa.array(values, pa.string())))
            yield named.select(self.columns)

    def _stored(self, path: Path, group: int) -> Iterator[Any]:
        """The rows as in a Parquet file of a trace, in batches."""
        if path in self.files.parquet:
            tables = iter([parquet.read_group(path, group)])
        elif path.name.endswith(SEGMENTS):
            tables = unpack.tables(path, self.manifests, Counter())
        else:
            histories = Histories(self.manifests)
            read_lines(path, histories)
            rows = chain.from_iterable(histories.rows.values())
            tables = iter([parquet.rows_table(rows, self.manifests)])
        for table in tables:
            yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def named_batches(
    table: Any, manifests: Mapping[str, Manifest], path: Path, columns: Sequence[str]
) -> Iterator[Any]:
    """Stored rows as batches of the table, with names instead of positions."""
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield _Names(batch["run"], manifests, path).given_to(batch).select(columns)


def _groups(path: Path) -> range:
    parquet.check_file(path)
    return range(pq.read_metadata(path).num_row_groups)


class _Names:
    """The names that positions stand for, in rows of these runs.

    The dictionaries of all the runs are one list, in which each run has its own beginning.
    """

    def __init__(self, runs: Any, manifests: Mapping[str, Manifest], path: Path) -> None:
        self.path = path
        by_run = runs.cast(pa.string()).dictionary_encode("encode")
        found = by_run.dictionary.to_pylist()
        for run in found:
            if run not in manifests:
                raise DataError(f"{path}: run {run!r} is not in the manifest")
        dictionaries = [manifests[run].names for run in found]
        lengths = np.array([len(names) for names in dictionaries], np.int64)
        self.run = by_run.indices.to_numpy(zero_copy_only=False)
        self.lengths = lengths
        self.begins = np.cumsum(lengths) - lengths
        self.names = pa.array([*chain.from_iterable(dictionaries)], pa.string())

    def given_to(self, batch: Any) -> Any:
        """All columns, of which the batch may lack some."""
        absent = pa.nulls(len(batch))
        given = {name: batch[name] for name in batch.schema.names}
        columns = {
            field.name: self._readable(field, given.get(field.name, absent.cast(field.type)))
            for field in parquet.ARROW
        }
        return pa.RecordBatch.from_pydict(columns)

    def _readable(self, field: Any, column: Any) -> Any:
        if field.name in parquet.NAMES:
            return self._of(column, self.run)
        if field.name == "vector":
            return self._vectors(column)
        if field.name in ("time_ns", "incarnation"):
            return column.fill_null(0)
        return column.cast(pa.string()) if pa.types.is_dictionary(field.type) else column

    def _of(self, positions: Any, run: Any) -> Any:
        """The names at these positions of the dictionaries of as many runs."""
        is_absent = np.asarray(positions.is_null())
        place = positions.fill_null(0).to_numpy()
        is_unknown = ~is_absent & ((place < 0) | (place >= self.lengths[run]))
        if is_unknown.any():
            number = place[is_unknown][0]
            raise DataError(f"{self.path}: process number {number} is not in the run's dictionary")
        return self.names.take(pa.array(self.begins[run] + place, mask=is_absent))

    def _vectors(self, vectors: Any) -> Any:
        offsets = vectors.offsets.to_numpy()
        here = slice(offsets[0], offsets[-1])  # a slice of rows still has the keys of all
        keys = self._of(vectors.keys[here], np.repeat(self.run, np.diff(offsets)))
        return pa.MapArray.from_arrays(
            pa.array(offsets - offsets[0]), keys, vectors.items[here], mask=vectors.is_null()
        )
