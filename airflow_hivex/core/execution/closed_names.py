"""The rule of closed namespaces: their statements and definitions name no object of another namespace."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_hivex.core.errors import InvalidOperationError, NoSuchDatabaseError, NoSuchFunctionError
from airflow_hivex.core.execution.context import Services, StatementContext
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.model.session_objects import TemporaryTable
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.namespaces.closure import (
    foreign_call_error,
    foreign_name_error,
    foreign_tables,
    foreign_use,
    foreign_uses,
)
from airflow_hivex.core.namespaces.definitions import (
    Definition,
    statement_calls,
    temporary_view_definition,
)
from airflow_hivex.core.parser.statements import (
    CreateView,
    FunctionCall,
    ObjectKind,
    Role,
    Statement,
    TableName,
)
from airflow_hivex.core.settings import NAMESPACE_MODE


def check_statement(context: StatementContext, statement: Statement, text: str | None) -> None:
    """Refuse a statement of a closed namespace that names an object of another namespace.

    Names in the statement's temporary views and functions are checked, too. The check takes one round trip if an object
    of another namespace is named, else none. The definitions of permanent views and functions are checked later, when
    ``binding`` and ``called_functions.declare`` read them.

    Raises:
        ForeignNameError: the current namespace is closed.
        InvalidOperationError: a temporary table of another namespace is named, and one of the two namespaces is closed.
    """
    current = context.session.database
    if not isinstance(statement, CreateView):
        # The namespace of a view counts for its query.
        _check_calls(context, statement_calls(statement), text)
    foreign = foreign_uses(statement, current)
    if foreign and _is_closed(context, current):
        raise foreign_name_error(foreign[0], current, text)
    tables = (use for use in statement.uses if use.kind is ObjectKind.TABLE and use.name is not None)
    _check_temporary(context, (TableName(use.name or "", use.database, use.namespace) for use in tables))


def check_name(context: StatementContext, name: TableName, text: str | None = None, role: Role = Role.READ) -> None:
    """Refuse an argument of a method that names an object of another namespace; see :func:`check_statement`.

    Raises:
        ForeignNameError: the current namespace is closed.
        InvalidOperationError: the name is a temporary table of another namespace, and one of the two namespaces is
            closed.
    """
    current = context.session.database
    if foreign_tables([name], current) and _is_closed(context, current):
        raise foreign_name_error(foreign_use(name, role), current, text)
    _check_temporary(context, [name])


def check_definition(context: StatementContext, definition: Definition) -> None:
    """Refuse a definition in a closed namespace that names an object of another namespace.

    A definition without names of other namespaces takes no round trip.

    Raises:
        ForeignNameError: the definition names an object of another namespace.
    """
    context.services.namespaces.check_definition(definition)


def made_here(context: StatementContext, name: QualifiedName) -> TemporaryTable:
    """Return a record of a new temporary table: the current namespace, and whether it is closed. One round trip."""
    current = context.session.database
    return TemporaryTable(name, current, _is_closed(context, current))


def _check_calls(context: StatementContext, found: Iterable[FunctionCall], text: str | None) -> None:
    current = context.session.database
    calls: list[tuple[FunctionCall, str, str]] = []
    for call in found:
        calls += [(call, owner, name) for owner, name in _names_called(context, call) if owner != current]
    if not calls or not _is_closed(context, current):
        return
    for call, owner, name in calls:
        if find_function(context.services, owner, name) is not None:
            start = None if text is None or call.start > len(text) else call.start
            raise foreign_call_error((owner, name), current, text, start)


def _names_called(context: StatementContext, call: FunctionCall) -> list[QualifiedName]:
    """Return the called function; for a temporary function, return the permanent functions that it calls."""
    objects = context.session.objects
    if call.database is None and call.name in objects.functions:
        return objects.permanent_functions([call.name])
    return [(call.database or context.session.database, call.name)]


def _check_temporary(context: StatementContext, names: Iterable[TableName]) -> None:
    """Refuse temporary tables with rows of another namespace, and temporary views that read such rows.

    Raises:
        ForeignNameError: a temporary view reads an object of another namespace, and the current namespace is closed.
        InvalidOperationError: a temporary table was made in another namespace, and one of the two namespaces is closed;
            or the table was made before its namespace was closed.
    """
    objects, current = context.session.objects, context.session.database
    if not objects.views and not objects.tables:
        return
    unread, seen = list(names), set()
    while unread:
        name = unread.pop()
        if name in seen:
            continue
        seen.add(name)
        view = objects.view(name)
        if view is not None:
            definition = temporary_view_definition(name.name, view, current, objects.stored_tables)
            context.services.namespaces.check_definition(definition)
            _check_calls(context, _calls_of(definition), None)
            unread += definition.tables
        elif (table := objects.temporary_table(name)) is not None:
            _check_temporary_table(context, name.name, table)


def _calls_of(definition: Definition) -> Iterable[FunctionCall]:
    return (FunctionCall(name, None, 0, 0) for _, name in definition.calls)


def _check_temporary_table(context: StatementContext, name: str, table: TemporaryTable) -> None:
    current = context.session.database
    if table.namespace == current:
        if table.was_closed or not _is_closed(context, current):
            return
        reason = f"it was made before namespace {current} was closed, and may have rows of others"
    elif table.was_closed or _is_closed(context, current) or _is_closed(context, table.namespace):
        reason = f"it was made in namespace {table.namespace}, and the statement runs in namespace {current}"
    else:
        return
    advice = f"{reason}; a temporary table belongs to one namespace where namespaces are closed ({NAMESPACE_MODE})"
    raise InvalidOperationError("The statement", name, f"{advice}, so make it again in {current}")


def _is_closed(context: StatementContext, namespace: str) -> bool:
    try:
        return context.services.namespaces.is_closed(namespace)
    except NoSuchDatabaseError:
        # The current namespace was dropped. Its own mode is gone with it; the setting for all namespaces still counts.
        return bool(context.services.settings[NAMESPACE_MODE])


def find_function(services: Services, database: str, name: str) -> PermanentFunction | None:
    """Return a permanent function, or None if it does not exist. One round trip."""
    try:
        return services.catalog.get_function(database, name)
    except NoSuchFunctionError:
        return None
