"""Temporary views: views of one session, which become the query that they stand for, as others do."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.commands.described_json import json_of_temporary_view
from airflow_hivex.core.commands.views import view_columns
from airflow_hivex.core.errors import AlreadyExistsError, InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.called_functions import qualified as qualified_functions
from airflow_hivex.core.execution.context import Result, Running, SessionState, StatementContext
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.session_objects import TemporaryView
from airflow_hivex.core.parser.grammar.views import definition
from airflow_hivex.core.parser.statements import (
    CreateTemporaryView,
    DescribeTable,
    DropView,
    ExplainRoute,
    ObjectKind,
    RefreshTable,
    Role,
    ShowColumns,
    Statement,
    TableName,
)

_TAKE_THEM = (DropView, DescribeTable, ShowColumns, RefreshTable)


def create_temporary_view(context: StatementContext, statement: CreateTemporaryView) -> Result:
    """CREATE TEMPORARY VIEW: Spark analyses the query, nothing of it is run.

    Raises:
        AlreadyExistsError: the session has a temporary view of that name.
        InvalidObjectError: the query brings other columns than are named, or one twice, or reads the view itself.
    """
    state, name = context.session, statement.view.name
    if name in state.objects.views and not statement.or_replace:
        if statement.if_not_exists:
            return Result()
        raise AlreadyExistsError("temporary view", name, "use OR REPLACE to replace it, or IF NOT EXISTS to accept it")

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        if ("", name) in routed.views:
            raise InvalidObjectError("temporary view", name, "its query reads the view itself")
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        given = context.run(cluster, replace(plan, max_rows=0)).columns
        columns = view_columns(name, statement, given)
        names = [qualified(state, reference.table) for reference in statement.query.references]
        text = definition(
            qualified_functions(context, statement.query), names, given, [column.name for column in columns]
        )
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        state.objects.views[name] = TemporaryView(text, columns, statement.comment)
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def qualified(state: SessionState, name: TableName) -> TableName:
    """Return a name with its database, except for that of a temporary view; that of a temporary table as stored."""
    if state.objects.view(name) is not None:
        return name
    database, table = (name.database or state.database, name.name) if name.namespace else state.qualify(name)
    return replace(name, database=database, name=table)


def check_temporary_views(context: StatementContext, statement: Statement) -> None:
    """Refuse a statement that describes or changes a table by a name that stands for a temporary view.

    Raises:
        InvalidOperationError: it does so.
    """
    objects = context.session.objects
    if isinstance(statement, ExplainRoute):
        statement = statement.statement
    if not objects.views or isinstance(statement, _TAKE_THEM):
        return
    for use in statement.uses:
        if use.kind is ObjectKind.TABLE and use.role not in (Role.READ, Role.CREATE) and use.name is not None:
            name = TableName(use.name, use.database, use.namespace)
            if objects.view(name) is not None:
                raise InvalidOperationError(
                    statement.kind,
                    use.name,
                    "it is a temporary view of the session, which CREATE OR REPLACE TEMPORARY VIEW and DROP VIEW "
                    "change; name a table with its database",
                )


def describe_temporary_view(view: TemporaryView, name: str, statement: DescribeTable) -> Result:
    """DESCRIBE of a temporary view: its columns."""
    if statement.partition is not None or statement.column is not None:
        raise InvalidOperationError("DESCRIBE", name, "a temporary view is described as a whole")
    if statement.as_json:
        return json_of_temporary_view(view, name)
    rows: list[tuple[object, ...]] = [(each.name, each.type, each.comment) for each in view.columns]
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Type", "TEMPORARY VIEW", "")]
        rows += [("Comment", view.comment or "", ""), ("View Text", view.text, "")]
    return Result(["col_name", "data_type", "comment"], rows)
