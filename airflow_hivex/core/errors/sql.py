"""Errors of statements, their parameters, and cursors."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.errors.secrets import hide


class SqlError(HivexError, pep249.ProgrammingError):
    """A statement cannot be run as written."""

    # A subclass with another class of PEP 249 names it first: SQLAlchemy takes the first one among the base classes.


class StatementSyntaxError(SqlError):
    """The text is not a statement of this warehouse. Lines and columns count from 1."""

    code = "SYNTAX"
    reason: str
    line: int
    column: int
    text: str = ""

    def _describe(self) -> str:
        lines = self.text.splitlines()
        pointer = ""
        if 0 < self.line <= len(lines) and (given := lines[self.line - 1]):
            # The secrets of a statement are not found in a single line of it.
            shown = hide(self.text).splitlines()[self.line - 1]
            before = self.column - 1
            pointer = f"\n{shown}" + (f"\n{' ' * before}^" if shown[:before] == given[:before] else "")
        return f"Line {self.line}, column {self.column}: {self.reason}.{pointer}"


class UnsupportedStatementError(pep249.NotSupportedError, StatementSyntaxError):
    """The statement is SQL that is recognised, but that this warehouse does not run."""


class MergeCardinalityError(pep249.DataError, SqlError):
    """Several rows of a MERGE's source match one row of its target. Source: Hive, MERGE_CARDINALITY_VIOLATION."""

    sentence = (
        "MERGE into {table}: rows of the target that several rows of the source match each: {count}. Their result is "
        "not defined. Make the rows of the source unique by the columns of the condition."
    )
    table: str
    count: int


class ConstraintViolationError(pep249.IntegrityError, SqlError):
    """A written row violates a constraint of its table. ``sample`` has some values of the row."""

    table: str
    constraint: str
    sample: str

    def _describe(self) -> str:
        row = f"a row with {self.sample}" if self.sample else "a row"
        return (
            f"{self.table} has the constraint {self.constraint}, and {row} violates it. Nothing was written; correct "
            "the rows, or drop the constraint by ALTER TABLE."
        )


class UnfitRowError(pep249.DataError, SqlError):
    """A row of a file does not fit the columns of its table. ``line`` counts from 1, and is None if it is not known."""

    table: str
    file: str
    line: int | None
    column: str | None
    reason: str

    def _describe(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column}"
        return (
            f"COPY INTO {self.table}: {self.file}{line}{column}: {self.reason}. Nothing was loaded; correct the file, "
            "or load the other rows by ON_ERROR = CONTINUE REJECTS INTO a table. VALIDATE lists such rows."
        )


class ReplaceConditionError(pep249.DataError, SqlError):
    """A row to insert does not satisfy the condition of REPLACE WHERE. ``sample`` has some values of the row."""

    table: str
    condition: str
    sample: str

    def _describe(self) -> str:
        row = f"A row with {self.sample}" if self.sample else "A row"
        return (
            f"{row} does not satisfy the condition {self.condition} of the rows of {self.table} that are replaced. "
            "Nothing was written; leave the row out, or change the condition."
        )


class ColumnCountMismatchError(pep249.DataError, SqlError):
    """An INSERT has more or fewer values than the table has columns."""

    code = "COLUMN_COUNT"
    table: str
    expected: int
    actual: int
    columns: Sequence[str] = ()

    def _describe(self) -> str:
        names = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"INSERT into {self.table}: the number of columns must be {self.expected}{names}, not {self.actual}."


class TypeMismatchError(pep249.DataError, SqlError):
    """A value does not fit the type of its column."""

    sentence = "Column {column} of {table} has type {type}; {text} cannot be stored in it without an explicit CAST."
    table: str
    column: str
    type: str
    text: str


class UnreadableTextError(TypeMismatchError):
    """A constant text is not a valid value of its column's type. Nothing was written."""

    sentence = (
        "Column {column} of {table} has type {type}, and the text {text!r} is not a valid value of it. Nothing was "
        "written; correct the text."
    )


class AnalysisError(SqlError):
    """Spark refused the statement, because a column, function or type is wrong."""

    sentence = "Spark refused the statement: {message}"
    message: str


class InvalidParametersError(SqlError):
    """The parameters do not fit the markers in the statement."""


class ClosedError(HivexError, pep249.InterfaceError):
    """A connection or a cursor was used after it was closed."""

    sentence = "The {subject} is closed. Open another one."
    subject: str


class NoResultSetError(HivexError, pep249.InterfaceError):
    """Rows were fetched from a cursor whose last statement has no rows."""

    statement: str | None

    def _describe(self) -> str:
        executed = "no statement" if self.statement is None else f"{self.statement}, which returns no rows"
        return f"Rows cannot be fetched: the cursor has executed {executed}. Execute a query first."
