"""The rows about agreed views: few among many, so they are looked at one by one."""

from typing import Any

import numpy as np

from tidings.core import Members
from tidings.pipeline.arrays.findings import Array
from tidings.pipeline.arrays.known import Rebind, RunSteps
from tidings.pipeline.arrays.rows import Directory
from tidings.trace import Row
from tidings.trace.schema import AGREED

_COLUMNS = ("run", "process", "index", "kind", "origin", "seq", "view", "value", "vector")


def steps_in(table: Any, directory: Directory) -> dict[int, RunSteps]:
    """Of the runs that have agreed views, by their numbers in the trace; all rows are checked."""
    found: dict[int, RunSteps] = {}
    columns = [name for name in _COLUMNS if name in table.column_names]
    places = _places(table["kind"])
    if not len(places):
        return found
    for row in table.select(columns).take(places).to_pylist():
        is_rebind = row["kind"] == "rebind"
        if is_rebind or row.get("value") is not None:
            run = directory.numbers[row["run"]]
            shape = directory.shapes[int(directory.shape[run])]
            of_run = found.setdefault(run, RunSteps({}, []))
            process = int(shape.numbers[row["process"]])
            if is_rebind:
                of_run.rebinds.append(Rebind(row["index"], process, row["seq"], row["view"]))
            else:
                step = _step(row, shape.manifest.names, shape.names[process])
                of_run.steps.setdefault(process, []).append(step)
    for one in found.values():
        one.rebinds.sort()
        for rows in one.steps.values():
            rows.sort(key=lambda row: row.index)
    return found


def _places(kinds: Any) -> Array:
    """Of the rows that may be about agreed views."""
    found, begin = [np.zeros(0, np.int64)], 0
    for chunk in kinds.dictionary_encode().chunks:
        words = chunk.dictionary.to_pylist()
        codes = [code for code, word in enumerate(words) if word in (*AGREED, "rebind")]
        if codes:
            found.append(begin + np.flatnonzero(np.isin(chunk.indices.to_numpy(), codes)))
        begin += len(chunk)
    return np.concatenate(found)


def _step(row: dict[str, Any], names: Members, process: str) -> Row:
    given = {"view": row["view"]} if row["view"] is not None else {}
    if row.get("vector") is not None:
        given["vector"] = {names[position]: count for position, count in row["vector"]}
    return Row(
        run="",
        process=process,
        index=row["index"],
        kind=row["kind"],
        time_ns=0,
        value=row["value"],
        **given,
    )
