"""A group of members as processes of the operating system, driven by whoever runs an experiment.

    with Fleet(Path("group.toml")) as fleet:
        fleet["p1"].publish(per_s=400)
        fleet["p3"].kill()
        fleet["p3"].start()
        fleet.settle()

Each member is a ``python -m tidings.testkit.member``, told what to do over its standard input; its
reports are gathered by a thread and can be asked for at any time. What the members log on standard
error stands beside the group file, in ``p1.log`` and so on. Whoever lives when the block ends is
killed, by its process id; a fleet that dies itself takes the members with it, since their input
ends.

A fleet is the runner of an experiment as the trace format means it: ``settle`` says when load and
faults are over, and writes what became of everybody into the manifest.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Self, TypeVar

import msgspec

from tidings.core import Exit, IntervalSet, TidingsError
from tidings.core.ranks import percentile
from tidings.disk.files import whole_file
from tidings.node.config import Config, read_config
from tidings.testkit.member import (
    Alter,
    Command,
    FirstAndLast,
    HealInjector,
    Hush,
    Publish,
    Report,
    Rest,
    Say,
    bucket_s,
)
from tidings.testkit.proxy import Do, Proxy, in_background
from tidings.trace import Manifest
from tidings.trace.manifest import Fate
from tidings.trace.schema import SCHEMA_VERSION
from tidings.trace.segments import settle

T = TypeVar("T")
PATIENCE_S = 60.0
"""How long anything may take before it counts as never."""

Latencies = Counter[int]
"""How many receipts took how long; ``percentile_s`` reads it, and differences are fine."""

PORTS = range(10_000, 32_768)
"""Where to look for free ones. Outgoing connections get theirs from above, if nobody has changed
that; so a member that is down for a while finds its own free when it comes back."""


class FleetFault(TidingsError):  # noqa: N818 - reads as what happened
    """A member ended by itself, or what was waited for did not come."""

    def __init__(self, text: str, status: int = Exit.BUG) -> None:
        super().__init__(text)
        self.status = Exit(status) if status in list(Exit) else Exit.BUG


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens at the moment."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found


def percentile_s(latencies: Latencies, share: float) -> float:
    """The time within which this share of the receipts came."""
    buckets = sorted(latencies.elements())
    return bucket_s(percentile(100 * share, buckets)) if buckets else 0.0


class Member:
    """One member over all its lives, and everything it has reported."""

    def __init__(
        self,
        name: str,
        group_file: Path,
        changed: Condition,
        within: Sequence[str] = (),
        address: str = "",
    ) -> None:
        self.name = name
        self.group_file = group_file
        self.address = address
        """Where it is reached, if the group file does not say it."""
        self._within = within
        self.lives = 0
        self.fate: Fate = "left"
        """What became of it, as the manifest will say it."""
        self.status: int | None = None
        """With which exit status its last life ended."""
        self.is_stopped = False
        self.report = Report()
        """How it is doing in this life, as far as it has told."""
        self.sent = IntervalSet()
        """Of which of its own messages the receipts said delivered."""
        self.got: dict[str, IntervalSet] = {}
        """What it was handed, by origin."""
        self.again: dict[str, IntervalSet] = {}
        """What it was handed again after a restart."""
        self.repeated: list[tuple[str, FirstAndLast]] = []
        """What it was handed twice, and not marked as such: always empty, one hopes."""
        self.offered = 0
        """How many texts it has broadcast, in all its lives."""
        self.latencies = Latencies()
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: Thread | None = None
        self._changed = changed
        self._commands = 0
        self._offered_before = 0
        self._is_known_to_have_failed = False

    # --- living and dying

    @property
    def is_up(self) -> bool:
        """Whether its process lives, stopped or not."""
        return self._process is not None and self.status is None

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def _input(self) -> IO[bytes]:
        assert self._started.stdin is not None
        return self._started.stdin

    def start(
        self, *wrapper: str, injector: str = "", report_ms: float = 20, wait: bool = True
    ) -> None:
        """Begin a life; returns when the member has joined, or raises why it could not.

        The wrapper is a program that runs the member, such as strace. The injector is put between
        TCP and the protocol: ``seed=7 lost=0.1 duplicated=0.05 reordered=0.1``.
        """
        assert not self.is_up, f"{self.name} is up already"
        program = (sys.executable, "-m", "tidings.testkit.member", self.name, str(self.group_file))
        options = [f"--report-ms={report_ms}", f"--injector={injector}"]
        options += [f"--address={self.address}"] if self.address and not self.lives else []
        self.lives += 1
        # Lives are on either loop in turn. A wrapper knows the system calls of one of them.
        if self.lives % 2 and not wrapper:
            options.append("--fast")
        self.status, self.is_stopped, self.report = None, False, Report()
        self._commands, self._offered_before = 0, self.offered
        self._is_known_to_have_failed = False
        with self.group_file.with_name(f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, *wrapper, *program, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.fate = "up"
        self._reading = Thread(target=self._read, args=(self._process,), daemon=True)
        self._reading.start()
        if wait:
            self.wait_until_joined()

    def wait_until_joined(self) -> None:
        self.wait_for(lambda: self.report.joined, "to join")

    def kill(self) -> None:
        """SIGKILL; everything it has reported is known when this returns."""
        self.slay()
        self.ended()

    def slay(self) -> None:
        """SIGKILL, without waiting for the end."""
        self._signal(signal.SIGKILL)
        self._end_input()  # a wrapper is dead, and what it ran may not be

    def stop(self) -> None:
        """SIGSTOP: it does nothing any more, and its sockets stay open."""
        self._signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_stopped = False

    def leave(self) -> None:
        """In good order."""
        assert not self.is_stopped, f"{self.name} is stopped, and cannot leave"
        self._end_input()
        if status := self.ended():
            raise FleetFault(self._last_words(), status)

    def _end_input(self) -> None:
        """It has nothing more to expect, and leaves when it notices."""
        with suppress(BrokenPipeError):
            self._input.close()

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end of this life: its exit status, as subprocess has it."""
        assert self._reading is not None, f"{self.name} was never started"
        try:
            self._started.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise FleetFault(f"{self.name} did not end within {timeout_s:g} s") from None
        self._reading.join()
        assert self.status is not None
        return self.status

    def _signal(self, number: int) -> None:
        assert self.is_up, f"{self.name} is not up"
        self._started.send_signal(number)  # to nobody, if it has just died

    # --- telling it what to do

    def say(self, times: int, text: str) -> None:
        """Broadcast a text so many times, as fast as possible."""
        self._command(Say(times, text))

    def publish(self, per_s: float, *, count: int | None = None, text_bytes: int = 100) -> None:
        """Offer numbered texts at this rate, until so many are broadcast or ``hush``."""
        self._command(Publish(per_s, f"{self.name} in life {self.lives}", text_bytes, count))

    def hush(self) -> None:
        """Publish no more; what is to be said is said."""
        self._command(Hush())

    def heal(self) -> None:
        """Its injector lets everything pass from now on."""
        self._command(HealInjector())

    def rest(self) -> None:
        """Its program reads nothing more in this life; the member takes part all the same."""
        self._command(Rest())

    def alter(self, *, add: "Member | None" = None, remove: str = "") -> None:
        """Ask the group for a change; ``report.altered`` and ``denied`` say what came of it."""
        newcomer = (add.name, add.address) if add is not None else ("", "")
        self._command(Alter(*newcomer, remove))

    def _command(self, command: Command) -> None:
        self._commands += 1
        with suppress(BrokenPipeError):  # it has just died, which its fate tells
            self._input.write(msgspec.json.encode(command) + b"\n")
            self._input.flush()

    # --- what it tells

    @property
    def is_idle(self) -> bool:
        """Whether it has done all that it was told to."""
        return self.report.obeyed == self._commands and not self.report.busy

    @property
    def rss_bytes(self) -> int:
        """How much memory it has at the moment."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def handed(self, origin: str) -> IntervalSet:
        """What of an origin it was handed, in any life."""
        handed = self.got.get(origin, IntervalSet()).copy()
        handed.update(self.again.get(origin, IntervalSet()))
        return handed

    def wait_for(self, is_so: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for something that this member reports."""
        with self._changed:
            self._changed.wait_for(lambda: is_so() or not self.is_up, timeout_s)
            if not is_so():
                self.check()
                raise FleetFault(f"waited in vain for {self.name} {what}: {self.report}")

    def check(self) -> None:
        """Raise what this member ended with, if it failed; once."""
        if self.status is not None and self.status > 0 and not self._is_known_to_have_failed:
            self._is_known_to_have_failed = True
            raise FleetFault(self._last_words(), self.status)

    def _last_words(self) -> str:
        if self.report.error:
            return self.report.error
        log = self.group_file.with_name(f"{self.name}.log").read_text(errors="replace")
        return f"{self.name}: {(log.splitlines() or ['it said nothing'])[-1]}"

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """In a thread of its own, until the member ends."""
        assert process.stdout is not None
        decode = msgspec.json.Decoder(Report).decode
        for line in process.stdout:
            if line.endswith(b"\n"):
                with self._changed:
                    self._learn(decode(line))
                    self._changed.notify_all()
        status = process.wait()
        with self._changed:
            self.status = status
            self.fate = "left" if status == 0 else "crashed"
            self._changed.notify_all()

    def _learn(self, report: Report) -> None:
        if report.error:  # its last word, and nothing but that
            self.report = msgspec.structs.replace(self.report, error=report.error)
            return
        self.report = report
        self.offered = self._offered_before + report.offered
        for ours in report.sent:
            self.sent.add_range(*ours)
        for origin, ranges in report.got.items():
            got = self.got.setdefault(origin, IntervalSet())
            for first, last in ranges:
                before = len(got)
                got.add_range(first, last)
                if len(got) < before + last - first + 1:
                    self.repeated.append((origin, (first, last)))
        for origin, ranges in report.again.items():
            for first, last in ranges:
                self.again.setdefault(origin, IntervalSet()).add_range(first, last)
        self.latencies.update(report.latencies)


