"""Members that only write: segments as nodes leave them, with faults where a test wants them."""

import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from tidings.spec import Guarantee
from tidings.trace import SCHEMA_VERSION, Manifest, digest
from tidings.trace.segments import Block, Mark, Messages, Owner, beginning, encoded, framed

NAMES = ("p1", "p2", "p3")
TEXT = bytes.fromhex(digest(b"text"))
FORGED = bytes.fromhex(digest(b"forged"))


class Writer:
    """A member that writes its segment, block by block."""

    def __init__(self, folder: Path, name: str, run: str = "live") -> None:
        self.path = folder / f"{name}-1.segment.open"
        self.owner = Owner(run, name)
        self.index = 0
        self.data = beginning(self.owner)
        self.path.write_bytes(self.data)

    def write(self, *items: Any, torn: int = 0) -> None:
        """A frame; ``torn`` of its last bytes are not there yet."""
        block = Block(self.index, time.time_ns(), 0, items)
        frame = framed(encoded(block), len(self.data))
        there = self.path.stat().st_size
        self.data += frame
        self.index = block.end
        with self.path.open("ab") as file:
            file.write(self.data[there : len(self.data) - torn])

    def turn_over(self) -> None:
        """Close the segment and begin the next one."""
        self.path = self.path.rename(self.path.with_name(self.path.name.removesuffix(".open")))
        number = int(self.path.stem.rpartition("-")[2]) + 1
        self.path = self.path.with_name(f"{self.owner.process}-{number}.segment.open")
        self.data = beginning(self.owner)
        self.path.write_bytes(self.data)


def broadcast(name: str, first: int, count: int = 10, text: bytes = TEXT) -> Messages:
    return Messages("broadcast", name, first, count, text * count, 0)


def deliver(origin: str, first: int, count: int = 10, text: bytes = TEXT) -> Messages:
    return Messages("deliver", origin, first, count, text * count)


def new_trace(place: Path) -> Path:
    """A folder with a manifest and no rows yet."""
    folder = place / "trace"
    folder.mkdir()
    write_manifest(folder)
    return folder


def write_manifest(folder: Path, clock: Any = None, lone: tuple[str, ...] = ()) -> None:
    """A group of three; each of the lone ones is in a list with p3 alone."""
    names, views = (*NAMES, *lone), (NAMES, *(("p3", one) for one in lone))
    manifest = Manifest(schema=SCHEMA_VERSION, run="live", names=names, views=views, clock=clock)
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest) + b"\n")


class Fault(NamedTuple):
    guarantee: Guarantee
    process: str
    message: str
    decidable_s: float
    """When the last row was written that shows it."""


class FaultyGroup:
    """p1 broadcasts ten at a time, everybody delivers them; now and then something goes wrong.

    What p3 loses for good is of somebody whom only p3 listens to: whatever p1 broadcasts after a
    message that p3 lacks would be out of order, too.
    """

    KINDS = ("repeated", "repeated late", "forged", "renamed", "early", "overtaken", "lost")

    def __init__(self, folder: Path, seed: int, losses: int = 20) -> None:
        folder.mkdir(parents=True)
        lone = tuple(f"q{number}" for number in range(1, losses + 1))
        write_manifest(folder, "wall", lone)
        self.p1, self.p2, self.p3 = (Writer(folder, name) for name in NAMES)
        self.lone = [Writer(folder, name) for name in lone]
        self.rng = Random(seed)
        self.next = 1
        self.answers = 0
        self.faults: list[Fault] = []
        self._unheard = iter(enumerate(self.lone, start=1))

    def turn(self, kind: str | None = None) -> None:
        """One round; with a fault of this kind in it."""
        first, self.next = self.next, self.next + 10
        self.p1.write(broadcast("p1", first), deliver("p1", first))
        self.p2.write(deliver("p1", first))
        heard = [deliver("p1", first)]
        place = first + self.rng.randrange(9)
        match kind:
            case "repeated":
                heard.append(deliver("p1", place, 1))
                self._expect(Guarantee.NO_DUPLICATION, "p3", f"p1#{place}")
            case "repeated late":
                long_ago = 1 + len(self.faults)
                heard.append(deliver("p1", long_ago, 1))
                self._expect(Guarantee.NO_DUPLICATION, "p3", f"p1#{long_ago}")
            case "forged":
                heard = self._with(first, place, deliver("p1", place, 1, FORGED))
                self._expect(Guarantee.NO_CREATION, "p3", f"p1#{place}")
            case "renamed":
                self.p1.write(broadcast("p1", place, 1, FORGED))
                self._expect(Guarantee.NO_CREATION, "p1", f"p1#{place}")
            case "early":
                swapped = (deliver("p1", place + 1, 1), deliver("p1", place, 1))
                heard = self._with(first, place, *swapped)
                self._expect(Guarantee.CAUSAL_ORDER, "p3", f"p1#{place + 1}")
            case "overtaken":
                heard.insert(0, self.answer())
                self._expect(Guarantee.CAUSAL_ORDER, "p3", f"p2#{self.answers}")
            case "lost":
                heard.append(self._lose())
        self.p3.write(*heard)
        if len(self.p1.data) > 1 << 18:
            self.p1.turn_over()

    def settle(self) -> None:
        for one in (self.p1, self.p2, self.p3, *self.lone):
            one.write(Mark("settle"))

    def _with(self, first: int, place: int, *instead: Messages) -> list[Messages]:
        """All ten, but for those from this place on."""
        after = place + len(instead)
        before = [deliver("p1", first, place - first)] if place > first else []
        rest = first + 10 - after
        return [*before, *instead, *([deliver("p1", after, rest)] if rest else [])]

    def answer(self) -> Messages:
        """p2 answers to what it has just delivered."""
        self.answers += 1
        answer = deliver("p2", self.answers, 1)
        self.p2.write(broadcast("p2", self.answers, 1), answer)
        self.p1.write(answer)
        return answer

    def _lose(self) -> Messages:
        """Somebody broadcasts two messages, and p3 delivers only the second."""
        number, writer = next(self._unheard)
        name = writer.owner.process
        two = msgspec.structs.replace(broadcast(name, 1, 2), view=number)
        writer.write(two, deliver(name, 1, 2))
        self._expect(Guarantee.CAUSAL_ORDER, "p3", f"{name}#2")
        return deliver(name, 2, 1)

    def _expect(self, guarantee: Guarantee, process: str, message: str) -> None:
        self.faults.append(Fault(guarantee, process, message, time.time()))
