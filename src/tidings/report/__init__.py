"""How we say it: verdicts as tables, violations as proofs, pictures and stories."""

from tidings.report.causes import cause_lines
from tidings.report.explain import explain
from tidings.report.reproduce import as_pytest
from tidings.report.schedule import can_be_replayed, is_long
from tidings.report.spacetime import spacetime
from tidings.report.story import story, write_story
from tidings.report.terminal import campaign_table, plain_table, property_table, verdict_table
from tidings.report.words import listed, many

__all__ = [
    "as_pytest",
    "campaign_table",
    "can_be_replayed",
    "cause_lines",
    "explain",
    "is_long",
    "listed",
    "many",
    "plain_table",
    "property_table",
    "spacetime",
    "story",
    "verdict_table",
    "write_story",
]
