"""The durable log: cut off anywhere it is repaired, changed anywhere it is refused."""

import errno
import fcntl
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidings.core import DataError, EnvironmentMissing, MessageId, TidingsError
from tidings.node.config import Retention
from tidings.node.log import About, DurableLog, Identity, Recovered, open_log
from tidings.node.log.segments import FIRST_LINE
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch, Counts
from tidings.protocols.frontier.records import Delivered, Pinned, Stored, cursors_in

ABOUT = About("chat", "p1", ("p1", "p2"), "frontier", traced=True)
KEEP_NOTHING = Retention()
NO_LIMIT = 2**53


def stored(seq: int, text: bytes = b"text") -> Stored:
    return Stored(Batch(MessageId("p1", seq), (text,)))


def opened(folder: Path, about: About = ABOUT) -> tuple[DurableLog, Recovered | None]:
    return open_log(folder, about, Frontier, incarnation=17)


def recovered(folder: Path, about: About = ABOUT) -> Recovered | None:
    log, found = opened(folder, about)
    log.close()
    return found


def records_in(folder: Path) -> tuple[Any, ...] | None:
    found = recovered(folder)
    return None if found is None else tuple(found.records)


def rotate(
    log: DurableLog, forgotten: int, retention: Retention = KEEP_NOTHING, most: int = NO_LIMIT
) -> None:
    """Go on in a new segment, without those whose messages of p1 are forgotten."""
    log.begin_segment((), 0, log.needless({"p1": forgotten}, retention, most))
    log.throw_away()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DurableLog]:
    log, found = opened(tmp_path)
    assert found is None
    log.begin_segment((), index=0)
    yield log
    log.close()


def test_what_was_committed_is_there_again(log: DurableLog, tmp_path: Path) -> None:
    log.commit((stored(1), Pinned("p2", 5)), b"block", {"p1": (1, 1)}, messages=1)
    log.commit((Delivered((1, 0)),), delivered={"p1": 1})
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    assert (found.identity, found.index, found.delivered) == (Identity(17), 0, {"p1": 1})
    for _ in range(2):
        assert tuple(found.records) == (stored(1), Pinned("p2", 5), Delivered((1, 0)))
    assert list(found.records.blocks(since=0)) == [b"block"]


def test_a_log_that_was_only_begun_is_still_somebody(log: DurableLog, tmp_path: Path) -> None:
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    assert (found.identity, found.index, found.delivered) == (Identity(17), 0, {})
    assert tuple(found.records) == ()


def test_a_process_comes_back_from_a_log_that_is_longer_than_its_memory(
    log: DurableLog, tmp_path: Path
) -> None:
    """Nothing of it was processed: the program has yet to be handed all of it, from the disk."""
    for seq in range(1, 101):
        done = (max(0, seq - 5), 0)
        batch = Batch(MessageId("p1", seq), (b"text",), causes=Counts(all=done))
        log.commit((Stored(batch), Delivered(done)), b"", {"p1": (seq, seq)}, messages=1)
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    process = Frontier("p1", ("p1", "p2"), memory=10, until_processed=True)
    in_memory: list[int] = []

    class Watched:
        def __iter__(self) -> Iterator[Any]:
            for record in found.records:
                yield record
                in_memory.append(max(len(process.log.texts["p1"]), len(process.log.causes["p1"])))

    own = process.log
    own.restore(Watched(), cursors_in(Watched(), process.members))
    assert max(in_memory) <= 10
    assert (own.held["p1"], own.delivered["p1"], own.processed["p1"]) == (100, 95, 0)
    assert own.first_in_memory("p1") <= 96, "what has yet to be delivered"


def test_of_the_trace_only_segments_are_read_that_go_further(
    log: DurableLog, tmp_path: Path
) -> None:
    for end in (10, 20, 30):
        log.commit((), b"up to %d" % end)
        log.begin_segment((), index=end)
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    ends = {0: [10, 20, 30], 9: [10, 20, 30], 10: [20, 30], 29: [30], 30: [], 31: []}
    for since, further in ends.items():
        assert list(found.records.blocks(since)) == [b"up to %d" % end for end in further]


