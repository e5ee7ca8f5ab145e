"""The text of Spark's types, which Spark itself writes without quotes around the names of fields."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_hivex.core.model.column_types import field_name


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
