"""ALTER TABLE for partitions: ADD, DROP and RENAME."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import directories_of
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.partitions import name_of
from airflow_hivex.core.catalog.specifications import check_partitioned, clause_condition, covered, typed_specification
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
)
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Partition, StoredPartition, StoredTable, Table
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements import AddPartitions, DropPartitions, Literal, RenamePartition
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.metadata_changes import change_metadata, check_location, forget_dropped

log = logging.getLogger(__name__)

DroppedPartitions: TypeAlias = list[tuple[StoredPartition, Sequence[str]]]
"""Partitions that are out of sight, with the names of the directories that they had."""


def add_partitions(context: StatementContext, statement: AddPartitions) -> Result:
    """ALTER TABLE ADD PARTITION, all or none."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    check_partitioned("ADD PARTITION", table)
    keys = {key.name: key for key in table.partition_keys}
    cluster = context.services.clusters.get(table.storage.primary.cluster)
    new = []
    for specification, location in statement.partitions:
        for key in specification:
            if key not in keys:
                raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", list(keys))
        if location and not table.is_external:
            raise InvalidOperationError(
                "ADD PARTITION with LOCATION", table.full_name, "partitions of a managed table lie below the table"
            )
        check_location(context, "partition", f"of {table.full_name}", location, cluster, is_external=True)
        missing = [key for key in keys if key not in specification]
        if missing:
            raise InvalidObjectError("partition", f"of {table.full_name}", f"no value for key {missing[0]}")
        new.append(catalog.new_partition(table, [specification[key].value for key in keys], location or ""))  # type: ignore[misc]

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        catalog.joining(connection).add_partitions(
            database, name, new, write_ids, if_not_exists=statement.if_not_exists, txn_id=txn_id
        )

    names = [partition.name for partition in new]
    locks = context.services.statement_locks.add_partitions(table, names, if_not_exists=statement.if_not_exists)
    return change_metadata(context, table, locks, change)


def drop_partitions(context: StatementContext, statement: DropPartitions) -> Result:
    """ALTER TABLE DROP PARTITION: every partition that a specification covers; then their files."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    names: set[str] = set()
    for specification in statement.specifications:
        found = covered_partitions(context, "DROP PARTITION", table, specification)
        if not found and not statement.if_exists:
            raise NoSuchPartitionError(table.database, table.name, "that the specification covers")
        names |= set(found)
    if not names:
        return Result()
    dropped: DroppedPartitions = []

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        dropped[:] = drop_in(context, connection, table, sorted(names), write_ids, txn_id)

    locks = context.services.statement_locks.drop_partitions(table, sorted(names))
    result = change_metadata(context, table, locks, change)
    delete_partitions(context, table, dropped)
    return result


def drop_in(
    context: StatementContext,
    connection: Connection,
    table: StoredTable,
    names: Sequence[str],
    write_ids: ValidWriteIdList | None,
    txn_id: int | None,
) -> DroppedPartitions:
    """Take partitions out of sight, in the caller's commit, and return them with the directories that they had."""
    gone = context.services.catalog.joining(connection).drop_partitions(
        table.database, table.name, names, write_ids, if_exists=True, txn_id=txn_id
    )
    registered = directories_of(connection, table, [partition.id for partition in gone])
    return [(each, [found.name for found in registered.get(each.id, ())]) for each in gone]


