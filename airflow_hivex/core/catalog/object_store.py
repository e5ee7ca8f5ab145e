"""The ObjectStore: databases, functions, tables and partitions in the metastore database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from airflow_hivex.core.catalog import loaded_files, table_rows
from airflow_hivex.core.catalog.copies import CopyMethods
from airflow_hivex.core.catalog.databases import DatabaseMethods
from airflow_hivex.core.catalog.functions import FunctionMethods
from airflow_hivex.core.catalog.partitions import PartitionMethods
from airflow_hivex.core.catalog.registration import Registration, register
from airflow_hivex.core.catalog.table_events import of_compaction, of_partitions, of_table
from airflow_hivex.core.catalog.tables import TableMethods
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.loads import LoadedFile
from airflow_hivex.core.model.plans import WrittenDirectory


class ObjectStore(DatabaseMethods, FunctionMethods, TableMethods, PartitionMethods, CopyMethods):
    """The service that reads and writes the catalog in the metastore database. Source: Hive RawStore.

    Its subclasses add a cache. In a read, ``valid_write_ids`` is the query's write id list for the table, as a value or
    as text. A cache compares this list with the list of its entry. By default a read returns the current state. None
    says that the caller has no list: a read of a transactional table is refused, and a read of any other table is
    allowed and can be answered by a cache.

    In a write, ``valid_write_ids`` is the list of the writer. A write on a managed table takes a write id of the
    transaction ``txn_id``, or of a transaction that is opened and committed together with the write. The event of the
    change has the writer's list, in which this write id counts as committed.

    ``cluster`` is the cluster of a session after USE CLUSTER. By default a client sees the location on the default
    cluster, or on the primary if the default cluster has no copy (docs/reference/clusters.md, M3 and S5).

    A change and its event are one database transaction. After :meth:`joining` they are part of the caller's database
    transaction. Returned locations are full URIs. A location in an argument is a URI, a path relative to the cluster's
    file system, or empty for the default location.
    """

    def register(self, *registrations: Registration) -> None:
        """Register the new partitions and directories of a transaction, as part of its commit.

        Raises:
            NoSuchTableError, NoSuchPartitionError: a table or partition was dropped meanwhile.
            InvalidOperationError: the row layout of a streaming batch has changed.
            QuotaExceededError: a namespace would have more bytes than its quota after all registrations.
        """
        self._write(lambda connection: self._register(connection, registrations))

    def record_loaded_files(
        self, txn_id: int, table_id: int, files: Sequence[LoadedFile], written: Sequence[WrittenDirectory]
    ) -> None:
        """Record that a transaction has loaded files into a table, as part of its commit.

        ``written`` are the directories with the rows of the files.
        """
        rows = sum(each.rows for each in written)
        self._write(lambda connection: loaded_files.record(connection, table_id, txn_id, files, rows, self._clock()))

    def _register(self, connection: Connection, registrations: Sequence[Registration]) -> None:
        added = register(connection, registrations, self._clock())
        for registration, ids in zip(registrations, added, strict=True):
            self._record_registration(connection, registration, ids)

    def _record_registration(self, connection: Connection, registration: Registration, added: Sequence[int]) -> None:
        table, txn_id = registration.table, registration.txn_id
        if registration.reveals_table:
            (stored,) = table_rows.select_tables_by_id(connection, [table.id])
            self._record(connection, EventType.CREATE_TABLE, stored, None, txn_id, of_table(stored))
        if added:
            message = of_partitions(self._stored(connection, table, added))
            self._record(connection, EventType.ADD_PARTITION, table, None, txn_id, message)
        if registration.replaces:
            message = of_compaction(registration.partitions, [each.name for each in registration.directories])
            self._record(connection, EventType.COMMIT_COMPACTION, table, None, txn_id, message)
