"""How we say it: verdicts as tables, violations as proofs."""

from tidings.report.charts import line_chart
from tidings.report.explain import explain
from tidings.report.terminal import campaign_table, plain_table, verdict_table

__all__ = ["campaign_table", "explain", "line_chart", "plain_table", "verdict_table"]
