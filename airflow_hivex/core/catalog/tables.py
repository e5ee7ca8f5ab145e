"""The methods of the ObjectStore for tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog import (
    capacity,
    copy_rows,
    database_rows,
    directories,
    link_rows,
    partition_rows,
    table_rows,
)
from airflow_hivex.core.catalog.given_lists import GivenList, StateOf, check_has_list, check_writer, checked_list
from airflow_hivex.core.catalog.rows import partition_from_row
from airflow_hivex.core.catalog.snapshot_rows import table_calls
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.catalog.table_events import of_partitions, of_table
from airflow_hivex.core.errors import InvalidOperationError, LinkedTableError, NoSuchDatabaseError, NoSuchTableError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import MOVING_FOLDER, ClusterStorageDescriptor, StoredTable, Table, TableType
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.transactions import commit_record, table_names


class TableMethods(StorePart):
    """The methods of ``ObjectStore`` for tables."""

    def create_table(
        self,
        table: Table,
        valid_write_ids: GivenList = StateOf.NOW,
        txn_id: int | None = None,
        *,
        database: Any = None,
    ) -> StoredTable:
        """Add a table and return it as stored.

        ``database`` is the row of the table's database, if the caller has read the row under the lock of the statement.

        Raises:
            AlreadyExistsError: a table of that name exists.
            NoSuchDatabaseError: the table's database does not exist.
            UnknownClusterError, LocationOutsideClusterError: the location is not on a configured cluster.
            InvalidWriteIdListError, MissingWriteIdListError: the list does not belong to the table.
        """
        write_ids = checked_list(table.database, table.name, valid_write_ids)
        check_has_list(table, write_ids)
        cluster = self._clusters.get(table.storage.primary.cluster)
        location = cluster.relative(table.storage.primary.location) if table.storage.primary.location else ""
        placed = replace(
            table, storage=replace(table.storage, primary=ClusterStorageDescriptor(cluster.name, location))
        )

        def work(connection: Connection) -> StoredTable:
            stored = table_rows.insert_table(connection, placed, self._clock(), database=database)
            self._record_change(connection, EventType.CREATE_TABLE, stored, write_ids, txn_id, of_table(stored))
            return self._seen_from(stored, None)

        return self._write_as(txn_id, work)

    def get_table(
        self,
        database: str,
        name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> StoredTable:
        """Return a table. One round trip.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: the table does not exist.
            UnknownClusterError: ``cluster`` is not configured.
            NotOnClusterError: the table has no copy on ``cluster``.
            InvalidWriteIdListError, MissingWriteIdListError: the list does not belong to the table.
        """
        write_ids = checked_list(database, name, valid_write_ids)
        calls = table_calls([(normalise(database), normalise(name))])
        *rows, databases = self._store.ask(*calls, database_rows.finding(database), connection=self._connection)
        found = table_rows.tables_from_rows(*rows)
        if not found:
            if not databases:
                raise NoSuchDatabaseError(normalise(database))
            raise NoSuchTableError(normalise(database), normalise(name))
        check_has_list(found[0], write_ids)
        return self._seen_from(found[0], cluster)

    def get_tables(
        self,
        database: str,
        names: Sequence[str],
        valid_write_ids: Mapping[str, GivenList] | None = None,
        cluster: str | None = None,
    ) -> list[StoredTable]:
        """Return the tables that exist among ``names``, sorted by name.

        If ``cluster`` is given, only tables with a copy there are returned. ``valid_write_ids`` is a dict from name to
        write id list, for some of the tables.

        Raises:
            InvalidWriteIdListError, MissingWriteIdListError: a list does not belong to its table.
        """
        lists = {normalise(name): checked_list(database, name, ids) for name, ids in (valid_write_ids or {}).items()}
        with self._read() as connection:
            wanted = [(normalise(database), normalise(name)) for name in names]
            found = [table for batch in batches(wanted, 1000) for table in table_rows.select_tables(connection, batch)]
        for table in found:
            check_has_list(table, lists.get(table.name, StateOf.NOW))
        present = [table for table in found if cluster is None or table.storage.on(cluster)]
        return sorted((self._seen_from(table, cluster) for table in present), key=lambda table: table.name)

    def alter_table(
        self,
        database: str,
        name: str,
        table: Table | Callable[[StoredTable], Table],
        valid_write_ids: GivenList = StateOf.NOW,
        txn_id: int | None = None,
    ) -> StoredTable:
        """Store a changed table, and return the table. The location stays.

        ``table`` can be a function that gets the current table, and returns the changed table. The database, name,
        owner, comment, columns and parameters can change.

        Raises:
            NoSuchTableError, NoSuchDatabaseError: the table, or its new database, does not exist.
            AlreadyExistsError: another table has the new name.
            InvalidOperationError: the change would move the table to another cluster.
            LinkedTableError: links show the table, and the change would move it to another database.
            QuotaExceededError: the new database would have more bytes than its quota.
            InvalidWriteIdListError, MissingWriteIdListError: the list does not belong to the table.
        """
        write_ids = checked_list(database, name, valid_write_ids)

        def work(connection: Connection) -> StoredTable:
            stored = table_rows.select_table_for_change(connection, database, name)
            check_writer(connection, stored, write_ids)
            wanted = table(self._seen_from(stored, None)) if callable(table) else table
            if wanted.storage.primary.cluster != stored.storage.primary.cluster:
                raise InvalidOperationError("ALTER TABLE", stored.full_name, "this does not change the primary cluster")
            placed = replace(
                wanted,
                storage=replace(wanted.storage, primary=stored.storage.primary, secondaries=stored.storage.secondaries),
            )
            if normalise(wanted.database) == stored.database:
                table_rows.update_table(connection, stored, placed)
            else:
                self._move_to_database(connection, stored, placed)
            if placed.columns != stored.columns:
                commit_record.note_columns(connection, stored.id, stored.columns)
            changed = table_rows.select_table(connection, wanted.database, wanted.name)
            others = {} if changed.database == stored.database else {"was_database": stored.database}
            message = of_table(changed, was=stored.name, **others)
            self._record_change(connection, EventType.ALTER_TABLE, changed, write_ids, txn_id, message, was=stored)
            return self._seen_from(changed, None)

        return self._write_as(txn_id, work)

    def _move_to_database(self, connection: Connection, stored: StoredTable, table: Table) -> None:
        """Move a table to another database. The bytes of the table then count for the quotas of the new database."""
        found = link_rows.describe_links(connection, link_rows.links_to([stored.id]))
        if found:
            raise LinkedTableError("ALTER TABLE RENAME", stored.full_name, [str(link.name) for link in found])
        target = database_rows.select_database(connection, table.database)
        clusters = [copy.cluster for copy in (stored.storage.primary, *stored.storage.secondaries)]
        uses = [
            capacity.lock_use_of(connection, target.id, target.name, cluster) for cluster in sorted({*clusters} - {""})
        ]
        table_rows.update_table(connection, stored, table)
        for use in uses:
            capacity.check_use(connection, use)

    def drop_table(
        self,
        database: str,
        name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        txn_id: int | None = None,
        *,
        cascade: bool = False,
    ) -> StoredTable:
        """Drop a table and return it. Its files stay.

        Delete the files, and then call :meth:`forget_tables`. ``cascade`` also drops the links that show the table.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: the table does not exist.
            LinkedTableError: links show the table and ``cascade`` is false.
            InvalidWriteIdListError, MissingWriteIdListError: the list does not belong to the table.
        """
        write_ids = checked_list(database, name, valid_write_ids)

        def work(connection: Connection) -> StoredTable:
            table = table_rows.select_table_for_change(connection, database, name)
            check_writer(connection, table, write_ids)
            found = link_rows.describe_links(connection, link_rows.links_to([table.id]))
            if found and not cascade:
                raise LinkedTableError("DROP TABLE", table.full_name, [str(link.name) for link in found])
            self._drop_links(connection, found)
            table_rows.mark_dropped(connection, [table.id], self._clock())
            self._end_compactions(connection, [table.id], None, self._clock())
            self._record_change(connection, EventType.DROP_TABLE, table, write_ids, txn_id, of_table(table))
            table_names.leave_names(connection, [table], self._clock())
            return table

        return self._write_as(txn_id, work)

    def forget_tables(self, dropped: Sequence[StoredTable]) -> None:
        """Remove the rows of dropped tables. Call it after the files were deleted. Safe to repeat."""
        self._write(lambda connection: directories.forget_tables(connection, [table.id for table in dropped]))

    def list_tables(self, database: str, pattern: str | None = None, type: TableType | None = None) -> list[str]:
        """Return the sorted names of tables and views in a database that match a SHOW pattern and, if given, a type.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        with self._read() as connection:
            return table_rows.select_table_names(connection, database, pattern, type)

    def set_location(self, database: str, name: str, location: str, partition: str | None = None) -> None:
        """Store a new location of an external table, or of one of its partitions, on the primary cluster.

        No file is moved. Copies on other clusters are withdrawn. As in Hive, a new location of the table does not
        change the locations of its partitions.

        Raises:
            NoSuchTableError, NoSuchPartitionError: the table or partition does not exist.
            InvalidOperationError: the table is managed.
            InvalidObjectError: the location belongs to a managed table.
        """

        def work(connection: Connection) -> None:
            table = table_rows.select_table_for_change(connection, database, name)
            if not table.is_external:
                raise InvalidOperationError("SET LOCATION", table.full_name, "it is not an external table")
            table_rows.raise_versions(connection, [table.id])
            if partition is None:
                table_rows.update_location(connection, table, location)
                if not table.is_partitioned:
                    self._withdraw(connection, table, None, [copy.cluster for copy in table.storage.secondaries])
                changed = table_rows.select_table(connection, database, name)
                message = of_table(changed, was=changed.name)
                self._record_change(connection, EventType.ALTER_TABLE, changed, None, None, message)
                return
            row = partition_rows.select_partition(connection, table, partition)
            table_rows.check_partition_apart(connection, table, partition, location)
            partition_rows.update_location(connection, row.id, location)
            held = partition_rows.secondaries_of(connection, [row.id]).get(row.id, ())
            self._withdraw(connection, table, (row.id, partition), [copy.cluster for copy in held])
            changed_row = partition_rows.select_partition(connection, table, partition)
            message = of_partitions([partition_from_row(table, changed_row)])
            self._record_change(connection, EventType.ALTER_PARTITION, table, None, None, message)

        self._write(work)

    def move_folder(self, database: str, name: str, location: str) -> None:
        """Store the new location of an external table whose files were moved, and of the partitions in its folder.

        Copies on other clusters are withdrawn, since they are still in the old folder.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the table is managed.
            InvalidObjectError: the location belongs to a managed table.
        """

        def work(connection: Connection) -> None:
            table = table_rows.select_table_for_change(connection, database, name)
            if not table.is_external:
                raise InvalidOperationError("SET LOCATION", table.full_name, "it is not an external table")
            table_rows.raise_versions(connection, [table.id])
            table_rows.update_location(connection, table, location)
            self._withdraw(connection, table, None, [copy.cluster for copy in table.storage.secondaries])
            names = partition_rows.move_below(connection, table, table.storage.primary.location, location)
            held = partition_rows.secondaries_of(connection, list(names))
            for partition_id, copies_of in held.items():
                of_partition = (partition_id, names[partition_id])
                self._withdraw(connection, table, of_partition, [copy.cluster for copy in copies_of])
            changed = table_rows.select_table(connection, database, name)
            message = of_table(changed, was=changed.name)
            self._record_change(connection, EventType.ALTER_TABLE, changed, None, None, message)

        self._write(work)

    def tables_with_moving_folders(self) -> list[tuple[str, str]]:
        """Return (database, name) of each table whose folder a rename is moving at this moment. One round trip."""
        with self._read() as connection:
            return table_rows.names_with_parameter(connection, MOVING_FOLDER)

    def _withdraw(
        self, connection: Connection, table: StoredTable, partition: tuple[int, str] | None, clusters: list[str]
    ) -> None:
        for cluster in clusters:
            copy_rows.drop_copies(connection, table, None if partition is None else [partition[0]], cluster)
            message = {"cluster": cluster, "partitions": None if partition is None else [partition[1]]}
            self._record(connection, EventType.UNREGISTER_COPY, table, None, None, message)
