"""What every sound algorithm must do, with every option."""

import itertools

import pytest

from amounts import amount
from random_runs import hold_all_guarantees
from tidings.compare import CONTENDERS, Contender, measure
from tidings.simulator import Plan, walk
from tidings.spec import Value, judge


def most_packets(contender: Contender, size: int) -> int:
    """What one fault-free broadcast may cost at most."""
    everyone_to_everyone = size * (size - 1)
    match str(contender):
        case "two-phase":
            return (size - 1) * (size + 2)
        case "stage-gossip form=news":
            return {3: 10, 5: 114, 10: 1179}[size]
        case name if "pull=yes" in name:
            # The exchange of states after the last delivery comes on top.
            return 2 * everyone_to_everyone
    return everyone_to_everyone


PINNED = [
    (contender, size)
    for contender in CONTENDERS
    for size in (3, 5, 10, 20, 50)
    if "news" not in str(contender) or size <= 10
]

PAIRS = tuple(
    Contender("majority-relay", dict.fromkeys(pair, True))
    for pair in itertools.combinations(("notice", "pull", "postpone"), 2)
)
"""With those in CONTENDERS, every combination of the options of majority-relay."""

contenders = pytest.mark.parametrize("contender", [*CONTENDERS, *PAIRS], ids=str)


@contenders
def test_the_five_guarantees_hold_in_random_runs_with_every_fault(contender: Contender) -> None:
    runs = amount(200, full=600)
    print(f"seeds 0 to {runs - 1}")
    happened = hold_all_guarantees(contender, range(runs))
    assert happened["delivered without the origin's own copy"] > 20, happened
    assert happened["held back for a cause"] > 20, happened
    assert happened["crashed in mid-broadcast"] > 20, happened


@contenders
def test_texts_may_be_as_large_as_a_megabyte(contender: Contender) -> None:
    plan = Plan(
        protocol=contender.protocol,
        options=contender.options,
        processes=3,
        broadcasts=2,
        texts=(b"\xff" * 1_000_000,),
        crashes=1,
    )
    assert all(verdict.value is Value.HOLDS for verdict in judge(walk(plan, 1)))


@pytest.mark.parametrize(("contender", "size"), PINNED, ids=str)
def test_one_broadcast_costs_no_more_packets_than_it_should(
    contender: Contender, size: int
) -> None:
    assert measure(contender, "one", size, 1).packets <= most_packets(contender, size)


def kept_after(contender: Contender, messages: int) -> tuple[float, float]:
    """Ids plus ranges, and bytes, that one of five processes keeps when all is delivered."""
    plan = Plan(
        protocol=contender.protocol,
        options=contender.options,
        processes=5,
        broadcasts=5 * messages,
        gap_ms_mean=2.0,
    )
    run = walk(plan, 1)
    last = {"ids": 0, "ranges": 0, "bytes": 0}
    for history in run.histories.values():
        for row in history[-5:]:
            if row.kind == "state" and row.name in last:
                last[row.name] += row.value
    return (last["ids"] + last["ranges"]) / 5, last["bytes"] / 5


BOUNDED = [one for one in CONTENDERS if one.protocol != "history-sets"]


@pytest.mark.parametrize("contender", BOUNDED, ids=str)
def test_what_is_finished_is_forgotten(contender: Contender) -> None:
    few, few_bytes = kept_after(contender, 50)
    many, many_bytes = kept_after(contender, amount(200, full=500))
    assert many == few
    assert many_bytes < 1.02 * few_bytes


def test_history_sets_keep_hundreds_of_ids_where_intervals_keep_a_few_ranges() -> None:
    ids, _ = kept_after(Contender("history-sets"), 50)
    ranges, _ = kept_after(Contender("interval-history"), 50)
    assert ids >= 250
    assert ranges <= 15


def test_newcomers_join_in_the_middle_of_everything() -> None:
    """One to three joiners in each, some at once, some of whom speak at once."""
    runs = amount(500, full=2000)
    joined = spoken = 0
    for seed in range(runs):
        plan = Plan(
            protocol="interval-history",
            processes=1 + seed % 5,
            broadcasts=6,
            joiners=1 + seed % 3,
            crashes=(seed % 5) // 2,
            duplicated=0.1,
        )
        run = walk(plan, seed)
        broken = [verdict for verdict in judge(run) if verdict.value is not Value.HOLDS]
        assert not broken, f"seed {seed}: {broken[0]}"
        newcomers = [name for name in run.histories if name not in run.manifest.views[0]]
        joined += len(newcomers)
        spoken += sum(row.kind == "broadcast" for name in newcomers for row in run.histories[name])
    assert joined >= 1.75 * runs
    assert spoken >= 0.75 * runs
