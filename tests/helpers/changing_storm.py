"""The storm over a group that changes: about every twenty seconds a member comes or goes.

Three members stay, so that there are links for the proxy to break; newcomers are reached directly,
since a view has one address of each for all. What is lost, repeated or reordered above TCP concerns
everybody. A change is made in calm, or while a minority is dead or asleep.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from node_churn import NEWCOMERS, Churn, missing
from storm import FAULTS, PATIENCE_S, REPORT_MS, WEATHER, Outcome, Storm, Tell, group_file
from tidings.core import majority
from tidings.spec import Value, Verdict
from tidings.testkit.fleet import Fleet, Member
from tidings.trace.segments import Messages, Reader, segments_of

STAY = ("p1", "p2", "p3")
EVERY_S = 20.0


def rage_and_change(
    folder: Path,
    seconds: float,
    seed: int,
    tell: Tell,
    per_s: int,
    *,
    every_s: float = EVERY_S,
    settings: Sequence[str] = (),
) -> "ChangingStorm":
    """Storm for so long, and until every fault was dealt, then settle: ``outcome`` says how."""
    tell(f"seed {seed}, {'with TLS' if seed % 2 else 'plain'}")
    injector = f"seed={seed} {WEATHER}"
    changing = ('protocol = "views"', *settings)
    path = group_file(folder, *changing, tls=seed % 2 == 1, newcomers=NEWCOMERS)
    with Fleet(path, proxied=True, seed=seed, injector=injector, report_ms=REPORT_MS) as fleet:
        storm = ChangingStorm(fleet, seed, injector, tell, per_s, every_s)
        storm.outcome = storm.run(seconds)
    storm.counts = storm.churn.events + Counter(
        {
            "broadcasts": storm.outcome.offered,
            "views": max(one.report.view for one in fleet),
            "void": sum(one.report.void for one in fleet),
            "rebound": rebound(fleet),
            "lives": sum(one.lives for one in fleet),
        }
    )
    return storm


def rebound(fleet: Fleet) -> int:
    """How many messages went out again in a new view."""
    paths = (
        path for name in fleet.members for path in segments_of(fleet.config.trace_folder, name)
    )
    blocks = (block for path in paths for block in Reader(path).blocks())
    items = (item for block in blocks for item in block.items)
    return sum(one.count for one in items if isinstance(one, Messages) and one.kind == "rebind")


class ChangingStorm(Storm):
    kinds = FAULTS + 1
    outcome: Outcome
    counts: Counter[str]

    def __init__(
        self, fleet: Fleet, seed: int, injector: str, tell: Tell, per_s: int, every_s: float
    ) -> None:
        super().__init__(fleet, seed, injector, tell, per_s)
        self.every_s = every_s
        self.names = list(fleet.members)
        """Those of the newest view."""
        self.churn = Churn(fleet, self.dice, per_s, 1.0, 0.0, STAY)

    @property
    def healthy(self) -> list[Member]:
        return [self.fleet[name] for name in self.names]

    @property
    def proxied(self) -> list[str]:
        return [name for name in self.names if name in self.fleet.config.members]

    def _deck(self) -> Iterator[Callable[[], None]]:
        next_s = time.monotonic()
        for fault in super()._deck():
            if time.monotonic() > next_s:
                next_s = time.monotonic() + self.every_s
                yield self.changed
            yield fault

    def _pair(self) -> tuple[str, str]:
        sender, receiver = self.dice.sample(self.proxied, 2)
        return sender, receiver

    def partition(self) -> None:
        few = self.dice.sample(self.proxied, min(self.spare, len(self.proxied) - 1))
        many = [name for name in self.proxied if name not in few]
        self.fleet.on_links(lambda links: links.part(few, many))
        self._pass(0.5, 3)
        self._go_on([self.fleet[name] for name in self.names if name not in few])
        self._heal()

    def changed(self) -> None:
        self.churn.injector = self.injector
        spare = len(self.names) - majority(len(self.names))
        # One is left for the change itself, which may be about a dead one.
        few = self.dice.sample([self.fleet[one] for one in STAY], max(0, min(2, spare - 1)))
        how = self.dice.choice((self._dead, self._asleep)) if self.dice.random() < 0.5 else None
        if how is None or not few:
            self.churn.change()
        else:
            with how(few):
                self.churn.change()
        self.churn.see_off()
        self._follow()

    def _follow(self) -> None:
        """Whoever is in the newest view offers its share from now on."""
        self.fleet.wait_for(self.fleet.are_linked, "all to be linked", PATIENCE_S)
        self.names = self.churn.members()
        self.size = len(self.names)
        now_s = time.monotonic()
        for name in list(self._offering_since):
            self.due_s += now_s - self._offering_since.pop(name)
        for member in self.healthy:
            self._offering_since[member.name] = now_s


def assert_everybody_kept_to_the_views(storm: ChangingStorm, verdicts: Sequence[Verdict]) -> None:
    """By the audit of what the members wrote, and by what their users saw."""
    for verdict in verdicts:
        assert verdict.value is Value.HOLDS, verdict
        assert verdict.not_owed == 0, verdict
    assert storm.outcome.is_calm
    assert storm.outcome.repeated == 0
    lacking = missing(storm.fleet, storm.fleet.config.members)
    assert not lacking, lacking
