"""Snapshots that outlive their transaction: a DataFrame is computed, and listed files are read, after it has ended.

The cleaner takes them for readers until they expire (``hivex.dataframe.retention.time``). Nothing is locked: DROP and
TRUNCATE do as they do.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert

from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.schema import kept_snapshots


def settled_below(snapshot: ValidTxnList, txn_id: int) -> int:
    """Return the highest transaction up to which a snapshot of a transaction sees all as settled."""
    lowest = snapshot.min_open
    return min(txn_id if lowest is None else lowest, snapshot.high_watermark + 1) - 1


def keep(
    connection: Connection,
    txn_id: int,
    table_ids: Collection[int],
    snapshot: ValidTxnList,
    *,
    now_ms: int,
    retention_s: int,
    user: str,
) -> None:
    """Keep a snapshot for readers of some tables, in the caller's database transaction. One round trip."""
    rows = [
        {
            "txn_id": txn_id,
            "table_id": table_id,
            "settled_txn_id": settled_below(snapshot, txn_id),
            "started_ms": now_ms,
            "expires_ms": now_ms + retention_s * 1000,
            "user": user,
        }
        for table_id in sorted(set(table_ids))
    ]
    if rows:
        connection.execute(insert(kept_snapshots), rows)


def keep_lower(
    connection: Connection, txn_id: int, table_id: int, settled_txn_id: int, *, now_ms: int, retention_s: int, user: str
) -> None:
    """Keep an earlier snapshot of a table for an open transaction, or the lower one of several. Two round trips."""
    k = kept_snapshots.c
    removed = delete(kept_snapshots).where(k.txn_id == txn_id, k.table_id == table_id).returning(k.settled_txn_id)
    before = connection.execute(removed).scalars().all()
    lowest = min([settled_txn_id, *before])
    keep(connection, txn_id, [table_id], ValidTxnList(lowest), now_ms=now_ms, retention_s=retention_s, user=user)


def purge(connection: Connection, now_ms: int) -> int:
    """Remove the expired snapshots, and return their number."""
    return connection.execute(delete(kept_snapshots).where(kept_snapshots.c.expires_ms <= now_ms)).rowcount
