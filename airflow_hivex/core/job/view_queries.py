"""Queries over the temporary views of a job: their rows, their plans, and lists of VALUES.

The parser replaces each table that it finds in a text by a view. If Spark finds a relation that is not one of these
views, such as a table of the session's own catalog, the query is refused before it runs, because it would read this
relation without a snapshot and without a lock. With Spark Connect, which does not return the relations of a plan, only
the settings of ``configuration`` prevent such a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
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

from airflow_hivex.core.errors import InvalidOperationError, InvalidTypeError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import layout
from airflow_hivex.core.model.column_types import MAX_PRECISION, Family, Primitive, field_name, parse_type
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult, PlannedValues, Write

_OF_THE_TEXT = frozenset(
    ("OneRowRelation", "LocalRelation", "ResolvedInlineTable", "Range", "CTERelationRef", "UnionLoopRef")
)
"""The leaves of a plan that read no relation: their rows are in the text of the query, or elsewhere in the plan.

A ``ResolvedInlineTable`` is ``VALUES`` with an expression such as ``current_timestamp()``, which Spark evaluates later.
"""


def query(spark: SparkSession, sql: str, arguments: Mapping[str, Any], views: Sequence[str]) -> DataFrame:
    """Return the rows of a query, which is allowed to read only the temporary views ``views``.

    Raises:
        InvalidOperationError: Spark would read another relation.
        AnalysisException: Spark refuses the query.
    """
    rows = spark.sql(sql, args=dict(arguments) or None)
    leaves = _leaves(rows)
    if leaves is not None:
        for view in views:
            leaves = leaves.diff(_leaves_of_view(spark, view))
        for leaf in _each(leaves.toSeq()):
            if leaf.getClass().getSimpleName().rstrip("$") not in _OF_THE_TEXT:
                name = str(leaf.toString()).strip()
                raise InvalidOperationError(
                    "A query of", name, "Spark reads it, and it is not a table of the warehouse"
                )
    return rows


def _leaves(rows: DataFrame) -> Any:
    """Return the leaves of a plan and of its sub-queries, as a set in the JVM, or None if this process has no JVM.

    The leaves are in their canonical form, which is the same for all uses of a view.
    """
    classic = getattr(rows, "_jdf", None)
    if classic is None:
        return None
    return _leaves_of_plan(classic.queryExecution().analyzed())


def _leaves_of_view(spark: SparkSession, view: str) -> Any:
    """Return the leaves of a temporary view's plan, as :func:`_leaves` does."""
    session: Any = spark
    found = session._jsparkSession.sessionState().catalog().getTempView(view)
    plan = found.get().child() if found.isDefined() else None
    # The view of a DataFrame keeps its plan, so it is not analysed again.
    return _leaves(spark.table(view)) if plan is None or not plan.resolved() else _leaves_of_plan(plan)


def _leaves_of_plan(analyzed: Any) -> Any:
    plan = analyzed.canonicalized()
    leaves = plan.collectLeaves()
    for subquery in _each(plan.subqueriesAll()):
        leaves = leaves.concat(subquery.collectLeaves())
    return leaves.toSet()


def _each(found: Any) -> Iterator[Any]:
    """Return the items of a Scala sequence."""
    return (found.apply(index) for index in range(found.size()))


_WITHOUT_PYTHON_TYPE = (CalendarIntervalType, YearMonthIntervalType, VariantType)


def fetch(rows: DataFrame, max_rows: int | None) -> tuple[JobResult, pa.Table | None]:
    """Return the columns of a query, and at most ``max_rows`` of its rows, or all rows if ``max_rows`` is None.

    If ``max_rows`` is 0, no job runs, and only the columns are returned. Intervals with months, and values of type
    VARIANT, are returned as texts, since Python has no such values. If several fields of a struct have the same name,
    their values are called ``name_0``, ``name_1``, as in Spark's ``toPandas``.
    """
    columns = tuple(Column(field.name, type_text(field.dataType)) for field in rows.schema.fields)
    if max_rows == 0:
        return JobResult(columns), None
    types = [field.dataType for field in rows.schema.fields]
    foreign = any(_is_foreign(each) or _for_arrow(each) != each for each in types)
    if foreign or len({column.name for column in columns}) < len(columns):
        # By position, since several columns of a query may have one name.
        rows = rows.toDF(*(f"c{i}" for i in range(len(columns))))
    if foreign:
        rows = rows.select(*(_readable(F.col(f"c{i}"), given).alias(f"c{i}") for i, given in enumerate(types)))
    if max_rows is not None:
        rows = rows.limit(max_rows + 1)
    table = rows.toArrow()
    truncated = max_rows is not None and table.num_rows > max_rows
    return JobResult(columns, truncated=truncated), table.slice(0, max_rows) if truncated else table


