"""Errors of connections and cursors of Python's database API."""

from __future__ import annotations

from airflow_hivex.core.errors.pep249 import InterfaceError
from airflow_hivex.core.errors.root import HivexError


class ClosedError(HivexError, InterfaceError):
    """A connection or a cursor was used after it was closed."""

    code = "CLOSED"

    def __init__(self, subject: str) -> None:
        super().__init__(f"The {subject} is closed. Open another one.", subject)


class NoResultSetError(HivexError, InterfaceError):
    """Rows were fetched from a cursor whose last statement has no rows."""

    code = "NO_RESULT_SET"

    def __init__(self, statement: str | None) -> None:
        reason = (
            "has executed no statement" if statement is None else f"has executed {statement}, which returns no rows"
        )
        super().__init__(f"Rows cannot be fetched: the cursor {reason}. Execute a query first.", statement)
