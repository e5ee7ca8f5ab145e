"""ALTER TABLE EXCHANGE PARTITION: partitions of one table become those of another, in one commit.

The rows are copied, since a directory has the write ids of its table. Then the partitions of the source are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import partitions
from airflow_hivex.core.catalog.dropped_partitions import DroppedPartition
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.catalog.specifications import clause_condition, covered
from airflow_hivex.core.commands.dropped_partitions import delete_partitions
from airflow_hivex.core.commands.partition_definitions import drop_in
from airflow_hivex.core.errors import AlreadyExistsError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.execution import consumed_files
from airflow_hivex.core.execution.consumed_files import ConsumedFiles
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import apply_change
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import own_transaction
from airflow_hivex.core.execution.writing import begin_write, end_writes
from airflow_hivex.core.model.column_types import ColumnType
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ExchangePartition, Insert


def exchange_partition(context: StatementContext, statement: ExchangePartition) -> Result:
    """Return the number of rows that have come to the table.

    Raises:
        InvalidOperationError: the tables have other columns, or rows of one of them are not written.
        NoSuchPartitionError: the source has no such partition.
        AlreadyExistsError: the table has one of the partitions.
        WriteConflictError: a partition of the source was changed while the statement waited.
    """
    services, catalog = context.services, context.services.catalog
    target = catalog.get_table(*context.session.qualify(statement.table))
    source = catalog.get_table(*context.session.qualify(statement.source))
    _check_alike(statement.kind, target, source)
    names = _names(context, statement, target, source)
    with own_transaction(context) as running:
        locks = services.statement_locks
        whole = locks.convert_table(source) if source.is_external else locks.drop_partitions(source, names)
        routed = route(context, _insert(target, source), running, locks=whole)
        (bound,) = routed.bound
        if (routed.target.id, bound.table.id) != (target.id, source.id):
            reason = "a table was dropped and created again meanwhile; try again"
            raise InvalidOperationError(statement.kind, target.full_name, reason)
        if _names(context, statement, target, source) != names:
            raise InvalidOperationError(statement.kind, source.full_name, "its partitions changed meanwhile; try again")
        moved = frozenset(names)
        chosen = tuple(each for each in bound.partitions if each.name in moved)
        consumed = _consumed(context, running, source, names) if source.is_external else None
        routed = replace(routed, bound=(replace(bound, partitions=chosen),))
        cluster = chosen_cluster(context, routed)
        write = begin_write(context, running, target, cluster, overwrite=False, static={}, partition=None)
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        empty = moved - {each.partition for each in written.directories}
        dropped: list[DroppedPartition] = []

        def drop(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
            dropped[:] = drop_in(context, connection, source, names, write_ids, txn_id)

        def also(connection: Connection) -> None:
            if empty:
                added = Registration(target, cluster.name, running.txn_id, (), empty, adds_partitions=True)
                catalog.joining(connection).register(added)
            apply_change(context, connection, running, source, drop)
            if consumed is not None:
                consumed.register(connection)

        end_writes(context, running, [(write, written.directories)], also=also)
    delete_partitions(services, source, dropped)
    if consumed is not None:
        consumed.finish(services)
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route)


def _check_alike(operation: str, target: Table, source: Table) -> None:
    for table in (target, source):
        if table.is_view:
            raise InvalidOperationError(operation, table.full_name, "it is a view")
    if target.not_inserted:
        raise InvalidOperationError(operation, target.full_name, target.not_inserted)
    if target.id == source.id:
        raise InvalidOperationError(operation, target.full_name, "both tables are the same; RENAME TO PARTITION moves")

    def columns(table: Table) -> list[tuple[str, ColumnType]]:
        return [(each.name.lower(), each.parsed_type) for each in (*table.columns, *table.partition_keys)]

    if columns(target) != columns(source) or len(target.partition_keys) != len(source.partition_keys):
        reason = f"{source.full_name} has other columns or partition keys; name them in an INSERT"
        raise InvalidOperationError(operation, target.full_name, reason)


def _names(
    context: StatementContext, statement: ExchangePartition, target: StoredTable, source: StoredTable
) -> list[str]:
    """Return the partitions of the source that the clause covers, none of which the target has."""
    condition = clause_condition(statement.kind, source, statement.partition)
    catalog = context.services.catalog
    known = catalog.list_partition_names(source.database, source.name, condition)
    names = covered(known, condition, source.partition_keys)
    if not names:
        raise NoSuchPartitionError(source.database, source.name, "that the specification covers")
    there = catalog.get_partitions_by_names(target.database, target.name, names)
    if there:
        raise AlreadyExistsError("partition", f"{target.full_name} {there[0].name}", "drop it, or choose another one")
    return names


def _insert(target: StoredTable, source: StoredTable) -> Insert:
    columns = ", ".join(quoted(each.name) for each in (*target.columns, *target.partition_keys))
    into = f"{quoted(target.database)}.{quoted(target.name)}"
    text = f"INSERT INTO {into} SELECT {columns} FROM {quoted(source.database)}.{quoted(source.name)}"  # noqa: S608 - quoted
    insert = read(text, database=target.database)
    assert isinstance(insert, Insert)
    return insert


def _consumed(context: StatementContext, running: Running, source: StoredTable, names: Sequence[str]) -> ConsumedFiles:
    """Note the files of partitions of an external table, which go as Hive moves them."""
    with context.services.store.read() as connection:
        places = partitions.locations_of(connection, source, names)
    cluster = context.services.clusters.get(source.storage.primary.cluster)
    files = context.services.files(cluster)
    folders = {}
    for place in places.values():
        stamps = {name: files.stamp(f"{place}/{name}") for name in files.list_data_files(place)}
        folders[place] = {name: stamp for name, stamp in stamps.items() if stamp is not None}
    return consumed_files.take(context, running, source, cluster.name, folders, len(source.partition_keys))
