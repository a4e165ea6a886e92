"""Durable groups of three whose limits are as small as the group file allows, drawn by a seed.

A limit that no test reaches is where guarantees break. Members talk in bursts, leave, are stopped
between two commits, come back, and read nothing for a while; in the end everybody is up and reads.
"""

import asyncio
import random
from asyncio import Event, Lock, Task, TaskGroup
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.json import decode, encode

import tidings
from real_groups import go, group_file, linked, traced, until
from tidings.core import TidingsError
from tidings.node.config import FRAME_ROOM, Config, Limits, Links, Tracing
from tidings.node.errors import Closed
from tidings.node.group import Group, Replayed
from tidings.node.ledger import Receipt
from tidings.node.wire import Came
from tidings.spec import Value, judge
from tidings.testkit.injector import Injector

TEXT_BYTES = 200
"""The least with which a text can say what its author had read."""
LEAST: dict[str, int] = {
    "limits.text_bytes": TEXT_BYTES,
    "limits.frame_bytes": TEXT_BYTES + FRAME_ROOM,
    "limits.queue_bytes": TEXT_BYTES + FRAME_ROOM,
    "options.early": 1,
    "options.push_bytes": 1,
    "options.marks": 2,
    "options.batch_ms": 0,
    "options.stable_ms": 0,
    "trace.retention_bytes": 1,
}
NOT_DRAWN = ("log_bytes", "resend_bytes", "retention_age_s")
"""A log that may hold nothing refuses everything; resending is for other protocols."""
ALWAYS = ("limits.text_bytes", "limits.frame_bytes", "limits.queue_bytes")
"""They depend on each other."""


def limits() -> dict[str, int]:
    """Everything that limits a node, and the least that the group file allows."""
    found = dict(LEAST)
    for section, kind in (("limits", Limits), ("links", Links), ("trace", Tracing)):
        for field in msgspec.structs.fields(kind):
            meta = getattr(field.type, "__metadata__", ())
            is_time = (
                field.name.endswith("_ms") and field.name != "tick_ms"
            ) or "_ms_" in field.name
            if meta and not is_time and field.name not in NOT_DRAWN:
                found.setdefault(f"{section}.{field.name}", meta[0].ge)
    return found


def drawn(dice: random.Random) -> list[str]:
    """Settings: of each limit the least, or a few times as much, or what it is by default."""
    chosen = {key: least for key, least in limits().items() if key in ALWAYS}
    for key, least in limits().items():
        if key not in ALWAYS and dice.random() < 0.7:
            chosen[key] = least * dice.choice([1, 1, 1, 2, 5]) + dice.choice([0, 0, 0, 1, 50])
    chosen["options.push_bytes"] = min(chosen.get("options.push_bytes", 1), 1000)
    mode = dice.choice(["all", "origin"])
    return [f"{key} = {value}" for key, value in chosen.items()] + [f'options.mode = "{mode}"']


class Killed(TidingsError):  # noqa: N818 - reads as what happened
    pass


class Program:
    """A member and its program, over all its lives: it remembers what it has read."""

    def __init__(
        self, name: str, config: Config, injector: Injector[Came] | None, tasks: TaskGroup
    ) -> None:
        self.name = name
        self.injector = injector
        self.config = config
        self.read: dict[str, list[int]] = {member: [] for member in config.members}
        """Of each origin the texts, by the number that their author gave them."""
        self.spoken = 0
        self.assured: set[int] = set()
        self.reads_on = Event()
        self.reads_on.set()
        self.replayed = 0
        self.group: Group | None = None
        self._tasks = tasks
        self._ours: list[Task[Any]] = []
        self._one_at_a_time = Lock()

    async def come(self) -> None:
        group = tidings.join(self.name, self.config, injector=self.injector)
        self.group = await group.__aenter__()
        self._ours = [self._tasks.create_task(self._read(self.group))]

    async def go_away(self, kill: bool) -> None:
        group, self.group = self.group, None
        assert group is not None
        if kill:
            group._member.joined().fail(Killed("killed"))
        with suppress(Killed):
            await group.__aexit__(None, None, None)
        for task in self._ours:
            task.cancel()
        await asyncio.gather(*self._ours, return_exceptions=True)

    def burst(self, count: int, size: int) -> None:
        assert self.group is not None
        self._ours.append(self._tasks.create_task(self._say(self.group, count, size)))

    async def _say(self, group: Group, count: int, size: int) -> None:
        for _ in range(count):
            async with self._one_at_a_time:
                self.spoken += 1
                number = self.spoken
                known = [len(texts) for texts in self.read.values()]
                text = encode((number, known)).ljust(size)
                try:
                    receipt = await group.broadcast(text)
                except (Closed, Killed):
                    return
            self._ours.append(self._tasks.create_task(self._confirm(receipt, number)))

    async def _confirm(self, receipt: Receipt, number: int) -> None:
        with suppress(Closed, Killed):
            await receipt.delivered()
            self.assured.add(number)

    async def _read(self, group: Group) -> None:
        with suppress(Killed):
            async for message in group:
                await self.reads_on.wait()
                origin, seq = message.id
                texts = self.read[origin]
                if seq <= len(texts):
                    assert isinstance(message, Replayed), f"{self.name} read {message.id} twice"
                    self.replayed += 1
                    continue
                assert seq == len(texts) + 1, f"{self.name} read {message.id} after {len(texts)}"
                number, known = decode(message.text)
                for member, count in zip(self.read, known, strict=True):
                    assert len(self.read[member]) >= count or member == origin, (
                        f"{self.name} read {message.id} before {member}#{count}"
                    )
                texts.append(number)

    @property
    def is_calm(self) -> bool:
        """Whether everything said in this life is delivered, and everything delivered is read."""
        group = self.group
        assert group is not None
        status = group.status()
        read = {member: len(texts) for member, texts in self.read.items()}
        delivered = dict.fromkeys(read, 0) | status.delivered
        return all(task.done() for task in self._ours[1:]) and read == delivered

    def check(self) -> None:
        """Nothing has failed."""
        for task in self._ours:
            if task.done() and not task.cancelled():
                task.result()


