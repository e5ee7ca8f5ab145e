"""ALTER TABLE ... COMPACT, OPTIMIZE, VACUUM, SHOW COMPACTIONS and ABORT COMPACTIONS."""

from __future__ import annotations

from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.compaction.compactor import COMPACT, check_compactable
from airflow_hivex.core.compaction.history import CompactionFilter
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.compaction import SHOW_COLUMNS, CompactionResponse, CompactionState, show_row
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.parser.statements import AbortCompactions, Compact, ShowCompactions, Vacuum

_ANSWER = ("compactionid", "state", "message")


def compact(context: StatementContext, statement: Compact) -> Result:
    """Run ALTER TABLE ... COMPACT: return one row with id, state and message. A refused request has the id -1.

    With AND WAIT, the state is the state at the end of the compaction. The message of a refused request is the reason.
    """
    database, name = context.session.qualify(statement.table)
    partition = None
    if statement.each_partition or statement.partition is not None:
        table = context.services.catalog.get_table(database, name)
        check_compactable(table)
        if statement.partition is not None:
            partition = partition_name_of(f"{COMPACT} with PARTITION", table, statement.partition)
        elif table.is_partitioned:
            return _compact_each(context, statement, table)
    response = _request(context, statement, (database, name), partition)
    row = (str(response.id), response.state.shown, response.message)
    return Result(list(_ANSWER), [row])


def _compact_each(context: StatementContext, statement: Compact, table: Table) -> Result:
    """Run OPTIMIZE of a partitioned table: request a compaction of each partition; return one row for each request."""
    responses = context.services.compactor.request_each(
        table.database, table.name, statement.type, pool=statement.pool, properties=statement.properties
    )
    rows: list[tuple[object, ...]] = []
    for partition, requested in responses.items():
        response = _waited(context, statement, requested)
        rows.append((partition, str(response.id), response.state.shown, response.message))
    return Result(["partition", *_ANSWER], rows)


def _request(
    context: StatementContext, statement: Compact, name: QualifiedName, partition: str | None
) -> CompactionResponse:
    compactor = context.services.compactor
    response = compactor.request(
        *name,
        partition,
        statement.type,
        pool=statement.pool,
        properties=statement.properties,
        buckets=statement.buckets,
        order_by=statement.order_by,
    )
    return _waited(context, statement, response)


def _waited(context: StatementContext, statement: Compact, response: CompactionResponse) -> CompactionResponse:
    """Return the response to a request. With AND WAIT, return the response at the end of the compaction instead."""
    if statement.wait and response.is_accepted:
        return context.services.compactor.wait(response.id)
    return response


def vacuum(context: StatementContext, statement: Vacuum) -> Result:
    """Run VACUUM: delete the obsolete directories of a table. DRY RUN returns the same rows, and deletes nothing.

    There is one row for the outcome in each partition, one for each deleted directory, one for each directory that
    stays, and one for each transaction that still needs directories.
    """
    services = context.services
    table = services.catalog.get_table(*context.session.qualify(statement.table))
    check_compactable(table, "VACUUM")
    clean = services.compactor.plan_clean if statement.dry_run else services.compactor.clean
    rows: list[tuple[object, ...]] = []
    for task in clean(table.database, table.name):
        place = (None if task.compaction_id is None else str(task.compaction_id), task.partition)
        rows.append((*place, task.outcome.value, task.message))
        rows += [(*place, f"delete, {each.why}", f"{hide_in_uri(each.uri)} on {each.cluster}") for each in task.deleted]
        rows += [(*place, "stays", name) for name in task.waiting]
        rows += [(*place, "in the way", str(each)) for each in task.blockers]
    return Result(["compactionid", "partition", "what", "detail"], rows)


def show_compactions(context: StatementContext, statement: ShowCompactions) -> Result:
    """Run SHOW COMPACTIONS: return queued and ended compactions. Values are texts or NULL; times are milliseconds."""
    catalog = context.services.catalog
    database = table = partition = None
    if statement.database is not None:
        database = catalog.get_database(statement.database).name
    elif statement.table is not None:
        database, table = context.session.qualify(statement.table)
        if statement.partition is not None:
            found = catalog.get_table(database, table)
            partition = partition_name_of("SHOW COMPACTIONS with PARTITION", found, statement.partition)
    shown = context.services.compactor.show(
        CompactionFilter(
            database=database,
            table=table,
            partition=partition,
            id=statement.id,
            pool=statement.pool,
            type=statement.type,
            state=statement.state,
            order_by=statement.order_by,
            limit=statement.limit,
        )
    )
    if not shown and database is not None and table is not None:
        # Checked last: the history of a dropped table remains.
        catalog.get_table(database, table)
    return Result(list(SHOW_COLUMNS), [show_row(each) for each in shown])


def abort_compactions(context: StatementContext, statement: AbortCompactions) -> Result:
    """Run ABORT COMPACTIONS: return one row with the outcome for each compaction.

    A compaction that a worker has taken cannot be aborted.
    """
    answers = context.services.compactor.abort(statement.ids)
    rows: list[tuple[object, ...]] = [
        (str(each), CompactionState.ABORTED.shown if why is None else "error", why) for each, why in answers.items()
    ]
    return Result(["compactionid", "status", "message"], rows)
