"""Whether it did what it should: the five guarantees on Spark, from a laptop to a cluster.

The only package in the project that imports pyspark. It answers to ``spec``: the same verdicts,
the same counts, the same witnesses, for traces of any size. There are two judges that know
nothing of each other: the fast one is ``arrays``, without any Spark, and its oracle is
``queries``. ``spark`` is what both run on, ``audit`` asks either, and ``statement`` puts
their numbers into the specification's words.
"""

from tidings.core import EnvironmentMissing

try:
    import pyspark  # noqa: F401 - only to say clearly that it is missing
except ImportError as missing:
    raise EnvironmentMissing(
        "the audit runs on Spark; install it with: pip install 'tidings[spark]'"
    ) from missing

from tidings.pipeline.audit import Audit, audit, judge, verdict_table, verdicts
from tidings.pipeline.queries import measures
from tidings.pipeline.queries.case import Case, examine, violations
from tidings.pipeline.queries.measures import Overview, overview, write_tables
from tidings.pipeline.spark.progress import Progress
from tidings.pipeline.spark.session import abandon, session

__all__ = [
    "Audit",
    "Case",
    "Overview",
    "Progress",
    "abandon",
    "audit",
    "examine",
    "judge",
    "measures",
    "overview",
    "session",
    "verdict_table",
    "verdicts",
    "violations",
    "write_tables",
]
