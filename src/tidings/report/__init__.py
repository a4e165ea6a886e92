"""How we say it: verdicts as tables, violations as proofs."""

from tidings.report.explain import explain
from tidings.report.terminal import campaign_table, verdict_table

__all__ = ["campaign_table", "explain", "verdict_table"]
