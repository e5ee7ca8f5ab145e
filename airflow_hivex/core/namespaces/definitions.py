"""The names in the definitions of views, functions, tables and temporary views. No I/O.

The rules of closed namespaces apply to these names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from airflow_hivex.core.errors import InvalidObjectError, SqlError
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.permanent_functions import PermanentFunction, SqlFunction, sql_function
from airflow_hivex.core.model.session_objects import TemporaryView
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.parser.grammar.constraints import expression_query
from airflow_hivex.core.parser.grammar.views import query_of
from airflow_hivex.core.parser.queries.function_calls import default_calls
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    CreateFunction,
    CreateView,
    ExplainRoute,
    FunctionCall,
    Query,
    RoutedStatement,
    Select,
    Statement,
    TableName,
)

_DATABASE = "catalogAndNamespace.part.1"
"""The property of a Spark view with the database to which names without a database in the query belong."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The names in the definition of an object, and the ``namespace`` whose rules apply to them.

    ``kind`` is for example ``view``. ``tables`` are the tables, views and links in the definition, with their
    databases. ``calls`` has a pair (database, name) for each called function that can be a permanent function.
    ``temporary`` are the stored names of the session's temporary tables.
    """

    kind: str
    name: str
    namespace: str
    tables: tuple[TableName, ...] = ()
    calls: tuple[QualifiedName, ...] = ()
    temporary: frozenset[QualifiedName] = frozenset()

    @property
    def foreign_tables(self) -> list[TableName]:
        """Return the tables of other namespaces, without temporary objects of the session."""
        return [
            each
            for each in self.tables
            if each.database not in (None, self.namespace) and (each.database, each.name) not in self.temporary
        ]

    @property
    def foreign_calls(self) -> list[QualifiedName]:
        """Return the called functions that can belong to other namespaces, as (database, name) pairs."""
        return [each for each in self.calls if each[0] != self.namespace]

    @property
    def is_foreign(self) -> bool:
        """Return whether the definition can name an object of another namespace."""
        return bool(self.foreign_tables or self.foreign_calls)


def view_definition(view: Table) -> Definition:
    """Return the names in the query of a view.

    If Spark has created the view, the result also has the names in the original text, which Spark reads.

    Raises:
        InvalidObjectError: a text cannot be read.
    """
    queries = [_query("view", view.full_name, view.view_expanded_text or "", view.database)]
    database = view.parameters.get(f"view.{_DATABASE}", "").lower()
    found = _of_queries("view", view.full_name, view.database, queries, view.database)
    if not database or not view.view_original_text:
        return found
    original = [_query("view", view.full_name, view.view_original_text, database)]
    more = _of_queries("view", view.full_name, view.database, original, database)
    return replace(found, tables=(*found.tables, *more.tables), calls=(*found.calls, *more.calls))


def temporary_view_definition(
    name: str, view: TemporaryView, namespace: str, temporary: Collection[QualifiedName]
) -> Definition:
    """Return the names in a temporary view. The rules of the current namespace apply to them.

    ``temporary`` are the stored names of the session's temporary tables.
    """
    query = query_of(view.text)
    tables = tuple(each.table for each in query.references)
    calls = tuple((each.database or namespace, each.name) for each in query.functions)
    return Definition("temporary view", name, namespace, tables, calls, frozenset(temporary))


def function_definition(function: PermanentFunction) -> Definition:
    """Return the names in an SQL function. The result for a Java function has no names.

    Raises:
        InvalidObjectError: the function cannot be read.
    """
    found = sql_function(function)
    if found is None:
        return Definition("function", function.full_name, function.database)
    query = _query("function", function.full_name, found.query or f"SELECT {found.expression}", found.database)
    named = query_definition("function", function.full_name, function.database, query, found.database)
    return with_default_calls(named, found)


def table_definition(table: Table) -> Definition:
    """Return the names in the constraints of a table: the parents of foreign keys, and the functions in expressions.

    Raises:
        InvalidObjectError: an expression cannot be read.
    """
    constraints = Constraints.of(table.parameters)
    parents = [key.parent for key in constraints.keys.values() if key.parent is not None]
    queries = []
    for text in (*constraints.defaults.values(), *constraints.checks.values()):
        try:
            queries.append(expression_query(text))
        except SqlError as error:
            raise _unreadable("table", table.full_name, error) from error
    found = _of_queries("table", table.full_name, table.database, queries, table.database)
    return replace(found, tables=(*found.tables, *(TableName(name, database) for database, name in parents)))


def query_definition(kind: str, name: str, namespace: str, query: Query, current: str) -> Definition:
    """Return the names in the query of a view or function.

    ``current`` is the database of names without a database.
    """
    return _of_queries(kind, name, namespace, [query], current)


def with_default_calls(definition: Definition, function: SqlFunction) -> Definition:
    """Return the definition of a function, with the calls in the default values of its parameters added."""
    calls = _calls(default_calls(function.parameters), function.database)
    return replace(definition, calls=(*definition.calls, *calls))


def statement_calls(statement: Statement) -> tuple[FunctionCall, ...]:
    """Return the calls in a statement, for those functions that can be permanent functions.

    For CREATE FUNCTION, the result includes the calls in the default values of parameters.
    """
    queries: tuple[Query, ...] = ()
    if isinstance(statement, ExplainRoute):
        statement = statement.statement
    if isinstance(statement, RoutedStatement):
        queries = statement.queries
    elif isinstance(statement, CreateView):
        queries = (statement.query,)
    calls = tuple(call for query in queries for call in query.functions)
    if isinstance(statement, CreateFunction) and statement.sql is not None:
        # Their places count in the list of parameters.
        calls += tuple(replace(call, start=0, end=0) for call in default_calls(statement.sql.parameters))
    return calls


def _of_queries(kind: str, name: str, namespace: str, queries: Iterable[Query], database: str) -> Definition:
    read_queries = list(queries)
    tables = (each.table for query in read_queries for each in query.references)
    named = tuple(replace(each, database=each.database or database.lower()) for each in tables)
    calls = (call for query in read_queries for call in query.functions)
    return Definition(kind, name, namespace, named, _calls(calls, database))


def _calls(calls: Iterable[FunctionCall], database: str) -> tuple[QualifiedName, ...]:
    return tuple((each.database or database.lower(), each.name) for each in calls)


def _query(kind: str, name: str, text: str, database: str) -> Query:
    try:
        statement = read(text, database=database.lower())
    except SqlError as error:
        raise _unreadable(kind, name, error) from error
    if not isinstance(statement, Select):
        raise InvalidObjectError(kind, name, "its text is not a query")
    return statement.query


def _unreadable(kind: str, name: str, error: SqlError) -> InvalidObjectError:
    return InvalidObjectError(kind, name, f"its query cannot be read: {str(error).splitlines()[0].rstrip('.')}")
