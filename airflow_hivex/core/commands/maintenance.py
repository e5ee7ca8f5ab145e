"""MSCK REPAIR TABLE, REFRESH and ALTER TABLE ... TOUCH."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.partition_rows import name_of, two_folders
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.commands.links import linked
from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata, check_links
from airflow_hivex.core.execution.routing import writing_cluster
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.parser.statements import RefreshTable, RepairPartitions, TouchTable

log = logging.getLogger(__name__)

_COLUMNS = ["partition", "action"]
_BATCH = 10_000


def repair_partitions(context: StatementContext, statement: RepairPartitions) -> Result:
    """Run MSCK REPAIR TABLE: add and drop partitions of an external table until they match its directories.

    Return one row for each difference. Either all partitions are changed, or none. Without REPAIR no partition is
    changed.

    Raises:
        RoutingError: the session is pinned to another cluster.
        InvalidOperationError: the table has no partition keys, or is managed. The partitions of a managed table are
            registered by commits.
        StorageError: the table's directories cannot be listed.
        InvalidObjectError: two directories have the same partition values.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    check_partitioned(statement.kind, table)
    if not table.is_external:
        reason = "its partitions are registered by the commits that write them; `hivex metastore doctor` compares them"
        raise InvalidOperationError(statement.kind, table.full_name, reason)
    cluster = writing_cluster(context, table)
    files = context.services.files(cluster)
    found = _directories(files, table)
    added = sorted(found.keys() - set(catalog.list_partition_names(database, name))) if statement.adds else []
    root = table.storage.primary.location
    dropped: list[str] = []
    if statement.drops:
        batches = catalog.get_partitions(database, name, batch_size=_BATCH)
        locations = {each.name: cluster.relative(each.location) for batch in batches for each in batch}
        dropped = sorted(
            each
            for each, location in locations.items()
            if each not in found and (location == f"{root}/{each}" or not files.exists(location))
        )
    if dropped:
        # A root that was unmounted meanwhile has no directories.
        context.services.roots.check(cluster.name)
    actions = ("added", "dropped") if statement.is_repair else ("not in metastore", "not on filesystem")
    rows: list[tuple[object, ...]] = [(each, actions[0]) for each in added]
    rows += [(each, actions[1]) for each in dropped]
    if not rows or not statement.is_repair:
        return Result(_COLUMNS, rows)
    new = [
        # A directory may spell a value differently from the metastore: month=01.
        catalog.new_partition(table, values, "" if path == each else f"{root}/{path}")
        for each in added
        for path, values in [found[each]]
    ]

    for each in added:
        check_links(context, "partition", f"{table.full_name} {each}", f"{root}/{found[each][0]}", database, cluster)

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        joined = catalog.joining(connection)
        if new:
            joined.add_partitions(database, name, new, write_ids, if_not_exists=True, txn_id=txn_id)
        if dropped:
            joined.drop_partitions(database, name, dropped, write_ids, if_exists=True, txn_id=txn_id)

    locks = context.services.statement_locks.alter_table(table)
    changed = change_metadata(context, table, locks, change)
    return Result(_COLUMNS, rows, txn_id=changed.txn_id)


def _directories(files: ClusterFiles, table: StoredTable) -> dict[str, tuple[str, tuple[str | None, ...]]]:
    """Return a dict from partition name to a pair (path of its directory below the table, values in this path)."""
    keys = [key.name.lower() for key in table.partition_keys]
    found: dict[str, tuple[str, tuple[str | None, ...]]] = {}
    for path in _partition_paths(files, table.storage.primary.location, keys):
        try:
            values = nullable_values(path)
            name = name_of(table, values)
        except InvalidObjectError as error:
            log.warning("The directory %s of %s is not a partition: %s", path, table.full_name, error)
            continue
        if name in found:
            raise two_folders(table, name, found[name][0], path)
        found[name] = path, values
    return found


def _partition_paths(files: ClusterFiles, location: str, keys: list[str]) -> Iterable[str]:
    """Return the sorted paths of directories ``key=value/...`` below a table."""
    paths = [""]
    for key in keys:
        paths = [
            f"{path}/{entry}" if path else entry
            for path in paths
            for entry in files.list_folders(f"{location}/{path}" if path else location)
            if entry.partition("=")[0].lower() == key and "=" in entry
        ]
    return sorted(paths)


def refresh_table(context: StatementContext, statement: RefreshTable) -> Result:
    """Run REFRESH TABLE: check that the table, view or link exists, and do nothing else."""
    if statement.table.namespace is not None:
        linked(context, statement.table)
    elif context.session.objects.view(statement.table) is None:
        context.services.catalog.get_table(*context.session.qualify(statement.table))
    return Result()


def touch_table(context: StatementContext, statement: TouchTable) -> Result:
    """Run ALTER TABLE TOUCH: store the table unchanged, and record an event for other clients.

    Raises:
        NoSuchPartitionError: the table has no partition of the name.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    if statement.partition is not None:
        partition = partition_name_of(statement.kind, table, statement.partition)
        if not catalog.get_partitions_by_names(database, name, [partition]):
            raise NoSuchPartitionError(database, name, partition)

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(database, name, lambda current: current, write_ids, txn_id)

    return change_metadata(context, table, context.services.statement_locks.set_properties(table), change)
