"""Whether it did what it should: the five guarantees on Spark, from a laptop to a cluster.

The only package in the project that imports pyspark. It answers to ``spec``: the same verdicts,
the same counts, the same witnesses, for traces of any size. There are two judges. The fast one:
read ``plan`` (which way a trace is judged), ``arrays`` (the judgement, without any Spark),
``workers`` (Spark does it) and ``told`` (the verdicts). Its oracle: read ``ingest`` (rows become
tables), ``evidence`` (what is known about each event) and ``checks`` (one guarantee per file).
``audit`` has both. What it cost and how long it took is in ``measures``.
"""

from tidings.core import EnvironmentMissing

try:
    import pyspark  # noqa: F401 - only to say clearly that it is missing
except ImportError as missing:
    raise EnvironmentMissing(
        "the audit runs on Spark; install it with: pip install 'tidings[spark]'"
    ) from missing

from tidings.pipeline.audit import Audit, audit, judge, verdict_table, verdicts
from tidings.pipeline.case import Case, examine, violations
from tidings.pipeline.measures import Overview, overview, write_tables
from tidings.pipeline.progress import Progress
from tidings.pipeline.session import abandon, session

__all__ = [
    "Audit",
    "Case",
    "Overview",
    "Progress",
    "abandon",
    "audit",
    "examine",
    "judge",
    "overview",
    "session",
    "verdict_table",
    "verdicts",
    "violations",
    "write_tables",
]
