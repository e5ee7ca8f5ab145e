"""SHOW PARTITIONS, and ALTER TABLE for partitions: ADD, DROP, RENAME and EXCHANGE."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import partition_rows
from airflow_hivex.core.catalog.directories import directories_of
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.partition_rows import DroppedPartition, name_of
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.catalog.specifications import check_partitioned, clause_condition, covered, typed_specification
from airflow_hivex.core.commands.links import as_link, linked
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
)
from airflow_hivex.core.execution import consumed_files
from airflow_hivex.core.execution.consumed_files import ConsumedFiles
from airflow_hivex.core.execution.context import Result, Running, Services, StatementContext
from airflow_hivex.core.execution.metadata_changes import apply_change, change_metadata, check_location, forget_dropped
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.execution.writing import begin_write, end_writes
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.column_types import ColumnType
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Partition, SortColumn, StoredTable, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, check_folder_name, partition_values
from airflow_hivex.core.model.predicates import PaddedText, Predicate, Truth, Value, columns_in, evaluate, typed
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    AddPartitions,
    DropPartitions,
    ExchangePartition,
    Insert,
    Literal,
    RenamePartition,
    ShowPartitions,
)

_MOST_AT_ONCE = 100


def delete_partitions(
    services: Services, table: StoredTable, dropped: Sequence[DroppedPartition]
) -> list[DroppedPartition]:
    """Delete the directories of dropped partitions. Return the partitions whose directories are deleted.

    Only ``DroppedPartition.directories`` are deleted, because a running INSERT can be writing other directories in the
    same folder.
    """
    gone: list[DroppedPartition] = []
    # The root of a cluster is checked once, not for each partition.
    checked: dict[str, ClusterFiles] = {}
    for start in range(0, len(dropped), _MOST_AT_ONCE):
        batch = dropped[start : start + _MOST_AT_ONCE]
        with services.store.read() as connection:
            in_sight = partition_rows.in_sight(connection, table.id, [each.name for each in batch])
        for each in batch:
            unused = [name for name in each.directories if name not in in_sight.get(each.name, ())]
            try:
                _delete(services, table, each.places, unused, checked)
            except HivexError as error:
                log.warning(
                    "Files of the dropped partition %s of %s are still there: %s", each.name, table.full_name, error
                )
            else:
                gone.append(each)
    if gone:
        name = f"{table.full_name} {gone[0].name}"
        forget_dropped(name, lambda: services.catalog.forget_partitions(gone))
    return gone


def delete_needless(
    services: Services,
    table: StoredTable,
    name: str,
    places: Iterable[ClusterStorageDescriptor],
    directories: Sequence[str],
) -> None:
    """Delete ``directories`` of a partition on all its clusters, except registered ones. A failure is only logged."""
    try:
        with services.store.read() as connection:
            in_sight = partition_rows.in_sight(connection, table.id, [name])
        _delete(services, table, places, [each for each in directories if each not in in_sight.get(name, ())], {})
    except HivexError as error:
        log.warning("Files of the partition %s of %s are still there: %s", name, table.full_name, error)


def check_is_free(services: Services, operation: str, table: StoredTable, name: str) -> None:
    """Refuse the name of a dropped partition whose files can still exist. The caller has locked the name.

    Raises:
        InvalidOperationError: the files of the dropped partition are not deleted yet.
    """
    with services.store.read() as connection:
        if partition_rows.has_files(connection, table.id, name):
            reason = (
                f"files of an earlier partition {name} are still being deleted; try again later: if the process that "
                "does so was killed, the housekeeping deletes them"
            )
            raise InvalidOperationError(operation, table.full_name, reason)


def delete_left(services: Services) -> int:
    """Delete the files of dropped partitions that still exist because the process of the DROP was killed.

    Return the number of these partitions.
    """
    before_ms = services.clock() - int(services.settings["hive.txn.timeout"]) * 1000
    count = after = 0
    while True:
        with services.store.read() as connection:
            found = partition_rows.dropped_before(connection, before_ms, after, _MOST_AT_ONCE)
        if not found:
            return count
        of_tables = {table.id: table for table, _ in found}
        for table_id, table in of_tables.items():
            dropped = [partition for of, partition in found if of.id == table_id]
            count += len(delete_partitions(services, table, dropped))
        after = found[-1][1].id


def _delete(
    services: Services,
    table: Table,
    places: Iterable[ClusterStorageDescriptor],
    directories: Sequence[str],
    checked: dict[str, ClusterFiles],
) -> None:
    if table.is_external:
        return
    for place in places:
        files = checked.get(place.cluster)
        if files is None:
            files = checked[place.cluster] = services.files_to_change(services.clusters.get(place.cluster))
        for name in directories:
            files.delete_directory(f"{place.location}/{name}")
        files.delete_empty_directories(place.location, len(table.partition_keys))


log = logging.getLogger(__name__)


def add_partitions(context: StatementContext, statement: AddPartitions) -> Result:
    """Run ALTER TABLE ADD PARTITION: add all partitions, or none of them."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    check_partitioned("ADD PARTITION", table)
    keys = {key.name: key for key in table.partition_keys}
    cluster = context.services.clusters.get(table.storage.primary.cluster)
    new = []
    for specification, location in statement.partitions:
        for key in specification:
            if key not in keys:
                raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", list(keys))
        if location and not table.is_external:
            raise InvalidOperationError(
                "ADD PARTITION with LOCATION", table.full_name, "partitions of a managed table lie below the table"
            )
        check_location(context, "partition", f"of {table.full_name}", location, database, cluster, is_external=True)
        missing = [key for key in keys if key not in specification]
        if missing:
            raise InvalidObjectError("partition", f"of {table.full_name}", f"no value for key {missing[0]}")
        new.append(catalog.new_partition(table, [specification[key].value for key in keys], location or ""))  # type: ignore[misc]

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).add_partitions(
            database, name, new, write_ids, if_not_exists=statement.if_not_exists, txn_id=txn_id
        )

    names = [partition.name for partition in new]
    locks = context.services.statement_locks.add_partitions(table, names, if_not_exists=statement.if_not_exists)
    return change_metadata(context, table, locks, change)


