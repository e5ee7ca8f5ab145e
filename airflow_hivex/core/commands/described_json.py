"""DESCRIBE ... AS JSON: the facts of a table or partition as one JSON document, under Spark's keys.

Source: Spark's DescribeRelationJsonCommand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_hivex.core.execution.context import Result
from airflow_hivex.core.model.column_types import Array, ColumnType, Map, Primitive, Struct
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import Column, StoredPartition, Table
from airflow_hivex.core.model.secrets import hide_in_properties, hide_in_uri
from airflow_hivex.core.model.session_objects import TemporaryView
from airflow_hivex.core.model.statistics import Statistics

_COLUMN = "json_metadata"
_CATALOG = "spark_catalog"
_COLLATION = "UTF8_BINARY"
_TYPES = {"MANAGED_TABLE": "MANAGED", "EXTERNAL_TABLE": "EXTERNAL", "VIRTUAL_VIEW": "VIEW"}

Document = dict[str, Any]


def json_of_table(table: Table, statistics: Statistics | None, link: Link | None = None) -> Result:
    """Return the document of a table or view, or of a link to it."""
    document = _identifier(table if link is None else link) | {"columns": _columns(table)}
    if table.is_view:
        document |= _facts(table, link)
        document |= {
            "view_text": table.view_expanded_text or "",
            "view_original_text": table.view_original_text or "",
            "view_query_output_columns": [column.name for column in table.columns],
        }
    else:
        document |= _storage(table, table.location) | _facts(table, link)
    if statistics is not None:
        document["statistics"] = _statistics(statistics)
    return _result(document)


def json_of_partition(
    table: Table, partition: StoredPartition, statistics: Statistics | None, link: Link | None = None
) -> Result:
    """Return the document of a partition, with the facts of its table."""
    document = _identifier(table) | {"columns": _columns(table)}
    keys = [key.name for key in table.partition_keys]
    document["partition_values"] = dict(zip(keys, partition.values, strict=True))
    document |= _storage(table, partition.location)
    if partition.created_at is not None:
        document["created_time"] = _time(partition.created_at)
    document = _facts(table, link) | document
    if statistics is not None:
        document["partition_statistics"] = _statistics(statistics)
    return _result(document)


def json_of_temporary_view(view: TemporaryView, name: str) -> Result:
    """Return the document of a temporary view."""
    document: Document = {"table_name": name, "catalog_name": "system", "namespace": ["session"]}
    document |= {"schema_name": "session", "columns": [_column(each, Constraints()) for each in view.columns]}
    document |= {"type": "VIEW", "view_text": view.text}
    if view.comment:
        document["comment"] = view.comment
    return _result(document)


def _result(document: Document) -> Result:
    text = json.dumps({**document, "collation": _COLLATION}, ensure_ascii=False, separators=(",", ":"))
    return Result([_COLUMN], [(text,)])


def _identifier(named: Table | Link) -> Document:
    database, name = (
        (named.database, named.name) if isinstance(named, Table) else (named.name.database, named.name.in_database)
    )
    return {"table_name": name, "catalog_name": _CATALOG, "namespace": [database], "schema_name": database}


def _columns(table: Table) -> list[Document]:
    constraints = Constraints.of(table.parameters)
    return [_column(column, constraints) for column in (*table.columns, *table.partition_keys)]


def _column(column: Column, constraints: Constraints) -> Document:
    name = column.name.lower()
    found: Document = {
        "name": column.name,
        "type": _type(column.parsed_type),
        "nullable": name not in constraints.not_null,
    }
    if column.comment:
        found["comment"] = column.comment
    if name in constraints.defaults:
        found["default"] = constraints.defaults[name]
    return found


def _type(type: ColumnType) -> Document:
    match type:
        case Array(element):
            return {"name": "array", "element_type": _type(element), "element_nullable": True}
        case Map(key, value):
            return {"name": "map", "key_type": _type(key), "value_type": _type(value), "value_nullable": True}
        case Struct(fields):
            listed = [{"name": field.name, "type": _type(field.type), "nullable": True} for field in fields]
            return {"name": "struct", "fields": listed}
        case Primitive("decimal", (precision, scale)):
            return {"name": "decimal", "precision": precision, "scale": scale}
        case Primitive("varchar" | "char" as name, (length,)):
            return {"name": name, "length": length}
        case Primitive("timestamp"):
            return {"name": "timestamp_ltz"}
        case Primitive("string"):
            return {"name": "string", "collation": _COLLATION}
    return {"name": str(type)}


def _storage(table: Table, location: str) -> Document:
    storage = table.storage
    found: Document = {}
    if storage.num_buckets > 0:
        found |= {"num_buckets": storage.num_buckets, "bucket_columns": list(storage.bucket_columns)}
        found["sort_columns"] = [column.name for column in storage.sort_columns]
    found["location"] = hide_in_uri(location)
    found |= {
        key: value
        for key, value in (
            ("serde_library", storage.serde.library),
            ("input_format", storage.input_format),
            ("output_format", storage.output_format),
        )
        if value is not None
    }
    if storage.serde_parameters:
        found["storage_properties"] = dict(sorted(hide_in_properties(storage.serde_parameters).items()))
    return found


def _facts(table: Table, link: Link | None) -> Document:
    owner, created_at = (table.owner, table.created_at) if link is None else (link.owner, link.created_at)
    found: Document = {"owner": owner or ""}
    if created_at is not None:
        found["created_time"] = _time(created_at)
    found["last_access"] = "UNKNOWN"
    found["type"] = _TYPES.get(table.type.value, table.type.value) if link is None else link.type.value
    if not table.is_view:
        found["provider"] = table.storage.format
    # A link has properties of its own, and no comment.
    comment, properties = (table.comment, table.parameters) if link is None else (None, link.properties)
    if comment:
        found["comment"] = comment
    if properties:
        found["table_properties"] = dict(sorted(hide_in_properties(properties).items()))
    if table.is_partitioned:
        found |= {"partition_provider": "Catalog", "partition_columns": _names(table.partition_keys)}
    return found


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _statistics(found: Statistics) -> Document:
    rows = {} if found.num_rows is None else {"num_rows": found.num_rows}
    return {"size_in_bytes": found.total_size, **rows}


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
