"""Secondary copies: files that others have copied are registered here, after a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert

from airflow_hivex.core.catalog.binding import WHOLE_TABLE, BoundTable
from airflow_hivex.core.catalog.directories import add_copies, remove_copies
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import cluster_storage_descriptors

Files = Mapping[str, int]
"""Relative file name to size."""


def differences(primary: Files, secondary: Files) -> list[str]:
    """Return what a copy lacks or has otherwise, one text a file; empty when it is complete.

    Files that only the copy has do not matter: readers go by the registered directories, and a
    plain table's additional file is told below.
    """
    found = []
    for name, size in sorted(primary.items()):
        if name not in secondary:
            found.append(f"{name} is missing")
        elif secondary[name] != size:
            found.append(f"{name} has {secondary[name]} bytes instead of {size}")
    return found


def extra_files(primary: Files, secondary: Files) -> list[str]:
    """Files that only the copy has, one text each."""
    return [f"{name} is not on the primary" for name in sorted(set(secondary) - set(primary))]


def below(files: Files, folder: str) -> dict[str, int]:
    """Return the files of ``files`` that lie in ``folder``, under the same names; or the file of that name."""
    prefix = f"{folder}/" if folder else ""
    return {name: size for name, size in files.items() if name.startswith(prefix) or name == folder}


def store_copies(
    connection: Connection,
    bound: BoundTable,
    ids: Mapping[str, int],
    cluster: str,
    root: str,
    now_ms: int,
) -> None:
    """Register the bound partitions of a table as complete and current on ``cluster``, below ``root``.

    ``ids`` has the partitions' ids by name. What was registered for them before is replaced.
    """
    table = bound.table
    names = [partition.name for partition in bound.partitions]
    _remove_rows(connection, table, [ids[name] for name in names if name != WHOLE_TABLE], cluster)
    shared = {
        "table_id": table.id,
        "cluster": cluster,
        "valid_write_ids": None if bound.write_ids is None else str(bound.write_ids),
        "registered_ms": now_ms,
    }
    # The row without a partition tells where the table's folder is.
    rows = [{**shared, "partition_id": None, "location": root}]
    rows += [
        {**shared, "partition_id": ids[name], "location": f"{root}/{name}"} for name in names if name != WHOLE_TABLE
    ]
    for batch in batches(rows):
        connection.execute(insert(cluster_storage_descriptors), batch)
    directory_ids = [directory.id for partition in bound.partitions for directory in partition.directories]
    remove_copies(connection, directory_ids, cluster)
    add_copies(connection, directory_ids, cluster, now_ms)


def drop_copies(connection: Connection, bound: BoundTable, ids: Mapping[str, int], cluster: str) -> None:
    """Forget that ``cluster`` has copies of the bound partitions."""
    table = bound.table
    _remove_rows(connection, table, list(ids.values()), cluster, root=not table.is_partitioned)
    directory_ids = [directory.id for partition in bound.partitions for directory in partition.directories]
    remove_copies(connection, directory_ids, cluster)


def _remove_rows(
    connection: Connection, table: Table, partition_ids: Sequence[int], cluster: str, *, root: bool = True
) -> None:
    copies = cluster_storage_descriptors.c
    of_table = (copies.table_id == table.id, copies.cluster == cluster)
    if root:
        connection.execute(delete(cluster_storage_descriptors).where(*of_table, copies.partition_id.is_(None)))
    for batch in batches(partition_ids):
        connection.execute(delete(cluster_storage_descriptors).where(*of_table, copies.partition_id.in_(batch)))


def compare(bound: BoundTable, primary: Files, secondary: Files) -> list[str]:
    """Return how the copy of the bound partitions differs from the primary; empty when it is complete.

    Both list the files of the table's folder. Only what the snapshot reads of a transactional
    table counts: its visible directories.
    """
    root = bound.table.storage.primary.location
    found = []
    for partition in bound.partitions:
        folder = partition.location.removeprefix(root).strip("/")
        if bound.table.is_transactional:
            for directory in partition.directories:
                path = f"{folder}/{directory.name}".lstrip("/")
                found += differences(below(primary, path), below(secondary, path))
        else:
            there = below(secondary, folder)
            found += differences(below(primary, folder), there) + extra_files(below(primary, folder), there)
    return found
