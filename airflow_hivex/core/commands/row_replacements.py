"""A DataFrame in the place of the rows of a table that satisfy a condition, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hivex.core.commands.row_changes import run_change
from airflow_hivex.core.commands.temporary_views import check_temporary_views
from airflow_hivex.core.errors import InvalidOperationError, NoSuchColumnError, UnsupportedStatementError
from airflow_hivex.core.execution.called_functions import called_definitions, full_expression
from airflow_hivex.core.execution.closed_names import check_statement
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.frame_columns import selection
from airflow_hivex.core.model.objects import Column, StoredTable
from airflow_hivex.core.model.plans import PlannedCheck, assigned_name
from airflow_hivex.core.parser.grammar.constraints import expression_columns
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.queries.reader import random_functions
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeAction, ChangeClause, ChangeQuery, ChangeRows, Query, TableName

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame

_KIND = "REPLACE WHERE"


def replace_where(
    context: StatementContext,
    rows: Frame,
    columns: Sequence[Column],
    target: TableName,
    table: StoredTable,
    where: str,
    *,
    fills: bool,
) -> Result:
    """Delete the rows that satisfy a condition, and insert those of a DataFrame, which all satisfy it.

    Raises:
        ReplaceConditionError: a row of the DataFrame does not satisfy it.
        ForeignNameError: it calls a function of another namespace, and the current one is closed.
        NoSuchColumnError: it names a column that the table does not have, or the DataFrame has other columns.
        InvalidOperationError: it is not a condition of one row, or the rows of the table cannot be changed.
    """
    from airflow_hivex.core.runners import given

    columns_of_where = _columns_of(table, where)
    random = sorted({name for text in (where, *called_definitions(context, where)) for name in random_functions(text)})
    if random:
        reason = f"where calls {random[0]}, whose value is another with each call; name conditions of the columns alone"
        raise InvalidOperationError("A write to", table.full_name, reason)
    condition = PlannedCheck(_KIND, full_expression(context, where), columns_of_where)
    named = selection(table, columns, (), fills=fills)
    database = "" if target.database is None else f"{quoted(target.database)}."
    text = f"DELETE FROM {database}{quoted(target.name)} WHERE ({where}\n)"  # noqa: S608 - it was read as a condition
    deletion = read(text, database=context.session.database)
    assert isinstance(deletion, ChangeRows)
    check_statement(context, deletion, None)
    with given.temporary_view(rows, list(named.values())) as view:
        statement = replace(deletion, operation=_KIND, unmatched=_insertion(view, list(named)))
        check_temporary_views(context, statement)
        runner = given.GivenRunner(given.session_of(rows), [view])
        return run_change(replace(context, runner=runner, kind=statement.kind), statement, condition)


def _columns_of(table: StoredTable, where: str) -> tuple[str, ...]:
    try:
        found = expression_columns(where)
    except UnsupportedStatementError as error:
        reason = f"where is a condition of the columns of one row, without sub-queries and parameters: {error.reason}"
        raise InvalidOperationError("A write to", table.full_name, reason) from error
    names = [column.name for column in (*table.columns, *table.partition_keys)]
    for name in found:
        if name not in [each.lower() for each in names]:
            raise NoSuchColumnError(table.full_name, name, names)
    return found


def _insertion(view: str, names: Sequence[str]) -> ChangeQuery:
    values = ", ".join(f"{quoted(name)} AS {quoted(assigned_name(0, place))}" for place, name in enumerate(names))
    text = f"SELECT {values} FROM {view}"  # noqa: S608 - names of our own
    clause = ChangeClause(ChangeAction.INSERT, tuple(names), len(names))
    return ChangeQuery(Query(text, 0, len(text), ()), (clause,))
