"""The storm, and what people and disks do to a group: members must refuse it, or bear it.

- A mistaken twin: a second process under a member's name, with an empty folder, again and again.
- A folder that is deleted or moved away under a running member: it stops, and is lost.
- A torn end of the log of a killed member: it comes back.
- A flipped bit in that log: it is refused, and lost.
- A group file that differs: refused on both sides, until the right one is there again.
- A program that reads nothing for long, and reads on after a restart.

A group of five can lose two members for good, so a long storm is many groups, one after another.
All limits are drawn small, so that every one of them is reached.
"""

import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

from storm import (
    LOOK_AGAIN_S,
    PATIENCE_S,
    REPORT_MS,
    SIZE,
    WEATHER,
    Outcome,
    Storm,
    Tell,
    delivered,
)
from tidings.core import Exit
from tidings.disk.frames import BadFrameError, FrameFile, packed
from tidings.disk.sectors import SECTOR
from tidings.node.authority import certify
from tidings.node.config import MIB, read_config
from tidings.node.log.segments import FIRST_LINE, LOG
from tidings.spec import Value, Verdict
from tidings.testkit.fleet import Fleet, FleetFault, Member, free_ports
from tidings.testkit.proxy import Proxy

AT_ONCE = 1e6
"""More per second than anybody can offer."""
TEXT_BYTES = 1_000
BACKLOG = 5_000
"""So many messages at least are left unread."""
MISHAPS = (
    "mistaken_twin",
    "torn_end",
    "differing_file",
    "unread_backlog",
    "deleted_folder",
    "flipped_bit",
)


def group_file(folder: Path, dice: random.Random, *, tls: bool) -> Path:
    """Every limit small, some smaller than others."""

    def drawn(*values: int) -> int:
        return dice.choice(values)

    members = enumerate(free_ports(SIZE), start=1)
    lines = [
        'tls.folder = "certs"' if tls else "tls.plain = true",
        'name = "mishaps"',
        "links.alive_ms = 200",
        "links.silence_ms = 1000",
        "links.hello_ms = 1000",
        "links.back_off_ms_min = 10",
        "links.back_off_ms_max = 200",
        "links.refused_ms_max = 1000",
        "links.close_ms = 1000",
        f"limits.text_bytes = {TEXT_BYTES}",
        f"limits.frame_bytes = {TEXT_BYTES + MIB}",
        f"limits.frame_packets = {drawn(50, 500)}",
        f"limits.batch_messages = {drawn(10, 50, 500)}",
        f"limits.queue_bytes = {TEXT_BYTES + MIB}",
        f"limits.tick_ms = {drawn(1, 5, 20)}",
        f"limits.unread_messages = {drawn(200, 1_000)}",
        f"limits.unread_bytes = {drawn(50_000, 200_000)}",
        f"limits.window = {drawn(100, 1_000)}",
        f"limits.window_bytes = {drawn(10_000, 100_000)}",
        f"limits.memory_messages = {drawn(50, 500)}",
        f"limits.memory_bytes = {drawn(10_000, 100_000)}",
        f"limits.log_bytes = {drawn(3_000_000, 20_000_000)}",
        f"limits.segment_bytes = {drawn(20_000, 200_000)}",
        f"limits.commit_bytes = {drawn(2_000, 100_000)}",
        f"options.early = {drawn(5, 50, 500)}",
        f"options.push_bytes = {drawn(2_000, 20_000)}",
        f"options.marks = {drawn(2, 8)}",
        f"trace.segment_bytes = {drawn(100_000, 1_000_000)}",
        "[members]",
        *(f'p{number} = "127.0.0.1:{port}"' for number, port in members),
    ]
    path = folder / "group.toml"
    path.write_text("\n".join(lines))
    if tls:
        certify(read_config(path), folder / "authority")
    return path


def suffer(
    folder: Path,
    seed: int,
    tell: Tell,
    per_s: int,
    *,
    only_mishaps: bool = False,
    backlog: int = BACKLOG,
) -> Outcome:
    """One group, every fault once, then settle. The trace is in ``folder / "trace"``."""
    tell(f"seed {seed}")
    path = group_file(folder, random.Random(seed), tls=seed % 2 == 1)
    injector = "" if only_mishaps else f"seed={seed} {WEATHER}"
    with Fleet(path, proxied=True, seed=seed, injector=injector, report_ms=REPORT_MS) as fleet:
        storm = Mishaps(fleet, seed, injector, tell, per_s)
        storm.only_mishaps = only_mishaps
        storm.backlog = backlog
        return storm.run(0)


