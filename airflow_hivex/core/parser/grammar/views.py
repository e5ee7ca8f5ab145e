"""The reader of a view's columns and query, and the query text that the metastore stores for a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, tokenize
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import (
    Query,
    TableName,
)


def read_view_columns(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Return the names and comments of a view's columns in parentheses.

    Raises:
        StatementSyntaxError: the text is not a list of different names.
    """
    cursor.expect_symbol("(")
    names = cursor.different(lambda: cursor.name("the name of a column"), "column ")
    found = tuple((name, read_string(cursor, "a comment") if cursor.accept("COMMENT") else None) for name in names)
    cursor.expect_symbol(")")
    return found


def read_definition(cursor: Cursor) -> Query:
    """Return the query of a view, after AS.

    Raises:
        StatementSyntaxError: no query comes next.
        UnsupportedStatementError: the query has markers.
    """
    if not at_query(cursor):
        raise cursor.expected("a query")
    token = cursor.peek()
    query = read_query(cursor)
    if query.parameters:
        marker = sorted(query.parameters)[0]
        raise cursor.unsupported(f"a view is kept without values for markers; write a constant for :{marker}", token)
    for each in query.references:
        markers = () if each.changes is None else each.changes.markers
        if each.version is not None and each.version.marker is not None:
            markers = (each.version.marker,)
        for marker in markers:
            reason = f"a view is kept without values for markers; write a constant for :{marker}"
            raise cursor.unsupported(reason, token)
    return query


# -- views in queries --------------------------------------------------------------------


def definition(query: Query, names: Sequence[TableName], given: Sequence[Column], named: Sequence[str]) -> str:
    """Return the query text to store for a view, with the database of each table and a list of the view's columns.

    ``names`` are the full names of the tables that the query reads, in the order of the query's references. ``given``
    are the columns of the query, and ``named`` are the view's names for these columns, in the same order.
    """
    text, _ = query.render_with_places([_qualified(name) for name in names], with_versions=True)
    if len({column.name.lower() for column in given}) < len(given):
        columns = ", ".join(map(quoted, named))
        return f"SELECT {columns} FROM ({text}\n) AS `columns` ({columns})"  # noqa: S608 - a view is SQL of its user
    columns = ", ".join(f"{quoted(column.name)} AS {quoted(name)}" for column, name in zip(given, named, strict=True))
    # The query may end with a comment.
    return f"SELECT {columns} FROM ({text}\n)"  # noqa: S608 - a view is SQL of its user


def _qualified(name: TableName) -> str:
    """Return the name of a table or link with its database, in backquotes. A temporary view has no database."""
    if name.database is None:
        # A temporary view of the session.
        return quoted(name.name)
    link = "" if name.namespace is None else f"@{quoted(name.namespace)}"
    return f"{quoted(name.database)}.{quoted(name.name)}{link}"


def quoted(name: str) -> str:
    """Return a name as an identifier in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def query_of(text: str, parameters: Mapping[str, object] | None = None, database: str | None = None) -> Query:
    """Return the query in a text, such as the stored text of a view.

    ``database`` is the current database, for columns such as ``database.table.column``.

    Raises:
        SqlError: the text cannot be read.
    """
    return read_query(Cursor(text, tokenize(text), Markers(parameters or {}), database))
