"""What it cost and how long it took: packets, latencies, hold-back and state, as tables.

``record`` opens a trace, ``costs`` and ``latencies`` make tables of it. The audit asks whether
the rows are sound; here they are taken as they are. What a trace does not tell stays null, or has
no row: nothing is ever zero because nobody wrote it down. docs/report.md has every column.
"""

from tidings.pipeline.queries.measures.costs import (
    costs,
    run_costs,
    states,
    states_by_process,
    states_by_run,
)
from tidings.pipeline.queries.measures.latencies import (
    hold_back,
    hold_back_summary,
    latencies,
    latency_summary,
)
from tidings.pipeline.queries.measures.overview import Overview, overview
from tidings.pipeline.queries.measures.recording import (
    Recording,
    percentiles,
    record,
    recording_of,
    unmeasured,
)
from tidings.pipeline.queries.measures.tables import TABLES, write_tables

__all__ = [
    "TABLES",
    "Overview",
    "Recording",
    "costs",
    "hold_back",
    "hold_back_summary",
    "latencies",
    "latency_summary",
    "overview",
    "percentiles",
    "record",
    "recording_of",
    "run_costs",
    "states",
    "states_by_process",
    "states_by_run",
    "unmeasured",
    "write_tables",
]
