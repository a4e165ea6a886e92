"""Space-time diagrams: what must be in them, and in which order, read back from the SVG."""

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import NamedTuple

import pytest

from flaw_scenes import SCENARIOS, played
from tidings.core import MessageId
from tidings.report import spacetime
from tidings.report.causality import Causality, is_in
from tidings.report.deeds import Deeds
from tidings.report.diagram.marks import segments
from tidings.report.diagram.scene import Scene, Spot
from tidings.report.focus import UNTOLD, focus
from tidings.report.svg import width_of
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script
from tidings.spec import Extra, Guarantee, Place, Violation, broken
from tidings.spec.evidence import place
from tidings.trace import Manifest, Row, Run, collect, digest

SVG = "{http://www.w3.org/2000/svg}"


class Diagram:
    """A diagram, read back."""

    def __init__(self, svg: str) -> None:
        self.svg = svg
        self.root = ElementTree.fromstring(svg)

    def all(self, name: str) -> list[ElementTree.Element]:
        """The elements of a class."""
        return [one for one in self.root.iter() if name in one.get("class", "").split()]

    def marks(self) -> dict[Place, "Mark"]:
        return {Place(_of(one, "process"), int(_of(one, "index"))): Mark.of(one)
                for one in self.all("event")}  # fmt: skip

    def texts(self) -> list[str]:
        return [one.text or "" for one in self.root.iter(f"{SVG}text")]


class Mark(NamedTuple):
    kind: str
    x: float
    y: float
    message: str | None
    is_faded: bool

    @classmethod
    def of(cls, element: ElementTree.Element) -> "Mark":
        x, y = map(float, re.findall(r"[-\d.]+", element.get("transform", "")))
        faded = "faded" in element.get("class", "")
        return cls(_of(element, "kind"), x, y, element.get("data-message"), faded)


def _of(element: ElementTree.Element, name: str) -> str:
    value = element.get(f"data-{name}")
    assert value is not None, f"no {name} on {element.attrib}"
    return value


def scripted(*lines: str, protocol: str = "majority-relay") -> Run:
    script = Script("r")
    script.command(f"protocol {protocol}")
    for line in lines:
        script.command(line)
    return script.run()


def first(run: Run, what: Guarantee | Extra, most_packets: int | None = None) -> Violation:
    violation = broken(run, what, most_packets)
    assert violation is not None, f"{what} holds"
    return violation


CARELESS = scripted(
    "group p1 p2 p3",
    "broadcast p1 question",
    "receive p1->p2",
    "broadcast p2 answer",
    "receive p2->p3 p2#1",
    "settle",
    protocol="flawed/careless",
)
HASTY = scripted(
    "group p1 p2 p3",
    "crash p1 after 1 send",
    "broadcast p1 hello",
    "settle",
    protocol="flawed/hasty",
)
SMALL = {
    "no duplication": walk(Plan(protocol="flawed/repeating", processes=3, broadcasts=1), 0),
    "no creation": walk(Plan(protocol="flawed/embroidering", processes=2, broadcasts=1), 0),
    "validity": walk(Plan(protocol="flawed/falling-silent", processes=1, broadcasts=4), 0),
    "uniform agreement": HASTY,
    "causal order": CARELESS,
    "cost": walk(Plan(protocol="flawed/forgetful-relay", processes=3, broadcasts=1), 0),
    "reach": played("flawed/leaving-out", SCENARIOS["flawed/leaving-out"]),
}


def violation_of(what: str) -> Violation:
    most = 6 if what == "cost" else None
    return first(SMALL[what], Extra(what) if what in tuple(Extra) else Guarantee(what), most)


def random_run(seed: int, **changes) -> Run:
    plan = {"processes": 4, "broadcasts": 6, "crashes": 1, "duplicated": 0.2, "partitions": 1}
    return walk(Plan(**plan | changes), seed)


# --- order


