"""Violations are told by what they follow from: by every judge, and the same by all of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline_ways import by_arrays, specified_by
from shorthand import Shorthand
from tidings import pipeline
from tidings.cli.common import result
from tidings.pipeline.arrays import batch, causes
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.report import cause_lines, explain
from tidings.spec import Verdict, judge
from tidings.spec.causes import _Roots
from traces import write_trace

VIEW = ("p1", "p2", "p3", "p4", "p5")


def three(**histories: str) -> Shorthand:
    return Shorthand(**histories)


def five(**histories: str) -> Shorthand:
    return Shorthand((VIEW,), **dict.fromkeys(VIEW, "settle") | histories)


CASES: dict[str, tuple[Shorthand, list[str]]] = {
    "what is held back for a lost message follows from it": (
        three(
            p1="b1 dp1#1 b2 dp1#2 dp2#1 settle",
            p2="dp1#1 b1 dp2#1 dp1#2 settle",
            p3="settle",
        ),
        ["p3 never delivers p1#1: 3 violations of uniform agreement"],
    ),
    "so does what is delivered in spite of it": (
        three(
            p1="b1 dp1#1 b2 dp1#2 dp2#1 settle",
            p2="dp1#1 b1 dp2#1 dp1#2 settle",
            p3="dp1#2 dp2#1 settle",
        ),
        ["p3 never delivers p1#1: 2 violations of causal order, 1 of uniform agreement"],
    ),
    "two losses of concurrent messages are two causes": (
        three(
            p1="b1 dp1#1 dp2#1 b2 dp1#2 dp2#2 settle",
            p2="b1 dp2#1 dp1#1 b2 dp2#2 dp1#2 settle",
            p3="settle",
        ),
        [
            # The later ones depend on both; each follows from what its origin had first.
            "p3 never delivers p1#1: 2 violations of uniform agreement",
            "p3 never delivers p2#1: 2 violations of uniform agreement",
        ],
    ),
    "so are two losses of one origin if the process goes on regardless": (
        three(
            p1="b1 dp1#1 b2 dp1#2 b3 dp1#3 b4 dp1#4 settle",
            p2="dp1#1 dp1#2 dp1#3 dp1#4 settle",
            p3="dp1#2 dp1#4 settle",
        ),
        [
            "p3 never delivers p1#1: 2 violations of causal order, 1 of uniform agreement",
            "p3 never delivers p1#3: 1 violation of uniform agreement",
        ],
    ),
    "the last message of a careless process is lost for itself": (
        three(
            p1="b1 dp1#1 b2 dp1#2 dp2#1 dp2#2 settle",
            p2="dp1#1 b1 dp2#1 b2 dp2#2 dp1#2 settle",
            p3="dp1#2 dp2#1 settle",
        ),
        [
            "p3 never delivers p1#1: 2 violations of causal order, 1 of uniform agreement",
            "p3 never delivers p2#2: 1 violation of uniform agreement",
        ],
    ),
    "what overtakes a late message follows from it": (
        three(
            p1="b1 dp1#1 b2 dp1#2 dp2#1 settle",
            p2="dp1#1 b1 dp2#1 dp1#2 settle",
            p3="dp1#2 dp2#1 dp1#1 settle",
        ),
        ["p3 does not wait for p1#1: 2 violations of causal order"],
    ),
    "late messages lead to the one that comes last": (
        five(
            p1="b1 dp1#1 dp2#1 dp3#1 settle",
            p2="dp1#1 b1 dp2#1 dp3#1 settle",
            p3="dp2#1 b1 dp1#1 dp3#1 settle",
            p4="dp3#1 dp2#1 dp1#1 settle",
            p5="dp1#1 dp2#1 dp3#1 settle",
        ),
        [
            "p4 does not wait for p1#1: 2 violations of causal order",
            "p3 does not wait for p1#1: 1 violation of causal order",
        ],
    ),
    "a loss is followed over several origins": (
        five(
            p1="b1 dp1#1 dp2#1 dp3#1 dp4#1 settle",
            p2="dp1#1 b1 dp2#1 dp3#1 dp4#1 settle",
            p3="dp2#1 b1 dp1#1 dp3#1 dp4#1 settle",
            p4="dp3#1 b1 dp2#1 dp1#1 dp4#1 settle",
        ),
        [
            "p5 never delivers p1#1: 4 violations of uniform agreement",
            "p4 does not wait for p1#1: 2 violations of causal order",
            "p3 does not wait for p1#1: 1 violation of causal order",
        ],
    ),
    "an origin that loses its first message loses the second with it": (
        three(p1="b1 b2 settle", p2="settle", p3="settle"),
        ["p1 never delivers p1#1: 2 violations of validity"],
    ),
    "repetitions of one message are one cause": (
        three(p1="b1 dp1#1 dp1#1 dp1#1 settle", p2="dp1#1 settle", p3="dp1#1 dp1#1 settle"),
        [
            "p1 delivers p1#1 again: 2 violations of no duplication",
            "p3 delivers p1#1 again: 1 violation of no duplication",
        ],
    ),
    "a message that goes wrong in two ways is two causes": (
        three(
            p1="b1 dp1#1 b2 dp1#2 settle",
            p2="dp1#1 dp1#2 settle",
            p3="dp1#2 dp1#1 dp1#1 settle",
        ),
        [
            "p3 delivers p1#1 again: 1 violation of no duplication",
            "p3 does not wait for p1#1: 1 violation of causal order",
        ],
    ),
    "a false text is a cause at each process": (
        three(p1="b1 dp1#1 settle", p2="dp1#1/other settle", p3="dp1#1/other settle"),
        [
            "p1#1 is not genuine at p2: 1 violation of no creation",
            "p1#1 is not genuine at p3: 1 violation of no creation",
        ],
    ),
    "of a circle, which no clock allows, the first process counts": (
        three(p1="dp2#1 b1 dp1#1 settle", p2="dp1#1 b1 dp2#1 settle", p3="settle"),
        [
            "p3 never delivers p2#1: 2 violations of uniform agreement",
            "p1 does not wait for p1#1: 1 violation of causal order",
            "p2 does not wait for p2#1: 1 violation of causal order",
        ],
    ),
    "at most ten causes are named": (
        three(
            p1=" ".join(f"b{n} dp1#{n}" for n in range(1, 27)) + " settle",
            p2=" ".join(f"dp1#{n + 1} dp1#{n}" for n in range(1, 27, 2)) + " settle",
            p3=" ".join(f"dp1#{n}" for n in range(1, 27)) + " settle",
        ),
        [
            *(f"p2 does not wait for p1#{n}: 1 violation of causal order" for n in range(1, 21, 2)),
            "and at least 3 more causes",
        ],
    ),
}


def named(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [line[7:] for line in cause_lines(verdicts)]


@pytest.mark.parametrize("case", CASES)
def test_causes(case: str) -> None:
    script, expected = CASES[case]
    assert named(judge(script.run())) == expected


def test_json_has_the_causes_beside_the_violations() -> None:
    script, _ = CASES["so does what is delivered in spite of it"]
    run = script.run()
    verdicts = json.loads(json.dumps(result(run.manifest, judge(run))))["verdicts"]
    shown = verdicts["causal order"]
    assert (shown["violated"], shown["causes"]) == (2, 1)
    (cause,) = shown["largest_causes"]
    assert (cause["process"], cause["message"]) == ("p3", ["p1", 1])
    assert cause["violated"] == {"uniform agreement": 1, "causal order": 2}
    assert [one["root"] for one in shown["violations"]] == [["p1", 1]] * 2


def test_a_proof_names_what_is_neither_the_message_nor_its_cause() -> None:
    script, _ = CASES["a loss is followed over several origins"]
    run = script.run()
    proofs = [explain(one, "r") for verdict in judge(run) for one in verdict.violations]
    follows = "This follows from p1#1, which p5 owed before."
    assert sum(follows in proof for proof in proofs) == 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All cases as the runs of one trace."""
    scripts = []
    for case, (script, _) in CASES.items():
        script.name = case
        scripts.append(script)
    manifests = [script.manifest() for script in scripts]
    rows = [row for script in scripts for row in script.rows()]
    write_trace(tmp_path / "trace", manifests, lines=rows)
    (tmp_path / "spool").mkdir()
    return tmp_path / "trace"


