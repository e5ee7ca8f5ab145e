"""Rows of the metastore database as the catalog's objects, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.identifiers import check_owner
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    Partition,
    SortColumn,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import partition_values


def columns_from_json(columns: Iterable[dict[str, Any]]) -> tuple[Column, ...]:
    """Stored columns as values."""
    return tuple(Column(**column) for column in columns)


def database_from_row(row: Row[Any]) -> Database:
    """A row of ``databases``."""
    return Database(
        name=row.name,
        location=row.location,
        description=row.description,
        owner=row.owner,
        parameters=row.parameters,
        created_at=to_datetime(row.created_ms),
        id=row.id,
    )


def table_from_row(row: Row[Any], secondaries: Iterable[ClusterStorageDescriptor] = ()) -> Table:
    """A row of ``tables`` joined with its storage descriptor and ``database_name``.

    The location is the primary's; who asks on behalf of a cluster sets its own.
    """
    storage = StorageDescriptor(
        columns=columns_from_json(row.columns),
        primary=ClusterStorageDescriptor(row.primary_cluster, row.location),
        secondaries=tuple(secondaries),
        format=row.format,
        serde_parameters=row.serde_parameters,
        num_buckets=row.num_buckets,
        bucket_columns=tuple(row.bucket_columns),
        sort_columns=tuple(SortColumn(**column) for column in row.sort_columns),
    )
    return Table(
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
    )


def partition_from_row(table: Table, row: Row[Any], secondaries: Iterable[ClusterStorageDescriptor] = ()) -> Partition:
    """A row of ``partitions``."""
    return Partition(
        database=table.database,
        table=table.name,
        values=partition_values(row.name),
        name=row.name,
        location=row.location,
        secondaries=tuple(secondaries),
        parameters=row.parameters,
        created_at=to_datetime(row.created_ms),
        id=row.id,
    )


def storage_to_values(storage: StorageDescriptor) -> dict[str, Any]:
    """The columns of ``storage_descriptors``."""
    return {
        "columns": [asdict(column) for column in storage.columns],
        "format": storage.format,
        "serde_parameters": dict(storage.serde_parameters),
        "num_buckets": storage.num_buckets,
        "bucket_columns": list(storage.bucket_columns),
        "sort_columns": [asdict(column) for column in storage.sort_columns],
    }


def table_to_values(table: Table) -> dict[str, Any]:
    """The columns of ``tables`` that describe the table itself, without its place and ids."""
    return {
        "name": table.name,
        "type": table.type.value,
        "partition_keys": [asdict(column) for column in table.partition_keys],
        "parameters": dict(table.parameters),
        "owner": check_owner(table.owner),
        "comment": table.comment,
        "primary_cluster": table.storage.primary.cluster,
        "location": table.storage.primary.location,
        "view_original_text": table.view_original_text,
        "view_expanded_text": table.view_expanded_text,
    }
