"""START TRANSACTION, COMMIT, ROLLBACK, SHOW and ABORT TRANSACTIONS, SHOW LOCKS, and joining of transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from airflow_hivex.core.execution.context import JoinedTransaction, Result, Services, SessionState, StatementContext
from airflow_hivex.core.execution.resuming import take_over
from airflow_hivex.core.execution.write_outcomes import take_back_writer
from airflow_hivex.core.model.ended_statements import SHOW_COLUMNS, show_row
from airflow_hivex.core.model.locks import SHOW_LOCKS_COLUMNS
from airflow_hivex.core.model.locks import show_row as show_lock
from airflow_hivex.core.model.texts import check_length
from airflow_hivex.core.model.transactions import AbortReason, TxnType
from airflow_hivex.core.parser.statements import (
    AbortTransactions,
    Commit,
    Rollback,
    ShowLocks,
    ShowStatements,
    ShowTransactions,
    StartTransaction,
)
from airflow_hivex.core.transactions import allocation
from airflow_hivex.core.transactions.heartbeats import heartbeats
from airflow_hivex.core.transactions.shared_state import mark_shared, next_statement_id
from airflow_hivex.core.transactions.statement_history import StatementFilter

log = logging.getLogger(__name__)

_LONGEST_WRITER = 1024


def start_transaction(context: StatementContext, statement: StartTransaction) -> Result:
    """Run START TRANSACTION: open a transaction for the following statements. Heartbeats keep it alive until it ends.

    Raises:
        InvalidOperationError: the session is in a transaction.
    """
    session, services = context.session, context.services
    if session.transaction is not None:
        raise InvalidOperationError(
            "START TRANSACTION",
            f"transaction {session.transaction.txn_id}",
            "it is open; COMMIT or ROLLBACK comes first",
        )
    kind = TxnType.READ_ONLY if statement.read_only else TxnType.DEFAULT
    (txn_id,) = services.transactions.open(
        user=session.user,
        agent_info=session.agent_info,
        type=kind,
        is_shared=True,
        statement=None if session.record is None else session.record.document,
    )
    timeout_s = int(services.settings["hive.txn.timeout"])
    transaction = JoinedTransaction(txn_id, timeout_s, is_own=True, is_read_only=statement.read_only)
    try:
        transaction.keep_alive.enter_context(
            heartbeats(services.transactions, txn_id, timeout_s, partial(_end_running, session, txn_id))
        )
        session.transaction = transaction
    except BaseException as error:
        _abort_quietly(services, txn_id, str(error) or type(error).__name__, AbortReason.NONE)
        transaction.keep_alive.close()
        raise
    return Result(txn_id=txn_id)


def _end_running(session: SessionState, txn_id: int, error: TransactionAbortedError) -> None:
    """End a transaction's running statement, if there is one, because another client has ended the transaction."""
    running = session.running
    if running is not None and running.opened_id == txn_id:
        running.end(error)


def commit(context: StatementContext, statement: Commit) -> Result:  # noqa: ARG001 - one form only
    """Run COMMIT: make the writes of all statements of the transaction visible together, or none of them.

    Raises:
        InvalidOperationError: the session has started no transaction.
        WriteConflictError: another transaction has updated the same rows before.
        TransactionAbortedError: the transaction was aborted, and its writes never become visible.
        StoreUnavailableError: nothing was committed; the session is still in the transaction.
    """
    transaction = _own(context, "COMMIT")
    txn_id = transaction.txn_id

    def forget_unwritten(connection: Connection) -> None:
        # The pending writes of statements that failed early.
        allocation.forget_unwritten(connection, txn_id)

    record = context.session.record
    if record is not None:
        record.note_begin(txn_id)
    try:
        with nullcontext() if record is None else record.accompanying(context.services.transactions, txn_id):
            commit_transaction(context.services, txn_id, forget_unwritten)
    except StoreUnavailableError:
        raise
    except BaseException as error:
        try:
            # A transaction that cannot commit must not keep its locks.
            _abort_quietly(context.services, txn_id, str(error) or type(error).__name__, AbortReason.NONE)
        finally:
            _leave(context, transaction)
        raise
    _leave(context, transaction)
    return Result(txn_id=txn_id)


