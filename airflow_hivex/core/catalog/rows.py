"""Conversions between rows of the metastore database and the catalog's objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from airflow_hivex.core.clock import to_datetime, to_ms
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.identifiers import check_owner
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    OwnerType,
    Partition,
    SerDe,
    Skew,
    SortColumn,
    StorageDescriptor,
    StoredPartition,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.store.schema import storage_descriptors

STORAGE_COLUMNS = tuple(
    column.label("storage_parameters") if column is storage_descriptors.c.parameters else column
    for column in storage_descriptors.c
    if column is not storage_descriptors.c.id
)
"""The columns that :func:`storage_from_row` reads.

``parameters`` has another label, since a row of a table or partition has parameters, too."""


_COLUMN_FIELDS = fields(Column)


def stored_time(name: str, time: datetime | None) -> int | None:
    """Return a time in milliseconds since the epoch. ``name`` is the object's name for the error message.

    Raises:
        InvalidObjectError: the time has no time zone.
    """
    if time is None:
        return None
    if time.utcoffset() is None:
        raise InvalidObjectError("time", str(time), f"the time of {name} has no time zone")
    return to_ms(time)


def _time_or_none(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else to_datetime(milliseconds)


def columns_from_json(columns: Iterable[dict[str, Any]]) -> tuple[Column, ...]:
    """Return the columns from their stored form."""
    return tuple(Column(**column) for column in columns)


def _column_to_json(column: Column) -> dict[str, Any]:
    # ``asdict`` copies each value, which takes ten times as long.
    return {field.name: getattr(column, field.name) for field in _COLUMN_FIELDS}


def database_from_row(row: Row[Any]) -> Database:
    """Return the database that is stored in a row of ``databases``."""
    return Database(
        name=row.name,
        location=row.location,
        description=row.description,
        owner=row.owner,
        parameters=row.parameters,
        created_at=to_datetime(row.created_ms),
        id=row.id,
    )


def storage_from_row(
    row: Row[Any], primary: ClusterStorageDescriptor, secondaries: Iterable[ClusterStorageDescriptor] = ()
) -> StorageDescriptor:
    """Return the storage descriptor that is stored in a row with the columns :data:`STORAGE_COLUMNS`."""
    return StorageDescriptor(
        columns=columns_from_json(row.columns),
        primary=primary,
        secondaries=tuple(secondaries),
        format=row.format,
        serde_parameters=row.serde_parameters,
        num_buckets=row.num_buckets,
        bucket_columns=tuple(row.bucket_columns),
        sort_columns=tuple(SortColumn(**column) for column in row.sort_columns),
        input_format=row.input_format,
        output_format=row.output_format,
        serde=SerDe(**row.serde),
        parameters=row.storage_parameters,
        compressed=row.compressed,
        skew=None if row.skew is None else _skew_from_json(row.skew),
        stored_as_sub_directories=row.stored_as_sub_directories,
    )


def _skew_from_json(skew: dict[str, Any]) -> Skew:
    return Skew(
        columns=tuple(skew["columns"]),
        values=tuple(map(tuple, skew["values"])),
        locations={tuple(values): location for values, location in skew["locations"]},
    )


def table_from_row(row: Row[Any], secondaries: Iterable[ClusterStorageDescriptor] = ()) -> StoredTable:
    """Return the table from a row of ``tables``, joined with its storage descriptor and ``database_name``.

    The location is the location on the primary cluster.
    """
    storage = storage_from_row(row, ClusterStorageDescriptor(row.primary_cluster, row.location), secondaries)
    return StoredTable(
        database=row.database_name,
        name=row.name,
        storage=storage,
        partition_keys=columns_from_json(row.partition_keys),
        type=TableType(row.type),
        parameters=row.parameters,
        owner=row.owner,
        comment=row.comment,
        created_at=to_datetime(row.created_ms),
        location=row.location,
        id=row.id,
        view_original_text=row.view_original_text,
        view_expanded_text=row.view_expanded_text,
        owner_type=OwnerType(row.owner_type),
        last_accessed_at=_time_or_none(row.last_accessed_ms),
        retention=row.retention,
        version=row.version,
    )


def partition_from_row(
    table: Table, row: Row[Any], secondaries: Iterable[ClusterStorageDescriptor] = ()
) -> StoredPartition:
    """Return the partition from a row of ``partitions``, joined with its own storage descriptor if it has one."""
    secondaries = tuple(secondaries)
    primary = ClusterStorageDescriptor(table.storage.primary.cluster, row.location)
    return StoredPartition(
        database=table.database,
        table=table.name,
        values=partition_values(row.name),
        name=row.name,
        location=row.location,
        secondaries=secondaries,
        parameters=row.parameters,
        created_at=to_datetime(row.created_ms),
        id=row.id,
        storage=None if row.storage_descriptor_id is None else storage_from_row(row, primary, secondaries),
        last_accessed_at=_time_or_none(row.last_accessed_ms),
    )


def storage_to_values(storage: StorageDescriptor) -> dict[str, Any]:
    """Return a dict from column to value for a row of ``storage_descriptors``."""
    return {
        "columns": [_column_to_json(column) for column in storage.columns],
        "format": storage.format,
        "serde_parameters": dict(storage.serde_parameters),
        "num_buckets": storage.num_buckets,
        "bucket_columns": list(storage.bucket_columns),
        "sort_columns": [asdict(column) for column in storage.sort_columns],
        "input_format": storage.input_format,
        "output_format": storage.output_format,
        "serde": {name: value for name, value in asdict(storage.serde).items() if value is not None},
        "parameters": dict(storage.parameters),
        "compressed": storage.compressed,
        "skew": None if storage.skew is None else _skew_to_json(storage.skew),
        "stored_as_sub_directories": storage.stored_as_sub_directories,
    }


def _skew_to_json(skew: Skew) -> dict[str, Any]:
    return {
        "columns": list(skew.columns),
        "values": [list(values) for values in skew.values],
        "locations": [[list(values), location] for values, location in skew.locations.items()],
    }


def table_document(table: Table) -> dict[str, Any]:
    """Return a table as a JSON object, for events."""
    return {
        "database": table.database,
        **table_to_values(table),
        "created_ms": stored_time(table.full_name, table.created_at),
        "storage": storage_to_values(table.storage),
    }


def partition_document(partition: Partition) -> dict[str, Any]:
    """Return a partition as a JSON object, for events.

    The storage is None if the partition has no storage descriptor of its own.
    """
    return {
        "name": partition.name,
        "values": list(partition.values),
        "location": partition.location,
        "parameters": dict(partition.parameters),
        "created_ms": stored_time(partition.name, partition.created_at),
        "last_accessed_ms": stored_time(partition.name, partition.last_accessed_at),
        "storage": None if partition.storage is None else storage_to_values(partition.storage),
    }


def database_document(database: Database) -> dict[str, Any]:
    """Return a database as a JSON object, for events."""
    return {
        "name": database.name,
        "location": database.location,
        "description": database.description,
        "owner": database.owner,
        "parameters": dict(database.parameters),
        "created_ms": stored_time(database.name, database.created_at),
    }


def table_to_values(table: Table) -> dict[str, Any]:
    """Return a dict from column to value for a row of ``tables``, without location and ids."""
    return {
        "name": table.name,
        "type": table.type.value,
        "partition_keys": [_column_to_json(column) for column in table.partition_keys],
        "parameters": dict(table.parameters),
        "owner": check_owner(table.owner),
        "comment": table.comment,
        "primary_cluster": table.storage.primary.cluster,
        "location": table.storage.primary.location,
        "view_original_text": table.view_original_text,
        "view_expanded_text": table.view_expanded_text,
        "owner_type": table.owner_type.value,
        "last_accessed_ms": stored_time(table.full_name, table.last_accessed_at),
        "retention": table.retention,
    }
