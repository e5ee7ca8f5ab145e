"""Errors of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError

if TYPE_CHECKING:
    from airflow_hivex.core.model.locks import LockInfo


class LockError(HivexError, pep249.OperationalError):
    """A lock cannot be acquired, or is not in the state that the call needs."""

    code = "LOCK"


class InvalidLockRequestError(LockError):
    """A request for locks is not one that can be granted by anyone."""

    code = "INVALID_LOCK_REQUEST"
    sentence = "The request for locks is not usable: {reason}."
    reason: str


class NoSuchLockError(LockError):
    """No lock has this id: it was released, its transaction has ended, or it timed out."""

    code = "NO_SUCH_LOCK"
    sentence = "There is no lock {lock_id}."
    lock_id: int


class LockOfOpenTransactionError(LockError):
    """A lock that a transaction has acquired lives until the transaction ends (Hive's TxnOpenException)."""

    code = "LOCK_OF_OPEN_TRANSACTION"
    sentence = "Lock {lock_id} belongs to transaction {txn_id}, which is open; commit or abort that instead."
    lock_id: int
    txn_id: int


class LockNotAcquiredError(LockError):
    """A lock that was requested without waiting is held by another client."""

    code = "LOCK_NOT_ACQUIRED"
    retryable = True


class LockTimeoutError(LockError):
    """A lock was not acquired in time (Hive's LOCK_ACQUIRE_TIMEDOUT). ``blocker`` is the lock in its way."""

    code = "LOCK_TIMEOUT"
    retryable = True
    wanted: str
    waited_s: float
    blocker: LockInfo | None = None

    def _describe(self) -> str:
        because = f": {self.blocker.describe()}" if self.blocker is not None else ""
        missed = f"{self.wanted} could not be locked within {self.waited_s:g} s"
        return f"{missed}{because}. Try again later, or end the holder."
