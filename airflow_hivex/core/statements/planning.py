"""From bound tables and a chosen cluster to the scans and writes of a job's plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable
from airflow_hivex.core.clusters.properties import Cluster
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import LocatedPartition, Scan, Write, WriteIdFilter


def scan(bound: BoundTable, cluster: Cluster, view: str, *, row_ids: bool = False) -> Scan:
    """How a job on ``cluster`` reads a table, which has all that the query needs there."""
    table = bound.table
    on_primary = cluster.name == table.storage.primary.cluster
    copy = table.storage.on(cluster.name)
    root = table.storage.primary.location if copy is None else copy.location
    locations: Mapping[str, str] = {} if on_primary else bound.copies.get(cluster.name, {})
    paths: list[str] = []
    deletes: list[str] = []
    located: list[LocatedPartition] = []
    files = 0
    for partition in bound.partitions:
        location = partition.location if on_primary else locations[partition.name]
        found = _paths(table, partition, cluster, location)
        deletes += _delete_paths(partition, cluster, location)
        if table.is_partitioned and location != f"{root}/{partition.name}":
            there = _file_count(partition) if table.is_transactional else None
            located.append(LocatedPartition(nullable_values(partition.name), found, there))
        else:
            paths += found
            files += _file_count(partition)
    return Scan(
        view=view,
        table=table.full_name,
        columns=table.columns,
        partition_columns=table.partition_keys,
        format=table.storage.format,
        base_path=cluster.uri(root),
        paths=tuple(paths),
        located=tuple(located),
        options=table.storage.serde_parameters,
        layout=table.row_layout if table.is_transactional else None,
        filter=_filter(bound),
        deletes=tuple(deletes),
        row_ids=row_ids,
        files=files if table.is_transactional else None,
        delete_files=sum(
            directory.files
            for partition in bound.partitions
            for directory in partition.directories
            if directory.is_delete_delta
        ),
    )


def write(
    table: Table,
    cluster: Cluster,
    *,
    write_id: int,
    statement_id: int = 0,
    overwrite: bool = False,
    static: Mapping[str, str | None] | None = None,
    input_columns: Sequence[str] = (),
    locations: Mapping[str, str] | None = None,
) -> Write:
    """Where a job on the table's primary cluster writes. ``locations`` are relative ones by partition name."""
    storage = table.storage
    return Write(
        path=cluster.uri(storage.primary.location),
        table=table.full_name,
        columns=table.columns,
        partition_columns=table.partition_keys,
        write_id=write_id,
        statement_id=statement_id,
        overwrite=overwrite,
        layout=table.row_layout,
        format=storage.format,
        options=storage.serde_parameters,
        static=dict(static or {}),
        input_columns=tuple(input_columns),
        locations={name: cluster.uri(location) for name, location in (locations or {}).items()},
        bucket_columns=storage.bucket_columns,
        sort_columns=tuple(column.name for column in storage.sort_columns),
        num_buckets=storage.num_buckets,
    )


def _paths(table: Table, partition: BoundPartition, cluster: Cluster, location: str) -> tuple[str, ...]:
    if not table.is_transactional:
        return (cluster.uri(location),)
    # One without a file, as TRUNCATE makes it, only hides others.
    return tuple(
        cluster.uri(f"{location}/{directory.name}")
        for directory in partition.directories
        if not directory.is_delete_delta and directory.files
    )


def _file_count(partition: BoundPartition) -> int:
    return sum(directory.files for directory in partition.directories if not directory.is_delete_delta)


def _delete_paths(partition: BoundPartition, cluster: Cluster, location: str) -> Iterator[str]:
    for directory in partition.directories:
        if directory.is_delete_delta:
            yield cluster.uri(f"{location}/{directory.name}")


def _filter(bound: BoundTable) -> WriteIdFilter | None:
    if not bound.partly_visible or bound.write_ids is None:
        return None
    return WriteIdFilter(bound.write_ids.high_watermark, bound.write_ids.exceptions)