STILL_FULL = 20
"""A member whose log refused so many texts in a row has nothing to write, and looks at no file."""


class Mishaps(Storm):
    only_mishaps = False
    """Without the other faults, and without a rest between two."""
    backlog = BACKLOG

    def _deck(self) -> Iterator[Callable[[], None]]:
        """All that can be survived in any order; the members are lost late."""
        harmless = [self.mistaken_twin, self.torn_end, self.differing_file]
        fatal = [self.deleted_folder, self.flipped_bit]
        if not self.only_mishaps:
            harmless += islice(super()._deck(), FAULTS_OF_A_STORM)
        self.dice.shuffle(harmless)
        self.dice.shuffle(fatal)
        late, early = harmless[:4], harmless[4:]
        # While a member is lost the logs fill up, and there is no room for a backlog.
        early.insert(self.dice.randint(0, len(early)), self.unread_backlog)
        for fault in [*early, fatal[0], *late[:2], fatal[1], *late[2:]]:
            if self.spare or fault.__name__ not in NEED_A_SPARE:
                yield fault

    def _has_dealt_all(self) -> bool:
        """The deck ends by itself."""
        return False

    def _pass(self, least_s: float, most_s: float) -> None:
        if not self.only_mishaps:
            super()._pass(least_s, most_s)

    def _go_on(self, members: Sequence[Member]) -> None:
        """Or their logs are full: they are small, and kept for members that are away or behind."""
        news = self.per_s * len(members) // SIZE // (10 if self.only_mishaps else 1)
        goals = [(one, delivered(one) + news) for one in members]
        full = {one.name: one.report.full for one in members}

        def is_full(one: Member) -> bool:
            return one.report.full > full[one.name]

        self.fleet.wait_for(
            lambda: all(delivered(one) >= goal or is_full(one) for one, goal in goals),
            f"{', '.join(one.name for one in members)} to go on",
            PATIENCE_S,
        )

    def _settle(self) -> Outcome:
        """First everybody reads what is there: leaving waits for nobody's program."""
        for member in self.healthy:
            member.hush()
            member.heal()
            self.signs["log full"] += member.report.full
        self.fleet.on_links(Proxy.heal)
        self.fleet.wait_for(
            lambda: self.fleet.are_equal() and all(map(_has_read_all, self.healthy)),
            "all to have delivered and read everything",
            5 * PATIENCE_S,
        )
        return super()._settle()

    # --- twins

    def mistaken_twin(self) -> None:
        """Of one that calls others, while that one is up, or while it is dead."""
        real = self.dice.choice(self.healthy[:-1])
        is_away = self.spare > 0 and self.dice.random() < 0.5
        with self._dead([real]) if is_away else nullcontext():
            for _ in range(1 if self.only_mishaps else 3):
                self._start_twin_of(real)

    def _start_twin_of(self, real: Member) -> None:
        self.signs["twins"] += 1
        folder = self.fleet.path.parent / f"twin-{self.signs['twins']}"
        folder.mkdir()
        text = real.group_file.read_text()
        (port,) = free_ports(1)
        address = str(self.fleet.config.addresses[real.name])
        path = folder / "group.toml"
        path.write_text(text.replace(f'"{address}"', f'"127.0.0.1:{port}"'))
        twin = Member(real.name, path, self.fleet._changed)
        twin.start(wait=False)
        twin.publish(self.per_s)
        try:
            self._until(lambda: not twin.is_up or _is_turned_away(twin), f"a twin of {real.name}")
            if twin.is_up:
                self.signs["twins turned away"] += 1
            else:
                words = _last_words(twin, Exit.DATA)
                assert f"{real.name} lost its disk" in words, words
                self.signs["twins refused"] += 1
        finally:
            if twin.is_up:
                twin.kill()
        assert not twin.got, "nobody has told it anything"
        assert not twin.sent, "nor taken anything from it"

    # --- disks

    def deleted_folder(self) -> None:
        member = self._lose()
        folder = self.fleet.config.data / member.name
        if self.dice.random() < 0.5:
            folder.rename(folder.with_name(f"{member.name}-moved"))
        while folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
        full, end_s = member.report.full, time.monotonic() + PATIENCE_S
        while member.is_up and member.report.full <= full + STILL_FULL:
            assert time.monotonic() < end_s, f"{member.name} writes, and misses no folder"
            time.sleep(LOOK_AGAIN_S)
        if member.is_up:
            self.signs["deleted while full"] += 1
            member.kill()
        else:
            words = "deleted or replaced while it was in use|No such file"
            self._ends(member, Exit.ENVIRONMENT, words)
        self._start_in_vain(member, Exit.DATA, "is gone, and .* has been here before")
        self._go_on(self.healthy)

    def torn_end(self) -> None:
        """Whatever a crash can leave of an entry that nobody relied on."""
        few, many = self._one_side()
        with self._dead(few):
            kind = tear(self.fleet.config.data / few[0].name, self.dice)
            self.signs[f"torn: {kind}"] += 1
            if len(many) < len(self.healthy) and self.spare:
                self._go_on(many)

    def flipped_bit(self) -> None:
        member = self._lose()
        member.kill()
        flip(self.fleet.config.data / member.name, self.dice)
        self._start_in_vain(member, Exit.DATA, "damaged at byte|not a log of tidings|log format")
        self._go_on(self.healthy)

    def _lose(self) -> Member:
        """It may be any: while the others are a majority, nothing is lost with it."""
        member = self.dice.choice(self.healthy)
        self._cease(member)
        self._count_packets(member)
        self.lost.append(member)
        return member

    def _start_in_vain(self, member: Member, status: int, words: str) -> None:
        member.start(wait=False)
        self._ends(member, status, words)

    def _ends(self, member: Member, status: int, words: str) -> None:
        last = _last_words(member, status)
        assert re.search(words, last), last

    # --- group files

    def differing_file(self) -> None:
        """Both sides say so, the others go on, and with the right file it is one of them again."""
        few, many = self._one_side()
        (member,) = few
        right = member.group_file
        wrong = right.with_name(f"{member.name}-differs.toml")
        line = f"limits.text_bytes = {TEXT_BYTES}"
        assert line in right.read_text()
        wrong.write_text(right.read_text().replace(line, f"limits.text_bytes = {TEXT_BYTES - 1}"))
        with self._dead(few):
            logs = {one.name: _log_bytes(one) for one in self.healthy}
            member.group_file = wrong
            member.start(report_ms=REPORT_MS)
            self._until(lambda: _have_refused(member, many, logs), f"all to refuse {member.name}")
            assert not member.report.linked
            if self.spare:
                self._go_on(many)
            member.kill()
            member.group_file = right

    # --- programs

    def unread_backlog(self) -> None:
        member = self.dice.choice(self.healthy)
        super()._go_on(self.healthy)  # there is room in the logs
        member.rest()
        for one in self.healthy:
            one.publish(AT_ONCE, count=self.backlog)
        if not self.only_mishaps:
            self.broken_connections()
        # A log that is full of what its program does not read stops a member from listening; then
        # the logs of all others get full, while its own texts wait for acknowledgements.
        full = {one: one.report.full for one in self.healthy if one is not member}
        self.fleet.wait_for(
            lambda: (
                _unread(member) >= self.backlog
                or all(one.report.full > before for one, before in full.items())
            ),
            f"{member.name} to have much unread",
        )
        self.signs["left unread"] += _unread(member)
        with self._dead([member]):
            pass
        self.fleet.wait_for(
            lambda: _unread(member) < self.backlog, f"{member.name} to read on", 5 * PATIENCE_S
        )

    def _one_side(self) -> tuple[list[Member], list[Member]]:
        """One member, even if no other can be missed, and the rest."""
        one = self.dice.choice(self.healthy)
        return [one], [member for member in self.healthy if member is not one]


