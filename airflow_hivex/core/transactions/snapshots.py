"""The snapshots of transactions.

A kept snapshot keeps the files that it sees, also after the end of its transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, insert

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import kept_snapshots
from airflow_hivex.core.transactions import conflicts
from airflow_hivex.core.transactions.allocation import check_id
from airflow_hivex.core.transactions.table_names import read_table_ids, read_table_marks, split_name


class SnapshotReader:
    """The service that reads snapshots, and the commits of other transactions after a snapshot."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def valid_txns(self, txn_id: int | None = None) -> ValidTxnList:
        """Return the current snapshot, or the snapshot of the transaction ``txn_id``. One round trip.

        A transaction sees its own writes, but no transactions with higher ids.

        Raises:
            NoSuchTransactionError: ``txn_id`` is not a valid id.
        """
        if txn_id is not None:
            check_id(txn_id)
        with self._store.read() as connection:
            return read_valid_txns(connection, txn_id)

    def valid_write_ids(self, names: Sequence[str], valid_txns: ValidTxnList) -> dict[str, ValidWriteIdList]:
        """Return a dict from ``database.table`` to the write id list that the table has in a snapshot.

        Raises:
            NoSuchTableError: a table does not exist.
        """
        with self._store.read() as connection:
            wanted = {name: split_name(name) for name in names}
            marks = read_table_marks(connection, wanted.values())
            by_name = {name: marks[normalise(database), normalise(table)] for name, (database, table) in wanted.items()}
            found = {mark.id: name for name, mark in by_name.items()}
            lists = read_valid_write_ids(connection, found, valid_txns, {mark.id: mark for mark in by_name.values()})
        return {found[table_id]: write_ids for table_id, write_ids in lists.items()}

    def written_since(
        self, names: Sequence[str], valid_txns: ValidTxnList, *, updates_only: bool = False
    ) -> frozenset[str]:
        """Return the tables (``database.table``) that have commits after the snapshot.

        With ``updates_only`` commits that only insert rows do not count. The transaction of the snapshot must be open,
        so that the records of commits after the snapshot still exist.

        Raises:
            NoSuchTableError: a table does not exist.
        """
        with self._store.read() as connection:
            found = _by_id(connection, names)
            return conflicts.written_since(connection, found, valid_txns, updates_only=updates_only)

    def would_conflict(self, txn_id: int, resources: Collection[tuple[int, str | None]]) -> bool:
        """Return whether a commit would now fail because of a conflict, if the transaction had updated ``resources``.

        A resource is (table id, partition). The partition None stands for the whole table. No row is locked. So a
        commit of another transaction can change the result. One round trip for up to 10,000 tables.

        Raises:
            NoSuchTransactionError: ``txn_id`` is not a valid id.
        """
        check_id(txn_id)
        with self._store.read() as connection:
            return conflicts.would_conflict(connection, txn_id, resources)


def _by_id(connection: Connection, names: Sequence[str]) -> dict[int, str]:
    """Return a dict from table id to name (``database.table``). One round trip."""
    wanted = {name: split_name(name) for name in names}
    found = read_table_ids(connection, wanted.values())
    return {found[normalise(database), normalise(table)]: name for name, (database, table) in wanted.items()}


def settled_below(snapshot: ValidTxnList, txn_id: int) -> int:
    """Return the highest id up to which the snapshot of ``txn_id`` sees every transaction as ended."""
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
    """Keep the files of tables that a snapshot sees, even after its transaction has ended. One round trip.

    For example, Spark computes a DataFrame after the transaction has ended. The cleaner keeps the files until the
    snapshot expires (``hivex.dataframe.retention.time``). DROP and TRUNCATE still remove the files.
    """
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
        later(connection, insert(kept_snapshots), rows)


def keep_lower(
    connection: Connection, txn_id: int, table_id: int, settled_txn_id: int, *, now_ms: int, retention_s: int, user: str
) -> None:
    """Keep the files of a table that an old snapshot sees, for an open transaction. Two round trips.

    The old snapshot sees all transactions up to ``settled_txn_id`` as ended. If the transaction already keeps a
    snapshot of the table, the older of the two snapshots is kept.
    """
    k = kept_snapshots.c
    removed = delete(kept_snapshots).where(k.txn_id == txn_id, k.table_id == table_id).returning(k.settled_txn_id)
    before = connection.execute(removed).scalars().all()
    lowest = min([settled_txn_id, *before])
    keep(connection, txn_id, [table_id], ValidTxnList(lowest), now_ms=now_ms, retention_s=retention_s, user=user)


def purge(connection: Connection, now_ms: int) -> int:
    """Remove the expired snapshots, and return their number."""
    return connection.execute(delete(kept_snapshots).where(kept_snapshots.c.expires_ms <= now_ms)).rowcount
