"""One trace, stored in every way that the audit can read: the same verdicts, and at what cost.

    .connectors/4.2.0/bin/python bench/everywhere.py --events 10e6
    .connectors/4.1.2/bin/python bench/everywhere.py --events 10e6 --way iceberg

``make connectors`` makes the environments, each with a pyspark and the connectors that fit it. All
audits are in one session, after a small one to warm it up. Storing the trace is not in the costs;
the CPU is that of this process and of all it started: Java, workers, brokers. Exits 1 if an audit
differs from that of the path in the rows, a verdict, a count or a witness.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.sql import SparkSession

from contest import cpu_s
from tidings.pipeline import Audit

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

from connectors import connected
from stored import WAYS, Place, ways, write_trace

SMALL = 30_000
MEMORY_GIB = 6


class Audited(NamedTuple):
    audit: Audit
    wall_s: float
    cpu_s: float


def audited(spark: SparkSession, trace: Path, way: str) -> Audited:
    """The trace, stored in this way, and audited from there."""
    with TemporaryDirectory() as folder, ExitStack() as until_done:
        stored = WAYS[way](Place(spark, trace, Path(folder), until_done))
        used, begin = cpu_s(os.getpid()), time.perf_counter()
        audit = stored.audit(spark)
        return Audited(audit, time.perf_counter() - begin, cpu_s(os.getpid()) - used)


def line(way: str, one: Audited, expected: Audit) -> str:
    verdicts = [verdict for five in one.audit.verdicts.values() for verdict in five]
    judged, violated = (
        sum(getattr(verdict, name) for verdict in verdicts) for name in ("judged", "violated")
    )
    shown = sum(len(verdict.violations) for verdict in verdicts)
    is_same = is_equal(one.audit, expected)
    return (
        f"{way} | {one.audit.rows:,} | {judged:,} | {violated:,} | {shown:,} | "
        f"{'yes' if is_same else 'NO'} | {one.wall_s:.1f} | {one.cpu_s:.1f}"
    )


def is_equal(one: Audit, other: Audit) -> bool:
    return (one.rows, one.verdicts) == (other.rows, other.verdicts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=float, default=1e5)
    parser.add_argument("--way", action="append", choices=ways(), help="by default all")
    asked = parser.parse_args()
    differ = False
    with TemporaryDirectory() as made:
        small, trace = Path(made, "small"), Path(made, "trace")
        write_trace(small, SMALL)
        write_trace(trace, int(asked.events))
        with connected(Path(made), MEMORY_GIB) as spark:
            audited(spark, small, "path")
            path = audited(spark, trace, "path")
            print("way | rows | judged | violated | witnessed | as the path | s | CPU s")
            print("---|---|---|---|---|---|---|---")
            print(line("path", path, path.audit), flush=True)
            for way in asked.way or ways()[1:]:
                one = audited(spark, trace, way)
                print(line(way, one, path.audit), flush=True)
                differ |= not is_equal(one.audit, path.audit)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
