"""The one interface that every algorithm implements and every holder drives."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

from tidings.core.effects import Effect
from tidings.core.events import Event
from tidings.core.group import Members
from tidings.core.message import MessageId
from tidings.core.part import Part
from tidings.core.rereading import Found
from tidings.core.state import Memo, copied_state, fingerprint, measured, shown

Choose = Callable[[str, Sequence[int]], int]
"""``choose(label, weights)`` draws a position in ``weights``: the only randomness there is.

The walk seeds it, the explorer branches on it, the schedule records it.
"""


def take_first(label: str, weights: Sequence[int]) -> int:
    """The chooser of those who want no chance: the first possible option."""
    return next(position for position, weight in enumerate(weights) if weight > 0)


class Checkpoint(NamedTuple):
    """What a process has persisted so far, in short, so that a holder need not keep all of it."""

    records: tuple[Any, ...]
    """These stand for all records before them, except for the messages that those hold."""
    forgotten: Mapping[str, int]
    """Of each origin, up to where the process will never again need a message."""


class Process(ABC):
    """A deterministic state machine: one event in, a list of effects out.

    A Process opens no socket, reads no clock, draws no random number of its own and logs
    nothing. Whoever holds it (simulator, explorer, real node) performs the effects, so the same
    object runs in a simulation, in the model checker and on a real network, unchanged.

    Its attributes are its state. Keep in them numbers, strings, bytes, tuples, frozen structs,
    and dicts, lists, sets and IntervalSets of these, or parts that do: then it can be copied,
    compared, shown and measured for free.
    """

    grows: ClassVar[bool] = False
    """Whether members may join after the start."""

    changes: ClassVar[bool] = False
    """Whether an operator may change the group, and all members agree on what comes of it."""

    recovers: ClassVar[bool] = False
    """Whether a crashed process may come back with what it persisted."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        self.me = me
        self.members = members
        self.choose = choose

    @abstractmethod
    def step(self, event: Event) -> list[Effect]: ...

    def steps(self, events: Iterable[Event]) -> list[Effect]:
        """What to do about events that have come together; only the last may be a Broadcast.

        A process may draw its conclusions once for all of them. Events are taken one by one, so
        that whoever makes them can stop at any time.
        """
        return [effect for event in events for effect in self.step(event)]

    def checkpoint(self) -> Checkpoint | None:
        """How to begin a new log; None if there is no shorter way than all records."""
        return None

    def messages_in(
        self, records: Iterable[Any], after: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Found]:
        """The messages whose texts stand in these records, each with its causes.

        Of each origin only those after so many: the causes of these are among those left out.
        """
        return iter(())

    def check(self, group: Mapping[str, "Process"]) -> None:  # noqa: B027 - many have nothing to say
        """Assert what must be true of this process among all, which only a simulator can see."""

    def awaited(self) -> Members:
        """Who has to say what it knows before this process can broadcast again after a restart."""
        return ()

    def why(self, message: MessageId) -> str:
        """What the message waits for here, in words, from the state alone."""
        return f"{self.me} cannot tell what {message} waits for"

    def kept_for(self) -> str:
        """Whom most of what is kept is kept for: a member, or somebody else in words; or nobody."""
        return ""

    def behind(self) -> Mapping[str, int]:
        """Of each peer, how many messages it is not known to hold that are held here."""
        return {}

    def held_back(self) -> Mapping[str, int]:
        """Of each origin, how many messages have arrived here and are not delivered yet."""
        return {}

    @property
    def indifferent(self) -> bool:
        """Whether it treats all members alike, whatever their names and their order.

        Then exchanging names in its state and in an event exchanges them in what it does, and
        the explorer need not look at both (core/renaming.py).
        """
        return False

    def compacted(self, records: Sequence[Any]) -> Sequence[Any]:
        """Fewer records, in a fixed order, from which the same state is recovered."""
        return records

    @property
    def others(self) -> Members:
        return tuple(member for member in self.members if member != self.me)

    def state(self) -> dict[str, Any]:
        """Everything that decides how this process will behave, and nothing else.

        Instead of a part, the fields of the part stand there.
        """
        state = self._attributes()
        parts = [name for name, value in state.items() if isinstance(value, Part)]
        for name in parts:
            fields = state.pop(name).state()
            assert state.keys().isdisjoint(fields), f"{name}: {fields.keys() & state.keys()} twice"
            state |= fields
        return state

    def _attributes(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "choose"}

    def describe(self) -> dict[str, Any]:
        """The state in plain values, for people."""
        return {name: shown(value) for name, value in self.state().items()}

    def kept(self) -> dict[str, int]:
        """How much of what is kept: ``ids``, ``ranges``, ``texts`` and ``bytes``."""
        return measured(self.state())

    def fingerprint(self) -> bytes:
        """The state as canonical bytes: equal states, equal bytes, under any hash seed."""
        return fingerprint(self.state())

    def fork(self, choose: Choose) -> Self:
        """A twin in the same state that shares nothing mutable with this one."""
        twin = object.__new__(type(self))
        # Whatever in the state knows the process itself is to know the twin.
        memo: Memo = {id(self): twin}
        vars(twin).update(copied_state(self._attributes(), memo))
        twin.choose = choose
        return twin

    def __deepcopy__(self, memo: Memo) -> Self:
        """In the state of another process it is copied as it copies itself."""
        return self.fork(take_first)

    def renew(self) -> None:
        """Go on with a copy of the state, such as a fork has.

        A set and its copy may be iterated in different orders, two copies of it in one only.
        """
        vars(self).update(copied_state(self._attributes(), {id(self): self}))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Process):
            return NotImplemented
        return type(self) is type(other) and self.state() == other.state()

    __hash__ = None  # type: ignore[assignment]
