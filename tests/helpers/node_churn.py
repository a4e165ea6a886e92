"""A durable group that grows, shrinks and replaces its members, while a load and kills go on.

It goes from three members to seven and back, again and again: newcomers start and are added;
members are removed, killed, stopped, and replaced after their disks are lost, at their own address
or at another. All members together offer the same load, however many they are.

Every change is asked of a member that is up, and asked again if it was denied. About a change of
its own a member may be killed at any moment; never more than a minority is down.

Before the group first changes and when it is as small again, with the same load, it is measured how
much memory and how much disk the members have; and of each change, how long the broadcasts took
that were under way in it, at members that were neither killed nor stopped nor new.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from real_groups import certificates, free_ports
from tidings.core import IntervalSet, majority, replacement
from tidings.spec import Value, Verdict
from tidings.testkit.fleet import Fleet, Latencies, Member, percentile_s

LEAST, MOST = 3, 7
PER_S = 1_000
"""How many broadcasts all together offer in a second."""
PATIENCE_S = 60.0
REPORT_MS = 50
SEGMENT_BYTES = 300_000

NEWCOMERS = (
    *(f"p{number}" for number in range(LEAST + 1, 200)),
    *(f"p{number}+{time}" for number in range(1, 20) for time in (1, 2)),
)
"""Who may come: each needs a certificate."""

Tell = Callable[[str], None]


class Levels(NamedTuple):
    """What the member with the most has, in a group of the fewest."""

    rss_bytes: int
    log_bytes: int

    def __str__(self) -> str:
        return f"{self.rss_bytes / 2**20:.0f} MiB of memory, {self.log_bytes / 2**20:.1f} of log"


class Outcome(NamedTuple):
    is_calm: bool
    seconds: float
    offered: int
    assured: int
    void: int
    views: int
    repeated: int
    missing: list[str]
    """What the programs of those that were up to the end should have been handed, and were not."""
    waits_s: list[float]
    """The longest that a broadcast took, in each change."""
    before: Levels
    after: Levels
    events: Counter[str]

    def __str__(self) -> str:
        return (
            f"{self.offered:,} broadcasts in {self.seconds:.0f} s, {self.void:,} of them void, "
            f"{self.views} views, at most {max(self.waits_s):.2f} s for a broadcast in a change, "
            f"{self.before} before, {self.after} after, {dict(self.events)}"
        )


def group_file(folder: Path, *settings: str) -> Path:
    names = [f"p{number}" for number in range(1, LEAST + 1)]
    lines = [
        'name = "chat"',
        'protocol = "views"',
        f'tls.folder = "{certificates(LEAST, *NEWCOMERS)}"',
        "links.alive_ms = 200",
        "links.silence_ms = 1000",
        "links.hello_ms = 2000",
        "links.back_off_ms_min = 10",
        "links.back_off_ms_max = 200",
        f"limits.segment_bytes = {SEGMENT_BYTES}",
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
    per_s: float = PER_S,
    pause_s: float = 1.0,
    level_s: float = 1.0,
    most: int = MOST,
    settings: tuple[str, ...] = (),
) -> Outcome:
    """Change for so long, and at least once to the most members and back; then settle."""
    tell(f"seed {seed}")
    path = group_file(folder, *settings)
    with Fleet(path, seed=seed, report_ms=REPORT_MS) as fleet:
        dice = random.Random(seed)
        outcome = Churn(fleet, dice, per_s, pause_s, level_s, most=most).run(seconds)
    tell(str(outcome))
    return outcome


class Churn:
    def __init__(
        self,
        fleet: Fleet,
        dice: random.Random,
        per_s: float,
        pause_s: float,
        level_s: float,
        stay: Collection[str] = (),
        most: int = MOST,
    ) -> None:
        self.fleet = fleet
        self.dice = dice
        self.per_s = per_s
        self.pause_s = pause_s
        self.level_s = level_s
        """How long the load goes on before levels are measured."""
        self.events: Counter[str] = Counter()
        self.waits_s: list[float] = []
        self.injector = ""
        """Of those who are started again."""
        self._most = most
        self._stay = stay
        """Who is neither removed nor replaced."""
        self._names = (one for one in NEWCOMERS if "+" not in one and one not in fleet.members)
        self._is_growing = True
        self._leaving: list[Member] = []
        self._shaken: set[str] = set()
        """Who was killed or stopped since the last change: its broadcasts may have waited."""

    def run(self, seconds: float) -> Outcome:
        begin_s = time.monotonic()
        self._share_the_load()
        before = self._levels()
        while time.monotonic() < begin_s + seconds or not self._has_been_there_and_back():
            self.change()
            self.see_off()
            self._pass(0.2 * self.pause_s, self.pause_s)
            if self.dice.random() < 0.5:
                self._disturb()
        after = self._levels()
        took_s = time.monotonic() - begin_s
        is_calm = self.fleet.settle(timeout_s=2 * PATIENCE_S)
        members = list(self.fleet)
        return Outcome(
            is_calm=is_calm,
            seconds=took_s,
            offered=sum(one.offered for one in members),
            assured=sum(len(one.sent) for one in members),
            void=sum(one.report.void for one in members),
            views=max(one.report.view for one in members),
            repeated=sum(len(one.repeated) for one in members),
            missing=missing(members, self.fleet.config.members),
            waits_s=self.waits_s,
            before=before,
            after=after,
            events=self.events,
        )

    def _has_been_there_and_back(self) -> bool:
        """And is there again: that is where levels can be compared."""
        if len(self.members()) > LEAST or not self.events["at the most"]:
            return False
        self.events["at the least"] += 1
        return self.events["replaced"] > 0

    def _levels(self) -> Levels:
        """After a while of the load, and once all that nobody needs any more was thrown away."""
        self._pass(self.level_s, self.level_s)
        members = [self.fleet[name] for name in self.members()]
        self._go_on(members)
        return Levels(
            max(one.rss_bytes for one in members), max(one.report.log_bytes for one in members)
        )

    # --- the load

    def _share_the_load(self) -> None:
        for member in self._running():
            self._offer(member)

    def _offer(self, member: Member) -> None:
        member.hush()
        member.publish(self.per_s / len(self.members()))

    def _go_on(self, members: Sequence[Member]) -> None:
        """Whatever they have offered is delivered."""
        goals = [(one, one.report.offered) for one in members]
        self.fleet.wait_for(
            lambda: all(
                one.report.assured + one.report.void >= goal or not one.is_up for one, goal in goals
            ),
            f"{', '.join(one.name for one in members)} to go on",
            PATIENCE_S,
        )

    # --- changes

    def change(self) -> None:
        members = self.members()
        if len(members) >= self._most:
            self.events["at the most"] += self._is_growing
            self._is_growing = False
        elif len(members) <= LEAST:
            self._is_growing = True
        mobile = [one for one in members if one not in self._stay]
        replaceable = [one for one in mobile if self._replacement(one) in NEWCOMERS]
        is_overdue = len(members) == self._most and not self.events["replaced"]
        if replaceable and (is_overdue or self.dice.random() < 0.2):
            self._replace(self.dice.choice(replaceable))
        elif self._is_growing:
            self._add(next(self._names))
        else:
            self._remove(self.dice.choice(mobile))
        self._share_the_load()

    def _add(self, name: str) -> None:
        newcomer = self.fleet.newcomer(name)
        self._ask(self.dice.choice(self._running()), newcomer, "")
        self.events["added"] += 1

    def _remove(self, name: str) -> None:
        """It may be up, or dead; it may even ask for it itself."""
        member, is_dead = self.fleet[name], self.dice.random() < 0.3
        if is_dead:
            member.kill()
        self._ask(self.dice.choice(self._running()), None, name)
        self._leaving += [] if is_dead else [member]
        self.events["removed dead" if is_dead else "removed"] += 1

    def see_off(self) -> None:
        """Who was removed stops once all that stay have what it holds, those that were away too."""
        for member in self._leaving:
            self.fleet.wait_for(
                lambda one=member: not one.is_up, f"{member.name} to end", PATIENCE_S
            )
            assert member.report.removed, f"{member.name} ended otherwise"
        self._leaving.clear()

    def _replace(self, name: str) -> None:
        """Its disk is lost, and perhaps its machine."""
        self.fleet[name].kill()
        shutil.rmtree(self.fleet.config.data / name)
        is_there = self.dice.random() < 0.5
        address = self.fleet.address_of(name) if is_there else ""
        newcomer = self.fleet.newcomer(self._replacement(name), address)
        self._ask(self.dice.choice(self._running()), newcomer, name)
        self.events["replaced"] += 1
        self.events["replaced at its address"] += is_there

    def _ask(self, asked: Member, add: Member | None, remove: str) -> None:
        """Until it is so; whoever is killed meanwhile is not the one that was asked."""
        victim = self._victim({asked.name, remove}) if self.dice.random() < 0.4 else None
        spared = {remove, *self._shaken, *([victim.name] if victim is not None else [])}
        watched = [one for one in self._running() if one.name not in spared]
        before = [one.latencies.copy() for one in watched]
        for _ in range(30):
            self._ask_once(asked, add, remove, victim)
            victim = None
            if self._is_so(add, remove):
                break
            self.events["denied"] += 1
        else:
            raise AssertionError(f"denied again and again: {asked.report.denied[-1]}")
        self._shaken.clear()
        self._go_on(self._running())
        news = (one.latencies - old for one, old in zip(watched, before, strict=True))
        self.waits_s.append(percentile_s(sum(news, Latencies()), 1.0))

    def _ask_once(
        self, asked: Member, add: Member | None, remove: str, victim: Member | None
    ) -> None:
        before = asked.report.altered + len(asked.report.denied)
        asked.alter(add=add, remove=remove)
        if victim is not None:
            self._pass(0, 0.05)
            victim.kill()
            self._start([victim])
            self.events["killed in a change"] += 1
        self.fleet.wait_for(
            lambda: not asked.is_up or asked.report.altered + len(asked.report.denied) > before,
            "an answer",
            PATIENCE_S,
        )

    def _is_so(self, add: Member | None, remove: str) -> bool:
        members = self.members()
        return (add is None or add.name in members) and remove not in members

    # --- other faults

    def _disturb(self) -> None:
        """A minority is killed or stopped for a while."""
        members = self._running()
        spare = len(members) - majority(len(self.members()))
        few = self.dice.sample(members, self.dice.randint(1, max(1, spare))) if spare > 0 else []
        self._shaken |= {one.name for one in few}
        if self.dice.random() < 0.5:
            for one in few:
                one.kill()
            self._pass(0, self.pause_s)
            self._start(few)
            self.events["killed"] += len(few)
        else:
            for one in few:
                one.stop()
            self._pass(0, self.pause_s)
            for one in few:
                one.resume()
            self.events["stopped"] += len(few)

    def _start(self, members: Sequence[Member]) -> None:
        for one in members:
            one.start(injector=self.injector, report_ms=REPORT_MS, wait=False)
        for one in members:
            one.wait_until_joined()
            self._offer(one)

    def _victim(self, spared: set[str]) -> Member | None:
        running = self._running()
        able = [one for one in running if one.name not in spared]
        is_spare = len(running) > majority(len(self.members()))
        return self.dice.choice(able) if able and is_spare else None

    def members(self) -> list[str]:
        newest = max((one.report for one in self.fleet.up), key=lambda report: report.view)
        return list(newest.members)

    def _running(self) -> list[Member]:
        members = [self.fleet[name] for name in self.members()]
        return [one for one in members if one.is_up and not one.is_stopped]

    def _replacement(self, name: str) -> str:
        return replacement(name, self.fleet.members)

    def _pass(self, least_s: float, most_s: float) -> None:
        """Let some time pass; who ends by itself is noticed."""
        self.fleet.comes_true(lambda: False, self.dice.uniform(least_s, most_s))


def missing(members: Iterable[Member], founders: Iterable[str]) -> list[str]:
    """What those that were up to the end were not handed: a gap in what an origin said, all before
    or behind it, or a message that its origin was told to be delivered.

    Who came later begins later, and is handed all from there on.
    """
    everybody = list(members)
    found: list[str] = []
    for one in (each for each in everybody if each.fate == "up"):
        for origin in everybody:
            last = one.report.delivered.get(origin.name, 0)
            handed = one.handed(origin.name)
            first = 1 if one.name in founders else min(handed, default=last + 1)
            if handed != IntervalSet([(first, last)] if first <= last else []):
                found.append(f"{one.name} was handed {handed} of {origin.name}, up to {last}")
            if not origin.sent <= IntervalSet([(1, last)] if last else []):
                found.append(f"{one.name} has {last} of {origin.name}, which knows more delivered")
    return found


def assert_it_was_hard_and_nothing_is_lost(outcome: Outcome, verdicts: Sequence[Verdict]) -> None:
    assert outcome.is_calm
    assert outcome.repeated == 0
    assert not outcome.missing, outcome.missing
    assert outcome.assured > 0.5 * outcome.offered
    for verdict in verdicts:
        assert verdict.value is Value.HOLDS, verdict
        assert verdict.not_owed == 0, verdict
    for event in ("added", "replaced", "at the most", "at the least"):
        assert outcome.events[event], outcome.events
    assert outcome.events["removed"] + outcome.events["removed dead"], outcome.events


def assert_nothing_is_left_behind(outcome: Outcome) -> None:
    """Neither memory nor disk: a group that has changed is as small as one that has not."""
    before, after = outcome.before, outcome.after
    assert after.rss_bytes <= 1.25 * before.rss_bytes, f"{before}; {after}"
    assert after.log_bytes <= before.log_bytes + 2 * SEGMENT_BYTES, f"{before}; {after}"


def assert_nobody_waits_for_long(outcome: Outcome) -> None:
    assert max(outcome.waits_s) <= 2.0, [round(one, 1) for one in outcome.waits_s]
