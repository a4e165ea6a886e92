"""The sectors of a log: one that was never written is torn, one that was changed is damage."""

import os
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest

from tidings.core import DataError, MessageId
from tidings.disk.frames import BadFrameError, FrameFile, packed
from tidings.disk.sectors import SECTOR, gathered, spread, spread_size
from tidings.node.log import About, open_log
from tidings.node.log.segments import FIRST_LINE, LOG
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch
from tidings.protocols.frontier.records import Stored

PLACES = (2, 482, 496, 510)
"""Where in a sector an entry begins: at 482 its head just fits, from 484 on it stands in two."""


class Written(NamedTuple):
    """A segment of two entries: where the second begins and ends."""

    path: Path
    data: bytes
    begin: int
    end: int

    def change(self, data: bytes | bytearray) -> FrameFile:
        self.path.write_bytes(data)
        return FrameFile(self.path, LOG)


def written(folder: Path, place: int, body: bytes) -> Written:
    first = next(
        one
        for one in (packed(0, len(FIRST_LINE), bytes(length)) for length in range(2 * SECTOR))
        if (len(FIRST_LINE) + len(one)) % SECTOR == place
    )
    begin = len(FIRST_LINE) + len(first)
    data = FIRST_LINE + first + packed(1, begin, body)
    path = folder / "00000001.log"
    path.write_bytes(data)
    return Written(path, data, begin, len(data))


def sectors_of(one: Written) -> list[range]:
    """The parts of the second entry in each sector."""
    edges = range(one.begin - one.begin % SECTOR + SECTOR, one.end, SECTOR)
    places = [one.begin, *edges, one.end]
    return [range(start, end) for start, end in pairwise(places)]


@pytest.mark.parametrize("place", PLACES)
def test_a_content_comes_back_from_its_sectors(place: int) -> None:
    for length in (*range(1, 40), *range(500, 520), *range(1010, 1040), 10_000):
        content = os.urandom(length)
        data = spread(place, content)
        assert len(data) == spread_size(place, length)
        assert gathered(place, data) == content


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [0, 1, 100, 511, 512, 1_100])
def test_every_part_of_an_entry_begins_and_ends_with_a_mark(
    tmp_path: Path, place: int, length: int
) -> None:
    one = written(tmp_path, place, bytes(length))
    for part in sectors_of(one):
        assert len(part) >= 2
        assert one.data[part[0]]
        assert one.data[part[-1]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("behind", [b"", bytes(700)], ids=["at the end", "zeros behind it"])
def test_whatever_is_changed_in_an_entry_of_zeros_is_damage(
    tmp_path: Path, place: int, behind: bytes
) -> None:
    one = written(tmp_path, place, bytes(SECTOR + 200))
    with one.path.open("r+b", buffering=0) as disk:
        disk.write(one.data + behind)
        for at in range(one.begin, one.end):
            was = one.data[at]
            for now in {was ^ 1 << at % 8, 0} - {was}:
                os.pwrite(disk.fileno(), bytes([now]), at)
                with FrameFile(one.path, LOG) as file:
                    with pytest.raises(BadFrameError):
                        file.frame(one.begin)
                    assert not file.is_torn(one.begin, expected=1), f"byte {at} is {now}"
            os.pwrite(disk.fileno(), bytes([was]), at)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [bytes(1_200), os.urandom(1_200)], ids=["zeros", "noise"])
def test_whichever_sectors_were_never_written_an_entry_is_torn(
    tmp_path: Path, place: int, text: bytes
) -> None:
    one = written(tmp_path, place, text)
    parts = sectors_of(one)
    for missing in product([False, True], repeat=len(parts)):
        if not any(missing):
            continue
        holed = bytearray(one.data)
        for part, is_missing in zip(parts, missing, strict=True):
            if is_missing:
                holed[part.start : part.stop] = bytes(len(part))
        for end in {part.stop for part in parts} | {one.end}:
            with one.change(holed[:end]) as file:
                with pytest.raises(BadFrameError):
                    file.frame(one.begin)
                assert file.is_torn(one.begin, expected=1), f"{missing}, up to {end}"


@pytest.mark.parametrize("place", PLACES)
def test_a_hole_is_damage_where_a_later_entry_was_begun(tmp_path: Path, place: int) -> None:
    one = written(tmp_path, place, bytes(1_200))
    later = packed(2, one.end, b"later")
    for part in sectors_of(one):
        holed = bytearray(one.data + later)
        holed[part.start : part.stop] = bytes(len(part))
        with one.change(holed) as file:
            assert not file.is_torn(one.begin, expected=1), f"without {part}"


def test_a_sector_of_a_text_is_not_mistaken_for_a_later_entry(tmp_path: Path) -> None:
    """Somebody may broadcast what stands in a log."""
    one = written(tmp_path, 2, b"text" + packed(7, 0, b"an entry") + bytes(1_200))
    holed = bytearray(one.data)
    holed[sectors_of(one)[2].start :] = bytes(len(one.data) - sectors_of(one)[2].start)
    with one.change(holed) as file:
        assert file.is_torn(one.begin, expected=1)


# --- the same through the front door

ABOUT = About("chat", "p1", ("p1", "p2"), "frontier", traced=True)


def stored(seq: int, text: bytes) -> Stored:
    return Stored(Batch(MessageId("p1", seq), (text,)))


def seqs_in(folder: Path) -> list[int] | None:
    log, found = open_log(folder, ABOUT, Frontier, incarnation=17)
    log.close()
    return found and [record.batch.id.seq for record in found.records]


def test_a_flipped_bit_in_the_last_entry_is_refused_although_its_text_is_zeros(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path, ABOUT, Frontier, incarnation=17)
    log.begin_segment((), index=0)
    log.commit((stored(1, b"before"),))
    begin = log.size
    log.commit((stored(2, bytes(4 * SECTOR)),))
    log.close()
    path = tmp_path / "00000001.log"
    data = path.read_bytes()
    for at in (begin + 5, begin + 400, begin + 1_000, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 4
        path.write_bytes(changed)
        with pytest.raises(DataError, match=f"damaged at byte {begin}"):
            seqs_in(tmp_path)
        assert path.read_bytes() == changed


def test_a_segment_that_was_only_just_begun_may_have_holes_anywhere(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, ABOUT, Frontier, incarnation=17)
    log.begin_segment((), index=0)
    log.commit((stored(1, b"before"),))
    log.begin_segment((stored(2, bytes(2 * SECTOR)),), index=0)
    log.close()
    path = tmp_path / "00000002.log"
    data = path.read_bytes()
    for missing in range(1, 2 ** (len(data) // SECTOR + 1)):
        holed = bytearray(data)
        for sector in range(len(data) // SECTOR + 1):
            if missing >> sector & 1:
                part = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(data)))
                holed[part] = bytes(len(data[part]))
        path.write_bytes(holed)
        assert seqs_in(tmp_path) == [1]
        assert not path.exists()


def test_a_first_sector_that_is_gone_is_damage_where_commits_follow(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, ABOUT, Frontier, incarnation=17)
    log.begin_segment((), index=0)
    for seq in (1, 2):
        log.commit((stored(seq, bytes(SECTOR)),))
    log.close()
    path = tmp_path / "00000001.log"
    path.write_bytes(bytes(SECTOR) + path.read_bytes()[SECTOR:])
    with pytest.raises(DataError, match=r"00000001\.log: not a log of tidings"):
        seqs_in(tmp_path)
    assert path.exists()
