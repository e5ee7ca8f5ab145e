"""Files that Spark wrote flat are read with equal rows by Spark, pyarrow and Hive once their tails are edited."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import orc
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from airflow_hivex.core.job.orc_tail import nest
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.row_ids import encode_bucket
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from tests import hive_oracle
from tests.hive_oracle import HiveRow, transactions
from tests.orc_files import concatenate, stripes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BUCKET = encode_bucket(0, 0)
ROWS = 2_500
MANY_ROWS = 6_000
EVERYTHING = transactions(ValidWriteIdList.of("db.t", 10))
METADATA = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
ROW = "__hivex_row"

# Name, Spark's type, an SQL value of it, and how Hive writes that value as JSON.
VALUES: list[tuple[str, str, str, Any]] = [
    ("id", "bigint", "id", None),
    ("bucket", "int", "cast(id as int)", None),
    ("truth", "boolean", "true", True),
    ("tiny", "tinyint", "-128", -128),
    ("small", "smallint", "32767", 32767),
    ("single", "float", "1.5", 1.5),
    ("double", "double", "-2.25", -2.25),
    ("money", "decimal(10,2)", "12345678.91", Decimal("12345678.91")),
    ("wide", "decimal(30,5)", "-1234567890123.12345", Decimal("-1234567890123.12345")),
    ("day", "date", "date'1969-12-31'", "1969-12-31"),
    ("moment", "timestamp", "timestamp'2024-02-29 12:34:56.789012'", "2024-02-29 12:34:56.789012"),
    ("clock", "timestamp_ntz", "timestamp_ntz'1960-01-01 00:00:00.5'", -315_619_199_500_000),
    ("noise", "string", "repeat(sha2(cast(id as string), 512), 3)", None),
    ("var", "varchar(5)", "'abc'", "abc"),
    ("fixed", "char(5)", "'ab'", "ab   "),
    ("numbers", "array<int>", "array(1, null, 3)", [1, None, 3]),
    ("counts", "map<string,bigint>", "map('a', 1L)", {"a": 1}),
    ("deep", "struct<x:int,y:array<struct<z:string>>>", "struct(1, array(struct('q')))", {"x": 1, "y": [{"z": "q"}]}),
]
# Spark writes TIMESTAMP_NTZ as a number of microseconds, and says so in an attribute that Hive does not know.
COLUMNS = [Column(name, type_.replace("timestamp_ntz", "bigint")) for name, type_, _, _ in VALUES]
# Files have strings where Spark's tables have CHAR and VARCHAR, and its schemas for reading too.
SPARK_ROW = ", ".join(f"{name}: {'string' if 'char' in type_ else type_}" for name, type_, _, _ in VALUES)


def write_flat(rows: DataFrame, directory: Path, codec: str) -> Path:
    """The one file that Spark writes of these rows, with small stripes and row groups."""
    options = {"compression": codec, "orc.stripe.size": "65536", "orc.rows.between.memory.checks": "500"}
    rows.coalesce(1).write.options(**options).option("orc.row.index.stride", "1000").orc(str(directory))
    (file,) = directory.glob("part-*")
    assert (directory / f".{file.name}.crc").exists()
    return file


def flat_rows(
    spark: SparkSession, operation: int, placeholder: str, values: Sequence[str], count: int = ROWS
) -> DataFrame:
    key = [f"{operation} AS operation", "1L AS original", f"{BUCKET} AS b", "id AS row_id", "1L AS current"]
    return spark.range(0, count, 1, 1).selectExpr(*key, f"{placeholder} AS {ROW}", *values)


def with_nulls() -> list[str]:
    """Every value, and NULL in each third row; the id is always there."""
    return [
        f"cast({'id' if name == 'id' else f'if(id % 3 = 0, null, {sql})'} as {type_}) AS `{name}`"
        for name, type_, sql, _ in VALUES
    ]


def nested(spark: SparkSession, directory: Path, row: str) -> DataFrame:
    """The file as Spark reads it, which has to read all six columns."""
    schema = f"operation int, originalTransaction bigint, bucket int, rowId bigint, currentTransaction bigint, {row}"
    return spark.read.schema(schema).orc(str(directory))


def expected(id_: int) -> dict[str, Any]:
    """A row as Hive writes it."""
    if id_ % 3 == 0:
        return {name: id_ if name == "id" else None for name, _, _, _ in VALUES}
    return {name: id_ if name in ("id", "bucket") else value for name, _, _, value in VALUES}


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd", "snappy"])
def test_spark_pyarrow_and_hive_read_the_rows_that_spark_wrote(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    file = write_flat(flat_rows(spark, 0, "true", with_nulls()), tmp_path / "flat", codec)
    flat = orc.read_table(str(file))
    flat_by_spark = spark.read.orc(str(file)).drop(ROW).toDF(*METADATA, *[f"c{at}" for at in range(len(VALUES))])
    written = [tuple(row) for row in flat_by_spark.collect()]
    delta = tmp_path / "t" / "delta_0000001_0000001_0000"
    delta.mkdir(parents=True)
    nest(place(str(file)), place(str(delta / "bucket_00000")))
    assert len(stripes(place(str(delta / "bucket_00000")))) > 2

    by_spark = nested(spark, delta, f"row struct<{SPARK_ROW}>").select(*METADATA, "row.*")
    assert [tuple(row) for row in by_spark.collect()] == written

    by_pyarrow = orc.read_table(str(delta / "bucket_00000"))
    assert by_pyarrow.column_names == [*METADATA, "row"]
    assert by_pyarrow.column("row").combine_chunks().flatten() == [
        column.combine_chunks() for column in flat.columns[6:]
    ]

    by_hive = hive_oracle.rows(spark, tmp_path / "t", EVERYTHING, COLUMNS)
    assert [(row.write_id, row.bucket, row.row_id) for row in by_hive] == [(1, BUCKET, at) for at in range(ROWS)]
    for row in by_hive:
        assert isinstance(row.values, dict)
        assert {**row.values, "noise": None} == expected(row.row_id)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_hive_applies_delete_events_that_spark_wrote(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    """Their placeholder is NULL, so that ``row`` is."""
    table = tmp_path / "t"
    file = write_flat(flat_rows(spark, 0, "true", ["id", "struct(id AS x) AS s"]), tmp_path / "flat", codec)
    (table / "delta_0000001_0000001_0000").mkdir(parents=True)
    nest(place(str(file)), place(str(table / "delta_0000001_0000001_0000" / "bucket_00000")))
    nothing = ["cast(null AS bigint) AS id", "cast(null AS struct<x:bigint>) AS s"]
    events = (
        flat_rows(spark, 2, "cast(null AS boolean)", nothing)
        .where("row_id % 2 = 0")
        .withColumn("current", F.lit(2).cast("bigint"))
    )
    file = write_flat(events, tmp_path / "events", codec)
    delete_delta = table / "delete_delta_0000002_0000002_0000"
    delete_delta.mkdir()
    nest(place(str(file)), place(str(delete_delta / "bucket_00000")))

    columns = [Column("id", "bigint"), Column("s", "struct<x:bigint>")]
    left = hive_oracle.bulk_rows(spark, table, EVERYTHING, columns, tmp_path / "hive")
    assert sorted(row.value for row in left.collect()) == sorted(f"{{{at}, {{{at}}}}}" for at in range(1, ROWS, 2))
    before = hive_oracle.rows(spark, table, transactions(ValidWriteIdList.of("db.t", 1)), columns)
    assert before[0] == HiveRow(1, BUCKET, 0, {"id": 0, "s": {"x": 0}})
    assert len(before) == ROWS

    read = nested(spark, delete_delta, "row struct<id: bigint, s: struct<x: bigint>>")
    found = read.select(*METADATA, F.col("row").isNull().alias("none")).collect()
    assert [tuple(row) for row in found] == [(2, 1, BUCKET, at, 2, True) for at in range(0, ROWS, 2)]
    assert orc.read_table(str(delete_delta / "bucket_00000")).column("row").null_count == ROWS // 2


def test_hive_and_spark_read_concatenated_files(spark: SparkSession, tmp_path: Path) -> None:
    delta = tmp_path / "t" / "delta_0000001_0000001"
    delta.mkdir(parents=True)
    sources = []
    for name, half in (("low", "row_id < 2500"), ("none", "row_id < 0"), ("high", "row_id >= 2500")):
        values = ["id", "repeat(sha2(cast(id as string), 512), 3) AS noise"]
        rows = flat_rows(spark, 0, "true", values, MANY_ROWS).where(half)
        source = place(str(write_flat(rows, tmp_path / name, "zstd")))
        nest(source, source)
        sources.append(source)
    made = concatenate(place(str(delta / "bucket_00000")), sources)
    assert made.rows == MANY_ROWS
    assert made.stripes == sum(len(stripes(source)) for source in sources) > 4

    columns = [Column("id", "bigint"), Column("noise", "string")]
    by_hive = hive_oracle.rows(spark, tmp_path / "t", EVERYTHING, columns)
    by_spark = nested(spark, delta, "row struct<id: bigint, noise: string>").select(*METADATA, "row.*").collect()
    assert [(row.row_id, row.values) for row in by_hive] == [
        (row["rowId"], {"id": row["id"], "noise": row["noise"]}) for row in by_spark
    ]
    assert [row["id"] for row in by_spark] == list(range(MANY_ROWS))
