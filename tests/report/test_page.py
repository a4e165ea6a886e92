"""The page of a report: what must be in it, what must never be, and how much of it."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from conftest import Tidings
from measured_by_hand import overview_by_hand
from shorthand import Shorthand
from tidings.core import MessageId
from tidings.report.causality import Causality, is_in
from tidings.report.charts.figures import front
from tidings.report.charts.model import Axis, Dot, Growth, Line, ParetoChart, Point
from tidings.report.markup import Markup, data, element
from tidings.report.numbers import Scale, figure, percent, percents
from tidings.report.page import Page, page_of_trace, picture_of, render
from tidings.report.page.from_trace import _note, entries_of
from tidings.report.page.measure import growth_of, spread
from tidings.report.page.model import (
    MOST_CAUSE_ROWS,
    MOST_EVENTS,
    MOST_LINES,
    MOST_PICTURES,
    MOST_POINTS,
    Cell,
    Entry,
    Matrix,
    Picture,
    within_limits,
)
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script
from tidings.spec import Guarantee, Place, Value, Verdict, broken, judge
from tidings.spec.evidence import place
from tidings.trace import Manifest, Row, Run, collect, write_runs

HOSTILE = '</script><img src=x onerror="alert(1)">&amp;<!--\'"'
VOID = ("meta", "br", "img")


class Document(HTMLParser):
    """A page, read back: its elements, its texts, and whether everything that opens closes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} is closed where it is not open"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    @property
    def ids(self) -> list[str]:
        return [str(one["id"]) for _, one in self.elements if "id" in one]


def plain_page(**parts: object) -> Page:
    page = Page(title="A page", answer="It holds.", value=Value.HOLDS)
    return msgspec.structs.replace(page, **parts)


def careless_run() -> Run:
    """p3 delivers the answer before the question."""
    script = Script("answered-too-early")
    for line in (
        "protocol flawed/careless",
        "group p1 p2 p3",
        "broadcast p1 who is there?",
        "receive p1->p2",
        "broadcast p2 I am",
        "receive p2->p3 p2#1",
        "settle",
    ):
        script.command(line)
    return script.run()


def careless_picture(**options: int) -> Picture:
    run = careless_run()
    violation = broken(run, Guarantee.CAUSAL_ORDER)
    assert violation is not None
    return picture_of(Causality(run), violation, key="careless", entry="flawed/careless", **options)


# --- the whole


def test_the_page_tells_everything_in_its_order(example: Page) -> None:
    page = Document(render(example))
    sections = [str(one["id"]) for one in page.all("section")]
    assert sections == ["verdicts", "cost", "latency", "state", "pareto", "runs", "again"]
    assert example.answer in page.text
    links = [str(one["href"]) for one in page.all("a")]
    assert {link.removeprefix("#") for link in links} <= set(page.ids)


def test_sections_without_data_are_left_out() -> None:
    page = Document(render(plain_page()))
    assert page.all("section") == []
    assert page.all("nav") == []
    assert "It holds." in page.text


def test_ids_are_unique_and_every_drawing_has_a_name(example: Page) -> None:
    page = Document(render(example))
    assert len(page.ids) == len(set(page.ids))
    for one in page.all("svg"):
        assert one.get("aria-label") or one.get("aria-hidden") == "true"


def test_every_figure_has_its_numbers_and_the_command_that_makes_them(example: Page) -> None:
    page = render(example)
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == 2 + 2 + 1 + 1  # costs, latencies by faults, state, Pareto
    for one in figures:
        assert "<details>" in one
    for key in ("verdicts", "cost", "latency", "state", "pareto"):
        (section,) = re.findall(rf'<section id="{key}".*?</section>', page, re.DOTALL)
        assert section.count("Again:") == section.count('class="how"') == 1, "once, for all of it"
        assert "<code>tidings " in section


def test_axes_have_labels_units_and_say_if_they_are_logarithmic(example: Page) -> None:
    text = Document(render(example)).text
    assert "packets per broadcast, logarithmic" in text
    assert "bytes per broadcast, logarithmic" in text
    assert "processes, logarithmic" in text
    assert "from the broadcast until all correct ones have delivered (ms)" in text


def test_the_same_model_gives_the_same_page(example: Page) -> None:
    assert render(example) == render(example)


# --- nothing from elsewhere, nothing that was not written here


