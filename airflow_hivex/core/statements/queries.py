"""SELECT, INSERT and CREATE TABLE AS SELECT: routed, run as one job, committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import tables
from airflow_hivex.core.catalog.partitions import name_of, stored_values
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.clusters.properties import Cluster
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    ColumnCountMismatchError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchTableError,
)
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.plans import JobResult, Plan, Write
from airflow_hivex.core.model.statements import CreateTable, Insert, MultiInsert, Query, Select
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.spark.values import write_rows
from airflow_hivex.core.statements import planning
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.statements.table_definitions import check_columns, describe_table
from airflow_hivex.core.statements.transactions import own_transaction

log = logging.getLogger(__name__)


def run_select(context: StatementContext, statement: Select) -> Result:
    """The rows of a query, at most ``max_rows`` of them."""
    with own_transaction(context, read_only=True) as running:
        routed = route(context, statement, running.txn_id)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        plan = _plan(context, running, statement.query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=context.max_rows))
        context.services.transactions.commit(running.txn_id)
    return Result(
        columns=[column.name for column in found.columns],
        rows=list(found.rows),
        cluster=cluster.name,
        txn_id=running.txn_id,
        truncated=found.truncated,
        route=routed.route,
    )


def run_insert(context: StatementContext, statement: Insert) -> Result:
    """The rows written: by this process where they are constants, else by a job on the table's primary."""
    with own_transaction(context) as running:
        routed = route(context, statement, running.txn_id)
        target = routed.target
        assert target is not None
        static = _check_insert(statement, target)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        whole = _static_partition(target, static)
        if statement.if_not_exists and whole is not None and _partition_exists(context, target, whole):
            context.services.transactions.abort(running.txn_id, "the partition exists already")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        # INSERT OVERWRITE of a transactional table counts as update (2.4).
        operation = Operation.UPDATE if statement.overwrite else Operation.INSERT
        write_id = context.services.transactions.allocate_write_ids(
            [running.txn_id], target.database, target.name, operation=operation, partition=whole
        )[running.txn_id]
        write = planning.write(
            target,
            cluster,
            write_id=write_id,
            overwrite=statement.overwrite,
            static=static,
            input_columns=statement.columns or (),
        )
        written = _write(context, running, statement, routed, cluster, write)
        running.undo += [lambda: _delete_written(context, target, written, cluster)]
        _commit_write(context, running, target, write, written, cluster, whole)
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route)


def refuse_multi_insert(context: StatementContext, statement: MultiInsert) -> Result:
    """Never a result: a multi-table INSERT is routed, so that the route's error comes first, and refused."""
    chosen_cluster(context, route(context, statement))
    names = ", ".join(str(name) for name in statement.targets)
    raise InvalidOperationError("A multi-table INSERT", names, "this release runs one INSERT a statement")


def run_create_table_as_select(context: StatementContext, statement: CreateTable) -> Result:
    """A new table with the rows of a query, on the cluster that runs it (R9); table and rows appear at once."""
    query = statement.query
    assert query is not None
    database, name = context.session.qualify(statement.table)
    if _table_exists(context, database, name):
        if statement.if_not_exists:
            return Result(rows_written=0)
        raise AlreadyExistsError("table", f"{database}.{name}")
    with own_transaction(context) as running:
        routed = route(context, statement, running.txn_id)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        plan = _plan(context, running, query, routed, cluster)
        given = context.run(cluster, replace(plan, max_rows=0)).columns
        table = describe_table(context, _with_query_columns(statement, given), cluster.name)
        if table.is_external:
            raise InvalidOperationError(
                "CREATE TABLE AS SELECT", table.full_name, "the new table must be a managed one"
            )
        hidden = _insert_hidden(context, running, table)
        running.undo += [lambda: _delete_table_files(context, hidden, cluster)]
        write = planning.write(hidden, cluster, write_id=1, input_columns=[column.name for column in given])
        written = context.run(cluster, replace(plan, write=write))
        _commit_write(context, running, hidden, write, written, cluster, None, new=True)
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route)


def _plan(context: StatementContext, running: Running, query: Query, routed: RoutedQuery, cluster: Cluster) -> Plan:
    views = [f"{running.tag}_{i}" for i in range(len(routed.bound))]
    return Plan(
        tag=running.tag,
        name=f"hivex transaction {running.txn_id} of {context.session.agent_info or context.session.user}",
        sql=query.render(views),
        scans=tuple(planning.scan(bound, cluster, view) for bound, view in zip(routed.bound, views, strict=True)),
        parameters={name: context.parameters[name] for name in query.parameters},
        spark_conf=cluster.spark_conf,
    )


def _write(
    context: StatementContext,
    running: Running,
    statement: Insert,
    routed: RoutedQuery,
    cluster: Cluster,
    write: Write,
) -> JobResult:
    if statement.rows is not None:
        written = write_rows(write, statement.rows)
        if written is not None:
            return written
    return context.run(cluster, replace(_plan(context, running, statement.query, routed, cluster), write=write))


