"""Charts as files: vector graphics that need no network and no browser to be made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidings.core import EnvironmentMissing

PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f", "#b8a800"]
"""Okabe and Ito's colours, which the colour-blind can tell apart."""


def line_chart(
    rows: Sequence[dict[str, Any]],
    path: Path,
    *,
    x: str,
    y: str,
    colour: str,
    title: str,
    panel: str | None = None,
    logarithmic: bool = False,
) -> None:
    """Lines over a number, one per value of ``colour``, side by side for each ``panel``."""
    altair = _altair()
    kind = "log" if logarithmic else "linear"
    names = list(dict.fromkeys(row[colour] for row in rows))
    chart = (
        altair.Chart(altair.Data(values=list(rows)), width=360, height=280)
        .mark_line(point=True)
        .encode(
            x=altair.X(f"{x}:Q", scale=altair.Scale(type=kind), title=x),
            y=altair.Y(f"{y}:Q", scale=altair.Scale(type=kind), title=y),
            color=altair.Color(
                f"{colour}:N", sort=names, title=None, scale=altair.Scale(range=PALETTE)
            ),
            strokeDash=altair.StrokeDash(f"{colour}:N", sort=names, title=None),
        )
    )
    if panel is not None:
        chart = chart.facet(column=altair.Column(f"{panel}:N", title=None)).resolve_scale(
            y="independent"
        )
    chart.properties(title=title).save(path)


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401 - what altair draws with
    except ImportError as missing:
        raise EnvironmentMissing(
            "charts need altair; install it with: pip install 'tidings[charts]'"
        ) from missing
    return altair
