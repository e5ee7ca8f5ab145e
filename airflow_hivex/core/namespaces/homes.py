"""Homes of namespaces: a record, in one metastore of an organization, of the metastore of each namespace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Row, delete, insert, select

from airflow_hivex.core.catalog.database_rows import matching
from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import AlreadyExistsError, InvalidObjectError, NoSuchHomeError
from airflow_hivex.core.errors.secrets import hide_in_database_url
from airflow_hivex.core.model.identifiers import check_name, normalise
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import namespace_homes

_H = namespace_homes.c
_KIND = "home of a namespace"
_CONNECTION = re.compile(r"[\w.\-]{1,250}", re.ASCII)
_URL = re.compile(r"(sqlite|postgresql)(\+\w+)?://\S+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamespaceHome:
    """The metastore of a namespace: the id of an Airflow connection, or the URL of its database without a password."""

    namespace: str
    metastore: str
    noted_at: datetime

    @property
    def is_url(self) -> bool:
        """Return whether ``metastore`` is a URL rather than the id of a connection."""
        return "://" in self.metastore


class NamespaceHomes:
    """The registry of the homes of all namespaces. It does not connect to their metastores."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def note(self, namespace: str, metastore: str, *, replace: bool = False) -> NamespaceHome:
        """Record the metastore of a namespace. It is safe to repeat the call.

        Args:
            namespace: the name of the namespace.
            metastore: the id of an Airflow connection, which has the secrets, or a URL without secrets.
            replace: whether to replace a recorded home, because the namespace has moved.

        Raises:
            AlreadyExistsError: another home is recorded, and ``replace`` is false.
            InvalidObjectError: the metastore is neither an id nor a URL, or has a secret.
        """
        name = check_name("namespace", namespace)
        where = _checked(name, metastore)

        def work(connection: Connection) -> NamespaceHome:
            found = _find(connection, name)
            if found is not None and found.metastore != where and not replace:
                raise AlreadyExistsError(
                    _KIND, name, f"it is {found.metastore}; forget it first, or replace it if the namespace has moved"
                )
            later(connection, delete(namespace_homes).where(_H.namespace == name))
            now_ms = self._clock()
            later(connection, insert(namespace_homes).values(namespace=name, metastore=where, noted_ms=now_ms))
            return NamespaceHome(name, where, to_datetime(now_ms))

        return self._store.write(work)

    def find(self, namespace: str) -> NamespaceHome:
        """Return the home of a namespace.

        Raises:
            NoSuchHomeError: no home is recorded.
        """
        with self._store.read() as connection:
            found = _find(connection, normalise(namespace))
        if found is None:
            raise NoSuchHomeError(normalise(namespace))
        return _home(found)

    def show(self, pattern: str | None = None) -> list[NamespaceHome]:
        """Return the homes of the namespaces that match a pattern of SHOW, sorted by name."""
        with self._store.read() as connection:
            found = {row.namespace: _home(row) for row in connection.execute(select(namespace_homes))}
        return [found[name] for name in matching(list(found), pattern)]

    def forget(self, namespace: str) -> None:
        """Remove the home of a namespace.

        Raises:
            NoSuchHomeError: no home is recorded.
        """
        name = normalise(namespace)
        removal = delete(namespace_homes).where(_H.namespace == name)
        if not self._store.write(lambda connection: connection.execute(removal).rowcount):
            raise NoSuchHomeError(name)


def _find(connection: Connection, name: str) -> Row[tuple[str, str, int]] | None:
    return connection.execute(select(namespace_homes).where(_H.namespace == name)).one_or_none()


def _home(row: Row[tuple[str, str, int]]) -> NamespaceHome:
    return NamespaceHome(row.namespace, row.metastore, to_datetime(row.noted_ms))


def _checked(name: str, metastore: str) -> str:
    text = metastore.strip()
    if "://" in text and hide_in_database_url(text) != text:
        reason = "its URL has a secret, which is not stored here; give the id of an Airflow connection"
        raise InvalidObjectError(_KIND, name, reason)
    if not (_URL if "://" in text else _CONNECTION).fullmatch(text):
        reason = (
            f"{text!r} is not a valid metastore; give the id of an Airflow connection, or sqlite:// or postgresql://"
        )
        raise InvalidObjectError(_KIND, name, reason)
    return text
