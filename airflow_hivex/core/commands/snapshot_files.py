"""The files of a table in one snapshot, for engines other than Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_hivex.core.catalog.bound_tables import BoundPartition
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.execution.statement_transactions import commit_kept, in_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.parser.statements import Select


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One data file: its URI, its size in bytes, and the values of its partition (None for NULL).

    If ``deletes`` is true, the file has the row ids of rows that were deleted from other files. ``row_layout`` is the
    layout of this file, or None in a table without transactions.
    """

    uri: str
    size_bytes: int
    partition: dict[str, str | None] = field(default_factory=dict)
    deletes: bool = False
    row_layout: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The files of a table in one snapshot.

    ``row_layout`` is the layout of new files; older files can have another layout. ``valid_write_ids`` is the snapshot
    in Hive's text form, or None for a table without transactions. If ``is_filtered`` is true, some files also have rows
    whose write id is not valid; readers must skip these rows.
    """

    table: str
    cluster: str
    format: str
    row_layout: str | None
    valid_write_ids: str | None
    is_filtered: bool
    files: tuple[SnapshotFile, ...]


def snapshot_files(context: StatementContext, statement: Select) -> SnapshotFiles:
    """Return the files of the table that a query names. The cleaner keeps the files until the snapshot expires."""

    def work(running: Running) -> SnapshotFiles:
        routed = route(context, statement, running, runs_job=False)
        cluster = chosen_cluster(context, routed)
        with context.services.files_of_root(cluster):
            found = _found(context, routed, cluster)
        commit_kept(context, running, (bound.table for bound in routed.bound))
        return found

    return in_transaction(context, work, read_only=True)


def _found(context: StatementContext, routed: RoutedQuery[Select], cluster: Cluster) -> SnapshotFiles:
    (bound,) = routed.bound
    return SnapshotFiles(
        table=bound.table.full_name,
        cluster=cluster.name,
        format=bound.table.storage.format,
        row_layout=bound.table.row_layout if bound.table.is_transactional else None,
        valid_write_ids=None if bound.write_ids is None else str(bound.write_ids),
        is_filtered=bound.partly_visible,
        files=tuple(each for partition in bound.partitions for each in _files(context, routed, cluster, partition)),
    )


def _files(
    context: StatementContext, routed: RoutedQuery[Select], cluster: Cluster, partition: BoundPartition
) -> Iterator[SnapshotFile]:
    (bound,) = routed.bound
    table = bound.table
    is_primary = cluster.name == table.storage.primary.cluster
    location = partition.location if is_primary else bound.copies[cluster.name][partition.name]
    values = nullable_values(partition.name)
    by_key = dict(zip((key.name for key in table.partition_keys), values, strict=True))
    files = context.services.files(cluster)
    folders = (
        [(each.name, each.is_delete_delta, each.row_layout) for each in partition.directories if not each.is_original]
        if table.is_transactional
        else [("", False, None)]
    )
    for each in partition.directories:
        if each.is_original:
            yield SnapshotFile(
                cluster.uri(f"{location}/{each.name}"), each.size_bytes, by_key, row_layout=each.row_layout
            )
    for folder, deletes, layout in folders:
        place = f"{location}/{folder}".rstrip("/")
        for name, size in files.list_files(place).items():
            yield SnapshotFile(cluster.uri(f"{place}/{name}"), size, by_key, deletes, layout)
