"""The permanent functions of the ObjectStore."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import functions
from airflow_hivex.core.catalog.functions import record_function_event
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.permanent_functions import PermanentFunction


class FunctionMethods(StorePart):
    """The methods of ``RawStore`` for permanent functions."""

    def create_function(self, function: PermanentFunction) -> PermanentFunction:
        """Add a function and return it as stored.

        Raises:
            NoSuchDatabaseError: its database does not exist.
            AlreadyExistsError: the database has a function of that name.
            InvalidObjectError, InvalidParametersError, InvalidTextError: it cannot be stored.
        """
        checked = _checked(function)

        def work(connection: Connection) -> PermanentFunction:
            functions.insert_function(connection, checked, self._clock())
            stored = functions.select_function(connection, checked.database, checked.name)
            record_function_event(connection, self._clock(), EventType.CREATE_FUNCTION, stored)
            return stored

        return self._write(work)

    def get_function(self, database: str, name: str) -> PermanentFunction:
        """Return a function. One round trip.

        Raises:
            NoSuchFunctionError: the database, or a function of that name in it, does not exist.
        """
        with self._read() as connection:
            return functions.select_function(connection, database, name)

    def get_functions(self, database: str | None = None, pattern: str | None = None) -> list[PermanentFunction]:
        """Return the functions of a database, or of all, whose names match a SHOW pattern. One round trip."""
        with self._read() as connection:
            return functions.select_functions(connection, database, pattern)

    def list_functions(self, database: str, pattern: str | None = None) -> list[str]:
        """Return the sorted names of the functions of a database that match a SHOW pattern.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        with self._read() as connection:
            return functions.select_function_names(connection, database, pattern)

    def alter_function(self, database: str, name: str, function: PermanentFunction) -> PermanentFunction:
        """Store a changed function: name, database, class, resources or owner. The time of its creation stays.

        Raises:
            NoSuchFunctionError: it does not exist.
            NoSuchDatabaseError: its new database does not exist.
            AlreadyExistsError: its new name is taken.
            InvalidObjectError, InvalidParametersError, InvalidTextError: it cannot be stored.
        """
        checked = _checked(function)

        def work(connection: Connection) -> PermanentFunction:
            before = functions.select_function(connection, database, name)
            functions.update_function(connection, before, checked)
            stored = functions.select_function(connection, checked.database, checked.name)
            was = {"database": before.database, "name": before.name}
            record_function_event(connection, self._clock(), EventType.ALTER_FUNCTION, stored, was=was)
            return stored

        return self._write(work)

    def drop_function(self, database: str, name: str) -> PermanentFunction:
        """Remove a function and return it. Its files stay.

        Raises:
            NoSuchFunctionError: it does not exist.
        """

        def work(connection: Connection) -> PermanentFunction:
            stored = functions.select_function(connection, database, name)
            functions.delete_function(connection, stored)
            record_function_event(connection, self._clock(), EventType.DROP_FUNCTION, stored)
            return stored

        return self._write(work)


def _checked(function: PermanentFunction) -> PermanentFunction:
    function.check()
    return replace(function, database=normalise(function.database), name=normalise(function.name))
