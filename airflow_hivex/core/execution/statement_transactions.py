"""The transaction of a statement: it ends with the statement, or it consists of several statements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    NoSuchTransactionError,
    StoreUnavailableError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
    WriteConflictError,
)
from airflow_hivex.core.execution.context import Answers, JoinedTransaction, Running, StatementContext, new_tag
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.transactions import AbortReason, TxnState, TxnType
from airflow_hivex.core.store.engine import OutcomeUnknownError
from airflow_hivex.core.store.exchange import Call
from airflow_hivex.core.transactions import snapshots
from airflow_hivex.core.transactions.beginning import Begun
from airflow_hivex.core.transactions.heartbeats import gone, heartbeats

log = logging.getLogger(__name__)

T = TypeVar("T")


class OutrunError(Exception):
    """Another transaction has committed an update of rows that the statement has just locked for its own update.

    ``successor`` is another transaction, which has the statement's locks. The statement can run again in this
    transaction.
    """

    successor: int | None = None


def in_transaction(context: StatementContext, work: Callable[[Running], T], *, read_only: bool = False) -> T:
    """Call ``work`` in the session's transaction, or else in a transaction of its own; return the result of ``work``.

    In its own transaction, ``work`` must commit. If another transaction updates the same rows while ``work`` waits for
    a lock, ``work`` is repeated in another transaction, whose snapshot has the update. The number of repetitions is at
    most ``hive.txn.retrysnapshot.max.count``.

    Raises:
        WriteConflictError: another transaction has updated the same rows, during each repetition or since the session's
            transaction has begun.
    """
    joined = context.session.transaction
    if joined is not None:
        with _joined_transaction(context, joined) as running:
            return work(running)
    most = int(context.services.settings["hive.txn.retrysnapshot.max.count"])
    txn_id = None if context.batch is None else context.batch.txn_id
    successor: int | None = None
    try:
        for attempt in range(most + 1):
            try:
                with own_transaction(context, read_only=read_only, txn_id=txn_id, again=attempt < most) as running:
                    successor = None
                    return work(running)
            except OutrunError as outrun:
                txn_id = successor = outrun.successor
                running.check_not_cancelled()
                if attempt == most:
                    raise WriteConflictError(running.txn_id, f"{outrun}; it was retried {most} times") from outrun
                log.info("The statement of transaction %s is retried: %s", running.txn_id, outrun)
    except BaseException as error:
        if successor is not None:
            # No attempt has begun with this transaction yet.
            _abort(context, successor, error)
        raise
    raise AssertionError("the loop returns or raises")


@contextmanager
def own_transaction(
    context: StatementContext, *, read_only: bool = False, txn_id: int | None = None, again: bool = False
) -> Iterator[Running]:
    """Yield a transaction for one statement. The block must commit the transaction. An error of the block aborts it.

    The transaction is opened when the statement requests locks, or uses the transaction's id. With ``txn_id`` the
    statement uses this open transaction. With ``again`` an OutrunError gets a ``successor``.

    With ``read_only`` and ``hive.txn.readonly.enabled`` the transaction has the type READ_ONLY
    (docs/reference/transactions.md, "States and types").
    """
    session = context.session
    transactions = context.services.transactions
    kind = (
        TxnType.READ_ONLY if read_only and context.services.settings["hive.txn.readonly.enabled"] else TxnType.DEFAULT
    )
    timeout_s = int(context.services.settings["hive.txn.timeout"])
    running = Running(None)
    session.running = running
    try:
        with ExitStack() as alive:
            opening = _Opening(context, running, kind, timeout_s, alive)
            running.opener = opening.open
            if txn_id is not None:
                opening.note(Begun(txn_id))
            yield running
    except BaseException as error:
        txn_id = running.opened_id
        # A commit that may have been applied is left for its owner to look up.
        if txn_id is None:
            log.debug("A statement has failed before it opened a transaction: %s", error)
        elif again and isinstance(error, OutrunError) and not running.cancelled:
            error.successor = transactions.begin_again(txn_id, str(error))
            try:
                _undo(running)
            except BaseException:
                _abort(context, error.successor, error)
                raise
        elif not isinstance(error, CommitOutcomeUnknownError) and _abort(context, txn_id, error):
            _undo(running)
        own = _own_error(context, running, error, timeout_s)
        if own is not None:
            raise own from error
        if isinstance(error, OutcomeUnknownError):
            # Whichever step has failed: without a commit, whose failure has its own error, nothing counts.
            raise StoreUnavailableError(*error.facts) from error
        raise
    finally:
        session.running = None


@dataclass(frozen=True, slots=True)
class _Opening:
    """The opener of a statement's own transaction. Heartbeats keep the transaction alive until ``alive`` is closed."""

    context: StatementContext
    running: Running
    kind: TxnType
    timeout_s: int
    alive: ExitStack

    def open(
        self, components: Sequence[LockComponent], write_ids_of: Sequence[int], also: Sequence[Call]
    ) -> Answers | None:
        """Open the transaction, if possible with locks and write ids; see ``Running.begin_with``."""
        session, services = self.context.session, self.context.services
        statement = None if session.record is None else session.record.document
        if components:
            begun = services.locks.begin(
                components,
                self.note,
                statement=statement,
                write_ids_of=write_ids_of,
                also=also,
                user=session.user,
                agent_info=session.agent_info,
                type=self.kind,
            )
            return None if begun.lock is None else begun.answers
        (txn_id,) = services.transactions.open(
            user=session.user, agent_info=session.agent_info, type=self.kind, statement=statement
        )
        self.note(Begun(txn_id))
        return None

    def note(self, begun: Begun) -> None:
        """Record the opened transaction in the running statement, and start its heartbeats."""
        running = self.running
        running.tag = new_tag(begun.txn_id)
        running.write_ids = begun.write_ids
        running.opened_id = begun.txn_id
        transactions = self.context.services.transactions
        record = self.context.session.record
        if record is not None:
            record.note_begin(begun.txn_id)
            self.alive.enter_context(record.accompanying(transactions, begun.txn_id))
        self.alive.enter_context(heartbeats(transactions, begun.txn_id, self.timeout_s, running.end))


