"""CREATE, ALTER, DROP and USE of databases, USE CLUSTER, and the capacity and quotas of namespaces."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.commands.tables import delete_tables
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    NoSuchDatabaseError,
)
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.metadata_changes import check_location
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import CLUSTER, Database, StoredTable
from airflow_hivex.core.model.table_properties import check_spelling
from airflow_hivex.core.namespaces.capacity import DEFAULT_WARNING_PERCENT
from airflow_hivex.core.parser.statements import (
    AlterDatabase,
    CreateDatabase,
    DropDatabase,
    SetQuota,
    ShowCapacity,
    UseCluster,
    UseDatabase,
)
from airflow_hivex.core.settings import NAMESPACE_MODE

log = logging.getLogger(__name__)

_AMOUNTS = ("owned_bytes", "owned_rows", "secondary_bytes", "obsolete_bytes")
_TOTALS = (
    "namespace",
    "cluster",
    *_AMOUNTS,
    "linked_bytes",
    "growth_7d_bytes",
    "quota_bytes",
    "warning_percent",
    "status",
)


def create_database(context: StatementContext, statement: CreateDatabase) -> Result:
    """Run CREATE DATABASE: check and store the new database."""
    check_new_database(context, statement.name, statement.properties, statement.location)
    database = Database(
        name=statement.name,
        location=statement.location or "",
        description=statement.comment,
        owner=context.session.user,
        parameters=statement.properties,
    )
    try:
        context.services.catalog.create_database(database)
    except AlreadyExistsError:
        if not statement.if_not_exists:
            raise
    return Result()


def drop_database(context: StatementContext, statement: DropDatabase) -> Result:
    """Run DROP DATABASE: remove a database.

    With CASCADE its tables are dropped, too; their files are deleted after the commit.
    """
    dropped: list[StoredTable] = []

    def change(connection: Connection) -> None:
        dropped[:] = context.services.catalog.joining(connection).drop_database(
            statement.name, cascade=statement.cascade
        )

    try:
        with own_transaction(context) as running:
            acquire(context, running, context.services.statement_locks.drop_database(statement.name))
            context.services.transactions.commit(running.txn_id, change)
    except NoSuchDatabaseError:
        if not statement.if_exists:
            raise
        return Result()
    delete_tables(context, dropped)
    return Result(txn_id=running.txn_id)


def alter_database(context: StatementContext, statement: AlterDatabase) -> Result:
    """Run ALTER DATABASE: change the properties, the owner or the location.

    Raises:
        InvalidObjectError: UNSET names a property that the database does not have.
    """
    catalog = context.services.catalog
    catalog.get_database(statement.name)
    check_location(context, "database", statement.name, statement.location, statement.name)
    check_database_properties(context, statement.name, statement.properties)

    def changed(database: Database) -> Database:
        check_spelling("database", database.name, statement.unset, database.parameters)
        missing = next((key for key in statement.unset if key not in database.parameters), None)
        if missing is not None and not statement.if_exists:
            raise InvalidObjectError("database", statement.name, f"it has no property {missing} to unset")
        kept = {key: value for key, value in database.parameters.items() if key not in statement.unset}
        return replace(
            database,
            parameters={**kept, **statement.properties},
            owner=statement.owner or database.owner,
            location=statement.location or database.location,
        )

    catalog.change_database(statement.name, changed)
    return Result()


def check_new_database(
    context: StatementContext,
    name: str,
    properties: Mapping[str, str],
    location: str | None,
    cluster: Cluster | None = None,
) -> None:
    """Refuse a new database if a property or its location is not valid; see ``check_location``.

    Raises:
        InvalidObjectError, UnknownClusterError, LocationOutsideClusterError: a value is not valid.
    """
    check_database_properties(context, name, properties)
    mode = properties.get(NAMESPACE_MODE)
    is_closed = bool(context.services.settings[NAMESPACE_MODE]) if mode is None else mode.lower() == "true"
    check_location(context, "database", name, location, name, cluster, is_closed=is_closed)


def check_database_properties(context: StatementContext, name: str, properties: Mapping[str, str]) -> None:
    """Refuse properties of a database if the namespace mode is not valid or the cluster is not configured.

    Raises:
        InvalidObjectError: the mode is neither true nor false.
        UnknownClusterError: the cluster is not configured.
    """
    mode = properties.get(NAMESPACE_MODE)
    if mode is not None and mode.lower() not in ("true", "false"):
        raise InvalidObjectError(
            "database", name, f"{NAMESPACE_MODE} = {mode!r} is not a valid mode; give true or false"
        )
    cluster = properties.get(CLUSTER)
    if cluster is not None:
        context.services.clusters.get(cluster)


def use_database(context: StatementContext, statement: UseDatabase) -> Result:
    """Run USE: make an existing database the current database of the session."""
    context.session.database = context.services.catalog.get_database(statement.name).name
    return Result()


def use_cluster(context: StatementContext, statement: UseCluster) -> Result:
    """Run USE CLUSTER: pin the session to a configured cluster, or remove the pin."""
    if statement.name is not None:
        context.services.clusters.get(statement.name)
    context.session.cluster = statement.name
    return Result(cluster=statement.name)


def show_capacity(context: StatementContext, statement: ShowCapacity) -> Result:
    """Run SHOW CAPACITY: return one row for each namespace and cluster.

    BY TABLE, BY FORMAT and BY AGE return several rows instead: one for each table or link, each format, or each age.
    """
    capacity = context.services.capacity
    asked = (statement.database, statement.cluster)
    if statement.by is not None:
        shares = {"TABLE": capacity.by_table, "FORMAT": capacity.by_format, "AGE": capacity.by_age}[statement.by](
            *asked
        )
        columns = ["namespace", "cluster", statement.by.lower(), *_AMOUNTS]
        found: list[tuple[object, ...]] = [
            (each.namespace, each.cluster, each.name, *(getattr(each.amounts, name) for name in _AMOUNTS))
            for each in shares
        ]
        if statement.by != "TABLE":
            return Result(columns, found)
        found = [(*row, 0) for row in found]
        found += [
            (each.namespace, each.cluster, each.link, *(0 for _ in _AMOUNTS), each.size_bytes)
            for each in capacity.by_link(*asked)
        ]
        # The links of a namespace and cluster come after its tables.
        return Result([*columns, "linked_bytes"], sorted(found, key=lambda row: (str(row[0]), str(row[1]))))
    rows: list[tuple[object, ...]] = [
        (
            each.namespace,
            each.cluster,
            *(getattr(each.amounts, name) for name in _AMOUNTS),
            each.linked_bytes,
            each.growth_7d_bytes,
            None if each.quota is None else each.quota.size_bytes,
            None if each.quota is None else each.quota.warning_percent,
            each.status,
        )
        for each in capacity.show(*asked)
    ]
    return Result(list(_TOTALS), rows)


def set_quota(context: StatementContext, statement: SetQuota) -> Result:
    """Run ALTER DATABASE ... SET and UNSET QUOTA: store or remove the quota of a namespace."""
    capacity = context.services.capacity
    if statement.size_bytes is None:
        capacity.drop_quota(statement.database, statement.cluster)
    else:
        percent = DEFAULT_WARNING_PERCENT if statement.warning_percent is None else statement.warning_percent
        capacity.set_quota(statement.database, statement.size_bytes, statement.cluster, percent)
    return Result()
