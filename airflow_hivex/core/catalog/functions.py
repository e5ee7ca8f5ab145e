"""The permanent functions (UDFs): their rows, their events, and the methods of ``ObjectStore`` for them.

Python functions with a ``connection`` take part in the caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.catalog.database_rows import matching, select_database
from airflow_hivex.core.catalog.rows import stored_time
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.errors import AlreadyExistsError, NoSuchFunctionError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import check_owner, normalise
from airflow_hivex.core.model.objects import OwnerType
from airflow_hivex.core.model.permanent_functions import FunctionResource, PermanentFunction, ResourceType
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import databases, functions


def select_function(connection: Connection, database: str, name: str) -> PermanentFunction:
    """Return a function.

    Raises:
        NoSuchFunctionError: the database has no function of that name.
    """
    of_name = (databases.c.name == normalise(database), functions.c.name == normalise(name))
    row = connection.execute(_select().where(*of_name)).one_or_none()
    if row is None:
        raise NoSuchFunctionError(normalise(database), normalise(name))
    return _from_row(row)


def existing(connection: Connection, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the ``names`` that exist, as sorted (database, function) pairs. One round trip.

    The names must be normalised.
    """
    query = select(databases.c.name, functions.c.name).join(databases, functions.c.database_id == databases.c.id)
    found = connection.execute(query.where(tuple_(databases.c.name, functions.c.name).in_(sorted({*names}))))
    return sorted((database, name) for database, name in found)


def select_functions(connection: Connection, database: str | None, pattern: str | None) -> list[PermanentFunction]:
    """Return the functions that match a pattern of SHOW FUNCTIONS, sorted by database and name.

    If ``database`` is None, the functions of all databases are searched.
    """
    query = _select()
    if database is not None:
        query = query.where(databases.c.name == normalise(database))
    found = [_from_row(row) for row in connection.execute(query)]
    names = set(matching(sorted({each.name for each in found}), pattern))
    return sorted((each for each in found if each.name in names), key=lambda each: (each.database, each.name))


def select_function_names(connection: Connection, database: str, pattern: str | None) -> list[str]:
    """Return the sorted names of the functions in a database that match a SHOW pattern."""
    database_id = select_database(connection, database).id
    query = select(functions.c.name).where(functions.c.database_id == database_id)
    return matching(connection.execute(query).scalars().all(), pattern)


def insert_function(connection: Connection, function: PermanentFunction, now_ms: int) -> None:
    """Add a function.

    Raises:
        NoSuchDatabaseError: the function's database does not exist.
        AlreadyExistsError: the database has a function of that name.
    """
    row = select_database(connection, function.database)
    values = {"database_id": row.id, "created_ms": now_ms, **_values(function)}
    try:
        with connection.begin_nested():
            connection.execute(insert(functions).values(**values))
    except IntegrityError as error:
        # Another client may have dropped the database meanwhile.
        select_database(connection, function.database)
        raise AlreadyExistsError("function", function.full_name) from error


def update_function(connection: Connection, stored: PermanentFunction, function: PermanentFunction) -> None:
    """Replace the function ``stored`` by ``function``, which can have another name and database.

    Raises:
        NoSuchDatabaseError: the function's new database does not exist.
        NoSuchFunctionError: the function was dropped meanwhile.
        AlreadyExistsError: another function has the new name.
    """
    before = select_database(connection, stored.database)
    after = before if function.database == stored.database else select_database(connection, function.database)
    of_stored = (functions.c.database_id == before.id, functions.c.name == stored.name)
    try:
        with connection.begin_nested():
            changed = update(functions).where(*of_stored).values(database_id=after.id, **_values(function))
            if not connection.execute(changed).rowcount:
                raise NoSuchFunctionError(stored.database, stored.name)
    except IntegrityError as error:
        select_database(connection, function.database)
        raise AlreadyExistsError("function", function.full_name, "choose another name") from error


def delete_function(connection: Connection, stored: PermanentFunction) -> None:
    """Remove a function.

    Raises:
        NoSuchFunctionError: another client has dropped the function meanwhile.
    """
    database_id = select(databases.c.id).where(databases.c.name == stored.database).scalar_subquery()
    of_stored = (functions.c.database_id == database_id, functions.c.name == stored.name)
    if not connection.execute(delete(functions).where(*of_stored)).rowcount:
        raise NoSuchFunctionError(stored.database, stored.name)


def delete_functions(connection: Connection, database_id: int) -> None:
    """Remove all functions of a database."""
    later(connection, delete(functions).where(functions.c.database_id == database_id))


