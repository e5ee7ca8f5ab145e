"""ALTER TABLE ... COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS."""

from __future__ import annotations

from airflow_hivex.core.compaction.compactor import COMPACT, check_compactable
from airflow_hivex.core.compaction.history import CompactionFilter
from airflow_hivex.core.model.compaction import SHOW_COLUMNS, CompactionState, show_row
from airflow_hivex.core.model.statements import AbortCompactions, Compact, ShowCompactions
from airflow_hivex.core.statements.context import Result, StatementContext
from airflow_hivex.core.statements.partition_definitions import partition_name_of


def compact(context: StatementContext, statement: Compact) -> Result:
    """ALTER TABLE ... COMPACT: the compaction's id and state; -1 and the reason where it is refused.

    AND WAIT brings the state that it has come to.
    """
    services = context.services
    database, name = context.session.qualify(statement.table)
    table = services.catalog.get_table(database, name)
    check_compactable(table)
    partition = None
    if statement.partition is not None:
        partition = partition_name_of(f"{COMPACT} with PARTITION", table, statement.partition)
    response = services.compactor.request(
        database,
        name,
        partition,
        statement.type,
        pool=statement.pool,
        properties=statement.properties,
        buckets=statement.buckets,
        order_by=statement.order_by,
    )
    if statement.wait and response.is_accepted:
        response = services.compactor.wait(response.id)
    row = (str(response.id), response.state.shown, response.message)
    return Result(["compactionid", "state", "message"], [row])


def show_compactions(context: StatementContext, statement: ShowCompactions) -> Result:
    """SHOW COMPACTIONS: those of the queue and of the history; texts and NULL, times in milliseconds."""
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
        # Only now: of a table that was dropped there is still the history.
        catalog.get_table(database, table)
    return Result(list(SHOW_COLUMNS), [show_row(each) for each in shown])


def abort_compactions(context: StatementContext, statement: AbortCompactions) -> Result:
    """ABORT COMPACTIONS: what became of each; only those that nobody works on yet can be aborted."""
    answers = context.services.compactor.abort(statement.ids)
    rows: list[tuple[object, ...]] = [
        (str(each), CompactionState.ABORTED.shown if why is None else "error", why) for each, why in answers.items()
    ]
    return Result(["compactionid", "status", "message"], rows)
