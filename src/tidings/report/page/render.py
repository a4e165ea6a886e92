"""The page as one HTML file: everything in it, nothing fetched, no markup that a user wrote.

The content security policy allows the one style and the one script that are written here, by
their hashes, and nothing else: no network, no frames, no forms.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_CEILING
from importlib.resources import files

import msgspec

from tidings.report.charts import figures
from tidings.report.charts import style as charts
from tidings.report.charts.figures import Styles, numbered, with_unit
from tidings.report.charts.model import (
    Chart,
    Growth,
    LineChart,
    ParetoChart,
    Point,
    Shown,
    SpreadChart,
    StateChart,
)
from tidings.report.diagram import style as diagram
from tidings.report.markup import Markup, data, element, joined
from tidings.report.numbers import figure, percent, percents
from tidings.report.page.model import (
    CauseTable,
    Cell,
    Comparison,
    CostRow,
    CostTable,
    Entry,
    Episode,
    Matrix,
    Page,
    Picture,
    within_limits,
)
from tidings.report.palette import themed
from tidings.report.words import MARKS, listed, many
from tidings.spec import JUDGED, Extra, Guarantee, Value

_COLOURS = ":root{{--paper:{paper};--ink:{ink};--soft:{soft};--line:{line}}}"
HINT = "Rest on an event, or choose a message, to see what came before it and after it."
_GROWTH = {Growth.BOUNDED: "→", Growth.GROWING: "↗", Growth.UNCLEAR: "?"}


def render(page: Page) -> str:
    """The page as the text of an HTML file. What is beyond the limits is left out and listed."""
    page = within_limits(page)
    sections = [section for section in _sections(page) if section[2]]
    style = "\n".join((themed(_COLOURS), _asset("page.css"), diagram.STYLESHEET, charts.STYLESHEET))
    script = _asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_fingerprint(style)}; script-src {_fingerprint(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content="tidings report"),
        element("title", page.title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the verdicts", href="#main", class_="skip"),
        _header(page, [(key, title) for key, title, _ in sections]),
        element("main", *(_section(*section) for section in sections), id="main", tabindex="-1"),
        element(
            "footer",
            element("p", "Written by tidings report. Everything on this page is in this file."),
        ),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _fingerprint(source: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files("tidings.report.page") / "assets" / name).read_text(encoding="utf-8").strip()


Rows = Sequence[Sequence[str]]
Section = tuple[str, str, Sequence[Markup]]


def _sections(page: Page) -> Iterator[Section]:
    """Their ids, titles and contents, in the order in which they are read."""
    styles = _styles(page)
    yield "happened", "The story", [_episodes(page.episodes)] if page.episodes else []
    matrix = [_matrix(page.matrix)] if page.matrix else []
    yield "verdicts", "Verdicts", _again([page.matrix], matrix)
    causes = [_causes(page.causes)] if page.causes else []
    yield "causes", "Causes", _again([page.causes], causes)
    changes = [_changes(page.comparison)] if page.comparison else []
    yield "changes", "Since the baseline", _again([page.comparison], changes)
    bounds = numbered(line.name for chart in page.costs for line in chart.bounds)
    costs = [_lines(chart, styles, bounds) for chart in page.costs]
    names = [line.name for chart in page.costs for line in chart.lines]
    table = [_cost_table(page.cost_table)] if page.cost_table else []
    costs = [*_grid(costs, _legend(names, styles, bounds)), *table]
    yield "cost", "Cost", _again([*page.costs, page.cost_table], costs)
    latencies = _grid([_spreads(chart, styles) for chart in page.latencies])
    yield "latency", "Latency", _again(page.latencies, latencies)
    states = [_states(chart, styles) for chart in page.states]
    yield "state", "State over time", _again(page.states, states)
    names = [dot.name for chart in page.pareto for dot in chart.dots]
    dots = _grid([_pareto(chart, styles) for chart in page.pareto], _legend(names, styles, {}))
    yield "pareto", "Bytes against delays", _again(page.pareto, dots)
    yield "runs", "Runs", [_picture(picture) for picture in page.pictures]
    again = [(fact.name, element("code", fact.value)) for fact in page.reproduce]
    yield "again", "Reproduce", [_pairs(again, "again")] if again else []
    left_out = element("ul", *(element("li", line) for line in page.left_out))
    yield "left-out", "What is left out", [left_out] if page.left_out else []


def _again(shown: Sequence[Shown | None], contents: list[Markup]) -> list[Markup]:
    """A section, and under all its figures the command that makes their numbers again."""
    commands = dict.fromkeys(one.how for one in shown if one is not None and one.how)
    if not contents or not commands:
        return contents
    codes = [element("code", command) for command in commands]
    line = [part for code in codes for part in (" ", code)]
    return [*contents, element("p", element("span", "Again:"), *line, class_="how")]


def _section(key: str, title: str, contents: Sequence[Markup]) -> Markup:
    name = f"{key}-title"
    return element(
        "section", element("h2", title, id=name), *contents, id=key, aria_labelledby=name
    )


def _styles(page: Page) -> Styles:
    """A number for every name, the same all over the page."""
    return numbered(
        [
            *(entry.name for entry in (page.matrix.entries if page.matrix else ())),
            *(line.name for chart in page.costs for line in chart.lines),
            *(spread.name for chart in page.latencies for spread in chart.spreads),
            *(line.name for chart in page.states for line in chart.lines),
            *(dot.name for chart in page.pareto for dot in chart.dots),
        ]
    )


# --- the top


def _header(page: Page, sections: Sequence[tuple[str, str]]) -> Markup:
    links = [element("a", title, href=f"#{key}") for key, title in sections]
    return element(
        "header",
        element("p", "Tidings", class_="brand"),
        element("h1", page.title),
        element(
            "p",
            _mark(MARKS[page.value]),
            element("span", page.answer),
            class_=f"answer {page.value}",
        ),
        element("p", page.about, class_="about") if page.about else None,
        _pairs([(fact.name, fact.value) for fact in page.facts], "facts") if page.facts else None,
        element("nav", *links, aria_label="Sections") if len(links) > 1 else None,
    )


def _mark(sign: str) -> Markup:
    return element("span", sign, class_="mark", aria_hidden="true")


def _pairs(pairs: Iterable[tuple[str, str]], kind: str) -> Markup:
    divs = (element("div", element("dt", name), element("dd", value)) for name, value in pairs)
    return element("dl", *divs, class_=kind)


# --- the matrix


def _matrix(matrix: Matrix) -> Markup:
    guarantees = [one for one in JUDGED if any(one in entry.cells for entry in matrix.entries)]
    head = element(
        "tr",
        element("th", matrix.what, scope="col", role="columnheader"),
        *(element("th", one.value, scope="col", role="columnheader") for one in guarantees),
        role="row",
    )
    rows = [_entry(entry, guarantees) for entry in matrix.entries]
    has_bounds = any(cell.high is not None for row in matrix.entries for cell in row.cells.values())
    bounds = (
        f"Shares of violating runs with exact {percent(matrix.confidence)} confidence intervals; "
        "“at most” is what no violation seen in so many runs still allows."
    )
    return joined(
        element(
            "table",
            element("thead", head, role="rowgroup"),
            element("tbody", *rows, role="rowgroup"),
            class_="matrix",
            role="table",
            aria_label="Verdicts",
        ),
        _note(bounds if has_bounds else "", matrix.note),
    )


def _entry(entry: Entry, guarantees: Sequence[Guarantee | Extra]) -> Markup:
    return element(
        "tr",
        element(
            "th",
            element("span", entry.name, class_="name"),
            element("span", "flawed on purpose", class_="tag") if entry.flawed else None,
            element("span", entry.note, class_="small") if entry.note else None,
            scope="row",
            role="rowheader",
        ),
        *(_cell(entry.cells.get(one), one) for one in guarantees),
        role="row",
        class_="flawed" if entry.flawed else None,
    )


def _cell(cell: Cell | None, guarantee: Guarantee | Extra) -> Markup:
    if cell is None:
        return element("td", "–", role="cell", data_label=guarantee.value, class_="none")
    word = element("span", _mark(MARKS[cell.value]), " ", _word(cell), class_="word")
    if cell.picture is not None:
        word = element("a", word, element("span", " see it", class_="see"), href=f"#{cell.picture}")
    return element(
        "td",
        word,
        *(element("span", line, class_="small") for line in _counts(cell)),
        role="cell",
        data_label=guarantee.value,
        class_=cell.value,
    )


def _word(cell: Cell) -> str:
    """What holds in every run of a sample was not seen violated; more is not known."""
    is_sampled = cell.value is Value.HOLDS and cell.high is not None
    return "not seen" if is_sampled else cell.value.value


def _counts(cell: Cell) -> Iterator[str]:
    """In how many of those that could be judged, and what that proves."""
    judged = cell.runs - cell.unknown
    if cell.high is not None and judged and not cell.violated:
        yield f"in {many(judged, 'run')}, at most {percent(cell.high, ROUND_CEILING)}"
    elif cell.runs > 1 and judged:
        yield f"{cell.violated:,} of {judged:,} runs"
        if cell.low is not None and cell.high is not None:
            yield percents(cell.low, cell.high)
    if cell.runs > 1 and cell.unknown:
        yield f"{cell.unknown:,} unknown"
    if cell.note:
        yield cell.note


def _causes(causes: CauseTable) -> Markup:
    guarantees = [one for one in Guarantee if any(one in row.violated for row in causes.rows)]
    with_runs = len({row.run for row in causes.rows}) > 1
    rows = [
        [
            row.words,
            *([row.run] if with_runs else []),
            *(f"{row.violated[one]:,}" if one in row.violated else "–" for one in guarantees),
        ]
        for row in causes.rows
    ]
    head = ["what went wrong", *(["run"] if with_runs else []), *(one.value for one in guarantees)]
    return element(
        "figure",
        element("figcaption", "What the violations follow from"),
        _table(head, rows),
        _note(causes.note),
    )


def _changes(comparison: Comparison) -> Markup:
    rows = [
        [
            change.where,
            f"{WORSE if change.is_worse else BETTER} {change.measure}",
            figure(change.before),
            figure(change.after),
            f"{change.pairs:,}",
            f"{change.chance:.2g}",
        ]
        for change in comparison.changes
    ]
    return element(
        "figure",
        element("figcaption", f"Compared with {comparison.baseline}"),
        _table(["where", "what", "before", "after", "pairs", "chance"], rows)
        if rows
        else element("p", "Nothing is better or worse beyond noise."),
        _note(comparison.note),
    )


WORSE, BETTER = "↗ worse:", "↘ better:"


# --- what happened


def _episodes(episodes: Sequence[Episode]) -> Markup:
    """Each with a way to the picture that shows it."""
    lines = [
        element(
            "li",
            element("span", episode.words),
            element("a", "see it", href=f"#{episode.picture}") if episode.picture else None,
        )
        for episode in episodes
    ]
    return element("ol", *lines, class_="episodes")


# --- figures


def _grid(shown: Sequence[Markup], legend: Markup | None = None) -> list[Markup]:
    if not shown:
        return []
    return [element("div", *shown, class_="grid"), *([legend] if legend else [])]


def _legend(names: Iterable[str], styles: Styles, bounds: Styles) -> Markup:
    """Each name a button: resting on it brings its lines to the front, everywhere."""
    keys = [
        element(
            "button",
            _key(figures.key(styles[name])),
            element("span", name),
            type="button",
            class_="entry",
            data_series=styles[name],
            aria_pressed="false",
        )
        for name in dict.fromkeys(names)
    ]
    keys += [
        element("span", _key(figures.bound_key(number)), f"lower bound, {name}", class_="entry")
        for name, number in bounds.items()
    ]
    return element("ul", *(element("li", key) for key in keys), class_="legend-keys")


def _key(symbol: Markup) -> Markup:
    return element("svg", symbol, class_="legend-key", viewBox="-14 -8 28 16", aria_hidden="true")


def _figure(
    chart: Chart, drawing: Markup, what: str, head: Sequence[str], rows: Rows, *notes: str
) -> Markup:
    """With its data, for those who cannot see it, and for those who want to know exactly."""
    return element(
        "figure",
        element("figcaption", chart.title),
        drawing,
        _note(*notes),
        element(
            "details",
            element("summary", "The numbers"),
            element("p", what, class_="small"),
            _table(head, rows),
        ),
    )


def _lines(chart: LineChart, styles: Styles, bounds: Styles) -> Markup:
    xs = sorted({point.x for line in chart.lines for point in line.points})
    named = [(line.name, line) for line in chart.lines]
    named += [(f"lower bound, {line.name}", line) for line in chart.bounds]
    values = [(name, {point.x: _value(point) for point in line.points}) for name, line in named]
    return _figure(
        chart,
        figures.lines(chart, styles, bounds),
        with_unit(chart.y),
        [chart.x.label, *map(figure, xs)],
        [[name, *(at.get(x, "–") for x in xs)] for name, at in values],
        *figures.notes(chart),
    )


def _value(point: Point) -> str:
    value = f"{'≥ ' if point.at_least else ''}{figure(point.y)}"
    if point.low is None or point.high is None:
        return value
    return f"{value} ({figure(point.low)} to {figure(point.high)})"


def _cost_table(table: CostTable) -> Markup:
    total = CostRow(
        "altogether",
        sum(row.packets for row in table.rows),
        sum(row.bytes for row in table.rows),
    )
    rows = [[row.kind, figure(row.packets), figure(row.bytes)] for row in (*table.rows, total)]
    of = f"{table.title}, on average of {many(table.broadcasts, 'broadcast')}"
    return element(
        "figure",
        element("figcaption", of),
        _table(["kind of packet", "packets", "bytes"], rows, has_total=True),
        _note(table.note),
    )


def _spreads(chart: SpreadChart, styles: Styles) -> Markup:
    quantiles = ("least", "p25", "p50", "p75", "p95", "p99", "most")
    return _figure(
        chart,
        figures.spreads(chart, styles),
        with_unit(chart.x),
        ["", "measured", *quantiles],
        [
            [one.name, f"{one.count:,}", *(figure(getattr(one, name)) for name in quantiles)]
            for one in chart.spreads
        ],
        chart.note,
        "Hairline: least to most. Bar: the middle half. Tall notch: median. Short post: p99.",
    )


def _states(chart: StateChart, styles: Styles) -> Markup:
    panels = [
        element(
            "div",
            element("p", line.name, class_="panel-name"),
            element(
                "p",
                _GROWTH[line.growth],
                " ",
                line.growth.value,
                class_=f"growth {line.growth.name.lower()}",
            ),
            figures.panel(line, styles[line.name], chart.x, chart.y),
            class_="panel",
        )
        for line in chart.lines
    ]
    rows = [
        [
            line.name,
            line.growth.value,
            figure(line.points[0].y),
            figure(max(point.y for point in line.points)),
            figure(line.points[-1].y),
        ]
        for line in chart.lines
    ]
    what = with_unit(chart.y)
    return _figure(
        chart,
        element("div", *panels, class_="panels"),
        what,
        ["", "growth", f"at first ({chart.y.unit})", "largest", "at the end"],
        rows,
        f"{what[:1].upper()}{what[1:]}, from 0, against {with_unit(chart.x)}.",
        "Each panel has a scale of its own: compare shapes, and read sizes at the upper line.",
        chart.note,
    )


def _pareto(chart: ParetoChart, styles: Styles) -> Markup:
    best = figures.front(chart.dots)
    names = [dot.name for dot in best]
    return _figure(
        chart,
        figures.pareto(chart, styles),
        chart.title,
        ["", with_unit(chart.x), with_unit(chart.y), "best"],
        [
            [dot.name, figure(dot.x), figure(dot.y), "yes" if dot in best else "no"]
            for dot in chart.dots
        ],
        "Less of both is better.",
        f"Nobody beats those with a ring in both: {listed(names)}." if best else "",
        chart.note,
    )


def _table(head: Sequence[str], rows: Rows, *, has_total: bool = False) -> Markup:
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", value) for value in row[1:]),
            class_="total" if has_total and row is rows[-1] else None,
        )
        for row in rows
    ]
    titles = element("tr", *(element("th", name, scope="col") for name in head))
    table = element("table", element("thead", titles), element("tbody", *body), class_="numbers")
    return element("div", table, class_="scroll", tabindex="0")


def _note(*sentences: str) -> Markup | None:
    words = " ".join(filter(None, sentences))
    return element("p", words, class_="note") if words else None


# --- runs


def _picture(picture: Picture) -> Markup:
    name = f"{picture.key}-title"
    return element(
        "article",
        element("h3", _mark("✗ ") if picture.is_violation else None, picture.title, id=name),
        element("p", element("b", picture.entry), f", {picture.facts}", class_="small"),
        element("p", picture.summary, class_="summary") if picture.summary else None,
        _note(picture.left_out),
        element(
            "div",
            element("div", _controls(picture), _stage(picture), _messages(picture), class_="left"),
            _story(picture),
            class_="play",
        ),
        _proof(picture),
        # What the script needs: who is who, when, and what came before what.
        data(
            msgspec.json.encode(
                {
                    "processes": picture.processes,
                    "moments": [moment.x for moment in picture.moments],
                    "events": picture.happenings,
                }
            ),
            class_="data",
        ),
        class_=f"picture{' broken' if picture.is_violation else ''}",
        id=picture.key,
        aria_labelledby=name,
        tabindex="-1",
    )


_BUTTONS = {
    "first": ("First step", "M3 3H5V13H3ZM13 3V13L6 8Z"),
    "back": ("One step back", "M12 3V13L4 8Z"),
    "on": ("One step on", "M4 3V13L12 8Z"),
    "last": ("Last step", "M13 3H11V13H13ZM3 3V13L10 8Z"),
}
"""Their signs are drawn, because not every machine has a font with these."""


def _controls(picture: Picture) -> Markup:
    buttons = [
        element(
            "button",
            element(
                "svg",
                element("path", d=sign),
                class_="icon",
                viewBox="0 0 16 16",
                aria_hidden="true",
            ),
            type="button",
            data_go=go,
            aria_label=label,
            title=label,
        )
        for go, (label, sign) in _BUTTONS.items()
    ]
    return element(
        "div",
        *buttons,
        element("button", "Whole run", type="button", data_go="all"),
        element("output", many(len(picture.moments), "step"), class_="count"),
        element("span", "or use the arrow keys; Enter lights a step", class_="small keys"),
        class_="controls",
        role="group",
        aria_label="Steps",
    )


def _stage(picture: Picture) -> Markup:
    words = f"{picture.title}. Arrow keys step through the run, Escape shows all of it."
    legend = [element("li", sign, element("span", meaning)) for sign, meaning in picture.symbols]
    return joined(
        element(
            "div",
            picture.names,
            picture.svg,
            class_="stage",
            tabindex="0",
            role="group",
            aria_label=words,
        ),
        element("ul", *legend, class_="signs", aria_label="Legend"),
        element("p", class_="status", role="status", data_hint=HINT),
    )


def _messages(picture: Picture) -> Markup | None:
    if not picture.messages:
        return None
    chips = [
        element(
            "button",
            element("b", spoken.name),
            f" {spoken.text}" if spoken.text else None,
            type="button",
            class_="chip",
            data_event=spoken.broadcast,
            aria_pressed="false",
        )
        for spoken in picture.messages
    ]
    return element(
        "div",
        element("span", "What came before and after a message: ", class_="small"),
        *chips,
        class_="chips",
    )


def _story(picture: Picture) -> Markup:
    steps = [
        element(
            "li",
            element("code", moment.where),
            " ",
            moment.words,
            element("b", " Here it is violated.") if moment.is_violation else None,
            data_moment=number,
            class_="wrong-here" if moment.is_violation else None,
        )
        for number, moment in enumerate(picture.moments)
    ]
    return element(
        "div",
        element("h4", "What happened"),
        element(
            "ol", *steps, class_="story", tabindex="0", aria_label="What happened, step by step"
        ),
        class_="right",
    )


def _proof(picture: Picture) -> Markup | None:
    parts: list[Markup] = []
    if picture.proof:
        parts += [element("h4", "The proof"), element("pre", picture.proof, tabindex="0")]
    if picture.replay:
        code = element("code", picture.replay)
        parts.append(element("p", "Play it again: ", code, class_="how"))
    return element("div", *parts, class_="proof") if parts else None
