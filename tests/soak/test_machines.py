"""Three members on three machines with TLS, in a storm for half an hour, then the audit.

The machines are network namespaces. Members are killed and stopped, cables pulled, connections
reset; after a third of the time all certificates are renewed, and half-way that of one member is
revoked: the others go on without it, until it has a new one.

``TIDINGS_SOAK_MINUTES=5 make soak ROOM=machines`` for five minutes, ``TIDINGS_SOAK_SEED=7`` for
another storm.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from machines import group_file, metrics_of, network_of
from namespaces import Network, unavailable
from programs import TIDINGS
from requirements_met import require
from storm import (
    PATIENCE_S,
    REPORT_MS,
    Outcome,
    Storm,
    Tell,
    assert_nothing_is_lost_or_repeated,
    delivered,
)
from tidings.conform import conform
from tidings.conform.words import story
from tidings.pipeline import audit
from tidings.testkit.fleet import Fleet
from tidings.trace import layout, read_manifests

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
NAMES = ("p1", "p2", "p3")
PER_S = 300
RENEWED_DAYS = 700
DAY_S = 24 * 60 * 60
SETTINGS = (
    "limits.segment_bytes = 1_000_000",
    "trace.segment_bytes = 4_000_000",
    "trace.conform = true",
)
"""Short files, so that many of them are begun; and all that happens is recorded."""
SIGNS = ("killed in mid-broadcast", "connections reset", "missed for its cable")


class MachineStorm(Storm):
    kinds = 6

    def __init__(self, fleet: Fleet, network: Network, seed: int, tell: Tell) -> None:
        super().__init__(fleet, seed, "", tell, PER_S)
        self.network = network
        self.planned: list[tuple[float, Callable[[], None]]] = []

    def run(self, seconds: float) -> Outcome:
        self.planned = [(seconds / 3, self.all_renewed), (seconds / 2, self.one_revoked)]
        return super().run(seconds)

    def _deck(self) -> Iterator[Callable[[], None]]:
        faults = [self.killed, self.stopped, self.pulled_cable, self.reset_connections]
        while True:
            self.dice.shuffle(faults)
            for fault in faults:
                if self.planned and time.monotonic() > self._begin_s + self.planned[0][0]:
                    yield self.planned.pop(0)[1]
                yield fault

    # --- the network

    def pulled_cable(self) -> None:
        """For a moment, which TCP bridges, or until it is missed."""
        (one,), others = self._sides()
        self.network.down(one.name)
        self._pass(0.1, 4)
        self._go_on(others)
        self.signs["missed for its cable"] += not one.report.linked
        self.network.up(one.name)
        self._go_on(self.healthy)

    def reset_connections(self) -> None:
        one = self.dice.choice(self.healthy)
        self.signs["connections reset"] += self.network.reset(one.name)
        self._go_on(self.healthy)

    # --- certificates

    def all_renewed(self) -> None:
        soon_s = time.time() + (RENEWED_DAYS - 1) * DAY_S

        def are_renewed() -> bool:
            seen = [self._metrics(name, "certificate_end_seconds") for name in NAMES]
            return all(len(ends) == len(NAMES) and min(ends.values()) > soon_s for ends in seen)

        self._certs("renew", *NAMES, "--days", str(RENEWED_DAYS))
        self._certs("reload")
        self._until(are_renewed, "everybody to show everybody a new certificate")
        self.signs["certificates renewed"] += len(NAMES)
        self._go_on(self.healthy)

    def one_revoked(self) -> None:
        (one,), others = self._sides()
        names = [other.name for other in others]

        def refusals() -> list[float]:
            return [self._metrics(name, "refused_total").get("revoked", 0.0) for name in names]

        before = refusals()
        self._cease(one)
        self._certs("revoke", one.name)
        self._certs("reload", *names)
        self._until(lambda: all(map(float.__gt__, refusals(), before)), "it to be refused")
        self.fleet.wait_for(
            lambda: not any(one.name in other.report.linked for other in others),
            f"{one.name} to be linked with nobody",
        )
        self._go_on(others)
        held_up = delivered(one)
        self._go_on(others)
        assert delivered(one) == held_up, f"{one.name} is revoked, and delivers"
        for name in names:
            log = self.fleet.path.with_name(f"{name}.log").read_text()
            assert "its certificate is refused: certificate revoked" in log
        self.signs["refused as revoked"] += int(sum(refusals()) - sum(before))
        self._certs("issue", one.name)
        self._certs("reload", one.name)
        self._offering_since[one.name] = begin_s = time.monotonic()
        missed = max(map(delivered, others))
        self.fleet.wait_for(lambda: delivered(one) >= missed, f"{one.name} to catch up")
        self.signs["caught up after it was revoked"] += missed - held_up
        self.tell(
            f"{one.name} was revoked, refused {self.signs['refused as revoked']} times, and caught "
            f"up {missed - held_up:,} messages in {time.monotonic() - begin_s:.1f} s"
        )

    def _certs(self, *words: str) -> None:
        command = [TIDINGS, "certs", *words, "--group", str(self.fleet.path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr

    def _metrics(self, member: str, name: str) -> dict[str, float]:
        """The values of one metric, by its label."""
        prefix = f"tidings_{name}{{"
        metrics = metrics_of(self.network, member).items()
        return {key.split('"')[1]: value for key, value in metrics if key.startswith(prefix)}


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    return tell


def test_half_an_hour_on_three_machines_loses_and_repeats_nothing(
    tmp_path: Path, spark: Any, tell: Tell
) -> None:
    require("namespaces", not unavailable(), unavailable())
    tell(f"seed {SEED}")
    network = network_of(NAMES)
    path = group_file(tmp_path, network, *SETTINGS)
    with network, Fleet(path, seed=SEED, report_ms=REPORT_MS, within=network.within) as fleet:
        outcome = MachineStorm(fleet, network, SEED, tell).run(60 * MINUTES)
    (verdicts,) = audit(spark, tmp_path / "trace", progress=tell).verdicts.values()
    assert_nothing_is_lost_or_repeated(outcome, verdicts, len(NAMES))
    for what in SIGNS:
        assert outcome.signs[what], f"{what}: never seen"
    assert outcome.signs["certificates renewed"] == len(NAMES)
    assert outcome.signs["refused as revoked"] >= len(NAMES) - 1
    assert outcome.signs["caught up after it was revoked"] > PER_S
    tell("now every step again")
    (manifest,) = read_manifests(layout(tmp_path / "trace").manifests).values()
    found = conform(tmp_path / "trace", manifest)
    assert found.conforms, [story(one, manifest.run) for one in found.divergences] + found.unknown
    assert not found.unknown, found.unknown
    lives = sum(one.lives for one in found.members.values())
    tell(f"{found.packets:,} packets in {lives} lives, as the protocol would")
    assert lives == len(NAMES) + outcome.faults["killed"]
