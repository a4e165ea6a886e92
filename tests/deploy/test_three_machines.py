"""The guide of deploy/ on three machines, as far as network namespaces are machines.

Its commands are run as they stand there. What takes a whole machine is listed in ``ELSEWHERE``:
users, systemd, and the installation, which tests/test_wheel.py has.
"""

import asyncio
import json
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from guides import ROOT
from namespaces import Network, unavailable
from programs import TIDINGS, Program, running
from real_groups import go, until
from requirements_met import require

GUIDE = (ROOT / "deploy" / "README.md").read_text()
UNIT = (ROOT / "deploy" / "systemd" / "tidings.service").read_text()
ELSEWHERE = ("python3 -m venv", "useradd", "cp systemd/", "systemctl")
STATE = "/var/lib/tidings"


def blocks() -> list[str]:
    """The commands of the guide, of the part that is about machines of one's own."""
    part = GUIDE[GUIDE.index("## systemd") : GUIDE.index("## Containers")]
    return re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


class Machines:
    """Each with a disk of its own, and one more, ``operator``, where the group is made."""

    def __init__(self, folder: Path, network: Network) -> None:
        self._folder = folder
        self.network = network
        (folder / "operator").mkdir()

    def disk(self, machine: str) -> Path:
        return self._folder / machine

    def run(self, commands: str, machine: str) -> str:
        """As root would: nobody else is on these machines."""
        state, operator = self.disk(machine), self.disk("operator")
        lines = [line for line in commands.splitlines() if not line.startswith(ELSEWHERE)]
        script = "\n".join(lines).replace(STATE, str(state)).replace("sudo -u tidings ", "")
        script = script.replace("-o tidings ", "").replace("chown -R tidings", "ls")
        script = script.replace("/opt/tidings/bin/tidings", "tidings")
        script = re.sub(r"(^|\s)tidings (?=[a-z])", rf"\1{shlex.quote(TIDINGS)} ", script)
        within = self.network.within(machine) if machine != "operator" else []
        done = subprocess.run(
            [*within, "sh", "-euc", script], cwd=operator, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, machine: str) -> AbstractAsyncContextManager[Program]:
        (command,) = re.findall(r"^ExecStart=/opt/tidings/bin/tidings (.*)$", UNIT, re.MULTILINE)
        words = [*self.network.within(machine), TIDINGS, *command.split()]
        return running(self.disk(machine), *words)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    require("namespaces", not unavailable(), unavailable())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Network("p1", "p2", "p3", net="10.0.0") as network:
        yield Machines(tmp_path, network)


def has(member: Program, text: str) -> bool:
    return any(json.loads(line)["text"] == text for line in member.out)


def test_three_machines_bear_a_kill_a_lost_machine_and_a_lost_disk(machines: Machines) -> None:
    found, set_up, certify, replace = blocks()

    async def scene() -> None:
        running: dict[str, Program] = {}
        async with AsyncExitStack() as stack:

            async def start(machine: str) -> None:
                running[machine] = await stack.enter_async_context(machines.start(machine))

            async def say(machine: str, text: str) -> None:
                running[machine].type(text)
                await until(lambda: all(has(one, text) for one in running.values()))

            machines.run(found, "operator")
            for name in ("p1", "p2", "p3"):
                machines.run(set_up.replace("p1", name), name)
                assert [one.name for one in (machines.disk(name) / "certs").iterdir()] == [name]
                await start(name)
            for name in ("p1", "p2", "p3"):
                await say(name, f"{name} has met all others")  # as a new group must, once

            running["p2"].process.send_signal(signal.SIGKILL)
            await running.pop("p2").ends()
            await say("p3", "p2 was killed")
            await start("p2")
            await say("p2", "and is back")

            machines.network.renew("p3")
            await running.pop("p3").ends()
            await say("p1", "the machine of p3 is gone")
            await start("p3")
            await say("p3", "and there is another")
            await until(lambda: has(running["p3"], "the machine of p3 is gone"))

            running["p3"].process.send_signal(signal.SIGKILL)
            await running.pop("p3").ends()
            shutil.rmtree(machines.disk("p3"))
            await say("p2", "the disk of p3 is gone")
            machines.run(certify, "operator")
            machines.run(set_up.replace("p1", "p3+1"), "p3")
            await start("p3")
            done = await asyncio.to_thread(machines.run, replace, "p1")
            assert done.splitlines()[-1] == "view 1: p1, p2, p3+1"
            await say("p1", "somebody new is here")
            await say("p3", "I am p3+1")
            for one in running.values():
                one.process.send_signal(signal.SIGTERM)
                assert await one.ends() == 0

    go(scene())
