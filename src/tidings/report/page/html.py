"""HTML in which nothing is markup that was not made here.

Children and attributes are plain text, and escaped, unless they are ``Html`` already: what a user
wrote cannot become markup by being forgotten.
"""

import base64
import hashlib
from html import escape

from tidings.report.words import printable

_VOID = frozenset({"meta", "br"})


class Html(str):
    """Markup."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: object) -> Html:
    """One element. None is left out, True is an attribute without a value."""
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    opening = f"<{name}{told}>"
    return Html(opening if name in _VOID else f"{opening}{joined(*children)}</{name}>")


def joined(*children: str | None) -> Html:
    return Html("".join(_plain(child) for child in children if child is not None))


def _plain(child: str) -> str:
    return child if isinstance(child, Html) else escape(shown(child))


def shown(words: str) -> str:
    """Plain text that keeps its lines; anything else that no page can show is spelt out."""
    return "\n".join(map(printable, words.split("\n")))


def _attribute(name: str, value: object) -> str:
    plain = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {plain}" if value is True else f' {plain}="{escape(shown(str(value)))}"'


def data(encoded: bytes, **attributes: object) -> Html:
    """JSON that a script reads, in which nothing can end the element around it."""
    safe = encoded.decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(safe), type="application/json", **attributes)


def fingerprint(source: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
