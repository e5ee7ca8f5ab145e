"""The query of a view of Hive, or of one that Spark keeps in a Hive metastore, as the catalog keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.errors import InvalidObjectError, SqlError
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select

_NAMESPACE = "view.catalogAndNamespace.part."
"""Parameters in which Spark keeps the current catalog (0) and database (1) of a view's creator."""


def view_text(name: str, hive: Any, columns: Sequence[str]) -> str:
    """Return the query of a view with all its tables named with their databases, and its columns as the view's.

    The query is read, not analysed: whether its tables and columns exist shows when it is used.

    Raises:
        InvalidObjectError: the text cannot be read as a query.
    """
    text = hive.viewExpandedText or hive.viewOriginalText
    if not text:
        raise InvalidObjectError("view", name, "Hive has no text of its query")
    database = ((hive.parameters or {}).get(f"{_NAMESPACE}1") or hive.dbName).lower()
    try:
        statement = read(text, database=database)
    except SqlError as error:
        reason = f"its query cannot be read: {str(error).splitlines()[0].rstrip('.')}"
        raise InvalidObjectError("view", name, reason) from error
    if not isinstance(statement, Select):
        raise InvalidObjectError("view", name, "its text is not a query")
    query = statement.query
    if query.parameters:
        raise InvalidObjectError("view", name, f"its query has the marker :{min(query.parameters)}")
    tables = [
        f"{quoted(reference.table.database or database)}.{quoted(reference.table.name)}"
        for reference in query.references
    ]
    listed = ", ".join(map(quoted, columns))
    # The query may end with a comment.
    return f"SELECT * FROM ({query.render(tables)}\n) AS {quoted(hive.tableName.lower())} ({listed})"  # noqa: S608 - a view is SQL of its user
