"""Every system of the comparison: how it is started, with which settings, and what it takes.

All of them are three members in processes of their own, on loopback, each with a server of its own
if the system has servers. Settings are those that the project ships, but where stated.
"""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from load.crew import Crew, Program, running
from load.tidings_group import ROOT, tidings_group
from tidings.testkit.fleet import free_ports

MEMBERS = 3
TOOLS = ROOT / ".peers"
HERE = Path(__file__).parent
Started = Callable[[Path], AbstractContextManager[Crew]]


class System(NamedTuple):
    name: str
    started: Started
    durable: bool
    settings: str
    needs: tuple[Path, ...] = ()
    """What ``make bench-peers`` installs for it."""
    built_with: tuple[str, ...] = ()

    def missing(self) -> str:
        """Why this one is left out; empty if nothing is missing."""
        if all(one.exists() for one in self.needs):
            return ""
        tools = [tool for tool in self.built_with if shutil.which(tool) is None]
        return f"no {' and no '.join(tools)}" if tools else "not installed: make bench-peers"


def _members(ending: ExitStack, folder: Path, commands: Sequence[Sequence[str]]) -> list[Program]:
    """Started together, and all of them ready."""
    programs = [
        ending.enter_context(running(Program(f"member{place}", command, folder)))
        for place, command in enumerate(commands)
    ]
    for program in programs:
        program.hear("ready")
    return programs


# --- NATS

NATS_CONFIG = """
server_name: n{place}
listen: "127.0.0.1:{port}"
max_pending: 2GB
cluster {{ name: bench, listen: "127.0.0.1:{own_route}", routes: [{routes}] }}
jetstream {{ store_dir: "{folder}/n{place}", max_mem: 4GB, max_file: 16GB{sync} }}
"""


@contextmanager
def _nats(folder: Path, kind: str, storage: str) -> Iterator[Crew]:
    ports, routes = free_ports(MEMBERS), free_ports(MEMBERS)
    sync = ", sync_interval: always" if storage == "file" else ""
    others = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    with ExitStack() as ending:
        servers = []
        for place, (port, route) in enumerate(zip(ports, routes, strict=True)):
            config = folder / f"n{place}.conf"
            config.write_text(
                NATS_CONFIG.format(
                    place=place, port=port, own_route=route, routes=others, folder=folder, sync=sync
                )
            )
            command = [str(TOOLS / "bin/nats-server"), "-c", str(config)]
            server = Program(f"server{place}", command, folder, talks=False)
            servers.append(ending.enter_context(running(server)))
        program = [sys.executable, str(HERE / "nats_member.py")]
        rest = [str(MEMBERS), kind, storage]
        _await_listeners(ports)
        commands = [[*program, str(port), str(at), *rest] for at, port in enumerate(ports)]
        yield Crew(_members(ending, folder, commands), servers)


def _await_listeners(ports: Sequence[int]) -> None:
    """Until somebody answers on each of them."""
    until = time.monotonic() + 30
    for port in ports:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


# --- etcd


@contextmanager
def _etcd(folder: Path) -> Iterator[Crew]:
    ports, peers = free_ports(MEMBERS), free_ports(MEMBERS)
    cluster = ",".join(f"e{at}=http://127.0.0.1:{port}" for at, port in enumerate(peers))
    with ExitStack() as ending:
        servers = []
        for place, (port, peer) in enumerate(zip(ports, peers, strict=True)):
            mine, among = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
            command = [
                *(str(TOOLS / "bin/server"), "--name", f"e{place}"),
                *("--data-dir", str(folder / f"e{place}")),
                *("--listen-client-urls", mine, "--advertise-client-urls", mine),
                *("--listen-peer-urls", among, "--initial-advertise-peer-urls", among),
                *("--initial-cluster", cluster, "--initial-cluster-state", "new"),
                *("--max-txn-ops", "2000", "--quota-backend-bytes", str(8 << 30)),
                *("--log-level", "error"),
            ]
            server = Program(f"server{place}", command, folder, talks=False)
            servers.append(ending.enter_context(running(server)))
        program = [sys.executable, str(HERE / "etcd_member.py")]
        _await_listeners(ports)
        commands = [[*program, str(port), str(at), str(MEMBERS)] for at, port in enumerate(ports)]
        yield Crew(_members(ending, folder, commands), servers)


