"""Lists of VALUES in Spark, each value as the type that it has by itself.

Spark takes one type for each column of VALUES: next to a double a bigint loses digits, next to a decimal the text of
an integer gets a point, and a date becomes a time. So a column with values of several types becomes several columns
here, which the store assignment brings together. Source: docs/reference/statements.md, "Texts in columns of other
types"; ResolveInlineTables of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import InvalidTypeError
from airflow_hivex.core.job import layout, view_queries
from airflow_hivex.core.model.column_types import MAX_PRECISION, Family, Primitive, parse_type
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import PlannedValues, Write

_EXACT = (Family.WHOLE, Family.DECIMAL)
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_NULL, _TEXT, _STRING = "void", "constant text", "string"


def spread(
    spark: SparkSession, values: PlannedValues, write: Write, arguments: Mapping[str, Any], views: Sequence[str]
) -> tuple[DataFrame, Write, tuple[int, ...]]:
    """Return the rows with a column for each type of a column's values, the write of them, and their targets.

    The targets are positions among the columns that the write is given.

    Raises:
        ColumnCountMismatchError, NoSuchColumnError: as :func:`layout.given_columns`.
        InvalidOperationError: Spark would read another relation.
        AnalysisException: Spark refuses a value.
    """
    width = len(values.cells[0])
    if write.by_name:
        # Spark's names where there is no alias.
        names = values.names or tuple(f"col{number}" for number in range(1, width + 1))
        given = layout.named_columns(write, names)
        write = replace(write, input_columns=names)
    else:
        given = layout.given_columns(write, width)
    types = _types(spark, values, arguments, views)
    columns = [_groups(column, [row[i] for row in types]) for i, column in enumerate(given)]
    first_of: list[int] = []
    places: list[int] = []
    texts: list[int] = []
    for place, groups in enumerate(columns):
        first_of.append(len(places))
        for number in range(max(groups, default=0) + 1):
            of = {row[place] for row, group in zip(types, groups, strict=True) if group == number}
            if of <= {_TEXT, _NULL}:
                texts.append(len(places))
            places.append(place)
    rows = []
    for number, cells in enumerate(values.cells):
        row = ["NULL"] * len(places)
        for place, cell in enumerate(cells):
            row[first_of[place] + columns[place][number]] = cell
        rows.append(f"({', '.join(row)})")
    found = view_queries.query(spark, f"VALUES {', '.join(rows)}", arguments, views)
    return found, replace(write, texts=tuple(texts)), tuple(places)


def _types(
    spark: SparkSession, values: PlannedValues, arguments: Mapping[str, Any], views: Sequence[str]
) -> list[list[str]]:
    """Return the type of each value; Spark is asked for those of expressions in columns of several rows."""
    asked: dict[str, str] = {}
    if len(values.cells) > 1:
        for cells, types in zip(values.cells, values.types, strict=True):
            asked.update((cell, "") for cell, known in zip(cells, types, strict=True) if known is None)
    if asked:
        # With a second value Spark takes no struct for a row.
        schema = view_queries.query(spark, f"VALUES ({', '.join((*asked, 'NULL'))})", arguments, views).schema
        asked = {cell: item.dataType.simpleString() for cell, item in zip(asked, schema.fields, strict=False)}
    return [
        [_TEXT if known == _STRING else known or asked.get(cell, "") for cell, known in zip(cells, types, strict=True)]
        for cells, types in zip(values.cells, values.types, strict=True)
    ]


def _groups(column: Column, types: Sequence[str]) -> list[int]:
    """Return a number for each value of a column: those with one number keep their values in one column of Spark."""
    target = column.parsed_type
    is_text = isinstance(target, Primitive) and target.family is Family.TEXT
    exact = {name: found for name in dict.fromkeys(types) if (found := _exact(name)) is not None}
    are_alike = _keeps_all(target, list(exact.values()))
    numbers: dict[str, int] = {}
    groups = []
    for name in types:
        key = _STRING if is_text and name == _TEXT else "number" if are_alike and name in exact else name
        # NULL fits any type.
        groups.append(0 if key == _NULL else numbers.setdefault(key, len(numbers)))
    return groups


def _exact(name: str) -> Primitive | None:
    try:
        found = parse_type(name)
    except InvalidTypeError:
        return None
    return found if isinstance(found, Primitive) and found.family in _EXACT else None


def _keeps_all(target: object, numbers: Sequence[Primitive]) -> bool:
    """Return whether the common type of exact numbers holds each of them, and they are stored from it as by themselves.

    A float is not, which Spark rounds from a decimal in another way; nor a text, which shows the scale.
    """
    if not numbers or not isinstance(target, Primitive) or (target.family not in _EXACT and target.name != "double"):
        return False
    scales = [number.parameters[1] if number.family is Family.DECIMAL else 0 for number in numbers]
    digits = [
        number.parameters[0] - number.parameters[1] if number.family is Family.DECIMAL else _DIGITS[number.name]
        for number in numbers
    ]
    return max(digits) + max(scales) <= MAX_PRECISION