FAULTS_OF_A_STORM = 10
NEED_A_SPARE = (
    "one_way_cut",
    "black_hole",
    "partition",
    "killed",
    "stopped",
    "killed_and_stopped",
)
"""With as many lost as can be, the others cannot go on during these."""


# --- what a crash leaves, and what it cannot


def tear(folder: Path, dice: random.Random) -> str:
    """The next entry of a log, as far as it got to the disk; how much of it that is."""
    path = sorted(folder.glob("*.log"))[-1]
    place, number = _whole(path)
    if not number:
        return "at its beginning"  # the kill has done it
    size = dice.choice((1, 100, 5_000))
    body = dice.choice((bytes(size), dice.randbytes(size)))
    entry = bytearray(packed(number + 1, place, body))
    kind = dice.choice(("cut short", "zeros", "sectors missing"))
    if kind == "cut short":
        del entry[dice.randrange(1, len(entry)) :]
    elif kind == "zeros":
        entry = bytearray(len(entry))
    else:
        starts = [0, *range(SECTOR - place % SECTOR, len(entry), SECTOR)]
        for start in dice.sample(starts, dice.randint(1, len(starts))):
            end = min(len(entry), start + SECTOR - (place + start) % SECTOR)
            entry[start:end] = bytes(end - start)
    os.truncate(path, place)
    with path.open("ab") as file:
        file.write(entry)
    return kind


