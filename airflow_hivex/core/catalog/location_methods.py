"""The places of external tables and of their partitions in the ObjectStore."""

from __future__ import annotations

from sqlalchemy import Connection

from airflow_hivex.core.catalog import copies, partitions, tables
from airflow_hivex.core.catalog.rows import partition_from_row
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.catalog.table_events import of_partitions, of_table
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.objects import MOVING_FOLDER, StoredTable


class LocationMethods(StorePart):
    """:meth:`set_location`, which ``RawStore`` does not have."""

    def set_location(self, database: str, name: str, location: str, partition: str | None = None) -> None:
        """Give an external table, or one of its partitions, another folder on the primary cluster. No file is moved.

        Copies on other clusters are withdrawn. As in Hive, the partitions of a table stay where they are.

        Raises:
            NoSuchTableError, NoSuchPartitionError: it does not exist.
            InvalidOperationError: the table is managed.
            InvalidObjectError: a managed table is there.
        """

        def work(connection: Connection) -> None:
            table = tables.select_table_for_change(connection, database, name)
            if not table.is_external:
                raise InvalidOperationError("SET LOCATION", table.full_name, "it is not an external table")
            tables.raise_versions(connection, [table.id])
            if partition is None:
                tables.update_location(connection, table, location)
                if not table.is_partitioned:
                    self._withdraw(connection, table, None, [copy.cluster for copy in table.storage.secondaries])
                changed = tables.select_table(connection, database, name)
                message = of_table(changed, was=changed.name)
                self._record_change(connection, EventType.ALTER_TABLE, changed, None, None, message)
                return
            row = partitions.select_partition(connection, table, partition)
            tables.check_partition_apart(connection, table, partition, location)
            partitions.update_location(connection, row.id, location)
            held = partitions.secondaries_of(connection, [row.id]).get(row.id, ())
            self._withdraw(connection, table, (row.id, partition), [copy.cluster for copy in held])
            changed_row = partitions.select_partition(connection, table, partition)
            message = of_partitions([partition_from_row(table, changed_row)])
            self._record_change(connection, EventType.ALTER_PARTITION, table, None, None, message)

        self._write(work)

    def move_folder(self, database: str, name: str, location: str) -> None:
        """Store that the folder of an external table has been moved, with all that is below it.

        Copies on other clusters are withdrawn: they lie where the folder was.

        Raises:
            NoSuchTableError: it does not exist.
            InvalidOperationError: the table is managed.
            InvalidObjectError: a managed table is there.
        """

        def work(connection: Connection) -> None:
            table = tables.select_table_for_change(connection, database, name)
            if not table.is_external:
                raise InvalidOperationError("SET LOCATION", table.full_name, "it is not an external table")
            tables.raise_versions(connection, [table.id])
            tables.update_location(connection, table, location)
            self._withdraw(connection, table, None, [copy.cluster for copy in table.storage.secondaries])
            names = partitions.move_below(connection, table, table.storage.primary.location, location)
            held = partitions.secondaries_of(connection, list(names))
            for partition_id, copies_of in held.items():
                of_partition = (partition_id, names[partition_id])
                self._withdraw(connection, table, of_partition, [copy.cluster for copy in copies_of])
            changed = tables.select_table(connection, database, name)
            message = of_table(changed, was=changed.name)
            self._record_change(connection, EventType.ALTER_TABLE, changed, None, None, message)

        self._write(work)

    def tables_with_moving_folders(self) -> list[tuple[str, str]]:
        """Return the database and name of each table whose folder a rename has begun to move. One round trip."""
        with self._read() as connection:
            return tables.names_with_parameter(connection, MOVING_FOLDER)

    def _withdraw(
        self, connection: Connection, table: StoredTable, partition: tuple[int, str] | None, clusters: list[str]
    ) -> None:
        for cluster in clusters:
            copies.drop_copies(connection, table, None if partition is None else [partition[0]], cluster)
            message = {"cluster": cluster, "partitions": None if partition is None else [partition[1]]}
            self._record(connection, EventType.UNREGISTER_COPY, table, None, None, message)