def test_the_page_fetches_nothing_and_its_policy_would_not_let_it(example: Page) -> None:
    source = render(example)
    assert set(re.findall(r"https?://[^\"'\s<)]+", source)) == {"http://www.w3.org/2000/svg"}
    page = Document(source)
    policy = next(str(one["content"]) for one in page.all("meta") if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not [one for _, one in page.elements if "style" in one or "src" in one]
    assert not [name for _, one in page.elements for name in one if name.startswith("on")]


def hostile_run() -> Run:
    names = (HOSTILE, "p2")
    common = {"run": HOSTILE, "time_ns": 0, "origin": HOSTILE, "seq": 1, "digest": "0" * 16}
    rows = [
        Row(process=HOSTILE, index=0, kind="broadcast", view=0, **common),
        Row(process="p2", index=0, kind="deliver", **common),
        Row(process="p2", index=1, kind="deliver", **common),
    ]
    manifest = Manifest(schema=1, run=HOSTILE, names=names, views=(names,), protocol=HOSTILE)
    return collect(manifest, rows)


def test_what_users_write_is_shown_and_never_markup() -> None:
    run = hostile_run()
    verdicts = {HOSTILE: judge(run)}
    page = page_of_trace(HOSTILE, 3, {HOSTILE: run.manifest}, verdicts, [run], how=HOSTILE)
    texts = {"0" * 16: HOSTILE.encode()}
    violation = broken(run, Guarantee.NO_DUPLICATION)
    picture = picture_of(
        Causality(run), violation, key="hostile", entry=HOSTILE, title=HOSTILE, texts=texts
    )
    source = render(msgspec.structs.replace(page, pictures=(*page.pictures, picture)))
    document = Document(source)
    assert not document.all("img")
    assert len(document.all("script")) == 1 + 2  # ours, and the data of two pictures
    assert f"Audit of {HOSTILE}" in document.texts
    assert "<!--" not in source


def test_controls_and_direction_marks_are_spelt_out() -> None:
    answer = "a\u202eb\x1b[31m"
    text = Document(render(plain_page(answer=answer))).text
    assert "a\\u202eb\\x1b[31m" in text


@pytest.mark.parametrize("words", [HOSTILE, "<b>", 'a"b', "&lt;"])
def test_an_element_escapes_whatever_is_not_markup_already(words: str) -> None:
    document = Document(element("p", words, element("i", words), title=words))
    assert [name for name, _ in document.elements] == ["p", "i"]
    assert document.texts == [words, words]
    assert document.all("p") == [{"title": words}]


def test_data_for_the_script_cannot_end_its_element() -> None:
    printed = data(msgspec.json.encode({"name": HOSTILE}))
    assert isinstance(printed, Markup)
    inside = printed.partition(">")[2].removesuffix("</script>")
    assert "<" not in inside
    assert msgspec.json.decode(inside) == {"name": HOSTILE}


# --- verdicts


def matrix_of(cell: Cell, **entry: object) -> Document:
    row = Entry(name="an algorithm", cells={Guarantee.VALIDITY: cell}, **entry)
    return Document(render(plain_page(matrix=Matrix(entries=(row,)))))


def test_no_violation_in_so_many_runs_is_stated_as_the_bound_that_it_is() -> None:
    text = matrix_of(Cell(value=Value.HOLDS, runs=36, low=0.0, high=1 - 0.025 ** (1 / 36))).text
    assert "✓ not seen" in text
    assert "in 36 runs, at most 9.8%" in text
    assert "✓ holds" not in text
    assert "exact 95% confidence intervals" in text


def test_a_sample_of_one_run_allows_nearly_everything() -> None:
    text = matrix_of(Cell(value=Value.HOLDS, runs=1, low=0.0, high=0.975)).text
    assert "in 1 run, at most 97.5%" in text


def test_a_violated_cell_says_how_often_and_leads_nowhere_without_a_picture() -> None:
    cell = Cell(value=Value.VIOLATED, runs=200, violated=12, low=0.031, high=0.102, picture="x")
    page = matrix_of(cell, flawed=True)
    assert "✗ violated" in page.text
    assert "12 of 200 runs" in page.text
    assert "3.1% to 11%" in page.text  # an interval is not made narrower by rounding
    assert "flawed on purpose" in page.text
    assert not [one for one in page.all("a") if one["href"] == "#x"]  # no such picture


def test_every_violated_cell_with_a_picture_links_to_it(example: Page) -> None:
    page = Document(render(example))
    links = {str(one["href"]) for one in page.all("a")}
    shown = {picture.key for picture in example.pictures if picture.is_violation}
    assert shown == {"of-4-flawed-careless-causal-order"}
    assert {f"#{key}" for key in shown} <= links


def test_an_unknown_cell_is_neither_and_says_why() -> None:
    cell = Cell(value=Value.UNKNOWN, runs=3, unknown=2, note="p1 never settled")
    text = matrix_of(cell).text
    assert "? unknown" in text
    assert "0 of 1 runs" in text, "the others were not judged"
    assert "2 unknown" in text
    nothing = matrix_of(Cell(value=Value.UNKNOWN, runs=3, unknown=3, high=1.0)).text
    assert "3 unknown" in nothing
    assert "of 0 runs" not in nothing
    assert "p1 never settled" in text


def test_a_single_run_has_no_interval() -> None:
    text = matrix_of(Cell(value=Value.HOLDS, runs=1, note="12 broadcasts")).text
    assert "12 broadcasts" in text
    assert "confidence" not in text
    assert "0 of 1" not in text


# --- pictures


def test_pasts_on_the_page_are_the_pasts_of_the_run() -> None:
    run = walk(Plan(processes=4, broadcasts=4, crashes=1, mid_broadcast=1.0), seed=3)
    causality = Causality(run)
    picture = picture_of(causality, key="k", entry="e")
    assert picture.happenings
    for one in picture.happenings:
        here = Place(picture.processes[one.process], one.index)
        past = causality.past([here])
        assert all(
            past.get(name, -1) == index
            for name, index in zip(picture.processes, one.past, strict=True)
        )


def test_steps_go_from_left_to_right_and_causes_come_first() -> None:
    picture = careless_picture()
    xs = [moment.x for moment in picture.moments]
    assert xs == sorted(set(xs))
    at = {(one.process, one.index): one.moment for one in picture.happenings}
    for one in picture.happenings:
        for process, last in enumerate(one.past):
            assert at.get((process, last), -1) <= one.moment


def test_the_story_says_who_did_what_and_where_it_went_wrong() -> None:
    picture = careless_picture()
    words = [moment.words for moment in picture.moments]
    assert words[0].startswith("p1 broadcasts p1#1 “who is there?”, and sends")
    wrong = [moment.words for moment in picture.moments if moment.is_violation]
    assert wrong == ["p3 delivers p2#1 “I am”."]
    assert [one.name for one in picture.messages] == ["p1#1", "p2#1"]


def test_a_step_tells_which_packets_are_lost_and_why() -> None:
    run = walk(Plan(processes=3, broadcasts=2, crashes=1, mid_broadcast=1.0), seed=4)
    words = " ".join(
        moment.words for moment in picture_of(Causality(run), key="k", entry="e").moments
    )
    assert "crashed)" in words


def test_a_picture_has_no_more_events_than_it_may_and_says_so() -> None:
    plan = Plan(protocol="flawed/careless", processes=5, broadcasts=60, delay_ms_max=80.0)
    run = walk(plan, seed=1)
    violation = broken(run, Guarantee.CAUSAL_ORDER)
    assert violation is not None
    for most in (MOST_EVENTS, 30):
        causality = Causality(run)
        picture = picture_of(causality, violation, key="k", entry="e", most_events=most)
        assert len(picture.happenings) <= most
        assert picture.left_out
        if most == MOST_EVENTS:
            rows = sum(1 for _ in run.rows)
            assert f" {rows:,}" in picture.left_out, "as many as the page counts elsewhere"
        shown = {Place(picture.processes[one.process], one.index) for one in picture.happenings}
        assert set(violation.witness) <= shown
        assert any(moment.is_violation for moment in picture.moments)


# --- a trace


def page_of(run: Run) -> Page:
    verdicts = {run.manifest.run: judge(run)}
    rows = sum(1 for _ in run.rows)
    manifests = {run.manifest.run: run.manifest}
    measured = overview_by_hand([run], entries_of(manifests))
    how = "tidings report runs/7"
    return page_of_trace("runs/7", rows, manifests, verdicts, [run], measured, how)


def test_the_command_below_a_section_of_a_trace_prints_what_the_section_shows() -> None:
    """An audit prints no costs and no latencies; and where there is no Spark, it needs --local."""
    run = careless_run()
    page = page_of(run)
    assert page.matrix is not None
    assert page.matrix.how == "tidings audit runs/7"
    assert page.cost_table is not None
    measured = [page.cost_table, *page.latencies]
    assert [one.how for one in measured] == ["tidings report runs/7"] * 2
    verdicts = {run.manifest.run: judge(run)}
    here = page_of_trace("runs/7", 42, {run.manifest.run: run.manifest}, verdicts, [run])
    assert here.matrix is not None
    assert here.matrix.how == "tidings audit runs/7 --local"


def test_one_trace_has_verdicts_costs_latencies_and_a_picture_of_its_violation() -> None:
    page = page_of(careless_run())
    assert page.answer == "Causal order was violated."
    assert page.value is Value.VIOLATED
    assert page.matrix is not None
    (entry,) = page.matrix.entries
    assert entry.flawed
    assert entry.cells[Guarantee.CAUSAL_ORDER].picture == "run-1-causal-order"
    assert [picture.key for picture in page.pictures] == ["run-1-causal-order"]
    assert page.pictures[0].replay == "tidings replay runs/7 --until p3:4"
    assert page.cost_table is not None
    sent = [row for row in careless_run().rows if row.kind == "send"]
    assert sum(row.packets for row in page.cost_table.rows) == len(sent) / 2
    spreads = page.latencies[0].spreads
    assert [one.name for one in spreads] == [
        "until its origin delivers it",
        "until the first does",
        "until a majority has",
        "until all correct ones have",
    ]
    assert [one.count for one in spreads] == [2] * 4
    Document(render(page))


def test_a_picture_says_what_to_look_up_in_the_log() -> None:
    run = Shorthand(p1="b1 dp1#1 settle", p2="dp1#1 dp1#1 settle").run()
    manifests, verdicts = {"r": run.manifest}, {"r": judge(run)}
    log = {"r": {MessageId("p1", 1): "order 7, app.log:1"}}
    page = page_of_trace("runs/7", 6, manifests, verdicts, [run], log=log)
    (picture,) = page.pictures
    assert "In the log:\n  m = order 7, app.log:1" in picture.proof
    assert "m = order 7, app.log:1" in Document(render(page)).text
    undrawn = page_of_trace("runs/7", 10**7, manifests, verdicts, [], log=log)
    assert undrawn.left_out[0].endswith(" In the log: p1#1 = order 7, app.log:1.")


def test_causes_are_listed_the_largest_first_and_no_more_than_fit() -> None:
    history = " ".join(f"b{n} dp1#{n}" for n in range(1, 9))
    swapped = " ".join(f"dp1#{n + 1} dp1#{n}" for n in range(1, 9, 2))
    late = " ".join(f"dp1#{n}" for n in range(2, 9)) + " dp1#1"
    settled = {"p1": history, "p2": swapped, "p3": late}
    run = Shorthand(**{name: f"{words} settle" for name, words in settled.items()}).run()
    page = page_of_trace("runs/7", 42, {"r": run.manifest}, {"r": judge(run)}, [run])
    assert page.causes is not None
    assert [(row.words, *row.violated.values()) for row in page.causes.rows] == [
        ("p3 does not wait for p1#1", 7),
        *((f"p2 does not wait for p1#{n}", 1) for n in range(1, 9, 2)),
    ]
    assert page.matrix is not None
    cell = page.matrix.entries[0].cells[Guarantee.CAUSAL_ORDER]
    assert cell.note == "5 causes, 11 violations in 24 deliveries"
    text = Document(render(page)).text
    assert text.index("p3 does not wait for p1#1") < text.index("p2 does not wait for p1#1")
    many = msgspec.structs.replace(page.causes, rows=page.causes.rows * 9)
    cut = within_limits(msgspec.structs.replace(page, causes=many))
    assert cut.causes is not None
    assert len(cut.causes.rows) == MOST_CAUSE_ROWS < len(many.rows)
    assert f"Only the first {MOST_CAUSE_ROWS} of 45 causes are shown." in cut.left_out


def test_a_small_run_that_holds_is_drawn_and_a_long_one_is_not_and_that_is_reported() -> None:
    small = page_of(walk(Plan(processes=3, broadcasts=1), seed=1))
    assert small.answer == "All 5 guarantees hold."
    assert [picture.is_violation for picture in small.pictures] == [False]
    long = page_of(walk(Plan(processes=5, broadcasts=30), seed=1))
    assert long.pictures == ()
    assert "not drawn" in Document(render(long)).text


def test_a_trace_too_long_to_read_is_judged_and_the_page_says_what_is_missing() -> None:
    run = careless_run()
    verdicts = {run.manifest.run: judge(run)}
    page = page_of_trace("runs/7", 10**7, {run.manifest.run: run.manifest}, verdicts, [])
    assert page.pictures == ()
    text = Document(render(page)).text
    assert "Causal order was violated." in text
    assert "Not drawn: Causal order violated. p3 delivered p2#1" in text
    assert "10,000,000 rows; only up to 250,000 are drawn" in text


def test_who_is_killed_without_a_last_word_is_counted_as_crashed() -> None:
    run = careless_run()
    silent = {name: rows[:-1] if name == "p1" else rows for name, rows in run.histories.items()}
    fates = {"p1": "crashed", "p2": "up", "p3": "up"}
    manifest = msgspec.structs.replace(run.manifest, fates=fates)
    facts = [picture_of(Causality(one), key="k", entry="e").facts
             for one in (run, Run(manifest, silent))]  # fmt: skip
    assert facts[0].endswith("no crash")
    assert facts[1].endswith("1 crash")


def test_a_run_cut_short_is_unknown() -> None:
    run = careless_run()
    histories = {name: rows[:1] for name, rows in run.histories.items()}
    manifest = msgspec.structs.replace(run.manifest, fates={})
    page = page_of(Run(manifest, histories))
    assert page.value is Value.UNKNOWN
    assert "cannot be judged" in page.answer


def test_runs_of_many_protocols_are_gathered_by_protocol() -> None:
    plans = [Plan(protocol=name, processes=3, broadcasts=3) for name in ("two-phase", "frontier")]
    runs = [walk(plan, seed) for plan in plans for seed in (1, 2)]
    manifests = {run.manifest.run: run.manifest for run in runs}
    verdicts = {run.manifest.run: judge(run) for run in runs}
    measured = overview_by_hand(runs, entries_of(manifests))
    page = page_of_trace("runs/many", 100, manifests, verdicts, runs, measured)
    assert page.answer == "All 5 guarantees hold in 4 runs."
    assert page.matrix is not None
    assert [(one.name, one.note) for one in page.matrix.entries] == [
        ("two-phase", "2 runs"),
        ("frontier", "2 runs"),
    ]
    assert [one.name for one in page.latencies[0].spreads] == ["two-phase", "frontier"]


@pytest.mark.usefixtures("spark")
def test_the_command_audits_a_trace_and_writes_its_page(
    tidings: Tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    write_runs(Path("runs/told"), [careless_run()])
    answer = tidings("report", "runs/told", "--out", "pages/told.html", "--open")
    assert opened == [Path("pages/told.html").resolve().as_uri()]
    assert answer.status == 1
    assert "Causal order was violated." in answer.out
    page = Document(Path("pages/told.html").read_text(encoding="utf-8"))
    assert shlex.join(["tidings", "report", "runs/told", "--out", "pages/told.html"]) in page.text


@pytest.mark.usefixtures("spark")
def test_the_page_lies_beside_its_trace_unless_it_is_to_be_elsewhere(tidings: Tidings) -> None:
    write_runs(Path("runs/told"), [careless_run()])
    answer = tidings("report", "runs/told", "--json")
    assert json.loads(answer.out) == {
        "answer": "Causal order was violated.",
        "value": "violated",
        "page": "runs/told/report.html",
    }
    assert answer.status == 1
    again = tidings("audit", "runs/told")
    assert again.status == 1, "a page in its folder does a trace no harm"
    page = Document(Path("runs/told/report.html").read_text(encoding="utf-8"))
    assert "tidings report runs/told" in page.text


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["nowhere"], 64, "nowhere: no such file or folder"),
        ([".", "--out", "page.txt"], 64, "--out takes a .html file"),
        (["."], 65, "no trace here"),
        (["told", "--out", "file/page.html"], 69, "file/page.html: Not a directory"),
        (["broken"], 65, "manifest.jsonl:1: not a part of a manifest"),
    ],
)
def test_bad_input_gets_one_line_before_spark_is_started(
    tidings: Tidings, words: list[str], status: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("tidings.cli.audit.on_spark")
    write_runs(Path("told"), [careless_run()])
    write_runs(Path("broken"), [careless_run()])
    Path("broken/manifest.jsonl").write_text("{")
    Path("file").touch()
    answer = tidings("report", *words)
    assert answer.status == status
    assert line in answer.err
    assert not list(Path().glob("*.html"))


def test_the_example_of_the_guide_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", guide, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]
    assert Document(Path("hasty.html").read_text(encoding="utf-8")).all("article")


# --- numbers, and how much of them


def test_what_is_beyond_the_limits_is_cut_and_reported(example: Page) -> None:
    chart = example.costs[0]
    many = tuple(Line(f"line {number}", chart.lines[0].points) for number in range(MOST_LINES + 3))
    page = plain_page(
        costs=(msgspec.structs.replace(chart, lines=many),),
        pictures=tuple(
            msgspec.structs.replace(careless_picture(), key=f"k{number}")
            for number in range(MOST_PICTURES + 1)
        ),
    )
    cut = within_limits(page)
    assert len(cut.costs[0].lines) == MOST_LINES
    assert len(cut.pictures) == MOST_PICTURES
    text = Document(render(page)).text
    assert f"Only the first {MOST_LINES} of {MOST_LINES + 3} in “{chart.title}”" in text
    assert f"Only the first {MOST_PICTURES} of {MOST_PICTURES + 1} pictures" in text


def test_figures_without_points_are_left_out(example: Page) -> None:
    chart = msgspec.structs.replace(example.costs[0], lines=(Line("empty", ()),))
    assert Document(render(plain_page(costs=(chart,)))).all("section") == []


def test_a_lower_bound_looks_the_same_in_every_figure(example: Page) -> None:
    packets = example.costs[0]
    some = msgspec.structs.replace(packets, title="Some", bounds=packets.bounds[2:])
    source = render(plain_page(costs=(packets, some)))
    name = f"lower bound, {packets.bounds[2].name}"
    pattern = rf'<title>{name}</title><path class="bound" d="[^"]*" stroke-dasharray="([^"]*)"'
    dashes = re.findall(pattern, source)
    assert len(dashes) == 2
    assert len(set(dashes)) == 1


def test_a_large_text_is_cut() -> None:
    run = careless_run()
    texts = {str(row.digest): b"long " * 10_000 for row in run.rows if row.kind == "broadcast"}
    picture = picture_of(Causality(run), key="k", entry="e", texts=texts)
    assert len(render(plain_page(pictures=(picture,)))) < 100_000
    assert "long long…”" in picture.moments[0].words


def test_a_long_line_is_thinned_and_keeps_its_ends(example: Page) -> None:
    points = tuple(Point(number, number) for number in range(10 * MOST_POINTS))
    chart = msgspec.structs.replace(example.costs[0], lines=(Line("long", points),))
    (line,) = within_limits(plain_page(costs=(chart,))).costs[0].lines
    assert len(line.points) == MOST_POINTS
    assert (line.points[0], line.points[-1]) == (points[0], points[-1])


@pytest.mark.parametrize(
    ("heights", "growth"),
    [
        (range(10, 50), Growth.GROWING),
        ([10.0] * 40, Growth.UNCLEAR),
        ([10.0, 14.0] * 20, Growth.UNCLEAR),
        ([*range(10), *[10.0] * 30], Growth.UNCLEAR),
        (range(1_000, 1_500, 10), Growth.GROWING),
        ([height + 60 * (-1) ** height for height in range(300, 340)], Growth.UNCLEAR),
        (range(7), Growth.UNCLEAR),
    ],
)
def test_a_line_grows_or_it_is_unclear(heights: list[float], growth: Growth) -> None:
    assert growth_of([Point(at, height) for at, height in enumerate(heights)]) is growth


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("samples", [8, 12, 16, 30, 80])
def test_noise_around_a_flat_line_is_rarely_called_growing(
    samples: int, correlation: float
) -> None:
    """Each sample resembles the one before it, as what is under way does."""
    noise = np.random.default_rng(7).normal(size=(800, samples))
    for now in range(1, samples):
        fresh = (1 - correlation**2) ** 0.5 * noise[:, now]
        noise[:, now] = correlation * noise[:, now - 1] + fresh
    growths = [
        growth_of([Point(at, 300 + 90 * float(height)) for at, height in enumerate(line)])
        for line in noise
    ]
    assert growths.count(Growth.GROWING) <= len(growths) / 40


def test_histories_grow_and_vectors_do_not(example: Page) -> None:
    (states,) = example.states
    growing = {line.name for line in states.lines if line.growth is Growth.GROWING}
    # Over forty broadcasts what frontier has under way rises, too: tests/campaign/test_growth.py.
    assert "history-sets" in growing
    assert "two-phase" not in growing


def test_quantiles_are_values_that_were_measured() -> None:
    found = spread("x", [float(number) for number in range(100, 0, -1)])
    assert (found.least, found.p50, found.p99, found.most) == (1.0, 50.0, 99.0, 100.0)
    alone = spread("y", [7.0])
    assert (alone.least, alone.p25, alone.p99, alone.count) == (7.0, 7.0, 7.0, 1)


def test_the_front_is_those_whom_nobody_beats_in_both() -> None:
    dots = [Dot("a", 2, 10), Dot("b", 3, 5), Dot("c", 3, 7), Dot("d", 4, 5), Dot("e", 2, 12)]
    assert [dot.name for dot in front(dots)] == ["a", "b"]
    assert [dot.name for dot in front([*dots, Dot("f", 3, 5)])] == ["a", "b", "f"]
    cheat = Dot("g", 1, 1, is_out=True)
    assert [dot.name for dot in front([*dots, cheat])] == ["a", "b"], "who keeps no promise is out"
    chart = ParetoChart(title="Alone", x=Axis("x"), y=Axis("y"), dots=(cheat,))
    assert "Nobody beats" not in Document(render(plain_page(pareto=(chart,)))).text


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.25, "0.25"), (6.2, "6.2"), (380, "380"), (2450, "2,450"), (25200, "25.2k"),
     (999_700, "1M"), (1_130_000, "1.13M")],
)  # fmt: skip
def test_numbers_have_as_many_digits_as_one_reads(value: float, words: str) -> None:
    assert figure(value) == words