class Fleet:
    """All members of a group; started on entering, dead on leaving."""

    def __init__(
        self,
        path: Path,
        *,
        proxied: bool = False,
        seed: int = 0,
        injector: str = "",
        report_ms: float = 20,
        within: Callable[[str], Sequence[str]] = lambda name: (),
    ) -> None:
        """``path`` is that of the group file.

        With ``proxied``, the members talk through the link proxy, whose jitter the seed decides:
        see ``on_links``. The injector and ``report_ms`` are those of every first life. ``within``
        says what goes before the command of a member in every life, such as ``ip netns exec``.
        """
        self.path = path
        self.config: Config = read_config(path)
        self.seed = seed
        self.proxy = Proxy(self.config.addresses, seed=seed) if proxied else None
        self._changed = Condition()
        self.members = {
            name: Member(name, path, self._changed, within(name)) for name in self.config.members
        }
        self._within = within
        self._injector = injector
        self._report_ms = report_ms
        self._do: Do | None = None
        self._stack: ExitStack
        """What there is to do on leaving."""

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def newcomer(self, name: str, address: str = "") -> Member:
        """Start somebody who is not in the group file; a member may be told to add it.

        It is reached at this address, or at one that is free; never through the proxy, whose links
        are those of the group file.
        """
        address = address or f"127.0.0.1:{free_ports(1)[0]}"
        one = Member(name, self.path, self._changed, self._within(name), address)
        self.members[name] = one
        one.start(injector=self._injector, report_ms=self._report_ms)
        return one

    def address_of(self, name: str) -> str:
        """Where this one listens."""
        return self[name].address or str(self.config.addresses[name])

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.proxy is not None:
                self._do = stack.enter_context(in_background(self.proxy))
                # Each member has its own idea of the others' addresses.
                text = self.path.read_text(encoding="utf-8")
                for member in self:
                    member.group_file = self.path.with_name(f"{self.path.stem}-{member.name}.toml")
                    seen = self.proxy.group_file_for(member.name, text, self.path)
                    with whole_file(member.group_file) as draft:
                        draft.write_text(seen)
            stack.callback(self.kill)
            for member in self:
                member.start(injector=self._injector, report_ms=self._report_ms, wait=False)
            for member in self:
                member.wait_until_joined()
            self.wait_for(self.have_met, "all to have met")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *fault: object) -> None:
        self._stack.close()

    # --- driving

    @property
    def up(self) -> list[Member]:
        return [member for member in self if member.is_up]

    def kill(self, *names: str) -> None:
        """SIGKILL these at once, or everybody: first all of them, then wait.

        So nobody is left even if we are interrupted while we wait.
        """
        doomed = [member for member in self.up if not names or member.name in names]
        for member in doomed:
            member.slay()
        for member in doomed:
            member.ended()

    def on_links(self, action: Callable[[Proxy], T]) -> T:
        """Do something to the links: ``fleet.on_links(lambda links: links["p1", "p2"].cut())``."""
        assert self.proxy is not None, "this fleet has no proxy"
        assert self._do is not None, "this fleet has not started"
        proxy = self.proxy
        return self._do(lambda: action(proxy))

    def wait_for(self, is_so: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for something that members report; raises if one of them ends by itself."""
        if not self.comes_true(is_so, timeout_s):
            reports = "; ".join(f"{one.name}: {one.report}" for one in self)
            raise FleetFault(f"waited {timeout_s:g} s in vain for {what}: {reports}")

    def comes_true(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it does within this time."""

        def is_so_at_last() -> bool:
            if is_so():
                return True
            for member in self:
                member.check()
            return False

        with self._changed:
            return self._changed.wait_for(is_so_at_last, timeout_s)

    # --- what is known

    @property
    def inside(self) -> list[Member]:
        """Whoever is up, and a member of the newest view that anybody who is up has installed."""
        newest = max((member.report for member in self.up), key=lambda one: one.view, default=None)
        members = newest.members if newest is not None else ()
        return [member for member in self.up if member.name in members]

    def are_linked(self) -> bool:
        """Whether every member that is up has a link to every other one that is."""
        up = {member.name for member in self.inside}
        return bool(up) and all(up <= {one.name, *one.report.linked} for one in self.inside)

    def have_met(self) -> bool:
        """Whether all are linked, and have said what they know: a new group begins with that."""
        return self.are_linked() and not any(one.report.awaited for one in self.inside)

    def are_equal(self) -> bool:
        """Whether all members that are up have delivered the same, and all that they broadcast."""
        up = self.inside
        return all(
            one.is_idle
            and one.report.delivered == up[0].report.delivered
            and one.report.assured == one.report.offered
            for one in up
        )

    def latencies(self) -> Latencies:
        """Of all members in all lives, so far."""
        return sum((member.latencies for member in self), Latencies())

    # --- the end of an experiment

    def settle(self, *, grace_s: float = 0.5, timeout_s: float = PATIENCE_S) -> bool:
        """End the load and the faults, wait until all is calm, let everybody leave, and say so.

        Calm is when everybody who is up is linked, has delivered the same and all of its own, and
        for ``grace_s`` nothing has changed. When that does not come to pass within ``timeout_s``,
        the run is declared settled all the same: what is missing then is a violation, and False
        is returned. But who is not linked after that time makes the run a failed experiment.
        """
        for member in self.up:
            assert not member.is_stopped, f"{member.name} is stopped: resume it or kill it first"
            member.hush()
            member.heal()
        if self.proxy is not None:
            self.on_links(lambda links: links.heal())
        self.wait_for(self.are_linked, "all to be linked", timeout_s)
        is_calm = self._calm_comes(grace_s, timeout_s)
        settled = [member.name for member in self.inside]
        for name in settled:
            self[name].leave()
            self[name].fate = "up"
        for outsider in self.up:  # a newcomer, or a member that was removed
            outsider.leave()
        self._write_manifest(settled, grace_s)
        return is_calm

    def _calm_comes(self, grace_s: float, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while self.comes_true(self.are_equal, deadline_s - time.monotonic()):
            before = [member.report.delivered for member in self.inside]

            def has_changed(before: Sequence[Mapping[str, int]] = before) -> bool:
                now = [one.report.delivered for one in self.inside]
                return before != now or not self.are_linked()

            if not self.comes_true(has_changed, grace_s):
                return True
        return False

    def _write_manifest(self, settled: Sequence[str], grace_s: float) -> None:
        """The runner's part: what became of everybody, and that these have settled."""
        folder = self.config.trace_folder
        settle(folder, self.config.name, settled, time.time_ns())
        part = Manifest(
            schema=SCHEMA_VERSION,
            run=self.config.name,
            seed=self.seed,
            fates={member.name: member.fate for member in self},
            grace_ms=grace_s * 1e3,
        )
        with whole_file(folder / "runner.manifest.jsonl") as draft:
            draft.write_bytes(msgspec.json.encode(part) + b"\n")