def drop_partitions(context: StatementContext, statement: DropPartitions) -> Result:
    """Run ALTER TABLE DROP PARTITION: drop all partitions that a specification covers, then delete their files."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    names: set[str] = set()
    for specification in statement.specifications:
        found = covered_partitions(context, "DROP PARTITION", table, specification)
        if not found and not statement.if_exists:
            raise NoSuchPartitionError(table.database, table.name, "that the specification covers")
        names |= set(found)
    if not names:
        return Result()
    dropped: list[DroppedPartition] = []

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        dropped[:] = drop_in(context, connection, table, sorted(names), write_ids, txn_id)

    locks = context.services.statement_locks.drop_partitions(table, sorted(names))
    result = change_metadata(context, table, locks, change)
    delete_partitions(context.services, table, dropped)
    return result


def drop_in(
    context: StatementContext,
    connection: Connection,
    table: StoredTable,
    names: Sequence[str],
    write_ids: GivenList,
    txn_id: int | None,
) -> list[DroppedPartition]:
    """Drop partitions as part of the caller's commit. Return them with the names of their directories."""
    gone = context.services.catalog.joining(connection).drop_partitions(
        table.database, table.name, names, write_ids, if_exists=True, txn_id=txn_id
    )
    registered = directories_of(connection, table, [partition.id for partition in gone])
    return [
        DroppedPartition(
            each.id,
            each.name,
            tuple(_managed_copies(table, each)),
            tuple(found.name for found in registered.get(each.id, ())),
        )
        for each in gone
    ]


