"""The warehouse in a notebook: tables as DataFrames of the user's own SparkSession."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.statements import Select, Statement
from airflow_hivex.core.sql.markers import parameter_literal
from airflow_hivex.core.sql.reader import read, read_table_name
from airflow_hivex.core.statements.context import Result, StatementContext
from airflow_hivex.core.statements.frames import query_frame, write_frame
from airflow_hivex.core.statements.own_errors import own_errors

if TYPE_CHECKING:
    from airflow_hivex.core.spark.given import Frame, GivenSession

_MODES = {"append": False, "overwrite": True}


class Warehouse:
    """Tables of a session as DataFrames; from :meth:`Session.warehouse`.

    A DataFrame shows one snapshot whenever it is computed: that of the call, or in a transaction
    (``START TRANSACTION``) that of the transaction. Nothing keeps its files from being deleted by DROP once the
    call has returned; a transaction of several statements does.
    """

    def __init__(
        self,
        spark: GivenSession,
        context: Callable[[Mapping[str, object] | None], StatementContext],
        execute: Callable[[Statement, Mapping[str, object] | None], Result],
    ) -> None:
        self._spark = spark
        self._context = context
        self._execute = execute

    def table(self, name: str) -> Frame:
        """All rows of ``table`` or ``database.table``, in one snapshot.

        Raises:
            NoSuchTableError: it does not exist.
            RoutingError: it is not on the session's cluster.
        """
        read_table_name(name)
        rows = self.sql(f"SELECT * FROM {name}")  # noqa: S608 - it was read as a name
        assert not isinstance(rows, Result)
        return rows

    def sql(self, text: str, parameters: Mapping[str, object] | None = None) -> Frame | Result:
        """A query's rows as a DataFrame; what any other statement brought.

        Raises:
            HivexError: as :meth:`Session.sql`.
        """
        with own_errors("The statement"):
            context = self._context(parameters)
            statement = read(text, parameters, database=context.session.database)
            if isinstance(statement, Select):
                return query_frame(context, statement, self._spark)
            return self._execute(statement, parameters)

    def write(
        self, rows: Frame, name: str, mode: str = "append", partition: Mapping[str, object] | None = None
    ) -> Result:
        """Commit a DataFrame's rows to a table, its columns matched by name.

        ``mode`` is ``append`` or ``overwrite``: all of the table, or the partitions that the rows are of.
        ``partition`` gives values to leading partition columns, which the DataFrame then lacks.

        Raises:
            NoSuchColumnError, ColumnCountMismatchError, TypeMismatchError: the columns are not those of the table.
            HivexError: as an INSERT.
        """
        if mode not in _MODES:
            raise InvalidOperationError("Write", name, f"mode {mode!r} is neither append nor overwrite")
        with own_errors("The write"):
            static = {key.lower(): parameter_literal(key, value) for key, value in (partition or {}).items()}
            return write_frame(self._context(None), rows, read_table_name(name), overwrite=_MODES[mode], static=static)
