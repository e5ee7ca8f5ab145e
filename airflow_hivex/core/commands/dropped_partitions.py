"""The files of partitions that were dropped or renamed: deleted after the commit, or by the housekeeping."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from airflow_hivex.core.catalog import dropped_partitions
from airflow_hivex.core.catalog.dropped_partitions import DroppedPartition
from airflow_hivex.core.errors import HivexError, InvalidOperationError
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.execution.metadata_changes import forget_dropped
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, StoredTable, Table

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 100


def delete_partitions(
    services: Services, table: StoredTable, dropped: Sequence[DroppedPartition]
) -> list[DroppedPartition]:
    """Delete exactly the directories that dropped partitions had; return the partitions that are gone.

    Never the folder with all in it: an INSERT that runs now may be writing the same partition.
    """
    gone: list[DroppedPartition] = []
    # The root of a cluster is checked once, not for each partition.
    checked: dict[str, ClusterFiles] = {}
    for start in range(0, len(dropped), _MOST_AT_ONCE):
        batch = dropped[start : start + _MOST_AT_ONCE]
        with services.store.read() as connection:
            in_sight = dropped_partitions.in_sight(connection, table.id, [each.name for each in batch])
        for each in batch:
            unused = [name for name in each.directories if name not in in_sight.get(each.name, ())]
            try:
                _delete(services, table, each.places, unused, checked)
            except HivexError as error:
                log.warning(
                    "Files of the dropped partition %s of %s are still there: %s", each.name, table.full_name, error
                )
            else:
                gone.append(each)
    if gone:
        name = f"{table.full_name} {gone[0].name}"
        forget_dropped(name, lambda: services.catalog.forget_partitions(gone))
    return gone


def delete_needless(
    services: Services,
    table: StoredTable,
    name: str,
    places: Iterable[ClusterStorageDescriptor],
    directories: Sequence[str],
) -> None:
    """Delete directories in the places of a partition, except those that it has now; a failure is logged."""
    try:
        with services.store.read() as connection:
            in_sight = dropped_partitions.in_sight(connection, table.id, [name])
        _delete(services, table, places, [each for each in directories if each not in in_sight.get(name, ())], {})
    except HivexError as error:
        log.warning("Files of the partition %s of %s are still there: %s", name, table.full_name, error)


def check_is_free(services: Services, operation: str, table: StoredTable, name: str) -> None:
    """Refuse the name of an earlier partition whose files may still be there; the caller has locked it.

    Raises:
        InvalidOperationError: there was one, and another statement deletes its files, or was killed before that.
    """
    with services.store.read() as connection:
        if dropped_partitions.has_files(connection, table.id, name):
            reason = (
                f"files of an earlier partition {name} are still being deleted; try again later: if the process that "
                "does so was killed, the housekeeping deletes them"
            )
            raise InvalidOperationError(operation, table.full_name, reason)


def delete_left(services: Services) -> int:
    """Delete the files of partitions whose statements were killed after their commits; return their number."""
    before_ms = services.clock() - int(services.settings["hive.txn.timeout"]) * 1000
    count = after = 0
    while True:
        with services.store.read() as connection:
            found = dropped_partitions.dropped_before(connection, before_ms, after, _MOST_AT_ONCE)
        if not found:
            return count
        of_tables = {table.id: table for table, _ in found}
        for table_id, table in of_tables.items():
            dropped = [partition for of, partition in found if of.id == table_id]
            count += len(delete_partitions(services, table, dropped))
        after = found[-1][1].id


def _delete(
    services: Services,
    table: Table,
    places: Iterable[ClusterStorageDescriptor],
    directories: Sequence[str],
    checked: dict[str, ClusterFiles],
) -> None:
    if table.is_external:
        return
    for place in places:
        files = checked.get(place.cluster)
        if files is None:
            files = checked[place.cluster] = services.files_to_change(services.clusters.get(place.cluster))
        for name in directories:
            files.delete_directory(f"{place.location}/{name}")
        files.delete_empty_directories(place.location, len(table.partition_keys))
