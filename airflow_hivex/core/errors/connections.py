"""Errors of connections and cursors of Python's database API."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError


class ClosedError(HivexError, pep249.InterfaceError):
    """A connection or a cursor was used after it was closed."""

    code = "CLOSED"
    sentence = "The {subject} is closed. Open another one."
    subject: str


class NoResultSetError(HivexError, pep249.InterfaceError):
    """Rows were fetched from a cursor whose last statement has no rows."""

    code = "NO_RESULT_SET"
    statement: str | None

    def _describe(self) -> str:
        executed = "no statement" if self.statement is None else f"{self.statement}, which returns no rows"
        return f"Rows cannot be fetched: the cursor has executed {executed}. Execute a query first."
