"""SHOW TRANSACTIONS, SHOW LOCKS and ABORT TRANSACTIONS: the open transactions, their locks and waits, their end."""

from __future__ import annotations

from datetime import datetime

from airflow_hivex.core.commands.explicit_transactions import abort_transactions as abort_many
from airflow_hivex.core.commands.partition_definitions import partition_name_of
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.locks import SHOW_LOCKS_COLUMNS, show_row
from airflow_hivex.core.parser.statements import AbortTransactions, ShowLocks, ShowTransactions

_TRANSACTION_COLUMNS = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host", "agent_info")


def show_transactions(context: StatementContext, statement: ShowTransactions) -> Result:  # noqa: ARG001 - one form only
    """SHOW TRANSACTIONS: open and aborted transactions; all values are texts, times in milliseconds since the epoch.

    The columns are those of Hive, and behind them the DAG, task, run and try.
    """
    rows: list[tuple[object, ...]] = [
        (
            str(found.id),
            found.state.name,
            _milliseconds(found.started_at),
            _milliseconds(found.heartbeat_at),
            found.user,
            found.host,
            found.agent_info,
        )
        for found in context.services.transactions.show()
    ]
    return Result(list(_TRANSACTION_COLUMNS), rows)


def _milliseconds(time: datetime) -> str:
    return str(round(time.timestamp() * 1000))


def show_locks(context: StatementContext, statement: ShowLocks) -> Result:
    """SHOW LOCKS: acquired locks first, then weaker ones. A table's locks include the locks on its partitions.

    EXTENDED returns the same columns, as under Hive's DbTxnManager.
    """
    locks, catalog = context.services.locks, context.services.catalog
    if statement.database is not None:
        found = locks.show(statement.database)
        if not found:
            catalog.get_database(statement.database)
    elif statement.table is not None:
        database, name = context.session.qualify(statement.table)
        partition = None
        if statement.partition is not None:
            partition = partition_name_of(
                "SHOW LOCKS with PARTITION", catalog.get_table(database, name), statement.partition
            )
        found = locks.show(database, name, partition)
        if not found:
            # Checked last: a table that CREATE TABLE AS SELECT is making has locks before it exists.
            catalog.get_table(database, name)
    else:
        found = locks.show()
    return Result(list(SHOW_LOCKS_COLUMNS), [show_row(lock) for lock in found])


def abort_transactions(context: StatementContext, statement: AbortTransactions) -> Result:
    """ABORT TRANSACTIONS: the ids of the aborted transactions; transactions that are not open are ignored, as in Hive.

    The files that they have written are deleted.
    """
    session = context.session
    who = session.user if session.agent_info is None else f"{session.user} ({session.agent_info})"
    reason = f"aborted by ABORT TRANSACTIONS of {who}"
    aborted = abort_many(context.services, list(statement.ids), reason)
    return Result(["txnid"], [(str(txn_id),) for txn_id in sorted(aborted)])
