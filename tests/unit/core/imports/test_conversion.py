from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.imports import spark_tables
from airflow_hivex.core.imports.conversion import view_text
from airflow_hivex.core.imports.hive_statistics import convert_statistics
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.statistics import ColumnStatistics

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "Id", "type": "long", "nullable": True, "metadata": {"comment": "the number"}},
        {"name": "code", "type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}},
        {
            "name": "parts",
            "type": {
                "type": "array",
                "elementType": {
                    "type": "struct",
                    "fields": [
                        {"name": "a", "type": {"type": "map", "keyType": "string", "valueType": "decimal(5,2)"}}
                    ],
                },
            },
            "metadata": {},
        },
    ],
}
COLUMNS = [
    Column("id", "bigint", "the number", "Id"),
    Column("code", "varchar(3)"),
    Column("parts", "array<struct<a:map<string,decimal(5,2)>>>"),
]


def test_columns_of_a_data_source_are_those_of_sparks_schema() -> None:
    text = json.dumps(SCHEMA)
    assert spark_tables.columns("d.t", {"spark.sql.sources.schema": text}) == COLUMNS
    parts = {"spark.sql.sources.schema.numParts": "2"}
    parts |= {f"spark.sql.sources.schema.part.{n}": part for n, part in enumerate((text[:40], text[40:]))}
    assert spark_tables.columns("d.t", parts) == COLUMNS


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fields": [{"name": "a", "type": {"type": "udt"}}]}'])
def test_a_schema_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidObjectError, match="cannot be read"):
        spark_tables.columns("d.t", {"spark.sql.sources.schema": text})


def hive_view(expanded: str, **parameters: str) -> Any:
    return SimpleNamespace(
        dbName="d", tableName="V", viewOriginalText="-", viewExpandedText=expanded, parameters=parameters
    )


def test_a_view_reads_the_tables_of_its_own_database_under_its_own_columns() -> None:
    text = view_text("d.v", hive_view("SELECT a, max(b) FROM t JOIN x.u USING (a) -- done"), ["a", "_c1"])
    assert text == (
        "SELECT * FROM (SELECT a, max(b) FROM `d`.`t` AS `t` JOIN `x`.`u` AS `u` USING (a)\n) AS `v` (`a`, `_c1`)"
    )
    of_spark = hive_view("SELECT a FROM t", **{"view.catalogAndNamespace.part.1": "other"})
    assert "`other`.`t`" in view_text("d.v", of_spark, ["a"])


@pytest.mark.parametrize("text", ["", "DROP TABLE t", "SELECT :x", "SELECT ((", "SELECT 1; SELECT 2"])
def test_a_view_without_a_query_is_refused(text: str) -> None:
    view = hive_view(text)
    view.viewOriginalText = text
    with pytest.raises(InvalidObjectError):
        view_text("d.v", view, ["a"])


def column_statistics(name: str, kind: str, **facts: Any) -> Any:
    kinds = ("boolean", "long", "double", "string", "binary", "decimal", "date", "timestamp")
    data = {f"{each}Stats": None for each in kinds} | {f"{kind}Stats": SimpleNamespace(**facts)}
    return SimpleNamespace(colName=name, statsData=SimpleNamespace(**data))


def test_statistics_of_columns_have_sparks_texts() -> None:
    declared = {"i": "int", "d": "date", "c": "decimal(5,2)", "s": "string", "b": "boolean", "t": "timestamp"}
    columns = [Column(*each) for each in declared.items()]
    given = [
        column_statistics("i", "long", lowValue=-1, highValue=9, numNulls=2, numDVs=5),
        column_statistics(
            "D",
            "date",
            lowValue=SimpleNamespace(daysSinceEpoch=-1),
            highValue=SimpleNamespace(daysSinceEpoch=19723),
            numNulls=0,
            numDVs=3,
        ),
        column_statistics(
            "c",
            "decimal",
            lowValue=SimpleNamespace(unscaled=(-150).to_bytes(2, "big", signed=True), scale=2),
            highValue=None,
            numNulls=0,
            numDVs=1,
        ),
        column_statistics("s", "string", maxColLen=7, avgColLen=3.5, numNulls=1, numDVs=4),
        column_statistics("b", "boolean", numTrues=3, numFalses=2, numNulls=1),
        column_statistics("t", "long", lowValue=1, highValue=2, numNulls=0, numDVs=2),
        column_statistics("gone", "long", lowValue=1, highValue=2, numNulls=0, numDVs=2),
    ]
    found = convert_statistics({"totalSize": "10", "numRows": "6", "numFiles": "2"}, columns, given, 77)
    assert found is not None
    assert (found.num_rows, found.num_files, found.total_size) == (6, 2, 10)
    assert found.columns == {
        "i": ColumnStatistics(2, 5, "-1", "9", computed_ms=77),
        "d": ColumnStatistics(0, 3, "1969-12-31", "2024-01-01", computed_ms=77),
        "c": ColumnStatistics(0, 1, "-1.50", None, computed_ms=77),
        "s": ColumnStatistics(1, 4, average_length=3.5, longest=7, computed_ms=77),
        "b": ColumnStatistics(1, num_true=3, num_false=2, computed_ms=77),
        "t": ColumnStatistics(0, 2, computed_ms=77),
    }


def test_statistics_that_spark_has_counted_are_taken_over() -> None:
    parameters = {
        "spark.sql.statistics.totalSize": "10",
        "spark.sql.statistics.numRows": "6",
        "spark.sql.statistics.colStats.Id.distinctCount": "4",
        "spark.sql.statistics.colStats.Id.nullCount": "0",
        "spark.sql.statistics.colStats.Id.min": "1",
        "spark.sql.statistics.colStats.Id.max": "5",
        "totalSize": "-1",
        "numRows": "-1",
    }
    found = convert_statistics(parameters, [Column("id", "bigint", None, "Id")], [], 77)
    assert found is not None
    assert (found.num_rows, found.total_size) == (6, 10)
    assert found.columns == {"Id": ColumnStatistics(0, 4, "1", "5", computed_ms=77)}


def test_without_a_size_there_are_no_statistics() -> None:
    assert convert_statistics({"numRows": "6"}, [Column("i", "int")], [], 77) is None
