"""What Spark's pages call the jobs that tidings runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def every_job_is_named(spark: SparkSession, words: str) -> Iterator[None]:
    """All that runs in this block has a name of ours, one of them with these words."""
    spark.sparkContext.setJobDescription("what the user does")
    try:
        before = _jobs(spark)
        yield
        names = {name for job, name in _jobs(spark).items() if job not in before}
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "what the user does"
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)
    assert names
    assert all(name and name.startswith("tidings: ") for name in names), names
    assert any(words in str(name) for name in names), names


def _jobs(spark: SparkSession) -> dict[int, str | None]:
    """The description of each job."""
    found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = [found.apply(place) for place in range(found.size())]
    return {
        job.jobId(): job.description().get() if job.description().isDefined() else None
        for job in jobs
    }
