"""Traces judged by the specification, and by arrays in this process, without Spark."""

from pathlib import Path

from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import Exchange, exchanged_plainly, plainly
from tidings.pipeline.arrays.plan import judge_by_arrays, plan_of
from tidings.pipeline.statement import verdicts_of
from tidings.spec import Verdict, judge
from tidings.trace import layout, read_manifests, read_runs
from tidings.trace.spooling import fill

Verdicts = dict[str, tuple[Verdict, ...]]


def specified_by(folder: Path) -> Verdicts:
    return {run.manifest.run: judge(run) for run in read_runs(folder)}


def by_arrays(
    folder: Path,
    spool: Path,
    limits: JudgingLimits,
    way: str,
    most: int | None = None,
    exchange: Exchange = exchanged_plainly,
) -> Verdicts | None:
    """The verdicts of the judge by arrays, in this process."""
    files = layout(folder)
    manifests = read_manifests(files.manifests)
    count = len(fill(spool, files, manifests))
    paths = [spool / f"{number:06}.parquet" for number in range(count)]
    planned = plan_of(paths, manifests, limits)
    assert planned.way == way, planned.why
    judged = judge_by_arrays(planned, plainly, most, exchange=exchange)
    return judged and verdicts_of(judged, manifests, planned.directory, most)
