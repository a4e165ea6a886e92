"""Replay: a stored run comes out the same, as far as one likes, or one is told what differs."""

import io
import json
import re
from pathlib import Path

import msgspec
import pytest

from guides import play
from tidings.cli.common import print_verdicts
from tidings.core import Accept, Broadcast, DataError, Deliver, Message, MessageId, Process, Start
from tidings.demo.simulated import demo_run
from tidings.report import story
from tidings.simulator import Plan, RunReplay, choices, schedule_of, walk
from tidings.simulator.choices import Schedule, Step
from tidings.simulator.script import Script, line_for
from tidings.spec import judge
from tidings.trace import Run, read_runs, write_runs

HARSH = Plan(processes=4, broadcasts=8, crashes=1, duplicated=0.1, lost=0.1, partitions=1)
LOSSY = "group p1 p2 p3\nlinks lossy\nbroadcast p1 hi\ndrop p1->p3\nreceive all\nsettle"


def scripted(text: str) -> Run:
    script = Script("scripted")
    for line in text.splitlines():
        script.command(line)
    return script.run()


def planned(**changes: object) -> Run:
    return walk(msgspec.structs.replace(HARSH, **changes), seed=4)


RUNS = {
    "random": planned(),
    "lossy": planned(links="lossy"),
    "tossing": planned(protocol="majority-relay", options={"postpone": True}),
    "growing": planned(protocol="interval-history", joiners=2),
    "sampled": planned(sample_ms=3.0),
    "cut short": planned(budget=100),
    "scripted": scripted("group p1 p2\nprotocol two-phase\nbroadcast p1 hi\nsettle"),
    "scripted, lossy": scripted(LOSSY),
    "demo": demo_run(1, "order"),
}


def rescheduled(run: Run, schedule: Schedule) -> Run:
    """The run as if its manifest had another schedule."""
    raw = msgspec.Raw(msgspec.json.encode(schedule))
    manifest = msgspec.structs.replace(run.manifest, schedule=raw)
    return Run(manifest, run.histories)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", RUNS)
def test_every_stored_run_comes_out_the_same(name: str, form: str, tmp_path: Path) -> None:
    write_runs(tmp_path / "t", [RUNS[name]], form)
    (stored,) = read_runs(tmp_path / "t")
    replay = RunReplay(stored)
    played = [moment.step for moment in replay]
    assert played == schedule_of(stored.manifest)
    assert list(replay.so_far().rows) == list(RUNS[name].rows)
    assert replay.so_far().manifest == RUNS[name].manifest


BEFORE = Path(__file__).parents[1] / "fixtures" / "drawn_from_one_stream"
"""Runs of seed 4 as they were when a seed meant one stream of numbers; it means others now."""


@pytest.mark.parametrize("stored", read_runs(BEFORE), ids=lambda run: run.manifest.run)
def test_a_schedule_is_replayed_whatever_its_seed_means_now(stored: Run) -> None:
    replay = RunReplay(stored)
    assert [moment.step for moment in replay] == schedule_of(stored.manifest)
    assert list(replay.so_far().rows) == list(stored.rows)
    plan = msgspec.convert(stored.manifest.plan, Plan)
    assert list(walk(plan, seed=4).rows) != list(stored.rows)


class Drawing(Process):
    """Tosses a coin as soon as it starts; by it, its one message is delivered or not."""

    def step(self, event):
        own = MessageId(self.me, 1)
        match event:
            case Start():
                self.side = self.choose("side", (1, 1))
            case Broadcast((text,)):
                return [Accept((own,)), *[Deliver((Message(*own, text),))] * self.side]
        return []


def test_what_was_drawn_at_the_start_is_drawn_again() -> None:
    plan = Plan(processes=3, broadcasts=1)
    runs = [walk(plan, seed, factory=Drawing) for seed in range(8)]
    assert len({schedule_of(run.manifest)[0].draws for run in runs}) > 2
    for run in runs:
        assert len(list(RunReplay(run, factory=Drawing))) == len(schedule_of(run.manifest))


