"""Whole runs to disk and back."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tidings.core import DataError
from tidings.disk.files import whole_file
from tidings.trace import segments
from tidings.trace.histories import Histories, Run
from tidings.trace.layout import MANIFEST, Layout, layout, read_manifests
from tidings.trace.manifest import Manifest
from tidings.trace.schema import Row

Format = Literal["jsonl", "parquet"]


# --- rows as JSON Lines: for people, and for whatever else can write a line of text

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Row).decode


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    with whole_file(path) as draft, draft.open("wb") as file:
        file.writelines(_encode(row) + b"\n" for row in rows)


def read_lines(path: Path, into: Histories) -> None:
    into.begin_file()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                into.add(_decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, DataError) as fault:
                raise DataError(f"{path}:{number}: {fault}") from None


# --- whole runs


def collect(manifest: Manifest, rows: Iterable[Row]) -> Run:
    """A run from rows in memory, validated like any other."""
    histories = Histories({manifest.run: manifest})
    for row in rows:
        histories.add(row)
    return histories.runs()[0]


def write_runs(folder: Path, runs: Sequence[Run], form: Format = "jsonl") -> int:
    """Write whole runs into a folder and say how many rows that were; the manifest comes last."""
    manifests = {run.manifest.run: run.manifest for run in runs}
    rows = [row for run in runs for row in run.rows]
    with whole_file(folder / MANIFEST) as draft:
        draft.write_bytes(msgspec.json.Encoder().encode_lines(manifests.values()))
        if form == "jsonl":
            write_lines(folder / "trace.jsonl", rows)
        else:
            from tidings.trace import parquet

            parquet.write_rows(folder / "trace.parquet", rows, manifests)
    return len(rows)


def read_runs(path: Path) -> list[Run]:
    """Every run of a trace, validated; for traces that fit in memory."""
    files = layout(path)
    manifests = read_manifests(files.manifests)
    histories = Histories(manifests)
    read_all(files, manifests, histories)
    return histories.runs()


def read_all(files: Layout, manifests: Mapping[str, Manifest], into: Histories) -> None:
    """All rows of a trace, in reading order."""
    for file in files.jsonl:
        read_lines(file, into)
    if files.parquet:
        from tidings.trace import parquet

        for file in files.parquet:
            parquet.read_rows(file, manifests, into)
    for file in files.segments:
        segments.read_rows(file, into)