@pytest.mark.parametrize("seed", range(10))
def test_no_packet_arrives_left_of_where_it_was_sent(seed: int) -> None:
    diagram = Diagram(spacetime(random_run(seed)))
    arrows = diagram.all("packet")
    assert len(arrows) > 20
    for arrow in arrows:
        numbers = [float(number) for number in re.findall(r"[-\d.]+", arrow.get("d", ""))]
        assert numbers[0] < numbers[2], arrow.attrib


@pytest.mark.parametrize("seed", range(10))
def test_the_events_of_a_process_stand_in_its_own_order(seed: int) -> None:
    marks = Diagram(spacetime(random_run(seed))).marks()
    columns: dict[str, list[float]] = {}
    for where in sorted(marks):
        columns.setdefault(where.process, []).append(marks[where].x)
    for xs in columns.values():
        assert xs == sorted(set(xs)), "each has a column of its own, later ones further right"
    assert len({marks[where].y for where in marks if where.process == "p1"}) == 1


def test_the_clock_does_not_put_an_effect_before_its_cause() -> None:
    """A receiver whose clock is slow: by the time of its rows it receives before the send."""
    fields = {"run": "r", "peer": "p2", "packet": 1, "packet_kind": "copy", "bytes": 1}
    rows = [
        Row(process="p1", index=0, kind="send", time_ns=100, **fields),
        Row(process="p2", index=0, kind="receive", time_ns=5, **fields | {"peer": "p1"}),
    ]
    run = collect(Manifest(schema=1, run="r", names=("p1", "p2"), views=(("p1", "p2"),)), rows)
    assert [row.kind for row in Causality(run).order] == ["send", "receive"]
    marks = Diagram(spacetime(run)).marks()
    assert marks[Place("p1", 0)].x < marks[Place("p2", 0)].x


def test_a_trace_that_runs_in_circles_is_drawn_all_the_same() -> None:
    """Two packets, each sent after the other arrived: no order is right, and none hangs."""
    rows = []
    for process, peer in (("p1", "p2"), ("p2", "p1")):
        for index, kind in enumerate(("receive", "send")):
            rows.append(
                Row(run="r", process=process, index=index, kind=kind, time_ns=index, peer=peer,
                    packet=1, packet_kind="copy", bytes=1)
            )  # fmt: skip
    run = collect(Manifest(schema=1, run="r", names=("p1", "p2"), views=(("p1", "p2"),)), rows)
    assert len(Causality(run).order) == 4
    assert len(Diagram(spacetime(run)).all("packet")) >= 2


def test_a_gap_is_drawn_and_reported() -> None:
    rows = [
        Row(run="r", process="p1", index=0, kind="gap", time_ns=0, value=4),
        Row(run="r", process="p1", index=5, kind="recover", time_ns=1),
    ]
    run = collect(Manifest(schema=2, run="r", names=("p1",), views=(("p1",),)), rows)
    assert "not written down" in spacetime(run)
    deeds = Deeds(Causality(run), {})
    assert deeds.described(rows[:1]) == "p1 does what was not written down, up to its event 4."


def test_a_past_is_closed_under_what_came_before() -> None:
    causality = Causality(random_run(3))
    for row in causality.order[::7]:
        past = causality.past([place(row)])
        assert is_in(row, past)
        for process, last in past.items():
            for earlier in causality.run.histories[process][: last + 1]:
                source = causality.source(earlier)
                assert source is None or is_in(source, past)
    (question,) = [row for row in CARELESS.rows if row.kind == "broadcast" and row.seq == 1
                   and row.process == "p1"]  # fmt: skip
    assert Causality(CARELESS).past([place(question)]) == {"p1": 0}


# --- what is drawn