def flip(folder: Path, dice: random.Random) -> None:
    """One bit of what was once whole."""
    path = dice.choice(sorted(folder.glob("*.log")))
    place, number = _whole(path)
    if not number:  # only just begun: then the one before it is whole
        path = sorted(folder.glob("*.log"))[-2]
        place, _ = _whole(path)
    data = bytearray(path.read_bytes())
    data[dice.randrange(place)] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def _whole(path: Path) -> tuple[int, int]:
    """Where the last whole entry of a file ends, and its number."""
    place, number = len(FIRST_LINE), 0
    with FrameFile(path, LOG) as file:
        while place < file.size:
            try:
                entry = file.frame(place)
            except BadFrameError:
                break
            place, number = entry.end, entry.number
    return place, number


# --- what members tell


def _unread(member: Member) -> int:
    return delivered(member) - sum(len(member.handed(one)) for one in member.report.delivered)


def _has_read_all(member: Member) -> bool:
    delivered = member.report.delivered
    return all(len(member.handed(one)) == last for one, last in delivered.items())


def _last_words(member: Member, status: int) -> str:
    """Of one that ended by itself: one line, which it is then known to have said."""
    ended = member.ended()
    try:
        member.check()
    except FleetFault as fault:
        words = str(fault)
    else:
        raise AssertionError(f"{member.name} ended with status {ended}, and without a word")
    assert (ended, words.count("\n")) == (status, 0), f"{ended}: {words}"
    return words


def _log(member: Member) -> Path:
    return member.group_file.with_name(f"{member.name}.log")


def _log_bytes(member: Member) -> int:
    return _log(member).stat().st_size


def _is_turned_away(twin: Member) -> bool:
    return f"another process is linked as {twin.name}" in _log(twin).read_text()


def _have_refused(one: Member, others: Sequence[Member], logs: dict[str, int]) -> bool:
    """Whether each pair has told on both sides, since the logs were so long."""
    pairs = [(one, other) for other in others]
    return all(
        re.search(f"no link: .* {a.name} has limits.text_bytes = .*, {b.name} has ", log)
        or re.search(f"no link: .* {b.name} has limits.text_bytes = .*, {a.name} has ", log)
        for a, b in pairs
        for log in (_reported_since(a, logs), _reported_since(b, logs))
    )


def _reported_since(member: Member, logs: dict[str, int]) -> str:
    return _log(member).read_bytes()[logs[member.name] :].decode()


def assert_the_healthy_hold(outcome: Outcome, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        first = verdict.violations[:1] or verdict.reason
        assert verdict.value is Value.HOLDS, f"{verdict.guarantee}: {first}"
        assert verdict.judged, verdict.guarantee
    assert outcome.is_calm
    assert outcome.repeated == 0


def assert_all_mishaps_happened(faults: Counter[str], signs: Counter[str], times: int) -> None:
    for what in MISHAPS:
        assert faults[what] >= times, f"{what}: {faults}"
    assert signs["left unread"] >= times, signs
    assert signs["twins"] == signs["twins turned away"] + signs["twins refused"]
    assert signs["deleted while full"] <= times // 2, signs
