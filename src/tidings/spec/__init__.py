"""What should have happened: the five guarantees, two extras, and how a verdict is stated."""

from tidings.spec.extras import broken, cost, reach
from tidings.spec.guarantees import GUARANTEES, judge
from tidings.spec.verdict import Extra, Guarantee, Place, Value, Verdict, Violation, exit_status

__all__ = [
    "GUARANTEES",
    "Extra",
    "Guarantee",
    "Place",
    "Value",
    "Verdict",
    "Violation",
    "broken",
    "cost",
    "exit_status",
    "judge",
    "reach",
]