def _commit_write(
    context: StatementContext,
    running: Running,
    table: Table,
    write: Write,
    written: JobResult,
    cluster: Cluster,
    partition: str | None,
    *,
    new: bool = False,
) -> None:
    """Commit, and in the same database transaction register what the job wrote."""

    def changes(connection: Connection) -> None:
        if new:
            tables.reveal(connection, table)
        context.services.catalog.register_write(
            connection,
            table,
            written.directories,
            txn_id=running.txn_id,
            write=write,
            cluster=cluster.name,
            partition=partition,
            new=new,
        )

    context.services.transactions.commit(running.txn_id, changes)


def _check_insert(statement: Insert, target: Table) -> dict[str, str | None]:
    """The static partition values as stored (None for NULL), after the statement was held against the table."""
    if not target.is_transactional:
        raise InvalidOperationError("INSERT", target.full_name, "it is an external table, and those are only read")
    keys = {key.name.lower(): key for key in target.partition_keys}
    if statement.partition:
        check_partitioned("INSERT with PARTITION", target)
    for name in statement.partition:
        if name not in keys:
            raise NoSuchColumnError(target.full_name, f"{name} among its partition keys", list(keys))
    if statement.partition and set(statement.partition) != set(keys):
        missing = ", ".join(key for key in keys if key not in statement.partition)
        raise InvalidObjectError("partition", f"of {target.full_name}", f"the PARTITION clause leaves out {missing}")
    dynamic = [name for name in keys if name not in statement.static]
    static_names = list(keys)[: len(statement.static)]
    if set(static_names) != set(statement.static):
        raise InvalidObjectError(
            "partition",
            f"of {target.full_name}",
            f"dynamic key {dynamic[0]} stands before a static one; give values to the leading keys",
        )
    static_keys = [keys[name] for name in static_names]
    values = stored_values(target.full_name, static_keys, [statement.static[name].value for name in static_names])  # type: ignore[misc]
    _check_column_list(statement, target, dynamic)
    return {
        name: None if value == DEFAULT_PARTITION else value for name, value in zip(static_names, values, strict=True)
    }


def _check_column_list(statement: Insert, target: Table, dynamic: list[str]) -> None:
    if statement.columns is None:
        return
    given = [name.lower() for name in statement.columns]
    takes = [column.name.lower() for column in target.columns] + dynamic
    for name in given:
        if name not in takes:
            raise NoSuchColumnError(target.full_name, name, takes)
        if given.count(name) > 1:
            raise ColumnCountMismatchError(target.full_name, len(set(given)), len(given), given)
    missing = [name for name in dynamic if name not in given]
    if missing:
        raise InvalidOperationError(
            "INSERT with a column list", target.full_name, f"the list leaves out partition key {missing[0]}"
        )


def _static_partition(target: Table, static: Mapping[str, str | None]) -> str | None:
    """The name of the one partition that is written, if the statement names it wholly."""
    if not target.is_partitioned or len(static) != len(target.partition_keys):
        return None
    return name_of(target, [static[key.name.lower()] for key in target.partition_keys])


def _partition_exists(context: StatementContext, target: Table, name: str) -> bool:
    return name in context.services.catalog.list_partition_names(target.database, target.name)


def _table_exists(context: StatementContext, database: str, name: str) -> bool:
    try:
        context.services.catalog.get_table(database, name)
    except NoSuchTableError:
        return False
    return True


def _with_query_columns(statement: CreateTable, given: tuple[Column, ...]) -> CreateTable:
    """The definition with the query's columns; PARTITIONED BY names some of them."""
    if statement.columns:
        raise InvalidObjectError("table", str(statement.table), "a column list does not go with AS SELECT")
    check_columns(str(statement.table), given)
    return replace(statement, columns=given)


def _insert_hidden(context: StatementContext, running: Running, table: Table) -> Table:
    """The new table, out of sight, with write id 1 of this transaction: a killed writer leaves its trace."""
    services = context.services

    def work(connection: Connection) -> Table:
        hidden = tables.insert_table(connection, table, services.clock(), hidden=True)
        services.transactions.allocate_in(connection, [running.txn_id], int(hidden.id or 0), operation=Operation.INSERT)
        return hidden

    return services.store.write(work)


def _delete_written(context: StatementContext, table: Table, written: JobResult, cluster: Cluster) -> None:
    """Delete the directories of an aborted write, whose names no other write has."""
    root = table.storage.primary.location
    try:
        files = context.services.files(cluster)
        for directory in written.directories:
            folder = f"{root}/{directory.partition}" if directory.partition is not None else root
            files.delete_directory(f"{folder}/{directory.name}")
            files.delete_empty_directories(folder, len(table.partition_keys))
    except HivexError as error:
        log.warning("Files of an aborted write to %s could not be deleted: %s", table.full_name, error)


def _delete_table_files(context: StatementContext, hidden: Table, cluster: Cluster) -> None:
    try:
        context.services.files(cluster).delete_directory(hidden.storage.primary.location)
    except HivexError as error:
        # The hidden row still names the place for whoever cleans up.
        log.warning("Files of %s could not be deleted: %s", hidden.full_name, error)
