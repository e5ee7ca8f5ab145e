"""ALTER TABLE for partitions: ADD, DROP and RENAME."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import directories_of
from airflow_hivex.core.catalog.dropped_partitions import DroppedPartition
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.partitions import name_of
from airflow_hivex.core.catalog.specifications import check_partitioned, clause_condition, covered, typed_specification
from airflow_hivex.core.commands.dropped_partitions import check_is_free, delete_needless, delete_partitions
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
)
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata, check_location
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Partition, StoredTable, Table
from airflow_hivex.core.model.partitions import check_folder_name, partition_values
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.parser.statements import AddPartitions, DropPartitions, Literal, RenamePartition

log = logging.getLogger(__name__)


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
        check_location(context, "partition", f"of {table.full_name}", location, database, cluster, is_external=True)
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
    dropped: list[DroppedPartition] = []

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        dropped[:] = drop_in(context, connection, table, sorted(names), write_ids, txn_id)

    locks = context.services.statement_locks.drop_partitions(table, sorted(names))
    result = change_metadata(context, table, locks, change)
    delete_partitions(context.services, table, dropped)
    return result


def drop_in(
    context: StatementContext,
    connection: Connection,
    table: StoredTable,
    names: Sequence[str],
    write_ids: ValidWriteIdList | None,
    txn_id: int | None,
) -> list[DroppedPartition]:
    """Take partitions out of sight, in the caller's commit, and return them with the directories that they had."""
    gone = context.services.catalog.joining(connection).drop_partitions(
        table.database, table.name, names, write_ids, if_exists=True, txn_id=txn_id
    )
    registered = directories_of(connection, table, [partition.id for partition in gone])
    return [
        DroppedPartition(
            each.id,
            each.name,
            tuple(_managed_copies(table, each)),
            tuple(found.name for found in registered.get(each.id, ())),
        )
        for each in gone
    ]


def rename_partition(context: StatementContext, statement: RenamePartition) -> Result:
    """ALTER TABLE PARTITION RENAME: its directories are copied first; the old ones go once the new name counts.

    Raises:
        NoSuchPartitionError: it does not exist.
        AlreadyExistsError: there is a partition of the new name.
        InvalidOperationError: files of an earlier partition of the new name may still be there.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    old, new = (partition_name_of("RENAME PARTITION", table, each) for each in (statement.partition, statement.name))
    if not table.is_external:
        check_folder_name(new)
    names = catalog.list_partition_names(database, name)
    if old not in names:
        raise NoSuchPartitionError(table.database, table.name, old)
    if new in names:
        raise AlreadyExistsError("partition", f"{table.full_name} {new}", "choose another name")
    services = context.services
    sources: list[ClusterStorageDescriptor] = []
    copied: list[str] = []
    needless: list[str] = []
    left: list[int] = []

    def targets() -> list[ClusterStorageDescriptor]:
        return [replace(each, location=each.location.removesuffix(old) + new) for each in sources]

    def copy(running: Running) -> None:
        if not table.is_external:
            check_is_free(services, "RENAME PARTITION", table, new)
        # Others may have come while the locks were waited for.
        partition = catalog.get_partition(database, name, partition_values(old))
        copied[:] = _directories(catalog, table, old, statement.partition)
        running.undo.append(lambda: delete_needless(services, table, new, targets(), copied))
        for source in _managed_copies(table, partition):
            sources.append(source)
            target = source.location.removesuffix(old) + new
            files = services.files_to_change(services.clusters.get(source.cluster))
            for directory in copied:
                # A process that has stood still past its time-out leaves the files alone.
                services.transactions.heartbeat(running.txn_id)
                log.info("Copying %s of %s to %s", directory, partition.name, new)
                # What a rename that was killed has left there.
                files.delete_directory(f"{target}/{directory}")
                files.copy_directory(f"{source.location}/{directory}", f"{target}/{directory}")

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        former = catalog.joining(connection).rename_partition(database, name, old, new, write_ids, txn_id=txn_id)
        left[:] = [] if former is None else [former]
        # The cleaner, which takes no locks, may have deleted some since they were copied.
        kept = _directories(catalog.joining(connection), table, new, statement.name)
        needless[:] = sorted(set(copied) - set(kept))

    locks = services.statement_locks.rename_partition(table, [old, new])
    result = change_metadata(context, table, locks, change, before=copy)
    former = [DroppedPartition(each, old, tuple(sources), tuple(copied)) for each in left]
    delete_partitions(services, table, former)
    if needless:
        delete_needless(services, table, new, targets(), needless)
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
