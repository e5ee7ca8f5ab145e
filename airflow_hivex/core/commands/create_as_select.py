"""CREATE TABLE AS SELECT: a table and its rows become visible together, and can replace another table."""

from __future__ import annotations

import logging
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.snapshot_rows import table_calls
from airflow_hivex.core.commands import temporary_tables
from airflow_hivex.core.commands.table_definitions import check_columns, describe_table
from airflow_hivex.core.commands.tables import create_table, delete_tables, store_table
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchTableError,
)
from airflow_hivex.core.execution import external_writes, planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.insert_targets import InsertedRows
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.execution.write_outcomes import register_writes, take_back
from airflow_hivex.core.execution.writing import record_batch
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.statements import CreateTable
from airflow_hivex.core.transactions.pending_writes import PendingWrite

# CREATE OR REPLACE TABLE and REPLACE TABLE: a new table takes the place of another one in one commit.
#
# Readers see the earlier table or the new one. The new one has an id, a folder and write ids of its own.


_MOST_TRIES = 20


def replaced_table(context: StatementContext, statement: CreateTable) -> StoredTable | None:
    """Return the table that a new table replaces, or None if no table has the name.

    Raises:
        NoSuchTableError: the statement is REPLACE TABLE, and the table does not exist.
        InvalidOperationError: a view has the name, or links show the table.
    """
    database, name = context.session.qualify(statement.table)
    try:
        table = context.services.catalog.get_table(database, name)
    except NoSuchTableError:
        if statement.must_exist:
            raise
        return None
    if table.is_view:
        raise InvalidOperationError(statement.kind, table.full_name, "it is a view; CREATE OR REPLACE VIEW replaces it")
    links = context.services.links.of_table(table)
    if links:
        reason = f"links show it, such as {links[0].name}; drop them first"
        raise InvalidOperationError(statement.kind, table.full_name, reason)
    return table


def run_create(context: StatementContext, statement: CreateTable) -> Result:
    """Create a table: a temporary one, from a query, in the place of an earlier one, or a new one."""
    if statement.temporary:
        return temporary_tables.create_temporary(context, statement, _create_stored)
    return _create_stored(context, statement)


def _create_stored(context: StatementContext, statement: CreateTable) -> Result:
    if statement.query is not None:
        return run_create_table_as_select(context, statement)
    return (run_replace if statement.or_replace else create_table)(context, statement)


def run_replace(context: StatementContext, statement: CreateTable) -> Result:
    """Create an empty table. An existing table of the same name is dropped in the same commit.

    If another session creates, drops or replaces the table of this name meanwhile, the statement is retried.

    Raises:
        AlreadyExistsError, NoSuchTableError: other sessions have changed the table of this name at every retry.
        NoSuchTableError, InvalidOperationError: as :func:`replaced_table`.
    """
    for attempt in range(1, _MOST_TRIES + 1):
        earlier = replaced_table(context, statement)
        try:
            if earlier is None:
                return store_table(context, describe_table(context, statement))
            return _replace(context, statement, earlier)
        except (AlreadyExistsError, NoSuchTableError) as error:
            if attempt == _MOST_TRIES:
                raise
            log.info("%s is retried: %s", statement.kind, error)
    raise AssertionError("the loop returns or raises")


def _replace(context: StatementContext, statement: CreateTable, earlier: StoredTable) -> Result:
    table = describe_table(context, statement, earlier.storage.primary.cluster)
    dropped: list[StoredTable] = []

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog = context.services.catalog.joining(connection)
        dropped.append(catalog.drop_table(earlier.database, earlier.name, write_ids, txn_id))
        catalog.create_table(table, txn_id=txn_id if table.is_transactional else None)

    result = change_metadata(context, earlier, context.services.statement_locks.replace_table(earlier), change)
    delete_tables(context, dropped[-1:])
    return result


log = logging.getLogger(__name__)


