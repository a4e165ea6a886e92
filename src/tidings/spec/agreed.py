"""The views that the members of a group agreed on, as far as the rows about them tell.

Each view has a number. A row that installs it names its list of members and its *cut*: of each
origin, up to which message everybody has delivered before this view, in all views there were. So
two views that follow each other bound what belongs between them, and of a trace that is not
complete the views that it knows still do.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tidings.core import Members
from tidings.spec.verdict import Place, ViewRule
from tidings.trace import Row
from tidings.trace.schema import AGREED

Counts = Mapping[str, int]


class Decision(NamedTuple):
    """A view of which the trace tells; the first row that installs it stands for it."""

    number: int
    view: int
    """Where its members stand in the table of lists."""
    cut: Counts
    upto: Counts
    """The same, but never less than in a view before."""
    place: Place | None
    """None for the view with which the group began."""


class Stay(NamedTuple):
    """The time that a process spends in one view, or, before its first, in none."""

    process: str
    begin: int
    end: int | None
    """The index of the row that installs the next view."""
    view: int | None
    rank: int | None
    """Which of the decisions it is."""

    @property
    def entry(self) -> Place | None:
        """The row that installed the view, unless the process began in it."""
        return Place(self.process, self.begin) if self.rank else None


class Misstep(NamedTuple):
    """A row about a view that cannot be right, and the one that shows it, if there is one."""

    row: Row
    rule: ViewRule
    other: Place | None

    @property
    def witness(self) -> tuple[Place, ...]:
        here = Place(self.row.process, self.row.index)
        return (here,) if self.other is None else (self.other, here)


class AgreedViews:
    """Empty, and false, for a run without any row about an agreed view."""

    def __init__(
        self,
        views: tuple[Members, ...],
        histories: Mapping[str, Sequence[Row]],
        processes: Members,
        holed: frozenset[str],
    ) -> None:
        self.views = views
        self.processes = processes
        self.holed = holed
        self.steps = {
            process: [row for row in rows if row.kind in AGREED and isinstance(row.value, int)]
            for process, rows in histories.items()
        }
        """The rows about agreed views, of each process."""

    def __bool__(self) -> bool:
        return any(self.steps.values())

    @property
    def rows(self) -> int:
        return sum(map(len, self.steps.values()))

    # --- what was decided

    @cached_property
    def decisions(self) -> list[Decision]:
        """By number, from the view with which the group began."""
        first: dict[int, Row] = {}
        for process in self.processes:
            for row in self.steps.get(process, ()):
                if row.kind != "leave":
                    first.setdefault(_number(row), row)
        decided = [Decision(0, 0, {}, {}, None)]
        for number in sorted(first):
            row, cut, before = first[number], _cut(first[number]), decided[-1].upto
            upto = {one: max(cut.get(one, 0), before.get(one, 0)) for one in {**before, **cut}}
            place = Place(row.process, row.index)
            decided.append(Decision(number, _view(row), cut, upto, place))
        return decided

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {decision.number: rank for rank, decision in enumerate(self.decisions)}

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The number of each list of members that was installed."""
        numbers = {0: 0}
        for process in self.processes:
            for row in self.steps.get(process, ()):
                if row.kind != "leave":
                    numbers.setdefault(_view(row), _number(row))
        return numbers

    # --- where each process was

    def has_got_through(self, process: str, view: int) -> bool:
        """Whether it installed a later view, or left by a later decision."""
        number = self._numbers.get(view)
        steps = self.steps.get(process, ())
        return number is not None and any(_number(row) > number for row in steps)

    def has_left(self, process: str) -> bool:
        """Whether it left by a decision, and no later row puts it into a view again."""
        return any(row.kind == "leave" for row in self.steps.get(process, ())[-1:])

    def is_behind(self, process: str, lost: set[int]) -> bool:
        """Whether one of these lists was decided on after the last view that it installed."""
        last = max((_number(row) for row in self.steps.get(process, ())), default=0)
        return any(one.number > last and one.view in lost for one in self.decisions)

    def stays(self, process: str) -> Iterator[Stay]:
        """From the beginning of its history to its end."""
        is_founder = process in self.views[0]
        begin, view, rank = 0, 0 if is_founder else None, 0 if is_founder else None
        for row in self.steps.get(process, ()):
            if row.kind != "leave":
                yield Stay(process, begin, row.index, view, rank)
                begin, view, rank = row.index, _view(row), self._ranks[_number(row)]
        yield Stay(process, begin, None, view, rank)

    def following(self, stay: Stay) -> Decision | None:
        """The next view of which the trace tells."""
        after = len(self.decisions) if stay.rank is None else stay.rank + 1
        return self.decisions[after] if after < len(self.decisions) else None

    def bounds(self, stay: Stay, origin: str) -> tuple[int, int | None]:
        """Its messages above the first number belong to this time, up to the second if there is
        one."""
        if stay.rank is None or stay.view is None:
            return 0, 0
        low = self.decisions[stay.rank].upto.get(origin, 0)
        following = self.following(stay)
        if following is not None:
            return low, following.upto.get(origin, 0)
        return low, None if origin in self.views[stay.view] else low

    # --- what must not be

    def missteps(self) -> Iterator[Misstep]:
        """At most one for each row."""
        for process in self.processes:
            stay: Stay | None = None
            following = iter([] if process in self.holed else self.stays(process))
            for row in self.steps.get(process, ()):
                if row.kind != "leave":
                    stay = next(following, None)
                if (wrong := self._wrong(row, stay)) is not None:
                    yield wrong

    def _wrong(self, row: Row, stay: Stay | None) -> Misstep | None:
        """``stay`` is what the row ended, if that is known."""
        rank = self._ranks.get(_number(row))
        decision = self.decisions[rank] if rank is not None else None
        if row.kind == "leave":
            stays = decision is not None and row.process in self.views[decision.view]
            place = decision.place if decision is not None else None
            return Misstep(row, ViewRule.STAYING, place) if stays else None
        assert decision is not None
        assert rank is not None
        if stay is not None and not self._is_next(row, stay):
            return Misstep(row, ViewRule.OUT_OF_TURN, stay.entry)
        if decision.place != Place(row.process, row.index):
            is_other = (decision.view, decision.cut) != (_view(row), _cut(row))
            return Misstep(row, ViewRule.ANOTHER, decision.place) if is_other else None
        before = self.decisions[rank - 1]
        is_behind = any(decision.cut.get(one, 0) < last for one, last in before.upto.items())
        return Misstep(row, ViewRule.FALLING, before.place) if is_behind else None

    def _is_next(self, row: Row, stay: Stay) -> bool:
        if row.process not in self.views[_view(row)]:
            return False
        if row.kind == "join" or stay.rank is None:
            return row.kind == "join" and stay.rank is None
        return _number(row) == self.decisions[stay.rank].number + 1


def _number(row: Row) -> int:
    assert isinstance(row.value, int)
    return row.value


def _view(row: Row) -> int:
    assert isinstance(row.view, int)
    return row.view


def _cut(row: Row) -> Counts:
    vector = row.vector if isinstance(row.vector, dict) else {}
    return {origin: last for origin, last in vector.items() if last}
