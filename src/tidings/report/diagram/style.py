"""The look of a diagram. No meaning is in colour alone: every mark has a shape of its own too."""

from tidings.report.markup import Markup, element
from tidings.report.palette import themed
from tidings.trace import Kind

_COLOURS = """
.spacetime .paper{{fill:{paper}}}
.spacetime .ink{{fill:{ink}}}
.spacetime .soft{{fill:{soft}}}
.spacetime .lane{{stroke:{lane}}}
.spacetime .past{{stroke:{ink}}}
.spacetime .packet{{stroke:{soft};fill:{soft}}}
.spacetime .lost{{stroke:{lost};fill:{lost}}}
.spacetime .dot{{fill:{soft}}}
.spacetime .broadcast{{fill:{broadcast}}}
.spacetime .deliver{{fill:{deliver}}}
.spacetime .line{{stroke:{ink}}}
.spacetime .hollow{{stroke:{ink};fill:{paper}}}
.spacetime .ghost{{stroke:{deliver};fill:{paper}}}
.spacetime .halo{{stroke:{paper}}}
.spacetime .wrong{{fill:{wrong}}}
.spacetime .ring{{stroke:{wrong}}}
.spacetime .guilty{{stroke:{wrong};fill:{wrong}}}
.spacetime .open{{fill:{paper}}}
.spacetime .callout{{fill:{callout};stroke:{wrong}}}
"""
_SHAPES = """
.spacetime text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
.spacetime .lane{stroke-width:1.5}
.spacetime .past{stroke-width:2.5}
.spacetime .packet{stroke-width:1.2}
.spacetime .lost{stroke-width:1.2;stroke-dasharray:4 3}
.spacetime .cross{stroke-width:2;stroke-dasharray:none}
.spacetime .line{stroke-width:3.5;fill:none;stroke-linecap:round}
.spacetime .hollow{stroke-width:2}
.spacetime .ghost{stroke-width:1.8;stroke-dasharray:3 2}
.spacetime .halo{stroke-width:4;stroke-linejoin:round;paint-order:stroke}
.spacetime .ring{fill:none;stroke-width:3.5}
.spacetime .witness{stroke-width:1.6;stroke-dasharray:3 2.5}
.spacetime .leader{stroke-width:1.6}
.spacetime .guilty{stroke-width:2.4}
.spacetime .faded{opacity:.3}
"""


STYLESHEET = themed(_COLOURS, _SHAPES)


LABEL, SMALL, WORDS = 12.0, 10.5, 13.0
"""Sizes of type: a message's name, its text and packets, sentences."""

_DOT = element("circle", class_="dot", r=3)
SYMBOLS: dict[Kind, Markup] = {
    "broadcast": element("path", class_="broadcast", d="M0 -8.5L8.5 0L0 8.5L-8.5 0Z"),
    "deliver": element("circle", class_="deliver", r=6.5),
    "send": _DOT,
    "receive": _DOT,
    "crash": element("path", class_="line", d="M-9 -9L9 9M-9 9L9 -9"),
    "leave": element("path", class_="line", d="M0 -9L0 9M-5 -9L-5 9"),
    "recover": element("path", class_="hollow", d="M-6 -7L7 0L-6 7Z"),
    "join": element("path", class_="hollow", d="M-6 -6L6 -6L6 6L-6 6Z"),
    "view": element("path", class_="hollow", d="M0 -6L0 6"),
    "settle": element("path", class_="line", d="M0 -7L0 7"),
    "gap": element("path", class_="line", d="M-5 -7L-9 7M1 -7L-3 7M7 -7L3 7"),
}
MEANINGS: dict[Kind, str] = {
    "broadcast": "broadcast",
    "deliver": "delivery",
    "receive": "receipt",
    "crash": "crash",
    "leave": "leaves",
    "recover": "recovers",
    "join": "joins",
    "view": "new member list",
    "settle": "settled",
    "gap": "not written down",
}
"""What the legend says of each symbol."""
