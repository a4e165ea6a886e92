"""A member's folder is put back from an older copy: the group notices, or no harm was done.

A run begins with all members. One is stopped, its folder copied; it goes on with some of the
others, is stopped again, and starts from the copy, with some others that need not be the same. So
it may use numbers twice, and forget what it acknowledged. At last all are up. Then either all
have handed over the same, or the member that was rolled back has stopped, and everybody who was
handed one of two texts under one name, while another member has the other one, has said so:
within ten seconds after they were linked.

Its trace may stay, which is then ahead of its log: the member refuses to start. Or it has none.
"""

import asyncio
import logging
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from real_groups import group_file
from tidings.core import MessageId, TidingsError
from tidings.node.config import Config
from tidings.node.group import Group, join

REPORT_S = 10.0
"""How long after the holders are linked they may take to report two histories."""
LINK_S = 60.0
LOOK_AGAIN_S = 0.005
SIGNS = ("used numbers twice", "lost its disk", "older than its trace")

End = Literal["nothing to notice", "refused by its trace", "lost its disk", "two histories"]


class Outcome(NamedTuple):
    end: End
    twice: int
    """How many names stand for two texts."""
    noticed_s: float
    """How long after all were linked the last of those concerned had said so."""


class Member:
    """One member over all its lives, in this process, and all that its program was handed."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.config = config
        self.group: Group | None = None
        self.handed: dict[MessageId, set[bytes]] = defaultdict(set)
        self.end = ""
        """Why it cannot go on, if so."""
        self._life: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.end = ""
        self._life = asyncio.create_task(self._live())
        await until(lambda: self.group is not None or bool(self.end))

    async def _live(self) -> None:
        try:
            async with join(self.name, self.config) as group:
                self.group = group
                async for message in group:
                    self.handed[message.id].add(message.text)
        except TidingsError as fault:
            self.end = str(fault)
        finally:
            self.group = None

    async def stop(self) -> None:
        """At any moment, and without waiting for anything."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life])
            self._life = None

    async def say(self, count: int, words: str) -> None:
        """As much of it as is taken without waiting."""
        for number in range(count):
            with suppress(TidingsError, TimeoutError):
                async with asyncio.timeout(0.05):
                    if self.group is not None:
                        await self.group.broadcast(f"{words} {number}".encode())


async def until(is_so: Callable[[], bool], timeout_s: float = LINK_S) -> bool:
    end_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        await asyncio.sleep(LOOK_AGAIN_S)
    return True


