"""Hive's own LazySimpleSerDe and OpenCSVSerde as the judges of text files: they are among the jars of PySpark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from airflow_hivex.core.model.objects import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAZY_SIMPLE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"


def rows(
    spark: SparkSession,
    serde: str,
    lines: Sequence[bytes],
    columns: Sequence[Column],
    properties: Mapping[str, str] | None = None,
) -> list[tuple[Any, ...]]:
    """Return what a SerDe of Hive makes of lines, in the form of :func:`comparable`."""
    jvm = spark.sparkContext._jvm
    table = jvm.java.util.Properties()
    given = {
        "columns": ",".join(column.name for column in columns),
        "columns.types": ":".join(column.type for column in columns),
    }
    for name, value in (given | dict(properties or {})).items():
        table.setProperty(name, value)
    reader = getattr(jvm, serde)()
    reader.initialize(spark.sparkContext._jsc.hadoopConfiguration(), table)
    inspector = reader.getObjectInspector()
    found = []
    for line in lines:
        text = jvm.org.apache.hadoop.io.Text()
        text.set(bytearray(line))
        found.append(tuple(comparable(_value(jvm, reader.deserialize(text), inspector)).values()))
    return found


def _value(jvm: Any, value: Any, inspector: Any) -> Any:
    if value is None:
        return None
    match inspector.getCategory().name():
        case "STRUCT":
            return {
                str(field.getFieldName()): _value(
                    jvm, inspector.getStructFieldData(value, field), field.getFieldObjectInspector()
                )
                for field in inspector.getAllStructFieldRefs()
            }
        case "LIST":
            items = inspector.getList(value)
            if items is None:
                return None
            return [_value(jvm, item, inspector.getListElementObjectInspector()) for item in items]
        case "MAP":
            key_inspector, value_inspector = (
                inspector.getMapKeyObjectInspector(),
                inspector.getMapValueObjectInspector(),
            )
            return {
                _value(jvm, entry.getKey(), key_inspector): _value(jvm, entry.getValue(), value_inspector)
                for entry in inspector.getMap(value).entrySet()
            }
    if inspector.getTypeName() == "binary":
        return bytes(inspector.getPrimitiveJavaObject(value))
    text = jvm.org.apache.hadoop.hive.serde2.SerDeUtils.getJSONString(value, inspector)
    return json.loads(text, strict=False, parse_float=Decimal)


def comparable(value: Any) -> Any:
    """Return a value so that Hive's and Spark's are equal if they mean the same: numbers as floats, times as texts."""
    match value:
        case None | bool() | str() | bytes():
            return value
        case bytearray():
            return bytes(value)
        case Row():
            return comparable(value.asDict())
        case int() | float() | Decimal():
            return "NaN" if value != value else float(value)
        case dict():
            return {comparable(key): comparable(item) for key, item in value.items()}
        case list() | tuple():
            return [comparable(item) for item in value]
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
