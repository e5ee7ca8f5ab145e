"""The bucket in Spark SQL against the one that Python computes, which unit tests hold against Hive's own hash."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from airflow_hivex.core.job.bucketing import bucket_number_sql, bucket_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHANCE = random.Random(7)
TYPES: dict[str, tuple[pa.DataType, Callable[[], object], list[object]]] = {
    "int": (pa.int32(), lambda: CHANCE.randrange(-(2**31), 2**31), [0, 1, -1, 2**31 - 1, -(2**31)]),
    "bigint": (pa.int64(), lambda: CHANCE.randrange(-(2**63), 2**63), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "date": (
        pa.date32(),
        lambda: date(1, 1, 2) + timedelta(CHANCE.randrange(3_000_000)),
        [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)],
    ),
    "boolean": (pa.bool_(), lambda: CHANCE.random() < 0.5, []),
    "tinyint": (pa.int8(), lambda: CHANCE.randrange(-128, 128), [-128, 127]),
}
ROWS = 2_000


def test_spark_finds_the_bucket_that_hive_does(spark: SparkSession) -> None:
    columns = {
        name: pa.array([*bounds, *(one() if CHANCE.random() > 0.1 else None for _ in range(ROWS - len(bounds)))], of)
        for name, (of, one, bounds) in TYPES.items()
    }
    rows = spark.createDataFrame(pa.table(columns))
    chosen = [(name,) for name in TYPES] + [("int", "bigint"), ("bigint", "int", "date", "tinyint", "boolean")]
    for types in chosen:
        for count in (1, 3, 8, 4096):
            sql = bucket_number_sql([f"`{name}`" for name in types], types, count)
            found = rows.selectExpr(f"{sql} AS bucket").toArrow().column("bucket").to_numpy()
            expected = bucket_numbers([columns[name] for name in types], types, count)
            assert np.array_equal(found, expected), (types, count)


@pytest.mark.parametrize("type", ["string", "smallint", "double", "decimal", "varchar", "char", "binary"])
def test_what_spark_hashes_otherwise_is_left_to_python(type: str) -> None:
    assert bucket_number_sql(["a", "b"], ["int", type], 4) is None
