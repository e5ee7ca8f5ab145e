"""The modes of namespaces, and the dependencies of namespaces on each other."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_hivex.core.catalog import closed_namespaces, functions
from airflow_hivex.core.catalog.database_rows import select_database_names
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.objects import TEMPORARY_DATABASE, Table
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.namespaces.closure import (
    Closure,
    ClosureCheck,
    NamedStatement,
    foreign_call_error,
    foreign_view_error,
)
from airflow_hivex.core.namespaces.definitions import Definition, function_definition, view_definition
from airflow_hivex.core.store.engine import Store


class Namespaces:
    """The databases of a metastore as namespaces. See also :class:`~airflow_hivex.core.namespaces.links.Links`."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self._store = store
        self._closure = ClosureCheck(store, clusters)

    def is_closed(self, namespace: str) -> bool:
        """Return whether statements in a namespace must not name objects of other namespaces. One round trip.

        The property ``hivex.namespace.mode`` of the database decides, or else the setting of the same name.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        with self._store.read() as connection:
            return closed_namespaces.is_closed(connection, namespace)

    def check_view(self, view: Table) -> None:
        """Refuse a view in a closed namespace if its query names a foreign object. At most two round trips.

        Raises:
            ForeignNameError: the query names an object of another namespace.
            InvalidObjectError: the namespace is closed, and the query cannot be read.
            NoSuchDatabaseError: the namespace does not exist.
        """
        if not self.is_closed(view.database):
            return
        if view.is_of_other_engine:
            reason = "its query cannot be read, and may name tables that its closed namespace does not see"
            raise InvalidObjectError("view", view.full_name, reason)
        self._refuse_foreign(view_definition(view))

    def check_function(self, function: PermanentFunction) -> None:
        """Refuse an SQL function in a closed namespace if it names a foreign object. At most two round trips.

        Raises:
            ForeignNameError: the function names an object of another namespace.
            InvalidObjectError: the namespace is closed, and the function cannot be read.
            NoSuchDatabaseError: the namespace does not exist.
        """
        if self.is_closed(function.database):
            self._refuse_foreign(function_definition(function))

    def check_definition(self, definition: Definition) -> None:
        """Refuse a definition in a closed namespace if it names an object of another namespace.

        Raises:
            ForeignNameError: the definition names an object of another namespace.
            NoSuchDatabaseError: the namespace does not exist.
        """
        if definition.is_foreign and self.is_closed(definition.namespace):
            self._refuse_foreign(definition)

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace's objects, and of statements that run in the namespace.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        return self._closure.check(namespace, statements)

    def check_all(self) -> list[Closure]:
        """Return the dependencies of each namespace, sorted by namespace."""
        with self._store.read() as connection:
            names = select_database_names(connection, None)
        return [self._closure.check(name) for name in names if name != TEMPORARY_DATABASE]

    def _refuse_foreign(self, definition: Definition) -> None:
        tables = definition.foreign_tables
        if tables:
            raise foreign_view_error(definition.name, tables[0], definition.namespace, definition.kind)
        if not definition.foreign_calls:
            return
        with self._store.read() as connection:
            called = functions.existing(connection, definition.foreign_calls)
        if called:
            reader = f"{definition.kind.capitalize()} {definition.name} calls it. "
            raise foreign_call_error(called[0], definition.namespace, reader=reader)
