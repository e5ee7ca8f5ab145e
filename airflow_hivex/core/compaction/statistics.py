"""The statistics after a compaction: files and bytes change, rows and columns do not.

Nothing is scanned, because no visible row changes.
Source: docs/reference/compaction.md, "Worker", rule 12 (Hive StatsUpdater).
"""

from __future__ import annotations

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import directories_of
from airflow_hivex.core.catalog.statistics import select_statistics, store_sizes
from airflow_hivex.core.model.directories import directory_state
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids

GATHER_STATISTICS = "hive.compactor.gather.stats"


def refresh_statistics(connection: Connection, table: StoredTable, partition_id: int | None) -> bool:
    """Bring the files and bytes of a table or partition up to date; return whether ANALYZE has found them before."""
    own = [] if partition_id is None else [partition_id]
    if partition_id not in select_statistics(connection, table, own):
        return False
    valid_txns = read_valid_txns(connection)
    table_id = table.id
    write_ids = read_valid_write_ids(connection, {table_id: table.full_name}, valid_txns)[table_id]
    found = directories_of(connection, table, own or None).get(partition_id, [])
    by_name = {each.name: each for each in found}
    state = directory_state(by_name, write_ids, valid_txns)
    read = [by_name[name] for name in (*((state.base,) if state.base else ()), *state.originals, *state.deltas)]
    store_sizes(
        connection, table, partition_id, sum(each.files for each in read), sum(each.size_bytes for each in read)
    )
    return True
