"""The constraints of a table in a job: default values of columns, and errors for rows that violate a constraint."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame

from airflow_hivex.core.errors import ConstraintViolationError, InvalidObjectError, ReplaceConditionError
from airflow_hivex.core.job import layout
from airflow_hivex.core.job.assignment import quoted, text_literal
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import LONG_FOLDER, NUL_IN_VALUE
from airflow_hivex.core.model.plans import Write

_MARK = "HIVEX_CONSTRAINT"
_END = "\x1f"
# After a quote or a parenthesis the text is a part of an expression that another error quotes.
_VIOLATION = re.compile(rf"(?<![('\"]){_MARK}{_END}(.*?){_END}(.*?){_END}(.*?){_END}", re.DOTALL)
_CONDITION = "replaced rows: "
_PARTITION, _LONG = "partition key ", "folder of partition key "
NUL = "CAST(X'00' AS STRING)"
"""A NUL character in Spark SQL, independent of how Spark reads escapes."""
_MOST_COLUMNS = 3
_MOST_CHARACTERS = 100


def with_defaults(rows: DataFrame, given: Sequence[Column], write: Write) -> tuple[DataFrame, tuple[Column, ...]]:
    """Add columns with default values for columns that are not given. Return a pair: the rows and their columns."""
    names = {column.name.lower() for column in given}
    missing = [
        column
        for column in (*write.columns, *layout.dynamic_columns(write))
        if column.name.lower() in write.defaults and column.name.lower() not in names
    ]
    if not missing:
        return rows, tuple(given)
    values = (f"({write.defaults[column.name.lower()]}) AS {quoted(column.name)}" for column in missing)
    return rows.selectExpr("*", *values), (*given, *missing)


def default_of(column: Column, write: Write) -> str:
    """Return Spark SQL for the default value of a column, or NULL if the column has no default."""
    text = write.defaults.get(column.name.lower())
    return "NULL" if text is None else f"({text})"


def enforced(rows: DataFrame, write: Write, also: Sequence[str] = ()) -> DataFrame:
    """Return ``rows`` with checks that let the job fail if a row violates a constraint.

    ``rows`` have columns of the table with the table's types. If ``rows`` lack a column of the table, it is a static
    partition column or is NULL. ``also`` are additional columns of ``rows``, which the result keeps.
    """
    if not (write.not_null or write.checks or write.condition):
        return rows
    there = {name.lower() for name in rows.columns}
    static = layout.static_values(write)
    columns = (*write.columns, *write.partition_columns)
    whole = rows.selectExpr(*also, *(_value(column, there, static) for column in columns))
    first, *others = write.columns
    branches = "".join(_branches(write, columns))
    guarded = f"CASE {branches}ELSE {quoted(first.name)} END AS {quoted(first.name)}"
    rest = (quoted(column.name) for column in (*others, *layout.dynamic_columns(write)))
    return whole.selectExpr(*also, guarded, *rest)


def _value(column: Column, there: set[str], static: dict[str, str | None]) -> str:
    name = column.name.lower()
    if name in there:
        return quoted(column.name)
    text = static.get(name)
    value = "NULL" if text is None else text_literal(text)
    return f"CAST({value} AS {column.type}) AS {quoted(column.name)}"


def _branches(write: Write, columns: Sequence[Column]) -> list[str]:
    by_name = {column.name.lower(): column for column in columns}
    found = []
    for name in write.not_null:
        others = [column for column in columns if column.name.lower() != name]
        error = _error(write, f"NOT NULL of column {name}", others)
        found.append(f"WHEN {quoted(by_name[name].name)} IS NULL THEN {error} ")
    for check in write.checks:
        # As in SQL, a condition that is NULL holds.
        named = [by_name[name] for name in check.columns]
        error = _error(write, f"CHECK {check.name} ({check.sql})", named)
        found.append(f"WHEN NOT coalesce(({check.sql}\n), true) THEN {error} ")
    if write.condition is not None:
        named = [by_name[name] for name in write.condition.columns]
        error = _error(write, f"{_CONDITION}{write.condition.sql}", named)
        found.append(f"WHEN NOT coalesce(({write.condition.sql}\n), false) THEN {error} ")
    return found


def no_partition_value(key: Column, write: Write) -> str:
    """Return Spark SQL that raises the error for a NUL character in the value of a partition key."""
    return _error(write, f"{_PARTITION}{key.name}", [key])


def no_folder(key: Column, write: Write) -> str:
    """Return Spark SQL that raises the error for a partition name that is too long for a folder."""
    return _error(write, f"{_LONG}{key.name}", [key])


def _error(write: Write, constraint: str, columns: Sequence[Column]) -> str:
    shown = [column for column in columns if _is_shown(column)][:_MOST_COLUMNS]
    values = ", ".join(
        f"concat({text_literal(f'{column.name} = ')}, "
        f"coalesce(substring(CAST({quoted(column.name)} AS STRING), 1, {_MOST_CHARACTERS}), 'NULL'))"
        for column in shown
    )
    sample = f"concat_ws(', ', {values})" if shown else "''"
    start = text_literal(f"{_MARK}{_END}{write.table}{_END}{constraint}{_END}")
    return f"raise_error(concat({start}, {sample}, {text_literal(_END)}))"


def _is_shown(column: Column) -> bool:
    declared = column.parsed_type
    return isinstance(declared, Primitive) and declared.family is not Family.BINARY


def violation(text: str) -> ConstraintViolationError | InvalidObjectError | ReplaceConditionError | None:
    """Return the error from a message of Spark about a refused row, or None for any other message."""
    found = _VIOLATION.search(text)
    if found is None:
        return None
    table, constraint, sample = found.groups()
    if constraint.startswith(_CONDITION):
        return ReplaceConditionError(table, constraint.removeprefix(_CONDITION), sample)
    if constraint.startswith(_PARTITION):
        return InvalidObjectError("partition", f"{sample!a} of {table}", NUL_IN_VALUE)
    if constraint.startswith(_LONG):
        return InvalidObjectError("partition", f"{sample!a} of {table}", LONG_FOLDER)
    return ConstraintViolationError(table, constraint, sample)
