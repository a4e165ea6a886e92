"""Segments: what nodes write in blocks reads like any other trace."""

from pathlib import Path

import msgspec
import pytest

from tidings.core import DataError
from tidings.trace import Manifest, Row, digest, read_runs
from tidings.trace.segments import (
    Block,
    Gap,
    Mark,
    Messages,
    Owner,
    Packets,
    Reader,
    beginning,
    encoded,
    expanded,
    framed,
    next_segment,
    segments_of,
    settle,
    whole_segment,
)

OWNER = Owner("run", "p1")
TEXTS = (b"one", b"two")
DIGESTS = b"".join(bytes.fromhex(digest(text)) for text in TEXTS)
BLOCKS = (
    Block(
        0,
        1_000,
        0,
        (
            Messages("broadcast", "p1", 1, 2, DIGESTS, view=0),
            Packets("send", (("p2", 7), ("p3", 9)), "data", 99, "p1", 1),
        ),
    ),
    Block(
        4, 2_000, 0, (Packets("receive", (("p2", 3),), "holding", 5), Messages("held", "p2", 5, 3))
    ),
    Block(8, 3_000, 1, (Mark("recover"), Messages("deliver", "p1", 1, 2, DIGESTS))),
)


def write(folder: Path, name: str, *blocks: Block, owner: Owner = OWNER) -> Path:
    path = folder / name
    path.write_bytes(whole_segment(owner, *blocks))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ("p3", "p1", "p2")
    part = Manifest(schema=1, run="run", names=names, views=(("p1", "p2", "p3"),), clock="wall")
    (tmp_path / "p1.manifest.jsonl").write_bytes(msgspec.json.encode(part))
    return tmp_path


def test_a_block_expands_into_the_rows_that_it_stands_for() -> None:
    rows = [row for block in BLOCKS for row in expanded(OWNER, block)]
    assert [row.index for row in rows] == list(range(11))
    assert rows[1] == Row(
        run="run",
        process="p1",
        index=1,
        kind="broadcast",
        time_ns=1_000,
        origin="p1",
        seq=2,
        digest=digest(b"two"),
        view=0,
    )
    assert rows[3] == Row(
        run="run",
        process="p1",
        index=3,
        kind="send",
        time_ns=1_000,
        peer="p3",
        packet=9,
        packet_kind="data",
        bytes=99,
        origin="p1",
        seq=1,
    )
    assert [(row.kind, row.incarnation) for row in rows[8:]] == [
        ("recover", 1),
        ("deliver", 1),
        ("deliver", 1),
    ]


def test_segments_are_read_in_the_order_of_their_numbers(folder: Path) -> None:
    write(folder, "p1-9.segment", BLOCKS[0])
    write(folder, "p1-10.segment", BLOCKS[1])
    write(folder, "p1-11.segment.open", BLOCKS[2])
    (run,) = read_runs(folder)
    assert [row.index for row in run.histories["p1"]] == list(range(11))
    assert not run.holed


def test_a_missing_segment_is_a_hole(folder: Path) -> None:
    write(folder, "p1-1.segment", BLOCKS[0])
    write(folder, "p1-3.segment", BLOCKS[2])
    (run,) = read_runs(folder)
    assert run.holed == {"p1"}


def test_a_gap_takes_the_places_of_what_is_missing(folder: Path) -> None:
    write(folder, "p1-1.segment", BLOCKS[0])
    gap = Block(4, 5_000, 1, (Gap("gap", 6, {"p2": 3}, broadcast=8), Mark("recover")))
    write(folder, "p1-2.segment", gap)
    (run,) = read_runs(folder)
    answer, recover = run.histories["p1"][-2:]
    assert (answer.kind, answer.index, answer.value, answer.vector, answer.seq) == (
        "gap",
        4,
        9,
        {"p2": 3},
        8,
    )
    assert (recover.kind, recover.index, gap.end) == ("recover", 10, 11)
    assert run.holed == {"p1"}


@pytest.mark.parametrize(
    ("blocks", "complaint"),
    [
        ((BLOCKS[0], Block(2, 0, 0, (Gap("gap", 9),))), "p1's index is 2 where 4 comes next"),
        ((BLOCKS[0], Block(4, 0, 0, (Gap("gap", 5),)), BLOCKS[2]), "is 8 where 9 comes next"),
    ],
)
def test_a_gap_where_there_are_rows_is_refused(
    folder: Path, blocks: tuple[Block, ...], complaint: str
) -> None:
    write(folder, "p1-1.segment", *blocks)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


