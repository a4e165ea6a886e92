"""A durable group under a steady load and every fault in random order.

The soak lets it rage for half an hour, the tests until there was everything. Faults come one after
the other, as from a deck of cards that is shuffled again when all are dealt, and never concern more
than a minority; except that now and then everybody is killed at once, and comes back to links that
lose, repeat and reorder packets above TCP, or to links that no longer do.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from real_groups import free_ports
from tidings.core import quorum
from tidings.node.authority import Authority, certify
from tidings.node.config import read_config
from tidings.spec import Guarantee, Value, Verdict
from tidings.testkit.fleet import Fleet, FleetFault, Member
from tidings.testkit.proxy import Proxy

SIZE = 5
PER_S = 2_000
"""How many broadcasts all together offer in a second, while nobody is dead or stopped."""
WEATHER = "lost=0.002 duplicated=0.002 reordered=0.01"
REPORT_MS = 100
LOOK_AGAIN_S = 0.05
PATIENCE_S = 60.0
"""How long those whom a fault does not concern may take to go on."""

FAULTS = 10
SIGNS = (
    "killed in mid-broadcast",
    "connections reset",
    "bytes swallowed",
    "packets lost",
    "packets duplicated",
    "packets held",
)

Tell = Callable[[str], None]


class Outcome(NamedTuple):
    is_calm: bool
    """Whether everybody had delivered the same in the end; if not, the audit will say what."""
    offered: int
    due: int
    """How many could have been offered by those who were neither dead nor stopped."""
    assured: int
    """How many receipts said delivered."""
    handed: int
    """How many messages the members' users were handed, all together."""
    repeated: int
    """How much was handed over twice."""
    faults: Counter[str]
    """How often each of them was dealt, and what else shows that they happened."""
    signs: Counter[str]


def group_file(folder: Path, *settings: str, tls: bool, newcomers: Sequence[str] = ()) -> Path:
    """Short files and impatient links, so that everything happens often."""
    members = enumerate(free_ports(SIZE), start=1)
    lines = [
        'name = "storm"',
        'tls.folder = "certs"' if tls else "tls.plain = true",
        "links.alive_ms = 200",
        "links.silence_ms = 1000",
        "links.hello_ms = 1000",
        "links.back_off_ms_min = 10",
        "links.back_off_ms_max = 200",
        "limits.segment_bytes = 1_000_000",
        "trace.segment_bytes = 4_000_000",
        *settings,
        "[members]",
        *(f'p{number} = "127.0.0.1:{port}"' for number, port in members),
    ]
    path = folder / "group.toml"
    path.write_text("\n".join(lines))
    if tls:
        config, authority = read_config(path), folder / "authority"
        certify(config, authority)
        for name in newcomers:
            Authority(authority).issue(config.name, name, folder / "certs" / name)
    return path


def rage(
    folder: Path,
    seconds: float,
    seed: int,
    tell: Tell,
    per_s: int = PER_S,
    settings: Sequence[str] = (),
) -> Outcome:
    """Storm for so long, and until every fault was dealt, then settle.

    The trace is in ``folder / "trace"``.
    """
    tell(f"seed {seed}, {'with TLS' if seed % 2 else 'plain'}")
    injector = f"seed={seed} {WEATHER}"
    path = group_file(folder, *settings, tls=seed % 2 == 1)
    with Fleet(path, proxied=True, seed=seed, injector=injector, report_ms=REPORT_MS) as fleet:
        return Storm(fleet, seed, injector, tell, per_s).run(seconds)


