"""Primitive column types as pyarrow's, which writers and readers without Spark share."""

from __future__ import annotations

import pyarrow as pa

from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive

_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type_of(type: ColumnType) -> pa.DataType | None:
    """Return pyarrow's type of a primitive type in files; None for other types, and where pyarrow has no such type."""
    if not isinstance(type, Primitive):
        return None
    return pa.decimal128(*type.parameters) if type.family is Family.DECIMAL else _ARROW_TYPES.get(type.name)
