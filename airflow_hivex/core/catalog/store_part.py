"""The common base class of the parts of the ObjectStore: locations for a cluster, changes, and events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.catalog import link_rows
from airflow_hivex.core.catalog.given_lists import StateOf, list_or_none
from airflow_hivex.core.catalog.link_rows import record_link_event
from airflow_hivex.core.catalog.table_events import record_table_event
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import NotOnClusterError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, StoredTable, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.store.engine import JoinsTransactions, Store
from airflow_hivex.core.transactions import allocation, single_changes, table_names
from airflow_hivex.core.transactions.txn_rows import check_open

T = TypeVar("T")

EndCompactions: TypeAlias = Callable[[Connection, Collection[int], Collection[str] | None, int], None]
"""A function that ends the queued compactions of dropped tables, or of dropped partitions of one table."""


class StorePart(JoinsTransactions):
    """The base class of the parts of :class:`~airflow_hivex.core.catalog.object_store.ObjectStore`."""

    def __init__(self, store: Store, clusters: Clusters, clock: Clock, end_compactions: EndCompactions) -> None:
        super().__init__(store)
        self._clusters = clusters
        self._clock = clock
        self._end_compactions = end_compactions

    @property
    def _default_cluster(self) -> Cluster:
        return self._clusters.get(self._clusters.default)

    def _seen_from(self, table: StoredTable, cluster: str | None) -> StoredTable:
        """Return the table with its location on ``cluster``. None means the location for a client without a cluster.

        A view has no location. Source: docs/reference/clusters.md, M3.
        """
        if table.is_view:
            if cluster is not None:
                self._clusters.get(cluster)
            return table
        copy = self._visible_copy(table.storage.primary, table.storage.secondaries, cluster, table.full_name)
        return table.with_location(self._uri(copy))

    def _uri(self, copy: ClusterStorageDescriptor) -> str:
        # A cluster may have been removed from the configuration: its tables can still be listed.
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

    def _drop_links(self, connection: Connection, found: Sequence[Link]) -> None:
        link_rows.delete_links(connection, [link.id for link in found])
        for link in found:
            record_link_event(connection, self._clock(), EventType.DROP_LINK, link)

    def _write_as(self, txn_id: int | None, work: Callable[[Connection], T]) -> T:
        """Call ``work``, which changes a table, in a database transaction, and return its result.

        If ``txn_id`` is given, this transaction must be open, and cannot end before ``work`` is done.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
        """

        def checked(connection: Connection) -> T:
            # A commit also locks the transaction's row before the table's row.
            if txn_id and self._connection is None:
                check_open(connection, txn_id)
            return work(connection)

        return self._write(checked)

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
        """Record the event of a change of a definition or of partitions. The change of a managed table has a write id.

        The write id belongs to the transaction ``txn_id``. If ``txn_id`` is None, a separate transaction for the change
        is opened and committed here. The event has the write id list ``given``, in which this write id counts as
        committed. If no list is given, the event has the transaction's list. ``was`` is the table before the change, if
        the change can rename the table. Call this method last in a database transaction.

        Raises:
            TransactionNotOpenError: the transaction is not open, or is read-only.
        """
        write_ids = list_or_none(given)
        before = table if was is None else was
        if not (table.is_transactional or before.is_transactional):
            self._record(connection, type, table, write_ids, txn_id, message)
            return
        has_other_name = (before.database, before.name) != (table.database, table.name)
        begins = has_other_name or not before.is_transactional
        first = table_names.next_of(connection, (table.database, table.name)) if begins else 1
        own_id = single_changes.open_in(connection, self._clock()) if txn_id is None else None
        writer = txn_id if own_id is None else own_id
        assert writer is not None
        if first == 1:
            allocation.allocate_later(connection, writer, table.id)
        else:
            single_changes.take_write_id(connection, writer, table.id, first)
        if own_id is None:
            self._record(connection, type, table, write_ids, writer, message, with_own=True)
        else:
            # In the log the change comes before its commit, also within a commit of the caller.
            with notification_log.at_once(connection):
                self._record(connection, type, table, write_ids, writer, message, with_own=True)
            single_changes.commit_in(connection, self._clock, writer)
        if has_other_name:
            table_names.leave_names(connection, [before], self._clock())

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
        record_table_event(connection, self._clock(), type, table, valid_write_ids, txn_id, message, with_own=with_own)
