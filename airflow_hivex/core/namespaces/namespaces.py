"""Namespaces: which ones are closed, and whether they are self-contained."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_hivex.core.catalog.databases import select_database
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.namespaces.closure import Closure, ClosureCheck, NamedStatement
from airflow_hivex.core.namespaces.foreign_names import foreign_tables, foreign_view_error
from airflow_hivex.core.namespaces.named_tables import tables_of_view
from airflow_hivex.core.settings import NAMESPACE_MODE, Settings
from airflow_hivex.core.store.engine import Store


class Namespaces:
    """The databases of a metastore as namespaces. See :class:`~airflow_hivex.core.namespaces.links.Links`, too."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._mode = bool(settings[NAMESPACE_MODE])
        self._closure = ClosureCheck(store)

    def is_closed(self, namespace: str) -> bool:
        """Return whether statements in a namespace may not name tables of others. One round trip.

        The property ``hivex.namespace.mode`` of the database decides, else the setting of this name.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        with self._store.read() as connection:
            own = select_database(connection, namespace).parameters.get(NAMESPACE_MODE)
        return self._mode if own is None else own.lower() == "true"

    def check_view(self, view: Table) -> None:
        """Refuse a view in a closed namespace whose query names a table of another one. One round trip.

        Raises:
            ForeignNameError: it does.
            InvalidObjectError: the namespace is closed, and the query cannot be read.
            NoSuchDatabaseError: the namespace does not exist.
        """
        if not self.is_closed(view.database):
            return
        if view.is_of_other_engine:
            reason = "its query cannot be read, and may name tables that its closed namespace does not see"
            raise InvalidObjectError("view", view.full_name, reason)
        foreign = foreign_tables(tables_of_view(view), view.database)
        if foreign:
            raise foreign_view_error(view.full_name, foreign[0], view.database)

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace on others: of its views, and of statements that run in it.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        return self._closure.check(namespace, statements)
