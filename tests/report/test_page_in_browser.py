"""The page in a real browser: quiet, alone, whole at every width, and alive."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chromium import Chromium, chromium, require_chromium
from test_crashes import BACK, killed
from test_page import HOSTILE, careless_picture, hostile_run, page_of
from tidings.pipeline.history import Entry, Measured
from tidings.pipeline.watching.status import MemberStatus, Owed, RunStatus, SoFar, Status
from tidings.report.live import live_page
from tidings.report.over_time import history_page
from tidings.report.page import Page, render
from tidings.report.page.model import Picture
from tidings.simulator import Plan, walk
from tidings.spec import Guarantee, Value

Place = tuple[str, int]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    require_chromium()
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(example: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a campaign."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render(example), encoding="utf-8")
    return file


@pytest.fixture
def picture(browser: Chromium, example: Page, tmp_path: Path) -> Picture:
    """A page with one picture, open in the browser."""
    drawn = careless_picture()
    page = msgspec.structs.replace(example, pictures=(drawn,), matrix=None)
    file = tmp_path / "picture.html"
    file.write_text(render(page), encoding="utf-8")
    browser.look(1000)
    browser.open(file)
    return drawn


def assert_quiet(browser: Chromium) -> None:
    """Nothing in the console, and nothing asked for but the page itself."""
    assert browser.complaints == []
    assert len(browser.requests) == 1, browser.requests


# --- what is lit


LIT = """Object.fromEntries(["is-self", "is-past", "is-future"].map((name) => [name,
    [...document.querySelectorAll(`.stage .event.${name}`)]
        .map((one) => [one.dataset.process, Number(one.dataset.index)])]))"""
MARKS = """[...document.querySelectorAll(".stage .event")]
    .map((one) => [one.dataset.process, Number(one.dataset.index)])"""


def places(found: list[list[Any]]) -> set[Place]:
    return {(process, index) for process, index in found}


# --- at every size


OUTSIDE = """[...document.querySelectorAll("svg.figure text, h1, h2, h3, p, td, th, li")]
    .filter((one) => !one.closest(".scroll, .stage, .skip, details, thead"))
    .filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && (box.left < -1 || box.right > innerWidth + 1);
    }).map((one) => one.textContent)"""
FIGURES = """[...document.querySelectorAll("svg.figure")].map((one) => {
    const box = one.getBoundingClientRect();
    return [one.getAttribute("aria-label"), box.width, box.height];
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_the_page_fits_any_screen_quietly(
    browser: Chromium, page: Path, width: int, scheme: str
) -> None:
    browser.look(width, scheme=scheme)
    browser.open(page)
    assert_quiet(browser)
    assert browser.ask("document.documentElement.classList.contains('js')")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(OUTSIDE) == []
    figures = browser.ask(FIGURES)
    assert len(figures) == 2 + 2 + 1 + 3  # costs, latencies, Pareto; a panel for each of three
    for name, wide, high in figures:
        assert wide > 150, name
        assert high > 60, name


def test_light_and_dark_are_as_the_reader_wishes_and_paper_is_light(
    browser: Chromium, page: Path
) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme in ("light", "dark"):
        browser.look(1000, scheme=scheme)
        browser.open(page)
        seen.append(browser.ask(colour))
    assert seen == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.send("Emulation.setEmulatedMedia", media="print", features=features)
    assert browser.ask(colour) == "rgb(255, 255, 255)"
    assert browser.ask("getComputedStyle(document.querySelector('.controls')).display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")


def test_what_users_wrote_is_only_text(browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(render(page_of(hostile_run())), encoding="utf-8")
    browser.look(1000)
    browser.open(file)
    assert_quiet(browser)
    assert browser.ask("document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.ask("document.querySelector('.picture').textContent")
    browser.hover(".stage .event[data-index='1']")
    assert places(browser.ask(LIT)["is-past"]) == {(HOSTILE, 0), ("p2", 0)}


def test_a_violated_cell_leads_to_its_counterexample(
    browser: Chromium, page: Path, example: Page
) -> None:
    browser.look(1000)
    browser.open(page)
    browser.click("td.violated a")
    key = browser.ask("location.hash.slice(1)")
    assert key in {picture.key for picture in example.pictures}
    top = browser.ask(f"document.getElementById('{key}').getBoundingClientRect().top")
    assert 0 <= top < 900


# --- light


def cones(picture: Picture, marks: set[Place], event: Place) -> dict[str, set[Place]]:
    """What must be lit, by the model."""
    number = {name: position for position, name in enumerate(picture.processes)}
    past = {(picture.processes[one.process], one.index): one.past for one in picture.happenings}

    def is_before(one: Place, other: Place) -> bool:
        return one != other and one[1] <= past[other][number[one[0]]]

    return {
        "is-self": {event},
        "is-past": {one for one in marks if is_before(one, event)},
        "is-future": {one for one in marks if is_before(event, one)},
    }


def test_resting_on_an_event_lights_its_causal_past_and_future(
    browser: Chromium, picture: Picture
) -> None:
    marks = places(browser.ask(MARKS))
    for process, index in [("p2", 4), ("p3", 4), ("p1", 0)]:
        assert (process, index) in marks
        browser.hover(f".stage .event[data-process={process}][data-index='{index}']")
        lit = {name: places(found) for name, found in browser.ask(LIT).items()}
        wanted = cones(picture, marks, (process, index))
        assert lit == wanted
    assert wanted["is-future"]
    answer = browser.ask("document.querySelector('.status').textContent")
    assert "p1 broadcasts p1#1" in answer
    opacity = "getComputedStyle(document.querySelector('.stage .event.is-future')).opacity"
    assert browser.ask(opacity) == "1"
    browser.hover("h3")
    assert browser.ask(LIT) == {"is-self": [], "is-past": [], "is-future": []}
    assert_quiet(browser)


def test_a_message_can_be_chosen_with_the_keyboard(browser: Chromium, picture: Picture) -> None:
    browser.ask("document.querySelectorAll('.chip')[1].focus()")
    marks = places(browser.ask(MARKS))
    lit = {name: places(found) for name, found in browser.ask(LIT).items()}
    assert lit == cones(picture, marks, ("p2", 5))
    assert lit["is-past"]
    assert lit["is-future"]
    lanes = browser.ask("document.querySelectorAll('.cone.past, .cone.future').length")
    assert lanes > 2
    browser.press("ArrowRight")
    assert step(browser) == f"step 1 of {len(picture.moments)}"
    assert browser.ask(LIT) == {"is-self": [], "is-past": [], "is-future": []}


# --- steps


def step(browser: Chromium) -> str:
    return str(browser.ask("document.querySelector('.count').textContent"))


def test_buttons_step_through_the_run(browser: Chromium, picture: Picture) -> None:
    most = len(picture.moments)
    assert step(browser) == f"{most} steps"
    browser.click("[data-go=on]")
    assert step(browser) == f"step 1 of {most}"
    shown = "[...document.querySelectorAll('.stage .event:not(.later)')].length"
    assert browser.ask(shown) == 1
    browser.click("[data-go=on]")
    assert step(browser) == f"step 2 of {most}"
    assert browser.ask(shown) == 2
    answer = browser.ask("document.querySelector('.story .now').textContent")
    assert picture.moments[1].words in answer
    assert browser.ask("document.querySelector('.status').textContent") == answer
    browser.click("[data-go=back]")
    assert step(browser) == f"step 1 of {most}"
    browser.click("[data-go=last]")
    assert browser.ask("document.querySelectorAll('.stage .later').length") == 0
    assert browser.ask("document.querySelector('[data-go=on]').disabled")
    browser.click("[data-go=all]")
    assert step(browser) == f"{most} steps"
    assert_quiet(browser)


def test_arrow_keys_step_too_and_escape_shows_all(browser: Chromium, picture: Picture) -> None:
    most = len(picture.moments)
    browser.ask("document.querySelector('.stage').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home", "Escape"):
        browser.press(key)
        seen.append(step(browser))
    numbers = [1, 2, 3, 2, most, 1]
    assert seen == [*(f"step {number} of {most}" for number in numbers), f"{most} steps"]


def test_enter_lights_what_came_before_and_after_the_step(
    browser: Chromium, picture: Picture
) -> None:
    browser.ask("document.querySelector('.stage').focus()")
    marks = places(browser.ask(MARKS))
    for _ in range(3):
        browser.press("ArrowRight")
    browser.press("Enter")
    lit = {name: places(found) for name, found in browser.ask(LIT).items()}
    (event,) = lit["is-self"]
    shown = next(one for one in picture.happenings if one.moment == 2)
    assert event[0] == picture.processes[shown.process]
    assert lit == cones(picture, marks, event)
    browser.press("Enter")
    assert browser.ask(LIT)["is-self"] == []


def test_a_line_of_the_story_is_a_step(browser: Chromium, picture: Picture) -> None:
    browser.click(".story li.wrong-here")
    wrong = [moment.is_violation for moment in picture.moments].index(True)
    assert step(browser) == f"step {wrong + 1} of {len(picture.moments)}"
    assert browser.ask("document.querySelector('.violation').classList.contains('later')") is False
    browser.click("[data-go=back]")
    assert browser.ask("document.querySelector('.violation').classList.contains('later')") is True


# --- the story of a crash, at any width


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which two members were killed and came back."""
    file = tmp_path_factory.mktemp("crashed") / "report.html"
    file.write_text(render(page_of(killed(BACK))), encoding="utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_the_story_fits_any_screen_quietly(
    browser: Chromium, crashed: Path, width: int, scheme: str
) -> None:
    browser.look(width, scheme=scheme)
    browser.open(crashed)
    assert_quiet(browser)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(OUTSIDE) == []
    assert browser.ask("document.querySelectorAll('.episodes li').length") == 4
    browser.click(".episodes a")
    key = browser.ask("location.hash.slice(1)")
    assert browser.ask(f"document.getElementById('{key}').className") == "picture"


FIRST_IN_VIEW = """(() => {
    const stage = document.querySelector(".stage").getBoundingClientRect();
    const names = document.querySelector(".names").getBoundingClientRect();
    const first = document.querySelector(".stage .event").getBoundingClientRect();
    return names.right <= first.left && first.right <= stage.right;
})()"""
NAMES_IN_VIEW = """(() => {
    const stage = document.querySelector(".stage").getBoundingClientRect();
    return [...document.querySelector(".names").querySelectorAll("text")].map((one) => {
        const box = one.getBoundingClientRect();
        const top = document.elementsFromPoint(box.left + 2, box.top + box.height / 2);
        return box.left >= stage.left && box.right <= stage.right
            && top.some((hit) => hit.closest(".names"));
    });
})()"""


@pytest.mark.parametrize("width", [400, 1000])
def test_a_diagram_opens_at_its_first_event_and_lane_names_stay_in_view(
    browser: Chromium, crashed: Path, width: int
) -> None:
    browser.look(width)
    browser.open(crashed)
    browser.ask("document.querySelector('.stage').scrollIntoView({behavior: 'instant'})")
    assert browser.ask("document.querySelector('.stage').scrollLeft") == 0
    assert browser.ask(FIRST_IN_VIEW)
    browser.ask("document.querySelector('.stage').scrollTo({left: 1e6, behavior: 'instant'})")
    if width == 400:
        assert browser.ask("document.querySelector('.stage').scrollLeft") > 100
    assert browser.ask(NAMES_IN_VIEW) == [True] * 5


def test_a_violation_far_to_the_right_does_not_scroll_its_diagram_away(
    browser: Chromium, picture: Picture
) -> None:
    browser.look(400)
    assert browser.ask("document.querySelector('.stage').scrollLeft") == 0
    assert browser.ask("document.querySelector('.story').scrollTop") == 0


# --- a run that is too long to be shown whole


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with far more rows than a picture has room for."""
    plan = Plan(protocol="flawed/hasty", processes=7, broadcasts=60, crashes=3)
    file = tmp_path_factory.mktemp("long") / "report.html"
    file.write_text(render(page_of(walk(plan, seed=3))), encoding="utf-8")
    return file


COVERED = """(() => {
    const names = document.querySelector(".names").getBoundingClientRect();
    return [...document.querySelectorAll(".picture:first-of-type .labels text")]
        .filter((one) => one.getBoundingClientRect().left < names.right)
        .map((one) => one.textContent);
})()"""


@pytest.mark.parametrize("width", [400, 1600])
def test_a_long_run_is_drawn_in_short_and_can_be_made_shorter(
    browser: Chromium, long: Path, width: int
) -> None:
    browser.look(width)
    browser.open(long)
    assert_quiet(browser)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.querySelectorAll('.story')[0].children.length") < 40
    ways = browser.ask("[...document.querySelectorAll('.proof .how')].map((one) => one.innerText)")
    assert ways == [
        "Play it again: tidings replay runs/7 --last 20",
        "Make it shorter: tidings shrink runs/7",
    ]
    assert browser.ask(COVERED) == []
    hidden = "[...document.querySelectorAll('.stage .whose')].every((one) => !one.getBBox().width)"
    assert browser.ask(hidden)


def test_a_list_of_steps_shows_that_it_goes_on_and_is_whole_where_there_is_room(
    browser: Chromium, long: Path
) -> None:
    is_cut = "(({scrollHeight, clientHeight}) => scrollHeight > clientHeight)"
    story = "document.querySelector('.story')"
    browser.look(400)
    browser.open(long)
    assert browser.ask(f"{is_cut}({story})")
    assert "gradient" in browser.ask(f"getComputedStyle({story}).backgroundImage")
    browser.look(1600)
    assert not browser.ask(f"{is_cut}({story})")


# --- a group that is watched, and a history of verdicts


def watched() -> Status:
    """One member that crashed, one that owes something, and a verdict of each value."""
    members = tuple(
        MemberStatus(name, rows, kind, time_ns)
        for name, rows, kind, time_ns in (
            ("p1", 1234567, "deliver", 9_500_000_000),
            ("p2", 12, "crash", 0),
        )
    )
    verdicts = tuple(
        SoFar(guarantee.value, value, 123456, violated=30 * (value is Value.VIOLATED), reason=why)
        for guarantee, value, why in (
            (Guarantee.CAUSAL_ORDER, Value.VIOLATED, ""),
            (Guarantee.UNIFORM_AGREEMENT, Value.UNKNOWN, "the run is not over"),
            (Guarantee.NO_CREATION, Value.HOLDS, ""),
        )
    )
    owed = (Owed("p1", "p2", 13, 7, 19, 0.0),)
    run = RunStatus("run", members, owed, verdicts, 0, 0, has_ended=False)
    return Status(3, 12.0, 1234579, 30, 5, 0.1, 0.4, 100, (run,))


def entry(number: int) -> Entry:
    values = dict.fromkeys(Guarantee, Value.HOLDS) | {Guarantee.VALIDITY: Value.VIOLATED}
    at = datetime(2026, 1, 2, 3, 4, number, tzinfo=UTC)
    run, seconds = f"3086bc7{number}", 1234.5678 * number
    return Entry(at, "watch", "runs/7", run, 1234567, seconds, values, 1, Measured())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_the_smaller_pages_fit_any_screen_quietly(
    browser: Chromium, tmp_path: Path, width: int, scheme: str
) -> None:
    pages = {
        "live": live_page(watched(), "runs", ["causal order at p1: p2#7 (p1:3)"]),
        "over": live_page(watched(), "runs", is_over=True),
        "history": history_page([entry(1), entry(2)], Value.VIOLATED, "history"),
    }
    browser.look(width, scheme=scheme)
    for name, text in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(text, encoding="utf-8")
        browser.open(file)
        assert_quiet(browser)
        assert browser.ask("document.documentElement.scrollWidth") <= width, name
        assert browser.ask(OUTSIDE) == []
        words = browser.ask("document.body.innerText")
        assert ("p1 owes p2#7..19" in words) is (name == "live")
        # An age is true only as long as the page is made again.
        assert ("2.5 s ago" in words) is (name == "live")
        assert ("1970-01-01 00:00:09" in words) is (name == "over")
        assert "violated" in words
    assert "seconds to judge it: first 1,235, last 2,469, at most 2,469" in words
    numbers = "[...document.querySelectorAll('.number')].map((one) => getComputedStyle(one)"
    assert set(browser.ask(f"{numbers}.textAlign)")) == {"right"}


# --- pictures as files


@pytest.mark.parametrize("name", ["picture.svg", "story.svg", "ranges.svg"])
def test_the_pictures_of_the_guides_are_dark_where_the_reader_is(
    browser: Chromium, name: str
) -> None:
    file = Path(__file__).parents[2] / "docs" / name
    seen = []
    for scheme in ("light", "dark"):
        browser.look(1000, scheme=scheme)
        browser.open(file)
        assert_quiet(browser)
        seen.append(browser.ask("getComputedStyle(document.querySelector('.paper')).fill"))
    assert seen == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


# --- the rest of the keyboard


def test_the_first_tab_offers_to_skip_and_the_focus_is_seen(browser: Chromium, page: Path) -> None:
    browser.look(1000)
    browser.open(page)
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_name_in_a_legend_brings_its_lines_to_the_front(browser: Chromium, page: Path) -> None:
    browser.look(1000)
    browser.open(page)
    browser.ask("document.querySelector('button.entry').focus()")
    faded = """[...document.querySelectorAll("#cost .series")]
        .filter((one) => !one.classList.contains("front-most")).length"""
    assert browser.ask("document.documentElement.classList.contains('focused')")
    assert browser.ask(faded) == 2 * 2  # of three in two figures
    browser.ask("document.activeElement.blur()")
    assert not browser.ask("document.documentElement.classList.contains('focused')")
