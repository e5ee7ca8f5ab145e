"""SELECT and INSERT: a statement is routed, run as one job, and committed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog import partition_rows
from airflow_hivex.core.clusters.roots import check_directories
from airflow_hivex.core.execution import planning, resuming
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_inputs import rendered
from airflow_hivex.core.execution.insert_targets import with_default_values
from airflow_hivex.core.execution.metadata_changes import SchemaMerge
from airflow_hivex.core.execution.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.execution.writing import OpenWrite, begin_write, end_writes, run_once
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.loads import LoadedFile
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import JobResult, Plan, PlannedValues
from airflow_hivex.core.parser.statements import (
    DescribeQuery,
    ExplainMode,
    ExplainQuery,
    Insert,
    Literal,
    Query,
    Select,
)
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
        commit_own(context, running)
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
        commit_own(context, running)
        return Result(
            columns=["col_name", "data_type", "comment"],
            rows=[(column.name, column.type, column.comment) for column in found.columns],
            cluster=cluster.name,
            txn_id=running.txn_id,
            route=routed.route,
        )

    return in_transaction(context, work, read_only=True)


def run_explain_query(context: StatementContext, statement: ExplainQuery) -> Result:
    """Return Spark's plan of a query on the cluster of its route, without running the query."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running, may_lag=True)
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        return explained(context, running, plan, statement.mode, routed, cluster)

    return in_transaction(context, work, read_only=True)


def explained(
    context: StatementContext,
    running: Running,
    plan: Plan,
    mode: ExplainMode,
    routed: RoutedQuery[Any],
    cluster: Cluster,
) -> Result:
    """Return the lines of EXPLAIN for a job, without running it; end the statement's own transaction, if it has one."""
    found = context.run(cluster, replace(plan, explain=str(mode)))
    commit_own(context, running)
    return Result(
        ["plan"],
        list(found.rows),
        cluster=cluster.name,
        txn_id=running.txn_id,
        route=routed.route,
        as_of=routed.as_of,
    )


class InsertSteps:
    """The additional steps of a statement that inserts. The steps of this class do nothing.

    The statement's transaction can be repeated, and each repetition runs all steps again.
    """

    loaded: Sequence[LoadedFile] = ()
    """The files that count as loaded when the transaction commits."""

    def locks(self) -> Sequence[LockComponent]:
        """Return the additional locks of the statement."""
        return ()

    def choose(self, running: Running, table: StoredTable, query: Query) -> Query | None:  # noqa: ARG002
        """Return the query of the rows, or None if there is nothing to insert. The statement holds its locks."""
        return query

    def begin(self, running: Running, table: StoredTable) -> None:
        """Prepare the write, which has its write id, before rows are read."""

    def check(self) -> None:
        """Raise an error to undo the write. The rows are written, and not visible."""

    def also(self, connection: Connection) -> None:
        """Take part in the commit of the statement's own transaction."""

    def count(self, rows: Sequence[int]) -> None:
        """Take the numbers of rows that each of several INSERTs has written."""


def run_insert(
    context: StatementContext, statement: Insert, steps: InsertSteps | None = None, merge: SchemaMerge | None = None
) -> Result:
    """Insert rows, and return their number. ``steps`` are additional steps of the statement.

    This process itself writes constants. A job on the table's primary cluster writes other rows. If the batch of the
    statement was committed before, no row is written. With ``merge`` the commit adds columns to the table.
    """
    own = steps or InsertSteps()

    def work(running: Running) -> Result:
        running.check_may_write("INSERT")
        routed = route(context, statement, running, locks=(*own.locks(), *(merge.locks(context) if merge else ())))
        target = routed.target if merge is None else merge.merged(routed.target)
        (rows,) = routed.rows
        query = with_default_values(routed.statement, target, rows)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        whole = rows.partition
        if statement.if_not_exists and whole is not None and partition_exists(context, running, target, whole):
            if running.joined is None:
                context.services.transactions.abort(running.txn_id, "the partition exists already")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        chosen = own.choose(running, target, query)
        if chosen is None:
            if running.joined is None:
                context.services.transactions.abort(running.txn_id, "there is nothing to insert")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        write = begin_write(context, running, target, cluster, rows)
        own.begin(running, target)
        written = _write(context, running, statement.rows, chosen, routed, cluster, write)
        commit = own.also if merge is None else merge.storing(context, running)
        end_writes(context, running, [(write, written.directories)], own.check, commit, own.loaded)
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )

    return run_once(context, work, Result(rows_written=0))


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
        sql=rendered(context, query, iter(views)),
        parameters=query.parameters,
        loaded=query.loaded,
    )


def _write(
    context: StatementContext,
    running: Running,
    constants: Sequence[Sequence[Literal]] | None,
    query: Query,
    routed: RoutedQuery[Insert],
    cluster: Cluster,
    write: OpenWrite,
) -> JobResult:
    written = None
    if constants is not None:
        from airflow_hivex.core.job.values import write_rows

        with context.session.step("job"):
            written = write_rows(write.write, constants)
    if written is None:
        target = replace(write.write, texts=query.texts)
        plan = replace(plan_query(context, running, query, routed, cluster), write=target, values=planned_values(query))
        return context.run(cluster, plan, resuming.resumable(context, running, write.pending, write.table, plan))
    context.note_written(written)
    check_directories(cluster, write.write, written.directories)
    return written


def planned_values(query: Query) -> PlannedValues | None:
    """Return the values of a query that is a list of VALUES, or None for any other query."""
    values = query.values
    return None if values is None else PlannedValues(query.render_values(), values.types, values.names)


def partition_exists(context: StatementContext, running: Running, target: StoredTable, name: str) -> bool:
    """Return whether the catalog has the partition, or the statement's own transaction has added the partition."""
    with context.services.store.read() as connection:
        if partition_rows.partition_ids(connection, target, [name]):
            return True
        own = {} if running.joined is None else pending_writes.written_directories(connection, running.txn_id)
    return name in own.get(target.id, {})
