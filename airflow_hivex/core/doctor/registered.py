"""The records of the metastore about the files of tables at one moment: the registered directories and the writers.

A fixed number of queries reads these records for any number of tables, partitions and directories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog.table_rows import select_tables_by_id
from airflow_hivex.core.compaction.queue import read_aborted
from airflow_hivex.core.compaction.queue_entries import IS_READY, Q
from airflow_hivex.core.model.cleaning import Aborted
from airflow_hivex.core.model.locks import DataOperation, LockState, LockType
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    compaction_queue,
    databases,
    directories,
    directory_copies,
    locks,
    next_write_ids,
    partitions,
    pending_writes,
    tables,
    txns,
)
from airflow_hivex.core.store.schema.base import partition_from_column


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered directory or original file."""

    id: int
    partition_id: int | None
    name: str
    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a partition on a cluster, or of a table without partitions if ``partition`` is None."""

    partition: str | None
    location: str


@dataclass(slots=True)
class TableRows:
    """The records of the metastore about one table.

    ``places`` is a dict from cluster to a dict from partition id (None: a table without partitions) to location.
    ``dropped`` has the ids of dropped partitions whose files are not deleted yet. ``copies`` is a dict from directory
    id to the clusters with a copy. ``aborted`` is a dict from partition to the aborted writes that the next cleaning
    deletes. ``cleaning`` is a dict from partition to the transactions of compactions that are ready for cleaning.
    ``pending`` is a dict from the write id of a pending write to whether its transaction is open. ``changing`` has the
    partitions (None: all) whose directories a statement moves or removes now.
    """

    table: Table
    write_ids: ValidWriteIdList
    valid_txns: ValidTxnList
    next_write_id: int
    places: dict[str, dict[int | None, Place]]
    dropped: frozenset[int]
    directories: list[Registered] = field(default_factory=list)
    copies: dict[int, tuple[str, ...]] = field(default_factory=dict)
    aborted: dict[str | None, Aborted] = field(default_factory=dict)
    cleaning: dict[str | None, set[int]] = field(default_factory=dict)
    pending: dict[int, bool] = field(default_factory=dict)
    changing: set[str | None] = field(default_factory=set)

    @property
    def depth(self) -> int:
        """Return the number of folder levels between the table's folder and its base and delta directories."""
        return len(self.table.partition_keys)

    def root(self, cluster: str) -> str | None:
        """Return the table's folder on a cluster, or None if the cluster does not have the table."""
        copy = self.table.storage.on(cluster)
        return None if copy is None else copy.location

    def elsewhere(self, cluster: str) -> dict[str, Place]:
        """Return a dict from location to place, for the partitions that are not at their default location."""
        root = self.root(cluster)
        return {
            place.location: place
            for place in self.places.get(cluster, {}).values()
            if place.partition is not None and place.location != f"{root}/{place.partition}"
        }

    def on(self, cluster: str) -> Iterator[tuple[str, Place, Registered]]:
        """Yield (path below the cluster's root, place, registered directory) for each directory on a cluster."""
        is_primary = cluster == self.table.storage.primary.cluster
        places = self.places.get(cluster, {})
        for each in self.directories:
            place = places.get(each.partition_id)
            if place is None or each.partition_id in self.dropped:
                continue
            if is_primary or cluster in self.copies.get(each.id, ()):
                # The empty name stands for a partition whose location is one file.
                yield f"{place.location}/{each.name}".rstrip("/"), place, each

    def dropped_paths(self, cluster: str) -> frozenset[str]:
        """Return the paths of the dropped partitions' directories, relative to the cluster's root."""
        places = self.places.get(cluster, {}) if self.dropped else {}
        return frozenset(
            f"{places[each.partition_id].location}/{each.name}".rstrip("/")
            for each in self.directories
            if each.partition_id in self.dropped and each.partition_id in places
        )

    def registered_names(self) -> frozenset[tuple[str | None, str]]:
        """Return (partition, name) pairs of all registered directories of existing partitions."""
        names = {key: place.partition for places in self.places.values() for key, place in places.items()}
        return frozenset(
            (names[each.partition_id], each.name)
            for each in self.directories
            if each.partition_id in names and each.partition_id not in self.dropped
        )


def read_tables(connection: Connection, ids: Sequence[int]) -> dict[int, TableRows]:
    """Return a dict from table id to the table's records, for existing transactional tables.

    The connection must read in one snapshot.
    """
    found = {t.id: t for t in select_tables_by_id(connection, ids) if t.is_transactional}
    ids = sorted(found)
    valid_txns = read_valid_txns(connection)
    write_ids = read_valid_write_ids(connection, {key: table.full_name for key, table in found.items()}, valid_txns)
    following = _next_write_ids(connection, ids)
    places, dropped = _places(connection, found)
    rows = {
        key: TableRows(
            table, write_ids[key], valid_txns, following.get(key, 1), places[key], frozenset(dropped.get(key, ()))
        )
        for key, table in found.items()
    }
    _add_directories(connection, rows)
    _add_writers(connection, rows)
    return rows


