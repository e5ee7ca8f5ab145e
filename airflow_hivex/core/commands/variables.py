"""The variables of a session, and EXECUTE IMMEDIATE. A job that names a variable gets its value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchVariableError,
)
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.literals import constant
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.session_objects import Variable
from airflow_hivex.core.parser.lexer.substitution import named_markers
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    DeclareVariable,
    DropVariable,
    ExecuteImmediate,
    Query,
    RoutedStatement,
    SetVariables,
    Statement,
)

Row = tuple[Sequence[Column], Sequence[object]]


def declare_variable(context: StatementContext, statement: DeclareVariable) -> Result:
    """Run DECLARE VARIABLE: compute the default value by a job, and store it as the value of the variable.

    Raises:
        AlreadyExistsError: the session has a variable of that name.
        AnalysisError: Spark refuses the default, or its type.
    """
    variables = context.session.objects.variables
    for name in statement.names:
        if name in variables and not statement.or_replace:
            raise AlreadyExistsError("variable", name, "use OR REPLACE to replace it, or SET VARIABLE to change it")
    ran, row = _computed(context, statement, None)
    assert row is not None
    (column,), (value,) = row
    sql = constant(value, parse_type(column.type))
    for name in statement.names:
        variables[name] = Variable(column.type, value, sql, value, sql)
    return ran


def set_variables(context: StatementContext, statement: SetVariables) -> Result:
    """Run SET VARIABLE: compute all values by one job, and then change all variables.

    Raises:
        NoSuchVariableError: a variable was not declared.
        InvalidOperationError: the query returns several rows.
    """
    variables = context.session.objects.variables
    changed = {name: _declared(context, name) for name in (*statement.names, *statement.defaults)}
    ran = Result()
    if statement.query is not None:
        types = [changed[name].type for name in statement.names]
        ran, row = _computed(context, statement, types)
        if row is None and not statement.may_be_empty:
            raise InvalidOperationError("SET VARIABLE", ", ".join(statement.names), "its expression has no value")
        values = (None,) * len(types) if row is None else row[1]
        for name, column_type, value in zip(statement.names, types, values, strict=True):
            changed[name] = replace(changed[name], value=value, sql=constant(value, parse_type(column_type)))
    for name in statement.defaults:
        changed[name] = replace(changed[name], value=changed[name].default, sql=changed[name].default_sql)
    variables |= changed
    return ran


def drop_variable(context: StatementContext, statement: DropVariable) -> Result:
    """Run DROP TEMPORARY VARIABLE: remove a variable from the session.

    Raises:
        NoSuchVariableError: the variable was not declared.
    """
    if statement.name in context.session.objects.variables or not statement.if_exists:
        _declared(context, statement.name)
        del context.session.objects.variables[statement.name]
    return Result()


def _declared(context: StatementContext, name: str) -> Variable:
    found = context.session.objects.variables.get(name)
    if found is None:
        raise NoSuchVariableError(name)
    return found


def value_of(context: StatementContext, name: str) -> object:
    """Return the value of a variable.

    Raises:
        NoSuchVariableError: the variable was not declared.
    """
    return _declared(context, name).value


def _computed(
    context: StatementContext, statement: DeclareVariable | SetVariables, types: Sequence[str] | None
) -> tuple[Result, Row | None]:
    """Return the result of a statement's query, and its only row. The row is None if the query returns no row.

    If ``types`` are given, the values of the row are cast to these types.
    """

    def work(running: Running) -> tuple[Result, Row | None]:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, _query(routed.statement), routed, cluster)
        if types is not None:
            names = [f"v{i}" for i in range(len(types))]
            casts = ", ".join(f"CAST({name} AS {each}) AS {name}" for name, each in zip(names, types, strict=True))
            plan = replace(plan, sql=f"SELECT {casts} FROM ({plan.sql}\n) AS v({', '.join(names)})")  # noqa: S608
        found = context.run(cluster, replace(plan, max_rows=1))
        if found.truncated:
            raise InvalidOperationError(
                statement.kind, "its query", "it returns several rows; a variable has one value"
            )
        commit_own(context, running)
        ran = Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)
        return ran, (found.columns, found.rows[0]) if found.rows else None

    return in_transaction(context, work, read_only=True)


def _query(statement: RoutedStatement) -> Query:
    (query,) = statement.queries
    return query


def execute_immediate(context: StatementContext, statement: ExecuteImmediate) -> Result:
    """Run EXECUTE IMMEDIATE: run the statement in a text. INTO assigns the values of the only result row to variables.

    Raises:
        InvalidOperationError: the text is another EXECUTE IMMEDIATE or NULL, or INTO gets several rows.
        InvalidParametersError: the values do not fit the parameter markers of the text.
        NoSuchVariableError: a variable was not declared.
    """
    for name in statement.into:
        value_of(context, name)
    inner = statement_of(context, statement)
    assert context.execute is not None
    most = 2 if statement.into else context.max_rows
    result = context.execute(inner.statement, inner.parameters, most, inner.text)
    return _into(context, statement, result) if statement.into else result


class ImmediateStatement(NamedTuple):
    """The statement in the text of an EXECUTE IMMEDIATE, and the values of its parameter markers."""

    statement: Statement
    parameters: Mapping[str, object]
    text: str


def statement_of(context: StatementContext, statement: ExecuteImmediate) -> ImmediateStatement:
    """Return the statement in the text of an EXECUTE IMMEDIATE, with the values of its parameter markers.

    Raises:
        InvalidOperationError: the text is another EXECUTE IMMEDIATE or NULL.
        InvalidParametersError: the values do not fit the parameter markers of the text.
        NoSuchVariableError: a variable was not declared.
    """
    text = statement.text if statement.variable is None else value_of(context, statement.variable)
    if not isinstance(text, str):
        raise InvalidOperationError(statement.kind, statement.variable or "text", "its value is not a text")
    values = [
        (each.name, value_of(context, each.variable) if each.variable else each.value and each.value.value)
        for each in statement.using
    ]
    text, positions = named_markers(text)
    if positions:
        if len(positions) != len(values):
            raise InvalidParametersError(
                f"The text of EXECUTE IMMEDIATE has {len(positions)} markers ?, and USING gives {len(values)} values."
            )
        parameters: dict[str, object] = dict(zip(positions, (value for _, value in values), strict=True))
    else:
        if any(name is None for name, _ in values):
            raise InvalidParametersError("USING gives a value without a name; name it by AS, as the marker :name is.")
        parameters = {str(name): value for name, value in values}
    inner = read(text, parameters, database=context.session.database)
    if isinstance(inner, ExecuteImmediate):
        raise InvalidOperationError(statement.kind, "EXECUTE IMMEDIATE", "it cannot be nested")
    return ImmediateStatement(inner, parameters, text)


def _into(context: StatementContext, statement: ExecuteImmediate, result: Result) -> Result:
    """Assign the values of a result's only row to variables. If the result has no row, each variable becomes NULL."""
    if len(result.rows) > 1:
        reason = "its query returns several rows; INTO takes one"
        raise InvalidOperationError(statement.kind, ", ".join(statement.into), reason)
    if len(result.columns) != len(statement.into) or len(result.column_types) != len(result.columns):
        reason = f"its statement returns {len(result.column_types)} columns, and INTO names {len(statement.into)}"
        raise InvalidOperationError(statement.kind, ", ".join(statement.into), reason)
    row = result.rows[0] if result.rows else (None,) * len(statement.into)
    columns = zip(row, result.column_types, strict=True)
    text = "SELECT " + ", ".join(constant(value, parse_type(each)) for value, each in columns)
    query = read(text)
    set_variables(
        context,
        SetVariables(tuple(statement.into), query.queries[0]),  # type: ignore[attr-defined]
    )
    return dataclasses.replace(result, columns=[], rows=[], column_types=[])
