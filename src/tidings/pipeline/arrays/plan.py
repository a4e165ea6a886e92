"""Which way a trace is judged by arrays, and the judgement itself.

The footers of its files say how many rows there are, the manifests how many runs:

- few rows in all: one task judges everything at once;
- many runs, none of them long: every task takes some groups of rows, and judges the runs that
  begin there in batches;
- one run, or few, that are long: in pieces, and then in slabs (``arrays.long``).

A campaign is judged in the belief that the rows of each run stand together, which the results
confirm or not. If not, somebody has to bring each run together first (``spark.grouped``).
Whatever cannot be judged by arrays is left to the ``queries``: ``NotByArraysError`` says why.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.campaign import TooLongError, judge_share, judge_whole
from tidings.pipeline.arrays.findings import Judged
from tidings.pipeline.arrays.following import followed
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long import Outline, SurveyedHistory, judge_long, outlines, survey
from tidings.pipeline.arrays.perform import (
    Exchange,
    Perform,
    exchanged_plainly,
    in_bundles,
    plainly,
)
from tidings.pipeline.arrays.rows import Directory, Share, Source, source_of
from tidings.pipeline.arrays.written import Showing
from tidings.pipeline.progress import Progress
from tidings.trace import Manifest

CHANGES = "the group of a long run changed by agreement"


class NotByArraysError(Exception):
    """Why a trace has to be judged by the queries instead."""


class JudgingPlan(NamedTuple):
    """The way that was picked."""

    directory: Directory
    sources: Sequence[Source]
    limits: JudgingLimits
    way: str
    """One of: at once, batches, pieces."""
    why: str

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)


def plan_of(
    paths: Sequence[Path], manifests: Mapping[str, Manifest], limits: JudgingLimits
) -> JudgingPlan:
    """Pick a way by the manifests and the footers of the files, in reading order."""
    sources = [source_of(path) for path in paths]
    rows, runs = sum(source.rows for source in sources), len(manifests)
    directory = Directory.of(manifests)
    amount = f"{_many(rows, 'row')} of {_many(runs, 'run')} in {_many(len(sources), 'file')}"
    if rows <= limits.batch_rows:
        way, why = "at once", f"{amount}: all at once"
    elif rows <= runs * limits.batch_rows * limits.batch_share:
        way, why = "batches", f"{amount}: in batches of whole runs"
    else:
        way, why = "pieces", f"{amount}: long runs, in pieces"
    return JudgingPlan(directory, sources, limits, way, why)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def judge_by_arrays(
    plan: JudgingPlan,
    perform: Perform,
    most: int | None,
    *,
    exchange: Exchange = exchanged_plainly,
    progress: Progress | None = None,
    marks: Path | None = None,
    violations: Path | None = None,
) -> Judged | None:
    """What is found on the planned way; None if the runs of a campaign are not whole anywhere.

    In the folder ``marks``, if given, tasks that take long tell how far they are; into the folder
    ``violations`` they write all violations. Here are the first ``most`` of each guarantee and run.
    """
    progress = progress or Progress()
    showing = Showing(most, str(violations or ""))
    progress.expect(plan.rows)
    if plan.way == "pieces":
        return _in_pieces(plan, perform, exchange, showing, progress, marks)
    if plan.way == "batches":
        return _in_batches(plan, perform, showing)
    files = [Share(at, one, 0, len(one.groups)) for at, one in enumerate(plan.sources)]
    return _whole([(files, None)], plan, perform, showing)


def _whole(
    work: Sequence[tuple[Sequence[Share], str | None]],
    plan: JudgingPlan,
    perform: Perform,
    showing: Showing,
) -> Judged:
    """Each of these at once: all runs of some shares, or the one with a label."""
    task = partial(judge_whole, directory=plan.directory, showing=showing)
    return Judged.joined(perform(task, work))


def _in_batches(plan: JudgingPlan, perform: Perform, showing: Showing) -> Judged | None:
    task = partial(
        judge_share,
        directory=plan.directory,
        showing=showing,
        limits=plan.limits,
    )
    judged = Judged.joined([part for part in perform(task, _shares(plan)) if part is not None])
    return judged if judged.is_whole else None


def _shares(plan: JudgingPlan) -> list[Share]:
    """Each file cut into shares of about two batches."""
    shares = []
    for number, source in enumerate(plan.sources):
        begin = rows = 0
        for group, size in enumerate(source.groups, start=1):
            rows += size
            if rows >= 2 * plan.limits.batch_rows or group == len(source.groups):
                shares.append(Share(number, source, begin, group))
                begin, rows = group, 0
    return shares


def _in_pieces(
    plan: JudgingPlan,
    perform: Perform,
    exchange: Exchange,
    showing: Showing,
    progress: Progress,
    marks: Path | None,
) -> Judged:
    pieces = [
        Share(number, source, group, group + 1)
        for number, source in enumerate(plan.sources)
        for group in range(len(source.groups))
    ]
    bundles = in_bundles(pieces, plan.limits.tasks(plan.rows))
    # Only in this process can anything be kept for the tasks that follow.
    keeps = perform is plainly and plan.rows <= plan.limits.kept_rows
    bundled = perform(partial(_survey_all, plan=plan, keeps=keeps), bundles)
    runs = outlines(pieces, [one for bundle in bundled for one in bundle], plan.directory)
    labels = list(plan.directory.numbers)
    if len(runs) > plan.limits.few_long_runs:
        if max(outline.rows for outline in runs.values()) > plan.limits.longest_rows:
            raise NotByArraysError(f"{len(runs)} long runs")
        each = [(outline.pieces, labels[run]) for run, outline in runs.items()]
        return _whole(each, plan, perform, showing)
    judged = []
    for run, outline in runs.items():
        progress(f"judging run {labels[run]} in pieces")
        progress.expect(outline.rows)
        seen = exchange if marks is None else followed(exchange, progress, marks / str(run))
        judged.append(_one_long_run(outline, labels[run], plan, perform, seen, showing))
    return Judged.joined(judged)


def _survey_all(
    pieces: Sequence[Share], plan: JudgingPlan, keeps: bool
) -> list[list[SurveyedHistory]]:
    limits, directory = plan.limits, plan.directory
    marks = limits.marks_a_slab * directory.width * limits.slabs(plan.rows)
    every = max(1, plan.rows // marks)
    return [survey(piece, directory, every, limits.mark_window, keeps) for piece in pieces]


def _one_long_run(
    outline: Outline,
    label: str,
    plan: JudgingPlan,
    perform: Perform,
    exchange: Exchange,
    showing: Showing,
) -> Judged:
    # What is owed, or belongs to a view, depends on the past, all the way back.
    if outline.is_forsaken_in_part or outline.has_agreed_views:
        if outline.rows > plan.limits.longest_rows:
            reason = "one of several lists lost its majority"
            raise NotByArraysError(CHANGES if outline.has_agreed_views else reason)
        return _whole([(outline.pieces, label)], plan, perform, showing)
    try:
        findings = judge_long(
            outline, plan.directory, plan.limits, showing=showing, exchange=exchange
        )
    except TooLongError:
        raise NotByArraysError(f"run {label} has a slab that would not fit in memory") from None
    return findings.of_runs(np.array([outline.run]), outline.known.doubts, outline.rows)
