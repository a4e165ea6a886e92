"""What the benchmark of nodes counts and checks, without a group."""

import asyncio
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from load import crew, member
from load.phases import Phase
from load.texts import MOST_BYTES, Deliveries, WrongDeliveryError, text_of
from tidings.core.ranks import percentile

SIZE = 100


def deliveries(size: int = SIZE) -> Deliveries:
    made = Deliveries(members=3)
    made.size = size
    return made


def test_every_text_names_its_origin_and_its_place_and_is_as_long_as_asked() -> None:
    texts = {text_of(place, seq, SIZE) for place in range(15) for seq in range(1, 100)}
    assert len(texts) == 15 * 99
    assert {len(text) for text in texts} == {SIZE}


def test_each_origin_has_an_order_of_its_own() -> None:
    read = deliveries()
    for place, seq in [(0, 1), (2, 1), (0, 2), (1, 1), (2, 2)]:
        read.add(text_of(place, seq, SIZE))
    read.check()
    assert (read.last, read.count) == ([2, 1, 2], 5)


@pytest.mark.parametrize(
    "second",
    [
        text_of(1, 3, SIZE),
        text_of(1, 1, SIZE),
        text_of(1, 2, SIZE).replace(b"..", b".,", 1),
        text_of(1, 2, SIZE - 1),
        text_of(1, 2, SIZE + 1),
    ],
    ids=["lost", "repeated", "altered", "cut", "longer"],
)
def test_a_wrong_delivery_ends_the_run(second: bytes) -> None:
    read = deliveries()
    read.add(text_of(1, 1, SIZE))
    read.check()
    read.add(second)
    with pytest.raises(WrongDeliveryError, match="instead of number 2"):
        read.check()


def test_what_waits_to_be_checked_is_bounded() -> None:
    read = deliveries(size=MOST_BYTES // 2)
    for seq in (1, 2):
        read.add(text_of(1, seq, read.size))
    assert read.last == [0, 0, 0]
    read.add(text_of(1, 3, read.size))
    assert (read.last, read.count, read.texts) == ([0, 3, 0], 3, [])
    assert read.at_ns > 0


def test_times_go_to_the_origins_of_their_texts() -> None:
    read = deliveries()
    read.stamps = [[], [], []]
    for place, seq in [(0, 1), (2, 1), (0, 2)]:
        read.add(text_of(place, seq, SIZE))
    times_ns = list(read.times_ns)
    read.check()
    assert read.stamps == [[times_ns[0], times_ns[2]], [], [times_ns[1]]]


def test_a_phase_is_one_line_of_words() -> None:
    phase = Phase("paced", 1_000, 2.5, per_s=66.7, stamps="/tmp/stamps")
    assert Phase.of(phase.line()) == phase


def test_a_latency_ends_when_the_slowest_member_has_the_text(tmp_path: Path) -> None:
    def keep(name: str, *times_ns: int) -> None:
        (tmp_path / name).write_bytes(array("q", times_ns))

    keep("a.sent", 100, 200)
    keep("a.a", 110, 210)
    keep("b.a", 150, 220)
    keep("b.sent", 300)
    keep("a.b", 307)
    keep("b.b", 301)
    waits_ns = crew.latencies_ns(tmp_path, members=2)
    assert waits_ns == [7, 20, 50]
    assert percentile(50, waits_ns) == 20
    keep("a.b")
    with pytest.raises(ValueError, match="shorter"):
        crew.latencies_ns(tmp_path, members=2)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/disk xfs rw 0 0
ram /ram ramfs rw 0 0
"""


@pytest.mark.parametrize("folder", ["/tmp", "/tmp/a/b", "/ram/x"])
def test_memory_is_no_disk(folder: str) -> None:
    with pytest.raises(crew.NoDiskError, match=rf"{folder} is on (tmpfs|ramfs), .* --disk"):
        crew.check_disk(Path(folder), MOUNTS)


@pytest.mark.parametrize("folder", ["/home/a", "/tmp/disk/a", "/tmpfs"])
def test_a_disk_is_a_disk(folder: str) -> None:
    crew.check_disk(Path(folder), MOUNTS)


class Echo:
    """A system of one: it hands each text back some turns of the loop later."""

    def __init__(self, alter: Callable[[bytes], bytes] = lambda text: text) -> None:
        self.member = member.Member(place=0, members=1)
        self.alter = alter
        self.outstanding = self.most_outstanding = 0

    async def broadcast(self, text: bytes) -> "asyncio.Future[None]":
        self.outstanding += 1
        self.most_outstanding = max(self.outstanding, self.most_outstanding)
        back = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.001, self._hand_back, text, back)
        return back

    def answered(self, receipt: "asyncio.Future[None]") -> "asyncio.Future[None]":
        return receipt

    def _hand_back(self, text: bytes, back: "asyncio.Future[None]") -> None:
        self.outstanding -= 1
        self.member.deliver(self.alter(text))
        back.set_result(None)

    def commits(self) -> int:
        return 0


def talk(echo: Echo, monkeypatch: pytest.MonkeyPatch, phase: Phase, expected: str) -> list[str]:
    """One phase; the crew, played by hand, expects so many deliveries."""
    heard = iter([phase.line(), "go", expected, "check", ""])
    answers: list[str] = []

    async def hear() -> str:
        return next(heard)

    monkeypatch.setattr(member, "hear", hear)
    monkeypatch.setattr(member, "say", answers.append)
    asyncio.run(asyncio.wait_for(echo.member.take_part(echo), 1))
    return answers


@pytest.mark.parametrize("window", [1, 10])
def test_a_window_is_filled_and_never_exceeded(window: int, monkeypatch: Any) -> None:
    echo = Echo()
    phase = Phase("window", SIZE, 60.0, window=window, most=30)
    answers = talk(echo, monkeypatch, phase, "30")
    assert [words.split()[0] for words in answers] == ["ready", "set", "sent", "done", "right"]
    assert answers[2] == "sent 30"
    assert echo.most_outstanding == window


def test_a_member_with_a_wrong_text_does_not_say_that_it_is_right(monkeypatch: Any) -> None:
    echo = Echo(alter=lambda text: text.replace(b"..", b".,", 1))
    with pytest.raises(WrongDeliveryError):
        talk(echo, monkeypatch, Phase("window", SIZE, 60.0, window=5, most=30), "30")


def test_a_member_that_lacks_a_text_is_not_done(monkeypatch: Any) -> None:
    with pytest.raises(TimeoutError):
        talk(Echo(), monkeypatch, Phase("window", SIZE, 60.0, window=5, most=30), "31")


def test_a_paced_member_sends_on_time_and_keeps_when(monkeypatch: Any, tmp_path: Path) -> None:
    phase = Phase("paced", SIZE, 0.1, per_s=200.0, stamps=str(tmp_path))
    answers = talk(Echo(), monkeypatch, phase, "20")
    assert "sent 20" in answers
    waits_ns = crew.latencies_ns(tmp_path, members=1)
    assert len(waits_ns) == 20
    assert waits_ns[0] >= 1_000_000
