"""Rows as JSON Lines: for people, and for whatever else can write a line of text."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from tidings.core import DataError
from tidings.disk.files import whole_file
from tidings.trace.histories import Histories
from tidings.trace.schema import Row

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Row).decode


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    with whole_file(path) as draft, draft.open("wb") as file:
        for row in rows:
            file.write(_encode(row) + b"\n")


def read_rows(path: Path, into: Histories) -> None:
    into.begin_file()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                into.add(_decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, DataError) as fault:
                raise DataError(f"{path}:{number}: {fault}") from None
