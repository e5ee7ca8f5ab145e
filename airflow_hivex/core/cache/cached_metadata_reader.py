"""Reads of metadata as of a snapshot. An entry of the cache is used if the snapshot shows that it is current."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from airflow_hivex.core.cache.counting import Kind, Miss
from airflow_hivex.core.cache.table_cache import TableCache
from airflow_hivex.core.cache.valid_entries import ContentsKey
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.given_lists import StateOf
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.pruning import matching
from airflow_hivex.core.catalog.store_part import EndCompactions
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import partitions

T = TypeVar("T")

_WRITTEN = "hivex_written_tables"
"""The key in a connection's ``info`` for the changed tables that the cache reads again after the commit."""
_MOST_OPEN = 10_000
"""The largest number of open transactions whose changes are kept.

If there are more, the oldest changes are forgotten, and the next reader of a changed table needs a round trip.
"""
_CHANGED = "hivex_changed_tables"
"""The key in a connection's ``info`` for the ids of tables that its database transaction has changed."""
_MOST_PREDICATES = 4
"""The largest number of predicates of a table whose partitions are cached separately.

For a further predicate, the whole table is read and cached.
"""
_MOST_PARTITIONS = 20_000
"""The cache keeps all partitions of a table only if the table does not have more than this number."""


def _nothing() -> None:
    """Do nothing. This is the default for the function that starts the follower."""


