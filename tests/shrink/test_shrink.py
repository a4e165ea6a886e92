"""Shrinking: a long failing run becomes as small as the smallest known, and fails alike."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from flaw_scenes import SCENARIOS, played
from tidings.core import DataError, UsageError, quorum
from tidings.protocols import factory
from tidings.shrink import Charge, charge_against, shrink
from tidings.shrink.play import Play, Sketch, Stage, sketch_of
from tidings.shrink.reduce import _plain_crashes, reduced
from tidings.shrink.trials import Trials
from tidings.simulator import Plan, RunReplay, choices, schedule_of, walk
from tidings.simulator.choices import Link, PacketId
from tidings.simulator.script import Script
from tidings.spec import Extra, Guarantee, judge
from tidings.trace import Run, read_runs, write_runs

LONG = Plan(processes=5, broadcasts=20, crashes=2, duplicated=0.05, partitions=1)

SMALLEST = {
    # flaw: the seed of a long run, what it breaks, and processes, broadcasts and steps at least
    "flawed/repeating": (0, Charge(Guarantee.NO_DUPLICATION), (2, 1, 3)),
    "flawed/hasty": (0, Charge(Guarantee.UNIFORM_AGREEMENT), (3, 1, 3)),
    "flawed/silent-relay": (69, Charge(Guarantee.UNIFORM_AGREEMENT), (3, 1, 6)),
    "flawed/gambling-relay": (0, Charge(Guarantee.VALIDITY), (3, 1, 6)),
    "flawed/careless": (0, Charge(Guarantee.CAUSAL_ORDER), (3, 2, 4)),
    "flawed/waiting-for-all": (0, Charge(Guarantee.UNIFORM_AGREEMENT), (2, 2, 7)),
    "flawed/leaving-out": (0, Charge(Extra.REACH), (2, 2, 4)),
    "flawed/forgetful-relay": (0, Charge(Extra.COST, 6), (3, 1, 4)),
}
"""As exhaustive search finds them; the soak test asks it, for every flaw of the gallery."""


@cache
def long_run(name: str) -> Run:
    seed, charge, _ = SMALLEST[name]
    joiners = 2 if charge.what is Extra.REACH or name == "flawed/waiting-for-all" else 0
    run = walk(msgspec.structs.replace(LONG, protocol=name, joiners=joiners), seed)
    assert len(list(run.rows)) >= 200
    return run


@cache
def shrunk(name: str) -> Run:
    _, charge, _ = SMALLEST[name]
    return shrink(long_run(name), charge.what, max_packets=charge.max_packets)


def size(run: Run) -> tuple[int, int, int]:
    broadcasts = sum(row.kind == "broadcast" for row in run.rows)
    return len(run.manifest.names), broadcasts, len(schedule_of(run.manifest))


@pytest.mark.parametrize("name", SMALLEST)
def test_a_long_run_shrinks_to_the_smallest_that_is_known(name: str, tmp_path: Path) -> None:
    _, charge, (processes, broadcasts, steps) = SMALLEST[name]
    small = shrunk(name)
    assert charge.against(small)
    assert size(small)[:2] == (processes, broadcasts)
    assert size(small)[2] <= 1.5 * steps
    write_runs(tmp_path, [small])
    (stored,) = read_runs(tmp_path)
    replay = RunReplay(stored)
    assert len(list(replay)) == size(small)[2]
    assert charge.against(replay.so_far()) == charge.against(small), "byte for byte"


@pytest.mark.parametrize("name", ["flawed/silent-relay", "flawed/hasty"])
def test_who_must_crash_for_a_failure_is_a_minority(name: str) -> None:
    small = shrunk(name)
    crashed = [name for name, fate in small.manifest.fates.items() if fate == "crashed"]
    assert 0 < len(crashed) < quorum(len(small.manifest.views[0]))


def test_a_failure_in_which_half_the_group_died_counts_only_if_the_first_one_was_such() -> None:
    question = "group p1 p2 p3 p4\nprotocol flawed/careless\n{}broadcast p1 question\n"
    answer = "receive p1->p2\nbroadcast p2 answer\nreceive p2->p1 copy p2#1"
    alive = scripted(question.format("") + answer)
    half_dead = scripted(question.format("crash p3\ncrash p4\n") + answer)
    stage = Stage(factory("flawed/careless"), "retrying", settles=False, most_steps=100)

    def received(first: Run, then: Run) -> bool:
        trials = Trials(stage, Charge(Guarantee.CAUSAL_ORDER), lambda pace: None)
        assert trials.source(sketch(first)) is not None
        return trials.failing(sketch(then)) is not None

    assert not received(alive, half_dead)
    assert received(half_dead, alive)
    assert received(half_dead, half_dead)


def test_a_run_written_by_hand_gets_smaller_too() -> None:
    run = played("flawed/leaving-out", SCENARIOS["flawed/leaving-out"])
    small = shrink(run)
    assert charge_against(small) == charge_against(run) == Charge(Extra.REACH)
    assert size(run) == (4, 2, 25)
    assert size(small) == (2, 2, 4)


def test_the_smaller_run_is_reported_in_plain_names_and_short_texts() -> None:
    small = shrunk("flawed/careless")
    assert small.manifest.names == ("p1", "p2", "p3")
    first, *_, last = [step.choice for step in schedule_of(small.manifest)]
    assert first == choices.UserBroadcast("p1", b"1")
    assert isinstance(last, choices.PacketArrival), "it ends where causal order is violated"
    assert [step.time_ns for step in schedule_of(small.manifest)] == [
        number * 1_000_000 for number in range(1, 5)
    ]


def test_texts_that_must_be_equal_stay_equal() -> None:
    plan = Plan(protocol="flawed/known-by-text", processes=3, broadcasts=12, texts=(b"same",))
    small = shrink(walk(plan, 1))
    assert size(small) == (1, 2, 3)
    assert len({step.choice for step in schedule_of(small.manifest)}) == 2


SHRINK = """
import msgspec
from tidings.shrink import shrink
from tidings.simulator import Plan, walk
plan = Plan(protocol="flawed/careless", crashes=2, duplicated=0.05, partitions=1)
run = shrink(walk(plan, 0))
print(msgspec.json.encode((run.manifest, list(run.rows))).decode())
"""


def test_the_same_run_shrinks_to_the_same_bytes_under_any_hash_seed() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-c", SHRINK],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(shown) == 1


def test_a_guarantee_can_be_chosen_where_several_are_broken() -> None:
    run = long_run("flawed/silent-relay")
    for what in (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT):
        small = shrink(run, what)
        assert small.manifest.plan == {"shrunk_from": run.manifest.run, "breaks": what.value}
        assert Charge(what).against(small)


def test_progress_is_reported_and_only_ever_downwards() -> None:
    sizes = []
    tried = []

    def note(pace) -> None:
        sizes.append(pace.size)
        tried.append(pace.tried)

    shrink(long_run("flawed/hasty"), progress=note)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1][:2] == (3, 1)
    assert tried == sorted(tried)


def test_a_process_of_ones_own_is_shrunk_by_its_factory() -> None:
    from tidings.protocols.flawed import Hasty

    run = walk(msgspec.structs.replace(LONG, crashes=2), 0, factory=Hasty)
    assert size(shrink(run, factory=Hasty)) == (3, 1, 3)


# --- reading a schedule loosely


RELAYING = Stage(factory("majority-relay"), "retrying", settles=False, most_steps=100)


def sketch(run: Run) -> Sketch:
    return sketch_of(run.manifest.views[0], schedule_of(run.manifest))


def scripted(text: str) -> Run:
    script = Script("test")
    for line in text.splitlines():
        script.command(line)
    return script.run()


TWO_MESSAGES = """\
group p1 p2 p3
protocol majority-relay
broadcast p1 one
broadcast p1 two
receive p1->p2 copy p1#2
receive p2->p1 copy p1#2
crash p1 losing p1->p3 copy p1#2"""