def rename_partition(context: StatementContext, statement: RenamePartition) -> Result:
    """Run ALTER TABLE PARTITION RENAME: copy the directories. The old directories are deleted after the commit.

    Raises:
        NoSuchPartitionError: the partition does not exist.
        AlreadyExistsError: another partition has the new name.
        InvalidOperationError: files of an earlier partition of the new name can still exist.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    old, new = (partition_name_of("RENAME PARTITION", table, each) for each in (statement.partition, statement.name))
    if not table.is_external:
        check_folder_name(new)
    names = catalog.list_partition_names(database, name)
    if old not in names:
        raise NoSuchPartitionError(table.database, table.name, old)
    if new in names:
        raise AlreadyExistsError("partition", f"{table.full_name} {new}", "choose another name")
    services = context.services
    sources: list[ClusterStorageDescriptor] = []
    copied: list[str] = []
    needless: list[str] = []
    left: list[int] = []

    def targets() -> list[ClusterStorageDescriptor]:
        return [replace(each, location=each.location.removesuffix(old) + new) for each in sources]

    def copy(running: Running) -> None:
        if not table.is_external:
            check_is_free(services, "RENAME PARTITION", table, new)
        # Other directories may have been added while the statement waited for its locks.
        partition = catalog.get_partition(database, name, partition_values(old))
        copied[:] = _directories(catalog, table, old, statement.partition)
        running.undo.append(lambda: delete_needless(services, table, new, targets(), copied))
        for source in _managed_copies(table, partition):
            sources.append(source)
            target = source.location.removesuffix(old) + new
            files = services.files_to_change(services.clusters.get(source.cluster))
            for directory in copied:
                # A process that was suspended beyond its time-out must not touch the files.
                services.transactions.heartbeat(running.txn_id)
                log.info("Copying %s of %s to %s", directory, partition.name, new)
                # These files are left of a rename that was killed.
                files.delete_directory(f"{target}/{directory}")
                files.copy_directory(f"{source.location}/{directory}", f"{target}/{directory}")

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        former = catalog.joining(connection).rename_partition(database, name, old, new, write_ids, txn_id=txn_id)
        left[:] = [] if former is None else [former]
        # The cleaner, which takes no locks, may have deleted some directories since the copy.
        kept = _directories(catalog.joining(connection), table, new, statement.name)
        needless[:] = sorted(set(copied) - set(kept))

    locks = services.statement_locks.rename_partition(table, [old, new])
    result = change_metadata(context, table, locks, change, before=copy)
    former = [DroppedPartition(each, old, tuple(sources), tuple(copied)) for each in left]
    delete_partitions(services, table, former)
    if needless:
        delete_needless(services, table, new, targets(), needless)
    return result


def _directories(catalog: ObjectStore, table: Table, name: str, clause: Mapping[str, Literal]) -> list[str]:
    """Return the names of the registered directories of a partition, given by its name and its PARTITION clause."""
    named = (table.database, table.name)
    snapshot = catalog.snapshot([named])
    condition = clause_condition("RENAME PARTITION", table, clause)
    contents = catalog.contents(snapshot, snapshot.tables[named], condition, ())
    ids = [each.id for each in contents.partitions if each.name == name]
    return [each.name for partition_id in ids for each in contents.directories.get(partition_id, ())]


def partition_name_of(operation: str, table: Table, specification: Mapping[str, Literal]) -> str:
    """Return the name of the partition with the values of a PARTITION clause, which has a value for each key.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a key has no value, or a value of another type.
    """
    check_partitioned(operation, table)
    keys = [key.name.lower() for key in table.partition_keys]
    for key in specification:
        if key not in keys:
            raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", keys)
    missing = [key for key in keys if key not in specification]
    if missing:
        raise InvalidObjectError("partition", f"of {table.full_name}", f"no value for key {missing[0]}")
    return name_of(table, [specification[key].value for key in keys])  # type: ignore[misc]


def _managed_copies(table: Table, partition: Partition) -> list[ClusterStorageDescriptor]:
    """Return the locations of a partition on all clusters, or an empty list for an external table.

    A DROP deletes only files of managed tables.
    """
    if table.is_external:
        return []
    primary = table.storage.primary
    return [
        ClusterStorageDescriptor(primary.cluster, f"{primary.location}/{partition.name}"),
        *partition.secondaries,
    ]


def covered_partitions(context: StatementContext, operation: str, table: Table, specification: Predicate) -> list[str]:
    """Return the sorted names of the partitions that match a PARTITION clause exactly.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a value is not of the type of its key.
    """
    exact = typed_specification(operation, table, specification)
    names = context.services.catalog.list_partition_names(table.database, table.name, exact)
    return covered(names, exact, table.partition_keys)


# ALTER TABLE EXCHANGE PARTITION: partitions of one table become partitions of another table, in one commit.
#
# The rows are copied, since a directory has the write ids of its table. Then the partitions of the source are
# dropped.


def exchange_partition(context: StatementContext, statement: ExchangePartition) -> Result:
    """Move partitions from a source table to another table; return the number of moved rows.

    Raises:
        InvalidOperationError: the tables have different columns, or the table cannot be written.
        NoSuchPartitionError: the source does not have the partition.
        AlreadyExistsError: the table has one of the partitions already.
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
        write = begin_write(context, running, target, cluster)
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        empty = moved - {each.partition for each in written.directories}
        dropped: list[DroppedPartition] = []

        def drop(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
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
    """Return the names of the source's partitions that the clause covers. The target must not have any of them.

    Raises:
        NoSuchPartitionError: the clause covers no partition.
        AlreadyExistsError: the target has one of the partitions.
    """
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
    """Record the files of an external table's partitions for deletion after the commit."""
    with context.services.store.read() as connection:
        places = partition_rows.locations_of(connection, source, names)
    cluster = context.services.clusters.get(source.storage.primary.cluster)
    files = context.services.files(cluster)
    folders = {}
    for place in places.values():
        stamps = {name: files.stamp(f"{place}/{name}") for name in files.list_data_files(place)}
        folders[place] = {name: stamp for name, stamp in stamps.items() if stamp is not None}
    return consumed_files.take(context, running, source, cluster.name, folders, len(source.partition_keys))


_SHOW = "SHOW PARTITIONS"


def show_partitions(context: StatementContext, statement: ShowPartitions) -> Result:
    """Run SHOW PARTITIONS: return one name per row.

    Raises:
        InvalidOperationError: the table has no partition keys, or a partition's values do not decide the condition.
        NoSuchColumnError: a column is not a partition key.
    """
    table, names = _all(context, statement)
    if statement.condition is not None:
        _check_keys(table, [column.name for column in columns_in(statement.condition)])
        names = _of_condition(table, names, statement.condition)
    if statement.order_by:
        _check_keys(table, [column.name for column in statement.order_by])
        names = _ordered(table, names, statement.order_by)
    return Result(["partition"], [(each,) for each in names[: statement.limit]])


def _all(context: StatementContext, statement: ShowPartitions) -> tuple[Table, Sequence[str]]:
    """Return the table, and the names of the partitions that the PARTITION clause covers.

    Without a clause, return all names.
    """
    if statement.table.namespace is not None:
        link, source = linked(context, statement.table)
        exact = None
        if statement.specification is not None:
            exact = typed_specification(_SHOW, as_link(source, link), statement.specification)
        shown = context.services.links.partitions(link.name.database, link.name.in_database, exact)
        return as_link(source, link), shown
    catalog = context.services.catalog
    table = catalog.get_table(*context.session.qualify(statement.table))
    if statement.specification is not None:
        return table, covered_partitions(context, _SHOW, table, statement.specification)
    return table, catalog.list_partition_names(table.database, table.name)


def _check_keys(table: Table, columns: Sequence[str]) -> None:
    keys = [key.name.lower() for key in table.partition_keys]
    for column in columns:
        if column.lower() not in keys:
            raise NoSuchColumnError(table.full_name, f"{column} among its partition keys", keys)


def _of_condition(table: Table, names: Sequence[str], condition: Predicate) -> list[str]:
    types = {key.name.lower(): key.parsed_type for key in table.partition_keys}
    found = []
    for name in names:
        answer = evaluate(condition, _values(table, name), types)
        if answer is Truth.MAYBE:
            reason = f"its condition cannot be decided for partition {name}; compare keys with constants of their types"
            raise InvalidOperationError(_SHOW, table.full_name, reason)
        if answer is Truth.YES:
            found.append(name)
    return found


def _ordered(table: Table, names: Sequence[str], order_by: Sequence[SortColumn]) -> list[str]:
    """Return partition names in the order of ORDER BY. NULL is less than all other values, as in Spark."""
    values = {name: _values(table, name) for name in names}
    ordered = list(names)
    # The last column is sorted first: each later sort keeps the order of equal values.
    for column in reversed(order_by):
        ordered.sort(key=lambda name: _place(values[name].get(column.name)), reverse=not column.ascending)
    return ordered


def _place(value: Value) -> tuple[bool, object]:
    if value is None:
        return False, 0
    return True, value.rstrip(" ") if isinstance(value, PaddedText) else value


def _values(table: Table, name: str) -> Mapping[str, Value]:
    """Return a dict from partition key to value for a partition, without values that do not have the key's type."""
    found: dict[str, Value] = {}
    for key, text in zip(table.partition_keys, partition_values(name), strict=True):
        try:
            found[key.name.lower()] = typed(None if text == DEFAULT_PARTITION else text, key.parsed_type)
        except ValueError:
            continue
    return found
