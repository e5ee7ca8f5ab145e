"""DESCRIBE ... AS JSON: a table or partition as one JSON document, with Spark's keys.

Source: Spark's DescribeRelationJsonCommand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_hivex.core.catalog.statistics import select_statistics
from airflow_hivex.core.errors import NoSuchColumnError
from airflow_hivex.core.errors.secrets import hide_in_properties, hide_in_uri
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.column_types import Array, ColumnType, Map, Primitive, Struct
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import Column, Skew, StorageDescriptor, StoredPartition, StoredTable, Table
from airflow_hivex.core.model.session_objects import TemporaryView
from airflow_hivex.core.model.statistics import Statistics, is_exact
from airflow_hivex.core.model.texts import quoted_text
from airflow_hivex.core.model.write_ids import ValidWriteIdList

_COLUMN = "json_metadata"
_CATALOG = "spark_catalog"
_COLLATION = "UTF8_BINARY"
_TYPES = {"MANAGED_TABLE": "MANAGED", "EXTERNAL_TABLE": "EXTERNAL", "VIRTUAL_VIEW": "VIEW"}

Document = dict[str, Any]


def json_of_table(table: Table, statistics: Statistics | None, link: Link | None = None) -> Result:
    """Return the JSON document of a table or view. If ``link`` is given, the document describes this link."""
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
    """Return the JSON document of a partition, which also describes its table."""
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
    """Return the JSON document of a temporary view."""
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


def storage_facts(storage: StorageDescriptor) -> dict[str, str]:
    """Return a dict from keys of Spark and Hive to facts of a storage descriptor, without format and options."""
    facts = {
        "Serde Library": storage.serde.library,
        "InputFormat": storage.input_format,
        "OutputFormat": storage.output_format,
        "Storage Desc Params": f"[{properties_text(hide_in_properties(storage.parameters))}]"
        if storage.parameters
        else None,
    }
    if storage.num_buckets > 0:
        facts["Num Buckets"] = str(storage.num_buckets)
        facts["Bucket Columns"] = ", ".join(storage.bucket_columns)
    if storage.sort_columns:
        facts["Sort Columns"] = ", ".join(
            f"{column.name} {'ASC' if column.ascending else 'DESC'}" for column in storage.sort_columns
        )
    if storage.compressed:
        facts["Compressed"] = "Yes"
    if storage.skew is not None:
        facts["Skewed Columns"] = ", ".join(storage.skew.columns)
        facts["Skewed Values"] = ", ".join(f"({', '.join(values)})" for values in storage.skew.values)
        if storage.skew.locations:
            facts["Skewed Value to Path"] = ", ".join(
                f"({', '.join(values)}) = {hide_in_uri(path)}" for values, path in storage.skew.locations.items()
            )
    if storage.stored_as_sub_directories:
        facts["Stored As SubDirectories"] = "Yes"
    return {fact: value for fact, value in facts.items() if value is not None}


def skewed_by(skew: Skew, *, in_directories: bool) -> str:
    """Return the clause SKEWED BY of Hive for the skewed columns and values of a table."""
    columns = ", ".join(f"`{name}`" for name in skew.columns)
    values = ", ".join(f"({', '.join(map(quoted_text, each))})" for each in skew.values)
    return f"SKEWED BY ({columns}) ON ({values}){' STORED AS DIRECTORIES' if in_directories else ''}"


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the SQL text of a list of properties, without parentheses."""
    return ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in sorted(properties.items()))


Rows = list[tuple[object, ...]]

_NOTHING = "NULL"


