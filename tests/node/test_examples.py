"""The examples, run as their first lines say, each member in a process of its own."""

import ast
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from programs import Program, running
from real_groups import DEADLINE_S, free_ports, go, until

EXAMPLES = Path(__file__).parents[2] / "examples"


def stated_on_top(example: str) -> tuple[list[str], list[str]]:
    """The two commands in the docstring: which makes the group, and which starts a member."""
    documented = ast.get_docstring(ast.parse((EXAMPLES / example).read_text())) or ""
    group, member = (line.split() for line in documented.splitlines() if line.startswith("    "))
    return group, member


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_uses_what_tidings_offers_and_nothing_else(example: Path) -> None:
    """A program needs ``tidings``, a protocol ``tidings.core``; neither anything private."""
    import tidings
    from tidings import core

    public = {"tidings": set(tidings.__all__), "tidings.core": set(core.__all__)}
    tree = ast.parse(example.read_text())
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            assert not [each.name for each in one.names if each.name.startswith("tidings.")]
        elif isinstance(one, ast.ImportFrom) and str(one.module).startswith("tidings"):
            assert {each.name for each in one.names} <= public.get(str(one.module), set())
        elif isinstance(one, ast.Attribute):
            if isinstance(one.value, ast.Name) and one.value.id == "tidings":
                assert one.attr in public["tidings"]
            assert not one.attr.startswith("_") or ast.unparse(one.value) in ("self", "super()")


@asynccontextmanager
async def members(
    example: str, folder: Path, tidings: Any, *instead: str
) -> AsyncIterator[tuple[Any, ...]]:
    """The way to start somebody again, and everybody, started; one word may stand for another."""
    (_, *group), (python, path, first, *rest) = stated_on_top(example)
    assert (python, path, first) == ("python", f"examples/{example}", group[1])
    if instead:
        rest[rest.index(instead[0])] = instead[1]
    (port,) = free_ports(1)
    assert tidings(*group, "--port", str(port)).status == 0
    async with AsyncExitStack() as stack:

        async def start(name: str) -> Program:
            command = (sys.executable, str(EXAMPLES / example), name, *rest)
            return await stack.enter_async_context(running(folder, *command))

        yield start, *[await start(name) for name in group[1:]]


async def kill(*programs: Program) -> None:
    for program in programs:
        program.process.kill()
    for program in programs:
        await program.ends()


def test_a_replicated_chat(tmp_path: Path, tidings: Any) -> None:
    def transcript(name: str) -> list[str]:
        return (tmp_path / f"{name}.txt").read_text().splitlines()

    async def scenario() -> None:
        async with members("chat.py", tmp_path, tidings) as (start, alice, bob, carol):
            for number in range(1, 21):
                alice.type(f"question {number}")
                await bob.says(f"alice#{number} question {number}")
                bob.type(f"answer {number}")
                if number == 10:
                    await kill(carol)
            carol = await start("carol")
            await carol.says("bob#20 answer 20")
            carol.type("what did I miss?")
            for one in (alice, bob, carol):
                await one.says("carol#1 what did I miss?")
                one.close_input()
            for one in (alice, bob, carol):
                assert await one.ends() == 0, one.err

    go(scenario())
    everything = {f"alice#{n} question {n}" for n in range(1, 21)}
    everything |= {f"bob#{n} answer {n}" for n in range(1, 21)} | {"carol#1 what did I miss?"}
    for name in ("alice", "bob", "carol"):
        lines = transcript(name)
        assert set(lines) == everything, name
        assert len(lines) == len(everything), f"{name} has kept something twice"
        for number in range(1, 21):
            question = lines.index(f"alice#{number} question {number}")
            assert question < lines.index(f"bob#{number} answer {number}"), name


@pytest.mark.parametrize(
    ("example", "words"), [("chat", "NAME"), ("settings", "NAME"), ("counter", "NAME TIMES")]
)
def test_an_example_says_how_it_is_started(example: str, words: str) -> None:
    command = (sys.executable, str(EXAMPLES / f"{example}.py"))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ended.returncode == 64
    assert ended.stderr == f"usage: python examples/{example}.py {words}\n"


