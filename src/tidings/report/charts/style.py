"""The look of charts. ``s0`` to ``s7`` are the colours of series: of lines, marks and bars."""

from tidings.report.palette import themed

_COLOURS = """
.chart .paper{{fill:{paper}}}
.chart .ink,.figure text{{fill:{ink}}}
.chart .soft,.figure .tick,.figure .label{{fill:{soft}}}
.figure .halo,.series .mark,.key .mark{{stroke:{paper}}}
.figure .grid{{stroke:{line}}}
.figure .axis,.bound,.front{{stroke:{soft}}}
.best,.series .notch{{stroke:{ink}}}
.s0{{color:{s0}}}
.s1{{color:{s1}}}
.s2{{color:{s2}}}
.s3{{color:{s3}}}
.s4{{color:{s4}}}
.s5{{color:{s5}}}
.s6{{color:{s6}}}
.s7{{color:{s7}}}
"""
_SHAPES = """
.chart text,.figure text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
.figure{overflow:visible}
.figure text{font-size:11px}
.figure .tick{font-size:10.5px;font-variant-numeric:tabular-nums}
.figure .name{font-size:10.5px}
.figure .halo{stroke-width:4;paint-order:stroke;stroke-linejoin:round}
.figure .grid,.figure .axis{stroke-width:1}
.bound{fill:none;stroke-width:1.6}
.front{fill:none;stroke-width:1.3;stroke-dasharray:4 3}
.best{fill:none;stroke-width:1.4}
.series .line,.key .line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}
.series .mark,.key .mark{fill:currentColor;stroke-width:1}
.series .whisker{stroke:currentColor;stroke-width:1.4}
.series .area{fill:currentColor;opacity:.14}
.series .hair{stroke:currentColor;stroke-width:1.2}
.series .bar{stroke:currentColor;stroke-width:8}
.series .notch{stroke-width:2.2}
.series .post{stroke:currentColor;stroke-width:2.2}
"""


STYLESHEET = themed(_COLOURS, _SHAPES)
