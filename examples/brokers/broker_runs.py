"""Three members talk through a real broker, something is killed, and everything is written down.

Every setting of a broker goes through the same four runs:

    calm            nothing happens
    killed-before   p3 is killed when it has received a message and not yet handed it over
    killed-after    p3 is killed when it has handed a message over and not yet acknowledged it
    broker-killed   while p3 is disconnected, the broker is killed, and started again

Killed means SIGKILL. Whoever was killed or disconnected comes back, and everybody says one more
thing. ``run_redis.py`` and ``run_mosquitto.py`` are the scripts to start.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
MAPPING = HERE / "mapping.toml"
NAMES = ("p1", "p2", "p3")
FAULTS = ("calm", "killed-before", "killed-after", "broker-killed")
PATIENCE_S = 20.0
SILENCE_S = 1.0


class Setting(NamedTuple):
    """A broker, and how it is used."""

    name: str
    words: str
    link: str
    """What the members speak: see ``member.link_to``."""
    program: str
    options: tuple[str, ...] = ()


REDIS = (
    Setting("redis-pubsub", "Redis publish/subscribe", "pubsub", "redis-server"),
    Setting("redis-streams", "Redis Streams, default persistence", "streams", "redis-server"),
    Setting(
        "redis-streams-aof",
        "Redis Streams, appendonly yes",
        "streams",
        "redis-server",
        ("--appendonly", "yes"),
    ),
)
MOSQUITTO = (
    Setting("mosquitto-qos0", "Mosquitto, QoS 0", "qos0", "mosquitto"),
    Setting("mosquitto-qos1", "Mosquitto, QoS 1, session kept", "qos1", "mosquitto"),
    Setting("mosquitto-qos2", "Mosquitto, QoS 2, session kept", "qos2", "mosquitto"),
)
SETTINGS = (*REDIS, *MOSQUITTO)


# --- processes


def program(name: str) -> str | None:
    """Where a broker is installed; Debian puts some where only root looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


