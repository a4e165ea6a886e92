"""One trace, stored in every way: the audit says the same of all of them."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stored import WAYS, Place, Stored, ways
from tidings.core import DataError
from tidings.pipeline import Audit
from tidings.spec import Guarantee


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
