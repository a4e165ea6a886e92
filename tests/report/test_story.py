"""Stories: a violation in plain words, as a proof, and as a test that can be run."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flaw_scenes import SCENARIOS, played
from test_spacetime import CARELESS, HASTY, SMALL, first, scripted, violation_of
from tidings.core import (
    Accept,
    Broadcast,
    DataError,
    Deliver,
    Effect,
    Event,
    Message,
    Packet,
    Process,
    Receive,
    Send,
)
from tidings.report import as_pytest, explain, spacetime, story, write_story
from tidings.report.causality import Causality
from tidings.simulator import Plan, walk
from tidings.spec import Extra, Guarantee, broken, judge
from tidings.trace import Run, digest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "scenarios" / "careless-delivery-breaks-order.txt"

LOSING = scripted(
    "group p1 p2 p3 p4 p5",
    "broadcast p1 hello",
    "receive p1->p2",
    "crash p1",
    "settle",
    protocol="flawed/hasty",
)


def without_schedule(run: Run) -> Run:
    manifest = msgspec.structs.replace(run.manifest, schedule=msgspec.Raw(b"[]"))
    return msgspec.structs.replace(run, manifest=manifest)


# --- proofs


def proof(run: Run, what: Guarantee | Extra, **options) -> list[str]:
    return explain(first(run, what), "r", trace=run, **options).splitlines()


def test_what_never_came_is_reported_with_the_reason_why_it_cannot() -> None:
    run = scripted(
        "group p1 p2 p3 p4 p5",
        "broadcast p1 hello",
        "duplicate p1->p2",
        "receive p1->p2",
        "crash p2",
        "crash p1",
        "settle",
        protocol="flawed/copy-counting",
    )
    assert proof(run, Guarantee.UNIFORM_AGREEMENT)[-4:] == [
        "  - None of the 2 packets about m that were sent to p3 arrived.",
        "  - p1 and p2, who knew of m, crashed.",
        "  - Lost with p1, who crashed: copy p1#1 p1->p3, copy p1#1 p1->p4, copy p1#1 p1->p5.",
        "  - Lost with p2, who crashed: copy p1#1 p2->p3, copy p1#1 p2->p4, copy p1#1 p2->p5.",
    ]


def test_a_member_that_heard_of_it_from_nobody_is_shown_without_a_source() -> None:
    assert proof(HASTY, Guarantee.UNIFORM_AGREEMENT)[-2:] == [
        "  - Nobody sent a packet about m to p3.",
        "  - p1, who knew of m, crashed.",
    ]


class Batch(Packet, frozen=True, tag="batch"):
    messages: tuple[Message, ...]


class Batching(Process):
    """Packets carry many messages, so they name none; p3 hears everything and delivers nothing."""

    seq = 0

    def step(self, event: Event) -> list[Effect]:
        match event:
            case Broadcast((text,)):
                self.seq += 1
                message = Message(self.me, self.seq, text)
                send = Send(self.others, Batch((message,)))
                return [Accept((message.id,)), send, Deliver((message,))]
            case Receive(_, Batch(messages)) if self.me != "p3":
                return [Deliver(messages)]
        return []


def test_of_packets_that_name_no_message_nothing_is_claimed() -> None:
    run = walk(Plan(processes=3, broadcasts=1), seed=1, factory=Batching)
    assert proof(run, Guarantee.UNIFORM_AGREEMENT)[-2:] == [
        "  - Nobody sent a packet about m alone to p3.",
        "  - p3 received 1 packet without any message's name, which may speak of m.",
    ]


def test_on_lossy_links_nobody_knows_that_a_crash_took_the_packet_along() -> None:
    run = scripted(
        "group p1 p2 p3",
        "links lossy",
        "cut p1->p3",
        "broadcast p1 hello",
        "receive p1->p2",
        "crash p1",
        "settle",
        protocol="flawed/hasty",
    )
    (shown,) = [row for row in run.rows if row.kind == "send" and row.peer == "p3"]
    assert Causality(run).loss(shown) == "lost on the way, or lost with p1, who crashed"


def test_a_cause_that_is_missing_too_is_named_with_its_own_losses() -> None:
    run = played("flawed/skipping-only", SCENARIOS["flawed/skipping-only"])
    assert proof(run, Guarantee.UNIFORM_AGREEMENT)[-4:] == [
        "  - p2 heard of m from p1, p4 and p3, and nothing more about m is on its way.",
        "  - p1, who knew of m, crashed.",
        "  - Before m comes p1#1, which p2 had not delivered either.",
        "  - Lost with p1, who crashed: copy p1#1 p1->p2, copy p1#1 p1->p3, copy p1#2 p1->p3.",
    ]


def test_many_losses_are_counted() -> None:
    run = walk(Plan(protocol="flawed/hasty", processes=21, broadcasts=1), 0)
    origin = next(row.process for row in run.rows if row.kind == "broadcast")
    names = [f"p{number}" for number in range(1, 22)]
    lines = [f"group {' '.join(names)}", f"broadcast {origin} hello", f"crash {origin}", "settle"]
    shown = proof(scripted(*lines, protocol="flawed/hasty"), Guarantee.UNIFORM_AGREEMENT)
    assert shown[-1].endswith(" and 14 more.")


@pytest.mark.parametrize("what", SMALL)
def test_only_what_never_came_is_asked_for_reasons(what: str) -> None:
    run, violation = SMALL[what], violation_of(what)
    plain, with_trace = explain(violation, "r"), explain(violation, "r", trace=run)
    assert (plain != with_trace) == (what == "uniform agreement"), "p1 alone sent no packets"


def test_a_proof_ends_with_the_command_that_shows_it_again() -> None:
    shown = proof(CARELESS, Guarantee.CAUSAL_ORDER, folder="runs/8f21")
    assert shown[-1] == "Replay:  tidings replay runs/8f21 --until p3:4"
    shown = proof(HASTY, Guarantee.UNIFORM_AGREEMENT, folder=Path("my runs"))
    assert shown[-1] == "Replay:  tidings replay 'my runs'", "it shows at the end"
    shown = proof(CARELESS, Guarantee.CAUSAL_ORDER, folder="runs", is_one_of_many=True)
    assert shown[-1] == "Replay:  tidings replay runs --run r --until p3:4"


def test_what_was_made_up_shows_where_it_is_delivered() -> None:
    shown = explain(violation_of("no creation"), "r", folder="runs").splitlines()
    delivery = violation_of("no creation").witness[0]
    assert shown[-1] == f"Replay:  tidings replay runs --until {delivery}"


# --- stories


def test_a_small_run_is_reported_whole() -> None:
    violation = first(HASTY, Guarantee.UNIFORM_AGREEMENT)
    shown = story(HASTY, violation, trace="runs/r", picture="story.svg", test="runs/r/test_r.py")
    assert (
        shown
        == """\