def record_function_event(
    connection: Connection, now_ms: int, type: EventType, function: PermanentFunction, **others: Any
) -> None:
    """Record an event of a function, with the function as it is after the change. One round trip.

    Source: Hive CreateFunctionMessage.
    """
    document = {
        "database": function.database,
        "name": function.name,
        "class_name": function.class_name,
        "resources": _resources(function),
        "owner": function.owner,
        "owner_type": function.owner_type.value,
        "created_ms": stored_time(function.full_name, function.created_at),
    }
    message = {"object": document, **others}
    notification_log.record(connection, now_ms, type, database=function.database, message=message)


def _select() -> Select[Any]:
    of_database = functions.c.database_id == databases.c.id
    return select(functions, databases.c.name.label("database_name")).join(databases, of_database)


def _from_row(row: Row[Any]) -> PermanentFunction:
    return PermanentFunction(
        database=row.database_name,
        name=row.name,
        class_name=row.class_name,
        resources=tuple(FunctionResource(ResourceType(each["type"]), each["uri"]) for each in row.resources),
        owner=row.owner,
        owner_type=OwnerType(row.owner_type),
        created_at=to_datetime(row.created_ms),
    )


def _values(function: PermanentFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "class_name": function.class_name,
        "resources": _resources(function),
        "owner": check_owner(function.owner),
        "owner_type": function.owner_type.value,
    }


def _resources(function: PermanentFunction) -> list[dict[str, str]]:
    return [{"type": each.type.value, "uri": each.uri} for each in function.resources]


class FunctionMethods(StorePart):
    """The methods of ``ObjectStore`` for permanent functions."""

    def create_function(self, function: PermanentFunction) -> PermanentFunction:
        """Add a function and return it as stored.

        Raises:
            NoSuchDatabaseError: the function's database does not exist.
            AlreadyExistsError: the database has a function of that name.
            InvalidObjectError, InvalidParametersError, InvalidTextError: the function cannot be stored.
        """
        checked = _checked(function)

        def work(connection: Connection) -> PermanentFunction:
            insert_function(connection, checked, self._clock())
            stored = select_function(connection, checked.database, checked.name)
            record_function_event(connection, self._clock(), EventType.CREATE_FUNCTION, stored)
            return stored

        return self._write(work)

    def get_function(self, database: str, name: str) -> PermanentFunction:
        """Return a function. One round trip.

        Raises:
            NoSuchFunctionError: the database does not exist, or has no function of that name.
        """
        with self._read() as connection:
            return select_function(connection, database, name)

    def get_functions(self, database: str | None = None, pattern: str | None = None) -> list[PermanentFunction]:
        """Return the functions whose names match a pattern of SHOW FUNCTIONS. One round trip.

        If ``database`` is None, the functions of all databases are searched.
        """
        with self._read() as connection:
            return select_functions(connection, database, pattern)

    def list_functions(self, database: str, pattern: str | None = None) -> list[str]:
        """Return the sorted names of the functions in a database that match a SHOW pattern.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        with self._read() as connection:
            return select_function_names(connection, database, pattern)

    def alter_function(self, database: str, name: str, function: PermanentFunction) -> PermanentFunction:
        """Replace a function by ``function``, and return it as stored. The creation time stays.

        The name, database, class, owner and resources can change.

        Raises:
            NoSuchFunctionError: the function does not exist.
            NoSuchDatabaseError: the function's new database does not exist.
            AlreadyExistsError: another function has the new name.
            InvalidObjectError, InvalidParametersError, InvalidTextError: the function cannot be stored.
        """
        checked = _checked(function)

        def work(connection: Connection) -> PermanentFunction:
            before = select_function(connection, database, name)
            update_function(connection, before, checked)
            stored = select_function(connection, checked.database, checked.name)
            was = {"database": before.database, "name": before.name}
            record_function_event(connection, self._clock(), EventType.ALTER_FUNCTION, stored, was=was)
            return stored

        return self._write(work)

    def drop_function(self, database: str, name: str) -> PermanentFunction:
        """Remove a function and return it. Its files stay.

        Raises:
            NoSuchFunctionError: the function does not exist.
        """

        def work(connection: Connection) -> PermanentFunction:
            stored = select_function(connection, database, name)
            delete_function(connection, stored)
            record_function_event(connection, self._clock(), EventType.DROP_FUNCTION, stored)
            return stored

        return self._write(work)


def _checked(function: PermanentFunction) -> PermanentFunction:
    function.check()
    return replace(function, database=normalise(function.database), name=normalise(function.name))