def rollback(context: StatementContext, statement: Rollback) -> Result:  # noqa: ARG001 - one form only
    """Run ROLLBACK: abort the transaction, and delete its files. Its writes never become visible.

    Raises:
        InvalidOperationError: the session has started no transaction.
    """
    transaction = _own(context, "ROLLBACK")
    try:
        abort_transaction(context.services, transaction.txn_id, None, AbortReason.ROLLBACK)
    except BaseException:
        # The transaction has no heartbeats any more and keeps no locks.
        _abort_quietly(context.services, transaction.txn_id, AbortReason.ROLLBACK.words, AbortReason.ROLLBACK)
        raise
    finally:
        _leave(context, transaction)
    return Result(txn_id=transaction.txn_id)


def join(context: StatementContext, txn_id: int, writer: str) -> None:
    """Join an open transaction, which another client commits. All later statements of the session take part in it.

    The writes of an earlier session of the same ``writer`` are withdrawn, except a single write whose job can still run
    on a server. When this session runs the same statement, it waits for the job.

    Raises:
        NoSuchTransactionError, TransactionAbortedError, TransactionCommittedError: the transaction is not open.
    """
    services = context.services
    check_length("The name of a writer", writer, _LONGEST_WRITER)
    transaction = services.transactions.get(txn_id)

    def check(connection: Connection) -> None:
        services.transactions.check_open(connection, txn_id)
        mark_shared(connection, txn_id)

    services.store.write(check)
    began, held = 0, None
    if writer:
        # Statement ids rise, whichever process runs the statement.
        began = 1 + services.store.write(lambda connection: next_statement_id(connection, txn_id))
        held = take_over(services, txn_id, writer, began)
    context.session.transaction = JoinedTransaction(
        txn_id, transaction.timeout_s, is_own=False, writer=writer, began=began, held=held
    )


def leave(context: StatementContext) -> None:
    """Remove a closed session from its transaction.

    A transaction that the session has started is rolled back. If this fails, the transaction gets no more heartbeats
    and times out. A transaction of another client continues.
    """
    transaction = context.session.transaction
    if transaction is None:
        return
    try:
        if transaction.is_own:
            _abort_quietly(context.services, transaction.txn_id, "its session was closed", AbortReason.ROLLBACK)
    finally:
        _leave(context, transaction)


def commit_transaction(services: Services, txn_id: int, changes: Callable[[Connection], None] | None = None) -> None:
    """Commit a transaction with the pending writes of all its statements and ``changes``. Safe to repeat.

    Raises:
        WriteConflictError, TransactionAbortedError, NoSuchTransactionError, CommitOutcomeUnknownError:
            as :meth:`TransactionManager.commit`; after the first two errors the files are deleted.
    """
    try:
        has_writes = services.transactions.commit(txn_id, changes, has_statements=True)
    except TransactionAbortedError:
        _delete_pending(services, txn_id)
        raise
    if has_writes:
        # The other writes belong to statements that were killed and never repeated.
        _delete_pending(services, txn_id)


def abort_transaction(
    services: Services, txn_id: int, reason: str | None, code: AbortReason = AbortReason.NONE
) -> None:
    """Abort a transaction and delete the files of its pending writes. Safe to repeat.

    Raises:
        TransactionCommittedError, NoSuchTransactionError: the transaction cannot be aborted.
    """
    services.transactions.abort(txn_id, reason or code.words, code)
    _delete_pending(services, txn_id)


def abort_each(services: Services, txn_ids: list[int], reason: str) -> list[int]:
    """Abort the open transactions among ``txn_ids``, delete their files, and return the ids of these transactions."""
    aborted = services.transactions.abort_many(txn_ids, reason, AbortReason.ABORT_QUERY)
    for txn_id in aborted:
        _delete_pending(services, txn_id)
    return aborted


