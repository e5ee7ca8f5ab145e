"""The stored states of transactions, and the errors for transactions that have ended."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Row, bindparam, select

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.errors import (
    DeadlockError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionCommittedError,
)
from airflow_hivex.core.model.transactions import AbortReason, Transaction, TxnState, TxnType
from airflow_hivex.core.store.batches import PreparedForIds
from airflow_hivex.core.store.exchange import Prepared, Rows, later
from airflow_hivex.core.store.schema import txns


class TxnRow(NamedTuple):
    """The columns of a transaction's row that decide whether the transaction can be used."""

    id: int
    state: str
    type: int
    reason: str | None
    reason_code: int | None
    statements: int


SELECT_ROW = select(*(txns.c[name] for name in TxnRow._fields))
_OF_ID = SELECT_ROW.where(txns.c.id == bindparam("txn_id", type_=BigInteger))

FIND = Prepared(_OF_ID)
"""The query for the row of the transaction ``txn_id``, with the columns of :class:`TxnRow`."""
LOCK = Prepared(_OF_ID.with_for_update())
"""The query for the row of the transaction ``txn_id``. It locks the row for a change."""
LOCK_FREE = PreparedForIds(lambda ids: SELECT_ROW.where(txns.c.id.in_(ids)).with_for_update(skip_locked=True))
"""The query for rows of transactions. It locks the rows for a change, and skips rows that other clients have locked."""


def raise_if_settled(txn_id: int, row: Any) -> None:
    """Raise an error if a transaction has ended, according to the state, reason and reason code in its row.

    Raises:
        DeadlockError, TransactionAbortedError, TransactionCommittedError: the transaction has ended.
    """
    if row.state == TxnState.COMMITTED.value:
        raise TransactionCommittedError(txn_id)
    if row.state == TxnState.ABORTED.value:
        if row.reason_code == AbortReason.DEADLOCK.number:
            raise DeadlockError(txn_id, row.reason or AbortReason.DEADLOCK.words)
        raise TransactionAbortedError(txn_id, row.reason)


def read_row(connection: Connection, txn_id: int) -> Row[Any]:
    """Return the row of a transaction.

    Raises:
        NoSuchTransactionError: no transaction has the id.
    """
    row = connection.execute(SELECT_ROW.where(txns.c.id == txn_id)).one_or_none()
    if row is None:
        raise NoSuchTransactionError(txn_id)
    return row


def check_open(connection: Connection, txn_id: int) -> None:
    """Check that a transaction is open, and keep it open until the caller's database transaction ends.

    On PostgreSQL the query is sent together with the caller's next query or commit. This query or commit raises the
    errors.

    Raises:
        TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
    """
    query = SELECT_ROW.where(txns.c.id == txn_id).with_for_update(read=True)
    later(connection, query, check=lambda found: raise_if_settled(txn_id, row_from(txn_id, found)))


def row_from(txn_id: int, found: Rows) -> TxnRow:
    """Return the row of a transaction from the answer to :data:`FIND` or :data:`LOCK`.

    Raises:
        NoSuchTransactionError: no transaction has the id.
    """
    if not found:
        raise NoSuchTransactionError(txn_id)
    return TxnRow(*found[0])


def transaction_from(row: Row[Any]) -> Transaction:
    """Return the record of a transaction from its row. The row must have all columns."""
    return Transaction(
        id=row.id,
        state=TxnState(row.state),
        type=TxnType(row.type),
        started_at=to_datetime(row.started_ms),
        heartbeat_at=to_datetime(row.heartbeat_ms),
        timeout_s=row.timeout_s,
        user=row.user,
        host=row.host,
        agent_info=row.agent_info,
        reason=row.reason,
        reason_code=row.reason_code,
    )
