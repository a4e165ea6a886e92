"""Charts as files: what must be in them, read back from the SVG."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest

from tidings.report.charts import Axis, LineChart, Point, document, lines_of
from tidings.report.charts.figures import HEIGHT, WIDTH, notes
from tidings.report.charts.model import Line
from tidings.report.numbers import figure
from tidings.report.svg import width_of

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("&amp;")</script>'


class Look(NamedTuple):
    colour: str | None
    dash: str | None
    shape: str | None


class Drawn:
    """A file of charts, read back."""

    def __init__(self, *charts: LineChart, title: str = "What it costs") -> None:
        self.svg = document(title, charts)
        self.root = ElementTree.fromstring(self.svg)
        self.panels = [one for one in self.root if one.find(f"{SVG}svg") is not None]

    def all(
        self, name: str, inside: ElementTree.Element | None = None
    ) -> list[ElementTree.Element]:
        """The elements of a class."""
        where = self.root if inside is None else inside
        return [one for one in where.iter() if name in one.get("class", "").split()]

    def points(self) -> dict[str, tuple[float, float]]:
        """Where each mark of the first chart stands, by its words."""
        marks = [one for one in self.all("mark", self.panels[0]) if one.get("transform")]
        return {one.findtext(f"{SVG}title", ""): _spot(one) for one in marks}

    def ticks(self, anchor: str) -> dict[str, tuple[float, float]]:
        """Of the first chart: those of the lower axis are centred, the others end at their axis."""
        return {
            one.text or "": (float(one.get("x", "")), float(one.get("y", "")))
            for one in self.all("tick", self.panels[0])
            if one.get("text-anchor") == anchor
        }

    def labels(self) -> list[str]:
        return [one.text or "" for one in self.all("label")]

    def legend(self) -> dict[str, ElementTree.Element]:
        (legend,) = self.all("legend")
        return {one.findtext(f"{SVG}text", ""): one for one in legend}


def _spot(element: ElementTree.Element) -> tuple[float, float]:
    x, y = map(float, re.findall(r"[-\d.]+", element.get("transform", "")))
    return x, y


def _look(group: ElementTree.Element) -> Look:
    """The colour of a series or of its key, the dash of its line, the shape of its marks."""
    line, mark = (
        next(one for one in group.iter() if one.get("class") == name) for name in ("line", "mark")
    )
    colours = re.findall(r"\bs\d\b", group.get("class", ""))
    return Look(colours[0], line.get("stroke-dasharray"), mark.get("d"))


def apart(*names: str) -> tuple[Line, ...]:
    """Lines of which no two coincide."""
    return tuple(
        Line(name, tuple(Point(x, (10 + number) * x) for x in (1, 10, 100)))
        for number, name in enumerate(names)
    )


def chart(*names: str, xs: tuple[float, ...] = (1, 10, 100), **changes: object) -> LineChart:
    """Lines through x and 10x."""
    parts = {
        "title": "One broadcast",
        "x": Axis("processes", logarithmic=True),
        "y": Axis("time", "ms", logarithmic=True),
        "lines": lines_of((name, Point(x, 10 * x)) for name in names or ("relay",) for x in xs),
    }
    return LineChart(**parts | changes)


# --- points and axes


def test_on_logarithmic_axes_equal_ratios_are_equal_distances() -> None:
    points = Drawn(chart()).points()
    assert list(points) == [
        "relay, processes 1: 10",
        "relay, processes 10: 100",
        "relay, processes 100: 1,000",
    ]
    (x1, y1), (x2, y2), (x3, y3) = points.values()
    assert 50 < x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert 50 < y1 - y2 == pytest.approx(y2 - y3, abs=0.2), "more is higher up"


def test_on_linear_axes_equal_differences_are() -> None:
    linear = chart(xs=(1, 2, 4), x=Axis("processes"), y=Axis("time", "ms"))
    (x1, y1), (x2, y2), (x3, y3) = Drawn(linear).points().values()
    assert 50 < 2 * (x2 - x1) == pytest.approx(x3 - x2, abs=0.3)
    assert 50 < 2 * (y1 - y2) == pytest.approx(y2 - y3, abs=0.3)


def test_the_line_goes_through_its_points() -> None:
    drawn = Drawn(chart())
    (line,) = drawn.all("line", drawn.panels[0])
    numbers = [float(number) for number in re.findall(r"[\d.]+", line.get("d", ""))]
    expected = [number for spot in drawn.points().values() for number in spot]
    assert numbers == pytest.approx(expected, abs=0.1)


def test_ticks_stand_at_the_values_they_name() -> None:
    drawn = Drawn(chart())
    marks = list(drawn.points().values())
    across = drawn.ticks("middle")
    assert list(across) == ["1", "10", "100"]
    assert [x for x, _ in across.values()] == pytest.approx([x for x, _ in marks], abs=0.1)
    up = drawn.ticks("end")
    # The words stand a little lower than the line that they name.
    assert [up[name][1] - 3.5 for name in ("10", "100", "1,000")] == pytest.approx(
        [y for _, y in marks], abs=0.1
    )


def test_axes_say_what_they_count_in_which_unit_and_that_they_are_logarithmic() -> None:
    assert Drawn(chart()).labels() == ["time (ms), logarithmic", "processes, logarithmic"]
    linear = chart(x=Axis("processes"), y=Axis("time", "ms"))
    assert Drawn(linear).labels() == ["time (ms)", "processes"]


@pytest.mark.parametrize(
    "xs", [(3, 5, 10, 20, 50), (49, 50, 51), (3, 4, 5, 6, 7, 8, 9, 1000), tuple(range(1, 40)), (7,)]
)
@pytest.mark.parametrize("logarithmic", [True, False])
def test_ticks_do_not_overlap(xs: tuple[float, ...], logarithmic: bool) -> None:
    axis = Axis("processes", logarithmic=logarithmic)
    ticks = Drawn(chart(xs=xs, x=axis)).ticks("middle")
    assert ticks
    for (left, (before, _)), (right, (after, _)) in pairwise(ticks.items()):
        assert after - before > (width_of(left, 10.5) + width_of(right, 10.5)) / 2


def test_nothing_at_zero_is_drawn_on_a_logarithmic_axis() -> None:
    assert list(Drawn(chart(xs=(0, 1, 10))).points()) == [
        "relay, processes 1: 10",
        "relay, processes 10: 100",
    ]
    assert Drawn(chart(xs=(0,))).points() == {}


def test_a_confidence_interval_lies_within_the_chart() -> None:
    lines = (Line("relay", (Point(1, 10, 2, 95), Point(10, 20, 5, 40))),)
    drawn = Drawn(chart(lines=lines, y=Axis("time", "ms")))
    ticks = {name: y - 3.5 for name, (_, y) in drawn.ticks("end").items()}
    whiskers = [one.get("d", "") for one in drawn.all("whisker")]
    heights = [[float(y) for y in re.findall(r" ([\d.]+)", d)] for d in whiskers]
    assert [bottom > top for bottom, top in heights] == [True, True]
    assert all(ticks["100"] < top and bottom < ticks["0"] for bottom, top in heights)


def test_a_run_that_was_cut_is_marked_as_at_least_and_the_legend_says_so() -> None:
    lines = (Line("storm", (Point(1, 10), Point(10, 100, at_least=True))),)
    cut = Drawn(chart(lines=lines))
    assert list(cut.points()) == ["storm, processes 1: 10", "storm, processes 10: at least 100"]
    shapes = [one.get("d") for one in cut.all("mark", cut.panels[0])]
    assert shapes[0] != shapes[1]
    arrow = cut.legend()["at least: cut short"]
    assert shapes[1] in [one.get("d") for one in arrow]
    assert list(Drawn(chart()).legend()) == ["relay"]


# --- lines on each other


def _dashes(line: ElementTree.Element) -> tuple[list[float], float]:
    return (
        [float(one) for one in line.get("stroke-dasharray", "").split()],
        float(line.get("stroke-dashoffset", "0")),
    )


def test_lines_that_coincide_take_turns_so_that_every_colour_is_seen() -> None:
    drawn = Drawn(chart("a", "b", "c"))
    lines = drawn.all("line", drawn.panels[0])
    assert len({line.get("d") for line in lines}) == 1, "all on the same way"
    seen = [_dashes(line) for line in lines]
    (inked, gap), _ = seen[0]
    assert [dashes for dashes, _ in seen] == [[inked, gap]] * 3
    assert gap == 2 * inked, "as much as the two others need"
    assert [offset for _, offset in seen] == [0, -inked, -2 * inked]


def test_a_bound_that_is_reached_takes_its_turn_and_is_named() -> None:
    bound = Line("there and back", tuple(Point(x, 10 * x) for x in (1, 10, 100)))
    reached = chart("a", "b", bounds=(bound,))
    drawn = Drawn(reached)
    lines = [*drawn.all("line", drawn.panels[0]), *drawn.all("bound", drawn.panels[0])]
    assert len({line.get("d") for line in lines}) == 1
    (inked, _), _ = _dashes(lines[0])
    assert [offset for _, offset in map(_dashes, lines)] == [0, -inked, -2 * inked]
    (note,) = filter(None, notes(reached))
    assert note == "a, b and the lower bound, there and back, coincide."


def test_bounds_that_coincide_keep_their_dashes() -> None:
    bounds = tuple(Line(name, (Point(1, 5), Point(100, 5))) for name in ("one", "other"))
    drawn = Drawn(chart("a", bounds=bounds))
    one, other = (line.get("stroke-dasharray") for line in drawn.all("bound", drawn.panels[0]))
    assert one != other


def test_marks_that_coincide_stand_beside_each_other_around_their_place() -> None:
    alone = list(Drawn(chart("a", lines=apart("a"))).points().values())
    marks = Drawn(chart("a", "b", "c")).points()
    for number, x in enumerate(("1", "10", "100")):
        spots = [marks[f"{name}, processes {x}: {figure(10 * float(x))}"] for name in "abc"]
        across = [spot[0] for spot in spots]
        assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.1)
        assert across[1] - across[0] >= 8
        assert len({spot[1] for spot in spots}) == 1
        assert spots[1][1] == pytest.approx(alone[number][1], abs=0.1)
    assert all(44 <= x <= WIDTH for x, _ in marks.values()), "none beyond the axes"


def test_where_lines_part_each_goes_its_own_way() -> None:
    together, parted = Point(1, 10), Point(10, 100)
    lines = (
        Line("a", (together, parted, Point(100, 1000))),
        Line("b", (together, parted, Point(100, 5000))),
    )
    drawn = Drawn(chart(lines=lines))
    pieces = [drawn.all("line", one) for one in drawn.all("series", drawn.panels[0])]
    assert [len(of_line) for of_line in pieces] == [2, 2]
    for shared, own in pieces:
        assert shared.get("stroke-dasharray")
        assert own.get("stroke-dasharray") is None
    (first, mine), (second, yours) = pieces
    assert first.get("d") == second.get("d")
    assert mine.get("d") != yours.get("d")


def test_a_crowd_of_marks_is_no_wider_than_the_room_for_it() -> None:
    marks = Drawn(chart(*MANY)).points()
    across = [x for words, (x, _) in marks.items() if "processes 10:" in words]
    assert len(across) == len(MANY)
    assert max(across) - min(across) == pytest.approx(44, abs=0.3)


# --- the legend

MANY = [f"algorithm-{number} notice=yes" for number in range(20)]


def test_the_legend_shows_each_name_once_as_its_lines_look() -> None:
    drawn = Drawn(chart(lines=apart(*MANY)), chart(lines=apart(*MANY), title="A stream"))
    legend = drawn.legend()
    assert list(legend) == MANY
    looks = [_look(entry[0]) for entry in legend.values()]
    for attributes in (("colour", "dash"), ("colour", "shape")):
        assert len({tuple(getattr(one, name) for name in attributes) for one in looks}) == len(MANY)
    for panel in drawn.panels:
        assert [_look(one) for one in drawn.all("series", panel)] == looks


def test_a_name_looks_the_same_in_a_chart_that_lacks_others() -> None:
    drawn = Drawn(chart(lines=apart("a", "b")), chart("b"))
    (first, second), (alone,) = (drawn.all("series", panel) for panel in drawn.panels)
    assert _look(alone) == _look(second) != _look(first)


def test_a_lower_bound_has_a_key_too() -> None:
    drawn = Drawn(chart(bounds=(Line("two delays", (Point(1, 5), Point(100, 50))),)))
    dashes = [one.get("stroke-dasharray") for one in drawn.all("bound")]
    assert list(drawn.legend()) == ["relay", "lower bound, two delays"]
    assert len(dashes) == 2
    assert len(set(dashes)) == 1


def test_no_two_entries_of_the_legend_overlap_and_all_are_inside() -> None:
    drawn = Drawn(*[chart(*MANY)] * 3)
    width, height = (float(drawn.root.get(name, "")) for name in ("width", "height"))
    boxes = []
    for words, entry in drawn.legend().items():
        x, y = _spot(entry)
        boxes.append((x - 14, y - 8, x + 18 + width_of(words, 11.5), y + 8))
    assert all(
        left >= 0 and right <= width and bottom <= height for left, _, right, bottom in boxes
    )
    for one, other in combinations(boxes, 2):
        is_beside = one[2] <= other[0] or other[2] <= one[0]
        assert is_beside or one[3] <= other[1] or other[3] <= one[1]
    lowest = max(_spot(panel)[1] for panel in drawn.panels) + HEIGHT
    assert lowest <= min(top for _, top, _, _ in boxes)


def test_lines_that_lie_on_each_other_are_named_under_the_legend() -> None:
    drawn = Drawn(chart("a", "b"), chart("c", title="A stream", note="Without faults."))
    lowest = max(_spot(entry)[1] for entry in drawn.legend().values())
    under = {
        one.text: float(one.get("y", ""))
        for one in drawn.root.findall(f"{SVG}text")
        if float(one.get("y", "")) > lowest
    }
    assert list(under) == ["One broadcast. a and b coincide.", "A stream. Without faults."]
    first, second = under.values()
    assert lowest + 16 <= first <= second - 16
    assert second < float(drawn.root.get("height", ""))


def test_charts_stand_beside_and_under_each_other() -> None:
    drawn = Drawn(*(chart(title=f"chart {number}") for number in range(4)))
    assert [panel.findtext(f"{SVG}text") for panel in drawn.panels] == [
        f"chart {number}" for number in range(4)
    ]
    spots = [_spot(panel) for panel in drawn.panels]
    for (x1, y1), (x2, y2) in combinations(spots, 2):
        assert abs(x1 - x2) >= WIDTH or abs(y1 - y2) >= HEIGHT + 20
    assert max(x for x, _ in spots) + WIDTH <= float(drawn.root.get("width", ""))


# --- a document that can be trusted


def test_every_colour_has_a_light_and_a_dark_form() -> None:
    drawn = Drawn(chart(*MANY))
    (style,) = [one.text or "" for one in drawn.root.iter(f"{SVG}style")]
    light, dark = style.split("@media screen and (prefers-color-scheme:dark)")
    for name in ("paper", "ink", "soft", *(f"s{number}" for number in range(8))):
        pattern = rf"\.{name}(?:,[^{{]*)?\{{(?:fill|color):(#\w+)\}}"
        (by_day,), (by_night,) = re.findall(pattern, light), re.findall(pattern, dark)
        assert by_day != by_night, name
    assert {look.colour for look in map(_look, drawn.all("series"))} == {
        f"s{number}" for number in range(8)
    }
    assert "var(" not in style, "not every viewer knows variables"


def test_names_and_titles_are_never_mistaken_for_markup() -> None:
    drawn = Drawn(chart(HOSTILE, title=HOSTILE, x=Axis(HOSTILE)), title=HOSTILE)
    assert not list(drawn.root.iter(f"{SVG}script"))
    assert list(drawn.legend()) == [HOSTILE]
    assert HOSTILE in drawn.labels()
    assert [one.text for one in drawn.root.iter(f"{SVG}text")].count(HOSTILE) == 4


def test_the_document_needs_nothing_from_elsewhere() -> None:
    drawn = Drawn(chart())
    assert set(re.findall(r"https?://[^\"']+", drawn.svg)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import|@font-face|<script|<image|<use|javascript", drawn.svg)
    assert drawn.root.get("role") == "img"
    assert drawn.root.get("aria-label") == "What it costs"