class Broker:
    """A broker on a port of its own, with a folder of its own."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as received:
            self.port = received.getsockname()[1]

    def start(self) -> None:
        with (self.folder / "broker.log").open("ab") as output:
            self.process = subprocess.Popen(
                self._command(), cwd=self.folder, stdout=output, stderr=output
            )
        wait_for(self._answers, f"{self.setting.program} to answer on port {self.port}")

    def _command(self) -> list[str]:
        path = program(self.setting.program)
        assert path is not None, f"{self.setting.program} is not installed"
        if self.setting.program == "redis-server":
            # Without a file the settings are Redis's own, those of redis.conf as it is shipped.
            place = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder))
            return [path, *place, *self.setting.options]
        # As Debian ships it, but for the port and the place.
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.folder}/",
        ]
        if os.geteuid() == 0:
            lines.append("user root")
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n")
        return [path, "-c", str(config)]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Member:
    """A member as a process, and what its log says by now."""

    def __init__(self, name: str, setting: Setting, port: int, log: Path, run: str) -> None:
        self.name = name
        self.log = log
        self.run = run
        self._command = [sys.executable, str(HERE / "member.py"), setting.link, str(port)]
        self.start("started")

    def start(self, how: str) -> None:
        words = [*self._command, self.name, str(self.log), self.run, how]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, bufsize=1)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def rows(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        rows = map(json.loads, self.log.read_text().splitlines())
        return [row for row in rows if row["run"] == self.run]

    def count(self, event: str) -> int:
        return sum(row["event"] == event for row in self.rows())

    def has(self, message: str) -> bool:
        return any(row["event"] == "received" and row["id"] == message for row in self.rows())


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(0.01)


# --- one run


class Run:
    """Three members and a broker, all up."""

    def __init__(self, setting: Setting, fault: str, logs: Path, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidings-broker-")))
        self.broker = Broker(setting, folder)
        self.broker.start()
        stack.callback(self.broker.kill)
        run = f"{setting.name}/{fault}"
        self.members = {}
        for name in NAMES:
            member = Member(name, setting, self.broker.port, logs / f"{name}.jsonl", run)
            stack.callback(member.kill)
            self.members[name] = member
        self.spoken = 0
        self.connected(times=1)

    def connected(self, *names: str, times: int) -> None:
        for name in names or NAMES:
            member = self.members[name]
            wait_for(lambda m=member: m.count("connected") >= times, f"{name} to be connected")

    def say(self, name: str, text: str, to: Sequence[str] = NAMES) -> None:
        """One member says something, and these hear it."""
        self.spoken += 1
        message = f"{name}-{self.spoken}"
        self.members[name].tell(f"publish {message} {text}")
        for other in to:
            wait_for(lambda o=other: self.members[o].has(message), f"{other} to receive {message}")

    def everybody_says(self, text: str) -> None:
        for name in NAMES:
            self.say(name, f"{text}, says {name}")

    def goes_wrong(self, fault: str) -> None:
        p3 = self.members["p3"]
        if fault.startswith("killed-"):
            p3.tell(f"stall {fault.removeprefix('killed-')}")
            wait_for(lambda: p3.count("told") == 1, "p3 to be told")
            self.say("p1", "the last that p3 gets", to=("p1", "p2"))
            wait_for(lambda: p3.count("stalled") == 1, "p3 to stall")
            p3.kill()
            self.say("p1", "p3 is dead", to=("p1", "p2"))
            self.say("p2", "long live p3", to=("p1", "p2"))
            p3.start("restarted")
            self.connected("p3", times=2)
        if fault == "broker-killed":
            p3.tell("away")
            wait_for(lambda: p3.count("away") == 1, "p3 to be away")
            self.say("p1", "p3 is away", to=("p1", "p2"))
            self.broker.kill()
            self.broker.start()
            p3.tell("back")
            self.connected(times=2)

    def falls_silent(self) -> None:
        """Nothing more is said, and nothing more comes."""
        lines, since = -1, time.monotonic()
        while time.monotonic() - since < SILENCE_S:
            now = sum(len(member.rows()) for member in self.members.values())
            if now != lines:
                lines, since = now, time.monotonic()
            time.sleep(0.05)


def record(settings: Sequence[Setting], logs: Path) -> Iterator[str]:
    """Every run of these settings, into a folder of logs for each setting."""
    for setting in settings:
        folder = logs / setting.name
        folder.mkdir(parents=True)
        for fault in FAULTS:
            yield f"{setting.name}/{fault}"
            with ExitStack() as stack:
                run = Run(setting, fault, folder, stack)
                run.everybody_says("hello")
                run.goes_wrong(fault)
                run.everybody_says("and on we go")
                run.falls_silent()


# --- and what came of it

MARKS = {"violated": "✗", "unknown": "?"}
GUARANTEES = (
    "no duplication",
    "no creation",
    "validity",
    "uniform agreement",
    "causal order",
)


def table(verdicts: Mapping[str, Mapping[str, str]], settings: Sequence[Setting]) -> str:
    """What broke, as a table in Markdown; ``verdicts`` by the run's name, then by guarantee."""
    lines = [["broker", *FAULTS], ["---"] * (1 + len(FAULTS))]
    for setting in settings:
        broken = [_broken(verdicts[f"{setting.name}/{fault}"]) for fault in FAULTS]
        lines.append([setting.words, *broken])
    return "".join(" | ".join(line) + "\n" for line in lines)


def _broken(of_run: Mapping[str, str]) -> str:
    values = ((guarantee, of_run[guarantee]) for guarantee in GUARANTEES)
    return ", ".join(f"{MARKS[value]} {name}" for name, value in values if value != "holds") or "-"


def tidings(*words: str | Path) -> str:
    """The command of the environment that runs this script; what it prints."""
    command = Path(sys.executable).with_name("tidings")
    done = subprocess.run([command, *words], stdout=subprocess.PIPE, text=True)
    if done.returncode >= 64:
        raise SystemExit(done.returncode)
    return done.stdout


def main(settings: Sequence[Setting]) -> None:
    """Record, ingest, audit, and show which guarantees held."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    broker = settings[0].program
    parser.add_argument("--out", type=Path, default=Path("runs") / broker, help="a new folder")
    out: Path = parser.parse_args().out
    if program(broker) is None:
        print(f"{broker} is not installed; on Debian: apt-get install {broker}", file=sys.stderr)
        raise SystemExit(69)
    if out.exists():
        print(f"{out} exists already; choose another with --out", file=sys.stderr)
        raise SystemExit(64)
    for run in record(settings, out / "logs"):
        print(f"... {run}", file=sys.stderr)
    logs = sorted((out / "logs").glob("*/*.jsonl"))
    print(tidings("ingest", *logs, "--mapping", MAPPING, "--out", out / "trace"))
    audited = json.loads(tidings("audit", out / "trace", "--json"))
    verdicts = {
        run["run"]: {name: verdict["value"] for name, verdict in run["verdicts"].items()}
        for run in audited["runs"]
    }
    print(table(verdicts, settings))
    print(f"why    tidings audit {out / 'trace'}")
