"""docs/notes.md keeps its word: what it names exists, and what only it claims is shown here."""

import ast
import importlib.util
import re
from collections import Counter
from functools import cache
from inspect import signature
from itertools import chain
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest

from tidings.compare import contender_of, measure
from tidings.core import Choose, Event, Members, MessageId, take_first
from tidings.guests.diagnosis import trusted
from tidings.protocols import PROTOCOLS
from tidings.protocols.stage_gossip import ABSENT, DELIVERED, FORMS, HOLDS, StageGossip
from tidings.simulator import Plan, choices, schedule_of, walk
from tidings.spec import Value, judge
from tidings.trace import Run

ROOT = Path(__file__).parents[2]
NOTES = (ROOT / "docs" / "notes.md").read_text(encoding="utf-8")
SOURCES = [*(ROOT / "src" / "tidings").rglob("*.py"), ROOT / "bench" / "ranges.py"]
FIVE = ("first", "second", "third", "fourth", "fifth")
OURS = ("frontier", "views")
FROM_THE_NOTES = {
    name: one for name, one in PROTOCOLS.items() if not any(ours in name for ours in OURS)
}


def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


# --- what is named exists


@pytest.mark.parametrize("place", sorted(set(re.findall(r"tests/\w[\w/]*\.py::\w+", NOTES))))
def test_every_test_that_is_named_exists(place: str) -> None:
    path, name = place.split("::")
    assert name in functions_in(ROOT / path)


def test_the_gallery_is_named_completely_and_nothing_else() -> None:
    named = set(re.findall(r"flawed/[a-z-]+", NOTES))
    assert named == {name for name in FROM_THE_NOTES if name.startswith("flawed/")}


def test_every_algorithm_and_every_option_has_its_place() -> None:
    for name, algorithm in FROM_THE_NOTES.items():
        assert name in NOTES
        for option in list(signature(algorithm.kind).parameters)[3:]:
            assert f"`{option}`" in NOTES, f"{name} {option}"
    assert all(f"`{form}`" in NOTES for form in FORMS)
    named = set(re.findall(r"option `(\w+)`", NOTES))
    assert named == {"notice", "pull", "postpone", "form"}


def test_every_option_that_is_named_belongs_to_the_algorithm_of_its_chapter() -> None:
    for chapter in NOTES.split("\n## The ")[1:]:
        name = chapter.partition("\n")[0].rpartition(": ")[2]
        possible = signature(PROTOCOLS[name].kind).parameters
        assert set(re.findall(r"option `(\w+)`", chapter)) <= set(possible), name


NAMES = {
    "first": "_counter _messages_broadcasters state sender_state _messages_buffer "
    "_messages_deliver",
    "second": "on_local_message try_deliver_messages on_message",
    "third": "l1 r1 l2 r2",
    "fourth": "_acks _sent _received _delivered _check SEND BCAST ACK BCAST_DELIVER DELIVER FINACK",
    "fifth": "max_num",
}
"""What the notes themselves call things."""


def chapter_of(note: str) -> str:
    (chapter,) = re.findall(rf"\n## The {note} note(.*?)(?=\n## |$)", NOTES, re.DOTALL)
    return str(chapter)


@pytest.mark.parametrize("note", FIVE)
def test_what_a_note_calls_things_stands_beside_what_we_call_them(note: str) -> None:
    answer = " ".join(what for what, *_ in rows_of(note))
    for name in NAMES[note].split():
        assert re.search(rf"\b{name}\b", answer), name


def test_there_is_a_chapter_for_each_note() -> None:
    chapters = re.findall(r"^## The (\w+) note: ([a-z-]+)$", NOTES, re.MULTILINE)
    assert [which for which, _ in chapters] == list(FIVE)
    sound = [name for name, algorithm in PROTOCOLS.items() if not algorithm.breaks]
    assert {name for _, name in chapters} <= set(sound)