def cut(folder: Path, index: int) -> None:
    part = {"schema": 2, "run": "run", "cuts": {"p1": {"index": index, "broadcast": 2}}}
    (folder / "cut.manifest.jsonl").write_bytes(msgspec.json.encode(part))


def test_what_lies_before_the_cut_is_passed_over(folder: Path) -> None:
    """A member was killed after it had noted the cut, and before it could delete."""
    write(folder, "p1-1.segment", BLOCKS[0])
    write(folder, "p1-2.segment", *BLOCKS[1:])
    cut(folder, 4)
    (run,) = read_runs(folder)
    assert [row.index for row in run.histories["p1"]] == list(range(4, 11))
    (folder / "p1-1.segment").unlink()
    assert read_runs(folder) == [run]
    assert not run.holed


@pytest.mark.parametrize(
    ("index", "complaint"),
    [(11, "p1's history ends before its cut, index 11"), (6, "is 4 where 6 comes next")],
)
def test_a_cut_that_cannot_be_is_refused(folder: Path, index: int, complaint: str) -> None:
    write(folder, "p1-1.segment", *BLOCKS)
    cut(folder, index)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


def test_a_segment_that_goes_while_it_is_looked_for_gets_one_line(folder: Path) -> None:
    with pytest.raises(DataError, match=r"p1-7\.segment: it is gone: a member that still runs"):
        list(Reader(folder / "p1-7.segment").blocks())


def test_only_an_open_segment_may_end_anywhere(folder: Path) -> None:
    path = write(folder, "p1-1.segment", *BLOCKS)
    data = path.read_bytes()
    sizes = [len(whole_segment(OWNER, *BLOCKS[:n])) for n in range(4)]
    still_open = folder / "p1-1.segment.open"
    for end in range(1, len(data)):
        still_open.write_bytes(data[:end])
        reader = Reader(still_open)
        whole = sum(size <= end for size in sizes[1:])
        assert list(reader.blocks()) == list(BLOCKS[:whole])
        if end >= sizes[0]:
            assert reader.whole == sizes[whole]
        path.write_bytes(data[:end])
        if end in sizes:
            assert list(Reader(path).blocks()) == list(BLOCKS[:whole])
        else:
            with pytest.raises(DataError, match=r"p1-1\.segment"):
                list(Reader(path).blocks())


def test_a_changed_byte_is_bad_data_even_in_an_open_segment(folder: Path) -> None:
    path = write(folder, "p1-1.segment.open", *BLOCKS)
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(DataError) as fault:
            list(Reader(path).blocks())
        assert str(fault.value).startswith(str(path))


def test_a_segment_from_before_there_were_frames_is_read_as_strictly(folder: Path) -> None:
    parts = [b"tidings trace 2\n", *map(encoded, (OWNER, *BLOCKS))]
    path, closed, data = folder / "p1-1.segment.open", folder / "p1-1.segment", b"".join(parts)
    sizes = [len(b"".join(parts[:count])) for count in range(2, 6)]
    for end in range(len(data)):
        path.write_bytes(data[:end])
        reader = Reader(path)
        whole = sum(size <= end for size in sizes[1:])
        assert list(reader.blocks()) == list(BLOCKS[:whole])
        assert reader.whole == max(size for size in (0, 16, *sizes) if size <= end)
        if end not in sizes:
            closed.write_bytes(data[:end])
            with pytest.raises(DataError, match=r"p1-1\.segment"):
                list(Reader(closed).blocks())
        path.write_bytes(data[:end] + bytes([data[end] ^ 1 << end % 8]) + data[end + 1 :])
        with pytest.raises(DataError, match=r"p1-1\.segment"):
            list(Reader(path).blocks())
    path.write_bytes(data + bytes(1_000))
    reader = Reader(path)
    assert list(reader.blocks()) == list(BLOCKS)
    assert (reader.whole, reader.is_current) == (len(data), False)
    path.write_bytes(data + bytes(1_000) + b"1")
    with pytest.raises(DataError, match="damaged at byte"):
        list(Reader(path).blocks())


def test_a_segment_of_version_2_is_read_and_not_continued(folder: Path) -> None:
    path = write(folder, "p1-1.segment", *BLOCKS)
    path.write_bytes(path.read_bytes().replace(b"tidings trace 3 f", b"tidings trace 2 f", 1))
    reader = Reader(path)
    assert list(reader.blocks()) == list(BLOCKS)
    assert not reader.is_current


def test_several_blocks_in_a_frame_are_read_one_by_one(folder: Path) -> None:
    begin = beginning(OWNER)
    path = folder / "p1-1.segment"
    path.write_bytes(begin + framed(b"".join(map(encoded, BLOCKS)), len(begin)))
    assert list(Reader(path).blocks()) == list(BLOCKS)


