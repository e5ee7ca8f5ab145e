"""SELECT: the rows of a query, with their exact types, to the caller."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.model.column_types import field_name
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult

_WITHOUT_PYTHON_TYPE = (CalendarIntervalType, YearMonthIntervalType, VariantType)


def fetch(rows: DataFrame, max_rows: int | None) -> tuple[JobResult, pa.Table | None]:
    """Return the columns of a query and at most ``max_rows`` of its rows (None: all).

    With 0 nothing is run: the columns alone are asked for. A column that holds intervals of
    months, or VARIANT, comes as text, since Python has no such values. Of a struct's fields that
    have one name, the values are called ``name_0``, ``name_1``, as in Spark's ``toPandas``.
    """
    columns = tuple(Column(field.name, type_text(field.dataType)) for field in rows.schema.fields)
    if max_rows == 0:
        return JobResult(columns), None
    types = [field.dataType for field in rows.schema.fields]
    foreign = any(_is_foreign(each) or _for_arrow(each) != each for each in types)
    if foreign or len({column.name for column in columns}) < len(columns):
        # By position: a query may give one name to several columns.
        rows = rows.toDF(*(f"c{i}" for i in range(len(columns))))
    if foreign:
        rows = rows.select(*(_readable(F.col(f"c{i}"), given).alias(f"c{i}") for i, given in enumerate(types)))
    if max_rows is not None:
        rows = rows.limit(max_rows + 1)
    table = rows.toArrow()
    truncated = max_rows is not None and table.num_rows > max_rows
    return JobResult(columns, truncated=truncated), table.slice(0, max_rows) if truncated else table


def explain(rows: DataFrame, mode: str) -> str:
    """Return the text of a query's plan in a form of EXPLAIN. Spark plans the query, and runs nothing of it."""
    classic = getattr(rows, "_jdf", None)
    if classic is None:
        connected: Any = rows
        return str(connected._explain_string(mode=mode))
    jvm: Any = rows.sparkSession.sparkContext._jvm
    return str(jvm.PythonSQLUtils.explainString(classic.queryExecution(), mode))


def _is_foreign(type: DataType) -> bool:
    match type:
        case ArrayType():
            return _is_foreign(type.elementType)
        case MapType():
            return _is_foreign(type.keyType) or _is_foreign(type.valueType)
        case StructType():
            return any(_is_foreign(field.dataType) for field in type.fields)
    return isinstance(type, _WITHOUT_PYTHON_TYPE)


def _readable(value: Expression, type: DataType) -> Expression:
    if isinstance(type, VariantType):
        return F.to_json(value)
    if _is_foreign(type):
        return value.cast("string")
    readable = _for_arrow(type)
    return value if readable == type else value.cast(readable)


def _for_arrow(type: DataType) -> DataType:
    """Return the type as a table of Arrow takes it.

    It has numbers behind the names that a struct has several times, as a dict has each of its keys once. Values of no
    type, such as the elements of ``array()``, are strings: in Arrow they cannot be without NULL.
    """
    match type:
        case NullType():
            return StringType()
        case ArrayType():
            return ArrayType(_for_arrow(type.elementType), type.containsNull)
        case MapType():
            return MapType(_for_arrow(type.keyType), _for_arrow(type.valueType), type.valueContainsNull)
        case StructType():
            fields: list[StructField] = []
            for at, field in enumerate(type.fields):
                number = f"_{type.names[:at].count(field.name)}" if type.names.count(field.name) > 1 else ""
                fields.append(StructField(f"{field.name}{number}", _for_arrow(field.dataType), field.nullable))
            return StructType(fields)
    return type


def type_text(type: DataType) -> str:
    """Return the text of a type as tables have it: the names of fields are in quotes where they need them."""
    match type:
        case StructType():
            return f"struct<{','.join(f'{field_name(each.name)}:{type_text(each.dataType)}' for each in type.fields)}>"
        case ArrayType():
            return f"array<{type_text(type.elementType)}>"
        case MapType():
            return f"map<{type_text(type.keyType)},{type_text(type.valueType)}>"
    return type.simpleString()
