"""Small numbers over tasks, as Spark itself distributes them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from airflow_hivex.core.job.row_changes import keys_of_tasks

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("tasks", [1, 4, 200])
def test_each_number_has_a_task_of_its_own(spark: SparkSession, tasks: int) -> None:
    keys = keys_of_tasks(tasks)
    rows = spark.createDataFrame([(key, number) for number, key in enumerate(keys)], "key int, number int")
    shuffled = rows.repartition(tasks, "key").withColumn("task", F.spark_partition_id())
    assert [row.task for row in shuffled.orderBy("number").collect()] == list(range(tasks))