def test_every_life_has_the_same_identity_and_a_number_of_its_own(
    log: DurableLog, tmp_path: Path
) -> None:
    for life in (1, 2):
        log.commit((stored(life),))
        log.close()
        log, found = open_log(tmp_path, ABOUT, Frontier, incarnation=99)
        assert found is not None
        assert tuple(found.records) == tuple(stored(seq) for seq in range(1, life + 1))
        assert log.identity == Identity(17, life)
        log.begin_segment((), index=10 * life)
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    assert (found.index, found.identity.life) == (20, 2)


def test_a_life_goes_on_in_the_segment_of_the_one_before(log: DurableLog, tmp_path: Path) -> None:
    log.commit((stored(1),), b"block 1", {"p1": (1, 1)}, messages=1, delivered={"p1": 1})
    log.close()
    log, found = opened(tmp_path)
    assert found is not None
    log.begin_life(index=7)
    log.commit((stored(2),), b"block 2", {"p1": (2, 2)}, messages=1)
    assert tuple(found.records) == (stored(1),), "what this life adds was not left by the others"
    assert log.recall("p1", 1, 2) == (stored(1), stored(2))
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    assert (found.identity, found.index, found.delivered) == (Identity(17, 1), 7, {"p1": 1})
    assert tuple(found.records) == (stored(1), stored(2))
    assert list(found.records.blocks(since=0)) == [b"block 1", b"block 2"]
    assert [path.name for path in tmp_path.glob("*.log")] == ["00000001.log"]


def test_a_hundred_restarts_make_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda file: None)
    for life in range(100):
        log, _ = opened(tmp_path)
        assert log.identity == Identity(17, life)
        log.begin_life(index=life)
        log.close()
    (file,) = tmp_path.glob("*.log")
    assert file.stat().st_size < 100 * 200


def test_a_start_that_fails_leaves_the_log_as_it_was(log: DurableLog, tmp_path: Path) -> None:
    log.commit((stored(1),))
    log.close()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
    for _ in range(3):
        log, _ = opened(tmp_path)
        assert log.identity == Identity(17, 1)
        log.close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.log")} == before


@pytest.fixture(scope="module")
def three_commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """A segment, and how long it was after each of its entries."""
    folder = tmp_path_factory.mktemp("log")
    log, _ = opened(folder)
    log.begin_segment((), index=0)
    sizes = [log.size]
    for seq in (1, 2, 3):
        log.commit(
            (stored(seq, os.urandom(20)),), b"block %d" % seq, {"p1": (seq, seq)}, messages=1
        )
        sizes.append(log.size)
    log.close()
    data = (folder / "00000001.log").read_bytes()
    assert len(data) == sizes[-1]
    return data, sizes


