"""The tables that functions of SQL and views of Spark read, by the texts that Spark keeps in a Hive metastore. Pure."""

from __future__ import annotations

from airflow_hivex.core.errors import InvalidObjectError, SqlError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.model.sql_functions import sql_function
from airflow_hivex.core.model.statements import Select, TableName
from airflow_hivex.core.sql.reader import read
from airflow_hivex.core.sql.views import tables_of

_DATABASE = "catalogAndNamespace.part.1"
"""The database of names without one in a view of Spark: the current database of the creator."""


def tables_of_function(function: PermanentFunction) -> tuple[TableName, ...]:
    """Return the tables that a function of SQL reads, with their databases; a function of Java has none.

    Raises:
        InvalidObjectError: its query cannot be read.
    """
    found = sql_function(function)
    if found is None:
        return ()
    text = found.query or f"SELECT {found.expression}"
    return _tables("function", function.full_name, text, found.database)


def tables_of_view(view: Table) -> tuple[TableName, ...]:
    """Return the tables that a view reads, with their databases.

    Spark reads its own views by their original text, other clients by the expanded one.

    Raises:
        InvalidObjectError: a text cannot be read.
    """
    found = tables_of(view.view_expanded_text or "")
    database = view.parameters.get(f"view.{_DATABASE}")
    if database is None or not view.view_original_text:
        return found
    return (*found, *_tables("view", view.full_name, view.view_original_text, database))


def _tables(kind: str, name: str, text: str, database: str) -> tuple[TableName, ...]:
    try:
        statement = read(text, database=database.lower())
    except SqlError as error:
        reason = f"its query cannot be read: {str(error).splitlines()[0].rstrip('.')}"
        raise InvalidObjectError(kind, name, reason) from error
    if not isinstance(statement, Select):
        raise InvalidObjectError(kind, name, "its text is not a query")
    return tuple(
        TableName(each.table.name, each.table.database or database.lower(), each.table.namespace)
        for each in statement.query.references
    )