def test_a_random_run_printed_line_by_line_is_a_scenario_with_the_same_course() -> None:
    run = RUNS["random"]
    script = Script("told")
    script.command("group p1 p2 p3 p4")
    script.command("protocol majority-relay")
    replay = RunReplay(run)
    before = dict(replay.world.in_flight)
    for moment in replay:
        line = line_for(moment.step.choice, before)
        before = dict(replay.world.in_flight)
        if line == "settle":
            script._apply(choices.Settle())  # the command would also let everything arrive
        else:
            script.command(line)
    unlike = {"run": "", "time_ns": 0, "index": 0}  # a sample, too, takes up places
    course = [msgspec.structs.replace(row, **unlike) for row in run.rows if row.kind != "state"]
    again = [msgspec.structs.replace(row, **unlike) for row in script.run().rows]
    assert again == course


# --- what does not fit


def test_a_step_left_out_of_the_schedule_is_noticed() -> None:
    run = RUNS["random"]
    schedule = schedule_of(run.manifest)
    for left_out in range(0, len(schedule), 7):
        damaged = rescheduled(run, schedule[:left_out] + schedule[left_out + 1 :])
        with pytest.raises(DataError):
            list(RunReplay(damaged))


@pytest.mark.parametrize(
    ("position", "step", "complaint"),
    [
        (
            2,
            Step(0, choices.Heal()),
            "step 3 of the schedule does not fit: it is at 0 ns, before",
        ),
        (0, Step(0, choices.Crash("p9")), "step 1 of the schedule does not fit: there is no p9"),
        (
            0,
            Step(0, choices.Heal(), (1,)),
            "step 1 of the schedule does not fit: nobody draws 1",
        ),
        (0, Step(0, choices.Drop(choices.PacketId(choices.Link("p1", "p2"), 1))), "only lossy"),
    ],
)
def test_a_step_that_cannot_be_made_is_named(position: int, step: Step, complaint: str) -> None:
    run = RUNS["random"]
    schedule = schedule_of(run.manifest)
    with pytest.raises(DataError, match=complaint):
        list(RunReplay(rescheduled(run, [*schedule[:position], step, *schedule[position:]])))


def test_draws_that_are_missing_or_impossible_are_named() -> None:
    run = RUNS["tossing"]
    schedule = schedule_of(run.manifest)
    position = next(number for number, step in enumerate(schedule) if step.draws)
    for draws, drew in (((), "nothing"), ((5,), "5 of 2")):
        wrong = [*schedule]
        wrong[position] = msgspec.structs.replace(wrong[position], draws=draws)
        with pytest.raises(DataError, match=f"step {position + 1} .* drew {drew}"):
            list(RunReplay(rescheduled(run, wrong)))


def test_a_schedule_of_rubbish_is_bad_data() -> None:
    run = RUNS["random"]
    manifest = msgspec.structs.replace(run.manifest, schedule=msgspec.Raw(b'[[1, ["dance"]]]'))
    with pytest.raises(DataError, match="not a schedule"):
        RunReplay(Run(manifest, run.histories))


def test_a_run_with_other_views_or_fates_than_its_manifest_says_is_noticed() -> None:
    run = RUNS["random"]
    fates = dict.fromkeys(run.manifest.fates, "up")
    with pytest.raises(DataError, match="other 'fates' than the manifest"):
        list(RunReplay(Run(msgspec.structs.replace(run.manifest, fates=fates), run.histories)))


# --- the command


@pytest.fixture
def stored(tidings, tmp_path: Path) -> Path:
    write_runs(tmp_path / "t", [RUNS["random"]])
    return tmp_path / "t"


def test_a_replay_ends_with_the_verdict_of_the_run(tidings, tmp_path: Path, stored) -> None:
    rows = len(list(RUNS["random"].rows))
    answer = tidings("replay", "t")
    assert answer.status == 0
    assert f"the same {rows:,} rows, byte for byte" in answer.out
    assert answer.out.count("✓ holds") == 5
    write_runs(tmp_path / "broken", [RUNS["demo"]], "parquet")
    broken = tidings("replay", "broken")
    assert broken.status == 1
    assert "CAUSAL ORDER violated at p1" in broken.out


def test_a_replay_stops_where_it_is_asked_to(tidings, stored) -> None:
    by_event = json.loads(tidings("replay", "t", "--until", "p3:5", "--json").out)
    steps = len(by_event["steps"])
    by_step = json.loads(tidings("replay", "t", "--until", str(steps), "--json").out)
    assert by_step == by_event
    before = json.loads(tidings("replay", "t", "--until", str(steps - 1), "--json").out)
    assert before["same_rows"] < by_event["same_rows"] < len(list(RUNS["random"].rows))
    assert tidings("replay", "t", "--until", "p3:5").status == 2, "half a run is unknown"