def test_cut_off_at_any_byte_it_holds_every_whole_commit_and_goes_on(
    three_commits: tuple[bytes, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sync in ("fsync", "fdatasync"):  # the disk is not what is tried here
        monkeypatch.setattr(os, sync, lambda file: None)
    data, sizes = three_commits
    file = tmp_path / "00000001.log"
    for end in range(len(data) + 1):
        file.write_bytes(data[:end])
        whole = sum(size <= end for size in sizes)
        log, found = opened(tmp_path)
        if whole == 0:
            assert found is None
            assert not file.exists()
        else:
            assert found is not None
            assert [record.batch.id.seq for record in found.records] == [1, 2, 3][: whole - 1]
            assert file.stat().st_size == sizes[whole - 1]
        log.begin_segment((), index=0)
        log.commit((stored(9),))
        log.close()
        again = records_in(tmp_path)
        assert again is not None
        assert len(again) == max(whole, 1)
        for other in tmp_path.glob("*.log"):
            other.unlink()


def test_changed_at_any_byte_it_is_refused(
    three_commits: tuple[bytes, list[int]], tmp_path: Path
) -> None:
    data, _ = three_commits
    file = tmp_path / "00000001.log"
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(DataError) as fault:
            recovered(tmp_path)
        assert str(fault.value).startswith(str(file))
        assert file.read_bytes() == changed


def test_the_last_entry_may_have_holes_since_nobody_relied_on_it(
    log: DurableLog, tmp_path: Path
) -> None:
    log.commit((stored(1),))
    before = log.size
    log.commit((stored(2, os.urandom(4_000)),))
    log.close()
    file = tmp_path / "00000001.log"
    data = file.read_bytes()
    for hole in (range(1024, 1536), range(before, len(data)), range(2048, len(data))):
        torn = bytearray(data)
        for place in hole:
            torn[place] = 0
        file.write_bytes(torn)
        assert records_in(tmp_path) == (stored(1),)
        assert file.stat().st_size == before
    # The file was made longer, and nothing was written.
    file.write_bytes(data + bytes(10_000))
    assert len(records_in(tmp_path) or ()) == 2


def test_a_hole_before_the_last_entry_is_damage(log: DurableLog, tmp_path: Path) -> None:
    for seq in (1, 2, 3):
        log.commit((stored(seq, os.urandom(4_000)),))
    log.close()
    file = tmp_path / "00000001.log"
    torn = bytearray(file.read_bytes())
    torn[1024:1536] = bytes(512)
    file.write_bytes(torn)
    with pytest.raises(DataError, match=r"damaged at byte .*; what was there is lost"):
        recovered(tmp_path)


def test_an_earlier_segment_may_not_even_be_cut_off(log: DurableLog, tmp_path: Path) -> None:
    log.commit((stored(1),))
    log.begin_segment((), index=0)
    log.commit((stored(2),))
    log.close()
    assert records_in(tmp_path) == (stored(1), stored(2))
    first = tmp_path / "00000001.log"
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"00000001\.log: damaged"):
        recovered(tmp_path)


def test_an_earlier_segment_without_entries_is_refused_and_stays(
    log: DurableLog, tmp_path: Path
) -> None:
    commit_three_segments(log)
    log.close()
    middle = sorted(tmp_path.glob("*.log"))[1]
    middle.write_bytes(FIRST_LINE)
    with pytest.raises(DataError, match=f"{middle.name}: cut off; what was there is lost"):
        opened(tmp_path)
    assert middle.read_bytes() == FIRST_LINE


def test_a_segment_missing_in_the_middle_is_noticed(log: DurableLog, tmp_path: Path) -> None:
    for seq in (1, 2):
        log.commit((stored(seq),))
        log.begin_segment((), index=0)
    log.close()
    (tmp_path / "00000002.log").unlink()
    missing = r"00000003\.log: segments before this one are missing, from 00000001\.log on"
    for _ in range(2):  # and nothing is changed by looking
        with pytest.raises(DataError, match=missing):
            recovered(tmp_path)
    assert (tmp_path / "00000001.log").exists()


def test_a_segment_of_somebody_else_is_refused(log: DurableLog, tmp_path: Path) -> None:
    log.begin_segment((), index=0)
    log.close()
    other, _ = open_log(tmp_path / "other", ABOUT, Frontier, incarnation=18)
    other._number = 1
    other.begin_segment((), index=0)
    other.close()
    (tmp_path / "other" / "00000001.log").rename(tmp_path / "00000002.log")
    with pytest.raises(DataError, match="of somebody else who went by the same name"):
        recovered(tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"group": "talk"},
            'the log has name = "chat", the group file "talk"; set it back, or begin a new',
        ),
        ({"member": "p2"}, "this is the log of p1, and not of p2"),
        (
            {"members": ("p1",)},
            "the log has members p1, p2, the group file p1; there stand those",
        ),
        ({"protocol": "other"}, 'the log has protocol = "frontier", the group file "other"; set'),
        (
            {"digest": "blake2b-64"},
            'the log has trace.digest = "xxh64-42", the group file "blake2b-64"; set it back',
        ),
    ],
)
def test_the_log_of_another_group_is_refused(
    log: DurableLog, tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    log.close()
    with pytest.raises(DataError, match=complaint):
        recovered(tmp_path, msgspec.structs.replace(ABOUT, **change))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"tidings log 3\n", "log format 3, this tidings reads 1 and 2"),
        (b"tidings log 10\n", "log format 10, this tidings reads 1 and 2"),
        (b"tidings log 0\n", "log format 0, this tidings reads 1 and 2"),
        (b"SQLite format 3", "not a log of tidings"),
    ],
)
def test_another_format_is_refused(
    log: DurableLog, tmp_path: Path, line: bytes, complaint: str
) -> None:
    log.close()
    file = tmp_path / "00000001.log"
    file.write_bytes(line + file.read_bytes()[len(b"tidings log 2\n") :])
    with pytest.raises(DataError, match=complaint):
        recovered(tmp_path)


