"""The commits to a table over time, from its registered directories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, case, func, select, tuple_

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.directories import DirectoryKind
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.store.schema import cluster_storage_descriptors, directories, directory_copies

_D, _C = directories.c, directory_copies.c


@dataclass(frozen=True, slots=True)
class CommitPeriod:
    """The transactions of a period that have written to a table, and the compactions of it.

    ``rows`` and ``size_bytes`` were added by the transactions; an update adds the rows that it changes.
    """

    start: datetime
    commits: int
    compactions: int
    rows: int
    size_bytes: int


def read_commit_history(
    connection: Connection, table: StoredTable, period_ms: int, since_ms: int
) -> list[CommitPeriod]:
    """Return the periods since a time in which directories were registered, oldest first. Two statements.

    A transaction counts when its directories were registered on the first of the clusters that hold them. It is missing
    once all of its directories were compacted and cleaned.
    """
    of_table = cluster_storage_descriptors.c.table_id == table.id
    has_copies = connection.execute(select(cluster_storage_descriptors.c.id).where(of_table).limit(1)).first()
    if has_copies is None:
        is_first = _C.cluster == table.storage.primary.cluster
    else:
        # A replication registers copies later, and a change of the primary cluster keeps them.
        earlier = directory_copies.alias("earlier")
        place = tuple_(earlier.c.registered_ms, earlier.c.cluster) < tuple_(_C.registered_ms, _C.cluster)
        is_first = ~(
            select(earlier.c.cluster)
            .where(earlier.c.directory_id == _C.directory_id, place)
            .correlate(directory_copies)
            .exists()
        )
    is_compacted = _D.visibility_txn_id > 0
    is_added = ~is_compacted & (_D.kind != DirectoryKind.DELETE_DELTA.value)
    period = (_C.registered_ms // period_ms).label("period")
    query = (
        select(
            period,
            func.count(case((~is_compacted, _D.txn_id)).distinct()),
            func.count(case((is_compacted, _D.txn_id)).distinct()),
            func.sum(case((is_added, _D.rows), else_=0)),
            func.sum(case((is_added, _D.size_bytes), else_=0)),
        )
        .select_from(directories.join(directory_copies, _C.directory_id == _D.id))
        .where(_D.table_id == table.id, _C.registered_ms >= since_ms, is_first)
        .group_by(period)
        .order_by(period)
    )
    return [
        CommitPeriod(to_datetime(number * period_ms), commits, compactions, int(rows), int(size))
        for number, commits, compactions, rows, size in connection.execute(query)
    ]
