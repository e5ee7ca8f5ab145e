"""FROM source INSERT ... INSERT ...: all INSERTs run as one job on one cluster, and are committed together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_inputs import rendered
from airflow_hivex.core.execution.insert_targets import InsertedRows, check_insert
from airflow_hivex.core.execution.routing import RoutedQuery, chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import InsertSteps, explained, partition_exists
from airflow_hivex.core.execution.statement_transactions import in_transaction
from airflow_hivex.core.execution.writing import begin_write, end_writes
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import Plan, PlannedInsert, Source, Write
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.statements import ExplainMultiInsert, Insert, MultiInsert, Query, source_name

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Branch:
    """One INSERT of the statement, its table, and the partition and columns of the inserted rows."""

    insert: Insert
    target: StoredTable
    rows: InsertedRows


def run_multi_insert(context: StatementContext, statement: MultiInsert, steps: InsertSteps | None = None) -> Result:
    """Run all INSERTs, and return the total number of written rows. ``steps`` are additional steps of the statement."""
    own = steps or InsertSteps()

    def work(running: Running) -> Result:
        running.check_may_write("INSERT")
        routed = route(context, statement, running, locks=own.locks())
        branches = [_Branch(*each) for each in zip(routed.statement.inserts, routed.targets, routed.rows, strict=True)]
        _check_apart(branches)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        chosen = [branch for branch in branches if not _is_there(context, running, branch)]
        if not chosen:
            if running.joined is None:
                context.services.transactions.abort(running.txn_id, "the partitions exist already")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        queries = [own.choose(running, branch.target, branch.insert.query) for branch in chosen]
        if any(query is None for query in queries):
            if running.joined is None:
                context.services.transactions.abort(running.txn_id, "there is nothing to insert")
            return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=0, route=routed.route)
        writes = [
            begin_write(context, running, branch.target, cluster, branch.rows, number=number)
            for number, branch in enumerate(chosen)
        ]
        inserts = [
            replace(branch.insert, query=query)
            for branch, query in zip(chosen, queries, strict=True)
            if query is not None
        ]
        of_branch = {id(branch.insert): insert for branch, insert in zip(chosen, inserts, strict=True)}
        all_inserts = tuple(of_branch.get(id(each), each) for each in routed.statement.inserts)
        routed = replace(routed, statement=replace(routed.statement, inserts=all_inserts))
        plan = _plan(context, running, inserts, [write.write for write in writes], routed, cluster)
        written = context.run(cluster, plan)
        done = list(zip(writes, written.inserted, strict=True))
        end_writes(context, running, done, own.check, own.also, own.loaded)
        own.count([sum(each.rows for each in directories) for directories in written.inserted])
        rows_written = sum(directory.rows for directories in written.inserted for directory in directories)
        return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=rows_written, route=routed.route)

    return in_transaction(context, work)


def run_explain_multi_insert(context: StatementContext, statement: ExplainMultiInsert) -> Result:
    """Return Spark's plan of each INSERT, on the cluster that would run them. Nothing is locked or run."""

    def work(running: Running) -> Result:
        routed = route(context, statement.statement, declarations=running.functions)
        branches = [
            _Branch(insert, target, check_insert(insert, target))
            for insert, target in zip(routed.statement.inserts, routed.targets, strict=True)
        ]
        _check_apart(branches)
        cluster = chosen_cluster(context, routed)
        facts = TableWrite(running.txn_id, 0, cluster.name)
        writes = [planning.write(branch.target, cluster, facts) for branch in branches]
        plan = _plan(context, running, [branch.insert for branch in branches], writes, routed, cluster)
        return explained(context, running, plan, statement.mode, routed, cluster)

    return in_transaction(context, work, read_only=True)


def _check_apart(branches: Sequence[_Branch]) -> None:
    """Refuse two INSERTs into the same table or partition if one of them is an INSERT OVERWRITE.

    Otherwise the rows of the other INSERT would be hidden.

    Raises:
        InvalidOperationError: two INSERTs can write to the same partition, and one of them overwrites.
    """
    for first, second in combinations(branches, 2):
        same = first.target.id == second.target.id and (first.insert.overwrite or second.insert.overwrite)
        if same and all(second.rows.static.get(key, value) == value for key, value in first.rows.static.items()):
            raise InvalidOperationError(
                "A multi-table INSERT",
                first.target.full_name,
                "two of its INSERTs may write to the same partition, and INSERT OVERWRITE would hide what the other "
                "one writes; name different static partitions, or write them in two statements",
            )


def _is_there(context: StatementContext, running: Running, branch: _Branch) -> bool:
    """Return whether an INSERT is skipped because it has IF NOT EXISTS and its partition exists."""
    if not branch.insert.if_not_exists or branch.rows.partition is None:
        return False
    return partition_exists(context, running, branch.target, branch.rows.partition)


def _plan(
    context: StatementContext,
    running: Running,
    inserts: Sequence[Insert],
    writes: Sequence[Write],
    routed: RoutedQuery[MultiInsert],
    cluster: Cluster,
) -> Plan:
    tag, statement = running.tag, routed.statement
    scans = [
        planning.scan(bound, cluster, f"{tag}_{number}", row_id=row_id)
        for number, (bound, row_id) in enumerate(zip(routed.bound, routed.row_ids, strict=True))
    ]
    # Taken in the order of MultiInsert.references, also for an INSERT that is skipped.
    views = (scan.view for scan in scans)
    sources = {source_name(number): f"{tag}_source_{number}" for number in range(len(statement.sources))}

    def render(query: Query) -> str:
        return rendered(context, query, views, sources)

    source_texts = [render(query) for query in statement.sources]
    texts = {id(insert): render(insert.query) for insert in statement.inserts}
    queries = [*statement.sources, *(insert.query for insert in inserts)]
    parameters = {name for query in queries for name in query.parameters}
    return planning.plan_job(
        context,
        running,
        cluster,
        scans,
        parameters=parameters,
        sources=(Source(view, text) for view, text in zip(sources.values(), source_texts, strict=True)),
        inserts=(
            PlannedInsert(texts[id(insert)], replace(write, texts=insert.query.texts))
            for insert, write in zip(inserts, writes, strict=True)
        ),
        loaded=next((query.loaded for query in queries if query.loaded is not None), None),
    )
