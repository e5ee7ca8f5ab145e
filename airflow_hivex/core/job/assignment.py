"""Store assignment: the conversion of a query's rows to the columns of a table, as in Spark's INSERT.

Numbers are widened and narrowed with a check, and any value of a primitive type can be stored as text. A constant text
is cast to another type if it is a valid value of that type. Source: Spark's store assignment policy ANSI
(TableOutputResolver).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from airflow_hivex.core.errors import InvalidTypeError, TypeMismatchError, UnreadableTextError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.model.column_types import Primitive, is_assignable, is_moment, is_readable, parse_type
from airflow_hivex.core.model.objects import Column

_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's metadata key for the declared type of a CHAR or VARCHAR column, whose values Spark treats as strings."""

_MARK = "HIVEX_TEXT"
_END = "\x1f"
# After a quote or a parenthesis the text is a part of an expression that another error quotes.
_UNREADABLE = re.compile(rf"(?<![('\"]){_MARK}" + rf"{_END}(.*?)" * 4 + _END, re.DOTALL)
_MOST_CHARACTERS = 100


def quoted(name: str) -> str:
    """Return a column's name as an identifier in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """Return a text as a literal in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@lru_cache(maxsize=4096)
def declared_type(type: str) -> DataType:
    """Return Spark's type for the text of a type. CHAR and VARCHAR are kept. The call uses the active session."""
    return F.parsed_type(type)


def field(column: Column) -> StructField:
    """Return the column's field in the schema of a reader. Comparisons treat CHAR as in Spark's own tables."""
    declared = declared_type(column.type)
    stored = _stored(declared)
    metadata = {} if stored == declared else {_DECLARED_TYPE: declared.simpleString()}
    return StructField(column.name, stored, nullable=True, metadata=metadata)


def nothing(column: Column) -> Expression:
    """Return NULL as a Spark column with the name and type of ``column``."""
    return F.expr(nothing_in_sql(column))


def nothing_in_sql(column: Column) -> str:
    """Return the text of a NULL column in Spark SQL, with the name and type of ``column``.

    For many columns, one SQL text is faster than columns of pyspark, where each call goes to the JVM.
    """
    return f"CAST(NULL AS {column.type}) AS {quoted(column.name)}"


def assign(
    rows: DataFrame,
    targets: Sequence[Column],
    table: str,
    *,
    fields_by_name: bool = False,
    texts: Collection[int] = (),
    casts: bool = False,
    places: Sequence[int] | None = None,
) -> DataFrame:
    """Return ``rows`` with the names and types of ``targets``; columns match by position.

    Fields of structs match by position, too. With ``fields_by_name`` fields match by name, if a struct has the names of
    all fields of its target, as in Spark's UPDATE and MERGE. ``texts`` are the positions of constant texts, which are
    cast to the types of their targets. With ``casts`` a value that is not assignable is cast, and is NULL if the cast
    fails. If several columns of ``rows`` belong to one target, ``places`` must be given: for each column, the index of
    its target. Then the target gets the first value that is not NULL. For example, with the places ``(0, 1, 1)`` the
    second target gets its value from the second or third column.

    Raises:
        TypeMismatchError: a column needs an explicit CAST. Values that do not fit fail when the rows are computed.
    """
    if places is not None and len(places) > len(targets):
        parts = [Column(f"__value_{i}", targets[place].type) for i, place in enumerate(places)]
        called = [targets[place].name for place in places]
        assigned = _assigned(rows, parts, called, table, fields_by_name, texts, casts)
        return assigned.selectExpr(*(_first_value(parts, places, i, target) for i, target in enumerate(targets)))
    return _assigned(rows, targets, [target.name for target in targets], table, fields_by_name, texts, casts)


def _first_value(parts: Sequence[Column], places: Sequence[int], number: int, target: Column) -> str:
    names = [quoted(part.name) for part, place in zip(parts, places, strict=True) if place == number]
    value = names[0] if len(names) == 1 else f"coalesce({', '.join(names)})"
    return f"{value} AS {quoted(target.name)}"