def test_one_log_has_one_writer(log: DurableLog, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match=f"lock: in use by process {os.getpid()}"):
        opened(tmp_path)
    log.close()
    assert recovered(tmp_path) is not None


def test_a_disk_that_cannot_lock_is_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(EnvironmentMissing, match=r"lock: No locks available; .*mend the disk"):
        opened(tmp_path)


def test_what_cannot_be_read_is_not_called_harmless(log: DurableLog, tmp_path: Path) -> None:
    log.close()
    (tmp_path / "00000002.log").mkdir()
    with pytest.raises(EnvironmentMissing, match="Is a directory; mend the disk") as refused:
        opened(tmp_path)
    assert "nothing" not in str(refused.value)


def test_other_files_in_the_folder_are_left_alone(log: DurableLog, tmp_path: Path) -> None:
    log.commit((stored(1),))
    log.close()
    strange = [tmp_path / name for name in ("00000001 copy.log", "1.log", "notes.log")]
    for path in strange:
        path.write_bytes(b"not a log")
    assert records_in(tmp_path) == (stored(1),)
    assert all(path.read_bytes() == b"not a log" for path in strange)


def test_a_full_disk_is_reported_and_what_was_committed_stays(
    log: DurableLog, tmp_path: Path
) -> None:
    log.commit((stored(1),))
    assert log._file is not None
    log._file.close()
    log._file.number = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(EnvironmentMissing, match=r"00000001\.log: No space left on device"):
        log.commit((stored(2),))
    log.close()
    assert records_in(tmp_path) == (stored(1),)


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def put_a_copy_in_its_place(folder: Path) -> None:
    move(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def put_a_file_in_its_place(folder: Path) -> None:
    move(folder)
    folder.write_text("")


def delete_the_segment(folder: Path) -> None:
    (folder / "00000001.log").unlink()


def replace_the_segment(folder: Path) -> None:
    data = (folder / "00000001.log").read_bytes()
    delete_the_segment(folder)
    (folder / "00000001.log").write_bytes(data)


def replace_the_lock(folder: Path) -> None:
    (folder / "lock").rename(folder / "old")
    (folder / "lock").write_text("1")


@pytest.mark.parametrize(
    "deed",
    [
        delete,
        move,
        put_a_copy_in_its_place,
        put_a_file_in_its_place,
        delete_the_segment,
        replace_the_segment,
        replace_the_lock,
    ],
)
def test_a_folder_that_was_deleted_or_replaced_is_noticed_at_the_next_commit(
    tmp_path: Path, deed: Callable[[Path], None]
) -> None:
    folder = tmp_path / "p1"
    log, _ = opened(folder)
    log.begin_segment((), index=0)
    log.commit((stored(1),))
    deed(folder)
    missing = r"p1/(lock|00000001\.log): deleted or replaced while it was in use; put back what was"
    with pytest.raises(EnvironmentMissing, match=missing):
        log.commit((stored(2),))
    log.close()


MISSING = r"00000001\.log: deleted or replaced while it was in use; put back what was there"


def _with_an_older_segment(log: DurableLog, folder: Path) -> Path:
    """It is needed, and lies in a folder that has not changed for long."""
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1)
    rotate(log, forgotten=0)
    os.utime(folder, (0, 0))
    log.commit((stored(2),), b"", {"p1": (2, 2)}, messages=1)
    return folder / "00000001.log"