WAYS = {
    "at once": JudgingLimits(),
    "pieces": JudgingLimits(batch_rows=1, few_long_runs=99, least_tasks=2, slab_rows=5),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_arrays_find_the_same_causes(folder: Path, tmp_path: Path, way: str) -> None:
    found = by_arrays(folder, tmp_path / "spool", WAYS[way], way)
    assert found == specified_by(folder)


def test_the_queries_find_the_same_causes(spark: SparkSession, folder: Path) -> None:
    audited = pipeline.audit(spark, folder, checker="sql", examples=None)
    assert {run: named(five) for run, five in audited.verdicts.items()} == {
        case: expected for case, (_, expected) in CASES.items()
    }


# --- what these cases reject


def debts_lead_nowhere(self: Any, debt: Any) -> Any:
    return debt


def nothing_is_skipped(self: Any) -> dict[str, int]:
    return dict.fromkeys(self.run.processes, -1)


def only_the_next_cause(self: Any, violation: Any) -> Any:
    message = violation.cause or violation.message
    return self._loss(message) if message in self.debts else message


MUTANTS: dict[str, Any] = {
    "_loss": debts_lead_nowhere,
    "_last_delivered": property(nothing_is_skipped),
    "of": only_the_next_cause,
}


@pytest.mark.parametrize("part", MUTANTS)
def test_a_wrong_specification_is_seen(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(_Roots, part, MUTANTS[part])
    wrong = [
        case for case, (script, causes) in CASES.items() if named(judge(script.run())) != causes
    ]
    assert wrong


def the_next_key(keys: Any, next_keys: Any) -> Any:
    return next_keys


def one_step(next_one: Any, steps: int) -> Any:
    return next_one


@pytest.mark.parametrize(
    ("module", "part", "mutant"),
    [(batch, "followed", the_next_key), (causes, "ends", one_step)],
)
def test_wrong_arrays_are_seen(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    tmp_path: Path,
    module: Any,
    part: str,
    mutant: Callable[..., Any],
) -> None:
    monkeypatch.setattr(module, part, mutant)
    assert by_arrays(folder, tmp_path / "spool", WAYS["at once"], "at once") != specified_by(folder)