def _assigned(
    rows: DataFrame,
    targets: Sequence[Column],
    called: Sequence[str],
    table: str,
    fields_by_name: bool,
    texts: Collection[int],
    casts: bool,
) -> DataFrame:
    """Return the rows as :func:`assign` does; ``called`` are the names of the columns in errors."""
    given = [item.dataType for item in rows.schema.fields]
    declared = [declared_type(target.type) for target in targets]
    cast: dict[int, str] = {}
    for i, (target, source, wanted) in enumerate(zip(targets, given, declared, strict=True)):
        if _assignable(source, wanted, fields_by_name):
            continue
        if casts:
            cast[i] = f"try_cast({quoted(target.name)} AS {target.type})"
        elif i in texts and isinstance(source, StringType) and is_readable(target.parsed_type):
            cast[i] = _read_text(target, called[i], table)
        else:
            raise TypeMismatchError(table, called[i], target.type, f"a value of type {source.simpleString()}")
    names = [target.name for target in targets]
    if [item.name for item in rows.schema.fields] != names:
        rows = rows.toDF(*names)
    if cast:
        rows = rows.selectExpr(
            *(f"{cast[i]} AS {quoted(name)}" if i in cast else quoted(name) for i, name in enumerate(names))
        )
        given = [_stored(declared[i]) if i in cast else source for i, source in enumerate(given)]
    wanted_types = [_stored(wanted) for wanted in declared]
    if any(_shape(source) != _shape(wanted) for source, wanted in zip(given, wanted_types, strict=True)):
        # DataFrame.to matches fields of structs by name, and casts with a check for overflow whatever
        # spark.sql.ansi.enabled says. So each field first gets the name of its target field.
        renamed = [_renamed(source, wanted, fields_by_name) for source, wanted in zip(given, wanted_types, strict=True)]
        rows = rows.select(
            *(
                F.col(quoted(target.name)).cast(named).alias(target.name) if named != source else quoted(target.name)
                for target, named, source in zip(targets, renamed, given, strict=True)
            )
        ).to(
            StructType([StructField(target.name, stored) for target, stored in zip(targets, wanted_types, strict=True)])
        )
    if all(stored == wanted for stored, wanted in zip(wanted_types, declared, strict=True)):
        return rows
    return rows.select(
        *(
            _fitted(F.col(quoted(target.name)), wanted).alias(target.name)
            for target, wanted in zip(targets, declared, strict=True)
        )
    )


def _read_text(column: Column, called: str, table: str) -> str:
    """Return Spark SQL that casts a text to the column's type, and raises an error if the text is not valid."""
    name, wanted = quoted(column.name), column.type
    value = f"try_cast({name} AS {wanted})"
    if is_moment(column.parsed_type):
        # Without a year Spark would read a time of today, and a DATE accepts any text after the day.
        value = f"IF({name} RLIKE '^ *[+-]?[0-9]{{4}}' AND try_cast({name} AS TIMESTAMP) IS NOT NULL, {value}, NULL)"
    start = text_literal(f"{_MARK}{_END}{table}{_END}{called}{_END}{wanted}{_END}")
    error = f"raise_error(concat({start}, substring({name}, 1, {_MOST_CHARACTERS}), {text_literal(_END)}))"
    return f"CASE WHEN {name} IS NULL THEN NULL WHEN {value} IS NULL THEN {error} ELSE {value} END"


def unreadable(text: str) -> UnreadableTextError | None:
    """Return the error that :func:`_read_text` has put into a message of Spark, or None for any other message."""
    found = _UNREADABLE.search(text)
    return None if found is None else UnreadableTextError(*found.groups())


