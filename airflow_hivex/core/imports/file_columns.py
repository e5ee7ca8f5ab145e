"""The columns of a data file, with Spark's types, from the file alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_hivex.core.errors import InvalidObjectError, JobError
from airflow_hivex.core.job.layout import METADATA_COLUMNS
from airflow_hivex.core.job.orc_tail import read_tail
from airflow_hivex.core.job.orc_tail.nesting import ACID_FIELDS
from airflow_hivex.core.job.orc_tail.types import Kind, attributes, children, decimal_parameters, kind, names
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.objects import FLAT_LAYOUT, HIVE_LAYOUT

_SIMPLE = {
    Kind.BOOLEAN: "boolean",
    Kind.BYTE: "tinyint",
    Kind.SHORT: "smallint",
    Kind.INT: "int",
    Kind.LONG: "bigint",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.VARCHAR: "string",
    Kind.CHAR: "string",
    18: "timestamp",
}
"""A dict from ORC's number of a type to Spark's type. 18 is a timestamp with the time zone of the session."""
_LIST, _MAP = 10, 11
_SPARK_TYPE = b"spark.sql.catalyst.type"
"""The attribute in which Spark keeps its own name of a type."""
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""The names of types in Spark's JSON that its SQL has under other names."""
_PARQUET = b"PAR1"


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a file as (name, type) pairs, without those that row ids take.

    ``format`` is ``orc`` or ``parquet``. ``layout`` is the row layout of a full ACID file, or None if the file has no
    row ids.
    """

    format: str
    columns: tuple[tuple[str, str], ...]
    layout: str | None = None


def read_columns(uri: str) -> FileColumns:
    """Return the columns of an ORC file, or of a Parquet file that Spark has written. Only its tail is read.

    Raises:
        InvalidObjectError: the file has another format, or is damaged.
    """
    where = place(uri)
    try:
        with where.open() as data:
            begins = data.read(len(_PARQUET))
        return _of_parquet(uri, where) if begins == _PARQUET else _of_orc(where)
    except (OSError, ValueError, IndexError, JobError, pa.ArrowException) as error:
        raise InvalidObjectError("file", uri, f"its columns cannot be read: {error}") from error


def _of_orc(where: Place) -> FileColumns:
    types = read_tail(where).types
    found = list(zip(names(types[0]), children(types[0]), strict=True))
    if [name for name, _ in found] == list(ACID_FIELDS):
        row = types[found[-1][1]]
        found = list(zip(names(row), children(row), strict=True))
        layout: str | None = HIVE_LAYOUT
    else:
        own = [column.name for column in METADATA_COLUMNS]
        layout = FLAT_LAYOUT if [name for name, _ in found[: len(own)]] == own else None
        found = found[len(own) :] if layout else found
    marked = attributes(types)
    return FileColumns("orc", tuple((name, _type(types, marked, number)) for name, number in found), layout)


def _type(types: Sequence[Message], marked: Sequence[Sequence[bytes]], number: int) -> str:
    """Return Spark's type of a column of an ORC file."""
    own, below = types[number], children(types[number])
    for attribute in map(Message.parse, marked[number]):
        if attribute.data(1) == _SPARK_TYPE:
            return attribute.data(2).decode()
    of = kind(own)
    if of == Kind.DECIMAL:
        precision, scale = decimal_parameters(own)
        return f"decimal({precision},{scale})"
    if of == Kind.STRUCT:
        parts = zip(names(own), below, strict=True)
        return f"struct<{','.join(f'{_quoted(name)}:{_type(types, marked, each)}' for name, each in parts)}>"
    if of in (_LIST, _MAP):
        inner = ",".join(_type(types, marked, each) for each in below)
        return f"{'array' if of == _LIST else 'map'}<{inner}>"
    if of not in _SIMPLE:
        raise ValueError(f"Spark has no type for ORC's type {of}")
    return _SIMPLE[of]


def _of_parquet(uri: str, where: Place) -> FileColumns:
    from pyarrow import parquet

    with where.open() as data:
        metadata = parquet.read_metadata(data).metadata or {}
    if _SPARK_SCHEMA not in metadata:
        raise InvalidObjectError("file", uri, "Spark has not written it, so that the types of its columns are unknown")
    schema = json.loads(metadata[_SPARK_SCHEMA])
    return FileColumns("parquet", tuple((each["name"], _of_json(each["type"])) for each in schema["fields"]))


def _of_json(type_: Any) -> str:
    if isinstance(type_, str):
        return _SPARK_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{_of_json(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{_of_json(type_['keyType'])},{_of_json(type_['valueType'])}>"
    if type_["type"] == "struct":
        return f"struct<{','.join(_quoted(each['name']) + ':' + _of_json(each['type']) for each in type_['fields'])}>"
    raise ValueError(f"Spark has no type {type_['type']}")


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