def _next_write_ids(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    query = select(next_write_ids.c.table_id, next_write_ids.c.next)
    return {
        row.table_id: row.next
        for batch in batches(ids)
        for row in connection.execute(query.where(next_write_ids.c.table_id.in_(batch)))
    }


def _places(
    connection: Connection, found: Mapping[int, Table]
) -> tuple[dict[int, dict[str, dict[int | None, Place]]], dict[int, set[int]]]:
    """Return a pair of dicts from table id: to locations, and to the ids of dropped partitions.

    The locations of a table are a dict from cluster to a dict from partition id to location. Two queries.
    """
    places: dict[int, dict[str, dict[int | None, Place]]] = {}
    for key, table in found.items():
        copies = (table.storage.primary, *table.storage.secondaries)
        of_table = {} if table.is_partitioned else {copy.cluster: Place(None, copy.location) for copy in copies}
        places[key] = defaultdict(dict, {cluster: {None: place} for cluster, place in of_table.items()})
    dropped: defaultdict[int, set[int]] = defaultdict(set)
    names: dict[int, str] = {}
    p, copies_of = partitions.c, cluster_storage_descriptors.c
    for batch in batches(sorted(found)):
        for row in connection.execute(
            select(p.id, p.table_id, p.name, p.location, p.dropped).where(p.table_id.in_(batch))
        ):
            names[row.id] = row.name
            cluster = found[row.table_id].storage.primary.cluster
            places[row.table_id][cluster][row.id] = Place(row.name, row.location)
            if row.dropped:
                dropped[row.table_id].add(row.id)
        query = select(copies_of.table_id, copies_of.partition_id, copies_of.cluster, copies_of.location)
        of_partitions = query.where(copies_of.table_id.in_(batch), copies_of.partition_id.is_not(None))
        for table_id, partition_id, cluster, location in connection.execute(of_partitions):
            places[table_id][cluster][partition_id] = Place(names[partition_id], location)
    return places, dropped


def _add_directories(connection: Connection, rows: Mapping[int, TableRows]) -> None:
    d, copies = directories.c, directory_copies.c
    of_clusters: dict[tuple[str, ...], tuple[str, ...]] = {}
    for batch in batches(sorted(rows)):
        query = select(d.table_id, d.id, d.partition_id, d.name, d.rows, d.files, d.size_bytes)
        for table_id, *values in connection.execute(query.where(d.table_id.in_(batch))):
            rows[table_id].directories.append(Registered(*values))
        held = select(d.table_id, copies.directory_id, copies.cluster).join(directories, d.id == copies.directory_id)
        for table_id, directory_id, cluster in connection.execute(held.where(d.table_id.in_(batch))):
            of_table = rows[table_id].copies
            clusters = (*of_table.get(directory_id, ()), cluster)
            # Nearly all directories have the same clusters, so that equal tuples are shared.
            of_table[directory_id] = of_clusters.setdefault(clusters, clusters)


def _add_writers(connection: Connection, rows: Mapping[int, TableRows]) -> None:
    """Add to ``rows`` the active writers, and the writers that have left files. Four queries for all tables."""
    for (table_id, partition), aborted in read_aborted(connection).items():
        if table_id in rows:
            rows[table_id].aborted[partition] = aborted
    for batch in batches(sorted(rows)):
        ready = select(Q.table_id, Q.partition, Q.txn_id).select_from(compaction_queue)
        for row in connection.execute(ready.where(IS_READY, Q.txn_id.is_not(None), Q.table_id.in_(batch))):
            rows[row.table_id].cleaning.setdefault(partition_from_column(row.partition), set()).add(row.txn_id)
        noted = select(pending_writes.c.table_id, pending_writes.c.document, txns.c.state).outerjoin(
            txns, txns.c.id == pending_writes.c.txn_id
        )
        for row in connection.execute(noted.where(pending_writes.c.table_id.in_(batch))):
            of_table = rows[row.table_id].pending
            write_id = row.document["write_id"]
            of_table[write_id] = of_table.get(write_id, False) or row.state == TxnState.OPEN.value
        held = locks.c
        changing = (
            select(tables.c.id, held.partition)
            .join_from(locks, databases, databases.c.name == held.database)
            .join(tables, (tables.c.database_id == databases.c.id) & (tables.c.name == held.table))
            .where(
                ~tables.c.dropped,
                tables.c.id.in_(batch),
                held.state == LockState.ACQUIRED.value,
                held.operation == DataOperation.NO_TXN.value,
                held.type.in_([LockType.EXCLUSIVE.value, LockType.EXCL_WRITE.value]),
            )
        )
        for table_id, partition in connection.execute(changing):
            rows[table_id].changing.add(partition_from_column(partition))
