"""How long the shortest audit takes: whole processes, side by side.

    .venv/bin/python bench/start.py
    .venv/bin/python bench/start.py --no-spark --times 9

A trace of about a thousand rows is judged here (``--local``) and on Spark. Beside them run what
neither can do without: a Python that imports numpy and pyarrow, and a fresh Spark session that
counts once and runs one Arrow function. They take turns, so that a machine that slows down does so
for all; of each the median counts.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tidings.simulator import Plan, walk
from tidings.trace import write_runs

LEAST_ROWS = 1_000
IMPORTS = "import numpy, pyarrow"
SESSION = """
import os, sys
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable

def same(batches):
    yield from batches

spark = SparkSession.builder.master("local[*]").getOrCreate()
spark.range(1000).count()
assert spark.range(0, 1, 1, 1).mapInArrow(same, "id bigint").toArrow().num_rows == 1
spark.stop()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="how often each is started")
    parser.add_argument("--no-spark", action="store_true", help="only what starts without Java")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        trace = Path(place, "trace")
        rows = write_trace(trace)
        tidings = [sys.executable, "-m", "tidings"]
        contestants = {
            "numpy and pyarrow": [sys.executable, "-c", IMPORTS],
            "tidings audit --local": [*tidings, "audit", "--local", str(trace)],
        }
        if not options.no_spark:
            contestants |= {
                "a Spark session": [sys.executable, "-c", SESSION],
                "tidings audit": [*tidings, "audit", str(trace)],
            }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(options.times):
            for name, command in contestants.items():
                seconds[name].append(seconds_of(command))
    print(f"{rows:,} rows, medians of {options.times}")
    medians = {name: statistics.median(of_one) for name, of_one in seconds.items()}
    for name, median_s in medians.items():
        print(f"{name:24}{median_s:8.2f} s")
    bare, here, *on_spark = medians.values()
    print(f"judged here: {here - bare:.2f} s more than the imports")
    if on_spark:
        print(f"judged on Spark: {on_spark[1] / on_spark[0]:.2f} x the session")


def write_trace(folder: Path) -> int:
    """The first run of so many rows."""
    for broadcasts in range(20, 200, 5):
        run = walk(Plan(protocol="frontier", broadcasts=broadcasts), seed=7)
        if len(list(run.rows)) >= LEAST_ROWS:
            return write_runs(folder, [run], "parquet")
    raise AssertionError("no run is long enough")


def seconds_of(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
