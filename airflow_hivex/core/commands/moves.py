"""ALTER DATABASE ... SET PRIMARY CLUSTER and CANCEL MOVE."""

from __future__ import annotations

from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.parser.statements import CancelMove, MoveDatabase

MOVE_COLUMNS = ("namespace", "cluster", "is_changed", "tables", "bytes_copied", "rounds", "locked_s")


def move_database(context: StatementContext, statement: MoveDatabase) -> Result:
    """ALTER DATABASE ... SET PRIMARY CLUSTER: one row that says what has changed."""
    found = context.services.moves.move(
        statement.database,
        statement.cluster,
        copy_linked=statement.copy_linked,
        keep_copies=statement.keep_copies,
        user=context.session.user,
        agent_info=context.session.agent_info,
    )
    row = (
        found.namespace,
        found.cluster,
        found.is_changed,
        len(found.tables),
        found.bytes_copied,
        found.rounds,
        round(found.locked_s, 3),
    )
    return Result(list(MOVE_COLUMNS), [row], cluster=found.cluster, txn_id=found.txn_id)


def cancel_move(context: StatementContext, statement: CancelMove) -> Result:
    """ALTER DATABASE ... CANCEL MOVE: the tables stay, and the copies that the move has made are withdrawn."""
    context.services.moves.cancel(statement.database, keep_copies=statement.keep_copies)
    return Result()
