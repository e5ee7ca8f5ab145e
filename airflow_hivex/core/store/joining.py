"""Services whose changes are database transactions of their own, or parts of a caller's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from typing import Self, TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.store.engine import Store

T = TypeVar("T")


class JoinsTransactions:
    """A service whose changes are each one database transaction; those of :meth:`joining` are part of the caller's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection: Connection | None = None

    def joining(self, connection: Connection) -> Self:
        """Return the same service within a database transaction of the caller, who commits what it changes."""
        joined = copy(self)
        joined._connection = connection  # noqa: SLF001 - its own
        return joined

    def _read(self) -> AbstractContextManager[Connection]:
        return self._store.read(self._connection)

    def _write(self, work: Callable[[Connection], T], name: str = "write") -> T:
        return self._store.write(work, self._connection, name=name)
