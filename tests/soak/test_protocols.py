"""Twenty thousand random runs of every algorithm with every option."""

import pytest

from random_runs import hold_all_guarantees
from tidings.compare import CONTENDERS, Contender

SEEDS = range(1_000_000, 1_020_000)


@pytest.mark.parametrize("contender", CONTENDERS, ids=str)
def test_twenty_thousand_random_runs_hold(contender: Contender, capsys) -> None:
    with capsys.disabled():
        print(f"\n{contender}: seeds {SEEDS[0]} to {SEEDS[-1]}", end=" ", flush=True)
    happened = hold_all_guarantees(contender, SEEDS)
    with capsys.disabled():
        print(dict(happened), flush=True)
    assert happened["runs"] == len(SEEDS)
    for what in (
        "delivered without the origin's own copy",
        "held back for a cause",
        "crashed in mid-broadcast",
    ):
        assert happened[what] > 1000, happened
