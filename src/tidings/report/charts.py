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
    scale = altair.Scale(type=kind, nice=False)
    axis = altair.Axis(values=sorted({row[x] for row in rows})) if logarithmic else altair.Axis()
    chart = (
        altair.Chart(width=380, height=280)
        .mark_line(point=True)
        .encode(
            x=altair.X(f"{x}:Q", scale=scale, axis=axis, title=x),
            y=altair.Y(f"{y}:Q", scale=altair.Scale(type=kind), title=y),
            color=altair.Color(
                f"{colour}:N",
                sort=names,
                scale=altair.Scale(domain=names, range=PALETTE),
                legend=altair.Legend(title=None, labelLimit=400, symbolType="stroke"),
            ),
            strokeDash=altair.StrokeDash(
                f"{colour}:N", sort=names, scale=altair.Scale(domain=names), legend=None
            ),
        )
    )
    data = altair.Data(values=list(rows))
    if panel is None:
        whole = chart.properties(data=data, title=title)
    else:
        panels = list(dict.fromkeys(row[panel] for row in rows))
        facet = altair.Facet(f"{panel}:N", title=None, sort=panels)
        whole = altair.FacetChart(
            data=data, spec=chart, facet=facet, columns=2, title=title
        ).resolve_scale(y="independent")
    whole.configure_axis(gridOpacity=0.4).save(path)


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401 - what altair draws with
    except ImportError as missing:
        raise EnvironmentMissing(
            "charts need altair; install it with: pip install 'tidings[charts]'"
        ) from missing
    return altair
