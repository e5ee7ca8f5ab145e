"""Errors of statements and their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import DataError, NotSupportedError, ProgrammingError
from airflow_hivex.core.errors.root import HivexError

if TYPE_CHECKING:
    from collections.abc import Sequence


class SqlError(HivexError, ProgrammingError):
    """A statement cannot be run as written."""

    code = "SQL"


class StatementSyntaxError(SqlError):
    """The text is not a statement that we can read. Lines and columns count from 1."""

    code = "SYNTAX"

    def __init__(self, reason: str, line: int, column: int, text: str = "") -> None:
        source = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
        pointer = f"\n{source}\n{' ' * (column - 1)}^" if source else ""
        super().__init__(f"Line {line}, column {column}: {reason}.{pointer}", reason, line, column, text)
        self.reason = reason
        self.line = line
        self.column = column


class UnsupportedStatementError(StatementSyntaxError, NotSupportedError):
    """The statement is known SQL that this warehouse does not run."""

    code = "UNSUPPORTED_STATEMENT"


class MergeCardinalityError(SqlError, DataError):
    """Several rows of a MERGE's source match one row of its target. Source: Hive, MERGE_CARDINALITY_VIOLATION."""

    code = "MERGE_CARDINALITY"

    def __init__(self, table: str, count: int) -> None:
        super().__init__(
            f"MERGE into {table}: rows of the target that several rows of the source match each: {count}. Their "
            "result is not defined. Make the rows of the source unique by the columns of the condition.",
            table,
            count,
        )


class ConstraintViolationError(SqlError, DataError):
    """A row that is written violates a constraint of its table. ``sample`` has some values of one such row."""

    code = "CONSTRAINT_VIOLATION"

    def __init__(self, table: str, constraint: str, sample: str) -> None:
        row = f"a row with {sample}" if sample else "a row"
        super().__init__(
            f"{table} has the constraint {constraint}, and {row} violates it. Nothing was written; correct the rows, "
            "or drop the constraint by ALTER TABLE.",
            table,
            constraint,
            sample,
        )
        self.table = table
        self.constraint = constraint
        self.sample = sample


class ReplaceConditionError(SqlError, DataError):
    """A row does not satisfy the condition of the rows that it replaces. ``sample`` has some values of one such row."""

    code = "REPLACE_CONDITION"

    def __init__(self, table: str, condition: str, sample: str) -> None:
        row = f"A row with {sample}" if sample else "A row"
        super().__init__(
            f"{row} does not satisfy the condition {condition} of the rows of {table} that are replaced. Nothing was "
            "written; leave the row out, or change the condition.",
            table,
            condition,
            sample,
        )
        self.table = table
        self.condition = condition
        self.sample = sample


class ColumnCountMismatchError(SqlError, DataError):
    """An INSERT has more or fewer values than the table has columns."""

    code = "COLUMN_COUNT"

    def __init__(self, table: str, expected: int, actual: int, columns: Sequence[str] = ()) -> None:
        names = f" ({', '.join(columns)})" if columns else ""
        super().__init__(
            f"INSERT into {table}: the number of columns must be {expected}{names}, not {actual}.",
            table,
            expected,
            actual,
            tuple(columns),
        )
        self.expected = expected
        self.actual = actual


class TypeMismatchError(SqlError, DataError):
    """A value does not fit the type of its column."""

    code = "TYPE_MISMATCH"

    def __init__(self, table: str, column: str, type: str, given: str) -> None:
        super().__init__(
            f"Column {column} of {table} has type {type}; {given} cannot be stored in it without an explicit CAST.",
            table,
            column,
            type,
            given,
        )
        self.table = table
        self.column = column


class UnreadableTextError(TypeMismatchError):
    """A constant text is not readable as the type of its column. Nothing was written."""

    code = "UNREADABLE_TEXT"

    def __init__(self, table: str, column: str, type: str, text: str) -> None:
        SqlError.__init__(
            self,
            f"Column {column} of {table} has type {type}, and the text {text!r} is not a valid value of it. Nothing "
            "was written; correct the text.",
            table,
            column,
            type,
            text,
        )
        self.table = table
        self.column = column
        self.text = text


class AnalysisError(SqlError):
    """Spark read the statement and refused it: a column, function or type is wrong."""

    code = "ANALYSIS"

    def __init__(self, message: str) -> None:
        super().__init__(f"Spark refused the statement: {message}", message)


class InvalidParametersError(SqlError):
    """The parameters given do not fit the markers in the statement."""

    code = "INVALID_PARAMETERS"
