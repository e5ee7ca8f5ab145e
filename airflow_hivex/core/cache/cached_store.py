"""CachedStore: the catalog with a cache in front of the database, also for readers that have only a write id list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from airflow_hivex.core.cache.cached_metadata_reader import CachedMetadata, WrittenTable
from airflow_hivex.core.cache.counting import Kind, Miss
from airflow_hivex.core.cache.valid_entries import Partitions
from airflow_hivex.core.catalog import partition_rows
from airflow_hivex.core.catalog.given_lists import GivenList, StateOf, check_has_list, checked_list
from airflow_hivex.core.errors import HivexError, NoSuchObjectError, NoSuchPartitionError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredPartition, StoredTable
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.store.batches import batches


class CachedStore(CachedMetadata):
    """The ObjectStore that answers from memory. Source: Hive CachedStore.

    If a reader's write id list sees the same commits as the cached entry, the entry answers without a query. Otherwise
    the database is queried, and the answer is cached with the current write id list of the database. A table without
    write ids is answered from memory while the notification log is followed. A read without a list queries the database
    for the current state.
    """

    def get_table(
        self, database: str, name: str, valid_write_ids: GivenList = StateOf.NOW, cluster: str | None = None
    ) -> StoredTable:
        """Return a table; see ``ObjectStore``. A cached table takes no round trip, another table takes one."""
        ids = checked_list(database, name, valid_write_ids)
        if isinstance(ids, StateOf) or self._connection is not None:
            return super().get_table(database, name, ids, cluster)
        named = (normalise(database), normalise(name))
        kept = self.cache.definition(named, ids, cluster)
        if kept is not None:
            return kept
        if not self.cache.lists.include(*named):
            return super().get_table(database, name, ids, cluster)
        return self._fill(named, ids, cluster)[1]

    def get_tables(
        self,
        database: str,
        names: Sequence[str],
        valid_write_ids: Mapping[str, GivenList] | None = None,
        cluster: str | None = None,
    ) -> list[StoredTable]:
        """Return the existing tables of these names, with a copy on ``cluster`` if it is given; see ``ObjectStore``.

        Only tables for which a write id list is given can come from memory. The other tables take one round trip if all
        of them exist.
        """
        given = {normalise(name): ids for name, ids in (valid_write_ids or {}).items()}
        wanted = dict.fromkeys(map(normalise, names))
        found: dict[str, StoredTable] = {}
        if self._connection is None:
            for name in wanted.keys() & given.keys():
                ids = checked_list(database, name, given[name])
                kept = (
                    None
                    if isinstance(ids, StateOf)
                    else self.cache.definition((normalise(database), name), ids, cluster)
                )
                if kept is not None:
                    found[name] = kept
            listed = [
                name for name in wanted if name not in found and not isinstance(given.get(name, StateOf.NOW), StateOf)
            ]
            found.update(self._fill_several(normalise(database), listed, given, cluster))
        missing = [name for name in wanted if name not in found]
        if missing:
            lists = {name: ids for name, ids in given.items() if name in missing}
            found.update((table.name, table) for table in super().get_tables(database, missing, lists, cluster))
        return sorted(found.values(), key=lambda table: table.name)

    def get_partition(
        self,
        database: str,
        table: str,
        values: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> StoredPartition:
        """Return the partition with these values; see ``ObjectStore``. A cached partition takes no round trip."""
        ids = checked_list(database, table, valid_write_ids)
        named = (normalise(database), normalise(table))
        if isinstance(ids, StateOf) or not self._keeps(named, cluster):
            return super().get_partition(database, table, values, ids, cluster)
        kept = self.cache.partitions(named, ids)
        if kept is not None:
            stored, found = kept
            partition = found.by_values.get(tuple(values)) or found.by_values.get(_spelled(stored, values))
            if partition is not None or found.is_complete:
                self.cache.count(named, Kind.PARTITIONS, None)
                if partition is None:
                    raise NoSuchPartitionError(stored.database, stored.name, partition_rows.name_of(stored, values))
                return partition
            self.cache.count(named, Kind.PARTITIONS, Miss.COLD)
        begun = self._begin()
        tag, stored = self._read_table(named, ids)
        partition = super().get_partition(database, table, values, ids)
        self.cache.put_definition(begun, stored, tag, is_used=True)
        self.cache.put_partitions(begun, stored, tag, [partition], is_complete=False)
        return partition

    def get_partitions(
        self,
        database: str,
        table: str,
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        batch_size: int = 1000,
        cluster: str | None = None,
    ) -> Iterator[list[StoredPartition]]:
        """Yield all partitions; see ``ObjectStore``. Cached partitions take no round trip."""
        kept = self._all_partitions(database, table, valid_write_ids, cluster)
        if kept is None:
            yield from super().get_partitions(database, table, valid_write_ids, batch_size=batch_size, cluster=cluster)
            return
        for batch in batches(list(kept[1].by_values.values()), batch_size):
            yield list(batch)

    def get_partitions_by_names(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]:
        """Return the existing partitions of these names; see ``ObjectStore``. Cached partitions take no round trip."""
        kept = self._all_partitions(database, table, valid_write_ids, cluster)
        if kept is None:
            return super().get_partitions_by_names(database, table, names, valid_write_ids, cluster)
        stored, found = kept
        wanted = dict.fromkeys(partition_values(partition_rows.spelled_name(stored, name)) for name in names)
        return sorted(
            (found.by_values[values] for values in wanted if values in found.by_values), key=lambda each: each.id
        )

    def get_partitions_by_expr(
        self,
        database: str,
        table: str,
        expr: Predicate | None,
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]:
        """Return the partitions whose rows can satisfy ``expr``; see ``ObjectStore``.

        Cached partitions take no round trip.
        """
        kept = self._all_partitions(database, table, valid_write_ids, cluster)
        if kept is None:
            return super().get_partitions_by_expr(database, table, expr, valid_write_ids, cluster)
        stored, found = kept
        return list(found.chosen(stored, expr))

    def list_partition_names(
        self,
        database: str,
        table: str,
        expr: Predicate | None = None,
        valid_write_ids: GivenList = StateOf.NOW,
    ) -> list[str]:
        """Return the names of partitions that can satisfy ``expr``; see ``ObjectStore``.

        Cached partitions take no round trip.
        """
        kept = self._all_partitions(database, table, valid_write_ids, None)
        if kept is None:
            return super().list_partition_names(database, table, expr, valid_write_ids)
        stored, found = kept
        if expr is None:
            return list(found.sorted_names())
        return sorted(each.name for each in found.chosen(stored, expr))

    def refresh(self, names: Sequence[QualifiedName]) -> None:
        """Read tables again that other processes have changed.

        The partitions of a table are also read if readers list them. A dropped table is removed from the cache. Each
        table takes one round trip, and its partitions take more.
        """
        for named in names:
            try:
                if self.cache.lists_partitions(named):
                    self._fill_partitions(named, StateOf.NOW)
                self._fill(named, StateOf.NOW, None)
            except NoSuchObjectError:
                self.cache.drop_named(*named)

    def renew(self, written: Mapping[QualifiedName, WrittenTable]) -> None:
        """Cache the new state of tables that this process has changed, with the write id list after the commit.

        A table is skipped if the settings exclude it from the cache. A table is also skipped if the follower does not
        run and the writer has not passed a write id list. After an error of the database, the next reader queries the
        database.
        """
        for named, table in written.items():
            if not self.cache.lists.include(*named) or not (table.has_list or self.cache.is_followed):
                continue
            with suppress(HivexError):
                if table.lists_partitions:
                    self._fill_partitions(named, StateOf.NOW)
                self._fill(named, StateOf.NOW, None)

    def prewarm_table(self, named: QualifiedName) -> None:
        """Read a table into the cache, with its partitions and their directories.

        Raises:
            NoSuchTableError: the table was dropped meanwhile.
        """
        begun = self._begin()
        taken = self._of_one_history([named])
        table = taken.tables[named]
        tag = self._tag(taken, table)
        self.cache.put_definition(begun, table, tag, {None: self._seen_from(table, None)}, is_used=True)
        if table.is_view:
            return
        if not table.is_partitioned:
            self._read_contents(taken, table, None)
        elif not self._has_many_partitions(table):
            found = [each for batch in super().get_partitions(*named) for each in batch]
            self.cache.put_partitions(begun, table, tag, found, is_complete=True)
            if table.is_transactional:
                self._read_contents(taken, table, None)

    def _keeps(self, named: QualifiedName, cluster: str | None) -> bool:
        """Return whether the cache keeps the partitions of a table. A read for one ``cluster`` is never cached."""
        if self._connection is not None:
            return False
        if cluster is not None or not self.cache.lists.include(*named):
            self.cache.count(named, Kind.PARTITIONS, Miss.NOT_CACHEABLE)
            return False
        return True

    def _begin(self) -> int:
        self.follow()
        return self.cache.begin()

    def _read_table(
        self, named: QualifiedName, ids: ValidWriteIdList | StateOf | None
    ) -> tuple[ValidWriteIdList | None, StoredTable]:
        """Return the current write id list and definition of a table from the database. One round trip."""
        taken = self._of_one_history([named])
        table = taken.tables[named]
        check_has_list(table, ids)
        return self._tag(taken, table), table

    def _fill(
        self, named: QualifiedName, ids: ValidWriteIdList | StateOf | None, cluster: str | None
    ) -> tuple[ValidWriteIdList | None, StoredTable]:
        """Read a table and cache it. Return its write id list, and the table as ``cluster`` sees it."""
        begun = self._begin()
        tag, table = self._read_table(named, ids)
        view = self._seen_from(table, cluster)
        self.cache.put_definition(begun, table, tag, {cluster: view}, is_used=True)
        return tag, view

    def _fill_several(
        self, database: str, names: Sequence[str], given: Mapping[str, GivenList], cluster: str | None
    ) -> dict[str, StoredTable]:
        """Read tables of a database and cache them.

        Return the tables with a copy on ``cluster``, as ``cluster`` sees them. Tables that do not exist are skipped. If
        a table is dropped during the call, the result can be empty.
        """
        wanted = [name for name in names if self.cache.lists.include(database, name)]
        if not wanted:
            return {}
        begun = self._begin()
        try:
            taken = self._of_one_history([(database, name) for name in wanted])
        except NoSuchObjectError:
            existing = [(database, table.name) for table in super().get_tables(database, wanted)]
            try:
                taken = self._of_one_history(existing)
            except NoSuchObjectError:
                return {}
        found = {}
        for table in taken.tables.values():
            check_has_list(table, checked_list(database, table.name, given[table.name]))
            if cluster is not None and table.storage.on(cluster) is None:
                continue
            found[table.name] = self._seen_from(table, cluster)
            views = {cluster: found[table.name]}
            self.cache.put_definition(begun, table, self._tag(taken, table), views, is_used=True)
        return found

    def _fill_partitions(
        self, named: QualifiedName, ids: ValidWriteIdList | StateOf | None
    ) -> tuple[StoredTable, Partitions] | None:
        """Read and cache all partitions of a table.

        Return the table and its partitions, or None if the table has no partitions or too many.
        """
        begun = self._begin()
        tag, table = self._read_table(named, ids)
        if not table.is_partitioned or self._has_many_partitions(table):
            return None
        found = [each for batch in super().get_partitions(*named) for each in batch]
        self.cache.put_definition(begun, table, tag, is_used=True)
        self.cache.put_partitions(begun, table, tag, found, is_complete=True)
        return table, Partitions({each.values: each for each in found}, is_complete=True)

    def _all_partitions(
        self, database: str, table: str, valid_write_ids: GivenList, cluster: str | None
    ) -> tuple[StoredTable, Partitions] | None:
        """Return a table and all its partitions, from memory if possible.

        Return None if the caller must query the database.
        """
        ids = checked_list(database, table, valid_write_ids)
        named = (normalise(database), normalise(table))
        if isinstance(ids, StateOf) or not self._keeps(named, cluster):
            return None
        kept = self.cache.partitions(named, ids)
        if kept is not None and kept[1].is_complete:
            self.cache.count(named, Kind.PARTITIONS, None)
            return kept
        if kept is not None:
            self.cache.count(named, Kind.PARTITIONS, Miss.COLD)
        return self._fill_partitions(named, ids)


def _spelled(table: StoredTable, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(partition_values(partition_rows.name_of(table, values)))
