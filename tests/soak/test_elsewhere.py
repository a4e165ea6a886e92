"""Every way of judging, on a real cluster: from here, and through a Connect server."""

import json
from pathlib import Path

import msgspec
import pytest

from audit_elsewhere import auditing
from pipeline_ways import specified_by
from spark_cluster import connect_server, standalone
from traces import random_runs, write_drafts

WAYS = ("at once", "grouped", "sql")


@pytest.mark.parametrize("kind", ["master", "remote"])
def test_all_ways_agree_with_the_specification_on_a_cluster(kind: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    write_drafts(trace, random_runs(200, seed=5))
    specified = json.loads(msgspec.json.encode(specified_by(trace)))
    with standalone(tmp_path) as cluster:
        if kind == "master":
            with auditing(trace, "master", cluster.master, *WAYS) as audit:
                *by_arrays, queried = audit.verdicts()
        else:
            with (
                connect_server(tmp_path, cluster.master) as remote,
                auditing(trace, "remote", remote, *WAYS) as audit,
            ):
                *by_arrays, queried = audit.verdicts()
    assert by_arrays == [specified, specified]
    assert _in_any_order(queried) == _in_any_order(specified)


def _in_any_order(verdicts: dict[str, list[dict[str, object]]]) -> object:
    """The queries do not promise the order of violations."""
    return {
        run: [one | {"violations": sorted(map(json.dumps, one["violations"]))} for one in five]
        for run, five in verdicts.items()
    }