def run_create_table_as_select(context: StatementContext, statement: CreateTable, *, waits: bool = False) -> Result:
    """Create a table with the rows of a query, on the cluster that runs the query, in one commit.

    If the new table replaces an earlier table, the query can read the earlier table. If another statement is creating a
    table of the same name, and ``waits`` is true, this statement waits for the other one, even if
    ``hive.txn.xlock.ctas`` forbids such waits.
    """
    with own_transaction(context) as running:
        earlier = _claim_name(context, running, statement, waits=waits)
        if earlier is not None and not statement.or_replace:
            result = _exists(context, statement)
            if running.opened_id is not None:
                context.services.transactions.abort(running.opened_id, "the table exists already")
            return result
        replacing = () if earlier is None else context.services.statement_locks.replace_table(earlier)
        routed = route(context, statement, running, locks=replacing)
        if replacing:
            # The earlier owner of the lock may have replaced or dropped the table.
            earlier = replaced_table(context, statement)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        assert routed.statement.query is not None
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        given = context.run(cluster, replace(plan, max_rows=0)).columns
        table = describe_table(context, _with_query_columns(statement, given), cluster.name)
        names = tuple(column.name for column in given)
        create = _create_external if table.is_external else _create_managed
        rows_written, dropped = create(context, running, plan, table, names, cluster, earlier)
    delete_tables(context, dropped[-1:])
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=rows_written, route=routed.route)


def _create_managed(
    context: StatementContext,
    running: Running,
    plan: Plan,
    table: Table,
    names: tuple[str, ...],
    cluster: Cluster,
    earlier: StoredTable | None,
) -> tuple[int | None, list[StoredTable]]:
    """Run a plan and commit its rows as a managed table. Return the number of rows, and the replaced tables."""
    hidden, facts = _insert_hidden(context, running, table, cluster, earlier)
    running.undo += [lambda: _delete_table_files(context, hidden, cluster)]
    write = planning.write(hidden, cluster, facts, InsertedRows(columns=names))
    written = context.run(cluster, replace(plan, write=write))
    dropped: list[StoredTable] = []

    def changes(connection: Connection) -> None:
        dropped.extend(_drop_earlier(context, connection, running, earlier))
        table_rows.reveal(connection, hidden)
        writes = [(hidden, facts, written.directories)]
        register_writes(context.services, connection, writes, reveals_table=True)
        record_batch(context, connection, hidden, running.txn_id)

    context.services.transactions.commit(running.txn_id, changes)
    return written.rows_written, dropped


def _create_external(
    context: StatementContext,
    running: Running,
    plan: Plan,
    table: Table,
    names: tuple[str, ...],
    cluster: Cluster,
    earlier: StoredTable | None,
) -> tuple[int | None, list[StoredTable]]:
    """Run a plan and commit its rows as an external table. Return the number of rows, and the replaced tables.

    As in Spark, the folder must be empty.

    Raises:
        InvalidOperationError: the folder has files, or the table's format cannot be written.
    """
    services = context.services
    if table.not_inserted:
        raise InvalidOperationError(context.kind, table.full_name, table.not_inserted)
    location = table.storage.primary.location
    if location and services.files(cluster).list_files(location):
        reason = f"there are files in {location}; CREATE TABLE without AS SELECT makes a table of them"
        raise InvalidOperationError(context.kind, table.full_name, reason)

    def note(connection: Connection) -> tuple[StoredTable, TableWrite, PendingWrite]:
        hidden = table_rows.insert_table(connection, table, services.clock(), hidden=True)
        facts = TableWrite(running.txn_id, 0, cluster.name, statement=context.kind)
        return hidden, *external_writes.note(context, connection, running, hidden, facts)

    hidden, facts, pending = services.store.write(note)

    def undo() -> None:
        if take_back(services, [pending], own=True):
            services.catalog.forget_tables([hidden])

    running.undo.append(undo)
    write = planning.write(hidden, cluster, facts, InsertedRows(columns=names))
    written = context.run(cluster, replace(plan, write=write))
    published = external_writes.publish(context, running, hidden, facts, pending, written.directories)
    dropped: list[StoredTable] = []

    def changes(connection: Connection) -> None:
        dropped.extend(_drop_earlier(context, connection, running, earlier))
        table_rows.reveal(connection, hidden)
        registration = external_writes.register_new(connection, published, running.txn_id)
        services.catalog.joining(connection).register(registration)
        record_batch(context, connection, hidden, running.txn_id)

    services.transactions.commit(running.txn_id, changes)
    external_writes.finish(services, published)
    return written.rows_written, dropped


