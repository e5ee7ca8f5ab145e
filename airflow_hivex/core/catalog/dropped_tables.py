"""Managed tables that are out of sight, and whose files may not be deleted yet.

A table that is dropped or replaced leaves such a row, as does a CREATE TABLE AS SELECT that never finished. While the
row is there, no other table gets its folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from airflow_hivex.core.model.objects import TableType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.schema import tables, txn_to_write_id, txns


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that is out of sight, with its folder on its primary cluster. ``dropped_ms`` is when it was dropped."""

    id: int
    name: str
    cluster: str
    location: str
    dropped_ms: int


def read_dropped(connection: Connection, after: int, limit: int) -> list[DroppedTable]:
    """Return so many dropped tables with ids above ``after``, except those that an open transaction makes."""
    t = tables.c
    at_work = (
        select(txn_to_write_id.c.txn_id)
        .join(txns, txns.c.id == txn_to_write_id.c.txn_id)
        .where(txn_to_write_id.c.table_id == t.id, txns.c.state == TxnState.OPEN.value)
    )
    query = (
        select(t.id, t.name, t.primary_cluster, t.location, t.created_ms)
        .where(t.dropped, t.type == TableType.MANAGED_TABLE.value, t.location != "", t.id > after, ~at_work.exists())
        .order_by(t.id)
        .limit(limit)
    )
    return [DroppedTable(*row) for row in connection.execute(query)]
