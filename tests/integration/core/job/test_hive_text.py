"""Hive's text files, with Hive's own LazySimpleSerDe as the judge."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core.job import hive_text
from airflow_hivex.core.job.assignment import field
from airflow_hivex.core.model.file_properties import text_format
from airflow_hivex.core.model.objects import Column
from tests.hive_text import LAZY_SIMPLE, comparable, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_PRIMITIVES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "double", "decimal(10,2)", "decimal(38,10)", "string"),
    *("varchar(3)", "char(3)", "binary", "timestamp"),
)
_NESTED = (
    *("string", "int", "array<int>", "array<string>", "map<string,int>", "map<int,string>", "struct<a:int,b:string>"),
    *("array<map<string,array<int>>>", "struct<a:array<int>,m:map<string,struct<x:string,y:int>>>", "double"),
    *("array<array<array<string>>>", "map<string,map<string,map<string,string>>>", "varchar(2)", "char(2)"),
)
_TEXTS = (
    *(
        "",
        " ",
        "1",
        "-1",
        "+1",
        "1.5",
        "1.",
        ".5",
        ".",
        "-",
        "+",
        "--1",
        "1.a",
        " 1",
        "1 ",
        "127",
        "128",
        "-129",
        "32768",
    ),
    *(
        "2147483648",
        "9223372036854775808",
        "99999999999999999999",
        "1e5",
        "1E-3",
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
    ),
    *("inf", "1d", "1f", "0x10", "true", "TRUE", "False", "t", "0", "NULL", "null", "\\N", "N", "abc", "a\\b", "é€😀"),
    *(
        "2020-01-01 10:00:00",
        "2020-01-01 10:00:00.123456",
        "2020-1-1 1:2:3",
        "2020-01-01 10:00",
        "2020-01-01",
        "20200101",
    ),
    *("YWJj", "YWI=", "YWI", "YQ", "Y", "Y W J j", "a-_b", "====", "a b!", "1.005", "1.995", "12345678901234567890.12"),
    *("-0", "00012", "\t1", "1\t", "0.000000000001", "-.5", " 2020-01-01 10:00:00 "),
)
_PLAIN = ("\x01", "\x01", "\x02", "\x02", "\x03", "\x04", "\x05", "\x06", "a", "b", "1", "2", "\\N", " ", "\\", "é")
_ESCAPED = (",", ",", "|", ":", "\x04", "\\", "\\", "\\,", "\\|", "n", "r", "a", "1", "\\N", "\\\\", " ", "😀")
_DELIMITED = {"field.delim": ",", "colelction.delim": "|", "mapkey.delim": ":", "escape.delim": "\\"}


def ours(
    spark: SparkSession, lines: Sequence[str], columns: Sequence[Column], properties: Mapping[str, str]
) -> list[tuple[object, ...]]:
    numbered = spark.createDataFrame(list(enumerate(lines)), f"number int, {hive_text.LINE} string")
    read = hive_text.rows_of(numbered, columns, [Column("number", "int")], text_format(properties))
    stored = [field(column).dataType.simpleString() for column in columns]
    assert [item.dataType.simpleString() for item in read.schema.fields[:-1]] == stored
    return [tuple(map(comparable, row[:-1])) for row in sorted(read.collect(), key=lambda row: row[-1])]


def check(spark: SparkSession, lines: Sequence[str], columns: Sequence[Column], properties: Mapping[str, str]) -> None:
    judged = rows(spark, LAZY_SIMPLE, [line.encode() for line in lines], columns, properties)
    found = ours(spark, lines, columns, properties)
    differing = [case for case in zip(lines, judged, found, strict=True) if case[1] != case[2]]
    assert not differing, (columns, properties, differing[:3])


def test_texts_are_the_values_of_primitive_types_as_hive_reads_them(spark: SparkSession) -> None:
    columns = [Column(f"c{number}", name) for number, name in enumerate(_PRIMITIVES)]
    check(spark, ["\x01".join([text] * len(columns)) for text in _TEXTS], columns, {})


@pytest.mark.parametrize(
    ("properties", "pieces"),
    [
        ({}, _PLAIN),
        (_DELIMITED, _ESCAPED),
        (_DELIMITED | {"serialization.null.format": "a", "serialization.escape.crlf": "true"}, _ESCAPED),
        (_DELIMITED | {"serialization.last.column.takes.rest": "true", "serialization.null.format": ""}, _ESCAPED),
        ({"serialization.format": "9"}, ("\t", "\t", "\x02", "1", "a", " ")),
        ({"field.delim": "]", "colelction.delim": "[", "escape.delim": "^"}, ("]", "[", "^", "a", "1", "-", " ")),
        ({"field.delim": "^", "colelction.delim": "-", "escape.delim": "$"}, ("^", "-", "$", "a", "1", " ")),
        ({"field.delim": ",", "escape.delim": ","}, (",", "a", "1", "\x02")),
    ],
    ids=["plain", "escaped", "null", "rest", "tab", "brackets", "signs", "escape is separator"],
)
def test_lines_are_parted_as_hive_parts_them(
    spark: SparkSession, properties: Mapping[str, str], pieces: Sequence[str]
) -> None:
    chance = random.Random(str(properties))
    columns = [Column(f"c{number}", chance.choice(_NESTED)) for number in range(4)]
    lines = ["", *("".join(chance.choices(pieces, k=chance.randrange(24))) for _ in range(150))]
    check(spark, lines, columns, properties)


@pytest.mark.parametrize("properties", [{}, _DELIMITED], ids=["plain", "escaped"])
def test_hive_reads_what_is_written(spark: SparkSession, properties: Mapping[str, str]) -> None:
    columns = [Column("n", "int"), Column("v", "string"), Column("a", "array<string>"), Column("m", "map<int,string>")]
    texts = ["", " ", "é", '"', "a b", None, "-1", "~"] + (
        [",", "\\", "|:", "\x04", "a\nb\r", "\\N"] if properties else []
    )
    written = [(number, text, [text, "x"], {1: text, 2: None}) for number, text in enumerate(texts)]
    frame = spark.createDataFrame(written, "n int, v string, a array<string>, m map<int,string>")
    lines = [row[0] for row in hive_text.lines_of(frame, columns, [], text_format(properties)).collect()]
    judged = rows(spark, LAZY_SIMPLE, [line.encode() for line in lines], columns, properties)
    assert judged == [tuple(map(comparable, row)) for row in written]


def test_long_lines_of_escapes_need_no_deep_stack(spark: SparkSession) -> None:
    (row,) = ours(spark, ["\\," * 200_000 + ",x"], [Column("a", "string"), Column("b", "string")], _DELIMITED)
    assert row == ("," * 200_000, "x")
