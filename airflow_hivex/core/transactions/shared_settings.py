"""Settings that all clients of a metastore must share. Source: docs/reference/transactions.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.settings import NAMESPACE_MODE, Settings
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters, locks, txns

_TIMEOUT = "hive.txn.timeout"
_STORED = select(counters.c.value).where(counters.c.name == _TIMEOUT)
_STORED_MODE = select(counters.c.value).where(counters.c.name == NAMESPACE_MODE)
SHARED = (_STORED, _STORED_MODE)
"""The queries whose rows :func:`agree` needs."""


def agree(store: Store, settings: Settings, shared: Sequence[Sequence[Any]]) -> Settings:
    """Return the settings with the values that all clients of the metastore share. ``shared`` are the stored values.

    The shared settings are ``hive.txn.timeout`` and ``hivex.namespace.mode``. A value that this client has set replaces
    the stored value. If this client has not set a value, the stored value is returned. The time-out can change only if
    no transaction is open and no lock exists.

    Raises:
        InvalidSettingError: the time-out differs from the stored time-out, and a transaction is open or a lock exists.
    """
    rows, modes = shared
    stored = next((row.value for row in rows), None)
    wanted = int(settings[_TIMEOUT]) if stored is None or settings.is_given(_TIMEOUT) else int(stored)
    if stored != wanted:
        wanted = store.write(lambda writing: _store(writing, wanted))
    stored_mode = next((row.value for row in modes), None)
    return settings.with_overrides({_TIMEOUT: wanted, NAMESPACE_MODE: _mode(store, settings, stored_mode)})


def _mode(store: Store, settings: Settings, stored: int | None) -> bool:
    """Return whether namespaces are closed by default: the setting of this client, or else the stored value.

    The setting of this client, if set, becomes the stored value.
    """
    wanted = int(settings[NAMESPACE_MODE])
    if not settings.is_given(NAMESPACE_MODE):
        return bool(stored or 0)

    def change(connection: Connection) -> None:
        if connection.execute(_STORED_MODE.with_for_update()).scalar_one_or_none() is None:
            connection.execute(insert(counters).values(name=NAMESPACE_MODE, value=wanted))
        else:
            connection.execute(update(counters).where(counters.c.name == NAMESPACE_MODE).values(value=wanted))

    if stored != wanted:
        store.write(change)
    return bool(wanted)


def _store(connection: Connection, wanted: int) -> int:
    stored = connection.execute(_STORED.with_for_update()).scalar_one_or_none()
    if stored is None:
        connection.execute(insert(counters).values(name=_TIMEOUT, value=wanted))
        return wanted
    if stored == wanted:
        return wanted
    is_open = select(txns.c.id).where(IS_OPEN).exists() | select(locks.c.lock_id).exists()
    if connection.execute(select(is_open)).scalar_one():
        raise InvalidSettingError(
            _TIMEOUT,
            wanted,
            f"the clients of this metastore share {stored} s; give that, or change it when no transaction is open",
        )
    connection.execute(update(counters).where(counters.c.name == _TIMEOUT).values(value=wanted))
    return wanted
