"""Members in network namespaces of their own, where links can be taken down for real.

    with Network("p1", "p2") as network:
        network.start("p2", [sys.executable, "-c", "..."], stdout=PIPE)
        network.down("p2")
        network.up("p2")
        network.reset("p2")

Each member has a namespace with one cable to a switch, which is in a namespace as well: nothing
is changed on the machine itself, and when the namespaces go everything goes with them. Their
addresses begin with 127, unless others are asked for, and are routed through the cables: so a plain
group can be tried as well.

It takes root and iproute2; ``unavailable`` says what is missing.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, Self

PREFIX = "tidings"
MOST_MEMBERS = 16
DEADLINE_S = 60
CABLE = "cable0"

_numbers = count(1)


class NoNetwork(Exception):  # noqa: N818 - what is the case
    """The machine does not let us; the text says why."""


@cache
def unavailable() -> str:
    """Why there can be no namespaces here; empty if there can."""
    if shutil.which("ip") is None:
        return "there is no ip command; make system-deps installs it"
    if os.geteuid() != 0:
        return "only root may make them"
    try:
        with Network("probe"):
            return ""
    except NoNetwork as fault:
        return f"root may not make them here: {fault}"


class Network:
    def __init__(self, *members: str, net: str = "127.77.0") -> None:
        """``net`` is where their addresses begin."""
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"{len(members)} members, and {MOST_MEMBERS} is the limit")
        self.members = members
        self._net = net
        which = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._names = {name: f"{which}-{name}" for name in ("switch", *members)}
        self._processes: list[subprocess.Popen[Any]] = []

    def address(self, member: str) -> str:
        return f"{self._net}.{self.members.index(member) + 1}"

    def within(self, member: str) -> list[str]:
        """What goes before a command, so that it runs in the namespace of this member."""
        return ["ip", "netns", "exec", self._names[member]]

    def start(self, member: str, command: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
        """A process in the namespace of this member; it is killed when the network goes."""
        inside = [*self.within(member), *command]
        process = subprocess.Popen(inside, start_new_session=True, **how)
        self._processes.append(process)
        return process

    def down(self, member: str) -> None:
        """Pull the cable of this member out of the switch."""
        self._at("switch", "link", "set", "dev", member, "down")

    def up(self, member: str) -> None:
        self._at("switch", "link", "set", "dev", member, "up")

    def reset(self, member: str) -> int:
        """Reset all TCP connections of this member, for both sides; how many there were."""
        within = [*self.within(member), "ss", "--no-header", "--tcp", "--kill"]
        done = subprocess.run(within, capture_output=True, check=True, timeout=DEADLINE_S)
        return len(done.stdout.splitlines())

    def renew(self, member: str) -> None:
        """The machine of this member is lost, with all that ran there, and there is another."""
        within = subprocess.run(
            ["ip", "netns", "pids", self._names[member]], capture_output=True, check=True
        )
        for process in within.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        self._at("switch", "link", "delete", "dev", member)
        _ip("netns", "delete", self._names[member])
        _ip("netns", "add", self._names[member])
        self._connect(member)

    def __enter__(self) -> Self:
        _remove_what_the_dead_left()
        try:
            for name in self._names.values():
                _ip("netns", "add", name)
            self._at("switch", "link", "add", "name", "switch", "type", "bridge")
            self._at("switch", "link", "set", "dev", "switch", "up")
            for member in self.members:
                self._connect(member)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *fault: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE_S)
        there = _existing()
        for name in self._names.values():
            if name in there:
                _ip("netns", "delete", name)

    def _connect(self, member: str) -> None:
        namespace, switch = self._names[member], self._names["switch"]
        _ip(
            *("link", "add", "name", CABLE, "netns", namespace, "type", "veth"),
            *("peer", "name", member, "netns", switch),
        )
        self._at("switch", "link", "set", "dev", member, "master", "switch", "up")
        # As a rule the kernel lets no address that begins with 127 leave the machine, and takes
        # all of them for its own.
        setting = "/proc/sys/net/ipv4/conf/all/route_localnet"
        _ip("netns", "exec", namespace, "sh", "-c", f"echo 1 > {setting}")
        self._at(member, "link", "set", "dev", "lo", "up")
        self._at(member, "address", "flush", "dev", "lo")
        self._at(member, "address", "add", "127.0.0.1/32", "dev", "lo")
        self._at(member, "address", "add", f"{self.address(member)}/24", "dev", CABLE)
        self._at(member, "link", "set", "dev", CABLE, "up")

    def _at(self, name: str, *words: str) -> None:
        _ip("-netns", self._names[name], *words)


def _ip(*words: str) -> str:
    try:
        done = subprocess.run(
            ["ip", *words], capture_output=True, text=True, check=True, timeout=DEADLINE_S
        )
    except subprocess.CalledProcessError as fault:
        raise NoNetwork(f"ip {' '.join(words)}: {' '.join(fault.stderr.split())}") from None
    return done.stdout


def _existing() -> list[str]:
    """Namespaces that are there and have names like ours."""
    return re.findall(rf"^{PREFIX}-\d+-\S+", _ip("netns", "list"), re.MULTILINE)


def _remove_what_the_dead_left() -> None:
    """A run that was killed could not clean up; its number is in the names."""
    for name in _existing():
        try:
            os.kill(int(name.split("-")[1]), 0)
        except ProcessLookupError:
            _ip("netns", "delete", name)
