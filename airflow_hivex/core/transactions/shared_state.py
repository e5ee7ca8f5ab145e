"""The snapshot and the statement ids of a transaction of several statements, shared by all processes.

The functions run in the database transaction of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from airflow_hivex.core.errors import InvalidTransactionRequestError, TransactionNotOpenError
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import txns

MOST_STATEMENTS = 4096
"""The largest number of writing statements of a transaction. A statement id has 12 bits. Source: Hive BucketCodec."""


NOT_TAKEN = ""
"""The stored snapshot of a transaction of several statements that has no snapshot yet.

The value shows the cleaner that the transaction can still read any table, also without a lock at present.
"""


def mark_shared(connection: Connection, txn_id: int) -> None:
    """Mark a transaction as a transaction of several statements, before its first statement; see :data:`NOT_TAKEN`."""
    later(
        connection,
        update(txns)
        .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value, txns.c.snapshot.is_(None))
        .values(snapshot=NOT_TAKEN),
    )


def stored_snapshot(connection: Connection, txn_id: int) -> ValidTxnList | None:
    """Return the snapshot that the statements of a transaction share, or None before the first read."""
    return snapshot_from(connection.execute(snapshot_query(txn_id)))


def snapshot_query(txn_id: int) -> Select[Any]:
    """Return the query for the shared snapshot of a transaction. :func:`snapshot_from` reads its rows."""
    return select(txns.c.snapshot).where(txns.c.id == txn_id)


def snapshot_from(rows: Iterable[Any]) -> ValidTxnList | None:
    """Return the shared snapshot from rows of :func:`snapshot_query`, or None before the first read."""
    return next((ValidTxnList.parse(row.snapshot) for row in rows if row.snapshot), None)


def share_snapshot(connection: Connection, txn_id: int) -> ValidTxnList:
    """Return the snapshot that the statements of a transaction share. The first call takes the snapshot.

    Raises:
        TransactionNotOpenError: the transaction is not open.
    """
    taken = read_valid_txns(connection, txn_id)
    later(
        connection,
        update(txns)
        .where(
            txns.c.id == txn_id,
            txns.c.state == TxnState.OPEN.value,
            or_(txns.c.snapshot.is_(None), txns.c.snapshot == NOT_TAKEN),
        )
        .values(snapshot=str(taken)),
    )
    shared = stored_snapshot(connection, txn_id)
    if shared is None:
        raise TransactionNotOpenError([txn_id], "a snapshot needs a transaction that is open")
    return shared


def read_as_of(connection: Connection, txn_id: int, snapshot: ValidTxnList) -> None:
    """Make ``snapshot`` the snapshot of a transaction, so that the cleaner keeps the files that this snapshot sees.

    Raises:
        TransactionNotOpenError: the transaction is not open.
    """
    changed = update(txns).where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
    if not connection.execute(changed.values(snapshot=str(snapshot))).rowcount:
        raise TransactionNotOpenError([txn_id], "a snapshot needs a transaction that is open")


def next_statement_id(connection: Connection, txn_id: int) -> int:
    """Take and return the next statement id of an open transaction; see :func:`statement_id_from`."""
    return statement_id_from(connection.execute(taking_statement_id(txn_id)), txn_id)


def taking_statement_id(txn_id: int) -> ReturningUpdate[Any]:
    """Return the UPDATE that takes the next statement id. :func:`statement_id_from` reads the rows of the UPDATE."""
    return (
        update(txns)
        .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
        .values(statements=txns.c.statements + 1)
        .returning(txns.c.statements)
    )


def statement_id_from(rows: Iterable[Any], txn_id: int) -> int:
    """Return the statement id from the rows of :func:`taking_statement_id`. The first id of a transaction is 0.

    Raises:
        TransactionNotOpenError: the transaction is not open.
        InvalidTransactionRequestError: all 4,096 ids are used.
    """
    taken = next((row.statements for row in rows), None)
    if taken is None:
        raise TransactionNotOpenError([txn_id], "a statement needs a transaction that is open")
    if taken > MOST_STATEMENTS:
        raise InvalidTransactionRequestError(
            f"Transaction {txn_id} has run {MOST_STATEMENTS} statements that write, and more have no id; commit it."
        )
    return int(taken) - 1
