"""Temporary tables: tables of one session, stored under generated names in a database that all sessions share.

``SessionState.qualify`` returns the stored name, so that statements bind, route, lock and write temporary tables like
other tables. A temporary table is dropped when its session is closed. If the process of the session is killed, the
housekeeper drops the table.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection, and_, func, select, update

from airflow_hivex.core.commands.described_json import json_of_temporary_view
from airflow_hivex.core.commands.tables import create_table_like, drop_table
from airflow_hivex.core.commands.views import view_columns
from airflow_hivex.core.errors import AlreadyExistsError, HivexError, InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.called_functions import qualified as qualified_functions
from airflow_hivex.core.execution.closed_names import made_here
from airflow_hivex.core.execution.context import Result, Running, Services, SessionState, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH
from airflow_hivex.core.model.objects import CLUSTER, TEMPORARY_DATABASE, Database, Table
from airflow_hivex.core.model.session_objects import TemporaryView
from airflow_hivex.core.parser.grammar.views import definition
from airflow_hivex.core.parser.statements import (
    CreateTable,
    CreateTableLike,
    CreateTemporaryView,
    CreateView,
    DescribeTable,
    DropCopy,
    DropTable,
    DropView,
    ExchangePartition,
    ExplainRoute,
    ObjectKind,
    RefreshTable,
    RenameTable,
    ReplicateTable,
    Role,
    SetPrimaryCluster,
    ShowColumns,
    Statement,
    TableName,
)
from airflow_hivex.core.settings import TEMPORARY_TABLE_TIMEOUT
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import databases, locks, tables

log = logging.getLogger(__name__)

S = TypeVar("S", CreateTable, CreateTableLike)

_REFUSE_THEM = (CreateView, RenameTable, ExchangePartition, ReplicateTable, SetPrimaryCluster, DropCopy)
_HOUSEKEEPER = "housekeeper"
_ID_LENGTH = 12
# The number of times within a time-out at which statements report the use of the tables to the metastore.
_REPORTS_IN_TIME_OUT = 10


def create_temporary(
    context: StatementContext, statement: S, create: Callable[[StatementContext, S], Result]
) -> Result:
    """Run CREATE TEMPORARY TABLE: call ``create`` with a generated stored name.

    The primary cluster is chosen as for other tables of the current database: the pinned cluster, the cluster that runs
    the query of the statement, or the cluster for new tables of the database.

    Raises:
        AlreadyExistsError: the session has a temporary table or view of that name.
    """
    state = context.session
    new = _new(statement)
    name = new.table.name
    if name in state.objects.tables or state.objects.view(new.table) is not None:
        if new.if_not_exists:
            return Result()
        raise AlreadyExistsError("temporary table", name)
    home = context.home_cluster(state.database)
    with suppress(AlreadyExistsError):
        context.services.catalog.create_database(
            Database(TEMPORARY_DATABASE, description="Temporary tables of all sessions; each is dropped with its own")
        )
    stored = f"{name[: MAX_NAME_LENGTH - _ID_LENGTH - 2]}__{uuid.uuid4().hex[:_ID_LENGTH]}"
    properties = new.properties if new.query is not None else {CLUSTER: home, **new.properties}
    placed = replace(new, table=TableName(stored, TEMPORARY_DATABASE), properties=properties, if_not_exists=False)
    result = create(context, placed if isinstance(statement, CreateTable) else replace(statement, new=placed))
    state.objects.tables[name] = made_here(context, (TEMPORARY_DATABASE, stored))
    return result


def create_like(context: StatementContext, statement: CreateTableLike) -> Result:
    """Create a table, or a temporary one, with the columns of another table."""
    if statement.new.temporary:
        return create_temporary(context, statement, create_table_like)
    return create_table_like(context, statement)


def _new(statement: CreateTable | CreateTableLike) -> CreateTable:
    return statement if isinstance(statement, CreateTable) else statement.new


def check_temporary_tables(context: StatementContext, statement: Statement) -> None:
    """Refuse a statement that does not support temporary tables, or creates a table that a temporary table would hide.

    Raises:
        InvalidOperationError: the statement names a temporary table of the session.
    """
    objects = context.session.objects
    if not objects.tables:
        return
    creates = isinstance(statement, CreateTable | CreateTableLike)
    if not creates and not isinstance(statement, _REFUSE_THEM):
        return
    if isinstance(statement, CreateTable | CreateTableLike) and _new(statement).temporary:
        return
    for use in statement.uses:
        if use.name is None or (creates and not use.role.is_output):
            continue
        if objects.table(TableName(use.name, use.database, use.namespace)) is not None:
            advice = "it is a temporary table of the session; name another table with its database"
            raise InvalidOperationError(statement.kind, use.name, advice)


def drop_one(context: StatementContext, statement: DropTable) -> Result:
    """Run DROP TABLE: drop a table or a temporary table.

    After the drop of a temporary table, its name means the stored table that the temporary table has hidden.
    """
    result = drop_table(context, statement)
    if context.session.objects.table(statement.table) is not None:
        del context.session.objects.tables[statement.table.name]
    return result


def as_named(state: SessionState, table: Table) -> Table:
    """Return a temporary table with its name in the session. Other tables are returned unchanged."""
    stored = (table.database, table.name)
    name = next((name for name, each in state.objects.tables.items() if each.stored == stored), table.name)
    return replace(table, name=name)


def note_use(context: StatementContext) -> None:
    """Record in the metastore, from time to time, that the temporary tables are in use. At most one round trip."""
    objects, services = context.session.objects, context.services
    if not objects.tables:
        return
    now = services.clock()
    if now - objects.used_ms < int(services.settings[TEMPORARY_TABLE_TIMEOUT]) * 1000 / _REPORTS_IN_TIME_OUT:
        return
    names = [stored for _, stored in objects.stored_tables]

    def work(connection: Connection) -> None:
        of_session = and_(tables.c.database_id == _DATABASE_ID, tables.c.name.in_(names), ~tables.c.dropped)
        later(connection, update(tables).where(of_session).values(last_accessed_ms=now))

    services.store.write(work)
    objects.used_ms = now


def drop_all(context: StatementContext) -> None:
    """Drop the temporary tables of a session that ends. If this fails, the housekeeper drops the remaining tables."""
    objects = context.session.objects
    for database, name in objects.stored_tables:
        try:
            drop_table(context, DropTable(TableName(name, database), if_exists=True))
        except HivexError as error:
            log.warning("The housekeeper will drop the temporary table %s: %s", name, error)
    objects.tables.clear()


_DATABASE_ID = select(databases.c.id).where(databases.c.name == TEMPORARY_DATABASE).scalar_subquery()
_IS_LOCKED = (
    select(locks.c.lock_id).where(locks.c.database == TEMPORARY_DATABASE, locks.c.table == tables.c.name).exists()
)


def drop_unused(services: Services) -> int:
    """Drop the temporary tables that no session has used within the time-out, and return their number.

    The housekeeper calls this function. Locked tables stay. The call takes one round trip if all tables are in use.
    """
    before = services.clock() - int(services.settings[TEMPORARY_TABLE_TIMEOUT]) * 1000
    used_ms = func.coalesce(tables.c.last_accessed_ms, tables.c.created_ms)
    unused = and_(tables.c.database_id == _DATABASE_ID, ~tables.c.dropped, used_ms < before, ~_IS_LOCKED)
    with services.store.read() as connection:
        names = connection.execute(select(tables.c.name).where(unused).order_by(tables.c.id)).scalars().all()
    context = StatementContext(services, SessionState(user=_HOUSEKEEPER, database=TEMPORARY_DATABASE))
    dropped = 0
    for name in names:
        try:
            drop_table(context, DropTable(TableName(name, TEMPORARY_DATABASE), if_exists=True, cascade=True))
            dropped += 1
        except HivexError as error:
            log.warning("The temporary table %s of a session that has ended stays for now: %s", name, error)
    return dropped


_TAKE_THEM = (DropView, DescribeTable, ShowColumns, RefreshTable)


def create_temporary_view(context: StatementContext, statement: CreateTemporaryView) -> Result:
    """Run CREATE TEMPORARY VIEW: store a view in the session. Spark analyses its query without running it.

    Raises:
        AlreadyExistsError: the session has a temporary view of that name.
        InvalidObjectError: the columns of the query do not match the named columns, two columns have the same name, or
            the query reads the view itself.
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
        commit_own(context, running)
        state.objects.views[name] = TemporaryView(text, columns, statement.comment)
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def qualified(state: SessionState, name: TableName) -> TableName:
    """Return a table name with its database. A temporary table gets its stored name; a temporary view keeps its own."""
    if state.objects.view(name) is not None:
        return name
    database, table = (name.database or state.database, name.name) if name.namespace else state.qualify(name)
    return replace(name, database=database, name=table)


def check_temporary_views(context: StatementContext, statement: Statement) -> None:
    """Refuse the name of a temporary view in a statement that needs a stored table.

    Raises:
        InvalidOperationError: the name is that of a temporary view.
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
    """Run DESCRIBE of a temporary view: return its columns; EXTENDED also returns its comment and query."""
    if statement.partition is not None or statement.column is not None:
        raise InvalidOperationError("DESCRIBE", name, "a temporary view is described as a whole")
    if statement.as_json:
        return json_of_temporary_view(view, name)
    rows: list[tuple[object, ...]] = [(each.name, each.type, each.comment) for each in view.columns]
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Type", "TEMPORARY VIEW", "")]
        rows += [("Comment", view.comment or "", ""), ("View Text", view.text, "")]
    return Result(["col_name", "data_type", "comment"], rows)
