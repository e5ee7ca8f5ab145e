"""Rows that a job keeps in Spark until it ends."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core.job.shared_rows import Kept

pytestmark = pytest.mark.spark


def test_the_end_of_a_job_leaves_what_another_keeps_of_an_equal_query(spark: SparkSession) -> None:
    query = "SELECT id, monotonically_increasing_id() AS n FROM range(5)"
    with Kept(spark) as kept:
        rows = kept.keep(spark.sql(query))
        other = spark.newSession()
        with Kept(other) as theirs:
            theirs.keep(other.sql(query)).collect()
        assert rows.storageLevel.useMemory
    assert not rows.storageLevel.useMemory
