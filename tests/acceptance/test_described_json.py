"""DESCRIBE ... AS JSON has the keys, and the types of columns, that Spark's has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

COLUMNS = (
    "a INT COMMENT 'first', b DECIMAL(10, 2), c VARCHAR(3), d CHAR(2), e TIMESTAMP, f TIMESTAMP_NTZ, "
    "g ARRAY<STRING>, h MAP<INT, STRUCT<x: DATE, y: BINARY>>, i BOOLEAN, j DOUBLE, p INT"
)
DEFINITION = (
    f"({COLUMNS}) USING parquet OPTIONS (compression 'zstd') PARTITIONED BY (p) "
    "COMMENT 'a table' LOCATION '{}' TBLPROPERTIES ('k' = 'v')"
)


def document(rows: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


def test_a_table_and_a_partition_have_the_keys_of_spark(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    of_spark = DEFINITION.format((tmp_path / "spark").as_uri())
    spark.sql(f"CREATE TABLE described {of_spark}")
    try:
        spark.sql("ALTER TABLE described ADD PARTITION (p = 1)")
        expected = document(spark.sql("DESCRIBE EXTENDED described AS JSON").collect())
        of_partition = document(spark.sql("DESCRIBE EXTENDED described PARTITION (p = 1) AS JSON").collect())
    finally:
        spark.sql("DROP TABLE described")
    session.sql(f"CREATE TABLE described {DEFINITION.format('files/described')}")
    session.sql("ALTER TABLE described ADD PARTITION (p = 1)")
    result = session.sql("DESCRIBE TABLE EXTENDED described AS JSON")
    assert result.columns == ["json_metadata"]
    found = document(result.rows)
    assert expected.keys() - found.keys() <= {"created_by"}
    assert found.keys() - expected.keys() <= {"owner", "serde_library", "input_format", "output_format", "collation"}
    texts = [column for column in found["columns"] if column["name"] in "cd"]
    assert [column["type"] for column in texts] == [{"name": "varchar", "length": 3}, {"name": "char", "length": 2}]
    for column in texts:
        # Spark's own tables have strings in their place.
        column["type"] = {"name": "string", "collation": "UTF8_BINARY"}
    same = ("table_name", "catalog_name", "namespace", "schema_name", "columns", "type", "provider", "comment")
    for key in (*same, "partition_provider", "partition_columns", "last_access"):
        assert found[key] == expected[key], key
    assert found["storage_properties"]["compression"] == expected["storage_properties"]["compression"] == "zstd"
    assert found["table_properties"]["k"] == expected["table_properties"]["k"] == "v"
    assert len(found["created_time"]) == len(expected["created_time"])
    partition = document(session.sql("DESCRIBE EXTENDED described PARTITION (p = 1) AS JSON").rows)
    assert of_partition.keys() - partition.keys() <= {"created_by", "partition_parameters"}
    assert partition["partition_values"] == of_partition["partition_values"] == {"p": "1"}
    assert partition["location"].endswith("described/p=1")


def test_constraints_buckets_views_and_statistics_are_in_the_document(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (id INT NOT NULL, v STRING DEFAULT 'new') CLUSTERED BY (id) SORTED BY (v) INTO 2 BUCKETS"
    )
    session.sql("INSERT INTO t VALUES (1, 'a')")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    session.sql("CREATE VIEW w AS SELECT id FROM t")
    found = document(session.sql("DESC FORMATTED t AS JSON").rows)
    assert found["columns"][0] == {"name": "id", "type": {"name": "int"}, "nullable": False}
    assert found["columns"][1]["default"] == "'new'"
    assert [found[key] for key in ("num_buckets", "bucket_columns", "sort_columns")] == [2, ["id"], ["v"]]
    assert found["statistics"]["num_rows"] == 1
    view = document(session.sql("DESCRIBE EXTENDED w AS JSON").rows)
    assert (view["type"], view["view_original_text"], view["view_query_output_columns"]) == (
        "VIEW",
        "SELECT id FROM t",
        ["id"],
    )
    session.sql("CREATE TEMPORARY VIEW x AS SELECT 1 AS a")
    assert document(session.sql("DESCRIBE EXTENDED x AS JSON").rows)["columns"][0]["name"] == "a"
    session.sql("CREATE DATABASE other")
    session.sql("USE other")
    assert session.sql("SHOW CURRENT NAMESPACE").rows == [("spark_catalog", "other")]
    explained = session.sql(
        "EXPLAIN FROM (SELECT id, v FROM default.t) s INSERT INTO default.t SELECT id, v "
        "INSERT INTO default.t SELECT id + 1, v WHERE id > 5"
    )
    assert ["> 5" in str(row[0]) for row in explained.rows] == [False, True]
    assert session.sql("SELECT count(*) FROM spark_catalog.default.t").rows == [(1,)]