def _delete_pending(services: Services, txn_id: int) -> None:
    """Delete the files that an ended transaction has left. A failure is only logged."""
    try:
        take_back_writer(services, txn_id)
    except HivexError as error:
        log.warning("The housekeeper will delete what transaction %s has left: %s", txn_id, error)


def _abort_quietly(services: Services, txn_id: int, reason: str, code: AbortReason) -> None:
    """Abort a transaction, unless it has ended already. A failure is only logged; the caller raises an error."""
    first_line = reason.partition("\n")[0][:1000]
    try:
        try:
            abort_transaction(services, txn_id, first_line, code)
        except Exception:
            raise
        except BaseException:
            # An interrupt came as well: the transaction is settled before the interrupt is raised.
            abort_transaction(services, txn_id, first_line, code)
            raise
    except Exception as error:
        log.warning("Transaction %s was not aborted: %s", txn_id, error)


def _own(context: StatementContext, statement: str) -> JoinedTransaction:
    transaction = context.session.transaction
    if transaction is None:
        raise InvalidOperationError(statement, "the session", "it has no open transaction; START TRANSACTION opens one")
    if not transaction.is_own:
        raise InvalidOperationError(
            statement, f"transaction {transaction.txn_id}", "the session has only joined it; its opener must end it"
        )
    return transaction


def _leave(context: StatementContext, transaction: JoinedTransaction) -> None:
    transaction.keep_alive.close()
    context.session.transaction = None


_TRANSACTION_COLUMNS = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host", "agent_info")


def show_transactions(context: StatementContext, statement: ShowTransactions) -> Result:  # noqa: ARG001 - one form only
    """Run SHOW TRANSACTIONS: return the open and aborted transactions. Times are in milliseconds since the epoch.

    All values are texts. The columns are Hive's columns, followed by the DAG, task, run and try.
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


def show_statements(context: StatementContext, statement: ShowStatements) -> Result:
    """Run SHOW STATEMENTS: return ended statements. In a closed namespace, return only statements that ran there.

    Raises:
        NoSuchDatabaseError: the named database does not exist.
        InvalidOperationError: the metastore keeps no history of statements.
    """
    services, current = context.services, context.session.database
    if not services.statements.is_on:
        raise InvalidOperationError(
            "SHOW STATEMENTS in", services.store.name, "it keeps no history; set hivex.statements.retention"
        )
    database = None
    if statement.database is not None:
        database = services.catalog.get_database(statement.database).name
    wanted = StatementFilter(
        database=database,
        pattern=statement.pattern,
        current=current if services.namespaces.is_closed(current) else None,
        dag_id=statement.dag_id,
        task_id=statement.task_id,
        run_id=statement.run_id,
        user=statement.user,
        outcome=statement.outcome,
        order_by=statement.order_by,
        limit=statement.limit,
    )
    return Result(list(SHOW_COLUMNS), [show_row(each) for each in services.statements.show(wanted)])


def show_locks(context: StatementContext, statement: ShowLocks) -> Result:
    """Run SHOW LOCKS: return the acquired locks, and then the waiting locks, each group sorted by strictness.

    The locks of a table include the locks on its partitions. EXTENDED returns the same columns, as under Hive's
    DbTxnManager.
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
    return Result(list(SHOW_LOCKS_COLUMNS), [show_lock(lock) for lock in found])


def abort_transactions(context: StatementContext, statement: AbortTransactions) -> Result:
    """Run ABORT TRANSACTIONS: abort transactions and delete their files; return the ids of the aborted transactions.

    Transactions that are not open are ignored, as in Hive.
    """
    session = context.session
    who = session.user if session.agent_info is None else f"{session.user} ({session.agent_info})"
    reason = f"aborted by ABORT TRANSACTIONS of {who}"
    aborted = abort_each(context.services, list(statement.ids), reason)
    return Result(["txnid"], [(str(txn_id),) for txn_id in sorted(aborted)])
