"""Errors of transactions and their snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import InternalError, OperationalError, ProgrammingError
from airflow_hivex.core.errors.root import HivexError, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence


class TransactionError(HivexError, OperationalError):
    """A transaction is not in the state that the call needs."""

    code = "TRANSACTION"


class NoSuchTransactionError(TransactionError):
    """No transaction has this id, or its record is gone already."""

    code = "NO_SUCH_TRANSACTION"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"There is no transaction {txn_id}.", txn_id)
        self.txn_id = txn_id


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, by its owner, a time-out or a conflict."""

    code = "TRANSACTION_ABORTED"

    def __init__(self, txn_id: int, reason: str | None = None) -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            f"Transaction {txn_id} was aborted{because}. Nothing it wrote is visible; run the statement again.",
            txn_id,
            reason,
        )
        self.txn_id = txn_id
        self.reason = reason


class TransactionCommittedError(TransactionError):
    """The transaction has committed already, so it cannot do this any more."""

    code = "TRANSACTION_COMMITTED"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"Transaction {txn_id} has committed already.", txn_id)
        self.txn_id = txn_id


class TransactionNotOpenError(TransactionError):
    """Write ids were asked for with a transaction that is not open or may not write."""

    code = "TRANSACTION_NOT_OPEN"

    def __init__(self, txn_ids: Sequence[int], why: str) -> None:
        super().__init__(f"Transactions {', '.join(map(str, txn_ids))}: {why}.", tuple(txn_ids), why)
        self.txn_ids = tuple(txn_ids)


class TooManyOpenTransactionsError(TransactionError):
    """hive.max.open.txns is reached."""

    code = "TOO_MANY_OPEN_TRANSACTIONS"
    retryable = True

    def __init__(self, open_count: int, limit: int) -> None:
        super().__init__(
            f"{open_count} transactions are open and hive.max.open.txns is {limit}; "
            "abort idle ones or wait for them to end.",
            open_count,
            limit,
        )


class CommitOutcomeUnknownError(TransactionError):
    """The database was lost during a commit and could not be asked afterwards."""

    code = "COMMIT_OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN

    def __init__(self, txn_id: int) -> None:
        super().__init__(
            f"The metastore database was lost while transaction {txn_id} committed. Look it up by its id "
            "before running the statement again; do not delete its files.",
            txn_id,
        )
        self.txn_id = txn_id


class WriteConflictError(TransactionAbortedError):
    """Another transaction that overlaps this one has updated or deleted the same rows' partition first.

    The transaction was aborted; the statement may succeed in a new one.
    """

    code = "WRITE_CONFLICT"
    retryable = True

    def __init__(self, txn_id: int, reason: str) -> None:
        super().__init__(txn_id, reason)


class DeadlockError(TransactionAbortedError):
    """Transactions waited for each other's locks in a circle, and this one was chosen to be aborted."""

    code = "DEADLOCK"
    retryable = True

    def __init__(self, txn_id: int, reason: str) -> None:
        super().__init__(txn_id, reason)


class InvalidTransactionRequestError(TransactionError):
    """A call to the transaction manager asks for something that does not exist."""

    code = "INVALID_TRANSACTION_REQUEST"


class UnexpectedError(HivexError, InternalError):
    """An error that no part of this project knows. Its cause has the details; the transaction is settled."""

    code = "UNEXPECTED"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"{what} ended with an error that is not known here: {reason}. Its transaction is settled. "
            "Report the error together with its cause.",
            what,
            reason,
        )


class StatementCancelledError(TransactionError):
    """A statement was cancelled; the transaction that it was part of continues without it."""

    code = "STATEMENT_CANCELLED"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"The statement was cancelled; transaction {txn_id} continues without it.", txn_id)
        self.txn_id = txn_id


class WriteTakenBackError(TransactionError):
    """Another session has repeated the same part of a transaction, so this one's write does not count."""

    code = "WRITE_TAKEN_BACK"

    def __init__(self, table: str, txn_id: int, writer: str) -> None:
        super().__init__(
            f"The write to {table} in transaction {txn_id} was withdrawn: {writer!r} runs again elsewhere.",
            table,
            txn_id,
            writer,
        )
        self.table = table
        self.txn_id = txn_id
        self.writer = writer


class InvalidWriteIdListError(HivexError, ProgrammingError):
    """A text is not a transaction list or write id list."""

    code = "INVALID_WRITE_ID_LIST"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text!r} is not a transaction or write id list: {reason}.", text, reason)


class MissingWriteIdListError(HivexError, ProgrammingError):
    """A transactional table is read or changed without a write id list."""

    code = "MISSING_WRITE_ID_LIST"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"Table {table} is transactional and the call has no write id list for it; pass the list of your snapshot, "
            "or leave the argument out for the current state.",
            table,
        )
        self.table = table


class NotEnoughHistoryError(HivexError, OperationalError):
    """A compacted base hides data that this snapshot still needs (Hive's ACID_NOT_ENOUGH_HISTORY, 10327)."""

    code = "ACID_NOT_ENOUGH_HISTORY"

    def __init__(self, high_watermark: int, first_exception: int | None, base: str) -> None:
        super().__init__(
            f"Not enough history available for ({high_watermark},{first_exception}). Oldest available base: {base}.",
            high_watermark,
            first_exception,
            base,
        )
        self.base = base
