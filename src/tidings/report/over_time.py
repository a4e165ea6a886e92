"""A history of verdicts as a page: what held, how fast, at what cost, from entry to entry."""

from collections.abc import Sequence

from tidings.pipeline.history import Entry
from tidings.report.markup import Markup, element, joined
from tidings.report.palette import themed
from tidings.report.words import MARKS, many
from tidings.spec import Guarantee, Value

_RULES = themed(
    "body{{background:{paper};color:{ink};font:16px system-ui,sans-serif;margin:2rem}}"
    "td,th{{padding:.2rem 1rem .2rem 0;text-align:left;border-bottom:1px solid {line}}}"
    ".violated{{color:{wrong};font-weight:bold}}.holds{{color:{deliver}}}.unknown{{color:{lost}}}"
    "svg{{display:block}}path{{stroke:{s0};fill:none;stroke-width:2}}"
)
_WIDTH, _HEIGHT = 600, 80
_CURVES = {
    "latency_ms_p50": "median latency, ms",
    "latency_ms_p99": "99th percentile of latency, ms",
    "packets_per_broadcast": "packets per broadcast",
    "bytes_per_broadcast": "bytes per broadcast",
}


def answer(found: Sequence[Entry], value: Value) -> str:
    last = f"the last, of {found[-1].at:%Y-%m-%d %H:%M} UTC: {value.value}" if found else "none yet"
    return f"{many(len(found), 'entry')}; {last}."


def history_page(found: Sequence[Entry], value: Value, name: str) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"tidings history {name}"),
        element("style", Markup(_RULES)),
    )
    body = element(
        "body", element("h1", name), element("p", answer(found, value)), _table(found),
        *(part for column, words in _CURVES.items() for part in _curve(found, column, words)),
        *_curve_of([one.seconds for one in found], "seconds that the judgement took"),
    )  # fmt: skip
    return "<!doctype html>" + element("html", head, body, lang="en")


def _table(found: Sequence[Entry]) -> Markup:
    names = ("at (UTC)", "command", "run", "rows", *(one.value for one in Guarantee))
    rows = [
        element(
            "tr",
            element("td", f"{one.at:%Y-%m-%d %H:%M:%S}"),
            element("td", one.command),
            element("td", one.run),
            element("td", f"{one.rows:,}"),
            *(_cell(one.values.get(guarantee, Value.UNKNOWN)) for guarantee in Guarantee),
        )
        for one in reversed(found)
    ]
    return element("table", element("tr", *(element("th", name) for name in names)), *rows)


def _cell(value: Value) -> Markup:
    return element("td", element("span", f"{MARKS[value]} {value.value}", class_=value.value))


def _curve(found: Sequence[Entry], column: str, words: str) -> list[Markup]:
    numbers = [getattr(one.measured, column) for one in found]
    return _curve_of([one for one in numbers if one is not None], words)


def _curve_of(numbers: Sequence[float], words: str) -> list[Markup]:
    if len(numbers) < 2:
        return []
    top = max(numbers) or 1.0
    steps = [
        (place * _WIDTH / (len(numbers) - 1), _HEIGHT - number / top * (_HEIGHT - 4))
        for place, number in enumerate(numbers)
    ]
    line = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in steps)
    title = joined(f"{words}: {numbers[0]:,.2f} to {numbers[-1]:,.2f}, at most {top:,.2f}")
    picture = element(
        "svg", element("path", d=line), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH,
        height=_HEIGHT, role="img", aria_label=title,
    )  # fmt: skip
    return [element("h2", title), picture]
