"""Spark as a post office: parcels from task to task, by the number of a place.

A parcel is one row, its content a few hundred KiB of bytes, so Java never looks at an event. Which
task has a place is fixed (``repartitionById``): neighbours share one, and it works at one after the
other, so at any time it holds the bytes of its parcels and the content of those for one place.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings import __version__
from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage
from tidings.pipeline.spark.workers import (
    EXPECTED,
    as_it_is_seen,
    expect_version,
    workers_faults_named,
)

_PARCELS = "place int, is_fault boolean, content binary"
_COLUMNS = pa.schema({"place": pa.int32(), "is_fault": pa.bool_(), "content": pa.binary()})

_Row = tuple[int, bool, bytes]


def exchanging(spark: SparkSession, batch_bytes: int) -> Exchange:
    """The workers of a session, to which parcels go in batches of about so many bytes."""

    def exchange(
        items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
    ) -> list[Parcel]:
        items = list(items)
        version = __version__

        def begin(batches: Iterator[Any]) -> Iterator[Any]:
            numbers = (number for batch in batches for number in batch.column("id").to_pylist())
            parcels = (parcel for number in numbers for parcel in pack(items[number]))
            yield from _batches(_rows(parcels, version), batch_bytes)

        parcels = spark.range(0, len(items), 1, len(items)).mapInArrow(begin, _PARCELS)
        for stage in stages:
            parcels = _sent(parcels, stage).mapInArrow(_at(stage, version, batch_bytes), _PARCELS)
        return _received(parcels)

    return exchange


def _sent(parcels: DataFrame, stage: Stage) -> DataFrame:
    """Each to the task that has its place."""
    count = min(stage.places, stage.tasks)
    task = F.expr(f"cast(place * {count}L div {stage.places} as int)")
    return parcels.repartitionById(count, task)


def _at(stage: Stage, version: str, batch_bytes: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        arrived: dict[int, list[bytes]] = {}
        faults: list[_Row] = []
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                place, is_fault, content = row
                if is_fault:
                    faults.append(row)
                else:
                    arrived.setdefault(place, []).append(content)
        # After a fault nobody asks for the rest.
        yield from _batches(faults or _rows(_worked(arrived, stage), version), batch_bytes)

    return work


def _worked(arrived: dict[int, list[bytes]], stage: Stage) -> Iterator[Parcel]:
    for place in sorted(arrived):
        yield from stage.work(place, [pickle.loads(one) for one in arrived.pop(place)])


def _rows(parcels: Iterable[Parcel], version: str) -> Iterator[_Row]:
    """Parcels as rows; what is wrong with the trace or with a worker is the last of them."""
    try:
        expect_version(version)
        for place, content in parcels:
            yield place, False, pickle.dumps(content, protocol=5)
    except EXPECTED as fault:
        yield 0, True, pickle.dumps(as_it_is_seen(fault), protocol=5)


def _batches(rows: Iterable[_Row], batch_bytes: int) -> Iterator[Any]:
    waiting: list[_Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[-1])
        if size >= batch_bytes:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: Sequence[_Row]) -> Any:
    columns = zip(zip(*rows, strict=True), _COLUMNS.types, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in columns], schema=_COLUMNS
    )


def _received(parcels: DataFrame) -> list[Parcel]:
    with workers_faults_named():
        table = parcels.toArrow()
    columns = (table["place"].to_pylist(), table["is_fault"].to_pylist(), table["content"])
    received = []
    for place, is_fault, content in zip(*columns, strict=True):
        one = pickle.loads(content.as_buffer())
        if is_fault:
            raise one
        received.append(Parcel(place, one))
    return received