def test_a_sector_that_was_never_written_is_a_torn_end_unless_a_frame_follows(folder: Path) -> None:
    path = folder / "p1-1.segment.open"
    long = Block(11, 4_000, 1, (Messages("deliver", "p2", 1, 200, bytes(1_600)),))
    data = bytearray(whole_segment(OWNER, *BLOCKS, long))
    data[1024:1536] = bytes(512)
    path.write_bytes(data)
    assert list(Reader(path).blocks()) == list(BLOCKS)
    path.write_bytes(data + framed(encoded(BLOCKS[0]), len(data)))
    with pytest.raises(DataError, match="damaged at byte"):
        list(Reader(path).blocks())


def test_what_was_never_written_is_a_torn_end(folder: Path) -> None:
    path = write(folder, "p1-1.segment.open", *BLOCKS)
    path.write_bytes(path.read_bytes() + bytes(1_000))
    assert list(Reader(path).blocks()) == list(BLOCKS)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"tidings trace 4\n", "trace schema 4, this tidings reads 1, 2 and 3"),
        (b"PAR1 and so on", "not a segment of a trace"),
        (b"tidings trace 1\n", "cut off before its first block"),
    ],
)
def test_what_is_no_segment_is_refused(folder: Path, data: bytes, complaint: str) -> None:
    (folder / "p1-1.segment").write_bytes(data)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (Block(0, 0, 0, (Messages("deliver", "p9", 1, 1, bytes(8)),)), "p9 is not among"),
        (Block(0, 0, 0, (Messages("deliver", "p2", 1, 1),)), "a deliver row needs 'digest'"),
        (Block(0, 0, 0, (Messages("deliver", "p2", 1, 2, bytes(8)),)), "8 bytes of digests for 2"),
        (Block(0, 0, 0, (Messages("deliver", "p2", 1, 0),)), "block 1: Expected `int` >= 1"),
        (Block(0, 0, 0, (Mark("view", view=3),)), "view 3 is not in the manifest"),
        (Block(0, 0, 0, (Gap("gap", 0),)), "block 1: Expected `int` >= 1"),
        (Block(0, 0, 0, (Gap("gap", 1, {"p9": 1}),)), "p9 is not among"),
    ],
)
def test_a_block_that_cannot_be_is_refused(folder: Path, block: Block, complaint: str) -> None:
    write(folder, "p1-1.segment", block)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


def test_the_runner_has_the_last_word(folder: Path) -> None:
    write(folder, "p1-1.segment", *BLOCKS)
    write(folder, "p1-2.segment")  # begun just before the end
    write(folder, "p2-1.segment", owner=Owner("run", "p2"))
    settle(folder, "run", ["p1", "p2"], time_ns=9)
    (run,) = read_runs(folder)
    last = run.histories["p1"][-1]
    assert (last.kind, last.index, last.incarnation, last.time_ns) == ("settle", 11, 1, 9)
    assert [row.kind for row in run.histories["p2"]] == ["settle"]
    with pytest.raises(DataError, match="p3 left no segments here"):
        settle(folder, "run", ["p3"], time_ns=9)


@pytest.mark.parametrize(
    ("run", "names", "complaint"),
    [
        ("run", ["p1", "p3"], "p3 left no segments here"),
        ("walk", ["p1", "p2"], "p1-1.segment: of p1 in run run, not of p1 in run walk"),
        ("run", ["p1", "p2"], "p2 is settled already"),
    ],
)
def test_a_last_word_that_cannot_be_is_not_written_of_anybody(
    folder: Path, run: str, names: list[str], complaint: str
) -> None:
    write(folder, "p1-1.segment", *BLOCKS)
    write(folder, "p2-1.segment", owner=Owner("run", "p2"))
    settle(folder, "run", ["p2"], time_ns=9)
    before = sorted(folder.iterdir())
    with pytest.raises(DataError, match=complaint):
        settle(folder, run, names, time_ns=9)
    assert sorted(folder.iterdir()) == before


def test_segments_are_found_by_process(folder: Path) -> None:
    for name in ("p1-2.segment", "p1-10.segment.open", "p1-x-1.segment", "p11-1.segment"):
        write(folder, name)
    assert [path.name for path in segments_of(folder, "p1")] == [
        "p1-2.segment",
        "p1-10.segment.open",
    ]
    assert next_segment(folder, "p1").name == "p1-11.segment"
    assert next_segment(folder, "p2").name == "p2-1.segment"
