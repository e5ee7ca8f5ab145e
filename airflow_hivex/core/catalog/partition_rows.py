"""The rows of existing and dropped partitions. Functions here take part in the caller's database transaction."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.folders import beginning
from airflow_hivex.core.catalog.pruning import FoundPartition, check_stored_alike
from airflow_hivex.core.catalog.rows import STORAGE_COLUMNS, storage_to_values, stored_time
from airflow_hivex.core.errors import AlreadyExistsError, InvalidObjectError, NoSuchPartitionError
from airflow_hivex.core.model.column_types import ColumnType, Primitive, parse_type
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, Partition, StoredTable, Table
from airflow_hivex.core.model.partitions import (
    DEFAULT_PARTITION,
    NUL_IN_VALUE,
    check_folder_name,
    check_partition_name,
    partition_name,
    partition_values,
)
from airflow_hivex.core.model.predicates import Value, typed
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    compaction_queue,
    completed_compactions,
    completed_txn_components,
    directories,
    directory_copies,
    partition_key_values,
    partitions,
    statistics,
    storage_descriptors,
)
from airflow_hivex.core.store.schema import tables as all_tables
from airflow_hivex.core.store.upserts import insert_into

_FLOAT = parse_type("float")
_PARTITION_QUERY = select(partitions, *STORAGE_COLUMNS).join(storage_descriptors, isouter=True)


def stored_values(table: str, keys: Sequence[Column], values: Sequence[Value]) -> tuple[str, ...]:
    """Return partition values as the texts that the database stores. Equal values have the same text.

    For example, ``7`` and ``'07'`` are the same value of an int key. NULL and the empty string are stored as the name
    of Hive's default partition.

    Raises:
        InvalidObjectError: a value is not of its key's type, or the number of values is wrong.
    """
    if len(keys) != len(values):
        raise InvalidObjectError(
            "partition", str(tuple(values)), f"{table} has {len(keys)} partition keys, {len(values)} values were given"
        )
    return tuple(_stored(table, key, value) for key, value in zip(keys, values, strict=True))


def _stored(table: str, key: Column, value: Value) -> str:
    if value is None or value in ("", DEFAULT_PARTITION):
        return DEFAULT_PARTITION
    text, of = text_of(value), key.parsed_type
    if "\0" in text:
        raise InvalidObjectError("partition", ascii(f"{key.name}={text[:100]}"), NUL_IN_VALUE)
    try:
        checked = _fitted(text, of) if isinstance(value, str) else typed(text, of)
    except (ValueError, ArithmeticError) as error:
        raise InvalidObjectError(
            "partition", f"{key.name}={text}", f"the value is not of type {key.type}, the type of that key of {table}"
        ) from error
    return text_of(checked, single=of == _FLOAT)


def _fitted(text: str, type: ColumnType) -> Value:
    """Return a text as a value of its key's type. A CHAR is padded; from too long a text only spaces are cut."""
    if not isinstance(type, Primitive) or type.name not in ("char", "varchar"):
        return typed(text, type)
    (length,) = type.parameters
    if len(text.rstrip(" ")) > length:
        raise ValueError(f"the text is longer than {length} characters")
    return text[:length].ljust(length if type.name == "char" else 0)


def text_of(value: Value, *, single: bool = False) -> str:
    """Return the text of a value as in Spark's CAST. An INSERT uses this text in the names of dynamic partitions.

    ``single`` says that a floating-point number has 32 bits.
    """
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            text = value.isoformat(sep=" ")
            return text.rstrip("0") if "." in text else text
        case date():
            return value.isoformat()
        case float():
            return _java_text(value, single=single)
        case Decimal():
            # Without an exponent.
            return format(value, "f")
    return str(value)


def _java_text(number: float, *, single: bool) -> str:
    """Return the number as Java's ``toString`` writes it: ``1.0E10`` for ten to the tenth."""
    if not math.isfinite(number):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")
    shortest = repr(number)
    if single:
        candidates = (f"{number:.{digits}g}" for digits in range(1, 10))
        shortest = next((text for text in candidates if _as_single(float(text)) == _as_single(number)), shortest)
    exact = Decimal(shortest)
    if not exact or Decimal("1e-3") <= abs(exact) < Decimal("1e7"):
        text = format(exact, "f")
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = f"{exact.normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


