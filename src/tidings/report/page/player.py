"""A run on a page: the diagram, the buttons that step through it, what happened, and the proof."""

import msgspec

from tidings.report.markup import Markup, data, element, joined
from tidings.report.page.model import Picture
from tidings.report.page.parts import command, mark, note
from tidings.report.words import many

HINT = "Rest on an event, or choose a message, to see what came before it and after it."


def player(picture: Picture) -> Markup:
    name = f"{picture.key}-title"
    return element(
        "article",
        element("h3", mark("✗ ") if picture.is_violation else None, picture.title, id=name),
        element("p", element("b", picture.entry), f", {picture.facts}", class_="small"),
        element("p", picture.summary, class_="summary") if picture.summary else None,
        note(picture.left_out),
        element(
            "div",
            element("div", _controls(picture), _stage(picture), _messages(picture), class_="left"),
            _story(picture),
            class_="play",
        ),
        _proof(picture),
        # What the script needs: who is who, when, and what came before what.
        data(
            msgspec.json.encode(
                {
                    "processes": picture.processes,
                    "moments": [moment.x for moment in picture.moments],
                    "events": picture.happenings,
                }
            ),
            class_="data",
        ),
        class_=f"picture{' broken' if picture.is_violation else ''}",
        id=picture.key,
        aria_labelledby=name,
        tabindex="-1",
    )


_BUTTONS = {
    "first": ("First step", "M3 3H5V13H3ZM13 3V13L6 8Z"),
    "back": ("One step back", "M12 3V13L4 8Z"),
    "on": ("One step on", "M4 3V13L12 8Z"),
    "last": ("Last step", "M13 3H11V13H13ZM3 3V13L10 8Z"),
}
"""Their signs are drawn, because not every machine has a font with these."""


def _controls(picture: Picture) -> Markup:
    buttons = [
        element(
            "button",
            element(
                "svg",
                element("path", d=sign),
                class_="icon",
                viewBox="0 0 16 16",
                aria_hidden="true",
            ),
            type="button",
            data_go=go,
            aria_label=label,
            title=label,
        )
        for go, (label, sign) in _BUTTONS.items()
    ]
    return element(
        "div",
        *buttons,
        element("button", "Whole run", type="button", data_go="all"),
        element("output", many(len(picture.moments), "step"), class_="count"),
        element("span", "or use the arrow keys; Enter lights a step", class_="small keys"),
        class_="controls",
        role="group",
        aria_label="Steps",
    )


def _stage(picture: Picture) -> Markup:
    words = f"{picture.title}. Arrow keys step through the run, Escape shows all of it."
    legend = [element("li", sign, element("span", meaning)) for sign, meaning in picture.symbols]
    return joined(
        element(
            "div",
            picture.names,
            picture.svg,
            class_="stage",
            tabindex="0",
            role="group",
            aria_label=words,
        ),
        element("ul", *legend, class_="signs", aria_label="Legend"),
        element("p", class_="status", role="status", data_hint=HINT),
    )


def _messages(picture: Picture) -> Markup | None:
    if not picture.messages:
        return None
    chips = [
        element(
            "button",
            element("b", spoken.name),
            f" {spoken.text}" if spoken.text else None,
            type="button",
            class_="chip",
            data_event=spoken.broadcast,
            aria_pressed="false",
        )
        for spoken in picture.messages
    ]
    return element(
        "div",
        element("span", "What came before and after a message: ", class_="small"),
        *chips,
        class_="chips",
    )


def _story(picture: Picture) -> Markup:
    steps = [
        element(
            "li",
            element("code", moment.where),
            " ",
            moment.words,
            element("b", " Here it is violated.") if moment.is_violation else None,
            data_moment=number,
            class_="wrong-here" if moment.is_violation else None,
        )
        for number, moment in enumerate(picture.moments)
    ]
    return element(
        "div",
        element("h4", "What happened"),
        element(
            "ol", *steps, class_="story", tabindex="0", aria_label="What happened, step by step"
        ),
        class_="right",
    )


def _proof(picture: Picture) -> Markup | None:
    parts: list[Markup] = []
    if picture.proof:
        parts += [element("h4", "The proof"), element("pre", picture.proof, tabindex="0")]
    if picture.replay:
        parts.append(element("p", "Play it again: ", command(picture.replay), class_="how"))
    if picture.shrink:
        parts.append(element("p", "Make it shorter: ", command(picture.shrink), class_="how"))
    return element("div", *parts, class_="proof") if parts else None
