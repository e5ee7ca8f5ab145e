"""CREATE, ALTER and DROP VIEW, and the columns of views."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.table_rows import lock_as_named
from airflow_hivex.core.commands.links import refuse_link
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    AnalysisError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchTableError,
)
from airflow_hivex.core.execution.called_functions import qualified
from airflow_hivex.core.execution.closed_names import check_definition
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata, forget_dropped
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    StorageDescriptor,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.namespaces.definitions import query_definition
from airflow_hivex.core.parser.grammar.views import definition
from airflow_hivex.core.parser.statements import CreateTemporaryView, CreateView, DropView, Select, TableName

log = logging.getLogger(__name__)


def create_view(context: StatementContext, statement: CreateView) -> Result:
    """Run CREATE VIEW and ALTER VIEW ... AS: store a view. Spark analyses its query without running it.

    Raises:
        AlreadyExistsError: a table or view of that name exists.
        InvalidObjectError: the query's columns do not match the named columns, or two columns have the same name; or
            the query reads the view itself or objects of the session.
        ForeignNameError: the namespace of the view is closed, and the query names a table of another namespace.
    """
    database, name = context.session.qualify(statement.view)
    full_name = f"{database}.{name}"
    for reference in statement.query.references:
        if context.session.objects.view(reference.table) is not None:
            reason = f"its query reads the temporary view {reference.table}, which ends with the session"
            raise InvalidObjectError("view", full_name, reason)
    _check_names(context, database, full_name, statement)
    stored = _find(context, database, name)
    if stored is None and statement.must_exist:
        raise NoSuchTableError(database, name)
    if stored is not None and not stored.is_view and (statement.or_replace or statement.if_not_exists):
        raise InvalidOperationError("CREATE VIEW", full_name, "it is a table; drop it, or choose another name")
    if stored is not None and statement.if_not_exists:
        return Result()
    if stored is not None and not statement.or_replace:
        raise AlreadyExistsError("view", full_name, "use OR REPLACE to replace it, or IF NOT EXISTS to accept it")
    with own_transaction(context) as running:
        locks = context.services.statement_locks
        own = locks.create_table(database) if stored is None else locks.alter_table(stored)
        routed = route(context, Select(statement.query), running, locks=own)
        if (database, name) in routed.views:
            raise InvalidObjectError("view", full_name, "its query reads the view itself")
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        given = _columns_of_query(context, cluster, plan, running, full_name)
        columns = view_columns(full_name, statement, given)
        names = _qualified(context, statement)
        query = qualified(context, statement.query)
        view = Table(
            database=database,
            name=name,
            storage=StorageDescriptor(columns, ClusterStorageDescriptor(context.services.clusters.default, "")),
            type=TableType.VIRTUAL_VIEW,
            parameters=statement.properties,
            owner=context.session.user,
            comment=statement.comment,
            view_original_text=query.text[query.start : query.end],
            view_expanded_text=definition(query, names, given, [column.name for column in columns]),
        )
        catalog = context.services.catalog

        def changed(current: StoredTable) -> Table:
            after = replace(view, owner=current.owner)
            if statement.must_exist:
                after = replace(after, parameters=current.parameters, comment=current.comment)
            return after

        def change(connection: Connection) -> None:
            if stored is None:
                catalog.joining(connection).create_table(view)
                return
            lock_as_named(connection, stored)
            catalog.joining(connection).alter_table(database, name, changed)

        context.services.transactions.commit(running.txn_id, change)
    return Result(txn_id=running.txn_id)


def _columns_of_query(
    context: StatementContext, cluster: Cluster, plan: Plan, running: Running, view: str
) -> tuple[Column, ...]:
    """Return the columns of a view's query.

    Temporary functions and variables of the session are not known to the query.

    Raises:
        InvalidObjectError: the query needs variables or temporary functions of this session.
    """
    permanent = tuple(running.functions.values())
    try:
        return context.run(cluster, replace(plan, max_rows=0, prelude=permanent)).columns
    except AnalysisError as error:
        if plan.prelude == permanent:
            raise
        reason = f"its query is read without the variables and temporary functions of a session: {error}"
        raise InvalidObjectError("view", view, reason.rstrip(".")) from error


def drop_view(context: StatementContext, statement: DropView) -> Result:
    """Run DROP VIEW: remove a view or a temporary view.

    Raises:
        InvalidOperationError: the name is that of a table.
    """
    if statement.view.namespace is not None:
        refuse_link(context, "DROP VIEW", statement.view, if_exists=statement.if_exists)
        return Result()
    if context.session.objects.view(statement.view) is not None:
        # A temporary view hides a view of the current database with the same name.
        del context.session.objects.views[statement.view.name]
        return Result()
    database, name = context.session.qualify(statement.view)
    catalog = context.services.catalog

    def change(connection: Connection, _write_ids: GivenList, _txn_id: int | None) -> None:
        catalog.joining(connection).drop_table(database, name)

    try:
        view = catalog.get_table(database, name)
        if not view.is_view:
            raise InvalidOperationError("DROP VIEW", view.full_name, "it is a table; DROP TABLE drops it")
        result = change_metadata(context, view, context.services.statement_locks.drop_table(view), change)
    except (NoSuchTableError, NoSuchDatabaseError):
        if not statement.if_exists:
            raise
        return Result()
    forget_dropped(view.full_name, lambda: catalog.forget_tables([view]))
    return result


def _qualified(context: StatementContext, statement: CreateView) -> list[TableName]:
    current = context.session.database
    named = (reference.table for reference in statement.query.references)
    return [replace(name, database=name.database or current) for name in named]


def _check_names(context: StatementContext, database: str, full_name: str, statement: CreateView) -> None:
    """Refuse a view of a closed namespace whose query names objects of other namespaces."""
    check_definition(context, query_definition("view", full_name, database, statement.query, context.session.database))


def _find(context: StatementContext, database: str, name: str) -> StoredTable | None:
    try:
        return context.services.catalog.get_table(database, name)
    except NoSuchTableError:
        return None


def view_columns(
    full_name: str, statement: CreateView | CreateTemporaryView, given: tuple[Column, ...]
) -> tuple[Column, ...]:
    """Return the columns of a view: the columns of its query, renamed if the statement lists names.

    Raises:
        InvalidObjectError: the number of columns or a name is not valid, or two columns of the query have the same
            name, and their order is not certain.
    """
    named = statement.columns
    if named and len(named) != len(given):
        reason = f"it lists {len(named)} columns, and its query returns {len(given)}"
        raise InvalidObjectError("view", full_name, reason)
    columns = tuple(
        replace(column, name=name, comment=comment)
        for column, (name, comment) in zip(given, named or ((c.name, None) for c in given), strict=True)
    )
    if (name := _twice(columns)) is not None:
        raise InvalidObjectError("view", full_name, f"its query returns two columns {name}; give one another name")
    if not statement.query.lists_columns and (name := _twice(given)) is not None:
        # If the table's columns changed their order, the columns of the view would get other values.
        reason = f"its query returns two columns {name}, and has a * or pipe; let it SELECT its columns one by one"
        raise InvalidObjectError("view", full_name, reason)
    if not all(column.name for column in columns):
        raise InvalidObjectError("view", full_name, "its query returns a column without a name; give it one by AS")
    return columns


def _twice(columns: Sequence[Column]) -> str | None:
    """Return a name that two of the columns have, or None if all names differ."""
    names = [column.name.lower() for column in columns]
    return next((column.name for column in columns if names.count(column.name.lower()) > 1), None)
