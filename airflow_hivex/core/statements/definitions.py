"""CREATE, ALTER and DROP of databases, tables and partitions, and the session's own statements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import directories_of
from airflow_hivex.core.catalog.specifications import check_partitioned, covered, typed_specification
from airflow_hivex.core.catalog.tables import is_visible
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Database, Partition, Table
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements import (
    AddColumns,
    AddPartitions,
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropPartitions,
    DropTable,
    RenameTable,
    SetTableProperties,
    UseCluster,
    UseDatabase,
)
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.statements.context import Result, StatementContext
from airflow_hivex.core.statements.locking import acquire
from airflow_hivex.core.statements.table_definitions import check_columns, check_properties, describe_table
from airflow_hivex.core.statements.transactions import own_transaction
from airflow_hivex.core.transactions.snapshots import read_valid_txns, read_valid_write_ids

log = logging.getLogger(__name__)


def create_database(context: StatementContext, statement: CreateDatabase) -> Result:
    """CREATE DATABASE."""
    _check_location("database", statement.name, statement.location)
    database = Database(
        name=statement.name,
        location=statement.location or "",
        description=statement.comment,
        owner=context.session.user,
        parameters=statement.properties,
    )
    try:
        context.services.catalog.create_database(database)
    except AlreadyExistsError:
        if not statement.if_not_exists:
            raise
    return Result()


def drop_database(context: StatementContext, statement: DropDatabase) -> Result:
    """DROP DATABASE; with CASCADE its tables go first, and their files after that."""
    dropped: list[Table] = []

    def change(connection: Connection) -> None:
        dropped[:] = context.services.catalog.drop_database(
            statement.name, cascade=statement.cascade, connection=connection
        )

    try:
        with own_transaction(context) as running:
            acquire(context, running, context.services.statement_locks.drop_database(statement.name))
            context.services.transactions.commit(running.txn_id, change)
    except NoSuchDatabaseError:
        if not statement.if_exists:
            raise
        return Result()
    _delete_tables(context, dropped)
    return Result(txn_id=running.txn_id)


def alter_database(context: StatementContext, statement: AlterDatabase) -> Result:
    """ALTER DATABASE: properties are added to those it has."""
    catalog = context.services.catalog
    database = catalog.get_database(statement.name)
    _check_location("database", statement.name, statement.location)
    catalog.alter_database(
        statement.name,
        replace(
            database,
            parameters={**database.parameters, **statement.properties},
            owner=statement.owner or database.owner,
            location=statement.location or database.location,
        ),
    )
    return Result()


def _check_location(kind: str, name: str, location: str | None) -> None:
    if location is not None and not location.strip("/."):
        raise InvalidObjectError(kind, name, f"location {location!r} names no folder of its own")


def use_database(context: StatementContext, statement: UseDatabase) -> Result:
    """USE: the database must exist."""
    context.session.database = context.services.catalog.get_database(statement.name).name
    return Result()


def use_cluster(context: StatementContext, statement: UseCluster) -> Result:
    """USE CLUSTER: pins the session to a cluster that is configured (S2, S4), or frees it (S3)."""
    if statement.name is not None:
        context.services.clusters.get(statement.name)
    context.session.cluster = statement.name
    return Result(cluster=statement.name)


def create_table(context: StatementContext, statement: CreateTable) -> Result:
    """CREATE TABLE without a query. A managed table takes its first write id with it."""
    table = describe_table(context, statement)
    services = context.services
    try:
        with own_transaction(context) as running:
            acquire(context, running, services.statement_locks.create_table(table.database))

            def changes(connection: Connection) -> None:
                txn_id = running.txn_id if table.is_transactional else None
                created = services.catalog.create_table(table, txn_id=txn_id, connection=connection)
                if table.is_transactional:
                    services.transactions.allocate_in(connection, [running.txn_id], int(created.id or 0))

            services.transactions.commit(running.txn_id, changes)
            return Result(txn_id=running.txn_id)
    except AlreadyExistsError:
        if not statement.if_not_exists:
            raise
        return Result()


def drop_table(context: StatementContext, statement: DropTable) -> Result:
    """DROP TABLE: out of sight at once; then the files of a managed table are deleted on every cluster."""
    database, name = context.session.qualify(statement.table)
    dropped: list[Table] = []

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        dropped.append(context.services.catalog.drop_table(database, name, write_ids, txn_id, connection=connection))

    try:
        table = context.services.catalog.get_table(database, name)
        if table.is_view:
            raise InvalidOperationError("DROP TABLE", table.full_name, "it is a view; DROP VIEW drops it")
        result = _change(context, table, context.services.statement_locks.drop_table(table), change)
    except (NoSuchTableError, NoSuchDatabaseError):
        if not statement.if_exists:
            raise
        return Result()
    _delete_tables(context, dropped[-1:])
    return result


def set_table_properties(context: StatementContext, statement: SetTableProperties) -> Result:
    """ALTER TABLE SET and UNSET TBLPROPERTIES."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    missing = [key for key in statement.unset if key not in table.parameters]
    if missing and not statement.if_exists:
        raise InvalidObjectError("table", table.full_name, f"it has no property {missing[0]} to unset")

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        current = catalog.get_table(database, name, connection=connection)
        kept = {key: value for key, value in current.parameters.items() if key not in statement.unset}
        after = {**kept, **statement.set}
        check_properties(current.full_name, current.parameters, after)
        catalog.alter_table(database, name, replace(current, parameters=after), write_ids, txn_id, connection)

    return _change(context, table, context.services.statement_locks.set_properties(table), change)


