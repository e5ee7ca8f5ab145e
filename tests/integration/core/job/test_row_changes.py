"""Row changes of tables with many columns."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core.job.row_changes import broadcast_unless_large
from airflow_hivex.core.model.plans import SOURCE_ROW

pytestmark = pytest.mark.spark


def test_a_source_of_thousands_of_columns_is_measured(spark: SparkSession) -> None:
    source = spark.range(10).selectExpr(f"id AS {SOURCE_ROW}", *(f"'text' AS c{number}" for number in range(3000)))
    assert broadcast_unless_large(source).count() == 10
