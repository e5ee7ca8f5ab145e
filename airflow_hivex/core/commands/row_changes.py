"""UPDATE, DELETE and MERGE: routed, run as one job on the target's primary, committed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from airflow_hivex.core.execution import planning, resuming
from airflow_hivex.core.execution.change_targets import change_operations, check_change
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_inputs import rendered
from airflow_hivex.core.execution.numbered_batches import check_is_new, run_once
from airflow_hivex.core.execution.queries import explained
from airflow_hivex.core.execution.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.execution.schema_merges import SchemaMerge
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.execution.writing import begin_write, end_writes
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.locks import DataOperation
from airflow_hivex.core.model.plans import ChangePart, ChangeRule, Changes, Plan, PlannedCheck, Write
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.statements import ChangeClause, ChangeQuery, ChangeRows, ExplainChanges

log = logging.getLogger(__name__)


def run_change(
    context: StatementContext,
    statement: ChangeRows,
    condition: PlannedCheck | None = None,
    merge: SchemaMerge | None = None,
) -> Result:
    """Return how many rows were written and deleted; an updated row counts as both.

    A ``condition`` holds for all rows that are inserted. A ``merge`` changes the columns in the commit. Nothing changes
    where the table has the statement's batch already.
    """

    def work(running: Running) -> Result:
        running.check_may_write(statement.operation)
        locks = () if merge is None else merge.locks(context)
        routed = _with_new_types(route(context, statement, running, locks=locks), merge)
        target = routed.target if merge is None else merge.merged(routed.target)
        check_change(statement, target)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        check_is_new(context, target)
        write = begin_write(
            context,
            running,
            target,
            cluster,
            overwrite=False,
            static={},
            partition=None,
            operation=_operation(change_operations(context, statement)),
        )
        plan = _plan(context, running, routed, cluster, replace(write.write, condition=condition))
        written = context.run(cluster, plan, resuming.resumable(context, running, write.pending, write.table, plan))
        also = None if merge is None else merge.storing(context, running)
        end_writes(context, running, [(write, written.directories)], also=also)
        return Result(
            cluster=cluster.name,
            txn_id=running.txn_id,
            rows_written=written.rows_written,
            rows_deleted=written.rows_deleted,
            route=routed.route,
        )

    return run_once(context, work, Result(rows_written=0, rows_deleted=0))


def run_explain_changes(
    context: StatementContext, statement: ExplainChanges, merge: SchemaMerge | None = None
) -> Result:
    """Return Spark's plan of an UPDATE, DELETE or MERGE on the cluster that would run it. Nothing is locked or run."""

    def work(running: Running) -> Result:
        routed = _with_new_types(route(context, statement.statement, declarations=running.functions), merge)
        target = routed.target if merge is None else merge.merged(routed.target)
        check_change(statement.statement, target)
        cluster = chosen_cluster(context, routed)
        write = planning.write(target, cluster, TableWrite(running.txn_id, 0, cluster.name))
        plan = _plan(context, running, routed, cluster, write)
        return explained(context, running, plan, statement.mode, routed, cluster)

    return in_transaction(context, work, read_only=True)


def _with_new_types(routed: RoutedQuery[ChangeRows], merge: SchemaMerge | None) -> RoutedQuery[ChangeRows]:
    """Return the statement with the target read in the types that its columns get, and without those that it gets.

    Names of new columns in conditions and values are those of the source.
    """
    if merge is None:
        return routed
    target, *others = routed.bound
    merged = merge.merged(target.table)
    kept = merged.columns[: len(target.table.columns)]
    table = replace(merged, storage=replace(merged.storage, columns=kept))
    return replace(routed, bound=(replace(target, table=table), *others))


def _operation(operations: frozenset[DataOperation]) -> Operation:
    if DataOperation.UPDATE in operations:
        return Operation.UPDATE
    return Operation.DELETE if DataOperation.DELETE in operations else Operation.INSERT


def _plan(
    context: StatementContext,
    running: Running,
    routed: RoutedQuery[ChangeRows],
    cluster: Cluster,
    write: Write,
) -> Plan:
    tag, statement = running.tag, routed.statement
    there = {column.name for column in routed.bound[0].table.columns}
    views = [f"{tag}_{number}" for number in range(len(routed.bound))]
    target, others = views[0], iter(views[1:])
    names = {name: f"{tag}_{name}" for name in ("source", "source_rest", "target_rest")}
    # In the order of ChangeRows.others.
    source = None if statement.source is None else rendered(context, statement.source, others)
    fills = statement.evolves
    matched = _part(context, statement.matched, others, target=target, source=names["source"], fills=fills)
    unmatched = by_source = None
    if statement.unmatched is not None:
        source_rest = names["source_rest"]
        unmatched = _part(context, statement.unmatched, others, target=target, source=source_rest, fills=fills)
    if statement.unmatched_by_source is not None:
        by_source = _part(
            context,
            statement.unmatched_by_source,
            others,
            target=names["target_rest"],
            source=names["source"],
            fills=fills,
        )
    parts = (statement.source, *(part.query for part in _parts(statement)))
    parameters = {name for query in parts if query is not None for name in query.parameters}
    scans = (
        planning.scan(bound, cluster, view, row_ids=view == target, row_id=row_id)
        for bound, view, row_id in zip(routed.bound, views, routed.row_ids, strict=True)
    )
    return planning.plan_job(
        context,
        running,
        cluster,
        scans,
        parameters=parameters,
        write=write,
        changes=Changes(
            operation=statement.operation,
            matched=matched,
            target_view=target,
            source=source,
            source_view=names["source"],
            source_rest_view=names["source_rest"],
            unmatched=unmatched,
            unmatched_by_source=by_source,
            target_rest_view=names["target_rest"],
            added=tuple(column.name.lower() for column in write.columns if column.name not in there),
        ),
    )


def _parts(statement: ChangeRows) -> list[ChangeQuery]:
    parts = (statement.matched, statement.unmatched, statement.unmatched_by_source)
    return [part for part in parts if part is not None]


def _part(
    context: StatementContext, part: ChangeQuery, others: Iterator[str], *, target: str, source: str, fills: bool
) -> ChangePart:
    own = {place: view for place, view in ((part.target, target), (part.source, source)) if place is not None}
    rules = tuple(_rule(clause, fills=fills) for clause in part.clauses)
    return ChangePart(rendered(context, part.query, others, own=own), rules)


def _rule(clause: ChangeClause, *, fills: bool) -> ChangeRule:
    return ChangeRule(
        clause.action.value, clause.columns, clause.values, clause.by_name, clause.defaults, fills, clause.texts
    )
