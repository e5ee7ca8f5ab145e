"""What the events of the notification log do to the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_hivex.core.cache.table_cache import TableCache
from airflow_hivex.core.errors import InvalidWriteIdListError
from airflow_hivex.core.events.notification_log import Event, EventType
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import ValidWriteIdList

_WITHOUT_EFFECT = frozenset(
    {
        # Databases, functions and statistics are not kept.
        EventType.CREATE_DATABASE,
        EventType.ALTER_DATABASE,
        EventType.CREATE_FUNCTION,
        EventType.ALTER_FUNCTION,
        EventType.DROP_FUNCTION,
        EventType.UPDATE_TABLE_COLUMN_STAT,
        EventType.UPDATE_PARTITION_COLUMN_STAT,
    }
)
_OF_TRANSACTIONS = frozenset(
    {
        EventType.CREATE_TABLE,
        EventType.ALTER_TABLE,
        EventType.DROP_TABLE,
        EventType.ADD_PARTITION,
        EventType.DROP_PARTITION,
        EventType.ALTER_PARTITION,
    }
)
"""Changes that a transaction announces, and that count with its commit."""
_AT_ONCE = frozenset(
    {
        EventType.REGISTER_COPY,
        EventType.UNREGISTER_COPY,
        EventType.COMMIT_COMPACTION,
        EventType.REMOVE_DIRECTORIES,
    }
)
"""Changes that have no write id."""


def apply(cache: TableCache, events: Iterable[Event]) -> set[QualifiedName]:
    """Apply events in their order; return the tables that are to be read again. No round trip; safe to repeat."""
    changed: set[QualifiedName] = set()
    for event in events:
        changed |= _apply(cache, event)
        cache.counting.events += 1
    return changed


def _apply(cache: TableCache, event: Event) -> set[QualifiedName]:
    if event.type in _WITHOUT_EFFECT:
        return set()
    if event.type is EventType.COMMIT_TXN and event.txn_id is not None:
        return _apply_commit(cache, event.txn_id, event.message)
    if event.type is EventType.ABORT_TXN and event.txn_id is not None:
        cache.note_abort(event.txn_id)
        return set()
    table_id = event.message.get("table_id")
    is_known = event.type in _OF_TRANSACTIONS or event.type in _AT_ONCE
    if not is_known or event.database is None or event.table is None or not isinstance(table_id, int):
        # Perhaps an event of a later release: the objects that it may have changed are read again.
        cache.drop_named(event.database, event.table)
        return set()
    name = (event.database, event.table)
    if not cache.has(table_id) and not cache.known([name]):
        # A thread may be reading the table just now.
        cache.note_change(table_id, name, None, None)
        return set()
    txn_id = event.txn_id if event.type in _OF_TRANSACTIONS else None
    return {name} if cache.note_change(table_id, name, txn_id, _list_of(event.message)) else set()


def _list_of(message: Mapping[str, Any]) -> ValidWriteIdList | None:
    text = message.get("valid_write_ids")
    try:
        return ValidWriteIdList.parse(text) if isinstance(text, str) and text else None
    except InvalidWriteIdListError:
        return None


def _apply_commit(cache: TableCache, txn_id: int, message: Mapping[str, Any]) -> set[QualifiedName]:
    write_ids, table_ids = message.get("write_ids", {}), message.get("table_ids")
    if table_ids is None:
        # An earlier release has recorded it.
        for name in write_ids:
            cache.drop_named(*name.split(".", 1))
        table_ids = {}
    return cache.note_commit(txn_id, {table_ids[name]: write_ids[name] for name in write_ids if name in table_ids})
