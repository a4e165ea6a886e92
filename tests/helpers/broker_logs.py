"""The recorded logs of real brokers, and what each of them breaks."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.spec import Guarantee, Value, judge
from tidings.trace import foreign, read_runs

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples" / "brokers"))

from broker_runs import FAULTS, MAPPING  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures" / "brokers"

AGAIN = {Guarantee.NO_DUPLICATION}
LOST = {Guarantee.UNIFORM_AGREEMENT, Guarantee.CAUSAL_ORDER}

BROKEN: dict[str, dict[str, set[Guarantee]]] = {
    "redis-pubsub": {"killed-before": LOST, "killed-after": LOST, "broker-killed": LOST},
    "redis-streams": {"killed-after": AGAIN, "broker-killed": LOST},
    "redis-streams-aof": {"killed-after": AGAIN},
    "mosquitto-qos0": {"killed-before": LOST, "killed-after": LOST, "broker-killed": LOST},
    "mosquitto-qos1": {"killed-after": AGAIN, "broker-killed": LOST},
    "mosquitto-qos2": {"killed-before": LOST, "broker-killed": LOST},
}
"""What each setting breaks in each run, in which it breaks anything."""

Values = dict[str, dict[str, str]]


def verdicts(spark: SparkSession, logs: Path, folder: Path) -> Values:
    """By run, then by guarantee, what the specification says of these logs."""
    found = sorted(logs.glob("**/*.jsonl"))
    pipeline.ingest(spark, found, foreign.read_mapping(MAPPING), folder)
    return {
        run.manifest.run: {one.guarantee.value: one.value.value for one in judge(run)}
        for run in read_runs(folder)
    }


def expected(setting: str) -> Values:
    return {
        f"{setting}/{fault}": {
            one.value: (
                Value.VIOLATED if one in BROKEN[setting].get(fault, ()) else Value.HOLDS
            ).value
            for one in Guarantee
        }
        for fault in FAULTS
    }