@pytest.mark.parametrize(("share", "words"), [(0.0, "0%"), (0.0123, "1.2%"), (1.0, "100%")])
def test_shares_are_percents(share: float, words: str) -> None:
    assert percent(share) == words


def test_intervals_are_not_made_narrower_by_rounding() -> None:
    assert percents(0.0119, 0.0111) == "1.1% to 1.2%"
    assert percents(0.9999, 0.99991) == "99.9% to 100%"
    assert percents(0.0, 0.5) == "0% to 50%"


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (3, 50), (200, 9000), (0.02, 0.9)])
def test_ticks_lie_on_the_axis_and_are_few(least: float, most: float, logarithmic: bool) -> None:
    scale = Scale(least, most, 0, 100, logarithmic=logarithmic)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 7
    assert all(-0.01 <= scale(tick) <= 100.01 for tick in ticks)
    assert ticks == sorted(ticks)


def test_what_is_in_the_past_of_the_picture_is_in_the_past_of_the_run() -> None:
    run = careless_run()
    causality = Causality(run)
    violation = broken(run, Guarantee.CAUSAL_ORDER)
    assert violation is not None
    past = causality.past([violation.witness[-1]])
    picture = careless_picture()
    end = next(
        one
        for one in picture.happenings
        if (picture.processes[one.process], one.index)
        == (violation.witness[-1].process, violation.witness[-1].index)
    )
    for row in causality.order:
        number = picture.processes.index(row.process)
        assert (row.index <= end.past[number]) == is_in(row, past), place(row)


def test_a_page_says_that_a_run_is_judged_from_the_cut_on() -> None:
    verdict = Verdict(guarantee=Guarantee.VALIDITY, value=Value.HOLDS, judged=2)
    cut = msgspec.structs.replace(verdict, note="judged from the cut on (p1 from 7)")
    assert _note([verdict, cut]) == "4 broadcasts; judged from the cut on (p1 from 7)"
    assert _note([cut, cut]) == "4 broadcasts; 2 runs are judged from a cut on"
    assert _note([verdict]) == "2 broadcasts"
