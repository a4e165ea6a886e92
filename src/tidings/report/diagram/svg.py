"""Vector graphics by hand: elements as strings, and how wide a text will be."""

import textwrap
import unicodedata
from xml.sax.saxutils import escape, quoteattr

from tidings.report.words import printable


def element(name: str, *children: str, **attributes: object) -> str:
    """One element. An attribute that is None is left out; ``stroke_width`` is stroke-width."""
    told = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(printable(_plain(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{told}>{''.join(children)}</{name}>" if children else f"<{name}{told}/>"


def text(words: str, **attributes: object) -> str:
    return element("text", escape(printable(words)), **attributes)


def title(words: str) -> str:
    """What a reader sees who rests the pointer on the element around it."""
    return element("title", escape(printable(words)))


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def path(*points: tuple[float, float]) -> str:
    """A line through the points, as the ``d`` of a path."""
    return "M" + "L".join(f"{_plain(float(x))} {_plain(float(y))}" for x, y in points)


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
