"""Crashes and returns: found in the rows alone, and drawn with the way of the last message."""

import re
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tidings.core import MessageId
from tidings.report.causality import Causality
from tidings.report.crashes import Crash, around, crashes_of
from tidings.report.page import Page, page_of_trace, picture_of, render
from tidings.report.page.from_trace import MOST_CRASHES
from tidings.report.page.model import MOST_EPISODES
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script
from tidings.spec import Place, judge
from tidings.spec.evidence import place
from tidings.trace import Manifest, Row, Run, collect, digest

BACK = walk(Plan(protocol="frontier", processes=5, broadcasts=40, restarts=2), seed=18)


def scripted(*lines: str, protocol: str = "majority-relay") -> Run:
    script = Script("crashes")
    for line in (f"protocol {protocol}", "group p1 p2 p3 p4 p5", *lines):
        script.command(line)
    return script.run()


def killed(run: Run) -> Run:
    """The same, as nodes would have written it: SIGKILL leaves no row."""
    rows = []
    for history in run.histories.values():
        numbers = count()
        kept = [row for row in history if row.kind != "crash"]
        rows += [msgspec.structs.replace(row, index=next(numbers)) for row in kept]
    lasts = {name: history[-1].kind for name, history in run.histories.items()}
    fates = {name: "crashed" if kind == "crash" else "up" for name, kind in lasts.items()}
    return collect(msgspec.structs.replace(run.manifest, fates=fates), rows)


def page_of(run: Run) -> Page:
    name, rows = run.manifest.run, sum(1 for _ in run.rows)
    return page_of_trace("runs/r", rows, {name: run.manifest}, {name: judge(run)}, [run])


# --- in words


def test_a_process_that_dies_in_mid_broadcast_is_reported_with_its_copies() -> None:
    run = scripted(
        "broadcast p1 hello", "receive p1->p2", "crash p1 losing p1->p4, p1->p5", "settle"
    )
    (crash,) = crashes_of(Causality(run))
    assert crash.is_in_mid_broadcast
    assert crash.in_words() == (
        "p1 died broadcasting p1#1: 2 of 4 copies had arrived; p2, p3, p4 and p5 delivered it"
    )
    assert crash.back is None


def test_a_message_that_had_arrived_everywhere_is_no_broadcast_cut_short() -> None:
    run = scripted("broadcast p1 hello", "settle", "crash p1")
    (crash,) = crashes_of(Causality(run))
    assert not crash.is_in_mid_broadcast
    assert crash.in_words() == (
        "p1 died after it had broadcast p1#1; p1, p2, p3, p4 and p5 delivered it"
    )


def test_who_had_broadcast_nothing_is_reported_without_a_message_and_not_drawn() -> None:
    run = scripted("broadcast p1 hello", "settle", "crash p2")
    (crash,) = crashes_of(Causality(run))
    assert crash.in_words() == "p2 died, and had broadcast nothing"
    with pytest.raises(AssertionError, match="p2 broadcast nothing"):
        around(crash, Causality(run), 10)


@pytest.mark.parametrize("run", [BACK, killed(BACK)], ids=["with crash rows", "killed"])
def test_who_comes_back_is_reported_with_what_it_missed(run: Run) -> None:
    crashes = crashes_of(Causality(run))
    assert len(crashes) == 2
    for crash in crashes:
        back = next(
            row for row in run.histories[crash.process] if crash.back and place(row) == crash.back
        )
        assert back.kind == "recover"
        assert back.index == crash.end.index + 1
        # Counted by hand: what others delivered before it was back, and it only after that.
        own = {
            row.message: row.index
            for row in reversed(run.histories[crash.process])
            if row.kind == "deliver"
        }
        theirs = {
            row.message for row in run.rows if row.kind == "deliver" and row.time_ns <= back.time_ns
        }
        missed = [one for one in theirs if own.get(one, back.index) >= back.index]
        assert crash.behind == len(missed)
        assert crash.caught_up == crash.behind
    assert max(crash.behind for crash in crashes) > 0


def test_without_a_last_word_a_stop_cannot_be_distinguished_from_a_kill() -> None:
    with_words, without = (
        [crash.in_words() for crash in crashes_of(Causality(run))] for run in (BACK, killed(BACK))
    )
    assert all(" died" in words for words in with_words)
    assert without == [words.replace(" died", " went down") for words in with_words]


