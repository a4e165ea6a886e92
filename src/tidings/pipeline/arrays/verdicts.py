"""What the judge by arrays found, in the specification's own words: verdicts, and a table."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidings.core import Members, MessageId
from tidings.pipeline.arrays.campaign import Judged
from tidings.pipeline.arrays.findings import MOST_WITNESSES, NOTHING
from tidings.pipeline.arrays.known import ABSENT, Endings, Lives
from tidings.pipeline.arrays.rows import Directory
from tidings.spec import (
    Guarantee,
    Place,
    Verdict,
    Violation,
    from_the_cut_on,
)
from tidings.spec.table import shown_by_cuts
from tidings.spec.verdict import decide
from tidings.trace import Manifest

Verdicts = dict[str, tuple[Verdict, ...]]
Doubts = tuple[str, str, str]
"""Why the histories, what was broadcast, and the end of a run are in doubt, if they are."""


def verdicts_of(
    judged: Judged, manifests: Mapping[str, Manifest], directory: Directory, examples: int | None
) -> Verdicts:
    """The five verdicts on every run, in the order of the manifests."""
    shown = _shown(judged, directory)
    labels = list(manifests)
    verdicts: Verdicts = dict.fromkeys(labels, ())
    is_unreached = judged.unreached[:, 0] != NOTHING
    for place, (run, (histories, the_end)) in enumerate(
        zip(judged.run.tolist(), judged.doubts, strict=True)
    ):
        broadcasts = histories
        if is_unreached[place] and not histories:
            broadcasts = _doubt_about(judged.unreached[place].tolist(), directory.names(run))
        doubts = (histories, broadcasts, the_end)
        counts = judged.counts[place]
        verdicts[labels[run]] = (
            _five(counts.tolist(), doubts, shown[run], examples)
            if run in shown
            else _unbroken(counts.tobytes(), doubts)
        )
        cuts = manifests[labels[run]].cuts
        verdicts[labels[run]] = from_the_cut_on(verdicts[labels[run]], cuts, examples)
    for run, label in enumerate(labels):
        if not verdicts[label]:
            cuts = manifests[label].cuts
            verdicts[label] = from_the_cut_on(_of_nothing(directory, run), cuts, examples)
    return verdicts


def _five(
    counts: list[list[int]],
    doubts: Doubts,
    shown: Mapping[int, list[Violation]],
    examples: int | None,
) -> tuple[Verdict, ...]:
    return tuple(
        decide(guarantee, judged=judged, not_owed=not_owed, doubt=doubts[doubt])
        if not violated
        else msgspec.structs.replace(
            decide(guarantee, judged=judged, not_owed=not_owed, violations=shown[number]),
            violated=violated,
            violations=tuple(shown[number][:examples]),
        )
        for (number, guarantee, doubt), (judged, not_owed, violated) in zip(
            _DOUBTED, counts, strict=True
        )
    )


_DOUBTED = tuple(
    (number, guarantee, doubt)
    for number, (guarantee, doubt) in enumerate(zip(Guarantee, (0, 1, 2, 2, 1), strict=True))
)
"""Which of the doubts concerns each guarantee."""


@lru_cache(maxsize=1 << 16)
def _unbroken(counts: bytes, doubts: Doubts) -> tuple[Verdict, ...]:
    """Without any breach. The runs of a campaign have many verdicts in common."""
    return _five(np.frombuffer(counts, np.int64).reshape(-1, 3).tolist(), doubts, {}, 0)


def _doubt_about(unreached: list[int], names: Members) -> str:
    origin, seq = unreached
    message = MessageId(names[origin], seq)
    return f"{message.origin}'s history does not reach {message}"


def _of_nothing(directory: Directory, run: int) -> tuple[Verdict, ...]:
    """A run without any rows."""
    width = directory.width
    lives = Lives(np.full((1, width), ABSENT), np.zeros((1, width), bool))
    known = Endings(directory.shapes).known(directory.shape[[run]], lives)
    histories, the_end = known.doubts[0]
    return _five([[0, 0, 0]] * len(Guarantee), (histories, histories, the_end), {}, 0)


def _shown(judged: Judged, directory: Directory) -> dict[int, dict[int, list[Violation]]]:
    """The violations that were found, by run and number of the guarantee."""
    shown: dict[int, dict[int, list[Violation]]] = {}
    guarantees = list(Guarantee)
    for row in judged.breaches.to_pylist():
        names = directory.names(row["run"])
        places = (
            (row[f"witness_process_{place}"], row[f"witness_index_{place}"])
            for place in range(MOST_WITNESSES)
        )
        is_caused = row["cause_origin"] != NOTHING
        violation = Violation(
            guarantee=guarantees[row["guarantee"]],
            process=names[row["process"]],
            message=MessageId(names[row["origin"]], row["seq"]),
            witness=tuple(Place(names[who], index) for who, index in places if who != NOTHING),
            cause=MessageId(names[row["cause_origin"]], row["cause_seq"]) if is_caused else None,
        )
        shown.setdefault(row["run"], {}).setdefault(row["guarantee"], []).append(violation)
    return shown


def violations_table(
    judged: Judged, manifests: Mapping[str, Manifest], directory: Directory
) -> Any:
    """Every violation that was found, with names for the numbers: the columns of ``violations``."""
    columns = {name: column.to_numpy() for name, column in _columns(judged.breaches)}
    run = columns["run"]
    names = np.full((len(directory.shapes), directory.width + 1), None)
    for number, shape in enumerate(directory.shapes):
        names[number, : len(shape.names)] = shape.names

    def named(process: Any) -> Any:
        # NOTHING is -1: the last column, which has no names.
        return pa.array(names[directory.shape[run], process], pa.string())

    places = [columns[f"witness_process_{place}"] for place in range(MOST_WITNESSES)]
    who = np.stack(places, axis=1)
    index = np.stack([columns[f"witness_index_{place}"] for place in range(MOST_WITNESSES)], axis=1)
    is_place = who != NOTHING
    whose = names[directory.shape[run][:, None], who][is_place]
    ends = np.concatenate([[0], np.cumsum(is_place.sum(axis=1))])
    witness = pa.StructArray.from_arrays(
        [pa.array(whose, pa.string()), pa.array(index[is_place])], ["process", "index"]
    )
    labels = np.array(list(manifests), object)
    guarantees = np.array([str(one) for one in Guarantee], object)
    found = pa.table(
        {
            "run": pa.array(labels[run], pa.string()),
            "guarantee": pa.array(guarantees[columns["guarantee"]], pa.string()),
            "process": named(columns["process"]),
            "origin": named(columns["origin"]),
            "seq": columns["seq"],
            "cause_origin": named(columns["cause_origin"]),
            "cause_seq": pa.array(columns["cause_seq"], mask=columns["cause_origin"] == NOTHING),
            "witness": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), witness),
        }
    )
    return pa.concat_tables([found, shown_by_cuts(manifests.values()).cast(found.schema)])


def _columns(table: Any) -> Any:
    return zip(table.column_names, table.columns, strict=True)
