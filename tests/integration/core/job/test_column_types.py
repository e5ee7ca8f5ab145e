"""Our types against Spark's own parser: what both read is the same type, and Spark's texts are all read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ParseException
from pyspark.sql import types as spark_types

from airflow_hivex.core.errors import InvalidTypeError
from airflow_hivex.core.model.column_types import (
    KINDS,
    Array,
    ColumnType,
    Field,
    Map,
    Primitive,
    Struct,
    parse_type,
)
from tests import evidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = 300
SPELLINGS = [name for name, kind in KINDS.items() for name in (name, *kind.synonyms)]
# Only Hive has these names, or only the text of Spark's own types.
NOT_SPARKS = {"string collate", "interval_year_month", "interval_day_time", "null"}
# Types of Spark that no file of a table can hold.
NOT_OURS = (spark_types.GeographyType, spark_types.GeometryType)


@pytest.mark.parametrize("spelling", [each for each in SPELLINGS if each not in NOT_SPARKS])
@pytest.mark.parametrize("parameters", ["", "(3)", "(5,2)", "()", "(0)", "(39)", "(2,3)"])
def test_same_spellings_of_primitive_types(spark: SparkSession, spelling: str, parameters: str) -> None:
    text = spelling + parameters
    ours, theirs = _ours(text), _theirs(text)
    if ours is None and theirs in ("char(0)", "varchar(0)", "decimal(0,0)"):
        return  # no value fits
    assert (None if ours is None else _as_spark(ours)) == theirs


def test_spark_reads_every_type_as_we_print_it(spark: SparkSession) -> None:
    chance = random.Random(evidence.SEED)
    for _ in range(TYPES):
        made = _random_type(chance, depth=3)
        theirs = spark_types.DataType.fromDDL(str(made))
        assert theirs.jsonValue() == spark_types.DataType.fromDDL(theirs.simpleString()).jsonValue(), str(made)
        assert parse_type(theirs.simpleString()) == made


def test_every_type_of_spark_has_a_text_that_we_read() -> None:
    samples: list[spark_types.DataType] = [
        spark_types.DecimalType(7, 3),
        spark_types.CharType(4),
        spark_types.VarcharType(4),
        spark_types.DayTimeIntervalType(0, 2),
        spark_types.YearMonthIntervalType(0, 1),
        spark_types.ArrayType(spark_types.DateType()),
        spark_types.MapType(spark_types.StringType(), spark_types.VariantType()),
        spark_types.StructType([spark_types.StructField("with space", spark_types.NullType())]),
        spark_types.StringType("UTF8_LCASE"),
    ]
    atomic = [each for each in _leaves(spark_types.DataType) if each not in NOT_OURS]
    without_parameters = [each for each in atomic if not any(isinstance(sample, each) for sample in samples)]
    for each in (*samples, *(made() for made in without_parameters)):
        assert str(parse_type(each.simpleString())).replace("`", "") == each.simpleString()


def _leaves(root: type[spark_types.DataType]) -> list[type[spark_types.DataType]]:
    """Return the classes that no other class of Spark derives from."""
    if root in (spark_types.UserDefinedType, spark_types.StructField):
        return []
    below = [each for each in root.__subclasses__() if each.__module__ == spark_types.__name__]
    return [leaf for each in below for leaf in _leaves(each)] or [root]


def _ours(text: str) -> ColumnType | None:
    try:
        return parse_type(text)
    except InvalidTypeError:
        return None


def _theirs(text: str) -> str | None:
    try:
        return spark_types.DataType.fromDDL(text).simpleString()
    except ParseException:
        return None


def _as_spark(type: ColumnType) -> str:
    # To Spark they are one type.
    return str(type).replace("timestamp with local time zone", "timestamp")


def _random_type(chance: random.Random, depth: int) -> ColumnType:
    match chance.randrange(6) if depth else 0:
        case 1:
            return Array(_random_type(chance, depth - 1))
        case 2:
            return Map(_random_type(chance, depth - 1), _random_type(chance, depth - 1))
        case 3 | 4:
            names = chance.sample(["a", "B", "array", "timestamp", "two_2", "_x", "select", "1st"], chance.randrange(4))
            return Struct(tuple(Field(name, _random_type(chance, depth - 1)) for name in names))
    name = chance.choice([name for name, kind in KINDS.items() if kind.in_tables])
    if name == "decimal":
        precision = chance.randint(1, 38)
        return Primitive(name, (precision, chance.randint(0, precision)))
    return Primitive(name, (chance.randint(1, 65535),) if KINDS[name].defaults else ())
