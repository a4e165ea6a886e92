"""Elements of pages and drawings, in which nothing is markup that was not made here.

Children and attributes are plain text, and escaped, unless they are ``Markup`` already: what a user
wrote cannot become markup by being forgotten.
"""

from html import escape

from tidings.report.words import printable

_ONE_TAG = frozenset({"circle", "g", "meta", "path", "rect"})
"""What is written with a single tag where it is empty. In HTML all else needs a closing one."""


class Markup(str):
    """Text that is written as it is."""

    __slots__ = ()


def element(name: str, /, *children: str | None, **attributes: object) -> Markup:
    """One element. What is None is left out; ``stroke_width`` is stroke-width."""
    opening = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(written(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(*children)
    is_short = name in _ONE_TAG and not inside
    return Markup(f"<{opening}/>" if is_short else f"<{opening}>{inside}</{name}>")


def joined(*children: str | None) -> Markup:
    return Markup(
        "".join(
            child if isinstance(child, Markup) else escape(_shown(child), quote=False)
            for child in children
            if child is not None
        )
    )


def data(encoded: bytes, **attributes: object) -> Markup:
    """JSON that a script reads, in which nothing can end the element around it."""
    safe = encoded.decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return element("script", Markup(safe), type="application/json", **attributes)


def written(value: object) -> str:
    """Lengths have one digit after the point, if any."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _shown(words: str) -> str:
    """Plain text that keeps its lines; anything else that no page can show is spelt out."""
    return "\n".join(map(printable, words.split("\n")))
