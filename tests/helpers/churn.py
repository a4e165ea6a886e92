"""A durable group that grows, shrinks and replaces its members, while a load and kills go on.

It goes from three members to seven and back, again and again: newcomers start and are added;
members are removed, killed, stopped, and replaced after their disks are lost.

Every change is asked of a member that is up, and asked again if it was denied. About a change of
its own a member may be killed at any moment; never more than a minority is down.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from real_groups import certificates, free_ports
from tidings.core import majority, replacement
from tidings.testkit.fleet import Fleet, Member

LEAST, MOST = 3, 7
PATIENCE_S = 60.0

Tell = Callable[[str], None]


class Outcome(NamedTuple):
    is_calm: bool
    offered: int
    assured: int
    void: int
    views: int
    repeated: int
    events: Counter[str]


def group_file(folder: Path, *settings: str, newcomers: tuple[str, ...]) -> Path:
    names = [f"p{number}" for number in range(1, LEAST + 1)]
    lines = [
        'name = "chat"',
        'protocol = "views"',
        f'tls.folder = "{certificates(LEAST, *newcomers)}"',
        "links.alive_ms = 200",
        "links.silence_ms = 1000",
        "links.hello_ms = 2000",
        "links.back_off_ms_min = 10",
        "links.back_off_ms_max = 200",
        "limits.segment_bytes = 300_000",
        *settings,
        "[members]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(names, free_ports(3), strict=True)),
    ]
    path = folder / "group.toml"
    path.write_text("\n".join(lines))
    return path


def churn(
    folder: Path,
    seconds: float,
    seed: int,
    tell: Tell,
    *,
    per_s: float = 300,
    pause_s: float = 1.0,
    settings: tuple[str, ...] = (),
) -> Outcome:
    """Change for so long, and at least once to the most members and back; then settle."""
    tell(f"seed {seed}")
    replacements = tuple(f"p{number}+1" for number in range(1, 20))
    newcomers = tuple(f"p{number}" for number in range(4, 60)) + replacements
    path = group_file(folder, *settings, newcomers=newcomers)
    with Fleet(path, seed=seed, report_ms=50) as fleet:
        return Churn(fleet, random.Random(seed), tell, per_s, pause_s, set(newcomers)).run(seconds)


class Churn:
    def __init__(
        self,
        fleet: Fleet,
        dice: random.Random,
        tell: Tell,
        per_s: float,
        pause_s: float,
        certified: set[str],
    ) -> None:
        self.fleet = fleet
        self.dice = dice
        self.tell = tell
        self.per_s = per_s
        self.pause_s = pause_s
        self.events: Counter[str] = Counter()
        self._certified = certified
        self._names = iter(f"p{number}" for number in range(LEAST + 1, 60))
        self._is_growing = True

    def run(self, seconds: float) -> Outcome:
        end_s = time.monotonic() + seconds
        for member in self.fleet:
            member.publish(self.per_s)
        while time.monotonic() < end_s or not self._has_been_there_and_back():
            self._change()
            self._pass(0.2 * self.pause_s, self.pause_s)
            if self.dice.random() < 0.5:
                self._disturb()
        is_calm = self.fleet.settle(timeout_s=2 * PATIENCE_S)
        members = list(self.fleet)
        return Outcome(
            is_calm=is_calm,
            offered=sum(one.offered for one in members),
            assured=sum(len(one.sent) for one in members),
            void=sum(one.report.void for one in members),
            views=max(one.report.view for one in members),
            repeated=sum(len(one.repeated) for one in members),
            events=self.events,
        )

    def _has_been_there_and_back(self) -> bool:
        return self.events["at the most"] > 0 and self.events["at the least"] > 0

    # --- changes

    def _change(self) -> None:
        members = self._members()
        if len(members) >= MOST:
            self.events["at the most"] += self._is_growing
            self._is_growing = False
        elif len(members) <= LEAST:
            self.events["at the least"] += not self._is_growing
            self._is_growing = True
        replaceable = [one for one in members if self._replacement(one) in self._certified]
        if replaceable and self.dice.random() < 0.2:
            self._replace(self.dice.choice(replaceable))
        elif self._is_growing:
            self._add(next(self._names))
        else:
            self._remove(self.dice.choice(members))

    def _add(self, name: str) -> None:
        newcomer = self.fleet.newcomer(name)
        self._ask(self.dice.choice(self._members()), newcomer, "")
        newcomer.publish(self.per_s)
        self.events["added"] += 1

    def _remove(self, name: str) -> None:
        """It may be up, or dead; it may even ask for it itself."""
        others = [one for one in self._members() if one != name]
        is_dead = self.dice.random() < 0.3
        if is_dead:
            self.fleet[name].kill()
        asked = self.dice.choice(others if is_dead else [*others, name])
        self._ask(asked, None, name)
        if not is_dead:
            member = self.fleet[name]
            self.fleet.wait_for(lambda: not member.is_up, f"{name} to end", PATIENCE_S)
            assert member.report.removed, f"{name} ended otherwise"
        self.events["removed dead" if is_dead else "removed"] += 1

    def _replace(self, name: str) -> None:
        """Its disk is lost."""
        self.fleet[name].kill()
        shutil.rmtree(self.fleet.config.data / name)
        newcomer = self.fleet.newcomer(self._replacement(name))
        others = [one for one in self._members() if one != name]
        self._ask(self.dice.choice(others), newcomer, name)
        newcomer.publish(self.per_s)
        self.events["replaced"] += 1

    def _ask(self, name: str, add: Member | None, remove: str) -> None:
        """Until it is so; whoever is killed meanwhile is not the one that was asked."""
        asked = self.fleet[name]
        victim = self._victim({name, remove}) if self.dice.random() < 0.4 else None
        for _ in range(30):
            before = asked.report.altered + len(asked.report.denied)
            asked.alter(add=add, remove=remove)
            if victim is not None:
                self._pass(0, 0.05)
                victim.kill()
                victim.start(report_ms=50)
                victim.publish(self.per_s)
                self.events["killed in a change"] += 1
                victim = None
            self.fleet.wait_for(
                lambda b=before: (
                    not asked.is_up or asked.report.altered + len(asked.report.denied) > b
                ),
                "an answer",
                PATIENCE_S,
            )
            if self._is_so(add, remove):
                return
            self.events["denied"] += 1
        raise AssertionError(f"denied again and again: {asked.report.denied[-1]}")

    def _is_so(self, add: Member | None, remove: str) -> bool:
        members = self._members()
        return (add is None or add.name in members) and remove not in members

    # --- other faults

    def _disturb(self) -> None:
        """A minority is killed or stopped for a while."""
        members = [self.fleet[one] for one in self._members() if self.fleet[one].is_up]
        spare = len(members) - majority(len(self._members()))
        few = self.dice.sample(members, self.dice.randint(1, max(1, spare))) if spare > 0 else []
        if self.dice.random() < 0.5:
            for one in few:
                one.kill()
            self._pass(0, self.pause_s)
            for one in few:
                one.start(report_ms=50)
                one.publish(self.per_s)
            self.events["killed"] += len(few)
        else:
            for one in few:
                one.stop()
            self._pass(0, self.pause_s)
            for one in few:
                one.resume()
            self.events["stopped"] += len(few)

    def _victim(self, spared: set[str]) -> Member | None:
        members = self._members()
        up = [self.fleet[one] for one in members if self.fleet[one].is_up]
        able = [one for one in up if one.name not in spared]
        return self.dice.choice(able) if able and len(up) > majority(len(members)) else None

    def _members(self) -> list[str]:
        newest = max((one.report for one in self.fleet.up), key=lambda report: report.view)
        return list(newest.members)

    def _replacement(self, name: str) -> str:
        return replacement(name, self.fleet.members)

    def _pass(self, least_s: float, most_s: float) -> None:
        """Let some time pass; who ends by itself is noticed."""
        self.fleet.comes_true(lambda: False, self.dice.uniform(least_s, most_s))


def assert_it_was_hard_and_nothing_is_lost(outcome: Outcome) -> None:
    assert outcome.is_calm
    assert outcome.repeated == 0
    assert outcome.assured > 0.5 * outcome.offered
    for event in ("added", "at the most", "at the least"):
        assert outcome.events[event], outcome.events
    assert outcome.events["removed"] + outcome.events["removed dead"], outcome.events
