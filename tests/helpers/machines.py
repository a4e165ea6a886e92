"""A group on machines of its own, as far as its members can tell: addresses, cables, and TLS."""

import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from namespaces import DEADLINE_S, Network
from real_ground import Real
from tidings.core import Members
from tidings.node.authority import certify
from tidings.node.config import read_config
from tidings.testkit.fleet import Fleet

NET = "10.77.0"
PORT, METRICS_PORT = 7001, 9001
ASK = "import sys, urllib.request as ask; print(ask.urlopen(sys.argv[1]).read().decode())"


def network_of(members: Iterable[str]) -> Network:
    return Network(*members, net=NET)


def group_file(folder: Path, network: Network, *settings: str) -> Path:
    """With links that are missed and made again soon; the certificates are there, too."""
    lines = [
        'name = "machines"',
        "links.alive_ms = 200",
        "links.silence_ms = 1000",
        "links.hello_ms = 1000",
        "links.back_off_ms_max = 200",
        'tls.folder = "certs"',
        *settings,
        "[members]",
        *(f'{name} = "{network.address(name)}:{PORT}"' for name in network.members),
        "[metrics]",
        *(f'{name} = "127.0.0.1:{METRICS_PORT}"' for name in network.members),
    ]
    path = folder / "group.toml"
    path.write_text("\n".join(lines))
    certify(read_config(path), folder / "authority")
    return path


def metrics_of(network: Network, member: str) -> dict[str, float]:
    """What it answers Prometheus, by name and label; asked on its machine, as it must be."""
    command = [sys.executable, "-c", ASK, f"http://127.0.0.1:{METRICS_PORT}/metrics"]
    asked = subprocess.run(
        [*network.within(member), *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    samples = (line.rpartition(" ") for line in asked.stdout.splitlines() if line[:1] not in "#")
    return {name: float(value) for name, _, value in samples}


class Machines(Real):
    """The processes of the real ground. The only fault of links is a cable that is pulled."""

    def __init__(self, folder: Path, size: int, *, seed: int = 1) -> None:
        self._network = network_of(f"p{number}" for number in range(1, size + 1))
        path = group_file(folder, self._network)
        super().__init__(Fleet(path, seed=seed, within=self._network.within))
        self._pulled: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._network)
            super().__enter__()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *fault: object) -> None:
        with self._stack:
            super().__exit__(*fault)

    def part(self, one: Members, other: Members) -> None:
        """Whoever is on the first side is alone after that."""
        for member in one:
            self._network.down(member)
            self._pulled.append(member)

    def heal(self) -> None:
        while self._pulled:
            self._network.up(self._pulled.pop())
