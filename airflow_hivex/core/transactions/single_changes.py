"""Transactions for single changes, so that each change of a managed table has a write id.

If the caller has no transaction, a transaction is opened and committed in the database transaction of the change.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from uuid import uuid4

from sqlalchemy import Connection

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError, TransactionCommittedError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Call, joined
from airflow_hivex.core.transactions import allocation, opening
from airflow_hivex.core.transactions.commit_and_abort import Committer, Companion
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.opening import NewTransaction, open_transactions

_AGENT = "a change by the catalog"
_TIMEOUT_S = 300
"""The time-out in seconds of a transaction for a single change. No other client ever sees the transaction open."""


def open_in(connection: Connection, now_ms: int) -> int:
    """Open a transaction and return its id. The caller must commit it by :func:`commit_in`. One round trip.

    Call this function late, because other clients cannot open transactions until the caller's database transaction
    ends.
    """
    host = socket.gethostname()[:255]
    new = NewTransaction(TxnType.DEFAULT, _TIMEOUT_S, user="", host=host, agent_info=_AGENT, key=None)
    return open_transactions(joined(connection), [new], now_ms, None)[0]


def take_write_id(connection: Connection, txn_id: int, table_id: int, at_least: int = 1) -> int:
    """Return the write id of a transaction for a table. One round trip, or more with ``at_least``.

    A write id below ``at_least`` is replaced by a higher write id, unless the transaction has already written to the
    table.

    Raises:
        TransactionNotOpenError: the transaction is not open, or is read-only.
        NoSuchObjectError: the table was dropped, and its files are deleted.
    """
    if at_least > 1:
        allocation.raise_write_ids(connection, table_id, at_least)
    write_id = allocation.allocate_one(joined(connection), txn_id, table_id)
    if write_id is None:
        raise allocation.dropped(table_id)
    if write_id < at_least and not allocation.has_components(connection, txn_id, table_id):
        write_id = allocation.allocate(connection, [txn_id], table_id, reallocate=True)[txn_id]
    return write_id


def commit_in(connection: Connection, clock: Clock, txn_id: int) -> None:
    """Commit the transaction of :func:`open_in`, and record its event. Two round trips."""
    Committer(clock, None).commit_alone(joined(connection), txn_id, exclusive_write_locks=True)


# Changes of metadata, whose transaction, check of locks and commit are one database transaction.
#
# Most changes need not wait for other transactions. So they need one commit of the database, not three.


class _LocksInTheWayError(Exception):
    """Error: the locks could not be granted at once, so the changes are rolled back."""


def commit_at_once(
    store: Store,
    transactions: TransactionManager,
    clock: Clock,
    changes: Callable[[Connection], None],
    checks: Sequence[Call],
    *,
    user: str,
    agent_info: str | None,
    also: Companion | None = None,
) -> int | None:
    """Commit ``changes`` in a new transaction, and return its id, or None if a lock would have to wait.

    ``checks`` are the calls of :func:`grants.checks_at_once`. The calls of ``also`` are sent along, after the
    transaction's row. If the result is None, nothing is changed. Two round trips in addition to the round trips of
    ``changes``.

    Raises:
        OutcomeUnknownError: the connection was lost during the commit, and the outcome could not be read.
    """
    # After a lost connection, the transaction can be found by its key.
    new = transactions.described(user=user, agent_info=agent_info, key=f"change {uuid4().hex}")

    def work(connection: Connection) -> int:
        with notification_log.deferred(connection) as events:
            changes(connection)
        exchange, queries = joined(connection), events.queries
        recorded = events.recording(exchange.send(*queries) if queries else ())
        now_ms = clock()
        # The counter of transactions is locked before the counter of locks, as in every change that opens one.
        calls = [*opening.committed(new, now_ms), *checks, *recorded]
        if recorded:
            calls.append(notification_log.announcing(now_ms))
        calls += () if also is None else also(now_ms)
        answers = exchange.send(*calls)
        if not all(answers[3 : 2 + len(checks)]):
            raise _LocksInTheWayError
        return int(answers[0][0][0])

    try:
        return store.write(work, name="commit")
    except _LocksInTheWayError:
        return None
    except OutcomeUnknownError as error:
        return _outcome(transactions, new, error)


def _outcome(transactions: TransactionManager, new: NewTransaction, error: OutcomeUnknownError) -> int | None:
    """Return the id of a transaction if its commit was applied, or else None.

    Call this function after the connection was lost during the commit.
    """
    try:
        # This call waits for the end of the first database transaction, which has locked the counter.
        (txn_id,) = transactions.open(user=new.user, agent_info=new.agent_info, key=new.key)
    except TransactionCommittedError as committed:
        return committed.txn_id
    except HivexError:
        raise error from None
    transactions.abort(txn_id, "the change that it was opened for was not applied")
    return None
