"""What should have happened: the five guarantees, three extras, and how a verdict is stated."""

from tidings.spec.extras import broken, cost, reach
from tidings.spec.guarantees import GUARANTEES, judge
from tidings.spec.verdict import (
    BELOW_THE_CUT,
    JUDGED,
    Cause,
    Extra,
    Guarantee,
    Place,
    Value,
    Verdict,
    ViewRule,
    Violation,
    below_the_cuts,
    exit_status,
    from_the_cut_on,
)

__all__ = [
    "BELOW_THE_CUT",
    "GUARANTEES",
    "JUDGED",
    "Cause",
    "Extra",
    "Guarantee",
    "Place",
    "Value",
    "Verdict",
    "ViewRule",
    "Violation",
    "below_the_cuts",
    "broken",
    "cost",
    "exit_status",
    "from_the_cut_on",
    "judge",
    "reach",
]
