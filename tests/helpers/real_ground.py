"""A group of processes of the operating system, on loopback, with a proxy between their sockets."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from ground import CALM, Group, Weather
from tidings.core import Members
from tidings.testkit.faulty_links import FaultyLink
from tidings.testkit.fleet import Fleet, FleetFault, free_ports
from tidings.testkit.proxy import Proxy
from tidings.trace import Run, read_runs

DEADLINE_S = 120.0
LOOK_AGAIN_S = 0.05
AT_ONCE = 1e6
"""A rate that nobody reaches."""


def group_file(folder: Path, size: int) -> Path:
    """With links that are missed and made again soon: a test has no time."""
    names = [f"p{number}" for number in range(1, size + 1)]
    ports = free_ports(size)
    path = folder / "group.toml"
    text = [
        'name = "acceptance"',
        "tls.plain = true",
        "links.alive_ms = 100",
        "links.silence_ms = 1000",
        "links.hello_ms = 1000",
        "links.back_off_ms_min = 5",
        "links.back_off_ms_max = 50",
        "[members]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(names, ports, strict=True)),
    ]
    path.write_text("\n".join(text))
    return path


def on_loopback(folder: Path, size: int, weather: Weather = CALM, *, seed: int = 1) -> "Real":
    shares = [f"{name}={share}" for name, share in weather._asdict().items() if share]
    injector = " ".join([f"seed={seed}", *shares]) if shares else ""
    fleet = Fleet(group_file(folder, size), proxied=True, seed=seed, injector=injector)
    return Real(fleet, injector)


class Real(Group):
    def __init__(self, fleet: Fleet, injector: str = "") -> None:
        self._fleet = fleet
        self._injector = injector
        self.members = fleet.config.members
        self._rate = 0.0

    def __enter__(self) -> Self:
        self._fleet.__enter__()
        return self

    def __exit__(self, *fault: object) -> None:
        self._fleet.__exit__(*fault)

    # --- speaking

    def say(self, member: str, count: int = 1, size: int = 10) -> None:
        self._fleet[member].publish(AT_ONCE, count=count, text_bytes=size)

    def talk(self, rate: float) -> None:
        self._rate = rate
        for member in self._fleet.up:
            member.publish(rate)

    def hush(self) -> None:
        """Settling says it to everybody."""
        self._rate = 0.0

    # --- waiting

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not self._fleet.comes_true(is_so, LOOK_AGAIN_S):
            assert time.monotonic() < deadline_s, [one.report for one in self._fleet]

    def delivered(self, member: str) -> int:
        return sum(self._fleet[member].report.delivered.values())

    # --- links

    def slow(self, delay_ms: float, jitter_ms: float = 0.0) -> None:
        def slow(links: Proxy) -> None:
            for link in links:
                link.delay(delay_ms, jitter_ms)

        self._fleet.on_links(slow)

    def break_off(self, sender: str, receiver: str) -> None:
        self._on_link(sender, receiver, lambda link: link.reset(after=50_000))

    def half_open(self, sender: str, receiver: str) -> None:
        self._on_link(sender, receiver, FaultyLink.half_open)

    def cut(self, sender: str, receiver: str) -> None:
        self._on_link(sender, receiver, FaultyLink.cut)

    def part(self, one: Members, other: Members) -> None:
        self._fleet.on_links(lambda links: links.part(one, other))

    def heal(self) -> None:
        self._fleet.on_links(Proxy.heal)

    def is_linked(self, one: str, other: str) -> bool:
        return other in self._fleet[one].report.linked

    def _on_link(self, sender: str, receiver: str, action: Callable[[FaultyLink], None]) -> None:
        self._fleet.on_links(lambda links: action(links[sender, receiver]))

    # --- processes

    def kill(self, *members: str) -> None:
        for member in members:
            self._fleet[member].kill()

    def restart(self, *members: str) -> None:
        for member in members:
            self._fleet[member].start(injector=self._injector, wait=False)
        for member in members:
            self._fleet[member].wait_until_joined()
            if self._rate:
                self._fleet[member].publish(self._rate)

    def restart_without_disk(self, member: str) -> None:
        """Without its trace, too: who kept nothing else may not go on with that."""
        config = self._fleet.config
        shutil.rmtree(config.data / member)
        aside = config.trace_folder.with_name("aside")
        aside.mkdir()
        for path in sorted(config.trace_folder.glob(f"{member}-*")):
            path.rename(aside / path.name)
        self._fleet[member].start(wait=False)
        with pytest.raises(FleetFault, match=f"{member} lost its disk; its name cannot return"):
            self._fleet.wait_for(lambda: False, "its end")
        for path in sorted(config.trace_folder.glob(f"{member}-*")):
            path.unlink()
        for path in sorted(aside.iterdir()):
            path.rename(config.trace_folder / path.name)

    def is_up(self, member: str) -> bool:
        return self._fleet[member].is_up

    def stop(self, *members: str) -> None:
        for member in members:
            self._fleet[member].stop()

    def resume(self, *members: str) -> None:
        for member in members:
            self._fleet[member].resume()

    # --- the end

    def trace(self) -> Run:
        assert self._fleet.settle(), [one.report for one in self._fleet]
        assert not any(one.repeated for one in self._fleet), "handed over twice"
        (run,) = read_runs(self._fleet.config.trace_folder)
        return run
