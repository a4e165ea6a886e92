"""The story of a violation: who was there, what happened, what is wrong, and how to see it again.

Markdown that reads as well unrendered. A short run is told whole; of a long one only what led to
the violation.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from os import PathLike
from pathlib import Path

from tidings.disk.files import whole_file
from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.deeds import Deeds
from tidings.report.explain import explain, replay_command, shrink_command
from tidings.report.focus import Focus, focus, marked
from tidings.report.reproduce import as_pytest, file_name
from tidings.report.spacetime import spacetime
from tidings.report.words import listed, printable, with_options
from tidings.spec import Extra, Guarantee, Violation
from tidings.spec.evidence import place
from tidings.trace import Row, Run

MOST_EVENTS = 120
"""Runs with more are told in part."""

PICTURE = "story.svg"

_PROMISES = {
    Guarantee.NO_DUPLICATION: "a process delivers a message at most once",
    Guarantee.NO_CREATION: "what is delivered was broadcast by its stated origin, with that text",
    Guarantee.VALIDITY: "a correct process delivers what it broadcast",
    Guarantee.UNIFORM_AGREEMENT: "what any process delivers, even one that crashed, every correct "
    "process delivers",
    Guarantee.CAUSAL_ORDER: "before a message come all messages its origin had broadcast or "
    "delivered",
    Extra.COST: "no more packets are sent than allowed",
    Extra.REACH: "a message is addressed to everybody to whom its causes were addressed",
    Extra.VIEWS: "all that get through a view have delivered the same in it, and go on to the same",
}


def write_story(
    folder: Path, run: Run, violation: Violation, *, trace: PathLike[str] | str | None = None
) -> None:
    """The story, its picture and its test, each whole or not at all, into a folder.

    ``trace`` is where the trace of the run lies, if it was kept.
    """
    test = folder / file_name(run, violation)
    parts = {
        "story.md": story(run, violation, trace=trace, picture=PICTURE, test=test),
        PICTURE: spacetime(run, violation, most_events=MOST_EVENTS),
    }
    if schedule.can_be_replayed(run.manifest):
        made_in = Path(os.path.relpath(Path.cwd(), folder.resolve())).as_posix()
        parts[test.name] = as_pytest(run, violation, made_in=made_in)
    for name, text in parts.items():
        with whole_file(folder / name) as draft:
            draft.write_text(text, encoding="utf-8", errors="surrogateescape")


def story(
    run: Run,
    violation: Violation,
    *,
    texts: Mapping[str, bytes] | None = None,
    trace: PathLike[str] | str | None = None,
    picture: str | None = None,
    test: PathLike[str] | str | None = None,
    most_events: int = MOST_EVENTS,
) -> str:
    """The story as Markdown.

    ``picture`` is a file beside it, and ``trace`` and ``test`` are paths from where the reader
    stands, if there are any.
    """
    causality = Causality(run)
    view = focus(causality, violation, most_events)
    guarantee = violation.guarantee.capitalize()
    title = f"{guarantee} violated at {_plain(violation.process)}"
    proof = explain(violation, run.manifest.run, run.manifest.seed, trace=run)
    paragraphs = [
        f"# {title}",
        f"{guarantee}: {_PROMISES[violation.guarantee]}.\nHere it was not so.",
        *([f"![{title}]({picture})"] if picture else []),
        "## The group",
        _group(causality),
        "## What happened",
        *_happened(causality, view, Deeds(causality, texts, _plain), violation),
        "## The proof",
        f"```text\n{proof}\n```",
        *_again(violation, causality, trace, test),
        *(_shorter(causality, trace) if view.left_out else ()),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _group(causality: Causality) -> str:
    names = causality.processes
    manifest = causality.run.manifest
    who = f"{listed([*map(_plain, names)])} run{'s' if len(names) == 1 else ''}"
    what = with_options(manifest.protocol or "an unknown protocol", manifest.options)
    sentences = [f"{who} `{what}`."]
    if crashed := [_plain(name) for name in names if causality.has_crashed(name)]:
        sentences.append(f"{listed(crashed)} crash{'es' if len(crashed) == 1 else ''}.")
    if not causality.has_settled:
        sentences.append("The run was cut short before it settled.")
    return " ".join(sentences)


def _again(
    violation: Violation,
    causality: Causality,
    trace: PathLike[str] | str | None,
    test: PathLike[str] | str | None,
) -> Iterator[str]:
    manifest = causality.run.manifest
    ways = []
    if trace is not None:
        ways.append(replay_command(violation, trace, is_long=schedule.is_long(manifest)))
    if test is not None:
        ways.append(shlex.join(["pytest", str(test)]))
    if ways and schedule.can_be_replayed(manifest):
        yield "## See it again"
        yield "\n".join(["```console", *(f"$ {way}" for way in ways), "```"])


def _shorter(causality: Causality, trace: PathLike[str] | str | None) -> Iterator[str]:
    """A long run tells little: there is mostly a shorter one that breaks the same."""
    if trace is not None and schedule.can_be_replayed(causality.run.manifest):
        yield "## Make it shorter"
        yield f"```console\n$ {shrink_command(trace)}\n```"


def _happened(
    causality: Causality, view: Focus, deeds: Deeds, violation: Violation
) -> Iterator[str]:
    """One numbered line for each thing that a process did in one breath."""
    rows, _, left_out = view
    if left_out:
        yield left_out
    acts = [row for row in rows if row.kind != "settle"]
    settled = [row for row in rows if row.kind == "settle"]
    lines = [
        (f"`{deeds.where(breath)}` {deeds.described(breath)}", breath) for breath in _breaths(acts)
    ]
    if settled:
        lines.append((deeds.settled(settled), settled))
    wrong = marked(violation, causality)
    here = f" **Here {violation.guarantee} is violated.**"
    yield "\n".join(
        f"{number}. {line}{here if wrong in [place(row) for row in breath] else ''}"
        for number, (line, breath) in enumerate(lines, start=1)
    )


def _breaths(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows in pieces: what one process does at one moment, from one cause."""
    causes = accumulate(row.kind in ("broadcast", "receive", "recover", "join") for row in rows)
    numbered = zip(rows, causes, strict=True)
    breaths = groupby(numbered, key=lambda pair: (pair[0].process, pair[0].time_ns, pair[1]))
    return ([row for row, _ in breath] for _, breath in breaths)


_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|~"})


def _plain(text: str) -> str:
    """The text in Markdown, where it must not be taken for markup."""
    return printable(text).translate(_MARKUP)
