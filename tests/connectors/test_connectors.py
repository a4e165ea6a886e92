"""One trace, stored in every way: the audit says the same of all of them."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors import fitting
from stored import WAYS, Place, Stored, ways
from tidings import pipeline
from tidings.core import DataError
from tidings.pipeline import Audit
from tidings.spec import Guarantee, Verdict


@pytest.fixture(scope="module")
def expected(spark: SparkSession, trace: Path) -> Audit:
    """What the audit says of the trace itself."""
    audited = Stored(trace).audit(spark)
    violated = {one.guarantee for one in audited.verdicts["long"] if one.violations}
    assert violated == set(Guarantee)
    return audited


@pytest.mark.parametrize("way", ways())
def test_the_audit_says_what_it_says_of_the_trace(
    way: str, spark: SparkSession, trace: Path, expected: Audit, tmp_path: Path
) -> None:
    with ExitStack() as until_done:
        stored = WAYS[way](Place(spark, trace, tmp_path, until_done))
        audited = stored.audit(spark)
    assert audited.rows == expected.rows
    assert audited.verdicts == expected.verdicts


@pytest.mark.skipif("kafka" not in fitting(), reason="no connector of Kafka for this pyspark")
def test_a_watch_of_a_topic_ends_with_the_verdicts_of_the_audit(
    spark: SparkSession, trace: Path, expected: Audit, tmp_path: Path
) -> None:
    """In batches, from three partitions."""
    with ExitStack() as until_done:
        topic = WAYS["kafka, mapping"](Place(spark, trace, tmp_path, until_done))
        options = {**topic.options, "maxOffsetsPerTrigger": "9000"}
        stream = pipeline.stream_of(spark, str(topic.source), "kafka", options)
        checkpoint = tmp_path / "checkpoint"
        with pipeline.watch(
            spark, stream, topic.mapping, checkpoint=checkpoint, once=True
        ) as watching:
            watching.query.awaitTermination()
            watching.refuse_failure()
            status = watching.status
            assert status is not None
            assert (status.rows, status.batch > 0) == (expected.rows, True)
            found = watching.verdicts()
    assert {run: list(map(_counted, five)) for run, five in found.items()} == {
        run: list(map(_counted, five)) for run, five in expected.verdicts.items()
    }


def _counted(verdict: Verdict) -> object:
    """Without what violations follow from, which is for the audit to say."""
    witnesses = [one.witness for one in verdict.violations]
    return verdict.guarantee, verdict.value, verdict.judged, verdict.not_owed, witnesses


def test_a_table_that_lacks_a_file_is_named(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    with ExitStack() as until_done:
        stored = WAYS["delta"](Place(spark, trace, tmp_path, until_done))
        lacking = next(tmp_path.rglob("*.parquet"))
        lacking.unlink()
        with pytest.raises(DataError, match=rf"^{stored.source}: .*{lacking.name}") as refused:
            stored.audit(spark)
    assert len(str(refused.value).splitlines()) == 1