def test_an_older_segment_that_was_deleted_is_noticed_at_the_next_commit(
    log: DurableLog, tmp_path: Path
) -> None:
    _with_an_older_segment(log, tmp_path).unlink()
    with pytest.raises(EnvironmentMissing, match=MISSING):
        log.commit((stored(3),))


def test_an_older_segment_that_was_deleted_is_noticed_when_it_is_read_back(
    log: DurableLog, tmp_path: Path
) -> None:
    _with_an_older_segment(log, tmp_path).unlink()
    assert log.recall("p1", 2, 2) == (stored(2),)
    with pytest.raises(EnvironmentMissing, match=MISSING):
        log.recall("p1", 1, 1)


def test_what_is_not_needed_may_be_deleted_by_somebody_else(
    log: DurableLog, tmp_path: Path
) -> None:
    older = _with_an_older_segment(log, tmp_path)
    log.begin_segment((), 0, log.needless({"p1": 1}, KEEP_NOTHING, NO_LIMIT))
    older.unlink()
    log.throw_away()
    log.commit((stored(3),))


def test_a_program_may_go_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log, _ = opened(Path("p1"))
    log.begin_segment((), index=0)
    monkeypatch.chdir("/")
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1)
    log.begin_segment((), index=0)
    assert log.recall("p1", 1, 1) == (stored(1),)
    log.close()
    assert records_in(tmp_path / "p1") == (stored(1),)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TidingsError, match="file/p1/lock: Not a directory"):
        opened(tmp_path / "file" / "p1")


def test_a_lock_that_cannot_be_signed_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(EnvironmentMissing, match="lock: No space left on device"):
            opened(tmp_path)
    assert recovered(tmp_path) is None


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced and what was deleted, in order; paths begin at the test's folder."""
    answer: list[str] = []

    def telling(name: str) -> None:
        real = getattr(os, name)

        def call(what: Any) -> None:
            path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else what
            answer.append(f"{name} {path.relative_to(tmp_path)}")
            real(what)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "fdatasync", "unlink"):
        telling(name)
    return answer


def test_a_new_log_is_on_disk_with_its_folders(tmp_path: Path, calls: list[str]) -> None:
    log, _ = opened(tmp_path / "data" / "p1")
    assert calls == ["fsync .", "fsync data"]
    log.begin_segment((), index=0)
    assert calls[2:] == ["fdatasync data/p1/00000001.log", "fsync data/p1"]
    log.close()


def test_a_disk_may_take_what_it_is_given_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    log, _ = opened(tmp_path)
    log.begin_segment((), index=0)
    log.commit((stored(1),))
    log.close()
    assert records_in(tmp_path) == (stored(1),)


def test_every_commit_is_synced(log: DurableLog, calls: list[str]) -> None:
    calls.clear()
    for seq in (1, 2):
        log.commit((stored(seq),))
        assert calls == ["fdatasync 00000001.log"] * seq


