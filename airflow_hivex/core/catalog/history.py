"""The earliest readable version of a table, and the moments that were copied to other clusters.

A moment is the snapshot of a replication. A table is read as of a moment from the directories whose transactions the
moment sees. That is complete unless rows of directories were removed since. So the removal of rows leaves a bound:

- The cleaner removes directories that others replace. ``history_write_id`` of the partition, or of a table without
  partitions, is the highest write id of the replacing ones: a moment has to see all bases and results of compactions
  up to it.
- A partition is dropped or renamed, a plain table becomes transactional, or writes are lost with a cluster.
  ``history_txn_id`` of the table is the transaction of the last such change: a moment has to see it.

Functions here take part in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select, update

from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    copied_moments,
    counters,
    directories,
    directory_copies,
    partitions,
    tables,
)
from airflow_hivex.core.transactions import commit_record


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The transactions of a table's directories, the bounds of its history, and the moments copied to clusters.

    ``writers`` and ``registered_ms`` are by directory id, ``floors`` by partition id (None: a table without
    partitions). ``moments`` are by cluster, the newest first.
    """

    created_ms: int
    changed_by: int | None = None
    writers: Mapping[int, int] = field(default_factory=dict)
    registered_ms: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int | None, int] = field(default_factory=dict)
    moments: Mapping[str, Sequence[Moment]] = field(default_factory=dict)


def read_history(connection: Connection, table: StoredTable, clusters: Collection[str]) -> TableHistory:
    """Return the history of a table. Four round trips."""
    t, p, d, held = tables.c, partitions.c, directories.c, directory_copies.c
    row = connection.execute(
        select(t.created_ms, t.history_txn_id, t.history_write_id).where(t.id == table.id)
    ).one_or_none()
    if row is None:
        return TableHistory(0)
    floors: dict[int | None, int] = {} if row.history_write_id is None else {None: row.history_write_id}
    of_partitions = select(p.id, p.history_write_id).where(p.table_id == table.id, p.history_write_id.is_not(None))
    floors.update({each.id: each.history_write_id for each in connection.execute(of_partitions)})
    found = connection.execute(
        select(d.id, d.txn_id, func.min(held.registered_ms).label("registered_ms"))
        .select_from(directories.outerjoin(directory_copies, held.directory_id == d.id))
        .where(d.table_id == table.id)
        .group_by(d.id, d.txn_id)
    ).all()
    return TableHistory(
        row.created_ms,
        row.history_txn_id,
        {each.id: each.txn_id for each in found},
        {each.id: each.registered_ms for each in found if each.registered_ms is not None},
        floors,
        _read_moments(connection, table, clusters),
    )


def _read_moments(
    connection: Connection, table: StoredTable, clusters: Collection[str]
) -> dict[str, tuple[Moment, ...]]:
    c, m = cluster_storage_descriptors.c, copied_moments.c
    rows = connection.execute(
        select(c.cluster, m.id, m.taken_ms, m.valid_txns)
        .join(copied_moments, m.id == c.moment_id)
        .where(c.table_id == table.id, c.cluster.in_(sorted(clusters)))
        .distinct()
        .order_by(m.id.desc())
    ).all()
    found: dict[str, tuple[Moment, ...]] = {}
    for row in rows:
        moment = Moment(row.taken_ms, ValidTxnList.parse(row.valid_txns), row.id)
        found[row.cluster] = (*found.get(row.cluster, ()), moment)
    return found


def begin_with(connection: Connection, table_id: int, txn_id: int | None, now_ms: int) -> None:
    """Let the history of a table begin with a change of its definition, by its transaction if it has one.

    The changes of one table wait for each other, so that the last one stands.
    """
    last = select(counters.c.value + 1).where(counters.c.name == "txn").scalar_subquery()
    first = last if txn_id is None else txn_id
    connection.execute(update(tables).where(tables.c.id == table_id).values(history_txn_id=first))
    commit_record.record_break(connection, table_id, now_ms)


def raise_floor(connection: Connection, table_id: int, partition_id: int | None, write_id: int) -> None:
    """Note that directories were removed which others up to a write id replace."""
    if partition_id is not None:
        p = partitions.c
        is_lower = func.coalesce(p.history_write_id, 0) < write_id
        of_partition = update(partitions).where(p.id == partition_id, is_lower)
        connection.execute(of_partition.values(history_write_id=write_id))
        return
    t = tables.c
    is_lower = func.coalesce(t.history_write_id, 0) < write_id
    connection.execute(update(tables).where(t.id == table_id, is_lower).values(history_write_id=write_id))
