"""Our errors as the exceptions of Hive's interface."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core import errors
from airflow_hivex.core.errors import HivexError, Outcome
from airflow_hivex.core.thrift.bindings import Method, ttypes

_EXCEPTIONS: tuple[tuple[type[HivexError], type[Any]], ...] = (
    (errors.NoSuchColumnError, ttypes.InvalidObjectException),
    (errors.NoSuchObjectError, ttypes.NoSuchObjectException),
    (errors.AlreadyExistsError, ttypes.AlreadyExistsException),
    (errors.InvalidObjectError, ttypes.InvalidObjectException),
    (errors.InvalidTypeError, ttypes.InvalidObjectException),
    (errors.InvalidTextError, ttypes.InvalidObjectException),
    (errors.LocationOutsideClusterError, ttypes.InvalidObjectException),
    (errors.InvalidOperationError, ttypes.InvalidOperationException),
    (errors.LinkError, ttypes.InvalidOperationException),
    (errors.TransactionAbortedError, ttypes.TxnAbortedException),
    (errors.TransactionCommittedError, ttypes.NoSuchTxnException),
    (errors.NoSuchTransactionError, ttypes.NoSuchTxnException),
    (errors.LockOfOpenTransactionError, ttypes.TxnOpenException),
    (errors.NoSuchLockError, ttypes.NoSuchLockException),
)
_OTHER_NAMES: dict[type[Any], tuple[type[Any], ...]] = {
    ttypes.NoSuchObjectException: (
        ttypes.UnknownTableException,
        ttypes.UnknownDBException,
        ttypes.InvalidObjectException,
        ttypes.InvalidOperationException,
    ),
    ttypes.InvalidObjectException: (ttypes.InvalidOperationException,),
    ttypes.AlreadyExistsException: (ttypes.InvalidOperationException,),
    ttypes.InvalidOperationException: (ttypes.InvalidObjectException,),
}
"""The exceptions that a method may declare in place of another one."""


def exception_of(error: HivexError, method: Method) -> Any | None:
    """Return the exception that a method answers with; None where it declares no exception for the error.

    A client of Hive repeats a call that is answered with an exception that its method does not declare. So an error
    that a repetition may cure, and that has changed nothing, gets none.
    """
    if error.retryable and error.outcome is not Outcome.UNKNOWN and isinstance(error, errors.StoreError):
        return None
    wanted = next((answer for ours, answer in _EXCEPTIONS if isinstance(error, ours)), ttypes.MetaException)
    sentence = sentence_of(error)
    for each in (wanted, *_OTHER_NAMES.get(wanted, ()), ttypes.MetaException):
        if each in method.exceptions:
            return each(sentence)
    return None


def sentence_of(error: HivexError) -> str:
    """Return the sentence of an error for a client of Hive."""
    if isinstance(error, errors.MissingWriteIdListError):
        (table, *_) = error.facts
        return (
            f"Table {table} is transactional, and this call has no write id list: its files would be read wrongly. "
            "Read it by `hivex sql`, or by a client that sends validWriteIdList."
        )
    return str(error)