def test_every_event_and_every_packet_is_there() -> None:
    run = random_run(1)
    diagram = Diagram(spacetime(run))
    marks = diagram.marks()
    for row in run.rows:
        if row.kind in ("broadcast", "deliver", "receive", "crash", "settle"):
            mark = marks[place(row)]
            assert mark.kind == row.kind
            assert mark.message == (str(row.message) if row.origin else None)
    received = [place(row) for row in run.rows if row.kind == "receive"]
    ends = [
        Place(_of(arrow, "to"), int(_of(arrow, "to-index")))
        for arrow in diagram.all("packets")[0]
        if arrow.get("data-to-index")
    ]
    assert sorted(ends) == sorted(received)
    lost = {Place(_of(one, "process"), int(_of(one, "index"))) for one in diagram.all("loss")}
    assert lost == {place(row) for row in Causality(run).lost}
    assert lost, "nothing was lost"


def test_a_lost_packet_says_with_whom() -> None:
    run = scripted("group p1 p2 p3", "broadcast p1 hello", "crash p1 keeping p1->p2", "settle")
    answer = {one.findtext(f"{SVG}title") for one in Diagram(spacetime(run)).all("loss")}
    assert "copy p1#1 p1:3 → p3: lost with p1, who crashed" in answer
    assert any(words.endswith("→ p1: p1 had crashed") for words in answer)


def test_what_a_lossy_link_drops_is_lost_on_the_way() -> None:
    run = scripted("group p1 p2", "links lossy", "broadcast p1 hello", "drop p1->p2", "settle")
    (answer,) = [one.findtext(f"{SVG}title") for one in Diagram(spacetime(run)).all("loss")]
    assert answer.endswith("lost on the way")


def test_what_has_not_arrived_when_the_run_is_cut_short_is_still_on_its_way() -> None:
    run = scripted("group p1 p2", "broadcast p1 hello")
    diagram = Diagram(spacetime(run))
    (packet,) = diagram.all("on-its-way")
    assert (packet.findtext(f"{SVG}title") or "").endswith("still on its way")
    assert not diagram.all("loss")
    assert not diagram.all("cross"), "nothing was lost"
    assert "on its way" in diagram.texts()
    assert "lost packet" not in diagram.texts()


def test_a_run_cut_short_tells_what_was_lost_from_what_is_on_its_way() -> None:
    run = scripted("group p1 p2 p3", "links lossy", "broadcast p1 hello", "drop p1->p2")
    diagram = Diagram(spacetime(run))
    assert [_of(one, "to") for one in diagram.all("loss")] == ["p2"]
    assert [_of(one, "to") for one in diagram.all("on-its-way")] == ["p3"]
    assert {"on its way", "lost packet"} <= set(diagram.texts())


def test_messages_carry_their_names_and_texts() -> None:
    words = Diagram(spacetime(CARELESS)).texts()
    assert words.count("p1#1") == words.count("“question”") == 4
    assert words.count("p2#1") == words.count("“answer”") == 4


def test_a_lane_ends_at_its_crash() -> None:
    diagram = Diagram(spacetime(HASTY))
    (crash,) = [mark for mark in diagram.marks().values() if mark.kind == "crash"]
    (lane,) = [one for one in diagram.all("lane") if one.get("data-process") == "p1"]
    assert float(re.findall(r"[-\d.]+", lane.get("d", ""))[2]) == pytest.approx(crash.x, abs=0.1)


def test_a_newcomers_lane_begins_where_it_joins() -> None:
    diagram = Diagram(spacetime(SMALL["reach"]))
    (join,) = [mark for mark in diagram.marks().values() if mark.kind == "join"]
    (lane,) = [one for one in diagram.all("lane") if one.get("data-process") == "p4"]
    assert float(re.findall(r"[-\d.]+", lane.get("d", ""))[0]) == pytest.approx(join.x, abs=0.1)


def history(*kinds: str) -> Run:
    """One process that does these things, one after the other."""
    rows = []
    for index, kind in enumerate(kinds):
        packet = {"peer": "p1", "packet": 1, "packet_kind": "copy", "bytes": 1}
        columns = packet if kind in ("send", "receive") else {}
        rows.append(Row(run="r", process="p1", index=index, kind=kind, time_ns=index, **columns))
    return collect(Manifest(schema=1, run="r", names=("p1",), views=(("p1",),)), rows)