def statistics_facts(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None = None
) -> dict[str, str]:
    """Return the statistics of a table or partition as a dict: Spark's key first, then Hive's parameters.

    If no statistics are stored, the dict is empty. As in Hive, ``COLUMN_STATS_ACCURATE`` names the statistics that are
    exact for the current rows.
    """
    found, current = _statistics_of(context, table, partition)
    if found is None:
        return {}
    rows = "" if found.num_rows is None else f", {found.num_rows} rows"
    facts = {
        "Statistics" if partition is None else "Partition Statistics": f"{found.total_size} bytes{rows}",
        "numFiles": str(found.num_files),
        "totalSize": str(found.total_size),
    }
    if found.num_rows is not None:
        facts["numRows"] = str(found.num_rows)
    accurate: dict[str, object] = {}
    if found.num_rows is not None and is_exact(found.valid_write_ids, current):
        accurate["BASIC_STATS"] = "true"
    names = [column.name for column in table.columns if _is_exact(found, column, current)]
    if names:
        accurate["COLUMN_STATS"] = dict.fromkeys(names, "true")
    if accurate:
        facts["COLUMN_STATS_ACCURATE"] = json.dumps(accurate, separators=(",", ":"))
    return facts


def statistics_of(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None = None
) -> Statistics | None:
    """Return the statistics that are stored for a table or partition, or None."""
    return _statistics_of(context, table, partition)[0]


def partition_rows(
    context: StatementContext, table: StoredTable, partition: StoredPartition, named: Table | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the description of a partition as pairs (Spark's key, text).

    If a link names the table, ``named`` is the table with the name of the link.
    """
    named = named or table
    keys = (key.name for key in table.partition_keys)
    values = ", ".join(f"{key}={value}" for key, value in zip(keys, partition.values, strict=True))
    yield "Database", named.database
    yield "Table", named.name
    yield "Partition Values", f"[{values}]"
    yield "Location", hide_in_uri(partition.location)
    yield "Created Time", "" if partition.created_at is None else partition.created_at.isoformat()
    yield "Secondary Clusters", ", ".join(copy.cluster for copy in partition.secondaries)
    if partition.storage is not None:
        yield "Provider", partition.storage.format
        yield from storage_facts(partition.storage).items()
    yield from statistics_facts(context, table, partition).items()


def column_rows(
    context: StatementContext,
    table: StoredTable,
    name: str,
    partition: StoredPartition | None,
    *,
    extended: bool,
    named: Table | None = None,
    is_known: bool = True,
) -> Rows:
    """Return the description of a column as pairs (key, value). An unknown value is the text NULL, as in Spark.

    If a link names the table, ``named`` is the table with the name of the link. If ``is_known`` is false, stored
    statistics are not used.

    Raises:
        NoSuchColumnError: the table has no column of that name.
    """
    column = _column_called((*table.columns, *table.partition_keys), named or table, name)
    rows: Rows = [("col_name", column.name), ("data_type", column.type), ("comment", column.comment or _NOTHING)]
    if not extended:
        return rows
    statistics, current = _statistics_of(context, table, partition) if is_known else (None, None)
    found = None if statistics is None else statistics.columns.get(column.in_files)
    facts: dict[str, object] = (
        {}
        if found is None
        else {
            "min": found.low,
            "max": found.high,
            "num_nulls": found.num_nulls,
            "distinct_count": found.num_distinct,
            "avg_col_len": found.average_length,
            "max_col_len": found.longest,
            "num_trues": found.num_true,
            "num_falses": found.num_false,
        }
    )
    for fact in ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "num_trues", "num_falses"):
        value = facts.get(fact)
        rows.append((fact, _NOTHING if value is None else str(value)))
    if statistics is not None and found is not None:
        rows.append(("COLUMN_STATS_ACCURATE", str(_is_exact(statistics, column, current)).lower()))
    return rows


def _is_exact(statistics: Statistics, column: Column, current: ValidWriteIdList | None) -> bool:
    found = statistics.columns.get(column.in_files)
    return found is not None and is_exact(found.valid_write_ids, current)


def _column_called(columns: Sequence[Column], table: Table, name: str) -> Column:
    for column in columns:
        if column.name.lower() == name:
            return column
    raise NoSuchColumnError(table.full_name, name, [column.name for column in columns])


def _statistics_of(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None
) -> tuple[Statistics | None, ValidWriteIdList | None]:
    """Return the stored statistics of a table or partition, and the table's write id list in the current snapshot."""
    key = None if partition is None else partition.id
    with context.services.store.read() as connection:
        found = select_statistics(connection, table, [] if key is None else [key]).get(key)
    snapshot = context.services.catalog.snapshot([(table.database, table.name)])
    return found, snapshot.list_of(table)