# Uniform agreement violated at p3

Uniform agreement: what any process delivers, even one that crashed, every correct process delivers.
Here it was not so.

![Uniform agreement violated at p3](story.svg)

## The group

p1, p2 and p3 run `flawed/hasty`. p1 crashes.

## What happened

1. `p1:0–4` p1 broadcasts p1#1 “hello”, delivers p1#1 “hello”, sends copy p1#1 to p2, and crashes.
2. `p2:0–2` p2 receives copy p1#1 from p1, and delivers p1#1 “hello”.
3. Nothing more is on its way: p2 and p3 settle. **Here uniform agreement is violated.**

## The proof

```text
UNIFORM AGREEMENT violated at p3               run r
Let:
  m = p1#1     broadcast by p1
Then:
  - p1 broadcast m (its event 0).
  - p1 delivered m (its event 2).
  - However, p3, to whom m was addressed and who was up when the run settled, never delivered m.
  - Nobody sent a packet about m to p3.
  - p1, who knew of m, crashed.
```

## See it again

```console
$ tidings replay runs/r
$ pytest runs/r/test_r.py
```
"""
    )


def steps_of(shown: str) -> list[str]:
    return re.findall(r"^\d+\. (.*)$", shown, flags=re.MULTILINE)


def test_lost_packets_are_reported_where_they_are_sent() -> None:
    shown = story(LOSING, first(LOSING, Guarantee.UNIFORM_AGREEMENT))
    assert (
        "`p1:0–6` p1 broadcasts p1#1 “hello”, delivers p1#1 “hello”, and sends copy p1#1 to p2, "
        "p3, p4 and p5 (to p3, p4 and p5: lost with p1, who crashed)."
    ) in steps_of(shown)


def test_addressees_are_reported_where_they_differ() -> None:
    shown = story(SMALL["reach"], violation_of("reach"))
    assert "p4 joins and addresses p1, p2, p3 and p4, and sends join to p1, p2 and p3." in shown
    assert "p2 broadcasts p2#1 “who is that?” to p1, p2 and p3, and sends" in shown


@pytest.mark.parametrize("what", SMALL)
def test_exactly_one_step_is_where_it_goes_wrong(what: str) -> None:
    shown = story(SMALL[what], violation_of(what))
    (wrong,) = [step for step in steps_of(shown) if "**" in step]
    assert wrong.endswith(f"**Here {what} is violated.**")


def test_of_a_long_run_only_what_led_to_it_is_reported() -> None:
    run = walk(Plan(protocol="flawed/careless", broadcasts=60), seed=3)
    violation = first(run, Guarantee.CAUSAL_ORDER)
    shown = story(run, violation)
    assert "Only what happened to " in shown
    assert 3 <= len(steps_of(shown)) <= 60
    assert sum("**" in step for step in steps_of(shown)) == 1
    assert all(
        str(violation.cause) in step or str(violation.message) in step or "crashes" in step
        for step in steps_of(shown)
    )


def test_a_long_story_draws_the_rows_that_its_text_names_and_leads_to_a_shorter_one(
    tmp_path: Path,
) -> None:
    run = walk(Plan(protocol="flawed/careless", broadcasts=60), seed=3)
    write_story(tmp_path, run, first(run, Guarantee.CAUSAL_ORDER), trace="runs/long")
    words = (tmp_path / "story.md").read_text()
    drawn = (tmp_path / "story.svg").read_text()
    named = set()
    for process, begin, end in re.findall(r"^\d+\. `(\w+):(\d+)(?:–(\d+))?`", words, re.MULTILINE):
        named |= {(process, index) for index in range(int(begin), int(end or begin) + 1)}
    events = set(
        re.findall(
            r'class="(?:event|packet|lost|loss)[^"]*"[^>]*data-process="(\w+)" data-index="(\d+)"',
            drawn,
        )
    )
    assert len(events) > 10
    assert {(process, int(index)) for process, index in events} <= named
    kinds = {(row.process, row.index): row.kind for row in run.rows}
    marks = {one for one in named if kinds[one] in ("broadcast", "deliver", "receive")}
    assert marks <= {(process, int(index)) for process, index in events}
    assert words.endswith("## Make it shorter\n\n```console\n$ tidings shrink runs/long\n```\n")
    short = story(HASTY, first(HASTY, Guarantee.UNIFORM_AGREEMENT), trace="runs/short")
    assert "shrink" not in short


def test_a_run_cut_short_says_so() -> None:
    lines = ("group p1 p2 p3", "broadcast p1 x", "duplicate p1->p2", "receive p1->p2")
    run = scripted(*lines, protocol="flawed/repeating")
    shown = story(run, first(run, Guarantee.NO_DUPLICATION))
    assert "The run was cut short before it settled." in shown
    assert "(to p3: still on its way)" in shown


def test_options_are_reported_as_they_are_written() -> None:
    lines = ("group p1 p2 p3", "broadcast p1 x", "crash p1", "settle")
    run = scripted(*lines, protocol="flawed/hasty pull=yes")
    shown = story(run, first(run, Guarantee.UNIFORM_AGREEMENT))
    assert "`flawed/hasty pull=yes`" in shown


def test_texts_are_never_mistaken_for_markup() -> None:
    texts = {digest(b"question"): b"*<b>* [x](y) `z`\n\x1b"}
    shown = story(CARELESS, violation_of("causal order"), texts=texts)
    assert r"“\*\<b\>\* \[x\](y) \`z\`\\n\\x1b”" in shown


def test_an_altered_text_is_reported_as_such() -> None:
    shown = story(SMALL["no creation"], violation_of("no creation"))
    assert "delivers p1#1 with another text. **Here no creation is violated.**" in shown


# --- reproductions


def play(source: str) -> None:
    """Run the tests of a generated file here."""
    space: dict = {"__name__": "reproduction"}
    exec(compile(source, "test_r.py", "exec"), space)
    tests = [name for name in space if name.startswith("test_")]
    assert len(tests) == 2
    for name in tests:
        space[name]()


@pytest.mark.parametrize("what", SMALL)
def test_every_kind_of_violation_is_reproduced(what: str) -> None:
    source = as_pytest(SMALL[what], violation_of(what))
    play(source)
    assert all(len(line) <= 100 for line in source.splitlines())
    with pytest.raises(AssertionError):
        play(source.replace("witness=(Place(", "witness=(Place('nobody', 9), Place("))


@pytest.mark.parametrize("name", SCENARIOS)
def test_newcomers_duplicates_and_lost_packets_are_reproduced(name: str) -> None:
    run = played(name, SCENARIOS[name])
    whats = [verdict.guarantee for verdict in judge(run) if verdict.violations] or [Extra.REACH]
    play(as_pytest(run, first(run, whats[0])))


def test_what_the_processes_drew_is_reproduced() -> None:
    plan = Plan(protocol="flawed/gambling-relay", broadcasts=1)
    runs = (walk(plan, seed) for seed in range(100))
    run = next(run for run in runs if broken(run, Guarantee.VALIDITY))
    source = as_pytest(run, first(run, Guarantee.VALIDITY))
    assert re.search(r"\), \(\d+,\)\),", source), "no draws"
    play(source)


def test_lossy_links_are_reproduced() -> None:
    run = scripted(
        "group p1 p2 p3",
        "links lossy",
        "broadcast p1 hello",
        "drop p1->p3",
        "settle",
        protocol="flawed/hasty",
    )
    source = as_pytest(run, first(run, Guarantee.UNIFORM_AGREEMENT))
    assert 'plan={"links": "lossy"}' in source
    assert 'Drop(packet("p1", "p3", 1)),  # copy p1#1' not in source, "fields stand in a Step"
    assert 'Drop(packet("p1", "p3", 1))),  # copy p1#1' in source
    play(source)


def test_any_text_is_reproduced() -> None:
    text = b"\"quotes\" 'quotes' \\ \xff\n{braces}"
    plan = Plan(protocol="flawed/repeating", processes=3, broadcasts=1, texts=(text,))
    run = walk(plan, 0)
    source = as_pytest(run, first(run, Guarantee.NO_DUPLICATION))
    assert repr(text) in source
    play(source)


def test_one_changed_line_makes_a_regression_test_of_it() -> None:
    source = as_pytest(CARELESS, violation_of("causal order"))
    mended = source.replace("flawed/careless", "majority-relay")
    with pytest.raises(AssertionError):
        play(mended)
    advice = re.search(r"regression test of it: (EXPECTED = None)", source)
    assert advice is not None
    play(re.sub(r"^EXPECTED = Violation\(.*?^\)", advice[1], mended, flags=re.M | re.S))


def test_what_has_no_schedule_cannot_be_reproduced() -> None:
    with pytest.raises(DataError, match="run r has no schedule"):
        as_pytest(without_schedule(CARELESS), violation_of("causal order"))


# --- on disk


def test_a_story_is_a_text_a_picture_and_a_test_that_runs(tmp_path: Path) -> None:
    violation = violation_of("causal order")
    write_story(tmp_path / "new", CARELESS, violation, trace="runs/r")
    folder = tmp_path / "new"
    assert sorted(file.name for file in folder.iterdir()) == [
        "story.md",
        "story.svg",
        "test_r_causal_order.py",
    ]
    assert (folder / "story.svg").read_text() == spacetime(CARELESS, violation)
    shown = (folder / "story.md").read_text()
    assert "(story.svg)" in shown
    assert "tidings replay runs/r --until p3:4" in shown
    assert f"pytest {folder / 'test_r_causal_order.py'}" in shown
    assert "2 passed" in pytest_says(folder, cwd=tmp_path)


def pytest_says(path: Path, *, cwd: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    ran = subprocess.run(
        [*command, "--rootdir", ".", str(path)], cwd=cwd, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def test_the_tests_of_many_stories_run_together(tmp_path: Path) -> None:
    for what in ("causal order", "uniform agreement"):
        write_story(tmp_path / what, SMALL[what], violation_of(what))
    assert "4 passed" in pytest_says(tmp_path, cwd=tmp_path)


OWN = """
from tidings.protocols.flawed import Careless