def test_a_lane_goes_on_where_a_process_comes_back() -> None:
    diagram = Diagram(spacetime(history("crash", "recover", "settle")))
    ends = [re.findall(r"[-\d.]+", lane.get("d", "")) for lane in diagram.all("lane")]
    marks = {mark.kind: mark.x for mark in diagram.marks().values()}
    assert [float(end[2]) for end in ends] == pytest.approx([marks["crash"], marks["settle"]], 0.01)
    assert float(ends[1][0]) == pytest.approx(marks["recover"], 0.01)


def test_a_packet_to_oneself_leaves_the_lane_and_returns() -> None:
    (arrow,) = [
        one
        for one in Diagram(spacetime(history("send", "receive"))).all("packet")
        if one.get("data-to")
    ]
    numbers = [float(number) for number in re.findall(r"[-\d.]+", arrow.get("d", ""))]
    assert numbers[0] < numbers[2] < numbers[4]
    assert numbers[3] < numbers[1], "above the lane"


def test_a_trace_without_packets_has_arrows_from_broadcasts_to_deliveries() -> None:
    message = {"run": "r", "origin": "p1", "seq": 1, "digest": digest(b"x"), "time_ns": 0}
    rows = [
        Row(process="p1", index=0, kind="broadcast", view=0, **message),
        Row(process="p2", index=0, kind="deliver", **message),
    ]
    run = collect(Manifest(schema=1, run="r", names=("p1", "p2"), views=(("p1", "p2"),)), rows)
    diagram = Diagram(spacetime(run))
    assert [_of(arrow, "to") for arrow in diagram.all("packets")[0]] == ["p2"]
    assert "message" in diagram.texts(), "the legend"


# --- the violation


@pytest.mark.parametrize("what", SMALL)
def test_the_violation_is_ringed_where_it_shows_and_reported_in_words(what: str) -> None:
    run, violation = SMALL[what], violation_of(what)
    diagram = Diagram(spacetime(run, violation))
    (ring,) = [one for one in diagram.root.iter() if one.get("data-violation")]
    last = run.histories[violation.process][-1]
    where = place(last) if what in ("validity", "uniform agreement") else violation.witness[-1]
    if what == "no creation":
        where = violation.witness[0]
    spot = diagram.marks()[where]
    assert (float(ring.get("cx", 0)), float(ring.get("cy", 0))) == (
        pytest.approx(spot.x, abs=0.1),
        pytest.approx(spot.y, abs=0.1),
    )
    assert f"{what.capitalize()} violated" in diagram.texts()
    assert f"{what.capitalize()} violated at {violation.process}" in diagram.texts()
    description = diagram.root.findtext(f"{SVG}desc") or ""
    assert str(violation.message) in description or what == "cost"


def test_the_past_of_the_violation_is_strong_and_the_rest_faded() -> None:
    violation = first(CARELESS, Guarantee.CAUSAL_ORDER)
    causality = Causality(CARELESS)
    past = causality.past([violation.witness[-1]])
    marks = Diagram(spacetime(CARELESS, violation)).marks()
    assert {mark.is_faded for mark in marks.values()} == {True, False}
    for where, mark in marks.items():
        assert mark.is_faded == (where.index > past.get(where.process, -1)), where


def test_the_packet_too_many_is_never_faded() -> None:
    diagram = Diagram(spacetime(SMALL["cost"], violation_of("cost")))
    (guilty,) = diagram.all("guilty")
    assert "faded" not in guilty.get("class", "")
    assert (
        Place(_of(guilty, "process"), int(_of(guilty, "index"))) == violation_of("cost").witness[0]
    )


