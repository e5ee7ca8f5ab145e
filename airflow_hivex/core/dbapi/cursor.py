"""A cursor of PEP 249, which executes statements of its connection and returns their rows and column types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Self

from airflow_hivex.core.dbapi.binding import Parameters, bind, join_rows
from airflow_hivex.core.errors import ClosedError, InvalidParametersError, NoResultSetError

if TYPE_CHECKING:
    from airflow_hivex.core.dbapi.connection import Connection
    from airflow_hivex.core.session import Result


Row = tuple[object, ...]


class ResultRows:
    """A cursor over the rows of an existing result; it cannot execute statements."""

    def __init__(self, result: Result | None = None) -> None:
        self.arraysize = 1
        self.lastrowid: None = None
        self._result: Result | None = None
        self._description: list[Description] | None = None
        self._statement: str | None = None
        self._rowcount = -1
        self._position = 0
        self._is_closed = False
        if result is not None:
            self._keep("SELECT" if result.columns else "The statement", result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    @property
    def description(self) -> list[Description] | None:
        """Return a description of each result column, or None if the last statement returns no rows.

        The type code is the name of Spark's type, such as ``bigint``.
        """
        return self._description

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the last statement has returned or changed, or -1 if it is unknown.

        A MERGE has a number of written rows and a number of deleted rows, and an updated row counts in both. The result
        is the larger number.
        """
        return self._rowcount

    @property
    def rownumber(self) -> int | None:
        """Return the position of the next row, from 0, or None if the last statement returns no rows."""
        return None if self._description is None else self._position

    @property
    def result(self) -> Result | None:
        """Return the result of the last statement, with cluster, route and transaction, or None before a statement."""
        return self._result

    @property
    def query_id(self) -> str | None:
        """Return the id of the last statement's transaction as a text, or None if it had no transaction."""
        return None if self._result is None or self._result.txn_id is None else str(self._result.txn_id)

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last row."""
        found = self._next(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next rows, at most ``size`` rows, by default ``arraysize``."""
        return self._next(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return all remaining rows."""
        return self._next(None)

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Close the cursor. Its connection and transaction stay open. The cursor keeps its ``rowcount``."""
        rowcount = self._rowcount
        self._forget()
        self._rowcount = rowcount
        self._is_closed = True

    def _next(self, count: int | None) -> list[Row]:
        self._check_open()
        if self._result is None or self._description is None:
            raise NoResultSetError(self._statement)
        end = None if count is None else self._position + count
        rows = self._result.rows[self._position : end]
        self._position += len(rows)
        return rows

    def _keep(self, text: str, result: Result) -> None:
        self._statement = text.split(maxsplit=1)[0].upper() if text.strip() else None
        self._result = result
        self._position = 0
        if result.columns:
            self._description = describe(result.columns, result.column_types, result.rows)
            self._rowcount = len(result.rows)
        elif result.rows_written is not None or result.rows_deleted is not None:
            self._rowcount = max(result.rows_written or 0, result.rows_deleted or 0)

    def _forget(self) -> None:
        self._result = self._description = self._statement = None
        self._rowcount, self._position = -1, 0

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("cursor")


class Cursor(ResultRows):
    """A cursor that executes statements of a connection. All cursors of a connection share its session."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def execute(self, operation: str, parameters: Parameters | None = None, *, max_rows: int | None = None) -> Self:
        """Execute a statement.

        Args:
            operation: one statement.
            parameters: a mapping for ``:name`` markers, or a sequence for ``?`` markers.
            max_rows: the largest number of rows; None returns all.

        Raises:
            Error: any error of the warehouse; each is also an error of PEP 249.
        """
        self._check_open()
        self._forget()
        text, values = bind(operation, parameters)
        self._keep(text, self.connection.run(text, values, max_rows))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Execute a statement with each set of parameters. A statement that returns rows is refused.

        Many sets of an ``INSERT INTO ... VALUES`` are executed as one statement, so that few files are written. If its
        row has markers only, this process writes the rows without Spark where the table allows it.
        """
        self._check_open()
        self._forget()
        written = 0
        sets = list(seq_of_parameters)
        results: Iterable[Result] | None = self.connection.load(operation, sets)
        if results is None:
            results = (self.connection.run(text, values, None) for text, values in join_rows(operation, sets))
        for result in results:
            if result.columns:
                raise InvalidParametersError("executemany() takes no query; execute() returns rows.")
            self._keep(operation, result)
            written += max(self._rowcount, 0)
        self._statement = operation
        self._rowcount = written
        return self

    def _check_open(self) -> None:
        super()._check_open()
        self.connection.check_open()


Description = tuple[str, str, None, None, int | None, int | None, None]
"""The description of a column in PEP 249: name, type, two sizes, precision, scale, and whether NULL is allowed."""

_NAME = re.compile(r"[a-z_]+")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class TypeObject:
    """A group of column types, which compares equal to the type code of each type in the group."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self is other
        if not isinstance(other, str):
            return NotImplemented
        found = _NAME.match(other)
        return found is not None and found.group() in self._types

    def __hash__(self) -> int:
        return hash(self._name)


STRING = TypeObject("STRING", "string", "varchar", "char")
BINARY = TypeObject("BINARY", "binary")
NUMBER = TypeObject("NUMBER", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
DATETIME = TypeObject("DATETIME", "date", "timestamp", "timestamp_ntz", "timestamp_ltz")
ROWID = TypeObject("ROWID")
"""A type object that equals no type, because the row id of a table is a struct."""

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name that PEP 249 gives it
    """Return the date, in UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - the name that PEP 249 gives it
    """Return the time of day, in UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802 - the name that PEP 249 gives it
    """Return the date and time, in UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC)


def describe(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Description]:
    """Return the description of each column.

    If ``types`` is empty, the type of a column is that of its first non-NULL value.
    """
    known = list(types) or [_type_of_values(rows, at) for at in range(len(names))]
    return [_column(name, spark_type) for name, spark_type in zip(names, known, strict=True)]


def _column(name: str, type: str) -> Description:
    decimal = _DECIMAL.fullmatch(type)
    precision, scale = (int(decimal[1]), int(decimal[2])) if decimal else (None, None)
    return (name, type, None, None, precision, scale, None)


def _type_of_values(rows: Sequence[Sequence[object]], at: int) -> str:
    value = next((row[at] for row in rows if row[at] is not None), None)
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case Decimal():
            return "decimal"
        case datetime():
            return "timestamp"
        case date():
            return "date"
        case bytes():
            return "binary"
    return "string"
