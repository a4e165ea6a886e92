"""What drawings share: lines through points, and texts as wide as there is room for them."""

import textwrap
import unicodedata

from tidings.report.markup import written
from tidings.report.words import printable


def path(*points: tuple[float, float]) -> str:
    """A line through the points, as the ``d`` of a path."""
    return "M" + "L".join(f"{written(float(x))} {written(float(y))}" for x, y in points)


def moved(x: float, y: float) -> str:
    """As the ``transform`` of what is drawn around its own middle."""
    return f"translate({x:.1f} {y:.1f})"


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
    lines = textwrap.wrap(plain, most) or [""]
    for fewer in range(most - 1, 0, -1):
        narrower = textwrap.wrap(plain, fewer)
        if len(narrower) > len(lines):
            break
        lines = narrower
    return lines
