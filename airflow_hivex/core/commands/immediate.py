"""EXECUTE IMMEDIATE: a statement whose text is a value, with values for its markers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from airflow_hivex.core.commands import variables
from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.literals import constant
from airflow_hivex.core.parser.lexer.substitution import named_markers
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ExecuteImmediate, SetVariables, Statement


def execute_immediate(context: StatementContext, statement: ExecuteImmediate) -> Result:
    """Run the statement in the text, and assign its one row to the variables behind INTO.

    Raises:
        InvalidOperationError: the text is another EXECUTE IMMEDIATE or NULL, or INTO gets several rows.
        InvalidParametersError: the values do not fit the markers of the text.
        NoSuchVariableError: a variable was not declared.
    """
    for name in statement.into:
        variables.value_of(context, name)
    inner = statement_of(context, statement)
    assert context.execute is not None
    most = 2 if statement.into else context.max_rows
    result = context.execute(inner.statement, inner.parameters, most, inner.text)
    return _into(context, statement, result) if statement.into else result


class ImmediateStatement(NamedTuple):
    """The statement in the text of an EXECUTE IMMEDIATE, and the values of its markers."""

    statement: Statement
    parameters: Mapping[str, object]
    text: str


def statement_of(context: StatementContext, statement: ExecuteImmediate) -> ImmediateStatement:
    """Return the statement that EXECUTE IMMEDIATE runs.

    Raises:
        InvalidOperationError: the text is another EXECUTE IMMEDIATE or NULL.
        InvalidParametersError: the values do not fit the markers of the text.
        NoSuchVariableError: a variable was not declared.
    """
    text = statement.text if statement.variable is None else variables.value_of(context, statement.variable)
    if not isinstance(text, str):
        raise InvalidOperationError(statement.kind, statement.variable or "text", "its value is not a text")
    values = [
        (each.name, variables.value_of(context, each.variable) if each.variable else each.value and each.value.value)
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
    """Assign the one row of a result to variables; no row is NULL for each."""
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
    variables.set_variables(
        context,
        SetVariables(tuple(statement.into), query.queries[0]),  # type: ignore[attr-defined]
    )
    return dataclasses.replace(result, columns=[], rows=[], column_types=[])
