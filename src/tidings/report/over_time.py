"""A history of verdicts as a page: what held, how fast, at what cost, from entry to entry."""

from collections.abc import Sequence

from tidings.pipeline.history import Entry
from tidings.report.markup import Markup, element, joined
from tidings.report.numbers import figure
from tidings.report.palette import themed
from tidings.report.words import MARKS, many
from tidings.spec import JUDGED, Guarantee, Value

_RULES = themed(
    "body{{background:{paper};color:{ink}}}th,h2,td::before{{color:{soft}}}"
    "td,th,tr{{border-color:{line}}}path{{stroke:{s0}}}"
    ".violated{{color:{wrong};font-weight:bold}}.holds{{color:{deliver}}}.unknown{{color:{lost}}}",
    "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:0 auto;padding:1rem;"
    "overflow-wrap:break-word}h1{font-size:1.5rem;margin:0}p{margin:0 0 1rem}"
    "h2{font-size:1rem;font-weight:normal;margin:1.5rem 0 .25rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:.3rem 1rem .3rem 0;text-align:left;border-bottom:1px solid}"
    "td.number,th.number{text-align:right}"
    ".scroll{overflow-x:auto}th{font-weight:normal}td span{white-space:nowrap}"
    "svg{display:block;max-width:100%;height:auto}path{fill:none;stroke-width:2}"
    # On a narrow screen an entry is a list of what its columns say.
    "@media (max-width:60rem){thead{display:none}table,tbody,tr,td{display:block}"
    "tr{padding:.6rem 0;border-bottom:1px solid}td{display:flex;padding:.1rem 0;border:0}"
    "td::before{content:attr(data-label);flex:none;width:10rem}td{overflow-wrap:anywhere}}",
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
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"tidings history {name}"),
        element("style", Markup(_RULES)),
    )
    body = element(
        "body", element("h1", name), element("p", answer(found, value)), _table(found),
        *(part for column, words in _CURVES.items() for part in _curve(found, column, words)),
        *_curve_of([one.seconds for one in found], "seconds to judge it"),
    )  # fmt: skip
    return "<!doctype html>" + element("html", head, body, lang="en")


def _table(found: Sequence[Entry]) -> Markup:
    known = {word for one in found for word in one.values}
    judged = [one for one in JUDGED if isinstance(one, Guarantee) or one.value in known]
    names = ("at (UTC)", "command", "run", "rows", *(one.value for one in judged))
    rows = [
        [
            element("span", f"{one.at:%Y-%m-%d %H:%M:%S}"),
            one.command,
            one.run,
            f"{one.rows:,}",
            *(_word(one.values.get(guarantee.value)) for guarantee in judged),
        ]
        for one in reversed(found)
    ]
    kinds = ["number" if name == "rows" else None for name in names]
    body = (
        element(
            "tr",
            *(
                element("td", cell, class_=kind, data_label=name)
                for name, kind, cell in zip(names, kinds, row, strict=True)
            ),
        )
        for row in rows
    )
    titles = zip(names, kinds, strict=True)
    head = element("tr", *(element("th", name, class_=kind, scope="col") for name, kind in titles))
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll", tabindex="0")


def _word(value: Value | None) -> Markup:
    if value is None:
        return element("span", "-")
    return element("span", f"{MARKS[value]} {value.value}", class_=value.value)


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
    first, last, most = map(figure, (numbers[0], numbers[-1], max(numbers)))
    title = joined(f"{words}: first {first}, last {last}, at most {most}")
    picture = element(
        "svg", element("path", d=line), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH,
        height=_HEIGHT, role="img", aria_label=title,
    )  # fmt: skip
    return [element("h2", title), picture]
