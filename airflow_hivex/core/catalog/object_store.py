"""ObjectStore: the RawStore that reads and writes the metastore database."""

from __future__ import annotations

from sqlalchemy import Connection

from airflow_hivex.core.catalog import tables
from airflow_hivex.core.catalog.copy_methods import CopyMethods
from airflow_hivex.core.catalog.database_methods import DatabaseMethods
from airflow_hivex.core.catalog.partition_methods import PartitionMethods
from airflow_hivex.core.catalog.registration import Registration, register
from airflow_hivex.core.catalog.table_events import of_compaction, of_partitions, of_table
from airflow_hivex.core.catalog.table_methods import TableMethods
from airflow_hivex.core.events.notification_log import EventType


class ObjectStore(DatabaseMethods, TableMethods, PartitionMethods, CopyMethods):
    """Databases, tables and partitions in the metastore database. See ``RawStore`` for the interface.

    Every change is one database transaction together with its event; those of :meth:`joining` are part
    of the caller's transaction instead. Locations that come back are full URIs; locations that are given
    may be URIs, or relative to the cluster's file system, or empty for the default place.
    """

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
