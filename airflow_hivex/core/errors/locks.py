"""Errors of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import OperationalError
from airflow_hivex.core.errors.root import HivexError

if TYPE_CHECKING:
    from airflow_hivex.core.model.locks import LockInfo


class LockError(HivexError, OperationalError):
    """A lock cannot be acquired, or is not in the state that the call needs."""

    code = "LOCK"


class InvalidLockRequestError(LockError):
    """A request for locks is not one that can be granted by anyone."""

    code = "INVALID_LOCK_REQUEST"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The request for locks is not usable: {reason}.", reason)


class NoSuchLockError(LockError):
    """No lock has this id: it was released, its transaction has ended, or it timed out."""

    code = "NO_SUCH_LOCK"

    def __init__(self, lock_id: int) -> None:
        super().__init__(f"There is no lock {lock_id}.", lock_id)
        self.lock_id = lock_id


class LockOfOpenTransactionError(LockError):
    """A lock that a transaction has acquired lives until the transaction ends (Hive's TxnOpenException)."""

    code = "LOCK_OF_OPEN_TRANSACTION"

    def __init__(self, lock_id: int, txn_id: int) -> None:
        super().__init__(
            f"Lock {lock_id} belongs to transaction {txn_id}, which is open; commit or abort that instead.",
            lock_id,
            txn_id,
        )
        self.lock_id = lock_id
        self.txn_id = txn_id


class LockNotAcquiredError(LockError):
    """A lock that was requested without waiting is held by another client."""

    code = "LOCK_NOT_ACQUIRED"
    retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(message, message)


class LockTimeoutError(LockError):
    """A lock was not acquired in time (Hive's LOCK_ACQUIRE_TIMEDOUT). ``blocker`` is the lock in its way."""

    code = "LOCK_TIMEOUT"
    retryable = True

    def __init__(self, wanted: str, waited_s: float, blocker: LockInfo | None = None) -> None:
        because = f": {blocker.describe()}" if blocker is not None else ""
        super().__init__(
            f"{wanted} could not be locked within {waited_s:g} s{because}. Try again later, or end the holder.",
            wanted,
            waited_s,
            blocker,
        )
        self.wanted = wanted
        self.waited_s = waited_s
        self.blocker = blocker
