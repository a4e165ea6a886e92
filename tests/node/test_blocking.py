"""join_blocking: a group without asyncio, from several threads."""

import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tidings
from real_groups import DEADLINE_S, MEMORY, group_file
from tidings.node.config import Config

Groups = dict[str, tidings.BlockingGroup]


@contextmanager
def blocking(config: Config, *names: str) -> Iterator[Groups]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(tidings.join_blocking(name, config))
            for name in names or config.members
        }


def until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_two_members_talk_without_asyncio(tmp_path: Path) -> None:
    with blocking(group_file(tmp_path, 2, "trace.on = false")) as groups:
        p1, p2 = groups["p1"], groups["p2"]
        p1.ready(timeout=DEADLINE_S)
        assert str(p1.broadcast(b"hello").delivered(timeout=DEADLINE_S)) == "p1#1"
        assert str(p1.broadcast_many([b"one", b"two"]).stable(timeout=DEADLINE_S)) == "p1#3"
        assert [next(p2).text for _ in range(3)] == [b"hello", b"one", b"two"]
        batches, read = p1.batches(), list[bytes]()
        while len(read) < 3:
            read += next(batches).texts
        assert [str(one.id) for one in p2.history("p1#2")] == ["p1#2", "p1#3"]
        assert str(p1.receipt(1).stable()) == "p1#1"
        assert p1.status().own == 3
        assert p1.view.members == ("p1", "p2")
        assert p1.why() == ""
        with pytest.raises(tidings.UsageError, match="is not delivered at p2 yet"):
            p2.processed(tidings.Message("p1", 9, b""))


def test_it_has_the_calls_of_a_group() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        """Without how long to wait: tasks are cancelled for that."""
        return {
            name: [
                one
                for one in inspect.signature(call).parameters
                if one not in ("timeout", "progress")
            ]
            for name, call in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert calls(tidings.BlockingGroup) == calls(tidings.Group)
    assert calls(tidings.BlockingReceipt) == calls(tidings.Receipt)


def test_what_takes_too_long_is_a_timeout(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, "limits.window = 1", "links.close_ms = 50")
    with blocking(config, "p1") as groups:
        receipt = groups["p1"].broadcast(b"is anybody there?")
        late = "after 0.01 s, .* is not delivered yet: .*; p1 has no link to p2, p3"
        with pytest.raises(TimeoutError, match=late):
            receipt.delivered(timeout=0.01)
        with pytest.raises(TimeoutError, match=r"after 0\.01 s, not broadcast yet: .*p2, p3"):
            groups["p1"].broadcast(b"the window is full", timeout=0.01)
        with pytest.raises(tidings.NotReady, match="no link to p2, p3"):
            groups["p1"].ready(timeout=0.01)
        assert receipt.id is None


def test_threads_broadcast_at_the_same_time(tmp_path: Path) -> None:
    with blocking(group_file(tmp_path, 2, *MEMORY)) as groups:
        p1, p2 = groups["p1"], groups["p2"]

        def work(number: int) -> None:
            for _ in range(20):
                p1.broadcast(b"%d" % number).delivered()

        threads = [in_thread(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
        texts = sorted(next(p2).text for _ in range(80))
        for thread in threads:
            thread.join(DEADLINE_S)
        assert texts == sorted([b"%d" % number for number in range(4)] * 20)


def test_one_thread_reads_at_a_time_and_closing_ends_its_loop(tmp_path: Path) -> None:
    read: list[tidings.Message] = []
    config = group_file(tmp_path, 2, *MEMORY, "links.close_ms = 50")
    with blocking(config, "p1") as groups:
        p1 = groups["p1"]
        reader = in_thread(lambda: read.extend(p1))
        waiting: list[BaseException] = []

        def wait() -> None:
            try:
                p1.broadcast(b"nobody is there").delivered()
            except tidings.Closed as closed:
                waiting.append(closed)

        waiter = in_thread(wait)
        until(lambda: p1._group._reading.is_awaited and p1.status().waiting == 1)
        with pytest.raises(tidings.UsageError, match="another thread reads"):
            next(p1)
        p1.close()
        reader.join(DEADLINE_S)
        waiter.join(DEADLINE_S)
        assert (reader.is_alive(), waiter.is_alive(), read) == (False, False, [])
        assert len(waiting) == 1
        assert list(p1) == []
        with pytest.raises(tidings.Closed, match="p1 has left the group"):
            p1.broadcast(b"too late")
        p1.close()
    assert not [one for one in threading.enumerate() if one.name == "p1-loop"]


def test_what_stops_the_member_reaches_its_callers(tmp_path: Path) -> None:
    group = tidings.join_blocking("p1", group_file(tmp_path, 1, *MEMORY))
    engine = group._group._member.joined()
    group._do(lambda: engine.fail(tidings.Halted("no more")))
    with pytest.raises(tidings.Halted, match="no more"):
        next(group)
    with pytest.raises(tidings.Halted, match="no more"):
        group.broadcast(b"text")
    with pytest.raises(tidings.Halted, match="no more"):
        group.close()
    group.close()


def test_who_cannot_join_leaves_no_thread_behind(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *MEMORY)
    with blocking(config), pytest.raises(tidings.EnvironmentMissing, match="cannot listen"):
        tidings.join_blocking("p1", config)
    assert not [one for one in threading.enumerate() if one.name == "p1-loop"]


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """As Python is by itself, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_leaves_in_good_order_and_loses_no_message(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *MEMORY)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(group: tidings.BlockingGroup) -> None:
        until(lambda: group._group._reading.is_awaited)
        signal.pthread_kill(main, signal.SIGINT)

    with blocking(config) as groups:
        thread = in_thread(lambda: interrupt(groups["p1"]))
        with pytest.raises(KeyboardInterrupt):
            next(groups["p1"])
        thread.join()
        groups["p1"].broadcast(b"later").delivered()
        assert next(groups["p1"]).text == b"later"
    group = tidings.join_blocking("p1", config)
    thread = in_thread(lambda: interrupt(group))

    def program() -> None:
        with group:
            for _ in group:
                pass

    with pytest.raises(KeyboardInterrupt):
        program()
    thread.join()
    assert group._loop.is_over


def test_a_reader_may_wait_for_its_own_broadcast(tmp_path: Path) -> None:
    """Nothing is read from the network while too much is unread, unless the reader waits."""
    config = group_file(tmp_path, 3, *MEMORY, "limits.unread_messages = 1", "links.close_ms = 50")
    with (
        tidings.join_blocking("p1", config) as p1,
        tidings.join_blocking("p2", config, listen=False) as p2,
        tidings.join_blocking("p3", config, listen=False),
    ):
        p1.ready()
        p2.broadcast_many([b"%d" % number for number in range(50)])
        assert next(p1).text == b"0"
        until(lambda: p1.status().unread >= 1)
        p1.broadcast(b"answer").delivered(timeout=DEADLINE_S)
