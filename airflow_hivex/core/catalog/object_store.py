"""ObjectStore: the RawStore that reads and writes the metastore database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.copies import CopyMethods
from airflow_hivex.core.catalog.databases import DatabaseMethods
from airflow_hivex.core.catalog.functions import FunctionMethods
from airflow_hivex.core.catalog.partitions import PartitionMethods
from airflow_hivex.core.catalog.registration import Registration, register
from airflow_hivex.core.catalog.table_events import of_compaction, of_partitions, of_table
from airflow_hivex.core.catalog.tables import TableMethods
from airflow_hivex.core.events.notification_log import EventType


class ObjectStore(DatabaseMethods, FunctionMethods, TableMethods, PartitionMethods, CopyMethods):
    """Databases, functions, tables and partitions in the metastore database. See ``RawStore`` for the interface.

    Every change is one database transaction together with its event; changes through :meth:`joining` are part of the
    caller's transaction instead. Returned locations are full URIs; locations in arguments may be URIs, or relative to
    the cluster's file system, or empty for the default place.
    """

    def register(self, *registrations: Registration) -> None:
        """Register the new partitions and directories of a transaction, in its commit.

        Raises:
            NoSuchTableError, NoSuchPartitionError: a table or partition was dropped meanwhile.
            InvalidOperationError: the row layout of a streaming batch has changed.
            QuotaExceededError: a namespace would have more bytes than its quota after all registrations.
        """
        self._write(lambda connection: self._register(connection, registrations))

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
