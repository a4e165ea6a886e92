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


def write_manifest(folder: Path, clock: Any = None) -> None:
    manifest = Manifest(schema=SCHEMA_VERSION, run="live", names=NAMES, views=(NAMES,), clock=clock)
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest) + b"\n")


class Fault(NamedTuple):
    guarantee: Guarantee
    process: str
    seq: int
    decidable_s: float
    """When the last row was written that shows it."""


class FaultyGroup:
    """p1 broadcasts ten at a time, everybody delivers them; now and then something goes wrong."""

    KINDS = ("repeated", "forged", "early", "renamed")

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True)
        write_manifest(folder, "wall")
        self.p1, self.p2, self.p3 = (Writer(folder, name) for name in NAMES)
        self.rng = Random(seed)
        self.next = 1
        self.faults: list[Fault] = []

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
                self._expect(Guarantee.NO_DUPLICATION, "p3", place)
            case "forged":
                heard = self._with(first, place, deliver("p1", place, 1, FORGED))
                self._expect(Guarantee.NO_CREATION, "p3", place)
            case "early":
                swapped = (deliver("p1", place + 1, 1), deliver("p1", place, 1))
                heard = self._with(first, place, *swapped)
                self._expect(Guarantee.CAUSAL_ORDER, "p3", place + 1)
            case "renamed":
                self.p1.write(broadcast("p1", place, 1, FORGED))
                self._expect(Guarantee.NO_CREATION, "p1", place)
        self.p3.write(*heard)
        if len(self.p1.data) > 1 << 18:
            self.p1.turn_over()

    def settle(self) -> None:
        for one in (self.p1, self.p2, self.p3):
            one.write(Mark("settle"))

    def _with(self, first: int, place: int, *instead: Messages) -> list[Messages]:
        """All ten, but for those from this place on."""
        after = place + len(instead)
        before = [deliver("p1", first, place - first)] if place > first else []
        rest = first + 10 - after
        return [*before, *instead, *([deliver("p1", after, rest)] if rest else [])]

    def _expect(self, guarantee: Guarantee, process: str, seq: int) -> None:
        self.faults.append(Fault(guarantee, process, seq, time.time()))
