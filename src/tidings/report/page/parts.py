"""What all parts of a page are made of: marks, tables, pairs, notes."""

import re
from collections.abc import Iterable, Sequence

from tidings.report.markup import Markup, element

Rows = Sequence[Sequence[str]]


def mark(sign: str) -> Markup:
    return element("span", sign, class_="mark", aria_hidden="true")


def command(words: str) -> Markup:
    """A command to copy. On a narrow screen no line ends within the dashes of an option."""
    parts = re.split(r"(?<= )(-\S+)", words)
    return element("code", *(element("span", one) if one[:1] == "-" else one for one in parts))


def pairs(given: Iterable[tuple[str, str]], kind: str) -> Markup:
    divs = (element("div", element("dt", name), element("dd", value)) for name, value in given)
    return element("dl", *divs, class_=kind)


def table(head: Sequence[str], rows: Rows, *, has_total: bool = False) -> Markup:
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


def note(*sentences: str) -> Markup | None:
    words = " ".join(filter(None, sentences))
    return element("p", words, class_="note") if words else None
