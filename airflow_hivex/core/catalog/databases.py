"""The methods of the ObjectStore for databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection, or_

from airflow_hivex.core.catalog import database_rows, functions, link_rows, table_rows
from airflow_hivex.core.catalog.functions import record_function_event
from airflow_hivex.core.catalog.rows import database_document, database_from_row
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.catalog.table_events import of_table
from airflow_hivex.core.errors import NoSuchDatabaseError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import TEMPORARY_DATABASE, Database, StoredTable
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.transactions import table_names


class DatabaseMethods(StorePart):
    """The methods of ``ObjectStore`` for databases."""

    def create_database(self, database: Database) -> Database:
        """Add a database and return it as stored.

        Raises:
            AlreadyExistsError: a database of that name exists.
            InvalidObjectError: the name is not a valid name.
        """
        placed = replace(
            database, location=self._default_cluster.relative(database.location) if database.location else ""
        )

        def work(connection: Connection) -> Database:
            name = database_rows.insert_database(connection, placed, self._clock())
            stored = database_from_row(database_rows.select_database(connection, name))
            self._record_database(connection, EventType.CREATE_DATABASE, stored)
            return stored

        return self._write(work)

    def get_database(self, name: str) -> Database:
        """Return a database. One round trip.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        (found,) = self._store.ask(database_rows.finding(name), connection=self._connection)
        if not found:
            raise NoSuchDatabaseError(normalise(name))
        return database_from_row(found[0])

    def alter_database(self, name: str, database: Database) -> Database:
        """Store the description, owner, location and parameters of a database, and return the database.

        The name stays.
        """
        return self.change_database(name, lambda _: database)

    def change_database(self, name: str, change: Callable[[Database], Database]) -> Database:
        """Read a database, change it, store it as :meth:`alter_database` does, and return it.

        ``change`` gets the current database and returns the new one. No other client changes the database between the
        read and the change.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """

        def work(connection: Connection) -> Database:
            changed = change(database_from_row(database_rows.select_database_for_change(connection, name)))
            location = self._default_cluster.relative(changed.location) if changed.location else ""
            database_rows.update_database(connection, name, replace(changed, location=location))
            stored = database_from_row(database_rows.select_database(connection, name))
            self._record_database(connection, EventType.ALTER_DATABASE, stored)
            return stored

        return self._write(work)

    def drop_database(self, name: str, *, cascade: bool = False) -> list[StoredTable]:
        """Remove a database, and return the tables that were dropped with it.

        ``cascade`` also removes the database's tables, functions and links, and the links of other namespaces to its
        tables.

        Raises:
            InvalidOperationError: the database is the default one, or is not empty and ``cascade`` is false.
        """

        def work(connection: Connection) -> list[StoredTable]:
            stored = database_from_row(database_rows.select_database(connection, name))
            names = table_rows.select_table_names(connection, stored.name, None) if cascade else []
            ids = [table.id for table in table_rows.select_tables(connection, [(stored.name, each) for each in names])]
            dropped = table_rows.select_tables_by_id(connection, table_rows.lock_for_change(connection, ids))
            if cascade:
                of_others = link_rows.links_to([table.id for table in dropped])
                wanted = or_(link_rows.links_in(stored.name), of_others)
                self._drop_links(connection, link_rows.describe_links(connection, wanted))
            for batch in batches([table.id for table in dropped]):
                table_rows.mark_dropped(connection, batch, self._clock())
                self._end_compactions(connection, batch, None, self._clock())
            gone = self._drop_functions(connection, stored) if cascade else []
            database_rows.delete_database(connection, stored.name)
            for function in gone:
                record_function_event(connection, self._clock(), EventType.DROP_FUNCTION, function)
            for table in dropped:
                self._record(connection, EventType.DROP_TABLE, table, message=of_table(table))
            # Their write id lists cannot be read any more, so the dropped tables take no write ids.
            table_names.leave_names(connection, dropped, self._clock())
            self._record_database(connection, EventType.DROP_DATABASE, stored)
            return dropped

        return self._write(work)

    @staticmethod
    def _drop_functions(connection: Connection, database: Database) -> list[PermanentFunction]:
        assert database.id is not None
        database_rows.lock_for_drop(connection, database.id)
        found = functions.select_functions(connection, database.name, None)
        functions.delete_functions(connection, database.id)
        return found

    def list_databases(self, pattern: str | None = None) -> list[str]:
        """Return the sorted names of the databases that match a SHOW pattern.

        The internal database for the temporary tables of sessions is left out.
        """
        with self._read() as connection:
            names = database_rows.select_database_names(connection, pattern)
        return [name for name in names if name != TEMPORARY_DATABASE]

    def _record_database(self, connection: Connection, type: EventType, database: Database) -> None:
        message = {"object": database_document(database)}
        notification_log.record(connection, self._clock(), type, database=database.name, message=message)
