"""What happened: the schema of traces, their writers and readers."""

from tidings.trace.files import Format, collect, read_runs, write_runs
from tidings.trace.histories import Run
from tidings.trace.layout import layout, read_manifests, refuse_to_overwrite
from tidings.trace.manifest import Fate, HistoryCut, Manifest
from tidings.trace.schema import KINDS, NEEDED, SCHEMA_VERSION, Kind, Row, digest

__all__ = [
    "KINDS",
    "NEEDED",
    "SCHEMA_VERSION",
    "Fate",
    "Format",
    "HistoryCut",
    "Kind",
    "Manifest",
    "Row",
    "Run",
    "collect",
    "digest",
    "layout",
    "read_manifests",
    "read_runs",
    "refuse_to_overwrite",
    "write_runs",
]