class Lines(logging.Handler):
    """What members say about each other."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def have(self, member: str, about: str) -> bool:
        """Whether the member has reported, or stopped with, what happened to the other."""
        return any(
            line.startswith((f"{member}: rejected", f"{member}: stopped"))
            and any(f"{about} {sign}" in line for sign in SIGNS)
            for line in self.lines
        )


def roll_back(folder: Path, seed: int) -> Outcome:
    """One run; raises AssertionError if a divergence stays silent."""
    lines = Lines()
    logger = logging.getLogger("tidings.node")
    logger.addHandler(lines)
    try:
        return asyncio.run(_Run(folder, seed, lines).run())
    finally:
        logger.removeHandler(lines)


class _Run:
    def __init__(self, folder: Path, seed: int, lines: Lines) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.lines = lines
        self.folder = folder
        config = self._config()
        self.members = {name: Member(name, config) for name in config.members}
        self.data = config.data
        self.victim = self.members[self.dice.choice(config.members)]
        self.others = [one for one in self.members.values() if one is not self.victim]
        if self.dice.random() < 0.8:
            trace = msgspec.structs.replace(config.trace, on=False)
            self.victim.config = msgspec.structs.replace(config, trace=trace)

    def _config(self) -> Config:
        dice = self.dice
        settings = (
            "links.close_ms = 100",
            "links.alive_ms = 100",
            "links.silence_ms = 1000",
            f"limits.segment_bytes = {dice.choice((2_000, 100_000))}",
            f"limits.memory_messages = {dice.choice((1, 10, 1_000))}",
            f"limits.batch_messages = {dice.choice((1, 7, 100))}",
            f"options.early = {dice.choice((1, 5, 1_000))}",
            f"options.marks = {dice.choice((2, 3, 64))}",
            f"options.strict = {dice.choice(('true', *['false'] * 5))}",
        )
        return group_file(self.folder, dice.choice((3, 3, 4, 5)), *settings)

    async def run(self) -> Outcome:
        try:
            await self._with(self.others, "first")
            await self.victim.stop()
            copy, place = self.folder / "copy", self.data / self.victim.name
            shutil.copytree(place, copy)
            one, other = self._two_companies()
            for words in ("then", "and then")[: self.dice.randint(1, 2)]:
                await self._with(one, words)
            await self.victim.stop()
            shutil.rmtree(place)
            shutil.copytree(copy, place)
            await self._with(other, "again")
            return await self._meet()
        finally:
            for member in self.members.values():
                await member.stop()

    def _two_companies(self) -> tuple[list[Member], list[Member]]:
        """Often two that know nothing of each other: nothing else leads to two histories."""
        mixed = self.dice.sample(self.others, len(self.others))
        if self.dice.random() < 0.6:
            half = len(mixed) // 2
            return mixed[:half], mixed[half:]
        one, other = (self.dice.randint(1, len(mixed)) for _ in range(2))
        return mixed[:one], self.dice.sample(mixed, other)

    async def _with(self, others: Collection[Member], words: str) -> None:
        """The victim and these are up and speak; not all of it need be delivered."""
        for member in self.others:
            if (member.group is not None) != (member in others):
                await (member.start() if member in others else member.stop())
        if self.victim.group is None:
            await self.victim.start()
        up = [self.victim, *others]
        await until(lambda: self._are_linked(up), self.dice.choice((0.05, 0.5)))
        for member in self.dice.sample(up, len(up)):
            count = self.dice.choice((0, 1, 3, 40))
            await member.say(count, f"{member.name} {words}")
        await until(lambda: self._are_equal(up), self.dice.choice((0.0, 0.1, 0.5)))

    # --- the end: all are up

    async def _meet(self) -> Outcome:
        members = list(self.members.values())
        for member in members:
            if member.group is None and not member.end:
                await member.start()
        assert await until(lambda: self._are_linked(members)), f"seed {self.seed}: not linked"
        begin_s = time.monotonic()
        is_clear = await until(lambda: self._is_clear(members), REPORT_S)
        noticed_s = time.monotonic() - begin_s
        twice = self._twice(members)
        assert is_clear, (
            f"seed {self.seed}: silent for {REPORT_S:g} s, {self.victim.name} was rolled back, "
            f"ended with {self.victim.end!r}; two texts: {sorted(twice.items())[:1]}; "
            f"{self.lines.lines}; "
            f"{ {one.name: one.group and one.group.status().delivered for one in members} }"
        )
        return Outcome(self._end(), len(twice), noticed_s)

    def _is_clear(self, members: Iterable[Member]) -> bool:
        """Nothing differs; or all that are concerned have said so, two of them at least."""
        up = [one for one in members if one.group is not None]
        if not self._twice(self.members.values()) and self._are_equal(up):
            return True
        # The victim was handed both, and may have ended before it met the others that were.
        differing = self._twice(one for one in up if one is not self.victim)
        concerned = {name for texts in differing.values() for name in texts}
        have_spoken = {one for one in self.members if self._has_spoken(one)}
        return len(have_spoken) >= 2 and concerned | {self.victim.name} <= have_spoken

    def _has_spoken(self, member: str) -> bool:
        is_victim = member == self.victim.name
        return self.lines.have(member, self.victim.name) or (
            is_victim and any(sign in self.victim.end for sign in SIGNS)
        )

    def _twice(self, members: Iterable[Member]) -> dict[MessageId, dict[str, set[bytes]]]:
        """Which names stand for two texts, and who of these was handed which."""
        handed: dict[MessageId, dict[str, set[bytes]]] = defaultdict(dict)
        for member in members:
            for message, texts in member.handed.items():
                handed[message][member.name] = texts
        return {
            message: by_member
            for message, by_member in handed.items()
            if len(set().union(*by_member.values())) > 1
        }

    def _end(self) -> End:
        spoken = (*self.lines.lines, self.victim.end)
        if any("used numbers twice" in line for line in spoken):
            return "two histories"
        if any("older than its trace" in line for line in spoken):
            return "refused by its trace"
        if any("lost its disk" in line for line in spoken):
            return "lost its disk"
        return "nothing to notice"

    def _are_linked(self, members: Iterable[Member]) -> bool:
        up = {one.name: one.group for one in members if one.group is not None}
        return all(
            one in there.status().linked and other in here.status().linked
            for (one, here), (other, there) in combinations(up.items(), 2)
            if not {one, other} & {self.victim.name} or not self._is_refused()
        )

    def _is_refused(self) -> bool:
        return any(self._has_spoken(one) for one in self.members)

    def _are_equal(self, members: Iterable[Member]) -> bool:
        """They have delivered the same, and everything of their own that was given a number."""
        up = [one for one in members if one.group is not None]
        states = [one.group.status() for one in up if one.group is not None]
        return all(
            state.delivered == states[0].delivered
            and not state.unread
            and state.waiting == (state.queued if state.refusal else 0)
            for state in states
        ) and all(len(one.handed) == len(up[0].handed) for one in up)


def assert_every_end_was_seen(ends: Counter[End], times: int) -> None:
    for end in ("nothing to notice", "refused by its trace", "lost its disk", "two histories"):
        assert ends[end] >= times, f"{end}: {ends}"