def rename_partition(context: StatementContext, statement: RenamePartition) -> Result:
    """ALTER TABLE PARTITION RENAME: its directories are copied first; the old ones go once the new name counts.

    Raises:
        NoSuchPartitionError: it does not exist.
        AlreadyExistsError: there is a partition of the new name.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    old, new = (partition_name_of("RENAME PARTITION", table, each) for each in (statement.partition, statement.name))
    names = catalog.list_partition_names(database, name)
    if old not in names:
        raise NoSuchPartitionError(table.database, table.name, old)
    if new in names:
        raise AlreadyExistsError("partition", f"{table.full_name} {new}", "choose another name")
    made: list[tuple[ClusterStorageDescriptor, Sequence[str]]] = []
    needless: list[str] = []

    def copy(running: Running) -> None:
        # Others may have come while the locks were waited for.
        partition = catalog.get_partition(database, name, partition_values(old))
        directories = _directories(catalog, table, old, statement.partition)
        for source in _managed_copies(table, partition):
            target = source.location.removesuffix(old) + new
            made.append((source, directories))
            running.undo.append(partial(_delete_copied, context, table, [(source.cluster, target, directories)]))
            files = context.services.files_to_change(context.services.clusters.get(source.cluster))
            for directory in directories:
                log.info("Copying %s of %s to %s", directory, partition.name, new)
                # What a rename that was killed has left there.
                files.delete_directory(f"{target}/{directory}")
                files.copy_directory(f"{source.location}/{directory}", f"{target}/{directory}")

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        catalog.joining(connection).rename_partition(database, name, old, new, write_ids, txn_id=txn_id)
        # The cleaner, which takes no locks, may have deleted some since they were copied.
        left = _directories(catalog.joining(connection), table, new, statement.name)
        needless[:] = sorted({directory for _, directories in made for directory in directories} - set(left))

    locks = context.services.statement_locks.rename_partition(table, [old, new])
    result = change_metadata(context, table, locks, change, before=copy)
    for source, directories in made:
        target = source.location.removesuffix(old) + new
        _delete_copied(context, table, [(source.cluster, source.location, directories)])
        _delete_copied(context, table, [(source.cluster, target, needless)])
    return result


def _directories(catalog: ObjectStore, table: Table, name: str, clause: Mapping[str, Literal]) -> list[str]:
    """Return the registered directories of the partition that a clause names."""
    named = (table.database, table.name)
    snapshot = catalog.snapshot([named])
    condition = clause_condition("RENAME PARTITION", table, clause)
    contents = catalog.contents(snapshot, snapshot.tables[named], condition, ())
    ids = [each.id for each in contents.partitions if each.name == name]
    return [each.name for partition_id in ids for each in contents.directories.get(partition_id, ())]


def partition_name_of(operation: str, table: Table, specification: Mapping[str, Literal]) -> str:
    """Return the name of the one partition that a PARTITION clause with all keys names.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a key has no value, or one that is not of its type.
    """
    check_partitioned(operation, table)
    keys = [key.name.lower() for key in table.partition_keys]
    for key in specification:
        if key not in keys:
            raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", keys)
    missing = [key for key in keys if key not in specification]
    if missing:
        raise InvalidObjectError("partition", f"of {table.full_name}", f"no value for key {missing[0]}")
    return name_of(table, [specification[key].value for key in keys])  # type: ignore[misc]


def _managed_copies(table: Table, partition: Partition) -> list[ClusterStorageDescriptor]:
    """Return where the files of a partition lie that are ours, on all clusters."""
    if table.is_external:
        return []
    primary = table.storage.primary
    return [
        ClusterStorageDescriptor(primary.cluster, f"{primary.location}/{partition.name}"),
        *partition.secondaries,
    ]


def _delete_copied(context: StatementContext, table: Table, places: Iterable[tuple[str, str, Sequence[str]]]) -> None:
    """Delete directories of a partition that no row names; what cannot be deleted is logged."""
    for cluster, location, directories in places:
        try:
            files = context.services.files_to_change(context.services.clusters.get(cluster))
            for directory in directories:
                files.delete_directory(f"{location}/{directory}")
            files.delete_empty_directories(location, len(table.partition_keys))
        except HivexError as error:
            log.warning("Files of %s in %s are still there: %s", table.full_name, location, error)


def covered_partitions(context: StatementContext, operation: str, table: Table, specification: Predicate) -> list[str]:
    """Return the names of the partitions that a PARTITION clause covers, sorted.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a value is not of its key's type.
    """
    exact = typed_specification(operation, table, specification)
    names = context.services.catalog.list_partition_names(table.database, table.name, exact)
    return covered(names, exact, table.partition_keys)


def delete_partitions(
    context: StatementContext, table: Table, dropped: Sequence[tuple[StoredPartition, Sequence[str]]]
) -> None:
    """Delete exactly the directories that dropped partitions had.

    Never the folder with all in it: an INSERT that runs now may be writing the same partition.
    """
    gone = []
    # The root of a cluster is checked once, not for each partition.
    checked: dict[str, ClusterFiles] = {}
    for partition, directories in dropped:
        try:
            for copy in _managed_copies(table, partition):
                files = checked.get(copy.cluster)
                if files is None:
                    files = context.services.files_to_change(context.services.clusters.get(copy.cluster))
                    checked[copy.cluster] = files
                for directory in directories:
                    files.delete_directory(f"{copy.location}/{directory}")
                files.delete_empty_directories(copy.location, len(table.partition_keys))
        except HivexError as error:
            log.warning(
                "Files of the dropped partition %s of %s are still there: %s", partition.name, table.full_name, error
            )
        else:
            gone.append(partition)
    if gone:
        name = f"{table.full_name} {gone[0].name}"
        forget_dropped(name, lambda: context.services.catalog.forget_partitions(gone))
