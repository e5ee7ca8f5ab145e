"""The table or partition of a compaction as a worker finds it, and the directories that it merges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.partitions import select_partition
from airflow_hivex.core.catalog.tables import select_tables_by_id
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.jobs import CompactionTarget
from airflow_hivex.core.compaction.queue import read_aborted
from airflow_hivex.core.errors import InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.model.compaction import Compaction, CompactionType, check_spark_options, table_properties
from airflow_hivex.core.model.compaction_thresholds import INSERT_ONLY
from airflow_hivex.core.model.directories import DirectoryState, parse_directory
from airflow_hivex.core.model.file_properties import check_file_options, is_file_property
from airflow_hivex.core.model.objects import FLAT_LAYOUT, HIVE_LAYOUT, ROW_LAYOUT, StoredTable
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList
from airflow_hivex.core.settings import Settings


class RefusedError(Exception):
    """There is nothing to compact, or it must not be."""


@dataclass(frozen=True, slots=True)
class CompactionWork:
    """The work of a worker: its entry, its target and the directories, in its transaction's snapshot."""

    entry: Compaction
    target: CompactionTarget
    write_ids: ValidCompactorWriteIdList
    state: DirectoryState
    directories: dict[str, RegisteredDirectory]
    aborted_ids: tuple[int, ...]
    has_leftovers: bool

    def check_ids(self) -> None:
        """Refuse to give rows new ids by which others are about to be deleted.

        Raises:
            InvalidOperationError: a write that is not settled stands before one that has deleted rows.
            RefusedError: there are no rows.
        """
        if not self.inputs(is_major=True):
            raise RefusedError("there is nothing in it")
        for name, directory in self.directories.items():
            named = parse_directory(name) if directory.is_delete_delta else None
            if named is None or named.max_write_id <= self.write_ids.high_watermark:
                continue
            if named.max_write_id not in self.aborted_ids:
                reason = (
                    f"{name} deletes rows by their ids, and cannot be merged before write id "
                    f"{self.write_ids.high_watermark + 1} is settled; ask again then"
                )
                raise InvalidOperationError("A rebalance of", self.entry.name, reason)

    def inputs(self, *, is_major: bool) -> tuple[RegisteredDirectory, ...]:
        """Return the merged directories, in reading order."""
        first = (*((self.state.base,) if self.state.base else ()), *self.state.originals) if is_major else ()
        return tuple(self.directories[name] for name in (*first, *self.state.deltas))


def find_target(connection: Connection, entry: Compaction, settings: Settings, clusters: Clusters) -> CompactionTarget:
    """Return the table or partition of an entry as it is now.

    Raises:
        RefusedError: it is gone, or of a kind that is not compacted.
        InvalidOperationError: it is insert-only, and the settings exclude such tables.
    """
    found = find_place(connection, entry)
    if found is None:
        raise RefusedError("the table or partition was dropped")
    table, partition_id, location = found
    if not table.is_transactional:
        raise RefusedError("it is not a transactional table any more")
    # A transaction that was aborted may have written to any partition.
    is_cleanup = has_leftovers(connection, entry) and entry.type is not CompactionType.REBALANCE
    if table.is_partitioned and partition_id is None and not is_cleanup:
        raise RefusedError("it has partitions, which are compacted one by one")
    if table.storage.sort_columns:
        raise RefusedError("its files are sorted (SORTED BY), and no compaction keeps that order")
    if entry.type is CompactionType.REBALANCE and (table.is_insert_only or table.storage.num_buckets > 0):
        kind = "insert-only" if table.is_insert_only else "bucketed (CLUSTERED BY)"
        raise RefusedError(f"it is {kind}: there is nothing that its rows could be spread by")
    if table.is_insert_only and not settings[INSERT_ONLY]:
        raise InvalidOperationError("A compaction of", entry.name, f"it is insert-only, and {INSERT_ONLY} is false")
    cluster = clusters.get(table.storage.primary.cluster)
    return CompactionTarget(_as_requested(table, entry, settings), entry.partition, partition_id, location, cluster)


def has_leftovers(connection: Connection, entry: Compaction) -> bool:
    """Return whether the cleaner has to look for what aborted transactions have written there."""
    return bool(read_aborted(connection, (entry.table_id, entry.partition)))


def find_place(connection: Connection, entry: Compaction) -> tuple[StoredTable, int | None, str] | None:
    """Return the table as it is now, the id of the partition, and the location of what is compacted."""
    found = select_tables_by_id(connection, [entry.table_id])
    if not found:
        return None
    (table,) = found
    if entry.partition is None:
        return table, None, table.storage.primary.location
    try:
        row = select_partition(connection, table, entry.partition)
    except NoSuchPartitionError:
        return None
    return table, int(row.id), str(row.location)


def _as_requested(table: StoredTable, entry: Compaction, settings: Settings) -> StoredTable:
    """Return the table with the row layout and the properties that its files get, which the request may say."""
    given = table_properties(table.parameters, entry.properties)
    own = {name: value for name, value in given.items() if is_file_property(name)}
    if not table.is_insert_only:
        own[ROW_LAYOUT] = given.get(ROW_LAYOUT, table.row_layout).lower()
        if own[ROW_LAYOUT] not in (FLAT_LAYOUT, HIVE_LAYOUT):
            known = f"{FLAT_LAYOUT} and {HIVE_LAYOUT}"
            reason = f"there is no row layout {own[ROW_LAYOUT]!r}; have {known}"
            raise InvalidOperationError("A compaction of", entry.name, reason)
    check_spark_options(settings, entry.name, {**table.parameters, **entry.properties})
    requested = replace(table, parameters={**table.parameters, **own})
    check_file_options(table.full_name, table.storage.format, requested.file_options)
    return requested
