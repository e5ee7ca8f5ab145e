"""A cursor of PEP 249: executes statements of its connection, and returns their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from airflow_hivex.core.dbapi.binding import Parameters, bind, join_rows
from airflow_hivex.core.dbapi.types import Description, describe
from airflow_hivex.core.errors import ClosedError, InvalidParametersError, NoResultSetError

if TYPE_CHECKING:
    from airflow_hivex.core.dbapi.connection import Connection
    from airflow_hivex.core.session import Result

Row = tuple[object, ...]


class ResultRows:
    """The rows of a result that is there already, as the cursor that has executed its statement returns them."""

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

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    @property
    def description(self) -> list[Description] | None:
        """Return the columns of the last statement; None where it returns no rows. The type code is Spark's type."""
        return self._description

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the last statement has returned or changed; -1 where there is no number.

        That of a MERGE is the larger of the rows that it has written and the rows that it has deleted, which counts
        a row that it has updated once.
        """
        return self._rowcount

    @property
    def rownumber(self) -> int | None:
        """Return the position of the next row, from 0; None without a result."""
        return None if self._description is None else self._position

    @property
    def result(self) -> Result | None:
        """Return the result of the last statement with its cluster, route and transaction."""
        return self._result

    @property
    def query_id(self) -> str | None:
        """Return the id of the last statement's transaction."""
        return None if self._result is None or self._result.txn_id is None else str(self._result.txn_id)

    def fetchone(self) -> Row | None:
        """Return the next row, or None behind the last one."""
        found = self._next(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next rows, at most ``size`` of them, by default ``arraysize``."""
        return self._next(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return all rows that are left."""
        return self._next(None)

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """End the cursor. Its connection stays open, and its writes remain."""
        self._forget()
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
    """The statements of a connection, and the rows of the last one. All cursors of a connection share its session."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def execute(self, operation: str, parameters: Parameters | None = None, *, max_rows: int | None = None) -> Self:
        """Execute a statement.

        Args:
            operation: one statement.
            parameters: a mapping for ``:name`` markers, or a sequence for ``?`` markers.
            max_rows: the most rows that it returns; None returns all.

        Raises:
            Error: each error of the warehouse is also one of PEP 249.
        """
        self._check_open()
        self._forget()
        text, values = bind(operation, parameters)
        self._keep(text, self.connection.run(text, values, max_rows))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Execute a statement with each set of parameters; its rows cannot be fetched.

        ``INSERT INTO ... VALUES`` is executed with many sets at once, so that it writes few files.
        """
        self._check_open()
        self._forget()
        written = 0
        for text, values in join_rows(operation, list(seq_of_parameters)):
            result = self.connection.run(text, values, None)
            if result.columns:
                raise InvalidParametersError("executemany() takes no query; execute() returns rows.")
            self._keep(text, result)
            written += max(self._rowcount, 0)
        self._statement = operation
        self._rowcount = written
        return self

    def _check_open(self) -> None:
        super()._check_open()
        self.connection.check_open()
