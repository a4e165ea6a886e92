"""The five guarantees, one file each, in the order in which they are always shown; and views.

Each file states its rule about single rows of ``evidence.known_events``: how many things a row
has judged, how many of them are not owed, how many are violated. ``counts`` puts these numbers
together, and ``violations`` lists what is violated with its witness. The specification's function
of the same name says the same for one run in plain Python. ``views`` looks at rows beside events.
"""

from typing import Protocol

from pyspark.sql import DataFrame

from tidings.pipeline.queries.checks import (
    causal_order,
    no_creation,
    no_duplication,
    uniform_agreement,
    validity,
)
from tidings.pipeline.queries.checks.schema import EventCounts
from tidings.spec import Guarantee


class Check(Protocol):
    """What each of the files offers."""

    def counts(self) -> EventCounts:
        """What one row adds to the numbers of its run."""

    def violations(self, events: DataFrame) -> DataFrame:
        """The rows of ``schema.VIOLATIONS``."""


CHECKS: dict[Guarantee, Check] = {
    Guarantee.NO_DUPLICATION: no_duplication,
    Guarantee.NO_CREATION: no_creation,
    Guarantee.VALIDITY: validity,
    Guarantee.UNIFORM_AGREEMENT: uniform_agreement,
    Guarantee.CAUSAL_ORDER: causal_order,
}