def _drop_earlier(
    context: StatementContext, connection: Connection, running: Running, earlier: StoredTable | None
) -> list[StoredTable]:
    if earlier is None:
        return []
    catalog = context.services.catalog.joining(connection)
    return [catalog.drop_table(earlier.database, earlier.name, txn_id=running.txn_id)]


def _existing(context: StatementContext, statement: CreateTable) -> StoredTable | None:
    try:
        return context.services.catalog.get_table(*context.session.qualify(statement.table))
    except NoSuchTableError:
        return None


def _exists(context: StatementContext, statement: CreateTable) -> Result:
    """Return the result of CREATE TABLE IF NOT EXISTS for an existing table.

    Raises:
        AlreadyExistsError: the statement has no IF NOT EXISTS.
    """
    if statement.if_not_exists:
        return Result(rows_written=0)
    raise AlreadyExistsError("table", ".".join(context.session.qualify(statement.table)))


def _claim_name(
    context: StatementContext, running: Running, statement: CreateTable, *, waits: bool
) -> StoredTable | None:
    """Return the existing table with the new table's name. If there is no such table, lock the name and return None.

    Raises:
        NoSuchTableError, InvalidOperationError: the table cannot be replaced.
    """
    locks = context.services.statement_locks
    find = replaced_table if statement.or_replace else _existing
    earlier = find(context, statement)
    if earlier is None:
        database, name = context.session.qualify(statement.table)
        new_table = locks.create_table_as_select(database, name)
        also = table_calls([(database, name)])
        answers = acquire(context, running, new_table, new_table=not waits, also=also)
        if answers is None or answers[0]:
            # The earlier owner of the lock may have created the table.
            earlier = find(context, statement)
    return earlier


def _with_query_columns(statement: CreateTable, given: tuple[Column, ...]) -> CreateTable:
    """Return the statement with the columns of its query. Its PARTITIONED BY names some of these columns."""
    if statement.columns:
        raise InvalidObjectError("table", str(statement.table), "a column list does not go with AS SELECT")
    check_columns(str(statement.table), given)
    return replace(statement, columns=tuple(replace(column, type=str(column.parsed_type)) for column in given))


def _insert_hidden(
    context: StatementContext, running: Running, table: Table, cluster: Cluster, earlier: StoredTable | None
) -> tuple[StoredTable, TableWrite]:
    """Store the new table in the metastore, but invisible to all clients. Return the table, and the facts of its write.

    If this process is killed, the cleaner removes the hidden table. The write ids of the new table are higher than the
    write id that this transaction takes in the ``earlier`` table.
    """
    services = context.services
    ids = [running.txn_id]

    def work(connection: Connection) -> tuple[StoredTable, TableWrite]:
        first = 1
        if earlier is not None and earlier.is_transactional:
            first = services.transactions.allocate_in(connection, ids, earlier.id)[running.txn_id] + 1
        hidden = table_rows.insert_table(connection, table, services.clock(), hidden=True, first_write_id=first)
        allocated = services.transactions.allocate_in(connection, ids, hidden.id, operation=Operation.INSERT)
        return hidden, TableWrite(running.txn_id, allocated[running.txn_id], cluster.name, statement=context.kind)

    return services.store.write(work)


def _delete_table_files(context: StatementContext, hidden: Table, cluster: Cluster) -> None:
    try:
        context.services.files_to_change(cluster).delete_directory(hidden.storage.primary.location)
    except HivexError as error:
        # The hidden row still has the location for the cleaner.
        log.warning("Files of %s could not be deleted: %s", hidden.full_name, error)
