"""The rows of tables. Functions here take part in the caller's database transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    String,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.catalog.closed_namespaces import check_folder, check_parents
from airflow_hivex.core.catalog.database_rows import finding, matching, select_database
from airflow_hivex.core.catalog.folders import (
    HOLDING_DATABASE,
    LOCATIONS,
    OWNERS,
    beginning,
    beside,
    hold_folders,
    overlaps,
)
from airflow_hivex.core.catalog.rows import (
    STORAGE_COLUMNS,
    storage_to_values,
    stored_time,
    table_from_row,
    table_to_values,
)
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    NoSuchDatabaseError,
    NoSuchTableError,
    PrimaryChangedError,
)
from airflow_hivex.core.model.identifiers import check_name, normalise
from airflow_hivex.core.model.objects import (
    TEMPORARY_DATABASE,
    TEMPORARY_NAMESPACE,
    ClusterStorageDescriptor,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.table_properties import check_spelling
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import Prepared, Rows, later, together
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    compaction_queue,
    completed_compactions,
    databases,
    partitions,
    quotas,
    statistics,
    storage_descriptors,
    tables,
    txn_to_write_id,
    txns,
)
from airflow_hivex.core.store.upserts import insert_into
from airflow_hivex.core.transactions import commit_record, table_names
from airflow_hivex.core.transactions.locks.requests import note_locks_of

SELECT_TABLES = (
    select(
        tables,
        databases.c.name.label("database_name"),
        *STORAGE_COLUMNS,
    )
    .join(databases, tables.c.database_id == databases.c.id)
    .join(storage_descriptors, tables.c.storage_descriptor_id == storage_descriptors.c.id)
    .where(~tables.c.dropped)
)
_COPIES = cluster_storage_descriptors.c
SELECT_SECONDARIES = (
    select(_COPIES.table_id, _COPIES.cluster, _COPIES.location, _COPIES.valid_write_ids)
    .where(_COPIES.partition_id.is_(None))
    .order_by(_COPIES.cluster)
)

_HAS_QUOTA = select(quotas.c.id).where(
    quotas.c.database_id == tables.c.database_id, quotas.c.cluster == bindparam("cluster", type_=String)
)
_HOLD_WRITABLE = Prepared(
    select(tables.c.dropped, tables.c.primary_cluster, _HAS_QUOTA.exists().label("has_quota"))
    .where(tables.c.id == bindparam("table_id", type_=BigInteger))
    .with_for_update(read=True, of=tables)
)
_INSERT_STORAGE = insert(storage_descriptors).returning(storage_descriptors.c.id)


def select_table(connection: Connection, database: str, name: str) -> StoredTable:
    """Return a table with its secondary copies. Two round trips.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: the table does not exist.
    """
    found = select_tables(connection, [(normalise(database), normalise(name))])
    if not found:
        select_database(connection, database)
        raise NoSuchTableError(normalise(database), normalise(name))
    return found[0]


def select_table_for_change(connection: Connection, database: str, name: str) -> StoredTable:
    """Return a table, and lock it until the caller's database transaction ends. Three round trips.

    Until then no other transaction changes or drops the table. In a database transaction, call this function before
    other functions that lock the table; otherwise two transactions can wait for each other.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: the table does not exist.
    """
    of_name = (databases.c.name == normalise(database), tables.c.name == normalise(name), ~tables.c.dropped)
    named = select(tables.c.id).join(databases, databases.c.id == tables.c.database_id).where(*of_name)
    # A statement of its own: the next statement sees the commits for which this one has waited.
    later(connection, named.with_for_update(key_share=True, of=tables))
    return select_table(connection, database, name)


def lock_for_change(connection: Connection, table_ids: Collection[int]) -> frozenset[int]:
    """Lock tables until the caller's database transaction ends, and return the ids of the tables that exist.

    Tables are locked in the order of ids; see :func:`select_table_for_change`. One round trip per batch.
    """
    held = (connection.execute(query).scalars() for query in _locking(table_ids))
    return frozenset(chain(*held))


def hold_for_change(connection: Connection, table_ids: Collection[int]) -> None:
    """Lock tables as :func:`lock_for_change` does, together with the next statement."""
    for query in _locking(table_ids):
        later(connection, query)


def hold_existing(connection: Connection, table: StoredTable) -> None:
    """Lock a table as :func:`lock_for_change` does, together with the next statement.

    Raises, perhaps with the next statement:
        NoSuchTableError: the table was dropped.
    """

    def check(rows: Rows) -> None:
        if not rows:
            raise NoSuchTableError(table.database, table.name)

    (query,) = _locking([table.id])
    later(connection, query, check=check)


def _locking(table_ids: Collection[int]) -> Iterator[Select[Any]]:
    for batch in batches(sorted(table_ids)):
        existing = select(tables.c.id).where(tables.c.id.in_(batch), ~tables.c.dropped).order_by(tables.c.id)
        yield existing.with_for_update(key_share=True)


def lock_as_named(connection: Connection, table: StoredTable) -> None:
    """Lock a table until the caller's database transaction ends, and check that it still has its name.

    On PostgreSQL the lock is taken with the caller's next query, which then raises the error.

    Raises:
        NoSuchTableError: the table was dropped, or has another name.
    """
    found = (
        tables.c.id == table.id,
        databases.c.name == table.database,
        tables.c.name == table.name,
        ~tables.c.dropped,
    )
    named = select(tables.c.id).join(databases, databases.c.id == tables.c.database_id).where(*found)

    def check(rows: Rows) -> None:
        if not rows:
            raise NoSuchTableError(table.database, table.name)

    later(connection, named.with_for_update(key_share=True, of=tables), check=check)


def select_tables(connection: Connection, names: Iterable[tuple[str, str]]) -> list[StoredTable]:
    """Return the tables that exist among (database, name) pairs. One round trip for any number."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for database, name in names:
        by_database[database].append(name)
    return _select_where(
        connection,
        [and_(databases.c.name == database, tables.c.name.in_(wanted)) for database, wanted in by_database.items()],
    )


