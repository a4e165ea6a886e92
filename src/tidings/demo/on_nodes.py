"""The demo on real nodes: five processes, a lively conversation, two killed while they speak.

A victim is killed in the middle of its broadcasts, and that is no matter of luck: its links to two
of the others fall silent, it goes on broadcasting, and then comes SIGKILL. So of its last messages
some copies have arrived and some never will, which is the case that broadcast is about.

Sound groups are durable, and the second victim comes back. Flawed ones keep nothing, so nobody
does. One flaw needs worse links to show: an answer can overtake its question only where packets
overtake packets, which the injector sees to, since TCP never does it.
"""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from tidings.demo.simulated import BREAKS, Break
from tidings.disk.files import whole_file
from tidings.node.authority import certify
from tidings.node.config import read_config
from tidings.testkit.fleet import Fleet, Member, free_ports
from tidings.testkit.proxy import Proxy
from tidings.trace import Run, read_runs

NAMES = ("p1", "p2", "p3", "p4", "p5")
DELAY_MS, JITTER_MS = 1, 3
"""What everything that is said takes, at least, and how much longer it may take."""
MID_BROADCAST = 3
"""How many broadcasts a victim makes while some of its links are silent."""

Tell = Callable[[str], None]


class DemoPlay(msgspec.Struct, frozen=True):
    """What is performed, and how fast."""

    protocol: str
    durable: bool
    per_s: float
    """How many texts each member offers."""
    opening: int
    """How many each has offered when the first is killed; and how many more, when the second."""
    injector: str = ""
    settle_s: float = 30.0
    """How long to wait until everybody has delivered the same."""

    @classmethod
    def of(cls, broken: Break | None, seed: int) -> "DemoPlay":
        if broken is None:
            return cls("frontier", durable=True, per_s=100, opening=80)
        faults = f"seed={seed} reordered=0.3" if broken == "order" else ""
        # Relaying takes n(n-1) packets; and a flaw may keep them apart for ever.
        return cls(
            BREAKS[broken], durable=False, per_s=30, opening=30, injector=faults, settle_s=2.0
        )


def perform(
    folder: Path,
    name: str,
    play: DemoPlay,
    seed: int,
    *,
    tell: Tell = lambda line: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Run:
    """Run it in this folder under this name; ``meanwhile`` is called when all members are up."""
    group = _group_file(folder, name, play)
    with Fleet(group, proxied=True, seed=seed, injector=play.injector) as fleet:
        durable = "durable" if play.durable else "in memory"
        tell(f"start  {', '.join(NAMES)}: {play.protocol}, {durable}, each a process of its own")
        meanwhile()
        fleet.on_links(_slow_down)
        victims = random.Random(seed).sample(list(fleet), 2)
        for member in fleet:
            member.publish(play.per_s)
        for victim in victims:
            _wait_for_more(fleet, play.opening)
            _kill_in_mid_broadcast(fleet, victim, play)
            tell(f"kill   {victim.name} with SIGKILL, while it broadcasts")
        _wait_for_more(fleet, play.opening)
        if play.durable:
            _come_back(fleet, victims[-1], play, tell)
        fleet.settle(timeout_s=play.settle_s)
    (run,) = read_runs(fleet.config.trace_folder)
    return run


def _group_file(folder: Path, name: str, play: DemoPlay) -> Path:
    addresses = zip(NAMES, free_ports(len(NAMES)), strict=True)
    path = folder / "group.toml"
    lines = [
        f'name = "{name}"',
        f'protocol = "{play.protocol}"',
        f"durable = {str(play.durable).lower()}",
        'trace.folder = "."',
        'tls.folder = "certs"',
        "",
        "[members]",
        *(f'{member} = "127.0.0.1:{port}"' for member, port in addresses),
        "",
    ]
    with whole_file(path) as draft:
        draft.write_text("\n".join(lines))
    certify(read_config(path), folder / "authority")
    return path


def _slow_down(links: Proxy) -> None:
    for link in links:
        link.delay(DELAY_MS, jitter_ms=JITTER_MS)


def _wait_for_more(fleet: Fleet, count: int) -> None:
    """Until everybody who is up has offered so many more texts."""
    enough = {member.name: member.offered + count for member in fleet.up}
    fleet.wait_for(
        lambda: all(member.offered >= enough[member.name] for member in fleet.up),
        f"{count} more broadcasts of everybody",
    )


def _kill_in_mid_broadcast(fleet: Fleet, victim: Member, play: DemoPlay) -> None:
    """It pauses while its links to two others fall silent, goes on to broadcast, and dies."""
    others = [member.name for member in fleet.up if member is not victim]

    def fall_silent(links: Proxy) -> None:
        for name in others[-2:]:
            links[victim.name, name].hole()

    victim.hush()
    victim.wait_for(lambda: victim.is_idle, "to pause")
    fleet.on_links(fall_silent)
    spoken = victim.report.offered + MID_BROADCAST
    victim.publish(play.per_s)
    victim.wait_for(lambda: victim.report.accepted >= spoken, "to broadcast a little more")
    victim.kill()
    fleet.on_links(lambda links: links.heal())


def _come_back(fleet: Fleet, victim: Member, play: DemoPlay, tell: Tell) -> None:
    tell(f"start  {victim.name} again")
    victim.start()
    victim.publish(play.per_s)
    _wait_for_more(fleet, play.opening)
