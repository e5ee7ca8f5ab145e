"""SELECT, INSERT and CREATE TABLE AS SELECT: routed, run as one job, committed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog import partitions, tables, written_batches
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchTableError,
)
from airflow_hivex.core.model.batches import BatchKey
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.statements import CreateTable, DescribeQuery, ExplainQuery, Insert, Query, Select
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.spark.values import write_rows
from airflow_hivex.core.statements import planning, resuming
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.insert_targets import check_insert, static_partition
from airflow_hivex.core.statements.locking import acquire
from airflow_hivex.core.statements.pending import register_writes
from airflow_hivex.core.statements.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.statements.table_definitions import check_columns, describe_table
from airflow_hivex.core.statements.transactions import in_transaction, own_transaction
from airflow_hivex.core.statements.writing import BatchWrittenError, OpenWrite, begin_write, end_write
from airflow_hivex.core.transactions import pending_writes

log = logging.getLogger(__name__)


def run_select(context: StatementContext, statement: Select) -> Result:
    """Return the rows of a query, at most ``max_rows`` of them."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running, may_lag=True)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=context.max_rows))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Result(
            columns=[column.name for column in found.columns],
            rows=list(found.rows),
            cluster=cluster.name,
            txn_id=running.txn_id,
            truncated=found.truncated,
            route=routed.route,
            as_of=routed.as_of,
            column_types=[column.type for column in found.columns],
        )

    return in_transaction(context, work, read_only=True)


def run_describe_query(context: StatementContext, statement: DescribeQuery) -> Result:
    """Return the columns of a query's result, with Spark's types; Spark analyses the query and runs nothing."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running, may_lag=True)
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=0))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Result(
            columns=["col_name", "data_type", "comment"],
            rows=[(column.name, column.type, column.comment) for column in found.columns],
            cluster=cluster.name,
            txn_id=running.txn_id,
            route=routed.route,
        )

    return in_transaction(context, work, read_only=True)


def run_explain_query(context: StatementContext, statement: ExplainQuery) -> Result:
    """Return Spark's plan of a query on the cluster that would run it; nothing of it is run."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running, may_lag=True)
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        found = context.run(cluster, replace(plan, explain=str(statement.mode)))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Result(
            columns=["plan"],
            rows=list(found.rows),
            cluster=cluster.name,
            txn_id=running.txn_id,
            route=routed.route,
            as_of=routed.as_of,
        )

    return in_transaction(context, work, read_only=True)


def run_insert(context: StatementContext, statement: Insert) -> Result:
    """Return the rows written: by this process where they are constants, else by a job on the table's primary.

    None are written where the table has the statement's batch already.
    """
    key = context.batch_key
    if key is not None and context.session.transaction is not None:
        raise InvalidOperationError(
            "A write with app_id and batch_id",
            f"transaction {context.session.transaction.txn_id}",
            "it is open, and the batch is recorded by a commit of its own; COMMIT or ROLLBACK comes first",
        )

    def work(running: Running) -> Result:
        running.check_may_write("INSERT")
        routed = route(context, statement, running)
        target = routed.target
        static = check_insert(statement, target)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        if key is not None and _is_written(context, target, key):
            context.services.transactions.abort(running.txn_id, f"{target.full_name} has {key} already")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        whole = static_partition(target, static)
        if statement.if_not_exists and whole is not None and partition_exists(context, running, target, whole):
            if running.joined is None:
                context.services.transactions.abort(running.txn_id, "the partition exists already")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        write = begin_write(
            context,
            running,
            target,
            cluster,
            overwrite=statement.overwrite,
            static=static,
            partition=whole,
            input_columns=statement.columns or (),
        )
        written = _write(context, running, statement, routed, cluster, write)
        end_write(context, running, write, written)
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )

    try:
        return in_transaction(context, work)
    except BatchWrittenError:
        log.info("%s was written by another process", key)
        return Result(rows_written=0)


def _is_written(context: StatementContext, table: StoredTable, key: BatchKey) -> bool:
    with context.services.store.read() as connection:
        return written_batches.is_written(connection, table.id, key)