def explain(rows: DataFrame, mode: str) -> str:
    """Return the text of a query's plan. ``mode`` is a mode of EXPLAIN, such as ``formatted``. The query is not run."""
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
    """Return the type to which Spark casts values of the given type before they become an Arrow table.

    If fields of a struct have the same name, a number is added to each of these names. Values without a type, such as
    the elements of ``array()``, become strings.
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
    """Return the text of a type as the catalog stores it, with quotes around the names of fields that need them."""
    match type:
        case StructType():
            return f"struct<{','.join(f'{field_name(each.name)}:{type_text(each.dataType)}' for each in type.fields)}>"
        case ArrayType():
            return f"array<{type_text(type.elementType)}>"
        case MapType():
            return f"map<{type_text(type.keyType)},{type_text(type.valueType)}>"
    return type.simpleString()


_EXACT = (Family.WHOLE, Family.DECIMAL)
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_NULL, _TEXT, _STRING = "void", "constant text", "string"


def spread(
    spark: SparkSession, values: PlannedValues, write: Write, arguments: Mapping[str, Any], views: Sequence[str]
) -> tuple[DataFrame, Write, tuple[int, ...]]:
    """Return the rows of VALUES, the write for these rows, and for each of their columns the position of its target.

    A position is the index of a column among the columns that the INSERT gives. A column of VALUES whose values have
    several types becomes several columns with the same target, one for each type. Otherwise Spark would convert all
    values of the column to one type: a bigint would lose digits next to a double, the text of an integer would get a
    point next to a decimal, and a date would become a time. Source: docs/reference/statements.md, "Texts in columns of
    other types"; ResolveInlineTables of Spark.

    Raises:
        ColumnCountMismatchError, NoSuchColumnError: as :func:`layout.given_columns`.
        InvalidOperationError: Spark would read another relation.
        AnalysisException: Spark refuses a value.
    """
    width = len(values.cells[0])
    if write.by_name:
        # The names that Spark uses without an alias.
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
    found = query(spark, f"VALUES {', '.join(rows)}", arguments, views)
    return found, replace(write, texts=tuple(texts)), tuple(places)


def _types(
    spark: SparkSession, values: PlannedValues, arguments: Mapping[str, Any], views: Sequence[str]
) -> list[list[str]]:
    """Return the types of the values, row by row. If there are several rows, Spark finds the types of expressions."""
    asked: dict[str, str] = {}
    if len(values.cells) > 1:
        for cells, types in zip(values.cells, values.types, strict=True):
            asked.update((cell, "") for cell, known in zip(cells, types, strict=True) if known is None)
    if asked:
        # With a second value Spark does not take a struct for a row.
        schema = query(spark, f"VALUES ({', '.join((*asked, 'NULL'))})", arguments, views).schema
        asked = {cell: item.dataType.simpleString() for cell, item in zip(asked, schema.fields, strict=False)}
    return [
        [_TEXT if known == _STRING else known or asked.get(cell, "") for cell, known in zip(cells, types, strict=True)]
        for cells, types in zip(values.cells, values.types, strict=True)
    ]


def _groups(column: Column, types: Sequence[str]) -> list[int]:
    """Return a number for each value of a column. Values with the same number can be in one column of VALUES."""
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
    """Return whether exact numbers of several types can be in one column of VALUES, and are stored unchanged.

    The result is False for a float target, because Spark rounds decimals differently. It is also False for a text
    target, because the text of a number shows the scale of its type.
    """
    if not numbers or not isinstance(target, Primitive) or (target.family not in _EXACT and target.name != "double"):
        return False
    scales = [number.parameters[1] if number.family is Family.DECIMAL else 0 for number in numbers]
    digits = [
        number.parameters[0] - number.parameters[1] if number.family is Family.DECIMAL else _DIGITS[number.name]
        for number in numbers
    ]
    return max(digits) + max(scales) <= MAX_PRECISION