def test_the_packet_too_many_leaves_from_a_mark_of_its_own() -> None:
    """Not from that of a delivery in the same breath, which did no harm."""
    violation = violation_of("cost")
    (where,) = violation.witness
    marks = Diagram(spacetime(SMALL["cost"], violation)).marks()
    assert marks[where].kind == "send"
    others = [mark.x for other, mark in marks.items() if other != where]
    assert min(abs(marks[where].x - x) for x in others) >= 20
    assert where not in Diagram(spacetime(SMALL["cost"])).marks(), "it is only told apart here"


def test_the_header_counts_what_there_was() -> None:
    lines = ("group p1 p2 p3 p4 p5", "broadcast p1 x", "crash p2", "crash p3", "settle")
    (words,) = [one for one in Diagram(spacetime(scripted(*lines))).texts() if "processes" in one]
    assert words == "5 processes, 1 broadcast, 12 packets, 2 crashes"


def test_without_a_violation_nothing_is_faded_or_ringed() -> None:
    diagram = Diagram(spacetime(CARELESS))
    assert not diagram.all("faded")
    assert not diagram.all("ring")
    assert diagram.root.findtext(f"{SVG}title") == "flawed/careless, run r"


# --- long runs


def test_a_long_run_is_reduced_to_what_led_to_the_violation_and_says_so() -> None:
    run = walk(Plan(protocol="flawed/careless", broadcasts=60), seed=3)
    violation = first(run, Guarantee.CAUSAL_ORDER)
    past = Causality(run).past(violation.witness)
    led_to_it = [row for row in run.rows if is_in(row, past) and row.kind not in UNTOLD]
    diagram = Diagram(spacetime(run, violation, most_events=len(led_to_it)))
    assert set(diagram.marks()) <= {
        Place(process, index) for process, last in past.items() for index in range(last + 1)
    }
    shown = focus(Causality(run), violation, len(led_to_it)).rows
    assert 0 < len(shown) < len(led_to_it), "without packets whose arrival did not matter"
    assert any(words.startswith(f"Only the {len(shown):,} rows ") for words in diagram.texts())
    assert set(violation.witness) <= set(diagram.marks())


def test_a_very_long_past_is_reduced_to_the_messages_in_question() -> None:
    run = walk(Plan(protocol="flawed/careless", broadcasts=60), seed=3)
    violation = first(run, Guarantee.CAUSAL_ORDER)
    diagram = Diagram(spacetime(run, violation, most_events=100))
    about = {mark.message for mark in diagram.marks().values()} - {None}
    assert about == {str(violation.cause), str(violation.message)}
    assert any(words.startswith("Only what happened to ") for words in diagram.texts())


def test_a_long_run_without_a_violation_is_cut() -> None:
    diagram = Diagram(spacetime(random_run(2), most_events=50))
    assert len(diagram.marks()) <= 50
    assert any(words.startswith("Only the first 50 of ") for words in diagram.texts())


def test_a_packet_too_many_is_drawn_although_its_arrival_is_not() -> None:
    run = walk(Plan(protocol="flawed/storm", processes=3, broadcasts=2), 0)
    sends = sum(row.kind == "send" for row in run.rows)
    diagram = Diagram(spacetime(run, first(run, Extra.COST, sends - 1), most_events=20))
    assert len(diagram.all("guilty")) == 1
    assert any(one.get("data-violation") for one in diagram.root.iter())


def fanned(run: Run) -> Scene:
    causality = Causality(run)
    return Scene(causality, None, None, focus(causality, None, 400))


def way(start: Spot, end: Spot) -> float:
    return math.atan2(end.y - start.y, end.x - start.x)


def test_a_packet_that_is_lost_does_not_lie_upon_one_that_arrives() -> None:
    run = scripted(
        "group p1 p2 p3 p4 p5",
        "broadcast p2 hello",
        "crash p2 keeping p2->p1, p2->p3",
        "receive p2->p3",
        *["broadcast p1 more"] * 8,
        "settle",
    )
    ways = {one.sent.peer: way(one.start, one.end) for one in segments(fanned(run))
            if one.sent.process == "p2"}  # fmt: skip
    assert set(ways) == {"p1", "p3", "p4", "p5"}
    assert ways["p3"] + math.radians(6) < ways["p4"] < ways["p5"], "p4 and p5 are steeper"