def run_create_table_as_select(context: StatementContext, statement: CreateTable) -> Result:
    """Return a new table with the rows of a query, on the cluster that runs it; table and rows appear at once."""
    database, name = context.session.qualify(statement.table)
    if _table_exists(context, database, name):
        if statement.if_not_exists:
            return Result(rows_written=0)
        raise AlreadyExistsError("table", f"{database}.{name}")
    with own_transaction(context) as running:
        new_table = context.services.statement_locks.create_table_as_select(database, name)
        acquire(context, running, new_table, new_table=True)
        # Who had the lock before may have made it.
        if _table_exists(context, database, name):
            if not statement.if_not_exists:
                raise AlreadyExistsError("table", f"{database}.{name}")
            context.services.transactions.abort(running.txn_id, "the table exists already")
            return Result(rows_written=0)
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        assert routed.statement.query is not None
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        given = context.run(cluster, replace(plan, max_rows=0)).columns
        table = describe_table(context, _with_query_columns(statement, given), cluster.name)
        if table.is_external:
            raise InvalidOperationError(
                "CREATE TABLE AS SELECT", table.full_name, "the new table must be a managed one"
            )
        hidden = _insert_hidden(context, running, table)
        running.undo += [lambda: _delete_table_files(context, hidden, cluster)]
        facts = TableWrite(running.txn_id, 1, cluster.name)
        write = planning.write(hidden, cluster, facts, input_columns=[column.name for column in given])
        written = context.run(cluster, replace(plan, write=write))

        def changes(connection: Connection) -> None:
            tables.reveal(connection, hidden)
            writes = [(hidden, facts, written.directories)]
            register_writes(context.services, connection, writes, reveals_table=True)

        context.services.transactions.commit(running.txn_id, changes)
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route)


def plan_query(
    context: StatementContext, running: Running, query: Query, routed: RoutedQuery[Any], cluster: Cluster
) -> Plan:
    """Return the plan of the job that computes the rows of a query."""
    views = [f"{running.tag}_{i}" for i in range(len(routed.bound))]
    scans = (
        planning.scan(bound, cluster, view, row_id=row_id)
        for bound, view, row_id in zip(routed.bound, views, routed.row_ids, strict=True)
    )
    return planning.plan_job(
        context,
        running,
        cluster,
        scans,
        sql=query.render(views),
        parameters=query.parameters,
        loaded=query.loaded,
    )


def _write(
    context: StatementContext,
    running: Running,
    statement: Insert,
    routed: RoutedQuery[Insert],
    cluster: Cluster,
    write: OpenWrite,
) -> JobResult:
    if statement.rows is not None:
        written = write_rows(write.write, statement.rows)
        if written is not None:
            return written
    plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
    return context.run(cluster, plan, resuming.resumable(context, running, write.pending, write.table, plan))


def partition_exists(context: StatementContext, running: Running, target: StoredTable, name: str) -> bool:
    """Return whether a partition is there for the statement: in the catalog, or made by its transaction before."""
    with context.services.store.read() as connection:
        if partitions.partition_ids(connection, target, [name]):
            return True
        own = {} if running.joined is None else pending_writes.written_directories(connection, running.txn_id)
    return name in own.get(target.id, {})


def _table_exists(context: StatementContext, database: str, name: str) -> bool:
    try:
        context.services.catalog.get_table(database, name)
    except NoSuchTableError:
        return False
    return True


def _with_query_columns(statement: CreateTable, given: tuple[Column, ...]) -> CreateTable:
    """Return the definition with the query's columns; PARTITIONED BY names some of them."""
    if statement.columns:
        raise InvalidObjectError("table", str(statement.table), "a column list does not go with AS SELECT")
    check_columns(str(statement.table), given)
    return replace(statement, columns=given)


def _insert_hidden(context: StatementContext, running: Running, table: Table) -> StoredTable:
    """Return the new table, out of sight, with a write id of this transaction: a killed writer leaves its trace."""
    services = context.services

    def work(connection: Connection) -> StoredTable:
        hidden = tables.insert_table(connection, table, services.clock(), hidden=True)
        services.transactions.allocate_in(connection, [running.txn_id], hidden.id, operation=Operation.INSERT)
        return hidden

    return services.store.write(work)


def _delete_table_files(context: StatementContext, hidden: Table, cluster: Cluster) -> None:
    try:
        context.services.files_to_change(cluster).delete_directory(hidden.storage.primary.location)
    except HivexError as error:
        # The hidden row still names the place for whoever cleans up.
        log.warning("Files of %s could not be deleted: %s", hidden.full_name, error)
