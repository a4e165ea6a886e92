"""What either judge counted and found, in the specification's own words: verdicts, and a table."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from tidings.core import Members, MessageId
from tidings.pipeline.arrays.findings import MOST_WITNESSES, NOTHING, Findings, Judged
from tidings.pipeline.arrays.known import ABSENT, Endings, Lives
from tidings.pipeline.arrays.rows import Directory
from tidings.pipeline.arrays.written import write_part
from tidings.spec import (
    JUDGED,
    Cause,
    Extra,
    Guarantee,
    Place,
    Verdict,
    ViewRule,
    Violation,
    from_the_cut_on,
)
from tidings.spec.causes import caused
from tidings.spec.table import shown_by_cuts
from tidings.spec.verdict import decide
from tidings.trace import Manifest

Log = Mapping[Place | MessageId, str]
"""By event, or by message: what to look up in the log that a trace was made of."""


class Audit(msgspec.Struct, frozen=True):
    """The five verdicts on every run of a trace, in the order of its manifests."""

    rows: int
    manifests: Mapping[str, Manifest]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    log: Mapping[str, Log] = {}
    """For each run what its shown violations are in the log, if the trace knows it."""


Verdicts = dict[str, tuple[Verdict, ...]]
Doubts = tuple[str, str, str]
"""Why the histories, what was broadcast, and the end of a run are in doubt, if they are."""
Shown = dict[int, dict[Guarantee | Extra, list[Violation]]]
"""The first violations, by run and guarantee."""
Named = dict[int, list[Cause]]
"""The largest causes, by run."""

_DOUBTED = dict(zip(JUDGED, (0, 1, 2, 2, 1, 0), strict=True))
"""Which of the doubts concerns each guarantee."""


def five(
    counts: Sequence[Sequence[int]],
    doubts: Doubts,
    shown: Mapping[Guarantee | Extra, list[Violation]],
    examples: int | None,
    causes: Sequence[Cause] = (),
) -> tuple[Verdict, ...]:
    """The verdicts on one run, from how much was judged, not owed and violated of each guarantee.

    The last count is that of causes. The specification decides from the first violations; all of
    them are counted. Of agreed views there is a verdict only if there was anything to judge.
    """
    return tuple(
        decide(guarantee, judged=judged, not_owed=not_owed, doubt=doubts[_DOUBTED[guarantee]])
        if not violated
        else msgspec.structs.replace(
            caused(
                decide(guarantee, judged=judged, not_owed=not_owed, violations=shown[guarantee]),
                causes,
            ),
            violated=violated,
            violations=tuple(shown[guarantee][:examples]),
            causes=of_causes,
        )
        for guarantee, (judged, not_owed, violated, of_causes) in zip(JUDGED, counts, strict=True)
        if judged or guarantee is not Extra.VIEWS
    )


def doubt_about_broadcasts(names: Members, origin: int, seq: int) -> str:
    """If a message was delivered that its origin may still have broadcast."""
    return f"{names[origin]}'s history does not reach {MessageId(names[origin], seq)}"


def violation_of(
    guarantee: Guarantee | Extra,
    names: Members,
    process: int,
    message: tuple[int, int],
    witness: Iterable[tuple[int, int]],
    cause: tuple[int, int] | None,
    root: tuple[int, int] | None,
    note: str = "",
) -> Violation:
    """A violation in numbers, with names for those of the processes."""
    return Violation(
        guarantee=guarantee,
        process=names[process],
        message=MessageId(names[message[0]], message[1]),
        witness=tuple(Place(names[who], index) for who, index in witness),
        cause=None if cause is None else MessageId(names[cause[0]], cause[1]),
        root=None if root is None else MessageId(names[root[0]], root[1]),
        note=note,
    )


def cause_of(
    names: Members, process: int, message: tuple[int, int], violated: Iterable[int]
) -> Cause:
    """A cause in numbers, with names for those of the processes."""
    counts = zip(Guarantee, violated, strict=True)
    return Cause(
        process=names[process],
        message=MessageId(names[message[0]], message[1]),
        violated={guarantee: count for guarantee, count in counts if count},
    )


# --- by arrays


def stated(
    judged: Judged,
    manifests: Mapping[str, Manifest],
    directory: Directory,
    examples: int | None,
    violations: Path | None,
) -> Audit:
    """What arrays have judged; what cuts show is also a part of the table of violations."""
    if violations is not None:
        write_part(violations, "cuts", shown_by_cuts(manifests.values()))
    verdicts = verdicts_of(judged, manifests, directory, examples)
    return Audit(rows=judged.rows, manifests=manifests, verdicts=verdicts)


def verdicts_of(
    judged: Judged, manifests: Mapping[str, Manifest], directory: Directory, examples: int | None
) -> Verdicts:
    """The five verdicts on every run, in the order of the manifests."""
    judged = _with_runs_without_rows(judged, directory)
    shown, causes, labels = _shown(judged, directory), _named(judged, directory), list(manifests)
    verdicts: Verdicts = dict.fromkeys(labels, ())
    is_unreached = judged.unreached[:, 0] != NOTHING
    for place, (run, (histories, the_end)) in enumerate(
        zip(judged.run.tolist(), judged.doubts, strict=True)
    ):
        broadcasts, counts = histories, judged.counts[place]
        if is_unreached[place] and not histories:
            message = judged.unreached[place].tolist()
            broadcasts = doubt_about_broadcasts(directory.names(run), *message)
        doubts = (histories, broadcasts, the_end)
        stated = (
            five(counts.tolist(), doubts, shown[run], examples, causes.get(run, ()))
            if run in shown
            else _unbroken(counts.tobytes(), doubts)
        )
        verdicts[labels[run]] = from_the_cut_on(stated, manifests[labels[run]].cuts, examples)
    return verdicts


@lru_cache(maxsize=1 << 16)
def _unbroken(counts: bytes, doubts: Doubts) -> tuple[Verdict, ...]:
    """Without any breach. The runs of a campaign have many verdicts in common."""
    return five(np.frombuffer(counts, np.int64).reshape(-1, 4).tolist(), doubts, {}, 0)


def _with_runs_without_rows(judged: Judged, directory: Directory) -> Judged:
    runs = np.setdiff1d(np.arange(len(directory.shape)), judged.run)
    if not len(runs):
        return judged
    size = (len(runs), directory.width)
    lives = Lives(np.full(size, ABSENT), np.zeros(size, bool))
    known = Endings(directory.shapes).known(directory.shape[runs], lives)
    return Judged.joined([judged, Findings.of_nothing(len(runs)).of_runs(runs, known.doubts, 0)])


def _shown(judged: Judged, directory: Directory) -> Shown:
    shown: Shown = {}
    rules = list(ViewRule)
    for row in judged.breaches.to_pylist():
        run, guarantee = row["run"], JUDGED[row["guarantee"]]
        places = (
            (row[f"witness_process_{place}"], row[f"witness_index_{place}"])
            for place in range(MOST_WITNESSES)
        )
        cause, root = ((row[f"{what}_origin"], row[f"{what}_seq"]) for what in ("cause", "root"))
        violation = violation_of(
            guarantee,
            directory.names(run),
            row["process"],
            (row["origin"], row["seq"]),
            ((who, index) for who, index in places if who != NOTHING),
            cause if cause[0] != NOTHING else None,
            root if root[0] != NOTHING else None,
            rules[row["note"]] if row["note"] != NOTHING else "",
        )
        shown.setdefault(run, {}).setdefault(guarantee, []).append(violation)
    return shown


def _named(judged: Judged, directory: Directory) -> Named:
    causes: Named = {}
    for row in judged.causes.to_pylist():
        violated = (row[f"violated_{number}"] for number in range(len(Guarantee)))
        names, message = directory.names(row["run"]), (row["origin"], row["seq"])
        cause = cause_of(names, row["process"], message, violated)
        causes.setdefault(row["run"], []).append(cause)
    return causes
