"""What violations follow from, by arrays; ``spec.causes`` says what that is, and why.

A message that is wrong at a process is one number, its key. The late ones lead from key to key.
For the missing ones it is enough to know one debt for each history of a run: where they lead
depends on their origin alone, unless they were skipped.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import FAULT, NOTHING, Array, Causes, Found, joined
from tidings.spec import Guarantee
from tidings.spec.verdict import MOST_CAUSES


def followed(keys: Array, causes: Array) -> Array:
    """For each early delivery the key at which the way over missing causes ends."""
    order = np.argsort(keys)
    in_order = keys[order]
    place = np.searchsorted(in_order, causes).clip(0, max(0, len(keys) - 1))
    leads_on = in_order[place] == causes
    last = np.where(leads_on, order[place], np.arange(len(keys)))
    """The early delivery whose cause is meant."""
    while not np.array_equal(last, last[last]):
        last = last[last]
    return causes[last]


class Losses(NamedTuple):
    """The events of some runs, by position."""

    message: Array
    """(event): which message it is about"""
    history: Array
    """(event): run and process as one number"""
    is_broadcast: Array
    sent: Array
    """(message): where it was first broadcast"""
    runs: int
    width: int

    def roots(self, debts: Array, is_delivered: Array) -> Array:
        """What each debt of one reader follows from; ``is_delivered`` is its word on each message.

        The reader is the same process of every run.
        """
        broadcasts = np.flatnonzero(self.is_broadcast & is_delivered[self.message])
        last = np.full(self.runs * self.width, NOTHING)
        last[self.history[broadcasts]] = broadcasts  # of several the last stays

        is_debt = np.zeros(len(is_delivered), bool)
        is_debt[debts] = True
        met = np.flatnonzero(is_debt[self.message])
        met = met[met > last[self.history[met]]][::-1]
        first = np.full(len(last), NOTHING)
        first[self.history[met]] = self.message[met]  # backwards, so the first stays

        sent = self.sent[first]
        is_end = (first == NOTHING) | (sent < last[self.history[sent]])
        end = ends(np.where(is_end, np.arange(len(first)), self.history[sent]), self.width)
        sent = self.sent[debts]
        origin = self.history[sent]
        return np.where(sent < last[origin], debts, first[end[origin]])


def ends(next_one: Array, steps: int) -> Array:
    """Where the way ends that leads from each number to the next, after so many steps at most.

    At the least number of a circle, if it leads into one.
    """
    end = next_one
    for _ in range(steps):
        end = next_one[end]
    around = end
    for _ in range(steps):
        around = next_one[around]
        end = np.minimum(end, around)
    return end


def distinct(*columns: Array) -> tuple[list[Array], Array]:
    """Every different row once, in order, and for each row which of these it is."""
    order = np.lexsort(columns[::-1])
    in_order = [column[order] for column in columns]
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.any([one[1:] != one[:-1] for one in in_order], axis=0)
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(is_new) - 1
    return [one[is_new] for one in in_order], which


class Blamed(NamedTuple):
    """Messages that went wrong at a process, and how many violations of a guarantee that makes."""

    process: Array
    origin: Array
    seq: Array
    count: Array

    @classmethod
    def of(cls, process: Array, origin: Array, seq: Array) -> "Blamed":
        """One violation for each row."""
        return cls(process, origin, seq, np.ones(len(process), np.int64)).summed()

    @classmethod
    def for_(cls, found: Found) -> "Blamed":
        return cls.of(found.process, *found.root.T)

    def summed(self) -> "Blamed":
        """Each of them once."""
        (process, origin, seq), which = distinct(*self[:3])
        count = np.zeros(len(process), np.int64)
        np.add.at(count, which, self.count)
        return Blamed(process, origin, seq, count)


class CountedCauses(NamedTuple):
    """How many causes each guarantee has, and the largest: complete ones, that nobody else has."""

    counts: Array
    largest: Causes

    @classmethod
    def of(cls, of_guarantees: Sequence[Blamed]) -> "CountedCauses":
        causes = causes_of(of_guarantees)
        return cls(causes.counts(1)[0], causes.largest(MOST_CAUSES))

    @classmethod
    def joined(cls, parts: Sequence["CountedCauses"]) -> "CountedCauses":
        nothing = cls(np.zeros(len(Guarantee), np.int64), Causes.of_nothing())
        counts, largest = zip(nothing, *parts, strict=True)
        return cls(np.sum(counts, axis=0), Causes.of(*joined(largest)).largest(MOST_CAUSES))


def causes_of(of_guarantees: Sequence[Blamed]) -> Causes:
    """The causes of one run, from what is blamed for the violations of each guarantee."""
    process, origin, seq, count = joined(of_guarantees, 4)
    guarantee = np.repeat(
        np.arange(len(of_guarantees)), [len(one.process) for one in of_guarantees]
    )
    (process, origin, seq, _), which = distinct(process, origin, seq, FAULT[guarantee])
    violated = np.zeros((len(process), len(of_guarantees)), np.int64)
    np.add.at(violated, (which, guarantee), count)
    return Causes.of(np.zeros_like(process), process, origin, seq, violated)
