"""The hook of a connection of type ``hivex``, with the methods that the SQL operators of Airflow expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.providers.common.sql.dialects.dialect import Dialect
from airflow.providers.common.sql.hooks.handlers import return_single_query_results
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk.exceptions import AirflowFailException, AirflowOptionalProviderFeatureException

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.hooks.configuration import EXTRAS
from airflow_hivex.hooks.warehouse import WarehouseHook, close_metastores, share_metastore, split_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.providers.openlineage.extractors import OperatorLineage
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame
    from sqlalchemy.engine import URL

    from airflow_hivex.core.dbapi import Connection, Cursor

    Parameters = Mapping[str, Any] | Sequence[Any] | None


__all__ = ["HivexHook", "close_metastores", "share_metastore", "split_statements"]

ROWS_OF_INSERT = 10_000
"""The number of rows of one INSERT of :meth:`HivexHook.insert_rows`."""


class HivexHook(WarehouseHook, DbApiHook):  # type: ignore[misc]
    """The hook of a connection of type ``hivex``. The hook is also a ``DbApiHook``.

    If the connection ``hivex_default`` does not exist, the hook uses an embedded warehouse: SQLite and one cluster
    ``local`` under ``$AIRFLOW_HOME/hivex``.

    :param hivex_conn_id: the id of the connection
    :param schema: the current database; None for the database of the connection
    :param database: another name of ``schema``
    :param cluster: the cluster that runs all statements, as USE CLUSTER does; None: the router chooses
    :param user: the owner of the transactions, and of the objects that statements create
    :param log_sql: whether statements are logged
    """

    supports_autocommit = True
    supports_executemany = True
    _test_connection_sql = "SHOW DATABASES"

    def __init__(
        self,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        *,
        schema: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        user: str | None = None,
        log_sql: bool = True,
        logger_name: str | None = None,
        **fields: Any,
    ) -> None:
        # The operators of common.sql hand over all fields of the connection's extra.
        unknown = sorted(set(fields).difference(EXTRAS))
        if unknown:
            raise AirflowFailException(
                f"HivexHook does not take {', '.join(unknown)}. It takes schema, cluster, user and log_sql, and the "
                "fields of its connection."
            )
        DbApiHook.__init__(self, hivex_conn_id, schema=schema, log_sql=log_sql)
        self._logger_name = logger_name
        self.schema = schema or database
        self.cluster = cluster
        self.user = user
        self._executed: list[tuple[str, int | None]] = []

    # -- PEP 249 ---------------------------------------------------------------

    def get_conn(self) -> Connection:
        """Return a new connection (PEP 249) with its own session. The caller must close the connection.

        :raises HivexError: the warehouse cannot be opened, or does not have the database or the cluster
        """
        return self._connect(autocommit=False)

    def run(  # type: ignore[override]
        self,
        sql: str | Sequence[str],
        autocommit: bool | Mapping[str, Any] | None = None,
        parameters: Parameters = None,
        handler: Callable[[Any], Any] | None = None,
        split_statements: bool = True,
        return_last: bool = True,
        *,
        max_rows: int | None = None,
        user: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        agent_info: str | None = None,
    ) -> Any:
        """Run one or several statements in one session.

        Without a ``handler`` the :class:`Result` of the last statement is returned. A handler is called with the cursor
        after each statement. If ``sql`` is a text and ``return_last`` is true, the handler's last result is returned.
        Otherwise a list of all results of the handler is returned.

        :param sql: a script, or a list of scripts
        :param autocommit: True or None: each statement is a transaction of its own. False: all statements of a script
            are one transaction. A statement that cannot be a part of a transaction, such as CREATE TABLE, first commits
            the open transaction. A mapping as ``autocommit`` is used as ``parameters``
        :param parameters: values of the ``:name`` markers in any of the statements, or a sequence for ``?`` markers
        :param handler: a function that takes the cursor of a statement, and returns the result of the statement
        :param split_statements: whether a text can have several statements
        :param return_last: whether only the last result is returned
        :param max_rows: the largest number of rows of each result; None for all
        :raises HivexError: a statement is wrong, or could not be run
        """
        if isinstance(autocommit, Mapping):
            autocommit, parameters = None, autocommit
        statements = _statements(sql, split_statements)
        shared = _share(statements, parameters)
        is_alone = len(statements) == 1
        self.descriptions = []
        results: list[Any] = []
        is_single = return_single_query_results(sql, return_last, split_statements)
        with closing(
            self._connect(
                autocommit=is_alone or autocommit is not False,
                user=user,
                database=database,
                cluster=cluster,
                agent_info=agent_info,
            )
        ) as connection:
            cursor = connection.cursor()
            for statement, values in zip(statements, shared, strict=True):
                self._execute(cursor, statement, values, max_rows)
                if handler is not None:
                    results.append(self._make_common_data_structure(handler(cursor)))
                    self.descriptions.append(cursor.description)
            connection.end_script()
        if handler is None:
            return cursor.result
        if is_single:
            self.descriptions = self.descriptions[-1:]
            return results[-1]
        return results

    def insert_rows(
        self,
        table: str,
        rows: Iterable[Sequence[Any]],
        target_fields: Iterable[str] | None = None,
        commit_every: int = 0,
        replace: bool = False,
        *,
        executemany: bool = True,  # noqa: ARG002 - the other hooks have it
        fast_executemany: bool = False,  # noqa: ARG002
        autocommit: bool = False,
        **kwargs: Any,
    ) -> None:
        """Insert rows. If the table allows it, this process writes the files without Spark.

        :param table: ``table`` or ``database.table``
        :param rows: sequences of values in the order of the columns
        :param target_fields: the columns; None for all columns of the table, with the partition columns last
        :param commit_every: the number of rows of each transaction; 0 for one transaction with all rows
        :param replace: not available; use MERGE
        :param autocommit: whether to commit after each INSERT of at most 10,000 rows
        :raises HivexError: the rows do not fit the table, or could not be written. The rows of the failed transaction
            are not visible
        """
        if replace or kwargs:
            wrong = "replace" if replace else ", ".join(sorted(kwargs))
            raise InvalidOperationError("insert_rows", table, f"{wrong} is not available; write MERGE, which is")
        if isinstance(commit_every, bool) or not isinstance(commit_every, int) or commit_every < 0:
            raise InvalidOperationError("insert_rows", table, f"commit_every = {commit_every!r} is not 0 or more rows")
        fields = list(target_fields) if target_fields is not None else None
        left = iter(rows)
        count = 0
        with closing(self._connect(autocommit=autocommit)) as connection:
            while transaction := _chunk(left, commit_every or ROWS_OF_INSERT):
                for at in range(0, len(transaction), ROWS_OF_INSERT):
                    part = transaction[at : at + ROWS_OF_INSERT]
                    connection.insert_rows(table, [_named(fields, row, number) for number, row in enumerate(part, 1)])
                count += len(transaction)
                if commit_every:
                    connection.commit()
                self.log.info("Inserted %d rows into %s so far", count, table)
            connection.commit()
        self.log.info("Inserted %d rows into %s", count, table)

    # -- descriptions ----------------------------------------------------------

    @property
    def placeholder(self) -> str:
        """Return ``?``, the marker of a value in a statement."""
        return "?"

    @cached_property
    def dialect_name(self) -> str:
        """Return the name of the dialect."""
        return "hivex"

    @cached_property
    def dialect(self) -> HivexDialect:
        """Return the dialect: the rules by which operators of common.sql write SQL."""
        return HivexDialect(self)

    @property
    def reserved_words(self) -> set[str]:
        """Return an empty set. :meth:`HivexDialect.escape_word` decides by the characters of a name."""
        return set()

    @staticmethod
    def split_sql_string(sql: str, strip_semicolon: bool = False) -> list[str]:  # noqa: ARG004
        """Return the statements of a script without the semicolons.

        The script is split by the rules of Spark's lexer.
        """
        return split_statements(sql)

    def get_uri(self) -> str:
        """Return the address of the database, ``hivex://connection/database``, without any secret.

        The URIs of assets begin with this address. ``sqlalchemy.create_engine`` opens it.
        """
        return f"hivex://{self.hivex_conn_id}/{self.current_database()}"

    def current_database(self) -> str:
        """Return the database in which names without a database are looked up."""
        return self.schema or self.get_configuration().database

    def get_table_schema(self, table_name: str, schema: str | None = None) -> list[dict[str, str]]:
        """Return the columns of a table with their types. The partition columns are last."""
        table = self.get_metastore().catalog.get_table(*self._qualified(table_name, schema))
        return [{"name": column.name, "type": column.type} for column in (*table.columns, *table.partition_keys)]

    @property
    def sqlalchemy_url(self) -> URL:
        """Return the URL of an SQLAlchemy engine: :meth:`get_uri`, with the cluster and the user of the hook.

        An engine opens the connection by this hook. So the URL has no secret.
        """
        from sqlalchemy.engine import URL

        given = {"cluster": self.cluster, "user": self.user}
        query = {name: value for name, value in given.items() if value is not None}
        return URL.create("hivex", host=self.hivex_conn_id, database=self.current_database(), query=query)

    def get_openlineage_database_specific_lineage(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002
        """Return the tables that the statements of the hook have used, for the SQL operators of common.sql."""
        from airflow_hivex.hooks.openlineage import lineage_of

        if not self._executed:
            return None
        statements = [statement for statement, _ in self._executed]
        txn_ids = [txn_id for _, txn_id in self._executed if txn_id is not None]
        return lineage_of(self, statements, self.schema, txn_ids)

    # -- parts -----------------------------------------------------------------

    def _connect(
        self,
        *,
        autocommit: bool,
        user: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        agent_info: str | None = None,
    ) -> Connection:
        from airflow_hivex.core.dbapi import Connection

        session = self.session(
            user=user or self.user,
            database=database or self.schema,
            cluster=cluster or self.cluster,
            agent_info=agent_info,
        )
        return Connection(session, autocommit=autocommit)

    def _execute(self, cursor: Cursor, statement: str, parameters: Parameters, max_rows: int | None = None) -> None:
        if self.log_sql:
            self.log.info("Statement:\n%s", statement)
        cursor.execute(statement, parameters, max_rows=max_rows)
        if cursor.description is None and cursor.rowcount >= 0:
            self.log.info("Rows written: %d", cursor.rowcount)
        txn_id = cursor.result.txn_id if cursor.result is not None else None
        self._executed.append((statement, txn_id))
        self._report(statement, parameters, cursor)

    def _report(self, statement: str, parameters: Parameters, cursor: Cursor) -> None:
        """Report a statement's text, and the tables that the statement has read and written, to Airflow's collector."""
        from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
        from airflow.providers.common.sql.hooks.lineage import send_sql_hook_lineage

        from airflow_hivex.hooks.lineage import tables_of

        database = cursor.connection.session.database
        send_sql_hook_lineage(
            context=self, sql=statement, sql_parameters=parameters, cur=cursor, default_schema=database
        )
        collector = get_hook_lineage_collector()
        found = tables_of(statement, self.hivex_conn_id, database)
        for uri in found.inputs:
            collector.add_input_asset(self, uri=str(uri))
        for uri in found.outputs:
            collector.add_output_asset(self, uri=str(uri))

    def _query(self, sql: str | Sequence[str], parameters: Parameters) -> tuple[Connection, Cursor]:
        """Run a script that ends with a query, and return the connection and the cursor of this query."""
        statements = _statements(sql, True)
        connection = self._connect(autocommit=True)
        try:
            cursor = connection.cursor()
            for statement, values in zip(statements, _share(statements, parameters), strict=True):
                self._execute(cursor, statement, values)
        except BaseException:
            connection.close()
            raise
        return connection, cursor

    def _get_pandas_df(self, sql: Any, parameters: Any = None, **kwargs: Any) -> PandasFrame:
        connection, cursor = self._query(sql, parameters)
        with closing(connection):
            return to_pandas(cursor, cursor.fetchall(), **kwargs)

    def _get_polars_df(self, sql: Any, parameters: Any = None, **kwargs: Any) -> PolarsFrame:
        connection, cursor = self._query(sql, parameters)
        with closing(connection):
            return to_polars(cursor, cursor.fetchall(), **kwargs)

    def _get_pandas_df_by_chunks(
        self, sql: Any, parameters: Any = None, *, chunksize: int, **kwargs: Any
    ) -> Iterator[PandasFrame]:
        connection, cursor = self._query(sql, parameters)
        with closing(connection):
            while rows := cursor.fetchmany(chunksize):
                yield to_pandas(cursor, rows, **kwargs)

    def _get_polars_df_by_chunks(
        self, sql: Any, parameters: Any = None, *, chunksize: int, **kwargs: Any
    ) -> Iterator[PolarsFrame]:
        connection, cursor = self._query(sql, parameters)
        with closing(connection):
            while rows := cursor.fetchmany(chunksize):
                yield to_polars(cursor, rows, **kwargs)

    def _qualified(self, table: str, database: str | None) -> tuple[str, str]:
        from airflow_hivex.core.parser.reader import read_table_name

        name = read_table_name(table)
        return name.database or database or self.current_database(), name.name


def _statements(sql: str | Sequence[str], may_split: bool) -> list[str]:
    found = split_statements(sql)
    if not may_split and isinstance(sql, str) and len(found) > 1:
        raise InvalidOperationError(
            "The script", "split_statements=False", f"it has {len(found)} statements; split them, or run one"
        )
    return found


def _share(statements: Sequence[str], parameters: Parameters) -> list[Parameters]:
    """Return a list with the parameters of each statement. Other statements' parameters are left out."""
    from airflow_hivex.core.dbapi.binding import share
    from airflow_hivex.core.parser.lexer.substitution import share_parameters

    if parameters is None or isinstance(parameters, Mapping):
        return list(share_parameters(statements, parameters or None))
    # A script with one parametrized statement among others.
    return list(share(statements, parameters))


