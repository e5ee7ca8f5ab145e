"""Hive's own LazySimpleSerDe and OpenCSVSerde as the judges of text files: they are among the jars of PySpark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
    # Names of classes in one piece: py4j asks for each part of a path, and the JVM looks for it in all of its jars.
    table = getattr(jvm, "java.util.Properties")()
    given = {
        "columns": ",".join(column.name for column in columns),
        "columns.types": ":".join(column.type for column in columns),
    }
    for name, value in (given | dict(properties or {})).items():
        table.setProperty(name, value)
    reader = getattr(jvm, serde)()
    reader.initialize(spark.sparkContext._jsc.hadoopConfiguration(), table)
    text = getattr(jvm, "org.apache.hadoop.io.Text")()
    to_json = getattr(jvm, "org.apache.hadoop.hive.serde2.SerDeUtils").getJSONString
    read = _reader(reader.getObjectInspector(), to_json)
    found = []
    for line in lines:
        text.set(bytearray(line))
        found.append(tuple(comparable(read(reader.deserialize(text))).values()))
    return found


def _reader(inspector: Any, to_json: Callable[[Any, Any], str]) -> Callable[[Any], Any]:
    """Return a function that reads values of an inspector's type; each call of the JVM takes its time."""
    read: Callable[[Any], Any]
    match inspector.getCategory().name():
        case "STRUCT":
            fields = [
                (str(field.getFieldName()), field, _reader(field.getFieldObjectInspector(), to_json))
                for field in inspector.getAllStructFieldRefs()
            ]

            def read(value: Any) -> Any:
                return {name: of(inspector.getStructFieldData(value, field)) for name, field, of in fields}

        case "LIST":
            of_items = _reader(inspector.getListElementObjectInspector(), to_json)

            def read(value: Any) -> Any:
                items = inspector.getList(value)
                return None if items is None else [of_items(item) for item in items.toArray()]

        case "MAP":
            of_keys = _reader(inspector.getMapKeyObjectInspector(), to_json)
            of_values = _reader(inspector.getMapValueObjectInspector(), to_json)

            def read(value: Any) -> Any:
                # py4j learns from an exception that an iterator has ended, which pyspark looks at for long.
                entries = inspector.getMap(value).entrySet().toArray()
                return {of_keys(entry.getKey()): of_values(entry.getValue()) for entry in entries}

        case _ if inspector.getTypeName() == "binary":

            def read(value: Any) -> Any:
                return bytes(inspector.getPrimitiveJavaObject(value))

        case _:

            def read(value: Any) -> Any:
                return json.loads(to_json(value, inspector), strict=False, parse_float=Decimal)

    return lambda value: None if value is None else read(value)


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