def test_the_last_entry_is_written_once_more_and_synced_before_it_is_relied_on(
    log: DurableLog, tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a sync that failed, the kernel may have it in memory and never write it."""
    log.commit((stored(1),))
    log.begin_segment((), index=0)
    before = log.segment_size
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda file: None)
        log.commit((stored(2),))
    log.close()
    last = (tmp_path / "00000002.log").read_bytes()[before:]
    rewritten: list[tuple[int, bytes]] = []
    write = os.write

    def spied(file: int, data: bytes) -> int:
        rewritten.append((os.lseek(file, 0, os.SEEK_CUR), data))
        return write(file, data)

    calls.clear()
    monkeypatch.setattr(os, "write", spied)
    assert records_in(tmp_path) == (stored(1), stored(2))
    assert rewritten == [(before, last)]
    assert calls == ["fsync 00000002.log", "fsync ."]


def test_a_log_that_was_only_begun_is_written_once_more_from_its_first_line_on(
    log: DurableLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.close()
    data = (tmp_path / "00000001.log").read_bytes()
    rewritten: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: rewritten.append(data) or write(file, data))
    assert records_in(tmp_path) == ()
    assert rewritten == [data]


def test_a_segment_is_on_disk_with_its_name_before_an_older_one_is_deleted(
    log: DurableLog, calls: list[str]
) -> None:
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1)
    calls.clear()
    rotate(log, forgotten=1)
    assert calls == ["fdatasync 00000002.log", "fsync .", "unlink 00000001.log"]


def test_segments_are_forgotten_whole_and_in_order(log: DurableLog, tmp_path: Path) -> None:
    for seq in (2, 4, 6):
        records = (stored(seq - 1), stored(seq))
        log.commit(records, b"", {"p1": (seq - 1, seq)}, messages=2, delivered={"p1": seq})
        log.begin_segment((Delivered((seq, 0)),), index=seq)
    rotate(log, forgotten=3)
    assert min(path.name for path in tmp_path.glob("*.log")) == "00000002.log"
    size = log.size
    rotate(log, forgotten=5)
    assert log.size < size
    assert log.size == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    assert log.first_kept("p1") == 5
    assert log.first_kept("p2") is None
    log.close()
    found = recovered(tmp_path)
    assert found is not None
    assert tuple(found.records) == (Delivered((4, 0)), stored(5), stored(6), Delivered((6, 0)))


def test_what_was_delivered_is_known_in_every_life_although_its_segment_is_gone(
    log: DurableLog, tmp_path: Path
) -> None:
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1, delivered={"p1": 1})
    log.close()
    for _ in range(3):
        log, found = opened(tmp_path)
        assert found is not None
        assert found.delivered == {"p1": 1}
        rotate(log, forgotten=1)
        log.close()
    assert len(list(tmp_path.glob("*.log"))) == 1


def test_a_segment_that_is_missing_although_it_was_needed_is_noticed(
    log: DurableLog, tmp_path: Path
) -> None:
    for seq in (1, 2, 3):
        log.commit((stored(seq),), b"", {"p1": (seq, seq)}, messages=1)
        rotate(log, forgotten=1)
    log.close()
    assert records_in(tmp_path) == (stored(2), stored(3)), "the first was not needed"
    (tmp_path / "00000002.log").unlink()
    missing = r"00000003\.log: segments before this one are missing, from 00000002\.log on"
    with pytest.raises(DataError, match=missing):
        recovered(tmp_path)
    (tmp_path / "00000003.log").unlink()
    with pytest.raises(DataError, match=r"00000004\.log: segments before this one are missing"):
        recovered(tmp_path)


def test_killed_before_old_segments_are_deleted_it_still_has_them(
    log: DurableLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path: None)
        rotate(log, forgotten=1)
    log.close()
    assert records_in(tmp_path) == (stored(1),)


def test_after_a_power_failure_any_of_the_old_segments_may_be_left(
    log: DurableLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says in which order the disk forgets names."""
    for seq in (1, 2):
        log.commit((stored(seq),), b"", {"p1": (seq, seq)}, messages=1)
        log.begin_segment((), 0)
    log.commit((stored(3),), b"", {"p1": (3, 3)}, messages=1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        rotate(log, forgotten=2)
    log.close()
    (tmp_path / "00000002.log").unlink()
    assert records_in(tmp_path) == (stored(3),)
    assert min(path.name for path in tmp_path.glob("*.log")) == "00000003.log"
    assert records_in(tmp_path) == (stored(3),)


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(), 1),
        (Retention(messages=1), 2),
        (Retention(messages=2), 2),
        (Retention(messages=3), 3),
        (Retention(messages=100), 4),
        (Retention(bytes=1), 2),
        (Retention(bytes=10**9), 4),
        (Retention(age_s=1000), 4),
    ],
)
def test_retention_keeps_what_any_of_its_settings_asks_for(
    log: DurableLog, tmp_path: Path, retention: Retention, kept: int
) -> None:
    commit_three_segments(log)
    rotate(log, forgotten=6, retention=retention)
    assert len(list(tmp_path.glob("*.log"))) == kept


