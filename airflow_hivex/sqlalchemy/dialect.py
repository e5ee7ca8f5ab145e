"""The dialect of SQLAlchemy: connections, transactions, and the reflection of tables and views."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.engine import default, reflection
from sqlalchemy.schema import Table
from sqlalchemy.sql.compiler import IdentifierPreparer

from airflow_hivex import __version__
from airflow_hivex.core.errors import NoSuchDatabaseError, NoSuchTableError
from airflow_hivex.core.model.constraints import Constraints, Key, KeyKind
from airflow_hivex.sqlalchemy.compiler import (
    HivexCompiler,
    HivexDdlCompiler,
    HivexIdentifierPreparer,
    HivexTypeCompiler,
)
from airflow_hivex.sqlalchemy.types import HivexDate, HivexDateTime, HivexTime, type_of

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection
    from sqlalchemy.engine.interfaces import ReflectedForeignKeyConstraint

    from airflow_hivex.core.dbapi import Connection as HivexConnection
    from airflow_hivex.core.session import Session

AUTOCOMMIT = "AUTOCOMMIT"
SNAPSHOT = "SNAPSHOT"
"""The isolation level of a transaction of several statements. All of them read one snapshot."""

_OF_SESSION = ("database", "cluster", "user")
_OF_METASTORE = ("clusters", "default_cluster")

Document = dict[str, Any]


class HivexDialect(default.DefaultDialect):
    """The dialect ``hivex``. See docs/how-to/sqlalchemy.md for URLs, options of tables, and missing features."""

    name = "hivex"
    driver = "sqlite"
    preparer: type[IdentifierPreparer] = HivexIdentifierPreparer
    statement_compiler = HivexCompiler
    ddl_compiler = HivexDdlCompiler
    type_compiler_cls = HivexTypeCompiler
    colspecs = {types.Time: HivexTime, types.Date: HivexDate, types.DateTime: HivexDateTime}  # noqa: RUF012
    construct_arguments = [  # noqa: RUF012
        (Table, {"partitioned_by": None, "clustered_by": None, "using": None, "location": None, "properties": None})
    ]

    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_comments = True
    inline_comments = True
    supports_empty_insert = False
    supports_default_values = False
    supports_default_metavalue = True
    postfetch_lastrowid = False
    cte_follows_insert = True
    div_is_floordiv = False
    requires_name_normalize = False
    max_identifier_length = 128

    def __init__(self, **options: Any) -> None:
        # Names of columns are not always names of markers, so that values go by their places.
        super().__init__(**{"paramstyle": "qmark", **options})

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the database API of the warehouse."""
        from airflow_hivex.core import dbapi

        return dbapi

    # -- connections -----------------------------------------------------------

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], Mapping[str, Any]]:  # type: ignore[override]
        """Return the arguments of :meth:`connect` for a URL.

        Raises:
            ArgumentError: the URL has a part that its form does not have. The message has no password.
        """
        query = dict(url.query)
        given: dict[str, Any] = {name: query.pop(name) for name in (*_OF_SESSION, *_OF_METASTORE) if name in query}
        settings = {name: query.pop(name) for name in tuple(query) if "." in name}
        if url.drivername.endswith("+postgresql"):
            # What is left is for PostgreSQL, such as sslmode.
            address = url.set(drivername="postgresql+psycopg", query=query).render_as_string(hide_password=False)
            return (address,), {**given, "settings": settings}
        shown = url.set(query={}).render_as_string()
        if query:
            known = ", ".join((*_OF_SESSION, *_OF_METASTORE))
            raise exc.ArgumentError(
                f"{shown} does not take {', '.join(sorted(query))}. It takes {known}, and settings."
            )
        if url.username is not None or url.password is not None or url.port is not None:
            raise exc.ArgumentError(
                f"{shown} has a user, password or port, as a metastore in PostgreSQL has: write "
                "hivex+postgresql://user:password@host:port/metastore. A host alone is the id of an Airflow connection."
            )
        if url.host is None:
            if not url.database:
                raise exc.ArgumentError("hivex:// needs a metastore: hivex:////path/of/metastore.db.")
            return (f"sqlite:///{url.database}",), {**given, "settings": settings}
        if refused := sorted({*settings, *given}.difference(_OF_SESSION)):
            raise exc.ArgumentError(
                f"{shown} does not take {', '.join(refused)}: the Airflow connection has its clusters and settings."
            )
        if url.database:
            given["database"] = url.database
        return (), {"hivex_conn_id": url.host, **given}

    def connect(self, *arguments: Any, hivex_conn_id: str | None = None, **options: Any) -> Any:
        """Return a new connection of PEP 249."""
        if hivex_conn_id is None:
            return self.loaded_dbapi.connect(*arguments, **options)
        from airflow_hivex.hooks.hivex import HivexHook

        return HivexHook(hivex_conn_id, **options).get_conn()

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Return True if the metastore answers. No job runs."""
        with dbapi_connection.cursor() as cursor:
            cursor.execute("SHOW DATABASES")
        return True

    # -- transactions ----------------------------------------------------------

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:  # noqa: ARG002
        """Return the two levels: a statement or several in one snapshot."""
        return [AUTOCOMMIT, SNAPSHOT]

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:  # noqa: ARG002
        """Return the level of a connection for which no other level was set."""
        return SNAPSHOT

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """Return the level of a connection."""
        return AUTOCOMMIT if dbapi_connection.autocommit else SNAPSHOT

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Set the level of a connection that has no open transaction."""
        dbapi_connection.autocommit = level == AUTOCOMMIT

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Return whether each statement of a connection is a transaction of its own."""
        return bool(dbapi_conn.autocommit)

    def do_savepoint(self, connection: Connection, name: str) -> None:  # noqa: ARG002
        """Refuse a savepoint, which a transaction of the warehouse does not have.

        Raises:
            NotSupportedError: always.
        """
        raise exc.InvalidRequestError(
            "The warehouse has no savepoints; begin_nested() and SAVEPOINT are not available."
        )

    # -- statements ------------------------------------------------------------

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:  # noqa: ARG002
        """Execute a statement. That of an index is empty, and is not run."""
        if statement:
            cursor.execute(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """Execute a statement without values."""
        self.do_execute(cursor, statement, None, context)

    # -- reflection ------------------------------------------------------------

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:  # noqa: ARG002
        return tuple(int(part) for part in __version__.split(".")[:3])

    def _get_default_schema_name(self, connection: Connection) -> str:
        return _session(connection).database

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:  # noqa: ARG002
        """Return the databases."""
        return _names(connection, "SHOW DATABASES")

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the tables and links of a database, without temporary tables."""
        others = {*self.get_view_names(connection, schema, **kw), *_session(connection).temporary_tables}
        others.update(_session(connection).temporary_views)
        return [name for name in self._names_in(connection, "TABLES", schema) if name not in others]

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:  # noqa: ARG002
        """Return the views of a database, without temporary views."""
        temporary = _session(connection).temporary_views
        return [name for name in self._names_in(connection, "VIEWS", schema) if name not in temporary]

    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:  # noqa: ARG002
        """Return the temporary tables of the connection."""
        return _session(connection).temporary_tables

    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:  # noqa: ARG002
        """Return the temporary views of the connection."""
        return _session(connection).temporary_views

    def _names_in(self, connection: Connection, kind: str, schema: str | None) -> list[str]:
        place = "" if schema is None else f" IN {self.identifier_preparer.quote_identifier(schema)}"
        return _names(connection, f"SHOW {kind}{place}")

    @reflection.cache
    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Return whether a table, view or link exists."""
        try:
            self._document(connection, table_name, schema, **kw)
        except exc.NoSuchTableError:
            return False
        return True

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        """Return whether a database exists. As everywhere, case does not count."""
        return schema_name.lower() in self.get_schema_names(connection, **kw)

    @reflection.cache
    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return the columns, with the partition columns last. Partition columns have ``partition`` = True."""
        document = self._document(connection, table_name, schema, **kw)
        keys = document.get("partition_columns", ())
        return [
            {
                "name": column["name"],
                "type": type_of(column["type"]),
                "nullable": column["nullable"],
                "default": column.get("default"),
                "comment": column.get("comment"),
                **({"partition": True} if column["name"] in keys else {}),
            }
            for column in document["columns"]
        ]

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return the primary key, which nothing enforces."""
        for name, key in self._keys(connection, table_name, schema, KeyKind.PRIMARY_KEY, **kw):
            return {"name": name, "constrained_columns": list(key.columns)}
        return {"name": None, "constrained_columns": []}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        """Return the foreign keys, which nothing enforces."""
        found: list[ReflectedForeignKeyConstraint] = []
        for name, key in self._keys(connection, table_name, schema, KeyKind.FOREIGN_KEY, **kw):
            database, parent = key.parent or ("", "")
            is_here = schema is None and database == self.default_schema_name
            found.append(
                {
                    "name": name,
                    "constrained_columns": list(key.columns),
                    "referred_schema": None if is_here else database,
                    "referred_table": parent,
                    "referred_columns": list(key.parent_columns),
                    "options": {},
                }
            )
        return found

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the unique keys, which nothing enforces."""
        unique = self._keys(connection, table_name, schema, KeyKind.UNIQUE, **kw)
        return [{"name": name, "column_names": list(key.columns)} for name, key in unique]

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the CHECK constraints, which each write obeys."""
        checks = self._constraints(connection, table_name, schema, **kw).checks
        return [{"name": name, "sqltext": text} for name, text in checks.items()]

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return an empty list, since tables have no indexes."""
        self._document(connection, table_name, schema, **kw)
        return []

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return the comment of a table or view."""
        return {"text": self._document(connection, table_name, schema, **kw).get("comment")}

    def get_table_options(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """Return the partition columns and buckets of a table, as the arguments of a ``Table`` that has them."""
        document = self._document(connection, table_name, schema, **kw)
        options: dict[str, Any] = {}
        if document.get("partition_columns"):
            options["hivex_partitioned_by"] = document["partition_columns"]
        if document.get("num_buckets"):
            options["hivex_clustered_by"] = (document["bucket_columns"], document["num_buckets"])
        return options

    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """Return the query of a view."""
        document = self._document(connection, view_name, schema, **kw)
        if document["type"] != "VIEW":
            raise exc.NoSuchTableError(view_name)
        return str(document["view_text"])

    def _keys(
        self, connection: Connection, table: str, schema: str | None, kind: KeyKind, **kw: Any
    ) -> Iterator[tuple[str, Key]]:
        keys = self._constraints(connection, table, schema, **kw).keys
        return ((name, key) for name, key in keys.items() if key.kind is kind)

    def _constraints(self, connection: Connection, table: str, schema: str | None, **kw: Any) -> Constraints:
        return Constraints.of(self._document(connection, table, schema, **kw).get("table_properties", {}))

    @reflection.cache
    def _document(self, connection: Connection, table: str, schema: str | None = None, **kw: Any) -> Document:  # noqa: ARG002
        """Return the answer of DESCRIBE EXTENDED ... AS JSON. An inspector asks once for each table.

        Raises:
            NoSuchTableError: the table or its database does not exist.
        """
        quote = self.identifier_preparer.quote_identifier
        name = ".".join(quote(part) for part in (schema, table) if part is not None)
        try:
            (row,) = connection.exec_driver_sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").all()
        except exc.DBAPIError as error:
            if isinstance(error.orig, NoSuchTableError | NoSuchDatabaseError):
                raise exc.NoSuchTableError(table if schema is None else f"{schema}.{table}") from error
            raise
        found: Document = json.loads(row[0])
        return found


def _session(connection: Connection) -> Session:
    used: HivexConnection = connection.connection.dbapi_connection  # type: ignore[assignment]
    return used.session


def _names(connection: Connection, statement: str) -> list[str]:
    return [row[0] for row in connection.exec_driver_sql(statement)]
