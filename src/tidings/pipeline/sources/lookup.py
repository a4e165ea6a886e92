"""What an operator can look up: the log's own id of a message, and the file and line of a row.

A trace made of a log keeps them beside the judged columns (docs/trace-format.md): ``message`` on
the broadcast, and on rows of messages that nobody broadcast; ``source`` and ``place`` on every row
that the log has. Only the rows that violations name are read, here, without Spark; columns of the
same name but another type are somebody else's.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidings.core import MessageId
from tidings.spec import Place, Verdict, Violation
from tidings.trace import Manifest, layout
from tidings.trace.parquet import LOOKED_UP

KEPT = {field.name: field.type for field in LOOKED_UP if field.name != "text"}


class Wanted(NamedTuple):
    """A row to look for: an event, or the broadcast of a message."""

    run: str
    process: str
    number: int
    is_broadcast: bool


class Found(NamedTuple):
    """Nothing is empty."""

    message: str
    place: str


NOT_FOUND = Found("", "")


def log_of(
    trace: Path, manifests: Mapping[str, Manifest], verdicts: Mapping[str, Iterable[Verdict]]
) -> dict[str, dict[Place | MessageId, str]]:
    """For each run what its shown violations are in the log, if the trace knows it."""
    shown = [
        (run, violation)
        for run, five in verdicts.items()
        for verdict in five
        for violation in verdict.violations
    ]
    found = look_up(trace, manifests, {one for run, of in shown for one in _wanted(run, of)})
    log: dict[str, dict[Place | MessageId, str]] = {}
    for one, of_row in found.items():
        if words := ", ".join(word for word in of_row if word):
            key = MessageId if one.is_broadcast else Place
            log.setdefault(one.run, {})[key(one.process, one.number)] = words
    return log


def _wanted(run: str, violation: Violation) -> Iterable[Wanted]:
    for message in (violation.message, violation.cause):
        if message is not None:
            yield Wanted(run, message.origin, message.seq, is_broadcast=True)
    for place in violation.witness:
        yield Wanted(run, place.process, place.index, is_broadcast=False)


def add_log_here(trace: Path, manifests: Mapping[str, Manifest], folder: Path) -> None:
    """The table of violations gets ``message``, and the ``place`` of the last witness."""
    if not any(kept_in(file) for file in layout(trace).parquet):
        return
    for part in folder.glob("*.parquet"):
        table = pq.read_table(part)
        rows = table.select(["run", "origin", "seq", "witness"]).to_pylist()
        messages = [Wanted(row["run"], row["origin"], row["seq"], True) for row in rows]
        lasts = [
            Wanted(row["run"], last["process"], last["index"], False) if last else None
            for row in rows
            for last in [next(reversed(row["witness"]), None)]
        ]
        found = look_up(trace, manifests, {*messages, *filter(None, lasts)})
        message = [found.get(one, NOT_FOUND).message or None for one in messages]
        place = [found.get(one, NOT_FOUND).place or None if one else None for one in lasts]
        table = table.append_column("message", pa.array(message, pa.string()))
        table = table.append_column("place", pa.array(place, pa.string()))
        pq.write_table(table, part, compression="zstd")


def kept_in(file: Path) -> list[str]:
    """What of the log is in a file."""
    schema = pq.read_schema(file)
    return [
        name
        for name, type_ in KEPT.items()
        if name in schema.names and _suits(schema.field(name).type, type_)
    ]


def _suits(found: Any, wanted: Any) -> bool:
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found))
    words = found.value_type if pa.types.is_dictionary(found) else found
    return bool(pa.types.is_string(words) or pa.types.is_large_string(words))


# --- rows of a trace

KEYS = {"run": pa.string(), "process": pa.int64(), "number": pa.int64()}


def look_up(
    trace: Path, manifests: Mapping[str, Manifest], wanted: set[Wanted]
) -> dict[Wanted, Found]:
    """The message and the place of each row that has any."""
    found: dict[Wanted, Found] = {}
    for file in layout(trace).parquet if wanted else ():
        if kept := kept_in(file):
            for is_broadcast in (False, True):
                of_kind = [one for one in wanted if one.is_broadcast == is_broadcast]
                for row in _rows(file, kept, manifests, of_kind, is_broadcast=is_broadcast):
                    name = manifests[row["run"]].names[row["process"]]
                    one = Wanted(row["run"], name, row["number"], is_broadcast)
                    found.setdefault(one, _words(row))
    return found


def _rows(
    file: Path,
    kept: Iterable[str],
    manifests: Mapping[str, Manifest],
    wanted: list[Wanted],
    *,
    is_broadcast: bool,
) -> Iterator[Mapping[str, Any]]:
    """Arrow skips groups of rows that cannot have any; the join then says which they are."""
    positions = {
        run: {name: position for position, name in enumerate(manifests[run].names)}
        for run in {one.run for one in wanted}
    }
    keys = pa.table(
        {
            "run": pa.array([one.run for one in wanted], KEYS["run"]),
            "process": pa.array([positions[one.run][one.process] for one in wanted], pa.int64()),
            "number": pa.array([one.number for one in wanted], pa.int64()),
        }
    )
    number = "seq" if is_broadcast else "index"
    may_be = ds.field("process").isin(keys["process"].unique().to_pylist()) & ds.field(number).isin(
        keys["number"].unique().to_pylist()
    )
    if is_broadcast:
        may_be &= ds.field("kind").cast(pa.string()) == "broadcast"
    columns = {
        "run": ds.field("run").cast(KEYS["run"]),
        "process": ds.field("process").cast(KEYS["process"]),
        "number": ds.field(number).cast(KEYS["number"]),
        **{name: ds.field(name) for name in kept},
    }
    for batch in ds.dataset(file, format="parquet").to_batches(columns=columns, filter=may_be):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            yield from rows.join(keys, list(KEYS), join_type="left semi").to_pylist()


def _words(row: Mapping[str, Any]) -> Found:
    place, source = row.get("place"), row.get("source")
    where = place_in(source, place) if source is not None and place is not None else ""
    return Found(row.get("message") or "", where)


def place_in(label: str, number: int) -> str:
    """A row as errors and violations name it."""
    return f"{label}: row {number}" if label.endswith(".parquet") else f"{label}:{number}"
