"""The state of a transaction as it is stored, and what it means for whoever uses it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import BigInteger, bindparam, select

from airflow_hivex.core.errors import DeadlockError, TransactionAbortedError, TransactionCommittedError
from airflow_hivex.core.model.transactions import AbortReason, TxnState
from airflow_hivex.core.store.exchange import Prepared
from airflow_hivex.core.store.schema import txns


class TxnRow(NamedTuple):
    """The columns that decide whether a transaction can be used."""

    id: int
    state: str
    type: int
    reason: str | None
    reason_code: int | None
    statements: int


SELECT_ROW = select(*(txns.c[name] for name in TxnRow._fields))
_OF_ID = SELECT_ROW.where(txns.c.id == bindparam("txn_id", type_=BigInteger))

FIND = Prepared(_OF_ID)
"""The row of ``txn_id``, as :class:`TxnRow` has it."""
SHARE = Prepared(_OF_ID.with_for_update(read=True))
"""The same, and it stays as it is until the database transaction ends."""
LOCK = Prepared(_OF_ID.with_for_update())
"""The same, for whoever changes it."""


def raise_if_settled(txn_id: int, row: Any) -> None:
    """Raise the error of the use of a transaction (its state, reason and reason's code) that is not open.

    Raises:
        DeadlockError, TransactionAbortedError, TransactionCommittedError: it has ended.
    """
    if row.state == TxnState.COMMITTED.value:
        raise TransactionCommittedError(txn_id)
    if row.state == TxnState.ABORTED.value:
        if row.reason_code == AbortReason.DEADLOCK.number:
            raise DeadlockError(txn_id, row.reason or AbortReason.DEADLOCK.words)
        raise TransactionAbortedError(txn_id, row.reason)