def select_tables_by_id(connection: Connection, ids: Collection[int]) -> list[StoredTable]:
    """Return the tables with the given ids, without dropped tables. One round trip."""
    return _select_where(connection, [tables.c.id.in_(batch) for batch in batches(sorted(ids))])


def _select_where(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> list[StoredTable]:
    if not conditions:
        return []
    answers = together(connection, *chain(*map(queries_where, conditions)))
    return tables_from_rows(chain(*answers[::2]), chain(*answers[1::2]))


def queries_where(condition: ColumnElement[bool]) -> tuple[Select[Any], Select[Any]]:
    """Return two queries: for the tables that satisfy a condition, and for their secondary copies.

    :func:`tables_from_rows` reads the rows.
    """
    ids = (
        select(tables.c.id).join(databases, databases.c.id == tables.c.database_id).where(~tables.c.dropped, condition)
    )
    return SELECT_TABLES.where(condition), SELECT_SECONDARIES.where(_COPIES.table_id.in_(ids))


def tables_from_rows(rows: Iterable[Any], secondary_rows: Iterable[Any]) -> list[StoredTable]:
    """Return the tables from rows of :data:`SELECT_TABLES` and :data:`SELECT_SECONDARIES`."""
    secondaries: dict[int, list[ClusterStorageDescriptor]] = defaultdict(list)
    for copy in secondary_rows:
        secondaries[copy.table_id].append(ClusterStorageDescriptor(copy.cluster, copy.location, copy.valid_write_ids))
    return [table_from_row(row, secondaries[row.id]) for row in rows]


def select_table_names(
    connection: Connection, database: str, pattern: str | None, type: TableType | None = None
) -> list[str]:
    """Return the sorted names of the tables in a database that match a pattern of SHOW and, if given, a type."""
    holders, rows = together(connection, finding(database), naming(database, type))
    if not holders:
        raise NoSuchDatabaseError(normalise(database))
    return matching([row.name for row in rows], pattern)


def naming(database: str, type: TableType | None = None) -> Select[Any]:
    """Return the query for the names of the tables in a database and, if given, of a type."""
    named = select(tables.c.name).join(databases, databases.c.id == tables.c.database_id)
    query = named.where(databases.c.name == normalise(database), ~tables.c.dropped)
    return query if type is None else query.where(tables.c.type == type.value)


def has_secondaries(connection: Connection, table: StoredTable) -> bool:
    """Return whether the table or one of its partitions has a registered copy on another cluster."""
    copies = cluster_storage_descriptors.c
    query = select(copies.cluster).where(copies.table_id == table.id).limit(1)
    return connection.execute(query).first() is not None


def insert_table(
    connection: Connection,
    table: Table,
    now_ms: int,
    *,
    hidden: bool = False,
    first_write_id: int = 1,
    database: Any = None,
) -> StoredTable:
    """Add a table, and return it as stored.

    If its location is empty, the table gets a folder below the database's folder that no other table has. A ``hidden``
    table is invisible until :func:`reveal`. If the writer is killed before :func:`reveal`, the row stays, and no other
    table gets the folder. ``first_write_id`` is the lowest write id that the table is allowed to begin with.
    ``database`` is the row of the table's database, if the caller has read the row under the lock of the statement.

    Raises:
        AlreadyExistsError: a table of that name exists in the database.
        NoSuchDatabaseError: the database does not exist.
        InvalidObjectError: the files would lie among the files of another table.
    """
    name = check_name("table", table.name)
    check_spelling("table", table.full_name, table.parameters)
    primary = table.storage.primary
    location = primary.location
    if not table.is_view:
        hold_folders(connection, chosen=bool(location))
    storing = _INSERT_STORAGE.values(storage_to_values(table.storage))
    stored_as: list[Any] = []
    if database is None:
        holders, stored_as = together(connection, finding(table.database), storing)
        if not holders:
            raise NoSuchDatabaseError(normalise(table.database))
        database = holders[0]
    _check_database(database.name, table)
    if not location and not table.is_view:
        wanted = f"{database.location}/{name}"
        others = LOCATIONS.params(cluster=primary.cluster, **beginning(wanted))
        *new, taken = together(connection, *([] if stored_as else [storing]), others)
        stored_as += chain(*new)
        location = _apart_from(wanted, {row[0] for row in taken})
    (storage,) = stored_as or together(connection, storing)[0]
    values = table_to_values(table) | {"name": name, "location": location}
    created_ms = now_ms if table.created_at is None else stored_time(table.full_name, table.created_at)
    row = {"database_id": database.id, "storage_descriptor_id": storage.id, "created_ms": created_ms, **values}
    added = insert_into(connection, tables).on_conflict_do_nothing().returning(tables.c.id)
    table_id = connection.execute(added, {**row, "dropped": hidden}).scalar_one_or_none()
    if table_id is None:
        raise AlreadyExistsError("table", f"{database.name}.{name}")
    # Checked last: this transaction has the name, so the transaction that dropped the earlier table has committed.
    began = table_names.beginning_after((database.name, name), table_id, first_write_id)
    storage = replace(table.storage, primary=replace(primary, location=location))
    stored = StoredTable.of(replace(table, database=database.name, name=name, storage=storage), table_id)
    queries = [] if table.is_view else _queries_apart(stored)
    (of_table,), *found, rows, secondaries = together(
        connection, began, *queries, *queries_where(tables.c.id == table_id)
    )
    if found:
        _check_apart(stored, *found)
    first = int(of_table.next)
    if table.is_transactional:
        commit_record.record_creation(connection, table_id, first - 1, table.owner or "", now_ms)
        commit_record.note_operation(connection, table_id, commit_record.CREATION)
        note_locks_of(connection, table_id, database.name, name)
    check_parents(connection, database.name, stored)
    if not table.is_view and primary.location:
        check_folder(connection, stored.namespace, primary.cluster, location, "table", stored.full_name, table_id)
    return stored if hidden else tables_from_rows(rows, secondaries)[0]


def reveal(connection: Connection, table: StoredTable) -> None:
    """Make a hidden table visible.

    Raises, perhaps with the next statement:
        AlreadyExistsError: another table has taken the name meanwhile.
    """
    others = tables.alias("others")
    is_taken = select(others.c.id).where(
        others.c.database_id == tables.c.database_id, others.c.name == tables.c.name, ~others.c.dropped
    )
    revealed = update(tables).where(tables.c.id == table.id, ~is_taken.exists()).values(dropped=False)

    def check(rows: Rows) -> None:
        if not rows:
            raise AlreadyExistsError("table", table.full_name)

    later(connection, revealed.returning(tables.c.id), check=check)


def check_writable(
    connection: Connection, written: Sequence[tuple[StoredTable, str]], also: Sequence[Select[Any]] = ()
) -> tuple[list[bool], list[list[Any]]]:
    """Check that tables can be written on clusters, and return whether each table's namespace has a quota there.

    A table can be written if it is not dropped, and if the cluster is its primary cluster. Both facts stay true until
    the caller's database transaction ends. The rows of the queries ``also`` are returned, too. One round trip.

    Raises:
        NoSuchTableError: the table was dropped.
        PrimaryChangedError: another cluster is the table's primary now.
    """
    holding = [_HOLD_WRITABLE(table_id=table.id, cluster=on) for table, on in written]
    answers = together(connection, *holding, *also)
    have_quotas = []
    for (table, cluster), found in zip(written, answers[: len(written)], strict=True):
        row = next(iter(found), None)
        if row is None or row.dropped:
            raise NoSuchTableError(table.database, table.name)
        if row.primary_cluster != cluster:
            raise PrimaryChangedError(table.full_name, cluster, row.primary_cluster)
        have_quotas.append(bool(row.has_quota))
    return have_quotas, answers[len(written) :]


def free_location(connection: Connection, cluster: str, wanted: str) -> str:
    """Return the location ``wanted``. If a table or copy has a folder there, ``.v`` and a number are appended.

    Folders of dropped tables also count. A new table must never share a folder with files of a dropped table or of a
    killed writer, since old and new files could have equal write ids. Source: Hive's soft delete (table name + ``.v`` +
    number).
    """
    taken = set(connection.execute(LOCATIONS, {"cluster": cluster, **beginning(wanted)}).scalars())
    return _apart_from(wanted, taken)


def _apart_from(wanted: str, taken: Collection[str]) -> str:
    location, number = wanted, 1
    while any(other == location or other.startswith(f"{location}/") for other in taken):
        number += 1
        location = f"{wanted}.v{number:07d}"
    return location


def check_apart(connection: Connection, table: StoredTable) -> None:
    """Refuse a table whose folder overlaps the folder of another table, if at least one of the two is managed.

    DROP TABLE deletes the whole folder of a managed table. Two tables in one folder could also have equal write ids.

    Raises:
        InvalidObjectError: the location overlaps the folder of another table.
    """
    _check_apart(table, *together(connection, *_queries_apart(table)))


def _queries_apart(table: StoredTable) -> list[Any]:
    """Return the queries with which :func:`_check_apart` finds other tables and databases in the table's folder."""
    cluster, location = table.storage.primary.cluster, table.storage.primary.location
    others = OWNERS[table.is_external].params(cluster=cluster, but_id=table.id, **beside(location))
    within = HOLDING_DATABASE.params(location=location, **beginning(f"{location}/"))
    return [others] if table.is_external else [others, within]


def _check_apart(table: StoredTable, others: Sequence[Any], holders: Sequence[Any] = ()) -> None:
    location = table.storage.primary.location
    if others:
        reason = f"location {location} is not apart from that of {_shown_owner(others[0])}"
        raise InvalidObjectError("table", table.full_name, f"{reason}; give it another one")
    if holders:
        reason = f"location {location} holds the tables of database {holders[0][0]}"
        raise InvalidObjectError("table", table.full_name, f"{reason}; give it another one")


def check_partition_apart(connection: Connection, table: StoredTable, partition: str, location: str) -> None:
    """Refuse a location for a partition of an external table if it overlaps the folder of a managed table.

    DROP TABLE of the managed table would delete the partition's files. A location that overlaps a folder of another
    namespace is refused, too, if at least one of the two namespaces is closed.

    Raises:
        InvalidObjectError: the location overlaps the folder of a managed table, or belongs to another namespace.
    """
    is_chosen = not location.startswith(f"{table.storage.primary.location}/")
    if is_chosen:
        hold_folders(connection)
    other = _owner(connection, table.storage.primary.cluster, location, table.id, only_managed=True)
    if other is not None:
        reason = f"location {location} is not apart from that of {other}"
        raise InvalidObjectError("partition", f"{table.full_name} {partition}", f"{reason}; give it another one")
    if is_chosen:
        name = f"{table.full_name} {partition}"
        check_folder(connection, table.namespace, table.storage.primary.cluster, location, "partition", name, table.id)


def _owner(connection: Connection, cluster: str, location: str, but_id: int, *, only_managed: bool) -> str | None:
    """Return the kind, name and location of a table whose folder overlaps a location on a cluster, or None.

    The folder can also belong to a table's copy, or to a partition of an external table. The table ``but_id`` is left
    out.
    """
    values = {"cluster": cluster, "but_id": but_id, **beside(location)}
    found = connection.execute(OWNERS[only_managed], values).one_or_none()
    return None if found is None else _shown_owner(found)


def _shown_owner(row: Any) -> str:
    return f"{row[3]} {row[0]}.{row[1]}, {row[2]}"


def sharer_of(connection: Connection, table: StoredTable, location: str, *, is_partition: bool) -> str | None:
    """Return a description of an object whose folder overlaps the folder of a dropped table, or None.

    ``is_partition`` is true if ``location`` belongs to a partition that was dropped from the table.
    """
    other = _owner(connection, table.storage.primary.cluster, location, table.id, only_managed=False)
    if other is not None or not is_partition:
        return other
    if f"{table.storage.primary.location}/".startswith(f"{location}/"):
        return f"table {table.full_name}"
    p = partitions.c
    of_others = select(p.name).where(p.table_id == table.id, ~p.dropped, overlaps(p.location)).limit(1)
    name = connection.execute(of_others, beside(location)).scalar_one_or_none()
    return None if name is None else f"partition {name} of table {table.full_name}"


def owner_at(connection: Connection, cluster: str, location: str, *, only_managed: bool = False) -> str | None:
    """Return the kind, name and location of a table whose folder overlaps a location on a cluster, or None."""
    return _owner(connection, cluster, location, 0, only_managed=only_managed)


def raise_versions(connection: Connection, table_ids: Collection[int]) -> None:
    """Increase the versions of tables, so that caches notice a change. One round trip per batch.

    Call this function for each change without a write id: of a table, its partitions, directories or copies. The caller
    has locked the rows of the tables, as :func:`select_table_for_change` does.
    """
    for batch in batches(sorted(table_ids)):
        later(connection, update(tables).where(tables.c.id.in_(batch)).values(version=tables.c.version + 1))


def update_table(connection: Connection, stored: StoredTable, table: Table) -> None:
    """Store a changed table in place of ``stored``, under the same id.

    Raises:
        NoSuchDatabaseError: the new database does not exist.
        AlreadyExistsError: another table has the new name.
    """
    values = table_to_values(table) | {"name": check_name("table", table.name)}
    check_spelling("table", stored.full_name, table.parameters, stored.parameters)
    database = stored.database
    if normalise(table.database) != stored.database:
        row = select_database(connection, table.database)
        database = row.name
        _check_database(database, table)
        values["database_id"] = row.id
    changed = update(tables).where(tables.c.id == stored.id).values(**values, version=tables.c.version + 1)
    if (database, values["name"]) == (stored.database, stored.name):
        later(connection, changed)
    else:
        try:
            with connection.begin_nested():
                connection.execute(changed)
        except IntegrityError as error:
            raise AlreadyExistsError("table", f"{database}.{table.name}", "choose another name") from error
    check_parents(connection, database, table)
    if database != stored.database:
        _check_folders(connection, replace(stored, database=database, name=values["name"]))
    if (database, values["name"]) != (stored.database, stored.name):
        named = {"database": database, "table": values["name"]}
        for child in (compaction_queue, completed_compactions):
            later(connection, update(child).where(child.c.table_id == stored.id).values(**named))
        if stored.is_transactional:
            note_locks_of(connection, stored.id, database, values["name"])
    if table.storage != stored.storage:
        later(
            connection,
            update(storage_descriptors)
            .where(
                storage_descriptors.c.id
                == select(tables.c.storage_descriptor_id).where(tables.c.id == stored.id).scalar_subquery()
            )
            .values(**storage_to_values(table.storage)),
        )


def _check_database(database: str, table: Table) -> None:
    """Refuse a permanent table in the database of temporary tables, because the housekeeper drops unused tables there.

    Raises:
        InvalidObjectError: the table is permanent.
    """
    if database == TEMPORARY_DATABASE and TEMPORARY_NAMESPACE not in table.parameters:
        reason = f"database {database} has the temporary tables of sessions only; choose another database"
        raise InvalidObjectError("table", f"{database}.{table.name}", reason)


def names_with_parameter(connection: Connection, parameter: str) -> list[tuple[str, str]]:
    """Return (database, name) of each table that has a parameter of this name. One round trip."""
    query = select(databases.c.name, tables.c.name).where(
        tables.c.database_id == databases.c.id,
        ~tables.c.dropped,
        cast(tables.c.parameters, Text).contains(f'"{parameter}"', autoescape=True),
    )
    return [(row[0], row[1]) for row in connection.execute(query.order_by(tables.c.id))]


def _check_folders(connection: Connection, table: StoredTable) -> None:
    """Refuse to rename an external table to another namespace if one of its folders belongs to a third namespace.

    Raises:
        InvalidObjectError: a folder belongs to a third namespace, and the third or the new namespace is closed.
    """
    if not table.is_external:
        return
    cluster, root = table.storage.primary.cluster, table.storage.primary.location
    p = partitions.c
    elsewhere = select(p.location).where(p.table_id == table.id, ~p.dropped, p.location != "").distinct()
    places = [each for each in connection.execute(elsewhere).scalars() if not each.startswith(f"{root}/")]
    for location in (root, *places):
        check_folder(connection, table.namespace, cluster, location, "table", table.full_name, table.id)


def update_location(connection: Connection, table: StoredTable, location: str) -> None:
    """Store a new location of a table on its primary cluster. The caller has locked the table for a change.

    Raises:
        InvalidObjectError: the folder overlaps the folder of another table, or belongs to another namespace.
    """
    hold_folders(connection)
    later(connection, update(tables).where(tables.c.id == table.id).values(location=location))
    primary = replace(table.storage.primary, location=location)
    check_apart(connection, replace(table, storage=replace(table.storage, primary=primary)))
    check_folder(connection, table.namespace, primary.cluster, location, "table", table.full_name, table.id)


def mark_dropped(connection: Connection, table_ids: Sequence[int], now_ms: int) -> None:
    """Mark tables as dropped. Their rows stay until their files are deleted.

    The caller has locked the tables for a change. The column ``created_ms`` of a dropped table has the time of the
    drop.
    """
    later(connection, update(tables).where(tables.c.id.in_(table_ids)).values(dropped=True, created_ms=now_ms))
    copies = cluster_storage_descriptors
    later(connection, delete(copies).where(copies.c.table_id.in_(table_ids)))
    later(connection, delete(statistics).where(statistics.c.table_id.in_(table_ids)))


# Dropped or hidden managed tables, whose files may not be deleted yet.
#
# A table that is dropped or replaced leaves such a row, as does a CREATE TABLE AS SELECT that never finished. While
# the row is there, no other table gets its folder.


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A dropped or hidden table, with its folder on its primary cluster.

    ``dropped_ms`` is the time of the drop. For a hidden table, which was never visible, ``dropped_ms`` is the time of
    the creation.
    """

    id: int
    name: str
    cluster: str
    location: str
    dropped_ms: int


def read_dropped(connection: Connection, after: int, limit: int) -> list[DroppedTable]:
    """Return up to ``limit`` dropped or hidden managed tables with ids above ``after``.

    Tables that an open transaction is writing are left out.
    """
    t = tables.c
    at_work = (
        select(txn_to_write_id.c.txn_id)
        .join(txns, txns.c.id == txn_to_write_id.c.txn_id)
        .where(txn_to_write_id.c.table_id == t.id, txns.c.state == TxnState.OPEN.value)
    )
    query = (
        select(t.id, t.name, t.primary_cluster, t.location, t.created_ms)
        .where(t.dropped, t.type == TableType.MANAGED_TABLE.value, t.location != "", t.id > after, ~at_work.exists())
        .order_by(t.id)
        .limit(limit)
    )
    return [DroppedTable(*row) for row in connection.execute(query)]
