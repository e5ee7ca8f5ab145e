"""Namespace mode: a statement, or a view, of a closed namespace names no table of another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_hivex.core.errors import NoSuchDatabaseError
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.statements import RoutedStatement, Statement, TableName
from airflow_hivex.core.namespaces.foreign_names import (
    foreign_name_error,
    foreign_tables,
    foreign_use,
    foreign_uses,
    foreign_view_error,
)
from airflow_hivex.core.settings import NAMESPACE_MODE
from airflow_hivex.core.sql.reader import read
from airflow_hivex.core.sql.views import tables_of
from airflow_hivex.core.statements.called_functions import check_functions
from airflow_hivex.core.statements.context import StatementContext


def check_statement(context: StatementContext, statement: Statement, text: str | None) -> None:
    """Refuse a statement with the name of another namespace. One round trip where there is one, else none.

    Raises:
        ForeignNameError: the current namespace is closed.
    """
    current = context.session.database
    if isinstance(statement, RoutedStatement):
        check_functions(context, statement.queries, text)
    foreign = foreign_uses(statement, current)
    if foreign and _is_closed(context, current):
        raise foreign_name_error(foreign[0], current, text)


def check_name(context: StatementContext, name: TableName, text: str | None = None) -> None:
    """Refuse a name of another namespace, which an argument of a method has; see :func:`check_statement`.

    Raises:
        ForeignNameError: the current namespace is closed.
    """
    current = context.session.database
    if foreign_tables([name], current) and _is_closed(context, current):
        raise foreign_name_error(foreign_use(name), current, text)


def check_views(
    context: StatementContext,
    statement: RoutedStatement,
    views: Collection[QualifiedName],
    known: Mapping[QualifiedName, StoredTable],
) -> None:
    """Refuse views of closed namespaces whose queries name tables of others.

    ``statement`` has the queries of ``views`` in place of their names. One round trip for each namespace whose views
    may do so, none where all names are of the current namespace.

    Raises:
        ForeignNameError: a view does so.
    """
    current = context.session.database
    if not foreign_tables((reference.table for reference in statement.references), current):
        return
    closed = {name[0]: context.services.namespaces.is_closed(name[0]) for name in views}
    for database, name in sorted(views):
        if closed[database]:
            foreign = foreign_tables(tables_of(known[database, name].view_expanded_text or ""), database)
            if foreign:
                raise foreign_view_error(f"{database}.{name}", foreign[0], database)


def check_moved_view(context: StatementContext, view: Table) -> None:
    """Refuse a view that gets into a closed namespace, and whose query names tables or functions of another one.

    ``view`` is in that namespace already. One round trip where the namespace is not closed.

    Raises:
        ForeignNameError: its query does.
        InvalidObjectError: its query cannot be read.
    """
    namespaces = context.services.namespaces
    if not namespaces.is_closed(view.database):
        return
    namespaces.check_view(view)
    statement = read(view.view_expanded_text or "", database=view.database)
    if isinstance(statement, RoutedStatement):
        check_functions(context, statement.queries, None, view.database)


def _is_closed(context: StatementContext, namespace: str) -> bool:
    try:
        return context.services.namespaces.is_closed(namespace)
    except NoSuchDatabaseError:
        # It was dropped while it is current. What it had asked for is gone; the setting for all namespaces is not.
        return bool(context.services.settings[NAMESPACE_MODE])
