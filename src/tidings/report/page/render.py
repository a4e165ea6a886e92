"""The page as one HTML file: everything in it, nothing fetched, no markup that a user wrote.

The content security policy allows the one style and the one script that are written here, by
their hashes, and nothing else: no network, no frames, no forms.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files

from tidings.report.charts import style as chart_style
from tidings.report.charts.figures import Styles, numbered
from tidings.report.charts.model import Shown
from tidings.report.diagram import style as diagram_style
from tidings.report.markup import Markup, element
from tidings.report.page import charts, tables
from tidings.report.page.model import Page, within_limits
from tidings.report.page.parts import command, mark, pairs
from tidings.report.page.player import player
from tidings.report.palette import themed
from tidings.report.words import MARKS

_COLOURS = ":root{{--paper:{paper};--ink:{ink};--soft:{soft};--line:{line}}}"


def render(page: Page) -> str:
    """The page as the text of an HTML file. What is beyond the limits is left out and listed."""
    page = within_limits(page)
    sections = [section for section in _sections(page) if section[2]]
    style = "\n".join(
        (themed(_COLOURS), _asset("page.css"), diagram_style.STYLESHEET, chart_style.STYLESHEET)
    )
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


Section = tuple[str, str, Sequence[Markup]]


def _sections(page: Page) -> Iterator[Section]:
    """Their ids, titles and contents, in the order in which they are read."""
    styles = _styles(page)
    yield "happened", "The story", [tables.episode_list(page.episodes)] if page.episodes else []
    matrix = [tables.matrix_table(page.matrix)] if page.matrix else []
    yield "verdicts", "Verdicts", _again([page.matrix], matrix)
    causes = [tables.cause_table(page.causes)] if page.causes else []
    yield "causes", "Causes", _again([page.causes], causes)
    changes = [tables.change_table(page.comparison)] if page.comparison else []
    yield "changes", "Since the baseline", _again([page.comparison], changes)
    bounds = numbered(line.name for chart in page.costs for line in chart.bounds)
    costs = [charts.lines(chart, styles, bounds) for chart in page.costs]
    names = [line.name for chart in page.costs for line in chart.lines]
    table = [tables.cost_table(page.cost_table)] if page.cost_table else []
    costs = [*charts.grid(costs, charts.legend(names, styles, bounds)), *table]
    yield "cost", "Cost", _again([*page.costs, page.cost_table], costs)
    latencies = charts.grid([charts.spreads(chart, styles) for chart in page.latencies])
    yield "latency", "Latency", _again(page.latencies, latencies)
    states = [charts.states(chart, styles) for chart in page.states]
    yield "state", "State over time", _again(page.states, states)
    names = [dot.name for chart in page.pareto for dot in chart.dots]
    dots = charts.grid(
        [charts.pareto(chart, styles) for chart in page.pareto], charts.legend(names, styles, {})
    )
    yield "pareto", "Bytes against delays", _again(page.pareto, dots)
    yield "runs", "Runs", [player(picture) for picture in page.pictures]
    again = [(fact.name, command(fact.value)) for fact in page.reproduce]
    yield "again", "Reproduce", [pairs(again, "again")] if again else []
    left_out = element("ul", *(element("li", line) for line in page.left_out))
    yield "left-out", "What is left out", [left_out] if page.left_out else []


def _again(shown: Sequence[Shown | None], contents: list[Markup]) -> list[Markup]:
    """A section, and under all its figures the command that makes their numbers again."""
    commands = dict.fromkeys(one.how for one in shown if one is not None and one.how)
    if not contents or not commands:
        return contents
    line = [part for one in commands for part in (" ", command(one))]
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
            mark(MARKS[page.value]),
            element("span", page.answer),
            class_=f"answer {page.value}",
        ),
        element("p", page.about, class_="about") if page.about else None,
        pairs([(fact.name, fact.value) for fact in page.facts], "facts") if page.facts else None,
        element("nav", *links, aria_label="Sections") if len(links) > 1 else None,
    )
