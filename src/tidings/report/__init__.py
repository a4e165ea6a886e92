"""How we say it: verdicts as tables, violations as proofs, pictures and stories."""

from tidings.report.charts import line_chart
from tidings.report.explain import explain
from tidings.report.schedule import can_be_replayed
from tidings.report.spacetime import spacetime
from tidings.report.terminal import campaign_table, plain_table, verdict_table

__all__ = [
    "campaign_table",
    "can_be_replayed",
    "explain",
    "line_chart",
    "plain_table",
    "spacetime",
    "verdict_table",
]