class Mine(Careless): ...
"""


def test_the_test_finds_a_file_of_ones_own_from_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    own = "code/mine.py:Mine"
    manifest = msgspec.structs.replace(CARELESS.manifest, protocol=own)
    run = msgspec.structs.replace(CARELESS, manifest=manifest)
    elsewhere = tmp_path / "runs" / "deep" / "down"
    write_story(elsewhere, run, violation_of("causal order"))
    assert "2 passed" in pytest_says(elsewhere, cwd=elsewhere)
    test = elsewhere / "test_r_causal_order.py"
    kept = tmp_path / "code" / "tests" / test.name
    kept.parent.mkdir()
    test.rename(kept)
    assert "2 passed" in pytest_says(kept, cwd=tmp_path / "runs")
    (tmp_path / "code" / "mine.py").unlink()
    shown = pytest_says(kept, cwd=tmp_path)
    searched = f"{tmp_path.parent}, {kept.parent}, {tmp_path / 'code'}, {tmp_path}"
    assert f"code/mine.py is in none of {searched}" in shown


def test_without_a_schedule_there_is_no_test_and_no_promise_of_one(tmp_path: Path) -> None:
    write_story(tmp_path, without_schedule(CARELESS), violation_of("causal order"), trace="x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["story.md", "story.svg"]
    assert "See it again" not in (tmp_path / "story.md").read_text()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device: .*story.md"),
        (OSError("no space left on device"), "^no space left on device$"),
    ],
)
def test_nothing_is_left_half_written(
    fault: OSError, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(self: Path, text: str, **options) -> None:
        with self.open("w") as file:
            file.write(text[:10])
        raise fault

    monkeypatch.setattr(Path, "write_text", torn)
    with pytest.raises(OSError, match=words):
        write_story(tmp_path, CARELESS, violation_of("causal order"))
    assert list(tmp_path.iterdir()) == []


def test_simulate_tells_the_first_violation(tidings, tmp_path: Path) -> None:
    answer = tidings("simulate", str(EXAMPLE), "--trace", "run", "--story", "run")
    assert answer.status == 1
    assert answer.out.splitlines()[-1] == "story  run/story.md"
    assert "Replay:  tidings replay run --until p3:4" in answer.out
    assert tidings("replay", "run", "--until", "p3:4").status == 1
    assert tidings("simulate", str(EXAMPLE), "--story", "run").status == 64


def test_a_run_in_which_all_is_well_has_no_story(tidings, tmp_path: Path) -> None:
    answer = tidings("simulate", "--seed", "1", "--broadcasts", "1", "--story", "run")
    assert answer.status == 0
    assert answer.out.splitlines()[-1] == "story  none: nothing is violated"
    assert not (tmp_path / "run").exists()


def test_the_picture_in_the_documentation_is_what_the_command_draws(tidings, request) -> None:
    assert tidings("simulate", str(EXAMPLE), "--story", "told").status == 1
    drawn = Path("told/story.svg").read_text()
    documented = ROOT / "docs" / "story.svg"
    if request.config.getoption("--rewrite"):
        documented.write_text(drawn)
    assert documented.read_text() == drawn
    page = (ROOT / "docs" / "simulate.md").read_text()
    assert f"tidings simulate {EXAMPLE.relative_to(ROOT)} --story" in page
    shown = re.findall(r"^\d+\. .*$", Path("told/story.md").read_text(), re.MULTILINE)
    quoted = re.findall(r"^\d+\. .*$", page, re.MULTILINE)
    assert len(quoted) >= 2
    assert quoted == shown[: len(quoted)], "the first steps are quoted in the page"