def test_returns_say_how_much_was_missed_and_caught_up() -> None:
    crash = Crash(process="p1", end=Place("p1", 7), is_final=False, back=Place("p1", 8))
    assert crash.return_in_words() == "p1 came back, and had missed nothing"
    behind = msgspec.structs.replace(crash, behind=255, caught_up=255)
    assert behind.return_in_words() == "p1 came back 255 messages behind, and delivered them all"
    partly = msgspec.structs.replace(behind, caught_up=3)
    assert partly.return_in_words() == "p1 came back 255 messages behind, and delivered 3 of them"


def test_who_delivered_its_last_message_from_its_disk_is_reported_as_such() -> None:
    crash = Crash(
        process="p1",
        end=Place("p1", 7),
        is_final=False,
        message=MessageId("p1", 184),
        others=4,
        delivered_by=("p1", "p3"),
        came_from_disk=True,
    )
    assert crash.in_words().endswith(
        "0 of 4 copies had arrived; p1 (from its disk, when it was back) and p3 delivered it"
    )
    in_time = msgspec.structs.replace(crash, came_from_disk=False)
    assert in_time.in_words().endswith("; p1 and p3 delivered it")
    lost = msgspec.structs.replace(in_time, delivered_by=())
    assert lost.in_words().endswith("; nobody delivered it")


# --- as a picture


def test_copies_in_a_packet_that_bears_an_earlier_name_are_drawn_too() -> None:
    """Three messages in one packet have the name of the first: the last is in it all the same."""
    about = {"run": "r", "time_ns": 1, "origin": "p1"}
    texts = [
        Row(
            process="p1",
            index=seq - 1,
            kind="broadcast",
            seq=seq,
            digest=digest(b"x"),
            view=0,
            **about,
        )
        for seq in (1, 2, 3)
    ]
    packet = {"packet": 1, "packet_kind": "data", "bytes": 9, "seq": 1}
    sends = [
        Row(process="p1", index=3 + number, kind="send", peer=peer, **packet, **about)
        for number, peer in enumerate(("p2", "p3"))
    ]
    came = [
        Row(process="p2", index=0, kind="receive", peer="p1", **packet, **about),
        Row(process="p2", index=1, kind="held", seq=3, **about),
        Row(process="p2", index=2, kind="deliver", seq=3, digest=digest(b"x"), **about),
    ]
    manifest = Manifest(
        schema=2,
        run="r",
        names=("p1", "p2", "p3"),
        views=(("p1", "p2", "p3"),),
        fates={"p1": "crashed", "p2": "up", "p3": "up"},
    )
    causality = Causality(collect(manifest, [*texts, *sends, *came]))
    (crash,) = crashes_of(causality)
    assert (str(crash.message), crash.copies, crash.others) == ("p1#3", 1, 2)
    shown = {str(place(row)) for row in around(crash, causality, 200).rows}
    assert shown == {"p1:2", "p1:3", "p1:4", "p2:0", "p2:2"}, "with the copy that is lost"


def test_the_picture_shows_the_way_of_the_last_message_to_everybody_who_delivered_it() -> None:
    run = killed(BACK)
    causality = Causality(run)
    for crash in crashes_of(causality):
        view = around(crash, causality, 200)
        delivered = {row.process for row in view.rows if row.kind == "deliver"}
        assert delivered == set(crash.delivered_by)
        # Nobody delivers it out of the blue: a packet led to each.
        received = {row.process for row in view.rows if row.kind == "receive"}
        assert delivered - {crash.process} <= received
        assert any(row.kind == "recover" and row.process == crash.process for row in view.rows)
        assert len(view.rows) < 60
        assert f"Only the way of {crash.message} is shown" in view.left_out


def test_a_packet_with_another_name_is_explained() -> None:
    """Nodes put several messages into a packet, and a row names only the first."""
    several = "A packet with several messages has the name of their first."
    run = scripted("broadcast p1 one", "broadcast p1 two", "crash p1 losing p1->p5", "settle")
    (crash,) = crashes_of(Causality(run))
    assert crash.message == MessageId("p1", 2)
    assert several not in around(crash, Causality(run), 200).left_out
    bundled = {
        name: [
            msgspec.structs.replace(row, seq=1)
            if row.kind in ("send", "receive") and row.origin == "p1"
            else row
            for row in history
        ]
        for name, history in run.histories.items()
    }
    causality = Causality(Run(run.manifest, bundled))
    (crash,) = crashes_of(causality)
    assert around(crash, causality, 200).left_out.endswith(several)


