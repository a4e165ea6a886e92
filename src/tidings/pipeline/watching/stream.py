"""``spark.readStream.format("tidings")``: the rows of a trace folder while members write them.

The driver finds how far each segment is whole; tasks read the bytes between two offsets. With the
option ``packed`` a row is not a row of the trace but a piece of a history, as the judge takes it:
so the rows of a batch cross Java as a few large values.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidings.pipeline.watching.growing import Growing, Offset, Slice, pieces_in, tables_in
from tidings.pipeline.watching.pieces import encode
from tidings.trace import Manifest

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark 4.1 has no limits, so one batch reads everything."""


PACKED = "piece binary"
BYTES_PER_BATCH = 64 << 20
"""Of all processes together, unless an option says otherwise; a catch-up comes in such steps."""
_SCHEMA = pa.schema({"piece": pa.binary()})


class SegmentStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: Path, columns: Sequence[str], is_packed: bool, most: int) -> None:
        self.folder = folder
        self.columns = columns
        self.is_packed = is_packed
        self.most = most
        self._has_goal = False
        self._goal: Offset | None = None
        """Where a query ends that reads what is there, and no more."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # What counts as missing depends on where the query goes on, and that is said later.
        self._has_goal = True

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Spark 4.1 does not say where the last batch ended; then there is no limit."""
        growing = Growing(self.folder)
        if start is None:
            return growing.latest({}, 1 << 62)
        if self._has_goal and self._goal is None:
            self._goal = growing.latest(start, 1 << 62)
        processes = max(1, len(growing.segments()))
        return growing.latest(start, max(1, self.most // processes), self._goal)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return [InputPartition(tuple(one)) for one in Growing(self.folder).slices(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        one = Slice(*partition.value)
        if self.is_packed:
            for piece in pieces_in(one):
                yield pa.RecordBatch.from_pydict({"piece": [encode(piece)]}, schema=_SCHEMA)
            return
        from tidings.pipeline.spark.source import named_batches

        for table in tables_in(one, self._manifests()):
            yield from named_batches(table, self._manifests(), Path(one.name), self.columns)

    def _manifests(self) -> dict[str, Manifest]:
        return Growing(self.folder).manifests()