def test_the_event_of_a_violation_is_the_last_thing_that_happens(tidings, tmp_path: Path) -> None:
    violation = judge(RUNS["demo"])[4].violations[0]
    write_runs(tmp_path / "broken", [RUNS["demo"]])
    until = ("replay", "broken", "--json", "--until")
    shown = tidings(*until, str(violation.witness[-1]))
    assert shown.status == 1
    steps = json.loads(shown.out)["steps"]
    delivery = f"{violation.process} delivers {violation.message} "
    assert any(line.startswith(delivery) for line in steps[-1]["answer"])
    assert tidings(*until, str(len(steps) - 1)).status == 2, "one step earlier all is well"


def test_the_state_of_each_process_is_reported_on_demand(tidings, tmp_path: Path) -> None:
    talk = "group p1 p2 p3\nprotocol majority-relay\nbroadcast p1 hi\nreceive p1->p2"
    write_runs(tmp_path / "t", [scripted(talk)])
    one = tidings("replay", "t", "--state", "p1").out
    assert "state of p1:" in one
    assert 'waiting: {"p1#1": {"id": "p1#1", "text": "hi", "causes": [0, 0, 0]}}' in one
    assert "p1#1 waits at p1 for 1 more of p2, p3 to relay it" in one
    assert "state of p2" not in one
    everybody = json.loads(tidings("replay", "t", "--state", "all", "--json").out)["states"]
    assert list(everybody) == ["p1", "p2", "p3"]
    assert everybody["p3"]["waiting"] == ["p3 does not hold p1#1"]
    assert everybody["p2"]["waiting"] == [], "it has delivered"


def test_step_by_step_questions_are_answered_between_the_steps(
    tidings, stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    typed = "\ns p2\nw p1#1\nw p9#9\nhello\ns p9\n\nq\n"
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    answer = tidings("replay", "t", "--step")
    assert answer.status == 2
    assert "    3 " in answer.out
    assert "    4 " not in answer.out, "q ends it"
    assert "state of p2" in answer.out
    assert "nobody waits for p9#9" in answer.out
    assert "press Enter, or write" in answer.out
    assert "there is no p9 here" in answer.out
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert tidings("replay", "t", "--step").status == 64


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["t", "--until", "p3"], "--until takes an event like p3:17 or a step like 40"),
        (["t", "--until", "p3:9999"], "there is no event p3:9999: p3 has"),
        (["t", "--until", "p9:0"], "there is no event p9:0"),
        (["t", "--until", "0"], "there is no step 0: the run has"),
        (["t", "--state", "p9"], "there is no p9 here; there are: p1, p2, p3, p4"),
        (["t", "--run", "other"], "t has no run other; it has: "),
    ],
)
def test_what_is_not_there_cannot_be_replayed(tidings, stored, words, complaint) -> None:
    answer = tidings("replay", *words)
    assert answer.status == 64
    assert answer.err.startswith("tidings: ")
    assert complaint in answer.err
    assert len(answer.err.splitlines()) == 1


def test_of_many_runs_one_is_chosen(tidings, tmp_path: Path) -> None:
    runs = [walk(Plan(processes=2, broadcasts=1), seed) for seed in range(2)]
    write_runs(tmp_path / "many", runs)
    assert "2 runs, choose one with --run" in tidings("replay", "many").err
    assert tidings("replay", "many", "--run", runs[1].manifest.run).status == 0


def test_a_run_without_a_schedule_is_refused_in_one_line(tidings, tmp_path: Path) -> None:
    run = RUNS["random"]
    write_runs(tmp_path / "real", [rescheduled(run, [])])
    answer = tidings("replay", "real")
    assert answer.status == 65
    assert answer.err == (
        f"tidings: run {run.manifest.run} has no schedule and cannot be replayed: only simulated "
        "runs have one\n"
    )


def test_a_protocol_nobody_knows_is_refused_in_one_line(tidings, tmp_path: Path) -> None:
    run = RUNS["random"]
    manifest = msgspec.structs.replace(run.manifest, protocol="my-own")
    write_runs(tmp_path / "t", [Run(manifest, run.histories)])
    answer = tidings("replay", "t")
    assert answer.status == 65
    assert "cannot be replayed: unknown protocol 'my-own'" in answer.err


