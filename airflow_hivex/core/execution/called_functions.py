"""The permanent functions that a statement's queries call; each job declares them in Spark as temporary functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    SqlError,
    StatementSyntaxError,
)
from airflow_hivex.core.execution.closed_names import check_definition, find_function
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.permanent_functions import PermanentFunction, SqlFunction, sql_function
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.texts import quoted_text
from airflow_hivex.core.namespaces.definitions import query_definition, with_default_calls
from airflow_hivex.core.parser.grammar.constraints import expression_functions, expression_query
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.tokens import name_of, tokenize
from airflow_hivex.core.parser.queries.function_calls import default_calls, qualifying_places
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    CreateFunction,
    DatabaseCall,
    FunctionCall,
    Query,
    RoutedStatement,
    TextEdit,
)
from airflow_hivex.core.settings import ALLOW_CODE

S = TypeVar("S", bound=RoutedStatement)


def with_functions(context: StatementContext, statement: S, declarations: dict[str, str] | None) -> S:
    """Return the statement with full names in its calls of permanent functions.

    Calls that return the current database, such as current_database(), are replaced by its name. If ``declarations`` is
    not None, the definitions of the functions are added to it. The call takes one round trip for each name that neither
    Spark nor the session knows.

    Raises:
        InvalidOperationError: a function reads tables, or runs arbitrary code, which ``hivex.allow.code.execution``
            does not allow.
    """
    database, temporary = context.session.database, context.session.objects.functions
    found = _called(context, statement.queries, database, temporary)
    if not found and not any(query.database_calls for query in statement.queries):
        return statement
    # Functions that cannot be declared are refused before a route is shown, too.
    declared = {} if declarations is None else declarations
    for function in found.values():
        declare(context, declared, function)
    return statement.with_queries(lambda query: _renamed(query, found, database, database, temporary))


def qualified(context: StatementContext, query: Query) -> Query:
    """Return the query of a view with full names in its calls of permanent functions."""
    current = context.session.database
    temporary = context.session.objects.functions
    found = _called(context, [query], current, temporary)
    edits = []
    for call in query.functions:
        function = found.get((call.database or current, call.name))
        if function is not None and call.database is None and call.name not in temporary:
            edits.append(TextEdit(call.start, call.end, f"{quoted(function.database)}.{quoted(function.name)}"))
    return _edited(query, edits)


def full_expression(context: StatementContext, text: str) -> str:
    """Return an expression with full names in its calls of permanent functions."""
    query = expression_query(text)
    database, temporary = context.session.database, context.session.objects.functions
    found = _called(context, [query], database, temporary)
    if not found and not query.database_calls:
        return text
    return _renamed(query, found, database, database, temporary).render(()).removeprefix("SELECT ")


def called_definitions(context: StatementContext, text: str) -> tuple[str, ...]:
    """Return the definitions of the permanent and temporary functions that an expression calls, at any depth."""
    session, query = context.session, expression_query(text)
    declarations: dict[str, str] = {}
    for function in _called(context, [query], session.database, session.objects.functions).values():
        declare(context, declarations, function)
    declare_called(context, declarations, [text])
    return (*declarations.values(), *session.objects.prelude([text]))


def with_full_names(context: StatementContext, text: str) -> tuple[str, tuple[QualifiedName, ...]]:
    """Return a pair: the definition of a temporary function with full names, and the permanent functions in it.

    ``text`` is the part of CREATE TEMPORARY FUNCTION after the function's name. In the returned definition, calls of
    permanent functions have full names. A permanent function is a (database, name) pair.
    """
    database, temporary = context.session.database, context.session.objects.functions
    statement = read(f"CREATE FUNCTION f {text}", database=database)
    assert isinstance(statement, CreateFunction)
    assert statement.query is not None
    assert statement.sql is not None
    found = _called(context, [statement.query], database, temporary)
    body = _renamed(statement.query, found, database, database, temporary).render(())
    called = tuple((function.database, function.name) for function in found.values())
    return statement.sql.definition(body if statement.sql.query is not None else body.removeprefix("SELECT ")), called


def declare_called(context: StatementContext, declarations: dict[str, str], texts: Iterable[str]) -> None:
    """Add to ``declarations`` the permanent functions that the temporary functions in ``texts`` call.

    Raises:
        NoSuchFunctionError: a permanent function was dropped meanwhile.
    """
    for database, name in context.session.objects.permanent_functions(texts):
        declare(context, declarations, context.services.catalog.get_function(database, name))


def check_constraint_functions(context: StatementContext, table: str, constraints: Constraints) -> None:
    """Refuse constraints that call permanent or temporary functions: jobs that write do not declare these functions.

    The call takes one round trip for each name that neither Spark nor the session knows.

    Raises:
        InvalidObjectError: a constraint calls a permanent or temporary function.
    """
    session = context.session
    for text in (*constraints.defaults.values(), *constraints.checks.values()):
        for call in expression_functions(text):
            is_temporary = call.database is None and call.name in session.objects.functions
            owner = call.database or session.database
            if is_temporary or find_function(context.services, owner, call.name) is not None:
                kind, name = ("temporary", call.name) if is_temporary else ("permanent", f"{owner}.{call.name}")
                reason = f"the constraint {text} calls the {kind} function {name}; constraints call those of Spark only"
                raise InvalidObjectError("table", table, reason)


def declare(context: StatementContext, declarations: dict[str, str], function: PermanentFunction) -> None:
    """Add to ``declarations`` the SQL that creates a function in Spark, after the SQL of the functions that it calls.

    Raises:
        ForeignNameError: the function's namespace is closed, and the function calls a function of another namespace.
        InvalidOperationError: the function runs arbitrary code, which is not allowed, or it reads tables.
        InvalidObjectError: the function's definition cannot be read, or functions call each other in a cycle.
    """
    _declare(context, declarations, function, ())


def _declare(
    context: StatementContext, declarations: dict[str, str], function: PermanentFunction, callers: tuple[str, ...]
) -> None:
    name = function.full_name
    if name in declarations:
        return
    if name in callers:
        raise InvalidObjectError("function", name, f"it calls itself, by {', '.join(callers)}")
    definition = sql_function(function)
    if definition is None:
        _check_code(context, name, f"class {function.class_name}")
        declarations[name] = f"{_create(name)} {_class(function)}"
        return
    callers = (*callers, name)
    body = _body(context, declarations, function, definition, callers)
    parameters = _parameters(context, declarations, definition, callers)
    declarations[name] = f"{_create(name)} {definition.definition(body, parameters)}"


def _parameters(
    context: StatementContext, declarations: dict[str, str], definition: SqlFunction, callers: tuple[str, ...]
) -> str:
    """Return the parameters of an SQL function, with full names of permanent functions in their default values."""
    text = definition.parameters
    for call in reversed(default_calls(text)):
        called = find_function(context.services, call.database or definition.database, call.name)
        if called is not None:
            _declare(context, declarations, called, callers)
            text = f"{text[: call.start]}{quoted(called.full_name)}{text[call.end :]}"
    return text


def _body(
    context: StatementContext,
    declarations: dict[str, str],
    function: PermanentFunction,
    definition: SqlFunction,
    callers: tuple[str, ...],
) -> str:
    """Return the body of an SQL function with full names in its calls of permanent functions."""
    name = function.full_name
    # Another client may have written the text. Spark reads the same text that is read here.
    try:
        statement = read(f"CREATE FUNCTION f {definition.definition()}", database=definition.database)
    except SqlError as error:
        reason = error.reason if isinstance(error, StatementSyntaxError) else str(error)
        raise InvalidOperationError("A call of", name, f"its definition cannot be used here: {reason}") from error
    assert isinstance(statement, CreateFunction)
    assert statement.query is not None
    query = statement.query
    named = query_definition("function", name, function.database, query, definition.database)
    check_definition(context, with_default_calls(named, definition))
    if query.code_functions:
        _check_code(context, name, ", ".join(sorted(query.code_functions)))
    found = _called(context, [query], definition.database)
    for called in found.values():
        _declare(context, declarations, called, callers)
    query = _renamed(query, found, definition.database, context.session.database)
    text = _with_qualified_parameters(query, function, definition).render(())
    return text if statement.sql is not None and statement.sql.query is not None else text.removeprefix("SELECT ")


def _with_qualified_parameters(query: Query, function: PermanentFunction, definition: SqlFunction) -> Query:
    """Return the body with ``f.x`` replaced by ``db.f.x``, for each parameter ``x`` of the function ``db.f``."""
    if any(normalise(name_of(token)) == function.name for token in tokenize(definition.parameters)):
        # A field of the parameter of that name.
        return query
    places = qualifying_places(query.text, query.start, query.end, function.name)
    return _edited(query, [TextEdit(place.start, place.end, quoted(function.full_name)) for place in places])


def _check_code(context: StatementContext, name: str, what: str) -> None:
    if not context.services.settings[ALLOW_CODE]:
        reason = f"it runs code on the cluster ({what}); an administrator may allow it by the setting {ALLOW_CODE}"
        raise InvalidOperationError("A call of", name, reason)


def _called(
    context: StatementContext, queries: Iterable[Query], database: str, temporary: Collection[str] = ()
) -> dict[tuple[str, str], PermanentFunction]:
    """Return the permanent functions that queries call, as a dict from (database, name)."""
    names = {
        (call.database or database, call.name)
        for query in queries
        for call in query.functions
        if call.database is not None or call.name not in temporary
    }
    found = {name: find_function(context.services, *name) for name in sorted(names)}
    return {name: function for name, function in found.items() if function is not None}


def _renamed(
    query: Query,
    found: Mapping[tuple[str, str], PermanentFunction],
    database: str,
    current: str,
    temporary: Collection[str] = (),
) -> Query:
    edits = [_current_database(call, current) for call in query.database_calls]
    for call in query.functions:
        function = found.get((call.database or database, call.name))
        if function is not None and not (call.database is None and call.name in temporary):
            edits.append(_call(call, function))
    return _edited(query, edits)


def _current_database(call: DatabaseCall, database: str) -> TextEdit:
    # Spark's own current database is another one: Spark gets the files of tables, and no databases.
    column = "" if call.column is None else f" AS {quoted(call.column)}"
    return TextEdit(call.start, call.end, f"{quoted_text(database)}{column}")


def _call(call: FunctionCall, function: PermanentFunction) -> TextEdit:
    return TextEdit(call.start, call.end, quoted(function.full_name))


def _edited(query: Query, edits: list[TextEdit]) -> Query:
    if not edits:
        return query
    qualifiers = tuple(sorted((*query.qualifiers, *edits), key=lambda edit: edit.start))
    return replace(query, qualifiers=qualifiers, functions=(), database_calls=())


def _create(name: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {quoted(name)}"


def _class(function: PermanentFunction) -> str:
    resources = ", ".join(f"{each.type.value} {quoted_text(each.uri)}" for each in function.resources)
    return f"AS {quoted_text(function.class_name)}" + (f" USING {resources}" if resources else "")
