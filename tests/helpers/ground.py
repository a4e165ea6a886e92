"""The words in which the scenarios are written: what can be done to a group, wherever it runs.

There are three grounds. On the simulated one a World is driven by a seed; on the real one members
are processes of the operating system, with a proxy between their sockets. Where a fault of the
real network has no like in the simulator, its nearest meaning there is said in its place. On
machines the processes have network namespaces and certificates, and the fault is a pulled cable.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Self

from tidings.core import Members
from tidings.spec import Value, judge
from tidings.trace import Run


class Weather(NamedTuple):
    """The shares of packets that get lost, come twice, are overtaken, above TCP."""

    lost: float = 0.0
    duplicated: float = 0.0
    reordered: float = 0.0


CALM = Weather()


class Group(ABC):
    """Members p1 to pN, on any ground."""

    members: Members

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *fault: object) -> None: ...

    # --- speaking

    @abstractmethod
    def say(self, member: str, count: int = 1, size: int = 10) -> None:
        """Broadcast so many texts of so many bytes."""

    @abstractmethod
    def talk(self, rate: float) -> None:
        """From now on everybody who is up broadcasts, so many per second each, until the end."""

    @abstractmethod
    def hush(self) -> None:
        """Nobody begins another broadcast."""

    # --- waiting

    @abstractmethod
    def until(self, is_so: Callable[[], bool]) -> None:
        """Let things happen until this is so; if it never is, that is a failure."""

    @abstractmethod
    def delivered(self, member: str) -> int:
        """How many messages it has delivered, in all its lives."""

    def until_delivered(self, count: int, *members: str) -> None:
        """Until each of these, or of all, has delivered so many messages in all."""
        who = members or self.members
        self.until(lambda: all(self.delivered(member) >= count for member in who))

    def go_on(self, count: int, *members: str) -> None:
        """Until each of these, or of all, has delivered so many more messages than now."""
        goals = {member: self.delivered(member) + count for member in members or self.members}
        self.until(lambda: all(self.delivered(one) >= goal for one, goal in goals.items()))

    # --- links

    @abstractmethod
    def slow(self, delay_ms: float, jitter_ms: float = 0.0) -> None:
        """What is sent from now on takes so long, and up to ``jitter_ms`` longer."""

    @abstractmethod
    def break_off(self, sender: str, receiver: str) -> None:
        """Their connection is reset in the middle of what the sender says next."""

    @abstractmethod
    def half_open(self, sender: str, receiver: str) -> None:
        """The sender finds its connection reset; the receiver is not told, and talks on."""

    @abstractmethod
    def cut(self, sender: str, receiver: str) -> None:
        """Nothing arrives any more of what the one says to the other."""

    @abstractmethod
    def part(self, one: Members, other: Members) -> None:
        """Nothing arrives any more between these two sides."""

    @abstractmethod
    def heal(self) -> None:
        """Every link works again."""

    @abstractmethod
    def is_linked(self, one: str, other: str) -> bool:
        """Whether the one has a link to the other, as far as it knows."""

    # --- processes

    @abstractmethod
    def kill(self, *members: str) -> None:
        """SIGKILL; in the middle of a broadcast, if they are talking."""

    @abstractmethod
    def restart(self, *members: str) -> None:
        """Start again who was killed, with what is on its disk."""

    @abstractmethod
    def restart_without_disk(self, member: str) -> None:
        """Start again who was killed, with nothing."""

    @abstractmethod
    def is_up(self, member: str) -> bool: ...

    @abstractmethod
    def stop(self, *members: str) -> None:
        """SIGSTOP: they neither hear nor speak, and lose nothing."""

    @abstractmethod
    def resume(self, *members: str) -> None:
        """SIGCONT."""

    # --- the end

    def settle(self) -> Run:
        """End the load and the faults, let everything arrive, and judge what happened."""
        self.hush()
        self.heal()
        run = self.trace()
        for verdict in judge(run):
            first = verdict.violations[:1] or verdict.reason
            assert verdict.value is Value.HOLDS, f"{verdict.guarantee}: {verdict.violated}, {first}"
            assert verdict.judged, f"{verdict.guarantee}: there was nothing to judge"
        return run

    @abstractmethod
    def trace(self) -> Run:
        """What happened, once nothing more happens."""
