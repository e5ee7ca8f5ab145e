"""The methods of the ObjectStore for partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from airflow_hivex.core.catalog import directories, history, link_rows, partition_rows, table_rows
from airflow_hivex.core.catalog.given_lists import GivenList, StateOf, check_has_list, check_writer, checked_list
from airflow_hivex.core.catalog.link_rows import record_link_event
from airflow_hivex.core.catalog.partition_rows import DroppedPartition
from airflow_hivex.core.catalog.pruning import find_partitions
from airflow_hivex.core.catalog.rows import partition_from_row
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.catalog.table_events import of_partitions
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchPartitionError,
)
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.links import LinkName
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Partition, StoredPartition, StoredTable, Table
from airflow_hivex.core.model.predicates import Predicate, Value
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.store.batches import batches

log = logging.getLogger(__name__)


class PartitionMethods(StorePart):
    """The methods of ``ObjectStore`` for partitions."""

    def new_partition(self, table: Table, values: Sequence[Value], location: str = "") -> Partition:
        """Return a partition of ``table`` as an argument for :meth:`add_partitions`. Nothing is stored.

        Raises:
            InvalidObjectError: the values do not fit the table's partition keys.
        """
        texts = partition_rows.stored_values(table.full_name, table.partition_keys, values)
        return Partition(table.database, table.name, texts, partition_rows.name_of(table, texts), location)

    def add_partitions(
        self,
        database: str,
        table: str,
        new: Sequence[Partition],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        if_not_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[str]:
        """Add all of the partitions, or none after an error, and return the names of the added partitions.

        Raises:
            AlreadyExistsError: a partition exists already and ``if_not_exists`` is false.
            InvalidObjectError: values do not fit the keys, or a location overlaps the folder of a managed table.
            LocationOutsideClusterError: a location is not on the table's primary cluster.
        """
        write_ids = checked_list(database, table, valid_write_ids)

        def work(connection: Connection) -> list[str]:
            stored = self._partitioned(connection, database, table, "ADD PARTITION", write_ids, for_change=True)
            by_name = {partition_rows.name_of(stored, partition.values): partition for partition in new}
            existing = partition_rows.partition_ids(connection, stored, list(by_name))
            names = partition_rows.new_partition_names(stored, new, existing, if_not_exists)
            places = {name: self._place(stored, by_name[name]) for name in names}
            for name, place in places.items():
                if place:
                    table_rows.check_partition_apart(connection, stored, name, place)
            added = partition_rows.insert_partitions(
                connection, stored, places, self._clock(), {name: by_name[name] for name in names}
            )
            lost = sorted(set(names) - set(added))
            if lost and not if_not_exists:
                raise AlreadyExistsError("partition", f"{stored.full_name} {lost[0]}")
            if added:
                table_rows.raise_versions(connection, [stored.id])
                message = of_partitions(self._stored(connection, stored, added.values()))
                self._record_change(connection, EventType.ADD_PARTITION, stored, write_ids, txn_id, message)
            return sorted(added)

        return self._write_as(txn_id, work)

    def _place(self, table: Table, partition: Partition) -> str:
        """Return the location of a new partition, relative to the primary cluster's file system.

        The location is empty for the default location.
        """
        self._check_primary(table, partition)
        cluster = self._clusters.get(table.storage.primary.cluster)
        location = partition.location
        if partition.storage is not None:
            location = location or partition.storage.primary.location
        return cluster.relative(location) if location else ""

    @staticmethod
    def _check_primary(table: Table, partition: Partition) -> None:
        """Refuse a partition whose own storage descriptor names another primary cluster than that of its table.

        Raises:
            InvalidObjectError: the partition names another primary cluster.
        """
        primary = table.storage.primary.cluster
        if partition.storage is not None and partition.storage.primary.cluster != primary:
            reason = f"its primary copy is on {primary}, as its table's"
            raise InvalidObjectError("partition", f"{table.full_name} {partition.name}", reason)

    def get_partition(
        self,
        database: str,
        table: str,
        values: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> StoredPartition:
        """Return the partition with these values.

        Raises:
            NoSuchPartitionError: the table has no such partition.
            NotOnClusterError: the partition has no copy on ``cluster``.
        """
        write_ids = checked_list(database, table, valid_write_ids)
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partition", write_ids)
            row = partition_rows.select_partition(connection, stored, partition_rows.name_of(stored, values))
            secondaries = partition_rows.secondaries_of(connection, [row.id])
            return self._partition_seen_from(stored, row, secondaries.get(row.id, ()), cluster)

    def get_partitions(
        self,
        database: str,
        table: str,
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        batch_size: int = 1000,
        cluster: str | None = None,
    ) -> Iterator[list[StoredPartition]]:
        """Yield lists of up to ``batch_size`` partitions of a table.

        If ``cluster`` is given, only partitions with a copy there are returned.
        """
        write_ids = checked_list(database, table, valid_write_ids)
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partitions", write_ids)
            ids = [row.id for row in find_partitions(connection, stored)]
        for batch in batches(ids, batch_size):
            with self._read() as connection:
                yield self._load(connection, stored, batch, cluster)

    def get_partitions_by_names(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]:
        """Return the partitions that exist among ``names``, sorted by id.

        If ``cluster`` is given, only partitions with a copy there are returned.
        """
        write_ids = checked_list(database, table, valid_write_ids)
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partitions_by_names", write_ids)
            ids = partition_rows.partition_ids(
                connection, stored, [partition_rows.spelled_name(stored, name) for name in names]
            )
            return self._load(connection, stored, sorted(ids.values()), cluster)

    def get_partitions_by_expr(
        self,
        database: str,
        table: str,
        expr: Predicate | None,
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]:
        """Return the partitions whose rows can satisfy ``expr``.

        If ``cluster`` is given, only partitions with a copy there are returned.
        """
        write_ids = checked_list(database, table, valid_write_ids)
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "get_partitions_by_expr", write_ids)
            ids = [row.id for row in find_partitions(connection, stored, expr)]
            return self._load(connection, stored, ids, cluster)

    def list_partition_names(
        self,
        database: str,
        table: str,
        expr: Predicate | None = None,
        valid_write_ids: GivenList = StateOf.NOW,
    ) -> list[str]:
        """Return the sorted names of the partitions whose rows can satisfy ``expr``.

        Raises:
            InvalidOperationError: the table has no partition keys.
        """
        write_ids = checked_list(database, table, valid_write_ids)
        with self._read() as connection:
            stored = self._partitioned(connection, database, table, "SHOW PARTITIONS", write_ids)
            return sorted(row.name for row in find_partitions(connection, stored, expr))

    def drop_partitions(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        if_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[StoredPartition]:
        """Drop all of the partitions, or none after an error, and return them.

        The files stay. Delete the files, and then call :meth:`forget_partitions`. Links do not show the partitions any
        more.

        Raises:
            NoSuchPartitionError: a partition does not exist and ``if_exists`` is false.
        """
        write_ids = checked_list(database, table, valid_write_ids)

        def work(connection: Connection) -> list[StoredPartition]:
            stored = self._partitioned(connection, database, table, "DROP PARTITION", write_ids, for_change=True)
            ids = partition_rows.partition_ids(connection, stored, names)
            missing = [name for name in names if name not in ids]
            if missing and not if_exists:
                raise NoSuchPartitionError(stored.database, stored.name, missing[0])
            dropped = self._load(connection, stored, list(ids.values()), None)
            gone = self._stored(connection, stored, ids.values())
            lost = link_rows.forget_dropped(connection, list(ids.values()))
            partition_rows.mark_dropped(connection, list(ids.values()), self._clock())
            self._end_compactions(connection, [stored.id], list(ids), self._clock())
            if dropped:
                table_rows.raise_versions(connection, [stored.id])
                history.begin_with(connection, stored.id, txn_id, self._clock())
                message = of_partitions(gone)
                self._record_change(connection, EventType.DROP_PARTITION, stored, write_ids, txn_id, message)
            if lost:
                self._record_lost(connection, stored, lost)
            return dropped

        return self._write_as(txn_id, work)

    def _record_lost(self, connection: Connection, table: StoredTable, lost: Mapping[LinkName, Sequence[str]]) -> None:
        """Record an event for each static link that has lost partitions because they were dropped from its source."""
        for link in link_rows.describe_links(connection, link_rows.links_to([table.id])):
            if link.name in lost:
                names = lost[link.name]
                log.warning("Link %s has lost partitions that %s dropped: %s", link.name, table.full_name, names)
                record_link_event(connection, self._clock(), EventType.ALTER_LINK, link, removed=names)

    def alter_partitions(
        self,
        database: str,
        table: str,
        changed: Sequence[Partition],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        txn_id: int | None = None,
    ) -> list[StoredPartition]:
        """Store the parameters, storage descriptors and last access times of partitions, and return the partitions.

        All partitions are changed, or none after an error. Partitions are found by their values; only
        :meth:`rename_partition` changes values. Locations stay. A partition that is given without a storage descriptor
        uses the storage descriptor of its table from now on.

        Raises:
            NoSuchPartitionError: a partition does not exist.
            InvalidObjectError: a partition is given twice, or its primary copy would be on another cluster.
        """
        write_ids = checked_list(database, table, valid_write_ids)

        def work(connection: Connection) -> list[StoredPartition]:
            stored = self._partitioned(connection, database, table, "ALTER PARTITION", write_ids, for_change=True)
            by_name: dict[str, Partition] = {}
            for each in changed:
                name = partition_rows.name_of(stored, each.values)
                if name in by_name:
                    raise InvalidObjectError("partition", f"{stored.full_name} {name}", "it is given twice")
                self._check_primary(stored, each)
                by_name[name] = each
            ids = partition_rows.partition_ids(connection, stored, list(by_name))
            missing = [name for name in by_name if name not in ids]
            if missing:
                raise NoSuchPartitionError(stored.database, stored.name, missing[0])
            if ids:
                partition_rows.update_partitions(connection, {ids[name]: each for name, each in by_name.items()})
                table_rows.raise_versions(connection, [stored.id])
                message = of_partitions(self._stored(connection, stored, ids.values()))
                self._record_change(connection, EventType.ALTER_PARTITION, stored, write_ids, txn_id, message)
            return self._load(connection, stored, sorted(ids.values()), None)

        return self._write_as(txn_id, work)

    def rename_partition(
        self,
        database: str,
        table: str,
        name: str,
        new_name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        txn_id: int | None = None,
    ) -> int | None:
        """Change the values of a partition, and thereby its name.

        In a managed table the location changes with the name, and the caller must copy the files. The former name is
        recorded as a dropped partition, which :meth:`forget_partitions` removes. Return the id of this dropped
        partition, or None if the location stays.

        Raises:
            NoSuchPartitionError: the partition does not exist.
            AlreadyExistsError: another partition has the new name.
        """
        write_ids = checked_list(database, table, valid_write_ids)

        def work(connection: Connection) -> int | None:
            stored = self._partitioned(connection, database, table, "RENAME PARTITION", write_ids, for_change=True)
            row = partition_rows.select_partition(connection, stored, name)
            if not partition_rows.partition_ids(connection, stored, [new_name]):
                # Rows of a partition of that name that an earlier release has dropped.
                self._end_compactions(connection, [stored.id], [new_name], self._clock())
            moves = partition_rows.rename_partition(connection, stored, row, new_name)
            left = partition_rows.leave_former_name(connection, row, self._clock()) if moves else None
            table_rows.raise_versions(connection, [stored.id])
            history.begin_with(connection, stored.id, txn_id, self._clock())
            message = of_partitions(self._stored(connection, stored, [row.id]), was=name)
            self._record_change(connection, EventType.ALTER_PARTITION, stored, write_ids, txn_id, message)
            return left

        return self._write_as(txn_id, work)

    def forget_partitions(self, dropped: Sequence[StoredPartition | DroppedPartition]) -> None:
        """Remove the rows of dropped partitions after their files are deleted. Safe to repeat."""
        self._write(
            lambda connection: directories.forget_partitions(connection, [partition.id for partition in dropped])
        )

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
        secondaries: Mapping[int, Sequence[ClusterStorageDescriptor]] = partition_rows.secondaries_of(connection, ids)
        everywhere = cluster is None or cluster == table.storage.primary.cluster
        return [
            self._partition_seen_from(table, row, secondaries.get(row.id, ()), cluster)
            for row in partition_rows.select_partitions(connection, ids)
            if everywhere or any(copy.cluster == cluster for copy in secondaries.get(row.id, ()))
        ]

    def _partitioned(
        self,
        connection: Connection,
        database: str,
        name: str,
        operation: str,
        ids: ValidWriteIdList | StateOf | None,
        *,
        for_change: bool = False,
    ) -> StoredTable:
        find = table_rows.select_table_for_change if for_change else table_rows.select_table
        table = find(connection, database, name)
        if for_change:
            check_writer(connection, table, ids)
        else:
            check_has_list(table, ids)
        if not table.is_partitioned:
            raise InvalidOperationError(operation, table.full_name, "the table has no partition keys")
        return table

    @staticmethod
    def _stored(connection: Connection, table: Table, ids: Iterable[int]) -> list[StoredPartition]:
        """Return the partitions with the given ids. Their locations are relative, as in the database."""
        return [partition_from_row(table, row) for row in partition_rows.select_partitions(connection, sorted(ids))]