def test_what_is_left_keeps_its_meaning_when_messages_and_packets_are_renumbered() -> None:
    run = scripted(TWO_MESSAGES)
    first = Play(sketch(run), RELAYING)
    again = Play(first.sketch.without([1]), RELAYING)
    assert [step.choice for step in again.world.schedule] == [
        choices.UserBroadcast("p1", b"two"),
        choices.PacketArrival(PacketId(Link("p1", "p2"), 1)),
        choices.PacketArrival(PacketId(Link("p2", "p1"), 1)),
        choices.Crash("p1", (PacketId(Link("p1", "p3"), 1),)),
    ]


def test_a_packet_sent_on_another_occasion_stands_in_for_one_that_is_gone() -> None:
    run = scripted(
        "group p1 p2 p3\nprotocol majority-relay\nbroadcast p1 hi\n"
        "receive p1->p2\nreceive p2->p3\nreceive p3->p1"
    )
    first = Play(sketch(run), RELAYING)
    late = [*first.moves[:1], first.moves[1]._replace(id=99), *first.moves[2:]]
    again = Play(first.sketch.with_moves(*late), RELAYING)
    assert again.world.schedule == first.world.schedule


def test_moves_that_are_no_longer_possible_are_passed_over() -> None:
    run = scripted(TWO_MESSAGES + "\nbroadcast p2 three\nreceive p2->p3 copy p2#1")
    first = Play(sketch(run), RELAYING)
    assert len(first.moves) == 7
    alone = Play(first.sketch.among(["p1", "p3"]), RELAYING)
    assert [type(move.choice).__name__ for move in alone.moves] == [
        "UserBroadcast",
        "UserBroadcast",
        "Crash",
    ]
    assert alone.world.views[0] == ("p1", "p3")


def test_two_processes_can_be_merged_into_one() -> None:
    run = scripted(TWO_MESSAGES)
    first = Play(sketch(run), RELAYING)
    merged = first.sketch.renamed({"p1": "p1", "p2": "p1", "p3": "p3"})
    assert merged.members == ("p1", "p3")
    assert len(Play(merged, RELAYING).moves) == 3


