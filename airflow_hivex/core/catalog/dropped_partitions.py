"""Partitions of managed tables that are out of sight, and whose files may not all be deleted yet.

A partition that is dropped leaves such a row, and one that is renamed leaves one of its former name. The cleaner, which
deletes the files, removes the row afterwards. Until then no partition is renamed to that name: a rename copies
directories under their own names, which may be those that are being deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from airflow_hivex.core.catalog import tables
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, StoredTable
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
    statistics,
)
from airflow_hivex.core.store.schema import tables as all_tables


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A partition that is out of sight: the names of the directories that it had, and the places where they lie."""

    id: int
    name: str
    places: tuple[ClusterStorageDescriptor, ...]
    directories: tuple[str, ...]


def mark_dropped(connection: Connection, ids: Sequence[int], now_ms: int) -> None:
    """Take partitions out of sight; their rows stay until their files are gone.

    Of a dropped partition ``created_ms`` is the time at which it was dropped.
    """
    copies = cluster_storage_descriptors
    for batch in batches(ids):
        dropped = update(partitions).where(partitions.c.id.in_(batch))
        connection.execute(dropped.values(dropped=True, created_ms=now_ms))
        connection.execute(copies.delete().where(copies.c.partition_id.in_(batch)))
        connection.execute(statistics.delete().where(statistics.c.partition_id.in_(batch)))


def leave_former_name(connection: Connection, stored: Row[Any], now_ms: int) -> int:
    """Note the former name of a partition, which was renamed in the caller's transaction, as dropped; return its id."""
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
            connection.execute(insert(directory_copies), copied)
    return int(partition_id)


def has_files(connection: Connection, table_id: int, name: str) -> bool:
    """Return whether files of an earlier partition of the name may still be there."""
    p = partitions.c
    query = select(p.id).where(p.table_id == table_id, p.dropped, p.name == name).limit(1)
    return connection.execute(query).one_or_none() is not None


def in_sight(connection: Connection, table_id: int, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the directories of those of the named partitions that exist. One round trip a batch."""
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
    """Return up to ``limit`` dropped partitions of existing tables, dropped before a time, with ids above ``after``."""
    p, t, d = partitions.c, all_tables.c, directories.c
    query = (
        select(p.id, p.table_id, p.name, p.location)
        .join(all_tables, t.id == p.table_id)
        .where(p.dropped, ~t.dropped, p.created_ms < before_ms, p.id > after)
        .order_by(p.id)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    by_id = {each.id: each for each in tables.select_tables_by_id(connection, {row.table_id for row in rows})}
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