def rename_table(context: StatementContext, statement: RenameTable) -> Result:
    """ALTER TABLE RENAME TO: the rows stay where they are."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    # Without a database, the new name is one of the table's own.
    new_database, new_name = statement.name.database or database, statement.name.name
    if new_database != database:
        raise InvalidOperationError("ALTER TABLE RENAME", table.full_name, "a table cannot change its database")
    if statement.name == statement.table or new_name == name:
        raise AlreadyExistsError("table", f"{database}.{new_name}")

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        current = catalog.get_table(database, name, connection=connection)
        catalog.alter_table(database, name, replace(current, name=new_name), write_ids, txn_id, connection)

    return _change(context, table, context.services.statement_locks.alter_table(table), change)


def add_columns(context: StatementContext, statement: AddColumns) -> Result:
    """ALTER TABLE ADD COLUMNS: rows that are there have NULL in them."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    if table.is_view:
        raise InvalidOperationError("ALTER TABLE ADD COLUMNS", table.full_name, "it is a view; ALTER VIEW ... AS")

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        current = catalog.get_table(database, name, connection=connection)
        columns = (*current.columns, *statement.columns)
        check_columns(current.full_name, (*columns, *current.partition_keys))
        storage = replace(current.storage, columns=columns)
        catalog.alter_table(database, name, replace(current, storage=storage), write_ids, txn_id, connection)

    return _change(context, table, context.services.statement_locks.alter_table(table), change)


def add_partitions(context: StatementContext, statement: AddPartitions) -> Result:
    """ALTER TABLE ADD PARTITION, all or none."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    check_partitioned("ADD PARTITION", table)
    keys = {key.name: key for key in table.partition_keys}
    new = []
    for specification, location in statement.partitions:
        for key in specification:
            if key not in keys:
                raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", list(keys))
        if location and not table.is_external:
            raise InvalidOperationError(
                "ADD PARTITION with LOCATION", table.full_name, "partitions of a managed table lie below the table"
            )
        _check_location("partition", f"of {table.full_name}", location)
        missing = [key for key in keys if key not in specification]
        if missing:
            raise InvalidObjectError("partition", f"of {table.full_name}", f"no value for key {missing[0]}")
        new.append(catalog.new_partition(table, [specification[key].value for key in keys], location or ""))  # type: ignore[misc]

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        catalog.add_partitions(
            database,
            name,
            new,
            write_ids,
            if_not_exists=statement.if_not_exists,
            txn_id=txn_id,
            connection=connection,
        )

    names = [partition.name for partition in new]
    locks = context.services.statement_locks.add_partitions(table, names, if_not_exists=statement.if_not_exists)
    return _change(context, table, locks, change)


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
    dropped: list[tuple[Partition, Sequence[str]]] = []

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        gone = catalog.drop_partitions(
            database, name, sorted(names), write_ids, if_exists=True, txn_id=txn_id, connection=connection
        )
        registered = directories_of(connection, table, [int(partition.id or 0) for partition in gone])
        dropped[:] = [(each, [found.name for found in registered.get(each.id, ())]) for each in gone]

    locks = context.services.statement_locks.drop_partitions(table, sorted(names))
    result = _change(context, table, locks, change)
    _delete_partitions(context, table, dropped)
    return result


def covered_partitions(context: StatementContext, operation: str, table: Table, specification: Predicate) -> list[str]:
    """The names of the partitions that a PARTITION clause covers, sorted.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a value is not of its key's type.
    """
    exact = typed_specification(operation, table, specification)
    names = context.services.catalog.list_partition_names(table.database, table.name, exact)
    return covered(names, exact, table.partition_keys)


def _change(
    context: StatementContext,
    table: Table,
    locks: Sequence[LockComponent],
    change: Callable[[Connection, ValidWriteIdList | None, int | None], None],
) -> Result:
    """Apply a change of metadata under its locks: on a transactional table with a write id of its own, in its commit.

    The write id is what tells caches that the table has changed (seed 004).
    """
    services = context.services
    table_id = int(table.id or 0)
    with own_transaction(context) as running:
        acquire(context, running, locks)

        def changes(connection: Connection) -> None:
            if not table.is_transactional:
                change(connection, None, None)
                return
            if not is_visible(connection, table):
                raise NoSuchTableError(table.database, table.name)
            services.transactions.allocate_in(connection, [running.txn_id], table_id)
            valid_txns = read_valid_txns(connection, running.txn_id)
            write_ids = read_valid_write_ids(connection, {table_id: table.full_name}, valid_txns)[table_id]
            change(connection, write_ids, running.txn_id)

        services.transactions.commit(running.txn_id, changes)
        return Result(txn_id=running.txn_id)


def _delete_tables(context: StatementContext, dropped: Sequence[Table]) -> None:
    """Delete the files of dropped managed tables; what cannot be deleted stays noted in the metastore."""
    gone = []
    for table in dropped:
        copies = () if table.is_external else (table.storage.primary, *table.storage.secondaries)
        try:
            for copy in copies:
                context.services.files(context.services.clusters.get(copy.cluster)).delete_directory(copy.location)
        except HivexError as error:
            log.warning("Files of the dropped table %s are still there: %s", table.full_name, error)
        else:
            gone.append(table)
    if gone:
        context.services.catalog.forget_tables(gone)


def _delete_partitions(
    context: StatementContext, table: Table, dropped: Sequence[tuple[Partition, Sequence[str]]]
) -> None:
    """Delete exactly the directories that dropped partitions had.

    Never the folder with all in it: an INSERT that runs now may be writing the same partition anew.
    """
    gone = []
    for partition, directories in dropped:
        primary = ClusterStorageDescriptor(
            table.storage.primary.cluster, f"{table.storage.primary.location}/{partition.name}"
        )
        copies = () if table.is_external else (primary, *partition.secondaries)
        try:
            for copy in copies:
                files = context.services.files(context.services.clusters.get(copy.cluster))
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
        context.services.catalog.forget_partitions(gone)