@pytest.mark.parametrize("seed", range(10))
def test_the_label_of_a_packet_hides_no_mark_and_no_head_of_another(seed: int) -> None:
    diagram = Diagram(spacetime(random_run(seed)))
    marks = [Spot(mark.x, mark.y) for mark in diagram.marks().values()]
    (group,) = diagram.all("packet-labels")
    assert len(group) > 5
    for label in group:
        x, y, angle = map(float, re.findall(r"-?[\d.]+", label.get("transform", "")))
        turned = math.radians(angle)
        half = width_of(label.text or "", 10.5) / 2
        for mark in marks:
            across, down = mark.x - x, mark.y - y
            along = across * math.cos(turned) + down * math.sin(turned)
            above = across * math.sin(turned) - down * math.cos(turned)
            assert not (abs(along) < half and 2 < above < 12), (label.text, mark)


def test_the_label_of_a_packet_that_arrived_names_both_its_ends() -> None:
    """Otherwise it fades where its arrow is lit as part of a past."""
    diagram = Diagram(spacetime(HASTY))
    both = {(_of(one, "process"), _of(one, "to")) for one in diagram.all("packet-labels")[0]
            if one.get("data-to")}  # fmt: skip
    assert ("p1", "p2") in both


# --- a document that can be trusted


MARKUP = b'<script>alert("&amp;")</script>]]>\x00\x1b[31m\xff \xe2\x80\xae'


def test_texts_are_shown_and_never_mistaken_for_markup() -> None:
    texts = {digest(b"question"): MARKUP}
    diagram = Diagram(spacetime(CARELESS, texts=texts))
    assert not list(diagram.root.iter(f"{SVG}script"))
    titles = [one.text or "" for one in diagram.root.iter(f"{SVG}title")]
    answer = next(words for words in titles if words.startswith("p1:0"))
    assert '<script>alert("&amp;")</script>]]>\\x00\\x1b[31m\\xff \\u202e' in answer
    assert all(char.isprintable() or char == "\n" for char in diagram.svg)


def test_names_of_processes_are_never_mistaken_for_markup() -> None:
    strange = 'p"<1>&'
    rows = [Row(run="r", process=strange, index=0, kind="settle", time_ns=0)]
    run = collect(Manifest(schema=1, run="r", names=(strange,), views=((strange,),)), rows)
    assert list(Diagram(spacetime(run)).marks()) == [Place(strange, 0)]


def test_the_document_needs_nothing_from_elsewhere() -> None:
    svg = spacetime(CARELESS, first(CARELESS, Guarantee.CAUSAL_ORDER))
    assert re.findall(r"https?://[^\"']+", svg) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"url\(|@import|@font-face|<script|<image|<use|javascript", svg)
    assert "@media screen and (prefers-color-scheme:dark)" in svg
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    named = (root.get("aria-labelledby") or "").split()
    assert named == [one.get("id") for one in root[:2]]


def test_small_runs_fit_a_page_and_labels_of_one_lane_do_not_touch() -> None:
    for what, run in SMALL.items():
        diagram = Diagram(spacetime(run, violation_of(what)))
        assert float(diagram.root.get("width", 0)) <= (1150 if what == "reach" else 760)
        by_lane: dict[str, list[float]] = {}
        for label in diagram.all("label"):
            by_lane.setdefault(_of(label, "process"), []).append(float(label[0].get("x", 0)))
        for xs in by_lane.values():
            assert all(right - left > 25 for left, right in pairwise(xs))


def test_the_same_run_gives_the_same_picture() -> None:
    violation = violation_of("causal order")
    assert spacetime(CARELESS, violation) == spacetime(CARELESS, violation)
    assert violation.message == MessageId("p2", 1)