class Play:
    """What happens to one group under one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice = random.Random(seed)
        self.lines = drawn(self.dice)
        tls = seed % 2 == 1
        self.config = group_file(folder, 3, "links.close_ms = 500", *self.lines, tls=tls)
        self.happened: Counter[str] = Counter()

    async def run(self) -> None:
        async with TaskGroup() as tasks:
            self.programs = [
                Program(name, self.config, self._weather(), tasks) for name in self.config.members
            ]
            for program in self.programs:
                await program.come()
            await linked({one.name: one.group for one in self.programs if one.group is not None})
            for _ in range(12):
                await self._step()
                await asyncio.sleep(self.dice.choice([0, 0, 0.005, 0.03]))
            await self._calm_down()
            for program in self.programs:
                await program.go_away(kill=False)

    def _weather(self) -> Injector[Came] | None:
        """On some links packets overtake each other, so that messages wait for others."""
        if self.dice.random() < 0.5:
            return None
        shares = {"reordered": 0.2, "duplicated": 0.05, "lost": self.dice.choice([0, 0.01])}
        return Injector(self.dice.getrandbits(32), **shares)

    async def _step(self) -> None:
        dice = self.dice
        program = dice.choice(self.programs)
        if program.group is None:
            await program.come()
            self.happened["returns"] += 1
            return
        match dice.choice(["burst"] * 5 + ["away"] * 2 + ["read"]):
            case "burst":
                program.burst(dice.choice([1, 10, 40]), dice.choice([40, TEXT_BYTES]))
            case "away":
                kill = dice.random() < 0.5
                await program.go_away(kill)
                self.happened["kills" if kill else "leaves"] += 1
            case "read" if program.reads_on.is_set():
                program.reads_on.clear()
                self.happened["pauses"] += 1
            case "read":
                program.reads_on.set()

    async def _calm_down(self) -> None:
        for program in self.programs:
            program.reads_on.set()
            if program.group is None:
                await program.come()
                self.happened["returns"] += 1
            program.burst(3, 40)  # delivered after all that it has said before
        await until(self._is_calm)

    def _is_calm(self) -> bool:
        for program in self.programs:
            program.check()
        first, *others = self.programs
        is_same = all(other.read == first.read for other in others)
        return is_same and all(program.is_calm for program in self.programs)

    def check(self) -> None:
        """Everybody has read the same; of each origin what was confirmed, each text once."""
        for program in self.programs:
            texts = program.read[program.name]
            assert texts == sorted(set(texts)), f"{program.name}: {texts}"
            assert program.assured <= set(texts), program.assured - set(texts)
            self.happened["texts"] += len(texts)
            self.happened["replayed"] += program.replayed


def survive(seeds: Iterable[int]) -> Counter[str]:
    """Nothing is lost, repeated or reordered, and nobody halts."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        with TemporaryDirectory() as folder:
            play = Play(seed, Path(folder))
            try:
                go(play.run())
                play.check()
                for verdict in judge(traced(play.config)):
                    first = verdict.violations[:1] or verdict.reason
                    assert verdict.value is Value.HOLDS, f"{verdict.guarantee}: {first}"
            except BaseException as fault:
                fault.add_note(f"seed {seed}: {', '.join(play.lines)}")
                raise
        happened += play.happened
        happened["runs"] += 1
    return happened
