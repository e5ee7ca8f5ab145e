"""Namespaces: which ones are closed, and whether they are self-contained."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_hivex.core.catalog.databases import select_database
from airflow_hivex.core.namespaces.closure import Closure, ClosureCheck, NamedStatement
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

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace on others: of its views, and of statements that run in it.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        return self._closure.check(namespace, statements)