class CachedMetadata(ObjectStore):
    """An ObjectStore that keeps the metadata that statements have read.

    Before an entry answers a statement, its write id list and table version are compared with the statement's snapshot
    (``SnapshotReading``). An answer is never stale, even if events of other processes have not arrived. In a database
    transaction of the caller (:meth:`joining`), all reads query the database, because the changes of this transaction
    are not in the cache.
    """

    def __init__(
        self, store: Store, clusters: Clusters, clock: Clock, end_compactions: EndCompactions, cache: TableCache
    ) -> None:
        super().__init__(store, clusters, clock, end_compactions)
        self.cache = cache
        self._written = _OpenWrites()
        self.follow: Callable[[], None] = _nothing
        """A function that starts the follower of the notification log.

        A reader with a write id list calls it before it fills an entry from the database.
        """

    # -- reading as of a snapshot

    def snapshot(
        self,
        names: Collection[QualifiedName],
        txn_id: int | None = None,
        *,
        valid_txns: ValidTxnList | None = None,
        known: Iterable[StoredTable] = (),
    ) -> Snapshot:
        """Return the tables of these names and their write id lists; see ``SnapshotReading``.

        One round trip reads the write id lists, and the tables that are not cached. If a cached table has changed, a
        second round trip reads it.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: a table does not exist.
        """
        if self._connection is not None:
            return super().snapshot(names, txn_id, valid_txns=valid_txns, known=known)
        begun = self.cache.begin()
        given = list(known)
        kept = {(table.database, table.name): table for table in self.cache.known(names)}
        kept.update({(table.database, table.name): table for table in given})
        taken = self._of_one_history(names, txn_id, valid_txns, kept.values())
        known_here = {id(table) for table in given}
        for name, table in taken.tables.items():
            if id(table) not in known_here:
                before = kept.get(name)
                reason = None if before is table else Miss.COLD if before is None else Miss.STALE
                self.cache.count(name, Kind.TABLE, reason)
            self.cache.put_definition(begun, table, self._tag(taken, table))
        return taken

    def _of_one_history(
        self,
        names: Collection[QualifiedName],
        txn_id: int | None = None,
        valid_txns: ValidTxnList | None = None,
        known: Iterable[StoredTable] = (),
    ) -> Snapshot:
        """Return a snapshot from the database.

        If the database was restored from a backup, empty the cache, and take the snapshot without cached tables.
        """
        before = self.cache.history
        taken = ObjectStore.snapshot(self, names, txn_id, valid_txns=valid_txns, known=known)
        if self.cache.note_history(before, taken.history):
            return taken
        return ObjectStore.snapshot(self, names, txn_id, valid_txns=valid_txns)

    def contents(
        self, snapshot: Snapshot, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]
    ) -> TableContents:
        """Return the partitions that match ``predicate``, with directories and copies; see ``SnapshotReading``.

        The call takes no round trip if the cache has all contents that the snapshot sees.
        """
        if self._connection is not None or not self.cache.lists.include(table.database, table.name):
            return super().contents(snapshot, table, predicate, clusters)
        ids = snapshot.list_of(table)
        if predicate is not None and not table.is_partitioned:
            predicate = None
        wanted: ContentsKey = None if predicate is None else (predicate, frozenset(clusters))
        kept = self.cache.contents(table, ids, list(dict.fromkeys((wanted, None))))
        if kept is None:
            read = self._key_to_read(snapshot, table, wanted)
            kept = self._read_contents(snapshot, table, read)
            if read is not None:
                return kept
        if not table.is_transactional and any(each.storage_descriptor_id is not None for each in kept.partitions):
            # Partitions with other storage may be unreadable: the database checks the wanted ones.
            self.cache.count((table.database, table.name), Kind.CONTENTS, Miss.NOT_CACHEABLE)
            return super().contents(snapshot, table, predicate, clusters)
        return _chosen(kept, table, predicate, clusters)

    def _key_to_read(self, snapshot: Snapshot, table: StoredTable, wanted: ContentsKey) -> ContentsKey:
        """Return the key of the contents to read and cache: ``wanted``, or None for the contents of the whole table.

        The whole table is read if the cache already has the contents for several other predicates.
        """
        # For a table that is not transactional, the read checks that a scan can read the wanted partitions.
        if (
            wanted is None
            or not table.is_transactional
            or self.cache.predicates_of(table, self._tag(snapshot, table)) < _MOST_PREDICATES
            or self._has_many_partitions(table)
        ):
            return wanted
        return None

    def _read_contents(self, snapshot: Snapshot, table: StoredTable, key: ContentsKey) -> TableContents:
        """Read the contents for a key from the database. Cache and return the contents."""
        tag = self._tag(snapshot, table)
        predicate, clusters = key or (None, [copy.cluster for copy in table.storage.secondaries])
        contents = super().contents(snapshot, table, predicate, clusters)
        if tag is not None:
            self.cache.put_contents(table, tag, key, contents)
        return contents

    def _has_many_partitions(self, table: StoredTable) -> bool:
        some = select(partitions.c.id).where(partitions.c.table_id == table.id).limit(_MOST_PARTITIONS + 1).subquery()
        with self._read() as connection:
            return connection.execute(select(func.count()).select_from(some)).scalar_one() > _MOST_PARTITIONS

    @staticmethod
    def _tag(snapshot: Snapshot, table: StoredTable) -> ValidWriteIdList | None:
        return snapshot.committed.get(table.id)

    # -- changes of this process

    def _write(self, work: Callable[[Connection], T], name: str = "write") -> T:
        if self._connection is not None:
            return super()._write(work, name)
        changed: set[int] = set()
        written = Written()

        def noted(connection: Connection) -> T:
            written.clear()
            connection.info[_CHANGED], connection.info[_WRITTEN] = changed, written
            try:
                return work(connection)
            finally:
                with suppress(Exception):
                    # A lost connection has no `info` any more.
                    connection.info.pop(_CHANGED, None)
                    connection.info.pop(_WRITTEN, None)

        try:
            result = super()._write(noted, name)
        finally:
            self.cache.forget(changed)
        for txn_id, names in written.of_txns.items():
            self._written.add(txn_id, names)
        self.renew(written.names)
        return result

    def keep_written(self, txn_id: int) -> None:
        """Cache the new state of tables that a transaction of this process has changed. Call it after the commit."""
        self.renew(self._written.take(txn_id))

    def renew(self, written: Mapping[QualifiedName, WrittenTable]) -> None:
        """Cache the state of tables that this process has changed, after the commit. Subclasses define this method."""

    def _record_change(
        self,
        connection: Connection,
        type: EventType,
        table: StoredTable,
        given: ValidWriteIdList | StateOf | None,
        txn_id: int | None,
        message: Mapping[str, Any],
        *,
        was: StoredTable | None = None,
    ) -> None:
        name = (table.database, table.name)
        has_list = isinstance(given, ValidWriteIdList) or given is StateOf.OF_TXN
        named = WrittenTable(self.cache.lists_partitions(name), has_list)
        super()._record_change(connection, type, table, given, txn_id, message, was=was)
        if type is EventType.DROP_TABLE or not table.is_transactional:
            return
        written = connection.info.get(_WRITTEN)
        if txn_id is not None and written is None:
            self._written.add(txn_id, {name: named})
        elif written is not None:
            written.add(name, named, txn_id)

    def _record(
        self,
        connection: Connection,
        type: EventType,
        table: Table,
        valid_write_ids: ValidWriteIdList | None = None,
        txn_id: int | None = None,
        message: Mapping[str, Any] | None = None,
        *,
        with_own: bool = False,
    ) -> None:
        name = (table.database, table.name)
        if type is EventType.ADD_PARTITION and txn_id is not None and self._connection is not None:
            self._written.add(txn_id, {name: WrittenTable(self.cache.lists_partitions(name), has_list=False)})
        super()._record(connection, type, table, valid_write_ids, txn_id, message, with_own=with_own)
        if table.id is not None:
            connection.info.get(_CHANGED, set()).add(table.id)
            self.cache.forget([table.id])


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table that this process has changed.

    ``lists_partitions`` is true if readers list its partitions. ``has_list`` is true if the writer has passed a write
    id list with the change.
    """

    lists_partitions: bool
    has_list: bool

    def joined(self, other: WrittenTable | None) -> WrittenTable:
        """Return this change, merged with another change of the same table."""
        if other is None:
            return self
        return WrittenTable(self.lists_partitions or other.lists_partitions, self.has_list or other.has_list)


class Written:
    """The tables that one database transaction has changed.

    ``names`` has the changes that take effect with the commit of the database transaction. ``of_txns`` is a dict from
    open transaction to the changes that take effect with the commit of that transaction.
    """

    def __init__(self) -> None:
        self.names: dict[QualifiedName, WrittenTable] = {}
        self.of_txns: dict[int, dict[QualifiedName, WrittenTable]] = {}

    def clear(self) -> None:
        """Forget the changes of a failed attempt."""
        self.names.clear()
        self.of_txns.clear()

    def add(self, name: QualifiedName, table: WrittenTable, txn_id: int | None) -> None:
        """Record a change. Without ``txn_id`` the change commits together with the database transaction."""
        names = self.names if txn_id is None else self.of_txns.setdefault(txn_id, {})
        names[name] = table.joined(names.get(name))


class _OpenWrites:
    """The tables that open transactions have changed in this process. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: OrderedDict[int, dict[QualifiedName, WrittenTable]] = OrderedDict()

    def add(self, txn_id: int, names: Mapping[QualifiedName, WrittenTable]) -> None:
        """Record changes of a transaction."""
        with self._lock:
            noted = self._names.setdefault(txn_id, {})
            for name, table in names.items():
                noted[name] = table.joined(noted.get(name))
            if len(self._names) > _MOST_OPEN:
                self._names.popitem(last=False)

    def take(self, txn_id: int) -> Mapping[QualifiedName, WrittenTable]:
        """Return the changes of a transaction that has ended, and forget them."""
        with self._lock:
            return self._names.pop(txn_id, {})


def _chosen(
    whole: TableContents, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]
) -> TableContents:
    """Return the partitions of ``whole`` that match a predicate, with their copies on the given clusters."""
    return TableContents(
        whole.partitions if predicate is None else matching(whole.partitions, table.partition_keys, predicate),
        whole.directories,
        {cluster: found for cluster, found in whole.locations.items() if cluster in clusters},
        {cluster: found for cluster, found in whole.held.items() if cluster in clusters},
    )
