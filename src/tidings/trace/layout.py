"""Where a trace lies on disk.

A trace is a folder (or a single file beside its manifest):

    *manifest.jsonl     parts of the manifest, one per line
    *.jsonl             rows for people
    *.parquet           rows for the pipeline
    *.segment           rows in blocks, as a node writes them
    *.segment.open      one that a node is writing, or was when it was killed
    *.segment.damaged   one that a node found damaged and set aside: not read
    *.open              any other file that is not complete: not read

Nothing is half-written: a file appears under its name only when it is complete.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidings.core import DataError, UsageError
from tidings.core.group import natural
from tidings.trace.manifest import Manifest, check, merge
from tidings.trace.schema import READABLE, unreadable

MANIFEST = "manifest.jsonl"
SEGMENTS = (".segment", ".segment.open")
"""Closed, and open: of the latter the end may be torn."""


class Layout(msgspec.Struct, frozen=True):
    """The files of a trace, each list sorted by name."""

    manifests: tuple[Path, ...]
    jsonl: tuple[Path, ...]
    parquet: tuple[Path, ...]
    segments: tuple[Path, ...] = ()


def layout(path: Path) -> Layout:
    """Find the files of the trace at ``path``, a folder or one file of rows."""
    if path.is_dir():
        # p1-2 before p1-10: the segments of one history are read in the order of their numbers.
        files = sorted((f for f in path.iterdir() if f.is_file()), key=lambda f: natural(f.name))
    elif path.is_file():
        beside = (file for file in path.parent.iterdir() if file.name.endswith(MANIFEST))
        files = [path, *sorted(beside)]
    else:
        raise UsageError(f"{path}: no such file or folder")
    manifests = tuple(file for file in files if file.name.endswith(MANIFEST))
    jsonl = tuple(file for file in files if file.suffix == ".jsonl" and file not in manifests)
    parquet = tuple(file for file in files if file.suffix == ".parquet")
    segments = tuple(file for file in files if file.name.endswith(SEGMENTS))
    if not jsonl and not parquet and not segments:
        raise DataError(f"{path}: no trace here (no .jsonl, .parquet or .segment file with rows)")
    if not manifests:
        raise DataError(f"{path}: no manifest (a file whose name ends in {MANIFEST})")
    for file in (*jsonl, *parquet):
        if file.stat().st_size == 0:
            raise DataError(f"{file}: the file is empty")
    return Layout(manifests, jsonl, parquet, segments)


def read_manifests(files: tuple[Path, ...]) -> dict[str, Manifest]:
    """The merged manifest of every run."""
    return manifests_in([(str(file), file.read_bytes()) for file in files])


def manifests_in(files: Sequence[tuple[str, bytes]]) -> dict[str, Manifest]:
    """The same, of files that have been read: their names and what is in them."""
    parts: dict[str, list[Manifest]] = {}
    for file, text in files:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                part = _part(line, file, number)
                parts.setdefault(part.run, []).append(part)
    if not parts:
        raise DataError(f"{files[0][0]}: the manifest is empty")
    merged = {run: merge(of_run) for run, of_run in parts.items()}
    # The runs of a campaign are nearly all alike, and checking takes longer than decoding.
    checked = set()
    for manifest in merged.values():
        fates = tuple(manifest.fates.items())
        key = (manifest.schema, manifest.digest, manifest.names, manifest.views, fates)
        if key not in checked or manifest.cuts:
            check(manifest)
            checked.add(key)
    return merged


class _Version(msgspec.Struct):
    schema: int


_decode_version = msgspec.json.Decoder(_Version).decode
_decode = msgspec.json.Decoder(Manifest).decode


def _part(line: bytes, file: str, number: int) -> Manifest:
    try:
        # The version first: a later schema may have fields that this one does not know.
        version = _decode_version(line).schema
        if version in READABLE:
            return _decode(line)
        fault = unreadable(version)
    except (msgspec.MsgspecError, UnicodeDecodeError) as reason:
        fault = f"not a part of a manifest: {reason}"
    raise DataError(f"{file}:{number}: {fault}")


def refuse_to_overwrite(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(os.scandir(folder))):
        raise UsageError(f"{folder} is not an empty folder; choose another")