def test_a_trace_that_was_changed_is_found_out_at_the_first_row_that_differs(
    tidings, stored
) -> None:
    file = stored / "trace.jsonl"
    lines = file.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if '"process":"p3","index":7,' in line)
    changed = lines[place].replace('"time_ns":', '"time_ns":1')
    file.write_text("\n".join([*lines[:place], changed, *lines[place + 1 :]]) + "\n")
    answer = tidings("replay", "t")
    assert answer.status == 65
    assert "differs from the stored trace at p3:7, which was" in answer.err
    assert changed in answer.err.replace("\n", "")


def test_a_trace_that_goes_on_after_its_schedule_is_found_out(tidings, tmp_path: Path) -> None:
    run = RUNS["random"]
    write_runs(tmp_path / "t", [rescheduled(run, schedule_of(run.manifest)[:-1])])
    answer = tidings("replay", "t")
    assert answer.status == 65
    assert "the stored trace goes on, but the replay does not" in answer.err


# --- only the end


def test_only_the_last_steps_are_reported_and_all_are_played(tidings) -> None:
    write_runs(Path("t"), [RUNS["random"]], "jsonl")
    whole = tidings("replay", "t").out
    end = tidings("replay", "t", "--last", "2").out
    steps = len(schedule_of(RUNS["random"].manifest))
    assert whole.endswith(end)
    assert re.findall(r"^ +(\d+) .* ms  ", end, re.MULTILINE) == [str(steps - 1), str(steps)]
    assert f"the same {len(list(RUNS['random'].rows)):,} rows, byte for byte" in end
    until = tidings("replay", "t", "--until", "9", "--last", "3").out
    assert re.findall(r"^ +(\d+) .* ms  ", until, re.MULTILINE) == ["7", "8", "9"]
    printed = json.loads(tidings("replay", "t", "--last", "2", "--json").out)
    assert [step["step"] for step in printed["steps"]] == [steps - 1, steps]
    assert tidings("replay", "t", "--last", "0").status == 64


def test_the_last_steps_before_a_difference_are_reported(tidings) -> None:
    run = RUNS["random"]
    *most, final = schedule_of(run.manifest)
    write_runs(Path("t"), [rescheduled(run, [*most, final, final])], "jsonl")
    answer = tidings("replay", "t", "--last", "1")
    assert answer.status == 65
    assert re.findall(r"^ +(\d+) .* ms  ", answer.out, re.MULTILINE) == [str(len(most) + 1)]


@pytest.mark.parametrize(("broadcasts", "is_long"), [(60, True), (4, False)])
def test_a_long_run_is_shown_again_by_its_last_steps(capsys, broadcasts, is_long) -> None:
    plan = Plan(protocol="flawed/repeating", processes=3, broadcasts=broadcasts)
    run = walk(plan, seed=1)
    assert (len(schedule_of(run.manifest)) > 60) == is_long
    (violated, *_) = [verdict for verdict in judge(run) if verdict.violations]
    printed = story(run, violated.violations[0], trace="t")
    assert ("--last 20" in printed) == is_long
    print_verdicts(run.manifest, judge(run), run=run, folder=Path("t"))
    assert ("--last 20" in capsys.readouterr().out) == is_long


# --- the reasons of what is unknown


def test_each_reason_is_stated_once_with_the_guarantees_it_concerns(tidings) -> None:
    write_runs(Path("t"), [RUNS["random"]], "jsonl")
    printed = tidings("replay", "t", "--until", "1").out
    reasons = [
        line.partition(" unknown: ") for line in printed.splitlines() if " unknown: " in line
    ]
    everything = "no duplication, no creation, validity, uniform agreement and causal order are"
    assert [names for names, *_ in reasons] == [everything]
    assert reasons[0][2].endswith(" left no history")


# --- the guide


GUIDE = Path(__file__).parents[2] / "docs" / "simulate.md"


def test_the_guide_shows_what_the_commands_print(tidings, request) -> None:
    ran = play(GUIDE, tidings, rewrite=request.config.getoption("--rewrite"))
    assert ran == [("simulate", 1), ("shrink", 1)]