def test_a_crash_in_mid_sentence_becomes_a_plain_one_that_loses_the_rest() -> None:
    """The process says all of it, and what it had not said before is lost with it."""
    run = scripted(
        "group p1 p2 p3 p4\nprotocol flawed/hasty\ncrash p1 after 2 sends\nbroadcast p1 hi\n"
        "receive p1->p2\nreceive p1->p3\nsettle"
    )
    stage = Stage(factory("flawed/hasty"), "retrying", settles=True, most_steps=100)
    trials = Trials(stage, Charge(Guarantee.UNIFORM_AGREEMENT), lambda pace: None)
    doomed = trials.source(sketch(run))
    assert doomed is not None
    plain = _plain_crashes(doomed, trials)
    lost = (PacketId(Link("p1", "p4"), 1),)
    assert [step.choice for step in plain.world.schedule[:2]] == [
        choices.UserBroadcast("p1", b"hi"),
        choices.Crash("p1", lost),
    ]
    assert plain.size.faults < doomed.size.faults
    whole = reduced(doomed, trials)
    assert not any(isinstance(move.choice, choices.Doom) for move in whole.moves)


def test_a_play_that_needs_an_end_is_completed_fairly() -> None:
    run = scripted("group p1 p2 p3\nprotocol majority-relay\ncut p1 | p2 p3\nbroadcast p1 hi")
    play = Play(sketch(run), RELAYING._replace(settles=True))
    assert [verdict.value.value for verdict in judge(play.run)] == ["holds"] * 5
    assert len(play.moves) == 2
    assert play.size.steps > 5


def test_a_play_without_end_is_given_up() -> None:
    run = scripted("group p1 p2 p3\nprotocol flawed/storm\nbroadcast p1 hi")
    stage = Stage(factory("flawed/storm"), "retrying", settles=True, most_steps=5)
    assert not Play(sketch(run), stage).came_to_rest


# --- refusals


def test_a_run_that_breaks_nothing_has_nothing_to_shrink() -> None:
    with pytest.raises(UsageError, match="breaks nothing, so there is nothing to shrink"):
        shrink(walk(LONG, 1))


def test_a_guarantee_that_is_not_broken_cannot_be_kept() -> None:
    with pytest.raises(UsageError, match="breaks causal order, and not validity"):
        shrink(long_run("flawed/careless"), Guarantee.VALIDITY)


def test_cost_needs_a_number_of_packets() -> None:
    with pytest.raises(UsageError, match="--max-packets"):
        shrink(long_run("flawed/forgetful-relay"), Extra.COST)


def test_a_run_that_does_not_come_out_as_stored_is_not_shrunk() -> None:
    run = long_run("flawed/careless")
    raw = msgspec.Raw(msgspec.json.encode(schedule_of(run.manifest)[:-1]))
    edited = Run(msgspec.structs.replace(run.manifest, schedule=raw), run.histories)
    with pytest.raises(DataError, match="the stored trace goes on"):
        shrink(edited)


# --- the command


def test_the_smaller_run_is_stored_with_its_story_and_can_be_replayed(tidings) -> None:
    write_runs(Path("t"), [long_run("flawed/silent-relay")])
    answer = tidings("shrink", "t")
    assert answer.status == 1
    assert "VALIDITY violated at" in answer.out
    (folder,) = Path("runs").glob("shrunk-*")
    assert {file.name for file in folder.iterdir()} >= {"manifest.jsonl", "story.md", "story.svg"}
    assert f"Replay:  tidings replay {folder}" in answer.out
    assert tidings("shrink", "t").out == answer.out, "the same input, the same run"
    assert len(list(Path("runs").iterdir())) == 1
    shown = tidings("replay", str(folder))
    assert shown.status == 1
    assert shown.out.partition("\n\n")[0] == answer.out.partition("\n\n")[0]
    smaller = json.loads(tidings("shrink", str(folder), "--json").out)
    assert smaller["after"] == smaller["before"], "it cannot be shrunk any further"


def test_a_run_of_too_many_packets_is_shrunk_and_replayed_as_such(tidings) -> None:
    words = ["simulate", "--seed", "0", "--protocol", "flawed/forgetful-relay", "--trace", "t"]
    assert tidings(*words).status == 0
    result = json.loads(tidings("shrink", "t", "--max-packets", "6", "--out", "s", "--json").out)
    assert result["breaks"] == "cost"
    assert result["after"] == {"processes": 3, "broadcasts": 1, "steps": 4, "rows": 17}
    again = tidings("replay", "s")
    assert again.status == 1
    assert "COST violated" in again.out
    assert tidings("shrink", "t", "--max-packets", "6", "--out", "s").status == 64


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["t"], "breaks nothing, so there is nothing to shrink"),
        (["t", "--guarantee", "order"], "there is no guarantee 'order'; there are: no duplication"),
        (["t", "--guarantee", "cost"], "say it with --max-packets"),
    ],
)
def test_what_cannot_be_shrunk_is_refused_in_one_line(tidings, words, complaint) -> None:
    assert tidings("simulate", "--seed", "1", "--processes", "3", "--trace", "t").status == 0
    answer = tidings("shrink", *words)
    assert answer.status == 64
    assert complaint in answer.err
    assert len(answer.err.splitlines()) == 1
