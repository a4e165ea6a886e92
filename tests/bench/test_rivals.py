"""The rivals of the benchmark judge what we judge: each finds every fault, under its right name."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_ways import specified_by
from rivals import generate
from tidings.spec import Value
from tidings.trace.parquet import ARROW, FORM

PROCESSES = 4
READER, ORIGIN, OTHER = 0, 1, 2

History = list[dict[str, Any]]


def _where(history: History, kind: str, origin: int, seq: int) -> int:
    wanted = (kind, origin, seq)
    return next(
        place
        for place, row in enumerate(history)
        if (row["kind"], row["origin"], row["seq"]) == wanted
    )


def _last_delivered(history: History, origin: int) -> int:
    return max(
        place
        for place, row in enumerate(history)
        if row["kind"] == "deliver" and row["origin"] == origin
    )


def _lost(history: History, others: list[History]) -> None:
    del history[_last_delivered(history, ORIGIN)]


def _own_lost(history: History, others: list[History]) -> None:
    del history[_last_delivered(history, READER)]


def _repeated(history: History, others: list[History]) -> None:
    place = _where(history, "deliver", ORIGIN, 3)
    history.insert(place + 5, history[place] | {})


def _altered(history: History, others: list[History]) -> None:
    history[_where(history, "deliver", ORIGIN, 3)]["digest"] += 1


def _created(history: History, others: list[History]) -> None:
    place = _last_delivered(history, ORIGIN)
    nobodys = history[place]["seq"] + 1
    history.insert(place + 1, history[place] | {"seq": nobodys})


def _early(history: History, others: list[History]) -> None:
    """The second message of an origin comes before its first."""
    second = history.pop(_where(history, "deliver", ORIGIN, 2))
    history.insert(_where(history, "deliver", ORIGIN, 1), second)


def _early_of_another(history: History, others: list[History]) -> None:
    """An answer comes before its question, and every origin's messages in their order."""
    question = _where(others[OTHER], "deliver", ORIGIN, generate.LOAD)
    answer = next(row["seq"] for row in others[OTHER][question:] if row["kind"] == "broadcast")
    upto = [
        place
        for place, row in enumerate(history)
        if (row["kind"], row["origin"]) == ("deliver", OTHER) and row["seq"] <= answer
    ]
    moved = [history[place] for place in upto]
    kept = [row for place, row in enumerate(history) if place not in upto]
    place = _where(kept, "deliver", ORIGIN, generate.LOAD)
    history[:] = kept[:place] + moved + kept[place:]


FAULTS: dict[str, tuple[Callable[[History, list[History]], None] | None, set[str]]] = {
    "none": (None, set()),
    "lost": (_lost, {"uniform agreement"}),
    "own lost": (_own_lost, {"validity", "uniform agreement"}),
    "repeated": (_repeated, {"no duplication"}),
    "altered": (_altered, {"no creation"}),
    "created": (_created, {"no creation"}),
    "early": (_early, {"causal order"}),
    "early, of another origin": (_early_of_another, {"causal order"}),
}


def _spoilt(folder: Path, fault: Callable[[History, list[History]], None] | None) -> list[Path]:
    """A valid trace with this fault at one reader."""
    generate.long_run(folder, 3_000, PROCESSES)
    files = [folder / f"p{number}.parquet" for number in range(1, PROCESSES + 1)]
    histories = [pq.read_table(file).to_pylist() for file in files]
    if fault is not None:
        fault(histories[READER], histories)
        for index, row in enumerate(histories[READER]):
            row["index"] = index
        table = pa.Table.from_pylist(histories[READER], schema=ARROW)
        pq.write_table(table, files[READER], **FORM)
    return files


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rival", ["duckdb", "polars"])
def test_a_rival_finds_what_the_specification_finds(rival: str, fault: str, tmp_path: Path) -> None:
    if find_spec(rival) is None:
        pytest.skip(f"no {rival}: pip install 'tidings[bench]'")
    spoil, broken = FAULTS[fault]
    files = _spoilt(tmp_path / "trace", spoil)
    [verdicts] = specified_by(tmp_path / "trace").values()
    specified = {str(one.guarantee) for one in verdicts if one.value is Value.VIOLATED}
    assert specified == broken

    breaches = import_module(f"rivals.{rival}_rival").judge(files)

    assert len(breaches) == 5
    assert {guarantee for guarantee, count in breaches.items() if count} == broken
