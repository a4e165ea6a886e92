"""What drawings share: lines through points, and texts as wide as there is room for them."""

import textwrap
import unicodedata
from collections.abc import Iterable

from tidings.report.markup import Markup, element, written
from tidings.report.words import printable


def drawing(
    *layers: Markup | None, class_: str, width: float, height: float, **named: object
) -> Markup:
    """A picture of that size: a file of its own, or a part of a page or of another picture."""
    return element(
        "svg",
        *(part for layer in layers for part in ("\n", layer)),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        **named,
    )


def path(*points: tuple[float, float]) -> str:
    """A line through the points, as the ``d`` of a path."""
    return "M" + "L".join(f"{written(float(x))} {written(float(y))}" for x, y in points)


def moved(x: float, y: float) -> str:
    """As the ``transform`` of what is drawn around its own middle."""
    return f"translate({x:.1f} {y:.1f})"


def legend(
    entries: Iterable[tuple[Markup, str]], left: float, top: float, right: float
) -> tuple[Markup, float]:
    """Symbols, each drawn around its own middle, with their meanings; and where they end."""
    x, y = left, top
    drawn = []
    for symbol, words in entries:
        wide = 40 + width_of(words, 11.5)
        if x + wide > right:
            x, y = left, y + 26
        meaning = element("text", words, class_="soft", x=18, y=4, font_size=11.5)
        drawn.append(element("g", symbol, meaning, transform=moved(x, y)))
        x += wide
    return element("g", *drawn, class_="legend"), y + 24


_NARROW = frozenset("iIjl.,:;'|!()[] ")


def width_of(words: str, size: float) -> float:
    """How wide a text is at most, in any common sans-serif font; there is no font here to ask."""
    return size * sum(map(_em, words))


def _em(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in _NARROW:
        return 0.36
    return 0.78 if char.isupper() or char in "mw#→" else 0.62


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def balanced(words: str, most: int) -> list[str]:
    """As few lines as needed, and none much shorter than the others."""
    plain = printable(words)
    lines = textwrap.wrap(plain, most, break_on_hyphens=False) or [""]
    for fewer in range(most - 1, 0, -1):
        narrower = textwrap.wrap(plain, fewer, break_on_hyphens=False)
        if len(narrower) > len(lines):
            break
        lines = narrower
    return lines
