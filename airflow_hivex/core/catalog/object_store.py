"""ObjectStore: the RawStore that reads and writes the metastore database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row

from airflow_hivex.core.catalog import copies, databases, directories, partitions, tables
from airflow_hivex.core.catalog.binding import BoundTable, bind
from airflow_hivex.core.catalog.contents import TableContents, read_contents
from airflow_hivex.core.catalog.copies import NewCopies
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.pruning import find_partitions
from airflow_hivex.core.catalog.registration import Registration, register
from airflow_hivex.core.catalog.rows import database_document, database_from_row, partition_from_row
from airflow_hivex.core.catalog.snapshots import TableMark, read_snapshot, snapshot_call, table_calls
from airflow_hivex.core.catalog.table_events import of_compaction, of_partitions, of_table, record_table_event
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    CopyMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchPartitionError,
    NoSuchTableError,
    NotOnClusterError,
)
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Database,
    Partition,
    StoredPartition,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.predicates import Predicate, Value
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.snapshots.valid_lists import read_valid_write_ids
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.joining import JoinsTransactions

EndCompactions: TypeAlias = Callable[[Connection, Collection[int], Collection[str] | None, int], None]
"""Ends the queued compactions of tables, or of partitions of one table (names), that are dropped at a time in ms."""


def _by_name(found: Iterable[StoredTable]) -> dict[QualifiedName, StoredTable]:
    return {(table.database, table.name): table for table in found}


def _is_behind(table: StoredTable | None, mark: TableMark | None) -> bool:
    return table is None or mark is None or table.id != mark.id or table.version < mark.version


class ObjectStore(JoinsTransactions):
    """Databases, tables and partitions in the metastore database. See ``RawStore`` for the interface.

    Every change is one database transaction together with its event; those of :meth:`joining` are part
    of the caller's transaction instead. Locations that come back are full URIs; locations that are given
    may be URIs, or relative to the cluster's file system, or empty for the default place.
    """

    def __init__(self, store: Store, clusters: Clusters, clock: Clock, end_compactions: EndCompactions) -> None:
        super().__init__(store)
        self._clusters = clusters
        self._clock = clock
        self._end_compactions = end_compactions

    # -- reading as of a snapshot -----------------------------------------------------

    def snapshot(
        self,
        names: Collection[QualifiedName],
        txn_id: int | None = None,
        *,
        valid_txns: ValidTxnList | None = None,
        known: Iterable[StoredTable] = (),
    ) -> Snapshot:
        """Return the tables of these names and their write id lists; see ``MetadataReader``.

        One round trip; another one where a table of ``known`` has changed, or with ``valid_txns``.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: a table does not exist.
        """
        wanted = dict.fromkeys(names)
        found = _by_name(known)
        calls = [snapshot_call(wanted, txn_id)]
        if wanted.keys() - found.keys():
            calls += table_calls(wanted)
        answer, *rows = self._store.ask(*calls, connection=self._connection)
        read = read_snapshot(answer, txn_id)
        if rows:
            found.update(_by_name(tables.tables_from_rows(*rows)))
        behind = [name for name in wanted if _is_behind(found.get(name), read.marks.get(name))]
        if behind:
            with self._read() as connection:
                # Tells a missing database from a missing table.
                found.update(_by_name([tables.select_table(connection, *name) for name in behind]))
            if any(found[name].id not in read.write_ids for name in behind):
                # It was made while this was read.
                return self.snapshot(names, txn_id, valid_txns=valid_txns)
        write_ids = read.write_ids
        if valid_txns is not None:
            with self._read() as connection:
                named = {found[name].id: found[name].full_name for name in wanted}
                write_ids = read_valid_write_ids(connection, named, valid_txns)
        return Snapshot(valid_txns or read.valid_txns, {name: found[name] for name in wanted}, write_ids)

    def contents(
        self,
        snapshot: Snapshot,  # noqa: ARG002 - for caches; the database is never stale
        table: StoredTable,
        predicate: Predicate | None,
        clusters: Collection[str],
    ) -> TableContents:
        """Return the partitions that ``predicate`` leaves, with directories and copies; see ``MetadataReader``."""
        with self._read() as connection:
            return read_contents(connection, table, predicate, clusters)

    # -- databases ------------------------------------------------------------------

    def create_database(self, database: Database) -> Database:
        """Add a database and return it as stored.

        Raises:
            AlreadyExistsError: one of that name exists.
            InvalidObjectError: the name is not a name.
        """
        placed = replace(
            database, location=self._default_cluster.relative(database.location) if database.location else ""
        )

        def work(connection: Connection) -> Database:
            name = databases.insert_database(connection, placed, self._clock())
            stored = database_from_row(databases.select_database(connection, name))
            self._record_database(connection, EventType.CREATE_DATABASE, stored)
            return stored

        return self._write(work)

    def get_database(self, name: str) -> Database:
        """Return a database.

        Raises:
            NoSuchDatabaseError: it does not exist.
        """
        with self._read() as connection:
            return database_from_row(databases.select_database(connection, name))

    def alter_database(self, name: str, database: Database) -> Database:
        """Store description, owner, location and parameters of a database; its name stays."""
        placed = replace(
            database, location=self._default_cluster.relative(database.location) if database.location else ""
        )

        def work(connection: Connection) -> Database:
            databases.update_database(connection, name, placed)
            stored = database_from_row(databases.select_database(connection, name))
            self._record_database(connection, EventType.ALTER_DATABASE, stored)
            return stored

        return self._write(work)

    def drop_database(self, name: str, *, cascade: bool = False) -> list[StoredTable]:
        """Remove a database; with ``cascade`` its tables first. Returns the tables that were dropped.

        Raises:
            InvalidOperationError: it has tables and ``cascade`` is false, or is the default database.
        """

        def work(connection: Connection) -> list[StoredTable]:
            stored = database_from_row(databases.select_database(connection, name))
            names = tables.select_table_names(connection, stored.name, None) if cascade else []
            ids = [table.id for table in tables.select_tables(connection, [(stored.name, each) for each in names])]
            dropped = tables.select_tables_by_id(connection, tables.lock_for_change(connection, ids))
            for batch in batches([table.id for table in dropped]):
                tables.mark_dropped(connection, batch)
                self._end_compactions(connection, batch, None, self._clock())
            databases.delete_database(connection, stored.name)
            for table in dropped:
                self._record(connection, EventType.DROP_TABLE, table, message=of_table(table))
            self._record_database(connection, EventType.DROP_DATABASE, stored)
            return dropped

        return self._write(work)

    def list_databases(self, pattern: str | None = None) -> list[str]:
        """Return the names of databases that match a SHOW pattern, sorted."""
        with self._read() as connection:
            return databases.select_database_names(connection, pattern)

    # -- tables ---------------------------------------------------------------------

    def create_table(
        self,
        table: Table,
        valid_write_ids: ValidWriteIdList | None = None,
        txn_id: int | None = None,
    ) -> StoredTable:
        """Add a table and return it as stored.

        Raises:
            AlreadyExistsError: a table of that name exists.
            NoSuchDatabaseError: its database does not.
            UnknownClusterError, LocationOutsideClusterError: its primary copy cannot lie there.
        """
        cluster = self._clusters.get(table.storage.primary.cluster)
        location = cluster.relative(table.storage.primary.location) if table.storage.primary.location else ""
        placed = replace(
            table, storage=replace(table.storage, primary=ClusterStorageDescriptor(cluster.name, location))
        )

        def work(connection: Connection) -> StoredTable:
            inserted = tables.insert_table(connection, placed, self._clock())
            stored = tables.select_table(connection, inserted.database, inserted.name)
            self._record(connection, EventType.CREATE_TABLE, stored, valid_write_ids, txn_id, of_table(stored))
            return self._seen_from(stored, None)

        return self._write(work)

    def get_table(
        self,
        database: str,
        name: str,
        valid_write_ids: ValidWriteIdList | None = None,  # noqa: ARG002 - for caches; the database is never stale
        cluster: str | None = None,
    ) -> StoredTable:
        """Return a table. One round trip.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: it does not exist.
            UnknownClusterError: ``cluster`` is not configured.
            NotOnClusterError: the table has no copy there.
        """
        calls = table_calls([(normalise(database), normalise(name))])
        found = tables.tables_from_rows(*self._store.ask(*calls, connection=self._connection))
        if found:
            return self._seen_from(found[0], cluster)
        with self._read() as connection:
            # Tells a missing database from a missing table.
            return self._seen_from(tables.select_table(connection, database, name), cluster)

    def get_tables(
        self,
        database: str,
        names: Sequence[str],
        valid_write_ids: Mapping[str, ValidWriteIdList] | None = None,  # noqa: ARG002 - for caches; see get_table
        cluster: str | None = None,
    ) -> list[StoredTable]:
        """Return the named tables that exist (and, with ``cluster``, have a copy there), by name."""
        with self._read() as connection:
            wanted = [(normalise(database), normalise(name)) for name in names]
            found = [table for batch in batches(wanted, 1000) for table in tables.select_tables(connection, batch)]
        present = [table for table in found if cluster is None or table.storage.on(cluster)]
        return sorted((self._seen_from(table, cluster) for table in present), key=lambda table: table.name)

    def alter_table(
        self,
        database: str,
        name: str,
        table: Table,
        valid_write_ids: ValidWriteIdList | None = None,
        txn_id: int | None = None,
    ) -> StoredTable:
        """Store a changed table: its name, columns, parameters, owner or comment. Its place stays.

        Raises:
            NoSuchTableError: it does not exist.
            AlreadyExistsError: its new name is taken.
            InvalidOperationError: the change would move it to another cluster or database.
        """

        def work(connection: Connection) -> StoredTable:
            stored = tables.select_table_for_change(connection, database, name)
            if normalise(table.database) != stored.database:
                raise InvalidOperationError("ALTER TABLE", stored.full_name, "a table cannot change its database")
            if table.storage.primary.cluster != stored.storage.primary.cluster:
                raise InvalidOperationError("ALTER TABLE", stored.full_name, "this does not change the primary cluster")
            placed = replace(
                table,
                storage=replace(table.storage, primary=stored.storage.primary, secondaries=stored.storage.secondaries),
            )
            tables.update_table(connection, stored, placed)
            changed = tables.select_table(connection, database, table.name)
            message = of_table(changed, was=stored.name)
            self._record(connection, EventType.ALTER_TABLE, changed, valid_write_ids, txn_id, message)
            return self._seen_from(changed, None)

        return self._write(work)

    def drop_table(
        self,
        database: str,
        name: str,
        valid_write_ids: ValidWriteIdList | None = None,
        txn_id: int | None = None,
    ) -> StoredTable:
        """Take a table out of sight and return it. Its files stay, for :meth:`forget_tables` to follow.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: it does not exist.
        """

        def work(connection: Connection) -> StoredTable:
            table = tables.select_table_for_change(connection, database, name)
            tables.mark_dropped(connection, [table.id])
            self._end_compactions(connection, [table.id], None, self._clock())
            self._record(connection, EventType.DROP_TABLE, table, valid_write_ids, txn_id, of_table(table))
            return table

        return self._write(work)

    def forget_tables(self, dropped: Sequence[StoredTable]) -> None:
        """Remove the last rows of dropped tables, once their files are gone. Safe to repeat."""
        self._write(lambda connection: directories.forget_tables(connection, [table.id for table in dropped]))

    def list_tables(self, database: str, pattern: str | None = None, type: TableType | None = None) -> list[str]:
        """Return the sorted names of a database's tables and views, or of one type, that match a SHOW pattern.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        with self._read() as connection:
            return tables.select_table_names(connection, database, pattern, type)

    # -- partitions -----------------------------------------------------------------

    def new_partition(self, table: Table, values: Sequence[Value], location: str = "") -> Partition:
        """Return a partition of ``table`` to give to :meth:`add_partitions`; no round trip.

        Raises:
            InvalidObjectError: the values do not fit the table's partition keys.
        """
        texts = partitions.stored_values(table.full_name, table.partition_keys, values)
        return Partition(table.database, table.name, texts, partitions.name_of(table, texts), location)

    def add_partitions(
        self,
        database: str,
        table: str,
        new: Sequence[Partition],
        valid_write_ids: ValidWriteIdList | None = None,
        *,
        if_not_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[str]:
        """Add partitions, all or none, and return the names of the added ones.

        Raises:
            AlreadyExistsError: one exists already and ``if_not_exists`` is false.
            InvalidObjectError: values do not fit the keys, or a location is not apart from a managed table.
            LocationOutsideClusterError: a location is not on the table's primary cluster.
        """

        def work(connection: Connection) -> list[str]:
            stored = self._partitioned(connection, database, table, "ADD PARTITION", for_change=True)
            by_name = {partitions.name_of(stored, partition.values): partition for partition in new}
            existing = partitions.partition_ids(connection, stored, list(by_name))
            names = partitions.new_partition_names(stored, new, existing, if_not_exists)
            places = {name: self._place(stored, by_name[name]) for name in names}
            for name, place in places.items():
                if place:
                    tables.check_partition_apart(connection, stored, name, place)
            added = partitions.insert_partitions(
                connection, stored, places, self._clock(), {name: by_name[name] for name in names}
            )
            lost = sorted(set(names) - set(added))
            if lost and not if_not_exists:
                raise AlreadyExistsError("partition", f"{stored.full_name} {lost[0]}")
            if added:
                tables.raise_versions(connection, [stored.id])
                message = of_partitions(self._stored(connection, stored, added.values()))
                self._record(connection, EventType.ADD_PARTITION, stored, valid_write_ids, txn_id, message)
            return sorted(added)

        return self._write(work)

    def _place(self, table: Table, partition: Partition) -> str:
        """Return the location that a new partition is given, relative to the file system of its table's primary.

        Or "".
        """
        cluster = self._clusters.get(table.storage.primary.cluster)
        location = partition.location
        if partition.storage is not None:
            if partition.storage.primary.cluster != cluster.name:
                reason = f"its primary copy is on {cluster.name}, as its table's"
                raise InvalidObjectError("partition", f"{table.full_name} {partition.name}", reason)
            location = location or partition.storage.primary.location
        return cluster.relative(location) if location else ""

    def get_partition(
        self,
        database: str,
        table: str,
        values: Sequence[str],
        valid_write_ids: ValidWriteIdList | None = None,  # noqa: ARG002 - for caches; the database is never stale
        cluster: str | None = None,
    ) -> StoredPartition:
        """Return the partition with these values.

        Raises:
            NoSuchPartitionError: the table has no such partition.
            NotOnClusterError: it has no copy on ``cluster``.
        """
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partition")
            row = partitions.select_partition(connection, stored, partitions.name_of(stored, values))
            secondaries = partitions.secondaries_of(connection, [row.id])
            return self._partition_seen_from(stored, row, secondaries.get(row.id, ()), cluster)

    def get_partitions(
        self,
        database: str,
        table: str,
        valid_write_ids: ValidWriteIdList | None = None,  # noqa: ARG002 - for caches; the database is never stale
        *,
        batch_size: int = 1000,
        cluster: str | None = None,
    ) -> Iterator[list[StoredPartition]]:
        """Yield all partitions (with ``cluster``, those with a copy there), in lists of up to ``batch_size``."""
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partitions")
            ids = [row.id for row in find_partitions(connection, stored)]
        for batch in batches(ids, batch_size):
            with self._read() as connection:
                yield self._load(connection, stored, batch, cluster)

    def get_partitions_by_expr(
        self,
        database: str,
        table: str,
        expr: Predicate | None,
        valid_write_ids: ValidWriteIdList | None = None,  # noqa: ARG002 - for caches; the database is never stale
        cluster: str | None = None,
    ) -> list[StoredPartition]:
        """Return the partitions whose rows may satisfy ``expr`` (and, with ``cluster``, have a copy there)."""
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partitions_by_expr")
            ids = [row.id for row in find_partitions(connection, stored, expr)]
            return self._load(connection, stored, ids, cluster)

    def list_partition_names(
        self,
        database: str,
        table: str,
        expr: Predicate | None = None,
        valid_write_ids: ValidWriteIdList | None = None,  # noqa: ARG002 - for caches; the database is never stale
    ) -> list[str]:
        """Return the names of a table's partitions that may satisfy ``expr``, sorted.

        Raises:
            InvalidOperationError: the table has no partition keys.
        """
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "SHOW PARTITIONS")
            return sorted(row.name for row in find_partitions(connection, stored, expr))

    def drop_partitions(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: ValidWriteIdList | None = None,
        *,
        if_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[StoredPartition]:
        """Take partitions out of sight, all or none, and return them.

        Their files stay, for :meth:`forget_partitions` to follow.

        Raises:
            NoSuchPartitionError: one does not exist and ``if_exists`` is false.
        """

        def work(connection: Connection) -> list[StoredPartition]:
            stored = self._partitioned(connection, database, table, "DROP PARTITION", for_change=True)
            ids = partitions.partition_ids(connection, stored, names)
            missing = [name for name in names if name not in ids]
            if missing and not if_exists:
                raise NoSuchPartitionError(stored.database, stored.name, missing[0])
            dropped = self._load(connection, stored, list(ids.values()), None)
            gone = self._stored(connection, stored, ids.values())
            partitions.mark_partitions_dropped(connection, list(ids.values()))
            self._end_compactions(connection, [stored.id], list(ids), self._clock())
            if dropped:
                tables.raise_versions(connection, [stored.id])
                message = of_partitions(gone)
                self._record(connection, EventType.DROP_PARTITION, stored, valid_write_ids, txn_id, message)
            return dropped

        return self._write(work)

    def rename_partition(
        self,
        database: str,
        table: str,
        name: str,
        new_name: str,
        valid_write_ids: ValidWriteIdList | None = None,
        *,
        txn_id: int | None = None,
    ) -> None:
        """Give a partition other values; where it lies changes with its name, and its files are the caller's.

        Raises:
            NoSuchPartitionError: it does not exist.
            AlreadyExistsError: there is one of the new name.
        """

        def work(connection: Connection) -> None:
            stored = self._partitioned(connection, database, table, "RENAME PARTITION", for_change=True)
            row = partitions.select_partition(connection, stored, name)
            if not partitions.partition_ids(connection, stored, [new_name]):
                # Those of a partition of that name that an earlier release has dropped.
                self._end_compactions(connection, [stored.id], [new_name], self._clock())
            partitions.rename_partition(connection, stored, row, new_name)
            tables.raise_versions(connection, [stored.id])
            message = of_partitions(self._stored(connection, stored, [row.id]), was=name)
            self._record(connection, EventType.ALTER_PARTITION, stored, valid_write_ids, txn_id, message)

        self._write(work)

    def forget_partitions(self, dropped: Sequence[StoredPartition]) -> None:
        """Remove the last rows of dropped partitions, once their files are gone. Safe to repeat."""
        self._write(
            lambda connection: directories.forget_partitions(connection, [partition.id for partition in dropped])
        )

    # -- written directories ----------------------------------------------------------

    def register(self, registration: Registration) -> None:
        """Register what a transaction has made of a table, in its commit: new partitions, and directories.

        Raises:
            NoSuchTableError, NoSuchPartitionError: what it belongs to was dropped meanwhile.
            InvalidOperationError: the row layout of a streaming batch has changed.
        """
        self._write(lambda connection: self._register(connection, registration))

    def _register(self, connection: Connection, registration: Registration) -> None:
        table, txn_id = registration.table, registration.txn_id
        added = register(connection, registration, self._clock())
        if registration.reveals_table:
            (stored,) = tables.select_tables_by_id(connection, [table.id])
            self._record(connection, EventType.CREATE_TABLE, stored, None, txn_id, of_table(stored))
        if added:
            message = of_partitions(self._stored(connection, table, added))
            self._record(connection, EventType.ADD_PARTITION, table, None, txn_id, message)
        if registration.replaces:
            message = of_compaction(registration.partitions, [each.name for each in registration.directories])
            self._record(connection, EventType.COMMIT_COMPACTION, table, None, txn_id, message)

    # -- secondary copies -------------------------------------------------------------

    def register_copy(
        self,
        database: str,
        table: str,
        cluster: str,
        partitions: Sequence[str | Sequence[Value]] | None = None,
        *,
        location: str | None = None,
    ) -> list[str]:
        """Make known that files which others copied are on ``cluster``; return what is there now.

        ``partitions`` are names (``month=1``) or values; None means all, or the table without
        partitions, which comes back as its name. ``location`` is the table's folder there, by default
        the same as on the primary. The files that the current snapshot reads are compared by name
        and size first; what is written to the primary later makes the copy stale until it is
        registered again (docs/reference/clusters.md, M11).

        Raises:
            UnknownClusterError: the cluster is not configured.
            InvalidOperationError: the cluster is the table's primary, or the table is a view.
            NoSuchPartitionError: a partition does not exist.
            CopyMismatchError: files are missing or differ; nothing was registered.
            CopyOutdatedError: the table has changed while the files were compared; nothing was registered.
        """
        target = self._clusters.get(cluster)
        bound, _ = self._bind_copies(database, table, partitions)
        stored = bound.table
        if stored.is_view:
            raise InvalidOperationError("register_copy", stored.full_name, "it is a view, which has no files")
        if target.name == stored.storage.primary.cluster:
            raise InvalidOperationError("register_copy", stored.full_name, f"{cluster} is its primary cluster")
        root = target.relative(location) if location else stored.storage.primary.location
        primary = self._clusters.get(stored.storage.primary.cluster)
        found = copies.compare(
            bound,
            ClusterFiles(primary.filesystem, primary.storage_options),
            ClusterFiles(target.filesystem, target.storage_options),
            root,
        )
        if found:
            raise CopyMismatchError(stored.full_name, cluster, found)
        names = bound.partition_names
        self._add_copies(
            NewCopies(
                stored,
                target.name,
                bound.registered_directories,
                partitions=frozenset(names),
                location=root,
                write_ids=bound.write_ids,
            )
        )
        return names if stored.is_partitioned else [stored.full_name]

    def add_copies(
        self,
        table: StoredTable,
        cluster: str,
        directories: Collection[RegisteredDirectory],
        checksums: Mapping[int, str] | None = None,
        *,
        partitions: Collection[str] = (),
        location: str | None = None,
        write_ids: ValidWriteIdList | None = None,
    ) -> None:
        """Make known that copies of registered directories are on ``cluster`` now. One transaction; safe to repeat.

        The caller has copied and verified the files; ``checksums`` are what it has found, by directory id. Queries use
        the copy of a partition if it holds all directories that their snapshot reads. So the directories may come in
        several calls, and those of earlier calls stay. ``partitions`` are copied besides those of the directories,
        since they are empty or the table is not transactional. ``location`` is the table's folder there, by default
        where its copies are, or else the same as on the primary. ``write_ids`` are those that the copy has, for people
        to see. On the primary cluster checksums are kept, and nothing else.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: it was dropped meanwhile.
            CopyOutdatedError: a directory is not registered any more, or has grown since it was given.
        """
        target = self._clusters.get(cluster)
        self._add_copies(
            NewCopies(
                table,
                target.name,
                tuple(directories),
                checksums or {},
                frozenset(partitions),
                target.relative(location) if location else None,
                write_ids,
            )
        )

    def _add_copies(self, new: NewCopies) -> None:
        table = new.table

        def work(connection: Connection) -> None:
            self._lock_for_copies(connection, table)
            names = copies.add_copies(connection, new, self._clock())
            message = {
                "cluster": new.cluster,
                "partitions": names if table.is_partitioned else None,
                "directories": sorted({each.name for each in new.directories}),
            }
            self._record(connection, EventType.REGISTER_COPY, table, new.write_ids, None, message)

        self._write(work)

    def unregister_copy(
        self, database: str, table: str, cluster: str, partitions: Sequence[str | Sequence[Value]] | None = None
    ) -> None:
        """Forget the copies of partitions (None: of all, or of the table) on ``cluster``; files stay.

        Raises:
            NoSuchPartitionError: a partition does not exist.
        """
        bound, ids = self._bind_copies(database, table, partitions)
        stored = bound.table

        def work(connection: Connection) -> None:
            self._lock_for_copies(connection, stored)
            copies.drop_copies(connection, stored, list(ids.values()) if stored.is_partitioned else None, cluster)
            message = {"cluster": cluster, "partitions": sorted(ids) if stored.is_partitioned else None}
            self._record(connection, EventType.UNREGISTER_COPY, stored, bound.write_ids, None, message)

        self._write(work)

    @staticmethod
    def _lock_for_copies(connection: Connection, table: StoredTable) -> None:
        if not tables.lock_for_change(connection, [table.id]):
            raise NoSuchTableError(table.database, table.name)
        tables.raise_versions(connection, [table.id])

    def _bind_copies(
        self, database: str, name: str, wanted: Sequence[str | Sequence[Value]] | None
    ) -> tuple[BoundTable, dict[str, int]]:
        """Return the chosen partitions in the snapshot of now, and their ids by name."""
        named = (normalise(database), normalise(name))
        snapshot = self.snapshot([named])
        table = snapshot.tables[named]
        contents = self.contents(snapshot, table, None, ())
        bound = bind(table, contents, None, snapshot, ())
        if wanted is not None and not table.is_partitioned:
            raise InvalidOperationError("register_copy", table.full_name, "the table has no partition keys")
        if wanted is not None:
            names = {
                partitions.name_of(table, partition_values(each) if isinstance(each, str) else each) for each in wanted
            }
            missing = names.difference(bound.partition_names)
            if missing:
                raise NoSuchPartitionError(table.database, table.name, min(missing))
            bound = replace(bound, partitions=tuple(each for each in bound.partitions if each.name in names))
        ids = {each.name: each.id for each in contents.partitions}
        return bound, {name: ids[name] for name in bound.partition_names}

    # -- views of a cluster ---------------------------------------------------------

    @property
    def _default_cluster(self) -> Any:
        return self._clusters.get(self._clusters.default)

    def _seen_from(self, table: StoredTable, cluster: str | None) -> StoredTable:
        """Return the table with the location that a session on ``cluster`` sees, or an old client; a view has none.

        Source: docs/reference/clusters.md, M3.
        """
        if table.is_view:
            if cluster is not None:
                self._clusters.get(cluster)
            return table
        copy = self._visible_copy(table.storage.primary, table.storage.secondaries, cluster, table.full_name)
        return table.with_location(self._uri(copy))

    def _uri(self, copy: ClusterStorageDescriptor) -> str:
        # A cluster may have been taken out of the configuration: its tables can still be listed.
        return self._clusters.get(copy.cluster).uri(copy.location) if copy.cluster in self._clusters else copy.location

    def _visible_copy(
        self,
        primary: ClusterStorageDescriptor,
        secondaries: Sequence[ClusterStorageDescriptor],
        cluster: str | None,
        name: str,
    ) -> ClusterStorageDescriptor:
        copies = {copy.cluster: copy for copy in (*secondaries, primary)}
        if cluster is None:
            return copies.get(self._clusters.default, primary)
        self._clusters.get(cluster)
        if cluster not in copies:
            raise NotOnClusterError(name, cluster, sorted(copies))
        return copies[cluster]

    def _partition_seen_from(
        self, table: Table, row: Row[Any], secondaries: Sequence[ClusterStorageDescriptor], cluster: str | None
    ) -> StoredPartition:
        partition = partition_from_row(table, row, secondaries)
        primary = ClusterStorageDescriptor(table.storage.primary.cluster, row.location)
        copy = self._visible_copy(primary, secondaries, cluster, f"{table.full_name} partition {row.name}")
        return replace(partition, location=self._uri(copy))

    def _load(
        self, connection: Connection, table: StoredTable, ids: Sequence[int], cluster: str | None
    ) -> list[StoredPartition]:
        if cluster is not None:
            self._clusters.get(cluster)
        secondaries: Mapping[int, Sequence[ClusterStorageDescriptor]] = partitions.secondaries_of(connection, ids)
        everywhere = cluster is None or cluster == table.storage.primary.cluster
        return [
            self._partition_seen_from(table, row, secondaries.get(row.id, ()), cluster)
            for row in partitions.select_partitions(connection, ids)
            if everywhere or any(copy.cluster == cluster for copy in secondaries.get(row.id, ()))
        ]

    def _partitioned(
        self, connection: Connection, database: str, name: str, operation: str, *, for_change: bool = False
    ) -> StoredTable:
        find = tables.select_table_for_change if for_change else tables.select_table
        table = find(connection, database, name)
        if not table.is_partitioned:
            raise InvalidOperationError(operation, table.full_name, "the table has no partition keys")
        return table

    def _record(
        self,
        connection: Connection,
        type: EventType,
        table: Table,
        valid_write_ids: ValidWriteIdList | None = None,
        txn_id: int | None = None,
        message: Mapping[str, Any] | None = None,
    ) -> None:
        record_table_event(connection, self._clock(), type, table, valid_write_ids, txn_id, message)

    def _record_database(self, connection: Connection, type: EventType, database: Database) -> None:
        message = {"object": database_document(database)}
        notification_log.record(connection, self._clock(), type, database=database.name, message=message)

    @staticmethod
    def _stored(connection: Connection, table: Table, ids: Iterable[int]) -> list[StoredPartition]:
        """Partitions by id, with their locations as they are stored."""
        return [partition_from_row(table, row) for row in partitions.select_partitions(connection, sorted(ids))]
