"""A trace folder that grows: where each history has got to, and what has come since.

An offset says, for each process, which segment is being read and how many of its bytes have been;
from which one on they were read, and which of those were not there. Such a one is read when it
comes, whole. Only whole frames count, so a torn end waits until its writer completes it. A segment
is renamed when it is closed and keeps its number; retention may delete it before it is read, which
the judge then sees as a hole. Other files of rows appear when they are complete, and are read at
once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tidings.core import DataError
from tidings.pipeline.watching.pieces import Collected, Piece, pieces_of_rows
from tidings.trace import Manifest, read_manifests
from tidings.trace.files import read_lines
from tidings.trace.histories import Histories
from tidings.trace.layout import MANIFEST
from tidings.trace.segments import CLOSED, OPEN, Block, Owner, Reader, VanishedError
from tidings.trace.unpack import table_of_blocks

PIECE_ROWS = 200_000
FILES = "files"
"""In an offset, beside the processes: which files have been read that are no segments."""

At = Mapping[str, int]
"""Of a process: ``first``, ``segment`` and its ``bytes``; a number for each that was not there."""
Offset = dict[str, dict[str, int]]
NOWHERE: At = MappingProxyType({"first": 0, "segment": 0, "bytes": 0})
NO_GOAL: At = MappingProxyType({"segment": -1})
TO_THE_END = -1
MOST_MISSING = 10_000
"""So many missing segments are waited for; each of them is named in the offset."""


class Slice(NamedTuple):
    """Some bytes of a segment; of any other file, all of it."""

    folder: str
    name: str
    begin: int
    end: int


class Growing:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifests(self) -> dict[str, Manifest]:
        some = (one for one in self.folder.iterdir() if one.name.endswith(MANIFEST))
        files = tuple(sorted(one for one in some if one.is_file()))
        if not files:
            raise DataError(f"{self.folder}: no manifest (a file whose name ends in {MANIFEST})")
        return read_manifests(files)

    def segments(self) -> dict[str, list[int]]:
        """The numbers of the segments that each process has."""
        found: dict[str, set[int]] = {}
        for path in self.folder.iterdir():
            name = path.name.removesuffix(".open")
            process, _, number = name.removesuffix(CLOSED).rpartition("-")
            is_number = number.isascii() and number.isdigit()
            # One that is closed meanwhile has another name now, and is there all the same.
            if name.endswith(CLOSED) and process and is_number and not path.is_dir():
                found.setdefault(process, set()).add(int(number))
        return {process: sorted(numbers) for process, numbers in sorted(found.items())}

    def latest(self, start: Offset, most_bytes: int, goal: Offset | None = None) -> Offset:
        """How far one can read now, each process no further than so many bytes, or than a goal."""
        end = {process: dict(at) for process, at in start.items()}
        for process, numbers in self._segments_within(goal).items():
            at = start.get(process, {"first": numbers[0], "segment": numbers[0], "bytes": 0})
            last = NO_GOAL if goal is None else goal[process]
            furthest = self._furthest(process, numbers, at, most_bytes, last)
            end[process] = furthest | self._left_behind(process, numbers, at, furthest["segment"])
        files = self.files()
        if goal is not None:
            files = {name: size for name, size in files.items() if name in goal.get(FILES, {})}
        for name, size in start.get(FILES, {}).items():
            if files.setdefault(name, size) != size:
                raise DataError(
                    f"{self.folder / name}: changed after it was read; more rows need a file of "
                    "their own, complete when it gets its name"
                )
        return end | ({FILES: files} if files else {})

    def files(self) -> dict[str, int]:
        """Whatever else has rows, and how long it is."""
        files = {}
        for path in sorted(self.folder.iterdir()):
            is_of_rows = path.suffix in (".jsonl", ".parquet") and not path.is_dir()
            if is_of_rows and not path.name.endswith(MANIFEST):
                with suppress(FileNotFoundError):  # deleted since the folder was listed
                    files[path.name] = path.stat().st_size
        return files

    def _segments_within(self, goal: Offset | None) -> dict[str, list[int]]:
        found_now = self.segments()
        if goal is None:
            return found_now
        within = {
            process: [one for one in numbers if one <= goal[process]["segment"]]
            for process, numbers in found_now.items()
            if process in goal
        }
        return {process: numbers for process, numbers in within.items() if numbers}

    def _furthest(
        self, process: str, numbers: Iterable[int], at: At, most: int, goal: At
    ) -> dict[str, int]:
        segment, end = at["segment"], at["bytes"]
        for number in (one for one in numbers if one >= segment):
            begin = end if number == segment else 0
            if number == goal["segment"]:
                most = min(most, goal["bytes"] - begin)
            if most <= 0:
                break
            with suppress(FileNotFoundError, VanishedError):
                path = found(self.folder, process, number)
                size = path.stat().st_size
                is_whole = path.name.endswith(CLOSED) and size - begin <= most
                reached = size if is_whole else Reader(path).whole_end(begin, most)
                if reached == 0:
                    break
                segment, end = number, reached
                most -= reached - begin
                if reached < size:
                    break
        return {"segment": segment, "bytes": end}

    def _left_behind(
        self, process: str, numbers: Sequence[int], at: At, segment: int
    ) -> dict[str, int]:
        """From which segment on they have been read up to this one, and which were not there.

        Retention deletes from the first one on, so what is missing before all others never comes.
        """
        old = [number for number in numbers if number < at["segment"] and not _is_read(at, number)]
        come = [one for one in old if (self.folder / f"{process}-{one}{CLOSED}").exists()]
        first = min([at.get("first", 0), *come])
        there = {one for one in numbers if one >= at["segment"]} | set(come)
        begin = max(first, numbers[0])
        if segment - begin - len(numbers) > MOST_MISSING:
            raise DataError(
                f"{self.folder / process}-{segment}{CLOSED}: more than {MOST_MISSING:,} segments "
                "before it are missing; does it belong here?"
            )
        missing = [
            number
            for number in range(begin, segment)
            if number not in there and not _is_read(at, number)
        ]
        return {"first": first} | {str(number): 0 for number in missing}

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """What to read to get from one offset to another."""
        found_now = self.segments()
        slices = []
        for process, to in end.items():
            if process == FILES:
                fresh = [name for name in to if name not in start.get(FILES, {})]
                slices += [Slice(str(self.folder), name, 0, to[name]) for name in fresh]
                continue
            at = start.get(process, NOWHERE)
            for number in found_now.get(process, ()):
                is_next = at["segment"] <= number <= to["segment"] and str(number) not in to
                if is_next or (_is_read(to, number) and not _is_read(at, number)):
                    begin = at["bytes"] if number == at["segment"] else 0
                    last = to["bytes"] if number == to["segment"] else TO_THE_END
                    if begin != last:
                        name = f"{process}-{number}{CLOSED}"
                        slices.append(Slice(str(self.folder), name, begin, last))
        return slices

    # --- rows that have been read before

    def recall(self, run: str, process: str, begin: int, end: int) -> Iterable[Piece] | None:
        """These rows once more, if all of them are still there."""
        slices = self._segments_from(process, begin, end)
        if slices is None:
            return self._recall_from_files(run, process, begin, end)
        pieces = chain.from_iterable(map(pieces_in, slices))
        return (
            piece
            for piece in takewhile(lambda one: one.begin < end, pieces)
            if piece.end > begin and piece.run == run
        )

    def _recall_from_files(
        self, run: str, process: str, begin: int, end: int
    ) -> list[Piece] | None:
        """Such files are read whole: they have the rows of all processes."""
        found = [
            piece
            for one in self.slices({}, {FILES: self.files()})
            for piece in pieces_in(one)
            if (piece.run, piece.process) == (run, process)
            if piece.begin < end and begin < piece.end
        ]
        return sorted(found, key=lambda piece: piece.begin) or None

    def _segments_from(self, process: str, begin: int, end: int) -> list[Slice] | None:
        wanted = []
        for number in reversed(self.segments().get(process, ())):
            try:
                first = _first_index(found(self.folder, process, number))
            except (FileNotFoundError, VanishedError):
                return None
            if first is not None and first < end:
                wanted.append((number, first))
                if first <= begin:
                    break
        if not wanted or wanted[-1][1] > begin:
            return None
        return [
            Slice(str(self.folder), f"{process}-{number}{CLOSED}", 0, TO_THE_END)
            for number, _ in reversed(wanted)
        ]


def _is_read(at: At, number: int) -> bool:
    """Whether all of a segment has been read."""
    return at.get("first", 0) <= number < at["segment"] and str(number) not in at


def found(folder: Path, process: str, number: int) -> Path:
    return _named(folder / f"{process}-{number}{CLOSED}")


def _named(closed: Path) -> Path:
    """A segment, closed or open: it may be closed while one looks for it."""
    opened = closed.with_name(closed.name + OPEN.removeprefix(CLOSED))
    for path in (closed, opened, closed):
        if path.exists():
            return path
    raise FileNotFoundError(str(closed))


def _first_index(path: Path) -> int | None:
    reader = Reader(path)
    return next((block.index for block in reader.blocks()), None)


def pieces_in(one: Slice) -> Iterator[Piece]:
    """The rows of a slice, in pieces; none if its file has been deleted."""
    path = Path(one.folder, one.name)
    if not one.name.endswith(CLOSED):
        yield from _pieces_of_file(path)
        return
    try:
        reader = Reader(_named(path))
    except FileNotFoundError:
        return
    collected: Collected | None = None
    for block in _blocks(reader, one):
        assert reader.owner is not None, f"{path}: blocks of nobody"
        collected = collected or Collected(reader.owner.run, reader.owner.process)
        try:
            collected.add(block)
            piece = collected.piece() if collected.rows >= PIECE_ROWS else None
        except DataError as fault:
            raise DataError(f"{path}: {fault}") from None
        if piece is not None:
            yield piece
    last = collected.piece() if collected is not None else None
    if last is not None:
        yield last


def _blocks(reader: Reader, one: Slice) -> Iterator[Block]:
    """None if its file was deleted while one looked for it."""
    with suppress(VanishedError):
        if one.end != TO_THE_END:
            yield from reader.blocks_between(one.begin, one.end)
        elif one.begin == 0:
            yield from reader.blocks()
        else:
            yield from reader.blocks_between(one.begin, reader.whole_end(one.begin, 1 << 62))


def _pieces_of_file(path: Path) -> Iterator[Piece]:
    manifests = Growing(path.parent).manifests()
    histories = Histories(manifests)
    if path.suffix == ".jsonl":
        read_lines(path, histories)
    else:
        from tidings.trace import parquet

        parquet.read_rows(path, manifests, histories)
    for rows in histories.rows.values():
        yield from pieces_of_rows(rows)


def tables_in(one: Slice, manifests: Mapping[str, Manifest]) -> Iterator[Any]:
    """The rows of a slice as tables, with the columns of a trace in Parquet."""
    path = Path(one.folder, one.name)
    if not one.name.endswith(CLOSED):
        from tidings.trace import parquet

        histories = Histories(manifests)
        if path.suffix == ".parquet":
            parquet.read_rows(path, manifests, histories)
        else:
            read_lines(path, histories)
        yield parquet.rows_table(chain.from_iterable(histories.rows.values()), manifests)
        return
    try:
        reader = Reader(_named(path))
    except FileNotFoundError:
        return
    some = []
    for block in _blocks(reader, one):
        some.append(block)
        if block.end - some[0].index >= PIECE_ROWS:
            yield table_of_blocks(path, _owner(reader), some, manifests)
            some = []
    if some:
        yield table_of_blocks(path, _owner(reader), some, manifests)


def _owner(reader: Reader) -> Owner:
    assert reader.owner is not None, f"{reader.path}: blocks of nobody"
    return reader.owner
