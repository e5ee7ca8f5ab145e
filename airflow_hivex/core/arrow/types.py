"""Column types as pyarrow's, and values of files in the types that a table declares."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job.arrow_types import arrow_type_of
from airflow_hivex.core.model.column_types import Array, ColumnType, Map, Primitive, Struct, primitives
from airflow_hivex.core.model.objects import Column

_TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type that Spark's ``toArrow`` gives a TIMESTAMP. The values in files have no zone."""


def arrow_type(column: Column, table: str) -> pa.DataType:
    """Return the type of a column, as Spark's ``toArrow`` gives it.

    Raises:
        InvalidOperationError: pyarrow has no such type.
    """
    found = _arrow_type(column.parsed_type)
    if found is None:
        reason = f"column {column.name} has the type {column.type}, which only Spark reads; use session.sql"
        raise InvalidOperationError("A read without Spark of", table, reason)
    return found


def _arrow_type(declared: ColumnType) -> pa.DataType | None:
    match declared:
        case Primitive(name="timestamp"):
            return _TIMESTAMP
        case Primitive():
            return arrow_type_of(declared)
        case Array(element):
            found = _arrow_type(element)
            return None if found is None else pa.list_(pa.field("element", found))
        case Map(key, value):
            of_key, of_value = _arrow_type(key), _arrow_type(value)
            return None if of_key is None or of_value is None else pa.map_(of_key, of_value)
        case Struct(fields):
            types = [_arrow_type(each.type) for each in fields]
            if any(each is None for each in types):
                return None
            return pa.struct([pa.field(each.name, found) for each, found in zip(fields, types, strict=True)])
    return None


def conform(values: pa.Array, wanted: pa.DataType, declared: ColumnType) -> pa.Array:
    """Return values of a file in the type of the table, of which ``wanted`` is pyarrow's.

    Fields of structs match by name, and those that the file lacks are NULL. Texts of CHAR are padded: files of other
    writers have them without blanks at the end.

    Raises:
        pa.ArrowException: a value does not fit.
    """
    given = values.type
    has_char = any(each.name == "char" for each in primitives(declared))
    if given.equals(wanted) and not has_char:
        return values
    if isinstance(declared, Struct) and pa.types.is_struct(wanted) and pa.types.is_struct(given):
        places = {field.name.lower(): place for place, field in reversed(list(enumerate(given)))}
        fields = [
            conform(values.field(places[field.name.lower()]), field.type, part.type)
            if field.name.lower() in places
            else pa.nulls(len(values), field.type)
            for field, part in zip(wanted, declared.fields, strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=values.is_null())
    if isinstance(declared, Array) and pa.types.is_list(wanted) and pa.types.is_list(given):
        items = conform(values.values, wanted.value_type, declared.element)
        return pa.ListArray.from_arrays(values.offsets, items, type=wanted, mask=values.is_null())
    if isinstance(declared, Map) and pa.types.is_map(wanted) and pa.types.is_map(given):
        keys = conform(values.keys, wanted.key_type, declared.key)
        items = conform(values.items, wanted.item_type, declared.value)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=values.is_null())
    # Files of ORC have nanoseconds, and no writer of ours or Spark's fills the last three digits.
    found = values if given.equals(wanted) else values.cast(wanted, safe=not pa.types.is_timestamp(given))
    return pc.utf8_rpad(found, declared.parameters[0]) if has_char and isinstance(declared, Primitive) else found
