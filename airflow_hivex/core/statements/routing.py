"""Binding and routing: what a statement reads and writes, in which snapshot, and on which cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from airflow_hivex.core.catalog.binding import BoundTable, bind, route_input
from airflow_hivex.core.catalog.tables import select_table, select_tables
from airflow_hivex.core.clusters.properties import Cluster
from airflow_hivex.core.clusters.router import choose_cluster
from airflow_hivex.core.errors import NoSuchTableError, RoutingError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.routes import Route, RouteOutput
from airflow_hivex.core.model.statements import (
    CreateTable,
    Insert,
    MultiInsert,
    RoutedStatement,
    Select,
    TableName,
    TableReference,
)
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.statements.context import StatementContext
from airflow_hivex.core.transactions.snapshots import read_valid_txns, read_valid_write_ids


@dataclass(frozen=True, slots=True)
class RoutedQuery:
    """A query bound to a snapshot and routed: one bound table a reference, the target of a write, the route."""

    bound: tuple[BoundTable, ...]
    target: Table | None
    route: Route


def route(context: StatementContext, statement: RoutedStatement, txn_id: int | None = None) -> RoutedQuery:
    """Bind a statement's tables and choose its cluster, without running anything.

    With ``txn_id`` in that transaction's snapshot, else in that of now. Besides the snapshot and
    the tables (five round trips), at most four for each table that is read.

    Raises:
        NoSuchTableError, NoSuchDatabaseError: a table does not exist.
    """
    with context.services.store.read() as connection:
        valid_txns = read_valid_txns(connection, txn_id)
        targets = [select_table(connection, *context.session.qualify(name)) for name in _written(statement)]
        outputs = [RouteOutput(table.full_name, table.storage.primary.cluster) for table in targets]
        if isinstance(statement, CreateTable):
            outputs.append(RouteOutput(".".join(context.session.qualify(statement.table)), None))
        bound = _bind(context, connection, _read(statement), outputs, valid_txns)
    clusters = context.services.clusters
    chosen = choose_cluster(
        [route_input(each) for each in bound],
        outputs,
        clusters=clusters.names,
        default=clusters.default,
        pinned=context.session.cluster,
        use_default=clusters.use_default,
    )
    return RoutedQuery(bound, targets[0] if targets else None, chosen)


def chosen_cluster(context: StatementContext, routed: RoutedQuery) -> Cluster:
    """The cluster of a route.

    Raises:
        RoutingError: no cluster can run the statement; its ``route`` says what each lacks.
    """
    if routed.route.cluster is None:
        raise RoutingError(routed.route)
    return context.services.clusters.get(routed.route.cluster)


def _written(statement: RoutedStatement) -> tuple[TableName, ...]:
    match statement:
        case Insert():
            return (statement.target,)
        case MultiInsert():
            return statement.targets
        case _:
            return ()


def _read(statement: RoutedStatement) -> tuple[TableReference, ...]:
    match statement:
        case MultiInsert():
            return statement.references
        case CreateTable(query=None):
            return ()
        case Select(query=query) | Insert(query=query) | CreateTable(query=query):
            return query.references if query is not None else ()


def _tables(connection: Connection, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Table]:
    found = {(table.database, table.name): table for table in select_tables(connection, dict.fromkeys(names))}
    for database, name in names:
        if (database, name) not in found:
            # Tells a missing database from a missing table.
            select_table(connection, database, name)
            raise NoSuchTableError(database, name)
    return found


def _bind(
    context: StatementContext,
    connection: Connection,
    references: Sequence[TableReference],
    outputs: Sequence[RouteOutput],
    valid_txns: ValidTxnList,
) -> tuple[BoundTable, ...]:
    if not references:
        return ()
    names = [context.session.qualify(reference.table) for reference in references]
    by_name = _tables(connection, names)
    tables = [by_name[name] for name in names]
    managed = {int(table.id or 0): table.full_name for table in tables if table.is_transactional}
    write_ids = read_valid_write_ids(connection, managed, valid_txns)
    candidates = {table.storage.primary.cluster for table in tables} | {context.services.clusters.default}
    candidates |= {cluster for cluster in (context.session.cluster, *(each.primary for each in outputs)) if cluster}
    return tuple(
        bind(connection, table, reference.filters, write_ids.get(int(table.id or 0)), valid_txns, candidates)
        for table, reference in zip(tables, references, strict=True)
    )