def _as_single(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def insert_partitions(
    connection: Connection,
    table: Table,
    wanted: Mapping[str, str],
    now_ms: int,
    given: Mapping[str, Partition] | None = None,
) -> dict[str, int]:
    """Add the partitions that do not exist, and return a dict from name to id of the added partitions.

    ``wanted`` is a dict from name to location, which is relative to the cluster's file system; "" is the default
    location below the table's folder. ``given`` is a dict from name to partition, for partitions with parameters, times
    or a storage descriptor. Two queries per batch of partitions, and one more if partitions have their own storage
    descriptors.
    """
    given = given or {}
    storage_ids = _insert_storage_descriptors(connection, given)
    rows = []
    for name, location in wanted.items():
        if location in ("", f"{table.storage.primary.location}/{name}"):
            check_folder_name(name)
        partition = given.get(name)
        created_at = None if partition is None else stored_time(name, partition.created_at)
        rows.append(
            {
                "table_id": table.id,
                "name": check_partition_name(name),
                "location": location or f"{table.storage.primary.location}/{name}",
                "parameters": {} if partition is None else dict(partition.parameters),
                "created_ms": now_ms if created_at is None else created_at,
                "storage_descriptor_id": storage_ids.get(name),
                "last_accessed_ms": None if partition is None else stored_time(name, partition.last_accessed_at),
            }
        )
    # A concurrent writer may add the same partition: the first writer adds it.
    added_only = insert_into(connection, partitions).on_conflict_do_nothing()
    statement = added_only.returning(partitions.c.id, partitions.c.name)
    added: dict[str, int] = {}
    for batch in batches(rows, 1000):
        added |= {row.name: row.id for row in connection.execute(statement, batch)}
    delete_storage_descriptors(connection, [each for name, each in storage_ids.items() if name not in added])
    values = [
        {"partition_id": partition_id, "position": position, "table_id": table.id, "value": value}
        for name, partition_id in added.items()
        for position, value in enumerate(partition_values(name))
    ]
    for value_batch in batches(values):
        later(connection, insert(partition_key_values), value_batch)
    return added


def _insert_storage_descriptors(connection: Connection, given: Mapping[str, Partition]) -> dict[str, int]:
    """Store the partitions' own storage descriptors, and return a dict from partition name to descriptor id."""
    own = {name: partition.storage for name, partition in given.items() if partition.storage is not None}
    rows = [storage_to_values(storage) for storage in own.values()]
    statement = insert(storage_descriptors).returning(storage_descriptors.c.id, sort_by_parameter_order=True)
    ids = [each for batch in batches(rows, 1000) for each in connection.execute(statement, batch).scalars()]
    return dict(zip(own, ids, strict=True))


def delete_storage_descriptors(connection: Connection, ids: Sequence[int]) -> None:
    """Remove storage descriptors. The caller knows that no table or partition uses them any more."""
    for batch in batches(ids):
        later(connection, delete(storage_descriptors).where(storage_descriptors.c.id.in_(batch)))


def update_partitions(connection: Connection, changed: Mapping[int, Partition]) -> None:
    """Store the parameters, storage descriptors and access times of partitions. Their locations stay.

    ``changed`` is a dict from partition id to partition.
    """
    rows = {
        row.id: row.storage_descriptor_id
        for batch in batches(sorted(changed))
        for row in connection.execute(
            select(partitions.c.id, partitions.c.storage_descriptor_id).where(partitions.c.id.in_(batch))
        )
    }
    added = {str(each): changed[each] for each, storage_id in rows.items() if storage_id is None}
    storage_ids = _insert_storage_descriptors(connection, added)
    needless = []
    for partition_id, partition in changed.items():
        storage_id = rows[partition_id]
        if storage_id is None:
            storage_id = storage_ids.get(str(partition_id))
        elif partition.storage is None:
            needless.append(storage_id)
            storage_id = None
        else:
            own = update(storage_descriptors).where(storage_descriptors.c.id == storage_id)
            later(connection, own.values(**storage_to_values(partition.storage)))
        values = {
            "parameters": dict(partition.parameters),
            "last_accessed_ms": stored_time(partition.name, partition.last_accessed_at),
            "storage_descriptor_id": storage_id,
        }
        later(connection, update(partitions).where(partitions.c.id == partition_id).values(**values))
    delete_storage_descriptors(connection, needless)


def partition_ids(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, int]:
    """Return a dict from name to id for the partitions that exist among ``names``."""
    return {row.name: row.id for query in finding_ids(table, names) for row in connection.execute(query)}


def finding_ids(table: Table, names: Sequence[str]) -> list[Select[Any]]:
    """Return the queries for the names and ids of the partitions that exist among ``names``."""
    existing = select(partitions.c.name, partitions.c.id).where(
        partitions.c.table_id == table.id, ~partitions.c.dropped
    )
    return [existing.where(partitions.c.name.in_(batch)) for batch in batches(names)]


def new_partition_names(table: Table, given: Iterable[Partition], existing: Iterable[str], skip: bool) -> list[str]:
    """Return the names of the ``given`` partitions that are not among the ``existing`` ones.

    Raises:
        AlreadyExistsError: a partition exists, or is given twice, and ``skip`` is false.
        InvalidObjectError: a partition is given twice, in two folders.
    """
    known = set(existing)
    folders: dict[str, str] = {}
    names = []
    for partition in given:
        name = name_of(table, partition.values)
        folder = partition.location or name
        if folders.setdefault(name, folder) != folder:
            raise two_folders(table, name, folders[name], folder)
        if name in known:
            if not skip:
                raise AlreadyExistsError("partition", f"{table.full_name} {name}")
            continue
        known.add(name)
        names.append(name)
    return names


def two_folders(table: Table, name: str, one: str, other: str) -> InvalidObjectError:
    """Return the error for partition values that are found in two folders."""
    reason = f"folders {one} and {other} both have its values; move the files of one into the other and delete it"
    return InvalidObjectError("partition", f"{table.full_name} {name}", reason)


def name_of(table: Table, values: Sequence[Value]) -> str:
    """Return the name of the table's partition with these values.

    Raises:
        InvalidObjectError: the table cannot have such a partition.
    """
    texts = stored_values(table.full_name, table.partition_keys, values)
    return check_partition_name(partition_name([key.name for key in table.partition_keys], texts))


def spelled_name(table: Table, partition: str) -> str:
    """Return a partition's name with the keys in the table's order and the values as stored.

    In ``partition`` the keys can have any order and case.

    Raises:
        InvalidObjectError: the table cannot have such a partition.
    """
    if not table.is_partitioned:
        raise InvalidObjectError("partition", partition, f"table {table.full_name} has no partition keys")
    names = [part.partition("=")[0].lower() for part in partition.split("/")]
    given = dict(zip(names, partition_values(partition), strict=True))
    keys = [key.name.lower() for key in table.partition_keys]
    if sorted(names) != sorted(keys):
        raise InvalidObjectError(
            "partition", partition, f"the partition keys of {table.full_name} are {', '.join(keys)}"
        )
    values = [None if given[key] == DEFAULT_PARTITION else given[key] for key in keys]
    return check_partition_name(partition_name(keys, stored_values(table.full_name, table.partition_keys, values)))


def select_partition(connection: Connection, table: Table, name: str) -> Row[Any]:
    """Return the row of one partition.

    Raises:
        NoSuchPartitionError: the table has no partition of that name.
    """
    row = connection.execute(
        _PARTITION_QUERY.where(partitions.c.table_id == table.id, ~partitions.c.dropped, partitions.c.name == name)
    ).one_or_none()
    if row is None:
        raise NoSuchPartitionError(table.database, table.name, name)
    return row


def select_partitions(connection: Connection, ids: Sequence[int]) -> list[Row[Any]]:
    """Return the rows of the partitions with the given ids, sorted by id."""
    return [
        row
        for batch in batches(ids)
        for row in connection.execute(_PARTITION_QUERY.where(partitions.c.id.in_(batch)).order_by(partitions.c.id))
    ]


def secondaries_of(connection: Connection, ids: Sequence[int]) -> dict[int, list[ClusterStorageDescriptor]]:
    """Return a dict from partition id to the partition's secondary copies."""
    copies = cluster_storage_descriptors.c
    found: dict[int, list[ClusterStorageDescriptor]] = defaultdict(list)
    for batch in batches(ids):
        rows = connection.execute(
            select(copies.partition_id, copies.cluster, copies.location, copies.valid_write_ids)
            .where(copies.partition_id.in_(batch))
            .order_by(copies.cluster)
        )
        for row in rows:
            found[row.partition_id].append(ClusterStorageDescriptor(row.cluster, row.location, row.valid_write_ids))
    return found


def rename_partition(connection: Connection, table: Table, stored: Row[Any], name: str) -> bool:
    """Rename a partition, and return whether its files must be moved.

    In a managed table the location changes with the name.

    Raises:
        AlreadyExistsError: the table has a partition of that name.
    """
    old, new = f"/{stored.name}", f"/{name}"
    check_partition_name(name)
    # The files of an external table stay where their owner has put them.
    moves = not table.is_external and stored.location.endswith(old)
    if moves:
        check_folder_name(name)
    location = stored.location.removesuffix(old) + new if moves else stored.location
    try:
        with connection.begin_nested():
            connection.execute(
                update(partitions).where(partitions.c.id == stored.id).values(name=name, location=location)
            )
    except IntegrityError as error:
        raise AlreadyExistsError("partition", f"{table.full_name} {name}", "choose another name") from error
    for child in (completed_txn_components, compaction_queue, completed_compactions):
        of_partition = (child.c.table_id == table.id, child.c.partition == stored.name)
        later(connection, update(child).where(*of_partition).values(partition=name))
    for position, value in enumerate(partition_values(name)):
        keys = partition_key_values.c
        later(
            connection,
            update(partition_key_values)
            .where(keys.partition_id == stored.id, keys.position == position)
            .values(value=value),
        )
    for copy in secondaries_of(connection, [stored.id])[stored.id] if moves else ():
        copies = cluster_storage_descriptors.c
        later(
            connection,
            update(cluster_storage_descriptors)
            .where(copies.partition_id == stored.id, copies.cluster == copy.cluster)
            .values(location=copy.location.removesuffix(old) + new),
        )
    return moves


def move_below(connection: Connection, table: Table, location: str, target: str) -> dict[int, str]:
    """Move all partitions in the folder ``location`` to the same relative paths in the folder ``target``.

    Only the stored locations change. Return a dict from id to name for the moved partitions.
    """
    below = partitions.c.location.like(beginning(f"{location}/")["beginning"], escape="/")
    of_table = (partitions.c.table_id == table.id) & below
    names = {row.id: row.name for row in connection.execute(select(partitions.c.id, partitions.c.name).where(of_table))}
    rest = func.substr(partitions.c.location, len(location) + 1)
    later(connection, update(partitions).where(of_table).values(location=literal(target).concat(rest)))
    return names


def update_location(connection: Connection, partition_id: int, location: str) -> None:
    """Store a new location of a partition on the primary cluster of its table."""
    later(connection, update(partitions).where(partitions.c.id == partition_id).values(location=location))


def locations_of(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, str]:
    """Return a dict from name to location for the partitions that exist among ``names``.

    Locations are relative to the primary cluster's file system.

    Raises:
        InvalidOperationError: a partition is stored in another format than the table, so an INSERT would mix formats.
    """
    p = partitions.c
    query = select(p.id, p.name, p.location, p.storage_descriptor_id).where(p.table_id == table.id, ~p.dropped)
    found = [
        FoundPartition(*row) for batch in batches(names) for row in connection.execute(query.where(p.name.in_(batch)))
    ]
    check_stored_alike(connection, table, found, "INSERT")
    return {each.name: each.location for each in found}


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A dropped partition whose files can still exist: its locations on clusters, and the names of its directories."""

    id: int
    name: str
    places: tuple[ClusterStorageDescriptor, ...]
    directories: tuple[str, ...]


def mark_dropped(connection: Connection, ids: Sequence[int], now_ms: int) -> None:
    """Mark partitions of managed tables as dropped. Their rows stay until the cleaner has deleted their files.

    Until then no partition can be renamed to the name of a dropped partition. The column ``created_ms`` of a dropped
    partition has the time of the drop.
    """
    copies = cluster_storage_descriptors
    for batch in batches(ids):
        dropped = update(partitions).where(partitions.c.id.in_(batch))
        later(connection, dropped.values(dropped=True, created_ms=now_ms))
        later(connection, copies.delete().where(copies.c.partition_id.in_(batch)))
        later(connection, statistics.delete().where(statistics.c.partition_id.in_(batch)))


def leave_former_name(connection: Connection, stored: Row[Any], now_ms: int) -> int:
    """Add a dropped partition with the former name and files of a renamed partition, and return its id.

    The cleaner deletes these files later.
    """
    partition_id = connection.execute(
        insert(partitions)
        .values(
            table_id=stored.table_id,
            name=stored.name,
            location=stored.location,
            parameters={},
            created_ms=now_ms,
            dropped=True,
        )
        .returning(partitions.c.id)
    ).scalar_one()
    d = directories.c
    clusters: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    of_partition = select(directory_copies).join(directories, d.id == directory_copies.c.directory_id)
    for copy in connection.execute(of_partition.where(d.partition_id == stored.id)).mappings():
        clusters[copy["directory_id"]].append(dict(copy))
    for row in connection.execute(select(directories).where(d.partition_id == stored.id)).mappings().all():
        values = {key: value for key, value in row.items() if key != "id"} | {"partition_id": partition_id}
        number = connection.execute(insert(directories).values(values).returning(d.id)).scalar_one()
        if clusters[row["id"]]:
            copied = [{**each, "directory_id": number} for each in clusters[row["id"]]]
            later(connection, insert(directory_copies), copied)
    return int(partition_id)


def has_files(connection: Connection, table_id: int, name: str) -> bool:
    """Return whether files of a dropped partition of this name can still exist."""
    p = partitions.c
    query = select(p.id).where(p.table_id == table_id, p.dropped, p.name == name).limit(1)
    return connection.execute(query).one_or_none() is not None


def in_sight(connection: Connection, table_id: int, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return a dict from partition name to the names of its directories. One round trip per batch.

    Partitions without registered directories are missing.
    """
    p, d = partitions.c, directories.c
    found: defaultdict[str, set[str]] = defaultdict(set)
    for batch in batches(names):
        query = select(p.name, d.name).join(directories, d.partition_id == p.id)
        rows = connection.execute(query.where(p.table_id == table_id, ~p.dropped, p.name.in_(batch)))
        for partition, directory in rows:
            found[partition].add(directory)
    return {name: frozenset(each) for name, each in found.items()}


def dropped_before(
    connection: Connection, before_ms: int, after: int, limit: int
) -> list[tuple[StoredTable, DroppedPartition]]:
    """Return partitions that were dropped before a time, with their tables, which still exist.

    The result has up to ``limit`` partitions, whose ids are above ``after``.
    """
    p, t, d = partitions.c, all_tables.c, directories.c
    query = (
        select(p.id, p.table_id, p.name, p.location)
        .join(all_tables, t.id == p.table_id)
        .where(p.dropped, ~t.dropped, p.created_ms < before_ms, p.id > after)
        .order_by(p.id)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    by_id = {each.id: each for each in table_rows.select_tables_by_id(connection, {row.table_id for row in rows})}
    names: defaultdict[int, set[str]] = defaultdict(set)
    clusters: defaultdict[int, set[str]] = defaultdict(set)
    for batch in batches([row.id for row in rows]):
        copied = select(d.partition_id, d.name, directory_copies.c.cluster).join(
            directory_copies, directory_copies.c.directory_id == d.id, isouter=True
        )
        for partition_id, name, cluster in connection.execute(copied.where(d.partition_id.in_(batch))):
            names[partition_id].add(name)
            if cluster is not None:
                clusters[partition_id].add(cluster)
    found = []
    for row in rows:
        table = by_id.get(row.table_id)
        if table is None:
            continue
        roots = {each.cluster: each.location for each in table.storage.secondaries}
        primary = table.storage.primary
        places = (
            ClusterStorageDescriptor(primary.cluster, row.location),
            *(
                ClusterStorageDescriptor(cluster, f"{roots.get(cluster, primary.location)}/{row.name}")
                for cluster in sorted(clusters[row.id] - {primary.cluster})
            ),
        )
        found.append((table, DroppedPartition(row.id, row.name, places, tuple(sorted(names[row.id])))))
    return found
