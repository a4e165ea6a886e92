"""Pieces of text files: whole lines, read side by side by whoever sees the files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tidings.pipeline.arrays.perform import in_bundles
from tidings.pipeline.arrays.rows import UnreadableError
from tidings.pipeline.sources.cells import BYTE_ORDER_MARK, CsvLines, JsonLines, line_count
from tidings.pipeline.sources.meaning import Meaning
from tidings.pipeline.sources.storing import Chunk, Store, store

COMPRESSED = (".gz", ".zst", ".bz2")
PIECE_BYTES = CHUNK_BYTES = 1 << 23
"""So much is read at once: more would not stay in the caches of a processor."""
TASK_BYTES = 1 << 26
LEAST_TASKS = 8

Lines = CsvLines | JsonLines


class Piece(NamedTuple):
    """The lines of a file that begin within a range of bytes."""

    path: str
    source: str
    begin: int
    end: int
    lines: Lines


def pieces_of(path: str, source: str, lines: Lines) -> list[Piece]:
    """A file that is compressed, or whose quotes go over lines, is one piece."""
    size = Path(path).stat().st_size
    is_whole = path.endswith(COMPRESSED) or (isinstance(lines, CsvLines) and lines.joins_lines)
    step = max(size, 1) if is_whole else PIECE_BYTES
    return [
        Piece(path, source, begin, min(begin + step, size), lines)
        for begin in range(0, max(size, 1), step)
    ]


def tasks_for(pieces: Sequence[Piece]) -> list[Sequence[Piece]]:
    """Neighbours together, so much that starting a task is nothing against it."""
    size = sum(piece.end - piece.begin for piece in pieces)
    return in_bundles(pieces, max(LEAST_TASKS, size // TASK_BYTES))


def store_pieces(pieces: Sequence[Piece], meaning: Meaning, folder: Path) -> list[Store]:
    return [one for piece in pieces for one in store(chunks_of(piece), meaning, str(folder))]


def chunks_of(piece: Piece) -> Iterator[Chunk]:
    """The rows of a piece, some at a time."""
    counter = LineCounter(piece.source, piece.begin, piece.lines)
    try:
        for data in _read(piece):
            yield from counter.chunks(data)
    except OSError as fault:
        raise UnreadableError(piece.source, str(fault)) from fault
    yield from counter.rest()


def _read(piece: Piece) -> Iterator[bytes]:
    if piece.path.endswith(COMPRESSED):
        with pa.input_stream(piece.path, compression="detect") as file:
            while data := file.read(CHUNK_BYTES):
                yield data
        return
    with Path(piece.path).open("rb") as file:
        if piece.begin:
            file.seek(piece.begin - 1)
            file.readline()
        at = file.tell()
        while at < piece.end and (data := file.read(min(CHUNK_BYTES, piece.end - at))):
            at += len(data)
            # A line belongs to the piece in which it begins.
            yield data if at < piece.end or data.endswith(b"\n") else data + file.readline()


class LineCounter:
    """Makes blocks of lines that follow each other; the first of a file perhaps is a header."""

    def __init__(self, source: str, start: int, lines: Lines) -> None:
        self._source = source
        self._start = start
        self._lines = lines
        self._counted = 0
        self._rest = b""

    def chunks(self, data: bytes) -> Iterator[Chunk]:
        """What whole records say, as far as they are known to be whole."""
        data = self._rest + data
        whole = self._lines.whole(data)
        self._rest = data[whole:]
        yield from self._chunk(data[:whole])

    def rest(self) -> Iterator[Chunk]:
        """What is left at the end."""
        yield from self._chunk(self._rest)

    def _chunk(self, data: bytes) -> Iterator[Chunk]:
        start, first, count = self._start + self._counted, 1, line_count(data)
        self._counted += count
        if start == 0:
            data = data.removeprefix(BYTE_ORDER_MARK)
            if isinstance(self._lines, CsvLines) and self._lines.has_header:
                data, first = data.partition(b"\n")[2], 2
        if count:
            yield Chunk(self._source, start, self._lines.cells(data, first), count)


def first_line(data: bytes) -> str:
    """The line with which a file begins, without the mark of its encoding."""
    line = data.removeprefix(BYTE_ORDER_MARK).partition(b"\n")[0]
    return line.decode(errors="replace").rstrip("\r")


def begin_of(path: str) -> bytes:
    """Enough of a file to see its first line."""
    if path.endswith(COMPRESSED):
        try:
            with pa.input_stream(path, compression="detect") as stream:
                return bytes(stream.read(CHUNK_BYTES))
        except OSError as fault:
            raise UnreadableError(path, str(fault)) from fault
    with Path(path).open("rb") as file:
        return file.readline()
