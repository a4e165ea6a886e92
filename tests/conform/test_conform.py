"""Members do what their protocol would have done; whatever else they do is noticed."""

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import conform_mutants
import mutants
from conform_mutants import REJECTED, UNSEEN, WRONG, Mutant
from real_groups import everywhere_delivered, go, group_file, joined, linked, until
from tidings.cli import main
from tidings.conform import Conformity, conform
from tidings.conform.meaning import MessageRows, Rows, wanted_by
from tidings.conform.words import story
from tidings.core import Effect, Held, MessageId, Span, TidingsError
from tidings.node.config import Config
from tidings.node.log import DurableLog
from tidings.trace import layout, read_manifests
from tidings.trace.schema import DIGEST
from tidings.trace.segments import Block, Messages, Reader, segments_of, whole_segment
from tidings.trace.steps import (
    FIRST_LINE,
    End,
    LinkIsUp,
    ReadBack,
    RecordedTick,
    StepsReader,
    Texts,
    framed,
    steps_of,
)

RECORDED = ("trace.conform = true", "links.close_ms = 200")


def judged(config: Config) -> Conformity:
    (manifest,) = read_manifests(layout(config.trace_folder).manifests).values()
    return conform(config.trace_folder, manifest)


def ticks_of(config: Config) -> list[RecordedTick]:
    paths = [path for name in config.members for path in steps_of(config.trace_folder, name)]
    return [tick for path in paths for tick in StepsReader(path).ticks()]


