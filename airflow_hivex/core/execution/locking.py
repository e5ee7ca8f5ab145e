"""The locks of a statement: it requests them before its snapshot, so that it sees the commits it has waited for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection

from airflow_hivex.core.errors import LockNotAcquiredError, NoSuchLockError
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.transactions import OutrunError
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.transactions.locks.grants import are_simple


def acquire(
    context: StatementContext,
    running: Running,
    components: Sequence[LockComponent],
    *,
    new_table: bool = False,
    write_ids_of: Sequence[int] = (),
) -> None:
    """Acquire the locks, after waiting if need be; without components nothing happens.

    ``new_table`` refuses at once a table that another statement is making. A transaction that is not open yet begins
    with the locks, and with write ids for the tables ``write_ids_of``, if no other lock conflicts.

    Raises:
        LockNotAcquiredError: another transaction holds a lock for which the statement does not wait.
        LockTimeoutError, DeadlockError: the locks were not acquired.
        StatementCancelledError, TransactionAbortedError: the statement was cancelled while it waited.
        NoSuchTableError: a table was dropped meanwhile.
    """
    if not components:
        return
    running.check_not_cancelled()
    session = context.session
    if running.opened_id is None and are_simple(components) and running.begin_with(components, write_ids_of):
        return

    def waiting(lock_id: int) -> None:
        running.waiting_lock_id = lock_id
        # A thread that cancels the statement looks for the request after that.
        running.check_not_cancelled()

    try:
        response = context.services.locks.acquire(
            components,
            running.txn_id,
            user=session.user,
            agent_info=session.agent_info,
            zero_wait_read=context.services.statement_locks.zero_wait_reads,
            exclusive_ctas=new_table and context.services.statement_locks.exclusive_ctas,
            waiting=waiting,
        )
    except NoSuchLockError:
        running.check_not_cancelled()
        raise
    finally:
        running.waiting_lock_id = None
    if not response.is_acquired:
        raise LockNotAcquiredError(response.message or "The locks are held by another transaction.")
    running.check_not_cancelled()


def commit_at_once(
    context: StatementContext, components: Sequence[LockComponent], changes: Callable[[Connection], None]
) -> int | None:
    """Commit changes that need no open transaction, if no other lock conflicts; see ``LockManager``.

    Returns the id of the transaction, None if the statement must open a transaction and wait for its locks.
    """
    session = context.session
    return context.services.locks.commit_at_once(components, changes, user=session.user, agent_info=session.agent_info)


def check_not_outrun(
    context: StatementContext, running: Running, resources: Collection[tuple[int, str | None]]
) -> None:
    """Ensure that no other transaction has updated the statement's targets since its transaction began.

    ``resources`` are table ids with a partition's name, or None for the whole table. The locks are
    held, so no other transaction can change the rows any more. Source: docs/reference/transactions.md.

    Raises:
        OutrunError: a target was updated, and the commit would be refused.
    """
    if resources and context.services.transactions.would_conflict(running.txn_id, resources):
        raise OutrunError("another transaction has updated the same rows since its transaction began")
