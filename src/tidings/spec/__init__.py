"""What should have happened: the five guarantees, and how a verdict is stated."""

from tidings.spec.guarantees import GUARANTEES, judge
from tidings.spec.verdict import Guarantee, Place, Value, Verdict, Violation, exit_status

__all__ = [
    "GUARANTEES",
    "Guarantee",
    "Place",
    "Value",
    "Verdict",
    "Violation",
    "exit_status",
    "judge",
]