def test_a_way_that_is_too_long_is_cut_and_says_so() -> None:
    causality = Causality(BACK)
    crash = crashes_of(causality)[0]
    view = around(crash, causality, 5)
    assert len(view.rows) <= 5
    assert view.left_out.endswith("only the first 5 are shown.")


def test_a_kill_ends_its_lane_with_a_cross_and_a_step_says_so() -> None:
    run = killed(BACK)
    causality = Causality(run)
    crash = crashes_of(causality)[0]
    picture = picture_of(causality, key="k", entry="e", view=around(crash, causality, 200))
    assert 'class="down"' in picture.svg
    assert any(f"Then {crash.process} goes down." in moment.words for moment in picture.moments)
    (cross,) = re.findall(r'class="down" transform="translate\(([\d.]+)', picture.svg)
    lanes = re.findall(
        rf'class="lane" d="M([\d.]+) [\d.]+L([\d.]+)[^"]*" data-process="{crash.process}"',
        picture.svg,
    )
    assert len(lanes) == 2, "it ends, and begins again"
    assert float(lanes[0][1]) == pytest.approx(float(cross), abs=0.1)
    assert float(lanes[1][0]) > float(cross)
    assert "crash" in [words for _, words in picture.symbols]


def test_a_process_that_was_down_all_the_time_has_no_lane() -> None:
    lines = ["crash p5", "settle", "broadcast p1 hello", "crash p1 losing p1->p4", "settle"]
    run = scripted(*lines)
    causality = Causality(run)
    crash = crashes_of(causality)[-1]
    assert crash.process == "p1"
    picture = picture_of(causality, key="k", entry="e", view=around(crash, causality, 200))
    assert 'class="lane"' in picture.svg
    assert not re.search(r'class="lane"[^>]*data-process="p5"', picture.svg)


# --- on the page


def test_the_page_tells_who_died_and_who_came_back_and_leads_to_the_pictures() -> None:
    run = killed(BACK)
    page = page_of(run)
    crashes = crashes_of(Causality(run))
    words = [episode.words for episode in page.episodes]
    for crash in crashes:
        assert f"{crash.in_words()}." in words
        assert f"{crash.return_in_words()}." in words
        assert words.index(f"{crash.in_words()}.") < words.index(f"{crash.return_in_words()}.")
    keys = {picture.key for picture in page.pictures}
    assert {episode.picture for episode in page.episodes} == keys
    html = render(page)
    assert ">The story</h2>" in html
    assert all(f'href="#{key}"' in html for key in keys)
    assert "The run is not drawn" not in html


def test_a_small_run_is_drawn_whole_and_its_story_leads_there() -> None:
    crash = "crash p1 losing p1->p2, p1->p3, p1->p4"
    page = page_of(scripted("broadcast p1 hello", crash, "settle"))
    (episode,), (picture,) = page.episodes, page.pictures
    assert episode.words.startswith("p1 died broadcasting p1#1: 1 of 4 copies")
    assert episode.picture == picture.key == "run-1"


def test_without_a_crash_there_is_no_such_section() -> None:
    page = page_of(walk(Plan(processes=3, broadcasts=2), seed=1))
    assert page.episodes == ()
    assert "The story" not in render(page)


def test_many_crashes_are_reported_and_only_the_first_are_drawn() -> None:
    plan = Plan(protocol="frontier", processes=3, broadcasts=60, restarts=MOST_CRASHES + 6)
    run = walk(plan, seed=2)
    assert len(crashes_of(Causality(run))) == MOST_CRASHES + 6
    page = page_of(run)
    assert len(page.pictures) <= MOST_CRASHES
    html = render(page)
    assert html.count("<li><span>") == MOST_EPISODES
    assert f"Only the first {MOST_EPISODES} of {2 * (MOST_CRASHES + 6)} crashes" in html


def test_report_needs_no_spark_for_it(tidings, tmp_path: Path) -> None:
    words = ["--protocol", "frontier", "--restarts", "1", "--broadcasts", "40", "--seed", "3"]
    assert tidings("simulate", *words, "--trace", "t").status == 0
    answer = tidings("report", "t", "--local")
    assert answer.status == 0
    assert answer.out.startswith("All 5 guarantees hold.\n")
    html = (tmp_path / "t" / "report.html").read_text()
    assert "tidings report t <span>--local</span>" in html
    assert " came back " in html
    refused = tidings("report", "t", "--local", "--master", "spark://here:7077")
    assert refused.status == 64
    assert "--master needs Spark: leave out --local" in refused.err