def _chunk(rows: Iterator[Any], size: int) -> list[Any]:
    return list(islice(rows, size))


def _named(fields: Sequence[str] | None, row: Sequence[Any], number: int) -> Any:
    from airflow_hivex.core.dbapi.binding import plain

    values = [plain(value) for value in row]
    if fields is None:
        return values
    if len(values) != len(fields):
        raise InvalidOperationError(
            "insert_rows", f"row {number}", f"it has {len(values)} values for {len(fields)} target_fields"
        )
    return dict(zip(fields, values, strict=True))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HivexDialect(Dialect):
    """The rules by which operators of common.sql write SQL: names in backquotes, ``?`` markers, no primary keys."""

    hook: HivexHook

    def escape_word(self, word: str) -> str:
        """Return a name, in backquotes if it has characters other than letters, digits and underscores."""
        name = self.unescape_word(word)
        return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"

    def unescape_word(self, word: str) -> str:  # type: ignore[override]
        """Return a name without its backquotes."""
        is_quoted = len(word) > 1 and word.startswith("`") and word.endswith("`")
        return word[1:-1].replace("``", "`") if is_quoted else word

    def get_column_names(
        self, table: str, schema: str | None = None, predicate: Callable[[Any], bool] | None = None
    ) -> list[str]:
        """Return the columns of a table. The partition columns are last."""
        columns = self.hook.get_table_schema(table, schema)
        return [column["name"] for column in columns if predicate is None or predicate(column)]

    def get_target_fields(self, table: str, schema: str | None = None) -> list[str]:
        """Return all columns of a table, since an INSERT fills all columns."""
        return self.get_column_names(table, schema)

    def get_primary_keys(self, table: str, schema: str | None = None) -> None:  # noqa: ARG002
        """Return None, since tables have no primary keys."""
        return

    def generate_replace_sql(
        self,
        table: str,
        values: Sequence[Any],  # noqa: ARG002 - the signature of common.sql
        target_fields: Sequence[str] | None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> str:
        """Refuse the call, since a table has no key by which a row could replace another row.

        :raises InvalidOperationError: always
        """
        raise InvalidOperationError("REPLACE", table, "a table has no key; write MERGE with a condition of its own")


_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def to_pandas(cursor: Cursor, rows: Sequence[tuple[object, ...]], **options: Any) -> PandasFrame:
    """Return rows of a cursor as a pandas DataFrame.

    :param options: arguments of ``pandas.DataFrame.from_records``, such as ``index`` and ``coerce_float``;
        ``index_col`` is another name of ``index``
    """
    import pandas as pd

    if "index_col" in options:
        options["index"] = options.pop("index_col")
    return pd.DataFrame.from_records([*rows], columns=_names(cursor), **options)


def to_polars(cursor: Cursor, rows: Sequence[Sequence[object]], **options: Any) -> PolarsFrame:
    """Return rows of a cursor as a polars DataFrame, with the types of the columns if polars has these types.

    :param options: arguments of ``polars.DataFrame``
    :raises AirflowOptionalProviderFeatureException: polars is not installed
    """
    try:
        import polars as pl
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException("polars is not installed. Run: pip install polars") from error
    types = {column[0]: _polars_type(pl, column[1]) for column in cursor.description or ()}
    overrides: Any = {name: known for name, known in types.items() if known is not None}
    return pl.DataFrame(
        list(rows),
        schema=_names(cursor),
        schema_overrides=overrides,
        orient="row",
        **{"infer_schema_length": None} | options,
    )


def _names(cursor: Cursor) -> list[str]:
    return [column[0] for column in cursor.description or ()]


def _polars_type(polars: Any, type: str) -> Any:
    decimal = _DECIMAL.fullmatch(type)
    if decimal:
        return polars.Decimal(int(decimal[1]), int(decimal[2]))
    return {
        "boolean": polars.Boolean,
        "tinyint": polars.Int8,
        "smallint": polars.Int16,
        "int": polars.Int32,
        "bigint": polars.Int64,
        "float": polars.Float32,
        "double": polars.Float64,
        "string": polars.String,
        "binary": polars.Binary,
        "date": polars.Date,
        "timestamp": polars.Datetime("us", "UTC"),
        "timestamp_ntz": polars.Datetime("us"),
    }.get(type)
