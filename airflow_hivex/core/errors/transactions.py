"""Errors of transactions, snapshots, locks and compactions."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import Described, HivexError, Outcome


class TransactionError(HivexError, pep249.OperationalError):
    """A transaction is not in the state that the call needs."""


class NoSuchTransactionError(TransactionError):
    """No transaction has this id, or its record was purged."""

    sentence = "There is no transaction {txn_id}."
    txn_id: int


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, by its owner, a time-out or a conflict."""

    txn_id: int
    reason: str | None = None

    def _describe(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"Transaction {self.txn_id} was aborted{because}. Nothing it wrote is visible; run the statement again."


class TransactionCommittedError(TransactionError):
    """The transaction has committed already."""

    sentence = "Transaction {txn_id} has committed already."
    txn_id: int


class TransactionNotOpenError(TransactionError):
    """A call needs an open transaction that is not read-only, or a transaction cannot be opened as requested."""

    txn_ids: Sequence[int]
    why: str

    def _describe(self) -> str:
        return f"Transactions {', '.join(map(str, self.txn_ids))}: {self.why}."


class TooManyOpenTransactionsError(TransactionError):
    """The limit ``hive.max.open.txns`` of open transactions is reached."""

    retryable = True
    sentence = (
        "{open_count} transactions are open and hive.max.open.txns is {limit}; abort idle ones or wait for them to end."
    )
    open_count: int
    limit: int


class CommitOutcomeUnknownError(TransactionError):
    """The connection was lost during a commit, and the outcome could not be read afterwards."""

    outcome = Outcome.UNKNOWN
    sentence = (
        "Metastore database {database} was lost while transaction {txn_id} committed, and has not said whether it did. "
        "Check that the database runs and that this machine reaches it, and look the transaction up by its id before "
        "running the statement again; do not delete its files."
    )
    txn_id: int
    database: str


class WriteConflictError(TransactionAbortedError):
    """A concurrent transaction has updated or deleted rows of the same table or partition.

    This one was aborted; the statement can succeed in another.
    """

    retryable = True
    reason: str


class DeadlockError(TransactionAbortedError):
    """Transactions waited for each other's locks in a circle, and this one was aborted to end it."""

    retryable = True
    reason: str


class InvalidTransactionRequestError(TransactionError):
    """The transaction manager refuses a request: an argument is not valid, or a limit is reached."""


class UnexpectedError(HivexError, pep249.InternalError):
    """An unknown error. Its cause has the details; the transaction has ended."""

    sentence = (
        "{what} ended with an error that is not known here: {reason}. Its transaction is settled. Report the error "
        "together with its cause."
    )
    what: str
    reason: str


class StatementCancelledError(TransactionError):
    """A statement was cancelled. Its transaction continues without it."""

    sentence = "The statement was cancelled; transaction {txn_id} continues without it."
    txn_id: int


class WriteTakenBackError(TransactionError):
    """Another session has repeated this session's part of a transaction. The write of this session is withdrawn."""

    sentence = "The write to {table} in transaction {txn_id} was withdrawn: {writer!r} runs again elsewhere."
    table: str
    txn_id: int
    writer: str


class InvalidWriteIdListError(HivexError, pep249.ProgrammingError):
    """A text is not a transaction list or write id list."""

    sentence = "{text!r} is not a transaction or write id list: {reason}."
    text: str
    reason: str


class MissingWriteIdListError(HivexError, pep249.ProgrammingError):
    """A call of a transactional table lacks the write id list of the caller's snapshot."""

    sentence = (
        "Table {table} is transactional and the call has no write id list for it; pass the list of your snapshot, or "
        "leave the argument out for the current state."
    )
    table: str


class NotEnoughHistoryError(HivexError, pep249.OperationalError):
    """A base has replaced directories that this snapshot needs (Hive's ACID_NOT_ENOUGH_HISTORY, 10327)."""

    code = "ACID_NOT_ENOUGH_HISTORY"
    sentence = "Not enough history available for ({high_watermark},{first_exception}). Oldest available base: {base}."

    high_watermark: int
    first_exception: int | None
    base: str


class LockError(HivexError, pep249.OperationalError):
    """A lock cannot be acquired, or is not in the state that the call needs."""


class InvalidLockRequestError(LockError):
    """A request for locks is not valid, and can never be granted."""

    sentence = "The request for locks is not usable: {reason}."
    reason: str


class NoSuchLockError(LockError):
    """No lock has this id: the lock was released or timed out, or its transaction has ended."""

    sentence = "There is no lock {lock_id}."
    lock_id: int


class LockOfOpenTransactionError(LockError):
    """A lock of a transaction cannot be released before the transaction ends (Hive's TxnOpenException)."""

    sentence = "Lock {lock_id} belongs to transaction {txn_id}, which is open; commit or abort that instead."
    lock_id: int
    txn_id: int


class LockNotAcquiredError(LockError):
    """A lock was requested without waiting, but another client holds a conflicting lock."""

    retryable = True


class LockTimeoutError(LockError):
    """A lock was not acquired in time (Hive's LOCK_ACQUIRE_TIMEDOUT). ``blocker`` is a conflicting lock."""

    retryable = True
    wanted: str
    waited_s: float
    blocker: Described | None = None

    def _describe(self) -> str:
        because = f": {self.blocker.describe()}" if self.blocker is not None else ""
        missed = f"{self.wanted} could not be locked within {self.waited_s:g} s"
        return f"{missed}{because}. Try again later, or end the holder."


class CompactionError(HivexError, pep249.OperationalError):
    """A compaction is not in the state that the call needs."""


class NoSuchCompactionError(CompactionError):
    """No compaction has this id, in the queue or in the history."""

    sentence = "There is no compaction {compaction_id}; SHOW COMPACTIONS lists those that are known."
    compaction_id: int


class CompactionNotDoneError(CompactionError):
    """A compaction has ended without success."""

    compaction_id: int
    name: str
    state: str
    reason: str | None = None

    def _describe(self) -> str:
        state = f"{self.state}: {self.reason}" if self.reason else self.state
        return (
            f"Compaction {self.compaction_id} of {self.name} is {state}. The table reads as before; ask for it again."
        )


class CompactionLostError(CompactionError):
    """A worker or cleaner took too long, and has lost its compaction."""

    sentence = (
        "Compaction {compaction_id} of {name} is not with {owner} any more: it was given back after its time-out, or "
        "has ended. Undo its work; nothing of it counts."
    )
    compaction_id: int
    name: str
    owner: str


class ReplacementMissingError(CompactionError):
    """The directory that has replaced obsolete ones is missing or incomplete, so the cleaner deletes nothing.

    ``found`` and ``registered`` are numbers of files and of bytes.
    """

    sentence = (
        "{uri} has {found[0]} files of {found[1]} bytes, and registered are {registered[0]} files of {registered[1]} "
        "bytes. The directories that it replaces may hold the last copy of their rows, and were not deleted: bring it "
        "back from a backup, and keep them until then."
    )
    uri: str
    found: tuple[int, int]
    registered: tuple[int, int]