def talk(config: Config, lives: int = 1, rounds: int = 6) -> None:
    """Everybody broadcasts; waits only for p1, to which p2 can do nothing. Then all come back."""

    async def first_life() -> None:
        async with joined(config, founding=True) as groups:
            await linked(groups)
            for number in range(1, rounds + 1):
                for group in groups.values():
                    with suppress(TidingsError):
                        await group.broadcast(b"hello")
                await until(lambda n=number: groups["p1"].status().delivered.get("p1", 0) >= n)

    async def next_life() -> None:
        async with joined(config):
            pass

    for life in (first_life, *[next_life] * (lives - 1)):
        with suppress(TidingsError, AssertionError):  # a mutant may not live to the end
            go(life())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A group of three that lived twice."""
    config = group_file(tmp_path_factory.mktemp("recorded"), 3, *RECORDED)

    async def life(count: int) -> None:
        async with joined(config, founding=count == 10) as groups:
            await linked(groups)
            for number in range(10):
                for group in groups.values():
                    await group.broadcast(b"text %d" % number)
            await everywhere_delivered(groups, dict.fromkeys(config.members, count))

    go(life(10))
    go(life(20))
    return config


@pytest.fixture
def copied(recorded: Config, tmp_path: Path) -> Config:
    """The same, to be tampered with."""
    folder = tmp_path / "trace"
    shutil.copytree(recorded.trace_folder, folder)
    return msgspec.structs.replace(recorded, trace_folder=folder)


# --- what conforms


def test_a_group_that_was_left_alone_conforms(recorded: Config) -> None:
    found = judged(recorded)
    assert found.conforms, found
    assert all(one.lives == 2 for one in found.members.values())
    assert all(one.steps and one.records and one.rows > 140 for one in found.members.values())
    assert found.packets > 20


def test_a_log_that_was_cut_and_read_back_conforms(tmp_path: Path) -> None:
    limits = ("limits.segment_bytes = 2_000", "limits.memory_messages = 1")
    config = group_file(tmp_path, 3, *RECORDED, *limits, "limits.window = 20")

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
        async with joined(config, "p1", "p2") as groups:
            await linked(groups)
            for _ in range(300):
                await groups["p1"].broadcast(b"while p3 is away")
            await everywhere_delivered(groups, {"p1": 300})
        async with joined(config) as groups:
            await everywhere_delivered(groups, {"p1": 300})

    go(scenario())
    found = judged(config)
    assert found.conforms, [story(one, "chat") for one in found.divergences] + found.unknown
    ticks = ticks_of(config)
    assert any(tick.checkpoint for tick in ticks), "no segment of the log was begun"
    events = [event for tick in ticks for step in tick.steps for event in step.events]
    assert any(isinstance(event, ReadBack) for event in events), "nothing was read back"


def test_packets_for_which_there_is_no_room_are_no_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ("text_bytes = 300_000", "frame_bytes = 1_348_576", "queue_bytes = 1_348_576")
    settings = [f"limits.{limit}" for limit in limits]
    config = group_file(tmp_path, 3, *RECORDED, *settings, "limits.batch_bytes = 1")
    commit = DurableLog.commit

    def slow(*what: object, **more: object) -> None:
        time.sleep(0.05)
        commit(*what, **more)  # type: ignore[arg-type]

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            monkeypatch.setattr(DurableLog, "commit", slow)
            for _ in range(12):
                await groups["p1"].broadcast(bytes(300_000))
                await asyncio.sleep(0.005)
            await everywhere_delivered(groups, {"p1": 12})

    go(scenario())
    assert any(step.unsent for tick in ticks_of(config) for step in tick.steps), "all was sent"
    found = judged(config)
    assert found.conforms, [story(one, "chat") for one in found.divergences] + found.unknown


@pytest.mark.parametrize("protocol", ["majority-relay", "two-phase"])
def test_protocols_that_keep_nothing_conform(tmp_path: Path, protocol: str) -> None:
    config = group_file(tmp_path, 3, *RECORDED, f'protocol = "{protocol}"', "durable = false")
    talk(config)
    assert judged(config).conforms


def test_how_many_effects_say_it_does_not_matter() -> None:
    ids = tuple(MessageId("p1", seq) for seq in range(1, 8))
    one_by_one = [*(Held((one,)) for one in ids[:3]), Held(ids[3:])]
    at_once: list[Effect] = [Held((Span("p1", 1, 7),))]  # type: ignore[arg-type]
    block = Block(5, 0, 0, (Messages("held", "p1", 1, 2), Messages("held", "p1", 3, 5)))
    for effects in (one_by_one, at_once):
        rows = Rows(block)
        for fact in wanted_by([], effects, DIGEST, 0).facts:
            assert isinstance(fact, MessageRows)
            assert rows.take_messages(fact) is None
        assert rows.next is None
        assert rows.index == 12


# --- what does not


@pytest.mark.parametrize("mutant", REJECTED, ids=lambda mutant: mutant.__name__)
def test_a_member_that_does_something_else_is_rejected(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, lives, settings = REJECTED[mutant]
    config = group_file(tmp_path, 3, *RECORDED, *settings)
    logging.disable(logging.CRITICAL)
    try:
        with monkeypatch.context() as patch:
            mutant(patch)
            talk(config, lives)
    finally:
        logging.disable(logging.NOTSET)
    found = judged(config)
    assert any(words in one.words for one in found.divergences), found
    if mutant in vars(conform_mutants).values():
        assert any(one.member == WRONG for one in found.divergences) or mutant is (
            conform_mutants.sent_and_then_dead
        )


def test_of_every_other_mutant_it_is_known_why_it_passes() -> None:
    assert REJECTED.keys() | UNSEEN.keys() >= mutants.CAUGHT.keys()
    assert not REJECTED.keys() & UNSEEN.keys()


def test_the_story_names_the_step_and_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = group_file(tmp_path, 3, *RECORDED)
    with monkeypatch.context() as patch:
        conform_mutants.text_changed(patch)
        talk(config)
    assert main(["conform", str(config.trace_folder)]) == 1
    answer = capsys.readouterr().out
    assert f"{WRONG} DOES NOT CONFORM: its rows tell something else\n  run chat, life 0" in answer
    assert "Then:\n" in answer
    assert "  would  deliver " in answer
    assert ", with another text\n" in answer
    assert answer.endswith("DOES NOT CONFORM\n")


def rewritten(path: Path, change: dict[type, object]) -> None:
    """The file with the first event of a kind replaced, and every check right."""
    reader = StepsReader(path)
    assert reader.life is not None
    frames: list[object] = [reader.life, *reader.ticks(), reader.end or End(0)]
    for tick in frames:
        for step in tick.steps if isinstance(tick, RecordedTick) else ():
            for at, event in enumerate(step.events):
                if type(event) in change:
                    other = change.pop(type(event))
                    step.events = (*step.events[:at], other, *step.events[at + 1 :])  # type: ignore[assignment]
    assert not change, "there is no such event"
    data = FIRST_LINE
    for frame in frames:
        data += framed(frame, len(data))  # type: ignore[arg-type]
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Texts((b"another text",)), "its rows tell something else"),
        (LinkIsUp("p2", 77), "its rows tell something else"),
    ],
)
def test_steps_that_were_changed_are_rejected(copied: Config, event: object, words: str) -> None:
    rewritten(copied.trace_folder / "p1-0.steps", {type(event): event})
    found = judged(copied)
    assert [one.member for one in found.divergences] == ["p1"], found
    assert words in found.divergences[0].words or "records" in found.divergences[0].words


def test_rows_that_were_changed_are_rejected(copied: Config) -> None:
    (path,) = segments_of(copied.trace_folder, "p1")
    reader = Reader(path)
    blocks = list(reader.blocks())
    assert reader.owner is not None

    def renamed(item: object) -> object:
        is_it = isinstance(item, Messages) and item.kind == "deliver" and item.origin == "p2"
        return msgspec.structs.replace(item, origin="p3") if is_it else item  # type: ignore[type-var]

    changed = [
        msgspec.structs.replace(block, items=tuple(map(renamed, block.items))) for block in blocks
    ]
    path.write_bytes(whole_segment(reader.owner, *changed))
    (divergence,) = judged(copied).divergences
    assert divergence.would.startswith("deliver p2#")
    assert divergence.did.startswith("deliver p3#")


def test_rows_without_a_step_are_rejected(copied: Config) -> None:
    path = copied.trace_folder / "p1-0.steps"
    reader = StepsReader(path)
    *ticks, _ = [tick for tick in reader.ticks() if tick.steps]
    rows = [tick for tick, before in zip(ticks[1:], ticks, strict=False) if tick.end > before.end]
    data = FIRST_LINE
    for frame in (reader.life, *ticks[: ticks.index(rows[-1])], reader.end):
        data += framed(frame, len(data))  # type: ignore[arg-type]
    path.write_bytes(data)
    (divergence,) = judged(copied).divergences
    assert divergence.words == "it did what no step explains"


# --- what nobody can tell


def lose_all_steps(folder: Path) -> None:
    for path in folder.glob("*.steps"):
        path.unlink()


def lose_one_member(folder: Path) -> None:
    for path in steps_of(folder, "p2"):
        path.unlink()


def lose_the_first_life(folder: Path) -> None:
    (folder / "p2-0.steps").unlink()


def lose_the_last_life(folder: Path) -> None:
    (folder / "p2-1.steps").unlink()


def lose_the_trace_of_one(folder: Path) -> None:
    for path in segments_of(folder, "p2"):
        path.unlink()


def tear_the_steps(folder: Path) -> None:
    path = folder / "p2-1.steps"
    data = path.read_bytes()
    (folder / "p2-1.steps.open").write_bytes(data[: len(data) // 2])
    path.unlink()


def tear_the_trace(folder: Path) -> None:
    (path,) = segments_of(folder, "p2")
    data = path.read_bytes()
    path.with_name(path.name + ".open").write_bytes(data[: len(data) * 3 // 4])
    path.unlink()


@pytest.mark.parametrize(
    "lose",
    [
        lose_all_steps,
        lose_one_member,
        lose_the_first_life,
        lose_the_last_life,
        lose_the_trace_of_one,
        tear_the_steps,
        tear_the_trace,
    ],
)
def test_what_is_missing_is_unknown(
    lose: object, copied: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(lose)
    lose(copied.trace_folder)
    assert main(["conform", str(copied.trace_folder)]) == 2
    answer = capsys.readouterr().out
    assert "unknown: " in answer
    assert answer.endswith("UNKNOWN\n")


def test_a_group_that_did_nothing_is_unknown(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *RECORDED)

    async def idle() -> None:
        async with joined(config):
            pass

    go(idle())
    found = judged(config)
    assert not found.conforms
    assert found.unknown == ["nothing happened in this run"]


def test_beyond_the_limit_nothing_is_recorded(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *RECORDED, "trace.conform_bytes = 1_000")
    talk(config)
    found = judged(config)
    assert not found.conforms
    assert not found.divergences
    assert "1,000 bytes are the limit (trace.conform_bytes)" in found.unknown[0]


def test_a_second_life_under_the_number_of_the_first_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 3, *RECORDED)
    with monkeypatch.context() as patch:
        mutants.life_not_counted(patch)
        talk(config, lives=2)
    assert not judged(config).conforms


def test_a_life_that_wrote_nothing_need_not_be_recorded(copied: Config) -> None:
    """It was killed before its start: its steps have no frame, or only the first."""
    for name in copied.members:
        path = copied.trace_folder / f"{name}-2.steps.open"
        path.write_bytes((copied.trace_folder / f"{name}-1.steps").read_bytes()[:20])
    assert judged(copied).conforms


def test_a_member_that_still_runs_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = group_file(tmp_path, 1, *RECORDED)

    async def scenario() -> int:
        async with joined(config):
            return main(["conform", str(config.trace_folder)])

    assert go(scenario()) == 64
    assert "p1 is still running" in capsys.readouterr().err


# --- what is no recording


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def of_another_format(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"steps 1\n", b"steps 9\n", 1))


@pytest.mark.parametrize("spoil", [damage, cut_off, of_another_format])
def test_a_damaged_file_is_bad_data(
    spoil: object, copied: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(spoil)
    spoil(copied.trace_folder / "p2-0.steps")
    assert main(["conform", str(copied.trace_folder)]) == 65
    (line,) = capsys.readouterr().err.splitlines()
    assert "p2-0.steps: " in line


def test_the_result_as_json(recorded: Config, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", str(recorded.trace_folder), "--json"]) == 0
    result = msgspec.json.decode(capsys.readouterr().out)
    assert result["verdict"] == "conforms"
    assert result["members"]["p1"]["lives"] == 2
    assert result["divergences"] == result["unknown"] == []


@pytest.mark.parametrize(
    "setting", ["trace.on = false", "trace.retention_bytes = 9", "trace.retention_age_s = 9"]
)
def test_only_a_whole_trace_can_be_compared(setting: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="needs the whole trace"):
        group_file(tmp_path, 3, "trace.conform = true", setting)
