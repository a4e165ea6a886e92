"""The verdicts on a trace by arrays, in this process: no Spark, no Java, and nothing to wait for.

The way is the same as on Spark, but for who works: one task after the other, right here. What the
tasks of a long run send each other waits in files, so that there is never more of it in memory
than one of them gets.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tidings.core import EnvironmentMissing
from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.findings import Judged
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage, plainly
from tidings.pipeline.arrays.plan import JudgingPlan, NotByArraysError, judge_by_arrays, plan_of
from tidings.pipeline.arrays.rows import BadRowsError, UnreadableError
from tidings.pipeline.arrays.written import empty, whole_folder
from tidings.pipeline.progress import Progress, Show, silent
from tidings.pipeline.sources.lookup import add_log_here, log_of
from tidings.pipeline.statement import Audit, stated
from tidings.trace import layout, read_manifests
from tidings.trace.layout import refuse_to_overwrite
from tidings.trace.spooling import corrupt, fill, refuse_bad_rows, spooled


def audit_here(
    path: Path | str,
    *,
    examples: int | None = 3,
    progress: Show = silent,
    violations: Path | None = None,
    limits: JudgingLimits | None = None,
) -> Audit:
    """All five verdicts on every run, and all violations in a folder: as ``audit`` on Spark."""
    if violations is None:
        return _audit(Path(path), examples, Progress.of(progress), None, limits)
    refuse_to_overwrite(violations)
    with whole_folder(violations) as draft:
        return _audit(Path(path), examples, Progress.of(progress), draft, limits)


def _audit(
    path: Path,
    examples: int | None,
    progress: Progress,
    violations: Path | None,
    limits: JudgingLimits | None,
) -> Audit:
    files = layout(path)
    manifests = read_manifests(files.manifests)
    most = None if examples is None else max(examples, 1)
    with TemporaryDirectory(prefix="tidings-") as folder, _obstacles_named(path):
        spool = Path(folder).resolve()
        sources = fill(spool, files, manifests)
        paths = [spooled(spool, number).resolve() for number in range(len(sources))]
        try:
            plan = plan_of(paths, manifests, limits or JudgingLimits())
            progress(plan.why)
            judged = _judged(plan, spool, most, progress, violations)
        except UnreadableError as fault:
            raise corrupt(sources[paths.index(Path(fault.path))]) from None
        except BadRowsError:
            progress("looking for the first bad row")
            refuse_bad_rows(files, manifests)
            raise AssertionError(
                f"{path}: bad rows for one reader, good ones for the other"
            ) from None
    audited = stated(judged, manifests, plan.directory, examples, violations)
    if violations is not None:
        add_log_here(path, manifests, violations)
    return msgspec.structs.replace(audited, log=log_of(path, manifests, audited.verdicts))


def _judged(
    plan: JudgingPlan, spool: Path, most: int | None, progress: Progress, violations: Path | None
) -> Judged:
    judge = partial(
        judge_by_arrays,
        perform=plainly,
        most=most,
        exchange=exchanging(spool / "_parcels"),
        progress=progress,
        marks=spool / "_marks",
        violations=violations,
    )
    judged = judge(plan)
    if judged is None and plan.rows <= plan.limits.longest_rows:
        # The runs lie scattered, and all of them together fit in memory.
        if violations is not None:
            empty(violations)
        judged = judge(plan._replace(way="at once"))
    if judged is None:
        raise NotByArraysError("its runs lie scattered over files")
    return judged


@contextmanager
def _obstacles_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (NotByArraysError, TooLongError, MemoryError) as fault:
        too_long = "a run does not fit in memory"
        obstacle = str(fault) if isinstance(fault, NotByArraysError) else too_long
        raise EnvironmentMissing(
            f"{path} cannot be judged here: {obstacle}; judge it on Spark, without --local"
        ) from fault


# --- parcels that wait in files


def exchanging(folder: Path) -> Exchange:
    """Everything here, one place after the other; parcels wait in this folder, which is not there
    yet."""

    def exchange(
        items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
    ) -> list[Parcel]:
        parcels: Iterable[Parcel] = (parcel for item in items for parcel in pack(item))
        for stage in stages:
            parcels = _worked(parcels, stage, folder)
        return list(parcels)

    return exchange


def _worked(parcels: Iterable[Parcel], stage: Stage, folder: Path) -> Iterator[Parcel]:
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=folder) as waiting:
        places = set()
        for place, content in parcels:
            places.add(place)
            with Path(waiting, str(place)).open("ab") as file:
                pickle.dump(content, file, protocol=5)
        for place in sorted(places):
            arrived = Path(waiting, str(place))
            yield from stage.work(place, list(_unpickled(arrived)))
            arrived.unlink()


def _unpickled(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)
