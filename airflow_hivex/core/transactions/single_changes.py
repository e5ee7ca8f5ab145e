"""Transactions of a single change: opened and committed in the database transaction of the change.

So each change of a managed table has a write id, also a change that no transaction of the caller makes.
"""

from __future__ import annotations

import socket

from sqlalchemy import Connection

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.store.exchange import joined
from airflow_hivex.core.transactions import allocation
from airflow_hivex.core.transactions.committing import Committer
from airflow_hivex.core.transactions.opening import NewTransaction, open_transactions

_AGENT = "a change by the catalog"
_TIMEOUT_S = 300
"""The transaction is never seen open, so that nothing waits for its time-out."""


def open_in(connection: Connection, now_ms: int) -> int:
    """Return the id of a new transaction, for :func:`commit_in`. One round trip.

    Others that open transactions wait until the caller's database transaction ends: call it late.
    """
    host = socket.gethostname()[:255]
    new = NewTransaction(TxnType.DEFAULT, _TIMEOUT_S, user="", host=host, agent_info=_AGENT, key=None)
    return open_transactions(joined(connection), [new], now_ms, None)[0]


def take_write_id(connection: Connection, txn_id: int, table_id: int, at_least: int = 1) -> int:
    """Return the write id of a transaction for a table. Safe to repeat. One round trip, and some with ``at_least``.

    A lower id than ``at_least`` is replaced, unless the transaction has written rows under it.

    Raises:
        TransactionNotOpenError: the transaction is not open, or is read-only.
        NoSuchObjectError: the table was dropped, and its files are gone.
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
    """Commit the transaction of :func:`open_in`, with its event. Two round trips."""
    Committer(clock, None).commit_alone(joined(connection), txn_id, exclusive_write_locks=True)
