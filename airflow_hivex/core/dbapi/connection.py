"""A connection of PEP 249: a session whose statements share a transaction until commit() or rollback()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from airflow_hivex.core.dbapi.binding import Parameters, bind, rows_of_sets
from airflow_hivex.core.dbapi.cursor import Cursor
from airflow_hivex.core.errors import ClosedError, InvalidOperationError, pep249
from airflow_hivex.core.parser import statements as kinds

if TYPE_CHECKING:
    from airflow_hivex.core.session import Result, Session

MOST_LOADED = 200_000
"""The largest number of values that :meth:`Connection.load` writes at once. More of them become several files."""

_WITH_A_SNAPSHOT = (kinds.RoutedStatement, kinds.LoadData, kinds.Truncate, kinds.RestoreTable)
_ALONE = (
    kinds.ExplainRoute,
    kinds.ExplainChanges,
    kinds.ExplainMultiInsert,
    kinds.ExplainQuery,
    kinds.DescribeQuery,
    kinds.ShowFunctions,
    kinds.DescribeFunction,
)


def connect(
    url: str,
    *,
    clusters: Mapping[str, Any] | str | Path | None = None,
    default_cluster: str | None = None,
    settings: Mapping[str, Any] | None = None,
    user: str | None = None,
    database: str = "default",
    cluster: str | None = None,
    autocommit: bool = False,
) -> Connection:
    """Return a connection to a warehouse; closing the connection closes the warehouse, too.

    Args:
        url: the address of the metastore database, as in ``Metastore.open``.
        clusters: the value of ``hive.cluster.properties``.
        default_cluster: the value of ``hive.default.cluster.name``.
        settings: values of any other ``hive.*`` parameters.
        user: the owner of transactions, and of the objects that statements create.
        database: the current database.
        cluster: the cluster to pin, as USE CLUSTER does.
        autocommit: whether each statement is a transaction of its own.

    Raises:
        Error: the warehouse cannot be opened.
    """
    from airflow_hivex.core.metastore import Metastore

    with ExitStack() as resources:
        metastore = resources.enter_context(
            Metastore.open(url, clusters=clusters, default_cluster=default_cluster, settings=settings)
        )
        session = metastore.session(user=user, database=database, cluster=cluster)
        return Connection(session, autocommit=autocommit, resources=resources.pop_all())


class Connection:
    """A session with the methods of PEP 249. It belongs to one thread.

    Without ``autocommit`` the first query or change of rows begins a transaction. ``commit()`` or ``rollback()`` ends
    the transaction, and ``close()`` rolls it back. A statement that cannot be part of a transaction, such as CREATE
    TABLE, first commits the open transaction, as in MySQL and Oracle. The statements START TRANSACTION, COMMIT and
    ROLLBACK are allowed, too. In a transaction that START TRANSACTION has begun, CREATE TABLE raises an error.
    """

    Warning = pep249.Warning
    Error = pep249.Error
    InterfaceError = pep249.InterfaceError
    DatabaseError = pep249.DatabaseError
    DataError = pep249.DataError
    OperationalError = pep249.OperationalError
    IntegrityError = pep249.IntegrityError
    InternalError = pep249.InternalError
    ProgrammingError = pep249.ProgrammingError
    NotSupportedError = pep249.NotSupportedError

    def __init__(self, session: Session, *, autocommit: bool = False, resources: ExitStack | None = None) -> None:
        self._session = session
        self._autocommit = autocommit
        self._resources = resources or ExitStack()
        self._began = False
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an error, and then close the connection."""
        try:
            if error_type is None and not self._is_closed:
                self.commit()
        finally:
            self.close()

    @property
    def session(self) -> Session:
        """Return the session that runs the statements."""
        return self._session

    @property
    def autocommit(self) -> bool:
        """Return whether each statement is a transaction of its own."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.check_open()
        if bool(value) != self._autocommit and self._session.txn_id is not None:
            raise InvalidOperationError(
                "A change of autocommit", f"transaction {self._session.txn_id}", "it is open; commit or roll back first"
            )
        self._autocommit = bool(value)

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self.check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Commit the open transaction, if there is one.

        Raises:
            WriteConflictError: another transaction has changed the same rows. The writes are not visible.
            OperationalError: any other error of COMMIT.
        """
        self.check_open()
        if self._session.txn_id is not None:
            self._session.sql("COMMIT")
        self._began = False

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        self.check_open()
        if self._session.txn_id is not None:
            self._session.sql("ROLLBACK")
        self._began = False

    def cancel(self) -> None:
        """Stop the statement that this connection runs in another thread."""
        self._session.cancel()

    def close(self) -> None:
        """End the session; its open transaction is rolled back. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._resources:
            self._session.close()

    def run(self, text: str, parameters: Mapping[str, object] | None, max_rows: int | None) -> Result:
        """Run a statement in the connection's transaction, and return its result. Cursors call this method."""
        self.check_open()
        if not self._autocommit:
            self._begin_or_commit(self._session.read(text, parameters))
        return self._session.sql(text, parameters, max_rows)

    def insert_rows(self, table: str, rows: list[Any]) -> Result:
        """Insert Python values in the connection's transaction, and return the result."""
        self.check_open()
        if not self._autocommit and self._session.txn_id is None:
            self._begin()
        return self._session.insert_rows(table, rows)

    def load(self, text: str, sets: Sequence[Parameters]) -> list[Result] | None:
        """Insert one row for each set of parameters, as ``insert_rows`` does, in one transaction.

        The statement must be an ``INSERT INTO ... VALUES`` of one row of markers. For any other statement the result is
        None, and nothing is inserted.

        Raises:
            InvalidParametersError: a set has other markers than the first one.
        """
        self.check_open()
        bound, values = bind(text, sets[0]) if sets else (text, None)
        statement = self._session.read(bound, values) if values else None
        if not isinstance(statement, kinds.Insert) or (markers := statement.row_of_markers) is None:
            return None
        rows = rows_of_sets(sets, list(values or ()), markers)
        if statement.columns is not None:
            rows = [dict(zip(statement.columns, row, strict=True)) for row in rows]
        size = max(1, MOST_LOADED // len(markers))
        parts = [rows[at : at + size] for at in range(0, len(rows), size)]
        if len(parts) == 1 or not self._autocommit or self._session.txn_id is not None:
            return [self.insert_rows(str(statement.target), part) for part in parts]
        self._begin()
        try:
            results = [self._session.insert_rows(str(statement.target), part) for part in parts]
        except BaseException:
            self.rollback()
            raise
        self.commit()
        return results

    def end_script(self) -> None:
        """Commit at the end of a script, unless START TRANSACTION has begun the open transaction.

        Raises:
            InvalidOperationError: a START TRANSACTION has no COMMIT or ROLLBACK. Closing the connection rolls the
                transaction back.
        """
        if self._began:
            self.commit()
        self._session.check_ended()

    def check_open(self) -> None:
        """Ensure that the connection was not closed.

        Raises:
            ClosedError: the connection was closed.
        """
        if self._is_closed:
            raise ClosedError("connection")

    def _begin_or_commit(self, statement: kinds.Statement) -> None:
        if isinstance(statement, kinds.StartTransaction) or not statement.IN_TRANSACTIONS:
            if self._began:
                self.commit()
        elif isinstance(statement, kinds.Commit | kinds.Rollback):
            self._began = False
        elif (
            self._session.txn_id is None
            and isinstance(statement, _WITH_A_SNAPSHOT)
            and not isinstance(statement, _ALONE)
        ):
            self._begin()

    def _begin(self) -> None:
        self._session.sql("START TRANSACTION")
        self._began = True