def _stored(type: DataType) -> DataType:
    """Return the type with CHAR and VARCHAR as strings, as they are stored."""
    match type:
        case CharType() | VarcharType():
            return StringType()
        case ArrayType():
            return ArrayType(_stored(type.elementType))
        case MapType():
            return MapType(_stored(type.keyType), _stored(type.valueType))
        case StructType():
            return StructType([StructField(item.name, _stored(item.dataType)) for item in type.fields])
    return type


def _shape(type: DataType) -> str:
    # Without the NOT NULL of parts: a part that has no nulls fits one that may have them.
    return _stored(type).json()


def _pairs(source: StructType, target: StructType, by_name: bool) -> Iterator[tuple[StructField, StructField]]:
    """Yield each field of ``source`` with its target field; both structs have the same number of fields."""
    named = {item.name.lower(): item for item in target.fields}
    if by_name and {item.name.lower() for item in source.fields} == named.keys():
        return ((item, named[item.name.lower()]) for item in source.fields)
    return zip(source.fields, target.fields, strict=True)


def _renamed(source: DataType, target: DataType, by_name: bool) -> DataType:
    """Return ``source`` with the names of the struct fields of ``target``."""
    match source, target:
        case ArrayType(), ArrayType():
            return ArrayType(_renamed(source.elementType, target.elementType, by_name), source.containsNull)
        case MapType(), MapType():
            return MapType(
                _renamed(source.keyType, target.keyType, by_name),
                _renamed(source.valueType, target.valueType, by_name),
                source.valueContainsNull,
            )
        case StructType(), StructType():
            return StructType(
                [
                    StructField(wanted.name, _renamed(given.dataType, wanted.dataType, by_name), given.nullable)
                    for given, wanted in _pairs(source, target, by_name)
                ]
            )
    return source


def _assignable(source: DataType, target: DataType, by_name: bool) -> bool:
    match source, target:
        case NullType(), _:
            return True
        case ArrayType(), ArrayType():
            return _assignable(source.elementType, target.elementType, by_name)
        case MapType(), MapType():
            return _assignable(source.keyType, target.keyType, by_name) and _assignable(
                source.valueType, target.valueType, by_name
            )
        case StructType(), StructType():
            return len(source.fields) == len(target.fields) and all(
                _assignable(given.dataType, wanted.dataType, by_name)
                for given, wanted in _pairs(source, target, by_name)
            )
    if source == target:
        return True
    try:
        given, wanted = parse_type(source.simpleString()), parse_type(target.simpleString())
    except InvalidTypeError:
        # Spark has more types, such as GEOMETRY, which are not converted.
        return False
    return isinstance(given, Primitive) and isinstance(wanted, Primitive) and is_assignable(given, wanted)


def _fitted(value: Expression, type: DataType) -> Expression:
    """Return ``value`` with the lengths of CHAR and VARCHAR checked and CHAR padded, at any depth."""
    if _stored(type) == type:
        return value
    match type:
        case VarcharType():
            return _shortened(value, type.length)
        case CharType():
            shortened = _shortened(value, type.length)
            return F.when(F.char_length(value) < type.length, F.rpad(value, type.length, " ")).otherwise(shortened)
        case ArrayType():
            return F.transform(value, lambda item: _fitted(item, type.elementType))
        case MapType():
            keys = F.transform_keys(value, lambda key, _: _fitted(key, type.keyType))
            return F.transform_values(keys, lambda _, item: _fitted(item, type.valueType))
        case StructType():
            parts = [_fitted(value.getField(item.name), item.dataType).alias(item.name) for item in type.fields]
            return F.when(value.isNotNull(), F.struct(*parts))
    return value


def _shortened(value: Expression, length: int) -> Expression:
    # Only spaces may be cut off. Source: Spark's CharVarcharCodegenUtils.
    message = F.lit(f"Exceeds char/varchar type length limitation: {length}.")
    return (
        F.when(F.char_length(value) <= length, value)
        .when(F.char_length(F.rtrim(value)) <= length, F.substring(value, 1, length))
        .when(value.isNotNull(), F.raise_error(message).cast("string"))
    )
