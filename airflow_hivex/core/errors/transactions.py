"""Errors of transactions and their snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError, Outcome


class TransactionError(HivexError, pep249.OperationalError):
    """A transaction is not in the state that the call needs."""

    code = "TRANSACTION"


class NoSuchTransactionError(TransactionError):
    """No transaction has this id, or its record is gone already."""

    code = "NO_SUCH_TRANSACTION"
    sentence = "There is no transaction {txn_id}."
    txn_id: int


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, by its owner, a time-out or a conflict."""

    code = "TRANSACTION_ABORTED"
    txn_id: int
    reason: str | None = None

    def _describe(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"Transaction {self.txn_id} was aborted{because}. Nothing it wrote is visible; run the statement again."


class TransactionCommittedError(TransactionError):
    """The transaction has committed already, so it cannot do this any more."""

    code = "TRANSACTION_COMMITTED"
    sentence = "Transaction {txn_id} has committed already."
    txn_id: int


class TransactionNotOpenError(TransactionError):
    """Write ids were asked for with a transaction that is not open or may not write."""

    code = "TRANSACTION_NOT_OPEN"
    txn_ids: Sequence[int]
    why: str

    def _describe(self) -> str:
        return f"Transactions {', '.join(map(str, self.txn_ids))}: {self.why}."


class TooManyOpenTransactionsError(TransactionError):
    """hive.max.open.txns is reached."""

    code = "TOO_MANY_OPEN_TRANSACTIONS"
    retryable = True
    sentence = (
        "{open_count} transactions are open and hive.max.open.txns is {limit}; abort idle ones or wait for them to end."
    )
    open_count: int
    limit: int


class CommitOutcomeUnknownError(TransactionError):
    """The database was lost during a commit and could not be asked afterwards."""

    code = "COMMIT_OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN
    sentence = (
        "The metastore database was lost while transaction {txn_id} committed. Look it up by its id before running the "
        "statement again; do not delete its files."
    )
    txn_id: int


class WriteConflictError(TransactionAbortedError):
    """Another transaction that overlaps this one has updated or deleted the same rows' partition first.

    The transaction was aborted; the statement may succeed in a new one.
    """

    code = "WRITE_CONFLICT"
    retryable = True
    reason: str


class DeadlockError(TransactionAbortedError):
    """Transactions waited for each other's locks in a circle, and this one was chosen to be aborted."""

    code = "DEADLOCK"
    retryable = True
    reason: str


class InvalidTransactionRequestError(TransactionError):
    """A call to the transaction manager asks for something that does not exist."""

    code = "INVALID_TRANSACTION_REQUEST"


class UnexpectedError(HivexError, pep249.InternalError):
    """An error that no part of this project knows. Its cause has the details; the transaction is settled."""

    code = "UNEXPECTED"
    sentence = (
        "{what} ended with an error that is not known here: {reason}. Its transaction is settled. Report the error "
        "together with its cause."
    )
    what: str
    reason: str


class StatementCancelledError(TransactionError):
    """A statement was cancelled; the transaction that it was part of continues without it."""

    code = "STATEMENT_CANCELLED"
    sentence = "The statement was cancelled; transaction {txn_id} continues without it."
    txn_id: int


class WriteTakenBackError(TransactionError):
    """Another session has repeated the same part of a transaction, so this one's write does not count."""

    code = "WRITE_TAKEN_BACK"
    sentence = "The write to {table} in transaction {txn_id} was withdrawn: {writer!r} runs again elsewhere."
    table: str
    txn_id: int
    writer: str


class InvalidWriteIdListError(HivexError, pep249.ProgrammingError):
    """A text is not a transaction list or write id list."""

    code = "INVALID_WRITE_ID_LIST"
    sentence = "{text!r} is not a transaction or write id list: {reason}."
    text: str
    reason: str


class MissingWriteIdListError(HivexError, pep249.ProgrammingError):
    """A transactional table is read or changed without a write id list."""

    code = "MISSING_WRITE_ID_LIST"
    sentence = (
        "Table {table} is transactional and the call has no write id list for it; pass the list of your snapshot, or "
        "leave the argument out for the current state."
    )
    table: str


class NotEnoughHistoryError(HivexError, pep249.OperationalError):
    """A compacted base hides data that this snapshot still needs (Hive's ACID_NOT_ENOUGH_HISTORY, 10327)."""

    code = "ACID_NOT_ENOUGH_HISTORY"
    sentence = "Not enough history available for ({high_watermark},{first_exception}). Oldest available base: {base}."

    high_watermark: int
    first_exception: int | None
    base: str
