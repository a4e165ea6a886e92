"""Verdicts over time: a folder to which every audit and watch may append.

``history.json`` says what the folder is. Each entry is a Parquet file of its own, one row for each
run and guarantee, so two writers never touch the same file, and any reader of Parquet can query it.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.core import DataError, UsageError
from tidings.disk.files import whole_file
from tidings.spec import Value, Verdict

MANIFEST = "history.json"
FORMAT = 1
SCHEMA = pa.schema(
    {
        "entry": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "command": pa.string(),
        "source": pa.string(),
        "run": pa.string(),
        "guarantee": pa.string(),
        "value": pa.string(),
        "judged": pa.int64(),
        "not_owed": pa.int64(),
        "violated": pa.int64(),
        "reason": pa.string(),
        "note": pa.string(),
        "rows": pa.int64(),
        "seconds": pa.float64(),
        "latency_ms_p50": pa.float64(),
        "latency_ms_p99": pa.float64(),
        "packets_per_broadcast": pa.float64(),
        "bytes_per_broadcast": pa.float64(),
    }
)


class Measured(msgspec.Struct, frozen=True):
    """What a run cost, where somebody measured it."""

    latency_ms_p50: float | None = None
    latency_ms_p99: float | None = None
    packets_per_broadcast: float | None = None
    bytes_per_broadcast: float | None = None


class Entry(msgspec.Struct, frozen=True):
    """One audit or watch of one run."""

    at: datetime
    command: str
    source: str
    run: str
    rows: int
    seconds: float
    values: dict[str, Value]
    """By guarantee, in a word; also that of views."""
    violated: int
    measured: Measured


def is_history(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def refuse_no_history(folder: Path) -> None:
    """A folder that is something else is not written into.

    Somebody else may begin it meanwhile: whoever has written an entry has written the manifest.
    """
    if not folder.exists():
        return
    is_other = folder.is_file() or any(
        not one.name.startswith(MANIFEST) for one in folder.iterdir()
    )
    if is_other and not is_history(folder):
        raise UsageError(f"{folder} is no history (it has no {MANIFEST}); choose another folder")


def append(
    folder: Path,
    command: str,
    source: str,
    verdicts: Mapping[str, Sequence[Verdict]],
    seconds: float,
    rows: int,
    measured: Mapping[str, Measured] | None = None,
) -> None:
    """One more entry: all of it or nothing."""
    refuse_no_history(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _begin(folder)
    name = f"{time.time_ns()}-{secrets.token_hex(4)}"
    common = {
        "entry": name, "at": datetime.now(UTC), "command": command, "source": source,
        "rows": rows, "seconds": seconds,
    }  # fmt: skip
    columns = ("judged", "not_owed", "violated", "reason", "note")
    of_runs = measured or {}
    table = [
        common
        | {"run": run, "guarantee": str(one.guarantee), "value": str(one.value)}
        | {column: getattr(one, column) for column in columns}
        | msgspec.structs.asdict(of_runs.get(run, Measured()))
        for run, five in verdicts.items()
        for one in five
    ]
    with whole_file(folder / f"{name}.parquet") as draft:
        pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA), draft)


def _begin(folder: Path) -> None:
    """Several may do so at once: one of them is the first, and the others are content with it."""
    if not is_history(folder):
        try:
            with whole_file(folder / MANIFEST) as draft:
                draft.write_bytes(msgspec.json.encode({"tidings": "history", "format": FORMAT}))
        except FileNotFoundError:
            if not is_history(folder):
                raise


def measured_in(tables: Path) -> dict[str, Measured]:
    """What the tables of an audit say, by run: the time until all correct members had delivered."""
    latencies = pq.read_table(tables / "latency_summary").to_pylist()
    costs = {row["run"]: row for row in pq.read_table(tables / "run_costs").to_pylist()}
    times = {row["run"]: row for row in latencies if row["measure"] == "last"}
    return {
        run: Measured(
            latency_ms_p50=_ms(times.get(run, {}).get("p50_ns")),
            latency_ms_p99=_ms(times.get(run, {}).get("p99_ns")),
            packets_per_broadcast=row["packets_per_broadcast"],
            bytes_per_broadcast=row["bytes_per_broadcast"],
        )
        for run, row in costs.items()
    }


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6


_MISSHAPEN = (AttributeError, TypeError, ValueError)
"""What values of another shape lead to."""


def entries(folder: Path) -> list[Entry]:
    """All of them, the oldest first."""
    try:
        known = msgspec.json.decode((folder / MANIFEST).read_bytes())
        if known.get("format") != FORMAT:
            raise DataError(f"{folder}: history format {known.get('format')}, not {FORMAT}")
        tables = [pq.read_table(path, schema=SCHEMA) for path in sorted(folder.glob("*.parquet"))]
        found: dict[tuple[str, str], list[dict[str, object]]] = {}
        for row in (row for table in tables for row in table.to_pylist()):
            found.setdefault((str(row["entry"]), str(row["run"])), []).append(row)
        listed = [_entry(of_run) for of_run in found.values()]
    except (msgspec.MsgspecError, pa.ArrowException, *_MISSHAPEN) as fault:
        raise DataError(f"{folder}: not readable as a history: {fault}") from None
    return sorted(listed, key=lambda one: one.at)


def _entry(rows: Sequence[Mapping[str, object]]) -> Entry:
    first = dict(rows[0])
    return msgspec.convert(
        {name: first[name] for name in ("at", "command", "source", "run", "rows", "seconds")}
        | {"values": {row["guarantee"]: row["value"] for row in rows}}
        | {"violated": sum(int(str(row["violated"])) for row in rows)}
        | {"measured": {name: first[name] for name in Measured.__struct_fields__}},
        Entry,
    )


def newest(found: Sequence[Entry]) -> Value:
    """The worst value of the last entry; unknown if there is none."""
    if not found:
        return Value.UNKNOWN
    last = [value for one in found if one.at == found[-1].at for value in one.values.values()]
    return next(one for one in (Value.VIOLATED, Value.UNKNOWN, Value.HOLDS) if one in last)