def test_the_program_of_the_readme_says_the_right_thing_at_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    (group,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    program = next(one for one in re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    for shown, free in zip(("7001", "7002", "7003"), free_ports(3), strict=True):
        group = group.replace(shown, str(free))
    (tmp_path / "group.toml").write_text(group)
    monkeypatch.chdir(tmp_path)
    for patience in ("tidings.node.condition.PATIENCE_S", "tidings.node.calling.QUIET_S"):
        monkeypatch.setattr(patience, 1_000.0)  # however long a busy machine takes to start three
    for number in (1, 2, 3):
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
        assert capsys.readouterr().out == f"p1#{number} b'hello'\n"
    assert caplog.messages == [], "it is nothing to warn of that not all start at one moment"


def test_settings_that_arrive_everywhere(tmp_path: Path, tidings: Any) -> None:
    def tables() -> list[dict[str, Any]]:
        names = ("web", "worker", "mail")
        return [json.loads((tmp_path / f"{name}.json").read_text()) for name in names]

    async def scenario() -> None:
        async with members("settings.py", tmp_path, tidings) as (start, web, worker, mail):
            for number, one in enumerate((web, worker, mail)):
                one.type(f"{number} = met")  # who is new takes part once it has met everybody
                await one.says(f"everybody has: {number} = met")
            web.type("colour = blue")
            for one in (web, worker, mail):
                await one.says("colour = blue")
            await kill(mail)
            worker.type("colour = red")
            await web.says("colour = red")
            assert "everybody has: colour = red" not in worker.out
            # At the same time: one of them wins, and everywhere the same.
            web.type("size = 1")
            worker.type("size = 2")
            mail = await start("mail")
            await mail.says("colour = red")
            await worker.says("everybody has: colour = red")
            await worker.says("everybody has: size = 2")
            await web.says("everybody has: size = 1")
            await until(lambda: all(len(table) == 5 for table in tables()), every_s=0.02)
            for one in (web, worker, mail):
                one.close_input()
                assert await one.ends() == 0, one.err

    go(scenario())
    assert tables()[0] == tables()[1] == tables()[2]
    assert tables()[0]["colour"][1] == "red"


DEADLY = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import counter

count = counter.Total.count

def deadly(self, message):
    if (total := count(self, message)) >= {limit}:
        os.kill(os.getpid(), signal.SIGKILL)
    return total

counter.Total.count = deadly
counter.asyncio.run(counter.main("p1", {times}))
"""
"""The example, killed with a message counted, and before it could say so to the group."""


def test_a_counter_that_is_exact_whoever_is_killed(tmp_path: Path, tidings: Any) -> None:
    """Each of three adds 1 a hundred times, while they are killed again and again."""
    dice = random.Random(3)
    names = ("p1", "p2", "p3")

    def totals(program: Program) -> list[int]:
        return [int(line.removeprefix("total ")) for line in program.out]

    async def scenario() -> None:
        async with members("counter.py", tmp_path, tidings, "1000", "100") as (start, *started):
            alive: dict[str, Program] = dict(zip(names, started, strict=True))

            async def reach(total: int) -> None:
                await until(
                    lambda: any(totals(one)[-1:] >= [total] for one in alive.values()),
                    every_s=0.005,
                )

            async def kill_and_restart(*victims: str) -> None:
                await kill(*[alive[name] for name in victims])
                for name in victims:
                    assert totals(alive[name]) == sorted(totals(alive[name]))
                    alive[name] = await start(name)

            await reach(40)
            await kill_and_restart("p1", "p2", "p3")
            for goal in (80, 120):
                await reach(goal)
                await kill_and_restart(dice.choice(names))
            await kill(alive["p1"])
            deadly = DEADLY.format(folder=str(EXAMPLES), limit=150, times=100)
            async with running(tmp_path, sys.executable, "-c", deadly) as doomed:
                assert await doomed.ends() == -signal.SIGKILL
            (counted,) = database("p1").execute("select sum(sum) from counted").fetchone()
            alive["p1"] = await start("p1")
            for program in alive.values():
                await program.says("total 300")
                program.process.send_signal(signal.SIGINT)
                assert await program.ends() == 0, program.err
                assert max(totals(program)) == 300
            assert len(totals(alive["p1"])) > 300 - counted, "nothing was handed over again"

    def database(name: str) -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / f"{name}.db")

    go(scenario())
    for name in names:
        rows = database(name).execute("select * from counted")
        assert sorted(rows) == [(origin, 100, 100) for origin in names]
