"""The processes of one system, led through phases: what they did, how fast, and at what cost.

A member answers on its standard output:

    it hears                    it says
    (its start)                 ready
    window 100 2.0 10 0.0 ...   set                    a phase, and that it is prepared
    go                          sent 4711              it has stopped broadcasting
    12000                       done BEGIN END COMMITS how many deliveries there are in all lives
    check                       right                  every text, and the order of each origin
    (nothing more)              it leaves

Times are nanoseconds of CLOCK_MONOTONIC, one clock for all processes of a machine. A broadcast
counts when the application of every member has it: a phase lasts from the first member's begin to
the slowest member's last delivery. Then, with all clocks stopped, members check what they have, and
end with an error instead of ``right`` if any text is missing, repeated, altered or out of order.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from load.phases import Phase
from load.texts import FIRST

PATIENCE_S = 60.0
"""How long a member may take to answer, beyond the seconds of its phase."""
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


class CrewError(Exception):
    """A process of the system ended, said something else, or nothing."""


class NoDiskError(Exception):
    """The folder is not on a disk."""


class Sample(NamedTuple):
    """What one phase came to."""

    broadcasts: int
    seconds: float
    cpu_s: float
    """Of all processes of the system: members, and servers if it has any."""
    commits: int
    """Of all members together."""
    latencies_ns: list[int]
    """Ascending: from ``broadcast`` until the slowest member's application has it."""

    @property
    def per_s(self) -> float:
        return self.broadcasts / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.broadcasts


class Program:
    """A member, with which we talk, or a server, whose words all go into its log."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        talks: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we end what we started.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self._unread = b""

    def say(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, word: str, patience_s: float = PATIENCE_S) -> list[str]:
        """The words after this one; any line that begins otherwise is passed over."""
        until = time.monotonic() + patience_s
        while True:
            words = self._line(until).split()
            if words[:1] == [word]:
                return words[1:]

    def _line(self, until: float) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([self.process.stdout], [], [], left_s)[0]:
                raise CrewError(f"{self.name} says nothing; {self._last_words()}")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise CrewError(f"{self.name} ended; {self._last_words()}")
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"its last words: {lines[-1]}" if lines else "without a word"

    def cpu_s(self) -> float:
        """Of all its threads; the kernel counts in hundredths of a second."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Politely, then by force."""
        if self.process.stdin is None:
            self.process.terminate()
        else:
            with suppress(BrokenPipeError):  # it may have died with words on their way to it
                self.process.stdin.close()  # a member that hears nothing more leaves
        for insist in (self.process.terminate, self.process.kill):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
                break
            insist()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running(program: Program) -> Iterator[Program]:
    try:
        yield program
    finally:
        program.end()


class Crew:
    def __init__(self, members: Sequence[Program], servers: Sequence[Program] = ()) -> None:
        self.members = members
        self._all = (*members, *servers)
        self._delivered = 0
        self._commits = 0

    def run(self, phase: Phase) -> Sample:
        with tempfile.TemporaryDirectory() as stamps:
            # Where the window decides the pace, only the rate is of interest.
            keeps = phase.kind != "window"
            return self._run(phase._replace(stamps=stamps) if keeps else phase)

    def _run(self, phase: Phase) -> Sample:
        self._ask_all(phase.line(), "set")
        cpu_s = self._cpu_s()
        sent = [int(count) for (count,) in self._ask_all("go", "sent", phase.seconds)]
        self._delivered += sum(sent)
        done = self._ask_all(str(self._delivered), "done")
        begins, ends, commits = zip(*(map(int, words) for words in done), strict=True)
        before, self._commits = self._commits, sum(commits)
        cpu_s = self._cpu_s() - cpu_s
        self._ask_all("check", "right")
        assert sum(sent), "nobody has broadcast anything"
        return Sample(
            broadcasts=sum(sent),
            seconds=(max(ends) - min(begins)) / 1e9,
            cpu_s=cpu_s,
            commits=self._commits - before,
            latencies_ns=latencies_ns(Path(phase.stamps), len(self.members)),
        )

    def _ask_all(self, words: str, answer: str, seconds: float = 0.0) -> list[list[str]]:
        for member in self.members:
            member.say(words)
        return [member.hear(answer, PATIENCE_S + seconds) for member in self.members]

    def _cpu_s(self) -> float:
        return sum(program.cpu_s() for program in self._all)


def latencies_ns(stamps: Path, members: int) -> list[int]:
    """Ascending, until the slowest member had each of them; empty if no times were kept."""
    if not stamps.is_dir():
        return []
    letters = [chr(FIRST + place) for place in range(members)]
    waits: list[int] = []
    for origin in letters:
        sent = _times(stamps / f"{origin}.sent")
        came = [_times(stamps / f"{reader}.{origin}") for reader in letters]
        waits += (max(ends) - begin for begin, *ends in zip(sent, *came, strict=True))
    return sorted(waits)


def _times(file: Path) -> "array[int]":
    times = array("q")
    times.frombytes(file.read_bytes())
    return times


def file_system_of(folder: Path, mounts: str) -> str:
    """The kind of the file system that this folder is on, by the lines of /proc/mounts."""
    kinds = {Path(line.split()[1]): line.split()[2] for line in mounts.splitlines()}
    return next(kinds[one] for one in (folder, *folder.parents) if one in kinds)


def check_disk(folder: Path, mounts: str = "") -> None:
    kind = file_system_of(folder.resolve(), mounts or Path("/proc/mounts").read_text())
    if kind in MEMORY_FILE_SYSTEMS:
        raise NoDiskError(f"{folder} is on {kind}, which is no disk: name one with --disk")


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """What ends everything on Ctrl-C ends it on SIGTERM too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
