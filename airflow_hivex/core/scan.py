"""A read of a table in this process, with the rows for pyarrow, pandas, polars and DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.statement_record import recorded
from airflow_hivex.core.parser.reader import read_table_name
from airflow_hivex.core.parser.statements import Select

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from airflow_hivex.core.commands.arrow_reads import Filter


class Scan:
    """A read of a table or link by pyarrow in this process, without Spark. :meth:`Session.scan` returns a scan.

    Each method reads the table when the method is called, with a snapshot and locks, as a SELECT does. The columns have
    the types of Spark's ``toArrow``. Each method raises:

    - NoSuchTableError, NoSuchColumnError: the table or a column does not exist.
    - NoSuchVersionError, VersionExpiredError: the table has never had the version, or the version is purged.
    - InvalidOperationError: the table is a view, or only Spark can read the table's format or the type of a column.
    - UnsupportedStatementError, InvalidParametersError: the filter needs Spark, or is not a valid filter.
    - RoutingError: the table is not on the cluster that the session has pinned.
    - StorageError: a file cannot be read from this process.
    """

    def __init__(
        self,
        table: str,
        statement_of: Callable[[str], tuple[StatementContext, Select]],
        columns: Sequence[str] | None,
        filter: Filter,
        threads: int | None,
    ) -> None:
        self._table = table
        self._statement_of = statement_of
        self._options = (columns, filter, threads)

    def to_arrow(self) -> pa.Table:
        """Return the rows. The locks are held until all rows are read."""
        from airflow_hivex.core.commands.arrow_reads import read_table

        context, statement = self._statement_of("to_arrow")
        with recorded(context.services, context.session, "The read", *self._described(context)):
            return read_table(context, statement, *self._options)

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a stream. Only a few stripes are in memory at a time.

        The cleaner keeps the files for ``hivex.dataframe.retention.time`` or, in a transaction, until the transaction
        ends.
        """
        from airflow_hivex.core.commands.arrow_reads import read_batches

        context, statement = self._statement_of("to_batches")
        with recorded(context.services, context.session, "The read", *self._described(context)):
            return read_batches(context, statement, *self._options)

    def _described(self, context: StatementContext) -> tuple[str, str, str]:
        """Return the text, kind and table of the read, for the history of statements."""
        return f"scan({self._table!r})", "SELECT", context.session.full_name(read_table_name(self._table))

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> Any:
        """Return the rows as a DataFrame of polars.

        Raises:
            InvalidOperationError: polars is not installed.
        """
        try:
            import polars as pl
        except ImportError as error:
            reason = "polars is not installed; pip install polars"
            raise InvalidOperationError("to_polars", self._table, reason) from error
        return pl.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any, view: str | None = None) -> Any:
        """Create a view of the rows in a DuckDB connection, and return the view as a relation.

        The name of the view is ``view``, by default the table's name.

        The rows are in the memory of this process as long as the view exists.
        """
        name = view or read_table_name(self._table).name
        connection.register(name, self.to_arrow())
        return connection.table(name)