@contextmanager
def _joined_transaction(context: StatementContext, joined: JoinedTransaction) -> Iterator[Running]:
    """Yield a running statement of a transaction of several statements, which continues even if the statement fails."""
    transactions = context.services.transactions
    txn_id = joined.txn_id
    running = Running(txn_id, new_tag(txn_id), joined=joined)
    context.session.running = running
    if context.session.record is not None:
        context.session.record.note_begin(txn_id)
    try:
        _beat(context, txn_id)
        # A session keeps its own transaction alive all the time.
        with nullcontext() if joined.is_own else heartbeats(transactions, txn_id, joined.timeout_s, running.end):
            yield running
    except BaseException as error:
        _undo(running)
        if isinstance(error, OutrunError):
            transactions.abort(txn_id, str(error), AbortReason.WRITE_CONFLICT)
            raise WriteConflictError(txn_id, str(error)) from error
        own = _own_error(context, running, error, joined.timeout_s)
        if own is not None:
            raise own from error
        raise
    finally:
        context.session.running = None


def commit_own(context: StatementContext, running: Running) -> None:
    """Commit the own transaction of a statement that only reads. A transaction of several statements stays open."""
    if running.joined is None:
        context.services.transactions.commit(running.txn_id, only_reads=True)


def commit_kept(context: StatementContext, running: Running, tables: Iterable[StoredTable]) -> None:
    """Commit a statement whose result is read later, and let the cleaner keep the files of the result for a time.

    A transaction of several statements stays open. The cleaner keeps the files until this transaction ends.
    """
    if running.joined is not None:
        return
    services = context.services
    retention_s = int(services.settings["hivex.dataframe.retention.time"])
    table_ids = {table.id for table in tables if table.is_transactional}
    snapshot = running.earliest or running.snapshot

    def keep(connection: Connection) -> None:
        assert snapshot is not None
        snapshots.keep(
            connection,
            running.txn_id,
            table_ids,
            snapshot,
            now_ms=services.clock(),
            retention_s=retention_s,
            user=context.session.user,
        )

    services.transactions.commit(running.txn_id, keep if table_ids and retention_s and snapshot is not None else None)


def _undo(running: Running) -> None:
    """Delete the files of a failed statement.

    Errors are only logged.
    """
    for undo in running.undo:
        try:
            undo()
        except Exception as failure:
            log.warning("What a statement of transaction %s wrote is not all deleted: %s", running.txn_id, failure)


def _beat(context: StatementContext, txn_id: int) -> None:
    """Send a heartbeat, and raise the error of a transaction that has ended."""
    transactions = context.services.transactions
    try:
        transactions.heartbeat(txn_id)
    except NoSuchTransactionError:
        context.services.store.write(lambda connection: transactions.check_open(connection, txn_id))
        raise


def _own_error(context: StatementContext, running: Running, error: BaseException, timeout_s: int) -> HivexError | None:
    """Return the error of the ended transaction if ``error`` is only a consequence of its end, else None."""
    ended = None if running.cancelled else running.cause_of(error)
    if ended is not None:
        return ended
    if running.opened_id is None or not isinstance(error, (TransactionNotOpenError, NoSuchTransactionError)):
        return None
    try:
        transaction = context.services.transactions.get(running.txn_id)
    except NoSuchTransactionError:
        return gone(running.txn_id, timeout_s)
    except HivexError:
        return None
    return (
        TransactionAbortedError(running.txn_id, transaction.reason) if transaction.state is TxnState.ABORTED else None
    )


def _abort(context: StatementContext, txn_id: int, error: BaseException) -> bool:
    """Abort the transaction; return whether the abort is certain."""
    reason = (str(error) or type(error).__name__).partition("\n")[0]
    try:
        try:
            context.services.transactions.abort(txn_id, reason[:1000])
        except Exception:
            raise
        except BaseException:
            # An interrupt came as well: the transaction is settled before the interrupt is raised.
            context.services.transactions.abort(txn_id, reason[:1000])
            raise
    except TransactionCommittedError:
        # An interrupt, such as a signal's, that came between the commit and its answer.
        log.warning("Transaction %s had committed before it was interrupted", txn_id)
        return False
    except NoSuchTransactionError:
        log.warning("Transaction %s has ended before, and its record is gone", txn_id)
        return False
    except Exception as failure:
        # The housekeeper aborts the transaction after its time-out.
        log.warning("Transaction %s could not be aborted and will time out: %s", txn_id, failure)
        return False
    return True