def test_retention_asks_in_vain_when_there_is_no_room(log: DurableLog, tmp_path: Path) -> None:
    commit_three_segments(log)
    most = log.size - 1
    rotate(log, forgotten=6, retention=Retention(messages=100), most=most)
    assert len(list(tmp_path.glob("*.log"))) == 3
    rotate(log, forgotten=2, retention=Retention(messages=100), most=1)
    assert len(list(tmp_path.glob("*.log"))) == 4, "but nothing is lost that somebody needs"


def commit_three_segments(log: DurableLog) -> None:
    for seq in (2, 4, 6):
        if seq > 2:
            log.begin_segment((), index=0)
        log.commit((stored(seq),), b"", {"p1": (seq - 1, seq)}, messages=2)


def test_a_log_is_read_an_entry_at_a_time(
    log: DurableLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda file: None)
    for seq in range(1, 101):
        log.commit((stored(seq, os.urandom(100_000)),), b"", {"p1": (seq, seq)}, messages=1)
    log.close()
    tracemalloc.start()
    try:
        found = recovered(tmp_path)
        assert found is not None
        assert sum(1 for _ in found.records) == 100
        assert list(found.records.blocks(since=0)) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000, "of ten megabytes"


def test_what_was_persisted_is_read_back_page_by_page(log: DurableLog, tmp_path: Path) -> None:
    texts = {seq: os.urandom(100_000) for seq in range(1, 13)}
    for seq, text in texts.items():
        log.commit((stored(seq, text), Delivered((seq, 0))), b"", {"p1": (seq, seq)}, messages=1)
        if seq == 6:
            log.begin_segment((), index=0)
    for again in range(2):
        for first in (1, 5, 12):
            read = [one.batch for one in log.recall("p1", first, 12) if isinstance(one, Stored)]
            found = {batch.id.seq: batch.texts[0] for batch in read}
            expected = range(first, min(first + 8, 13))
            assert {seq: found[seq] for seq in expected} == {seq: texts[seq] for seq in expected}
            assert sum(map(len, found.values())) < 2_000_000
        assert log.recall("p2", 1, 100) == ()
        if not again:
            log.close()
            log, _ = opened(tmp_path)
    log.close()


def test_the_first_message_is_read_back_although_others_overtook_it(log: DurableLog) -> None:
    """Two megabytes that came before the first message stand before it in the log, too."""
    for seq in (*range(2, 22), 1):
        log.commit((stored(seq, os.urandom(100_000)),), b"", {"p1": (seq, seq)}, messages=1)
    read = [one.batch.id.seq for one in log.recall("p1", 1, 21) if isinstance(one, Stored)]
    assert {1, 2, 3, 4, 5, 6} <= set(read)
    assert len(read) < 21, "not all at once"


def test_what_is_read_back_and_was_damaged_meanwhile_is_noticed(
    log: DurableLog, tmp_path: Path
) -> None:
    log.commit((stored(1),), b"", {"p1": (1, 1)}, messages=1)
    file = tmp_path / "00000001.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match="damaged at byte"):
        log.recall("p1", 1, 1)