ROWS = {"first": 18, "second": 16, "third": 17, "fourth": 14, "fifth": 15}
"""Of each chapter: no statement of a note gets lost unnoticed."""


def rows_of(note: str) -> list[list[str]]:
    """What a note says, what there is here, what became of it, and a test."""
    head, rule, *rows = (line.split(" | ") for line in chapter_of(note).splitlines() if "|" in line)
    assert (len(head), len(rule)) == (4, 1)
    assert all(len(row) == 4 for row in rows)
    return rows


def test_every_row_names_code_that_exists_and_a_test() -> None:
    """In the second column every name in backticks is one that the sources use."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    answer = {note: rows_of(note) for note in FIVE}
    assert {note: len(rows) for note, rows in answer.items()} == ROWS
    for what, here, _, test in chain(*answer.values()):
        for name in re.findall(r"`([\w./]+)`", here):
            if "/" in name or name.endswith(".py"):
                exists = any(str(path).endswith(name) for path in SOURCES) or name in sources
                assert exists, f"{what}: {name}"
            else:
                last = name.rpartition(".")[2]
                assert re.search(rf"\b{last}\b", sources), f"{what}: {name}"
        assert "::test_" in test or test in ("random runs", "the gallery", "see the next rows"), (
            what
        )


# --- the space argument of the third note


@cache
def ranges() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ranges", ROOT / "bench" / "ranges.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BOUNDED, HEAVY, HEAVIEST = "delays of 1 to 20 ms", "Pareto tail 0.5", "Pareto tail 0.2"


@cache
def most(delays: str, what: str, messages: int) -> int:
    received = ranges().samples("ranges", delays, messages, seed=1)
    return max(one.most for one in received if one.what == what and not one.settled)


def test_bounded_delays_keep_the_ranges_few_and_a_heavy_tail_does_not() -> None:
    sets, everything = ranges().SETS, ranges().ALL
    assert most(BOUNDED, sets, 100) <= 40
    assert most(BOUNDED, sets, 200) <= 40
    assert most(HEAVY, sets, 200) >= 2 * most(BOUNDED, sets, 200)
    assert most(HEAVIEST, sets, 200) >= 4 * most(BOUNDED, sets, 200)
    assert most(HEAVIEST, sets, 200) >= 1.4 * most(HEAVIEST, sets, 100), "it grows with the load"
    assert most(BOUNDED, everything, 200) <= 600
    assert most(HEAVY, everything, 200) >= 4 * most(BOUNDED, everything, 200)


def test_at_rest_every_history_is_one_range_per_origin() -> None:
    for delays in ranges().TAILS:
        received = ranges().samples("ranges", delays, 60, seed=2)
        assert {one.most for one in received if one.settled} == {2 * 5}


def test_both_ways_of_keeping_ids_see_the_same_runs() -> None:
    received = ranges().samples("ids", HEAVY, 20, seed=3)
    (rest,) = (one for one in received if one.settled and one.what == ranges().SETS)
    assert rest.most == 2 * 5 * 20


def test_a_crashed_origin_leaves_a_few_gaps_and_no_more() -> None:
    def left(broadcasts: int) -> int:
        plan = Plan(protocol="interval-history", broadcasts=broadcasts, crashes=2, gap_ms_mean=1.0)
        rows = (row for seed in range(8) for row in walk(plan, seed).rows)
        return max(int(row.value) for row in rows if row.kind == "state" and row.name == "ranges")

    assert left(100) <= 60
    assert left(600) <= 60


# --- what the first note proposes


def sent(runs: list[Run]) -> Counter[str]:
    return Counter(str(row.packet_kind) for run in runs for row in run.rows if row.kind == "send")


def single_broadcasts(protocol: str, **options: bool) -> list[Run]:
    plan = Plan(protocol=protocol, options=options, processes=5, broadcasts=1)
    return [walk(plan, seed) for seed in range(100)]


def test_notices_replace_copies_and_most_where_relays_are_postponed() -> None:
    plain = sent(single_broadcasts("majority-relay"))
    noticed = sent(single_broadcasts("majority-relay", notice=True))
    both = sent(single_broadcasts("majority-relay", notice=True, postpone=True))
    assert plain.total() == noticed.total() == both.total()
    assert 0.9 * plain["copy"] < noticed["copy"] < plain["copy"]
    assert both["copy"] < 0.8 * plain["copy"]


def test_a_postponed_relay_is_made_in_the_end() -> None:
    plain = single_broadcasts("majority-relay")
    postponed = single_broadcasts("majority-relay", postpone=True)
    assert sent(postponed) == sent(plain)
    steps = (step.choice for run in postponed for step in schedule_of(run.manifest))
    assert sum(isinstance(choice, choices.TimerExpiry) for choice in steps) > 100
    assert all(v.value is Value.HOLDS for run in postponed for v in judge(run))
    assert sent(single_broadcasts("flawed/gambling-relay")).total() < 0.7 * sent(plain).total()


def test_pulling_brings_back_what_lossy_links_lost() -> None:
    """Of 2,000 deliveries that 400 broadcasts among five make: docs/notes.md quotes them."""

    def delivered(pull: bool) -> int:
        plan = Plan(options={"pull": pull}, broadcasts=10, links="lossy", lost=0.4)
        runs = [walk(plan, seed) for seed in range(40)]
        assert (sent(runs)["push"] > 0) == pull
        return sum(row.kind == "deliver" for run in runs for row in run.rows)

    assert {pull: delivered(pull) for pull in (False, True)} == {False: 1_151, True: 1_916}


# --- what the fifth note costs


def test_what_stage_gossip_costs_depends_on_the_delays() -> None:
    """The figures of docs/notes.md: with equal delays, and with those that a walk draws."""
    contenders = ("flawed/storm", "stage-gossip form=news", "stage-gossip form=ring")
    equal = [measure(contender_of(one), "one", 10, 1).packets for one in contenders]
    assert equal == [3_322, 1_179, 90]
    plans = [
        Plan(protocol=one.protocol, options=one.options, processes=10, broadcasts=1)
        for one in map(contender_of, contenders)
    ]
    drawn = [mean(sent([walk(plan, seed)]).total() for seed in range(10)) for plan in plans]
    assert [round(packets, -1) for packets in drawn] == [1_080, 560, 90]
    assert {(plan.delay_ms_min, plan.delay_ms_max, plan.tail) for plan in plans} == {(1, 20, 0)}


# --- why the fifth note's count is right


def test_a_stage_table_never_runs_ahead_of_the_truth() -> None:
    """After every step, whatever a process believes of another is true of it already."""

    @trusted
    class Watched(StageGossip):
        everybody: dict[str, StageGossip]

        def step(self, event: Event):
            effects = super().step(event)
            self.everybody[self.me] = self
            for message, table in self.stages.items():
                for member, believed in zip(self.members, table, strict=True):
                    assert believed <= stage_at(self.everybody.get(member), message)
            return effects

        def state(self):
            return {k: v for k, v in super().state().items() if k != "everybody"}

    def stage_at(process: StageGossip | None, message: MessageId) -> str:
        if process is None:
            return ABSENT
        if process._is_finished(message):
            return DELIVERED
        return HOLDS if message in process.waiting else ABSENT

    for form in FORMS:
        for seed in range(20):
            everybody: dict[str, StageGossip] = {}

            def make(
                me: str,
                members: Members,
                choose: Choose = take_first,
                form: str = form,
                everybody: dict[str, StageGossip] = everybody,
            ) -> Watched:
                watched = Watched(me, members, choose, form=form)
                watched.everybody = everybody
                return watched

            walk(Plan(broadcasts=8, crashes=2, duplicated=0.2), seed, factory=make)
            assert len(everybody) == 5
