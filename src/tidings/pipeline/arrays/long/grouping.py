"""What the violations of a long run follow from (``spec.causes``), reader by reader.

All early deliveries and all debts of one reader come to one place. How far it got with each history
is known by then, as a maximum over all slabs (``SlabVerdicts.last``); with that each slab finds
its first event about a debt, and the least of these is that of the definition.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.causes import Blamed, CountedCauses, distinct, ends, followed
from tidings.pipeline.arrays.findings import Array, Found
from tidings.pipeline.arrays.long.packing import LongRun
from tidings.pipeline.arrays.long.slab import LATER, Slab, in_order_of_broadcasts
from tidings.pipeline.arrays.perform import Parcel
from tidings.spec import Guarantee


class DebtsOf(NamedTuple):
    """What one slab says of the debts of one reader."""

    reader: int
    lost: Found
    owed: Found
    first: Array
    """(process, index and origin and seq): its first event about a debt, after the last one"""
    last: Array
    """(process): the index of its last broadcast that the reader delivers, in the whole run"""


class Grouped(NamedTuple):
    """What is found at one reader: how many early deliveries, the first violations, all causes."""

    early: int
    found: dict[Guarantee, Found]
    causes: CountedCauses


def debts_of(slab: Slab, last: Array) -> Iterator[DebtsOf]:
    _, lost, _, owed = slab.debts()
    for reader in np.unique(np.append(lost.process, owed.process)).tolist():
        mine, ours = (some.at(some.process == reader) for some in (lost, owed))
        yield DebtsOf(reader, mine, ours, slab.first_debts(reader, last), last[:, reader])


def group(reader: int, contents: list[Any], run: LongRun) -> Iterator[Parcel]:
    debts = [one for one in contents if isinstance(one, DebtsOf)]
    early = Found.joined([one for one in contents if isinstance(one, Found)])
    found = {
        Guarantee.VALIDITY: Found.joined([one.lost for one in debts]),
        Guarantee.UNIFORM_AGREEMENT: in_order_of_broadcasts([one.owed for one in debts]),
        Guarantee.CAUSAL_ORDER: early,
    }
    roots = _roots(debts, *found.values())
    rooted = {
        guarantee: some._replace(root=root)
        for (guarantee, some), root in zip(found.items(), roots, strict=True)
    }
    nobody = Blamed.for_(Found.joined([]))
    causes = CountedCauses.of([nobody, nobody, *map(Blamed.for_, rooted.values())])
    shown = {
        guarantee: run.shown(guarantee, some, f"reader-{reader:06}-{guarantee.name.lower()}")
        for guarantee, some in rooted.items()
    }
    yield Parcel(reader, Grouped(len(early.position), shown, causes))


def _roots(debts: Sequence[DebtsOf], lost: Found, owed: Found, early: Found) -> list[Array]:
    """(violation, origin and seq) of each kind"""
    first = _least([one.first for one in debts])
    width, is_met = len(first), first[:, 0] != LATER
    of_kinds = [np.stack([some.origin, some.seq], axis=1) for some in (lost, owed, early)]
    every = np.concatenate([*of_kinds, early.cause, first[is_met, 1:]])
    (origin, seq), number = distinct(*every.T)
    sizes = [len(lost.seq), len(owed.seq), len(early.seq), len(early.seq)]
    of_lost, of_owed, of_early, of_cause, of_first = np.split(number, np.cumsum(sizes))
    root = np.arange(len(origin))
    if debts:
        is_debt, sent_at = np.zeros(len(origin), bool), np.zeros(len(origin), np.int64)
        for some, numbers in ((lost, of_lost), (owed, of_owed)):
            is_debt[numbers], sent_at[numbers] = True, some.position
        follows = is_debt & (sent_at > debts[0].last[origin])
        debt_of = np.zeros(width, np.int64)
        debt_of[is_met] = of_first
        leads_on = is_met & follows[debt_of]
        end = ends(np.where(leads_on, origin[debt_of], np.arange(width)), width)
        root[follows] = debt_of[end[origin[follows]]]
    led = root[followed(of_early, of_cause)] if len(of_early) else of_early
    roots = (root[of_lost], root[of_owed], led)
    return [np.stack([origin[one], seq[one]], axis=1) for one in roots]


def _least(parts: Sequence[Array]) -> Array:
    """For each process the first of what the slabs found."""
    if not parts:
        return np.zeros((0, 3), np.int64)
    every = np.stack(parts)
    return every[every[:, :, 0].argmin(axis=0), np.arange(every.shape[1])]