# --- JGroups


@contextmanager
def _jgroups(folder: Path, order: str) -> Iterator[Crew]:
    ports = free_ports(MEMBERS)
    hosts = ",".join(f"127.0.0.1[{port}]" for port in ports)
    program = [
        *("java", "-Xmx1g", "-Djava.net.preferIPv4Stack=true"),
        *(f"-Djgroups.tcpping.initial_hosts={hosts}", "-Djgroups.tcp.port_range=0"),
        *("-cp", f"{TOOLS}/jars/*:{TOOLS}/classes", "Member"),
    ]
    commands = [
        [*program, str(at), str(MEMBERS), str(port), order] for at, port in enumerate(ports)
    ]
    with ExitStack() as ending:
        yield Crew(_members(ending, folder, commands))


# --- all of them


def tidings_systems(name: str, sources: Path, doors: str, loop: str) -> list[System]:
    kept = {"memory": False, "disk": True}
    return [
        System(
            name=f"{name}, {word}",
            started=partial(
                tidings_group, durable=durable, sources=sources, doors=doors, loop=loop
            ),
            durable=durable,
            settings=(
                f"the file of tidings group with durable = {str(durable).lower()}, trace on, "
                f"--doors {doors}, {loop}"
            ),
        )
        for word, durable in kept.items()
    ]


def rivals() -> list[System]:
    nats, go = (TOOLS / "bin/nats-server",), ("go",)
    server = "three nats-server 2.15.2, max_pending 2GB"
    stream = (
        f"{server}, stream with 3 replicas and max_bytes 256 MiB, R1 push consumers without acks"
    )
    found = [
        System(
            name=f"JetStream, {where}, {client}",
            started=partial(_nats, kind=kind, storage=storage),
            durable=storage == "file",
            settings=f"{stream}, {storage} storage{sync}; {words}",
            needs=nats,
            built_with=go,
        )
        for where, storage, sync in (
            ("memory", "memory", ""),
            ("disk", "file", " with sync_interval always"),
        )
        for client, kind, words in (
            ("lean", "jetstream", "lean client of ours"),
            ("nats-py", "nats-py", "nats-py 2.16.0, publish_async, ordered consumer"),
        )
    ]
    found.append(
        System(
            name="NATS core, lean",
            started=partial(_nats, kind="core", storage="memory"),
            durable=False,
            settings=f"{server}, one subject, nothing stored, no receipts; lean client of ours",
            needs=nats,
            built_with=go,
        )
    )
    found.append(
        System(
            name="etcd, disk",
            started=_etcd,
            durable=True,
            settings=(
                "three etcd 3.7.3, max-txn-ops 2000, quota 8 GiB; each member one transaction at "
                "a time, one watch of everything; grpcio"
            ),
            needs=(TOOLS / "bin/server",),
            built_with=go,
        )
    )
    for name, order, words in (
        ("JGroups SEQUENCER", "sequencer", "SEQUENCER above GMS"),
        ("JGroups NAKACK2", "fifo", "nothing added: FIFO order only"),
    ):
        found.append(
            System(
                name=f"{name}, memory",
                started=partial(_jgroups, order=order),
                durable=False,
                settings=f"JGroups 5.5.7, tcp.xml as shipped, {words}, java {_java()}, -Xmx1g",
                needs=(TOOLS / "classes/Member.class",),
                built_with=("java", "javac", "mvn"),
            )
        )
    return found


def _java() -> str:
    if shutil.which("java") is None:
        return "missing"
    words = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return words.split('"')[1]