class Storm:
    kinds = FAULTS
    """How many faults there are in the deck."""

    def __init__(self, fleet: Fleet, seed: int, injector: str, tell: Tell, per_s: int) -> None:
        self.fleet = fleet
        self.size = len(fleet.members)
        self.lost: list[Member] = []
        """Members that cannot come back."""
        self.dice = random.Random(seed)
        self.injector = injector
        self.tell = tell
        self.per_s = per_s
        self.faults: Counter[str] = Counter()
        self.signs: Counter[str] = Counter()
        self.due_s = 0.0
        """For how long members could offer, all of them together."""
        self._offering_since: dict[str, float] = {}
        self._begin_s = time.monotonic()
        self._minutes = 0

    def run(self, seconds: float) -> Outcome:
        self._begin_s = time.monotonic()
        for member in self.fleet:
            self._offer(member)
        for fault in self._deck():
            if time.monotonic() > self._begin_s + seconds and self._has_dealt_all():
                break
            fault()
            self.faults[fault.__name__] += 1
            self._pass(0.2, 1.0)
        return self._settle()

    @property
    def healthy(self) -> list[Member]:
        return [member for member in self.fleet if member not in self.lost]

    @property
    def spare(self) -> int:
        """How many of the healthy can be missing while the others go on."""
        return len(self.healthy) - quorum(self.size)

    def _has_dealt_all(self) -> bool:
        return len(self.faults) == self.kinds

    def _deck(self) -> Iterator[Callable[[], None]]:
        faults = [
            self.slow_links,
            self.broken_connections,
            self.half_open_connection,
            self.one_way_cut,
            self.black_hole,
            self.partition,
            self.killed,
            self.stopped,
            self.killed_and_stopped,
            self.all_killed,
        ]
        while True:
            self.dice.shuffle(faults)
            yield from faults

    def _settle(self) -> Outcome:
        for member in self.healthy:
            self._cease(member)
        is_calm = self.fleet.settle(timeout_s=2 * PATIENCE_S)
        for member in self.healthy:
            self._count_packets(member)
        links = list(self.fleet.proxy or ())
        self.signs["connections reset"] += sum(link.resets for link in links)
        self.signs["bytes swallowed"] = sum(link.bytes_swallowed for link in links)
        outcome = Outcome(
            is_calm=is_calm,
            offered=sum(member.offered for member in self.fleet),
            due=round(self.due_s * self.per_s / self.size),
            assured=sum(len(member.sent) for member in self.fleet),
            handed=sum(len(one.handed(origin)) for one in self.fleet for origin in one.got),
            repeated=sum(len(member.repeated) for member in self.fleet),
            faults=self.faults,
            signs=self.signs,
        )
        self.tell(f"{outcome.offered:,} broadcasts of {outcome.due:,} that were due")
        self.tell(f"{dict(self.faults)}, {dict(self.signs)}")
        return outcome

    # --- the load, and time

    def _offer(self, member: Member) -> None:
        member.publish(self.per_s / self.size)
        self._offering_since[member.name] = time.monotonic()

    def _cease(self, member: Member) -> None:
        self.due_s += time.monotonic() - self._offering_since.pop(member.name)

    def _pass(self, least_s: float, most_s: float) -> None:
        """Let some time pass; who ends by itself is noticed."""
        self.fleet.comes_true(lambda: False, self.dice.uniform(least_s, most_s))
        while time.monotonic() > self._begin_s + 60 * (self._minutes + 1):
            self._minutes += 1
            broadcasts = sum(member.offered for member in self.fleet)
            memory = max(member.rss_bytes for member in self.fleet.up)
            self.tell(
                f"minute {self._minutes}: {broadcasts:,} broadcasts, {self.faults.total()} "
                f"faults, up to {memory / 2**20:.0f} MiB, load {os.getloadavg()[0]:.1f}"
            )

    def _go_on(self, members: Sequence[Member]) -> None:
        """Those whom it does not concern deliver what all of them together say in a second."""
        news = self.per_s * len(members) // self.size
        goals = [(one, delivered(one) + news) for one in members]
        self.fleet.wait_for(
            lambda: all(delivered(one) >= goal for one, goal in goals),
            f"{', '.join(one.name for one in members)} to go on",
            PATIENCE_S,
        )

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for what no report tells."""
        for _ in range(round(PATIENCE_S / LOOK_AGAIN_S)):
            if is_so():
                return
            self.fleet.comes_true(lambda: False, LOOK_AGAIN_S)
        raise FleetFault(f"waited {PATIENCE_S:g} s in vain for {what}")

    # --- links

    def slow_links(self) -> None:
        def slow(links: Proxy) -> None:
            for link in links:
                link.delay(self.dice.uniform(0, 20), jitter_ms=self.dice.uniform(0, 20))

        def restore(links: Proxy) -> None:
            for link in links:
                link.delay(0)

        self.fleet.on_links(slow)
        self._go_on(self.healthy)
        self._pass(0, 2)
        self.fleet.on_links(restore)

    def broken_connections(self) -> None:
        """After any number of bytes, so most often in the middle of a frame."""

        def reset(links: Proxy) -> None:
            for link in self.dice.sample(list(links), self.size):
                link.reset(after=self.dice.randint(1, 5_000))

        self.fleet.on_links(reset)
        self._go_on(self.healthy)
        self._heal()

    def half_open_connection(self) -> None:
        pair = self._pair()
        self.fleet.on_links(lambda links: links[pair].half_open())
        self._go_on(self.healthy)
        self._pass(1, 3)

    def one_way_cut(self) -> None:
        pair = self._pair()
        self.fleet.on_links(lambda links: links[pair].cut())
        self._pass(0.5, 3)
        self._go_on(self.healthy)
        self._heal()

    def black_hole(self) -> None:
        pair = self._pair()
        self.fleet.on_links(lambda links: links[pair].hole())
        self._pass(0.5, 3)
        self._go_on(self.healthy)
        self._heal()

    def partition(self) -> None:
        few, many = self._sides()
        self.fleet.on_links(lambda links: links.part(_names(few), _names(many)))
        self._pass(0.5, 3)
        self._go_on(many)
        self._heal()

    def _heal(self) -> None:
        self.fleet.on_links(Proxy.heal)

    def _pair(self) -> tuple[str, str]:
        sender, receiver = self.dice.sample(_names(self.healthy), 2)
        return sender, receiver

    # --- processes

    def killed(self) -> None:
        few, many = self._sides()
        with self._dead(few):
            self._go_on(many)
            self._pass(0, 3)

    def stopped(self) -> None:
        few, many = self._sides()
        with self._asleep(few):
            self._go_on(many)
            self._pass(0, 3)

    def killed_and_stopped(self) -> None:
        (one, *others), many = self._sides(quorum(self.size) - 1)
        with self._dead([one]), self._asleep(others):
            self._go_on(many)
            self._pass(0, 3)

    def all_killed(self) -> None:
        seed = self.dice.randint(1, 1_000)
        with self._dead(self.healthy):
            self.injector = "" if self.injector else f"seed={seed} {WEATHER}"

    def _sides(self, count: int | None = None) -> tuple[list[Member], list[Member]]:
        """A minority and the rest."""
        count = min(count or self.dice.randint(1, quorum(self.size) - 1), self.spare)
        few = self.dice.sample(self.healthy, count)
        return few, [member for member in self.healthy if member not in few]

    @contextmanager
    def _dead(self, members: Sequence[Member]) -> Iterator[None]:
        for member in members:
            self._cease(member)
            under_way = member.report.offered - member.report.assured
            self.signs["killed in mid-broadcast"] += under_way > 0
            self._count_packets(member)
            member.kill()
        yield
        for member in members:
            member.start(injector=self.injector, report_ms=REPORT_MS, wait=False)
        for member in members:
            member.wait_until_joined()
            self._offer(member)

    @contextmanager
    def _asleep(self, members: Sequence[Member]) -> Iterator[None]:
        for member in members:
            self._cease(member)
            member.stop()
        yield
        for member in members:
            member.resume()
            self._offering_since[member.name] = time.monotonic()

    def _count_packets(self, member: Member) -> None:
        for fate in ("lost", "duplicated", "held"):
            self.signs[f"packets {fate}"] += member.report.injected.get(fate, 0)


def delivered(member: Member) -> int:
    return sum(member.report.delivered.values())


def _names(members: Iterable[Member]) -> list[str]:
    return [member.name for member in members]


def assert_nothing_is_lost_or_repeated(
    outcome: Outcome, verdicts: Sequence[Verdict], size: int = SIZE
) -> None:
    """By the audit of what the members wrote, and by what their users saw."""
    for verdict in verdicts:
        assert verdict.value is Value.HOLDS, f"{verdict.guarantee}: {verdict.violations[:1]}"
    judged = {verdict.guarantee: verdict.judged for verdict in verdicts}
    broadcasts = judged[Guarantee.VALIDITY]
    assert judged[Guarantee.UNIFORM_AGREEMENT] == broadcasts
    assert judged[Guarantee.NO_DUPLICATION] == size * broadcasts, "everybody delivers everything"
    assert outcome.is_calm
    assert broadcasts >= outcome.assured
    assert outcome.handed == size * broadcasts, "and hands it over"
    assert outcome.repeated == 0


def assert_nobody_was_held_up(outcome: Outcome) -> None:
    """Whoever was neither dead nor stopped has offered what it should: on a machine of its own.

    On a busy one a member waits for its turn, and that it goes on is all that a storm waits for.
    """
    assert outcome.handed >= 0.95 * SIZE * outcome.due, "the load was lighter than it should be"


def assert_everything_happened(outcome: Outcome) -> None:
    assert len(outcome.faults) == FAULTS, f"not every fault was dealt: {outcome.faults}"
    for what in SIGNS:
        assert outcome.signs[what], f"{what}: never seen"
