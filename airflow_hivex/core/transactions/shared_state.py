"""The snapshot and statement ids that the statements of one transaction share in all processes.

The functions run in the database transaction of the caller.
"""

from __future__ import annotations

from sqlalchemy import Connection, or_, select, update

from airflow_hivex.core.errors import InvalidTransactionRequestError, TransactionNotOpenError
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns
from airflow_hivex.core.store.schema import txns

MOST_STATEMENTS = 4096
"""The largest number of statements of a transaction: a statement id has 12 bits. Source: Hive BucketCodec."""


_NOT_TAKEN = ""
"""The stored snapshot of a transaction of several statements that has not read yet."""


def mark_shared(connection: Connection, txn_id: int) -> None:
    """Mark a transaction as one of several statements, before its first statement.

    The transaction may read any table later. By the mark the cleaner knows that its locks do not cover all reads.
    """
    connection.execute(
        update(txns)
        .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value, txns.c.snapshot.is_(None))
        .values(snapshot=_NOT_TAKEN)
    )


def stored_snapshot(connection: Connection, txn_id: int) -> ValidTxnList | None:
    """Return the snapshot that the statements of a transaction share, or None before the first read."""
    text = connection.execute(select(txns.c.snapshot).where(txns.c.id == txn_id)).scalar_one_or_none()
    return ValidTxnList.parse(text) if text else None


def share_snapshot(connection: Connection, txn_id: int) -> ValidTxnList:
    """Return the snapshot that the statements of a transaction share; the first read takes it.

    Raises:
        TransactionNotOpenError: the transaction is not open.
    """
    taken = read_valid_txns(connection, txn_id)
    connection.execute(
        update(txns)
        .where(
            txns.c.id == txn_id,
            txns.c.state == TxnState.OPEN.value,
            or_(txns.c.snapshot.is_(None), txns.c.snapshot == _NOT_TAKEN),
        )
        .values(snapshot=str(taken))
    )
    shared = stored_snapshot(connection, txn_id)
    if shared is None:
        raise TransactionNotOpenError([txn_id], "a snapshot needs a transaction that is open")
    return shared


def read_as_of(connection: Connection, txn_id: int, snapshot: ValidTxnList) -> None:
    """Store an earlier snapshot as the snapshot that a transaction reads, for the cleaner.

    Raises:
        TransactionNotOpenError: the transaction is not open.
    """
    changed = update(txns).where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
    if not connection.execute(changed.values(snapshot=str(snapshot))).rowcount:
        raise TransactionNotOpenError([txn_id], "a snapshot needs a transaction that is open")


def next_statement_id(connection: Connection, txn_id: int) -> int:
    """Return the next statement id of an open transaction, from 0. The id is a part of the names of directories.

    Raises:
        TransactionNotOpenError: the transaction is not open.
        InvalidTransactionRequestError: all 4,096 ids are used.
    """
    taken = connection.execute(
        update(txns)
        .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
        .values(statements=txns.c.statements + 1)
        .returning(txns.c.statements)
    ).scalar_one_or_none()
    if taken is None:
        raise TransactionNotOpenError([txn_id], "a statement needs a transaction that is open")
    if taken > MOST_STATEMENTS:
        raise InvalidTransactionRequestError(
            f"Transaction {txn_id} has run {MOST_STATEMENTS} statements that write, and more have no id; commit it."
        )
    return int(taken) - 1
