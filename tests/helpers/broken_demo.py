"""The demo with a flaw, on real nodes: it breaks what it says, and nothing else."""

import json
from typing import Any

from tidings.demo.simulated import BREAKS
from tidings.spec import Guarantee

BROKEN = dict(zip(BREAKS, Guarantee, strict=True))


def not_held(result: dict) -> list[str]:
    return [name for name, verdict in result["verdicts"].items() if verdict["value"] != "holds"]


def assert_nodes_break(tidings: Any, what: str) -> None:
    answer = tidings("demo", "--break", what, "--json")
    result = json.loads(answer.out)
    assert answer.status == 1
    assert not_held(result) == [BROKEN[what].value]
    assert result["protocol"] == BREAKS[what]
    assert len(result["killed"]) == 2
    assert result["came_back"] == []
