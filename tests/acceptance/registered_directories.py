"""The directories that the metastore knows, held against those on disk. Not a test itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.store.schema import directories, directory_copies, partitions, tables


def registered(metastore: Metastore, cluster: str) -> set[str]:
    """What lies on a cluster by the rows of the metastore, by its path below the root: directories and single files."""
    d, copies = directories.c, directory_copies.c
    query = (
        select(tables.c.location, partitions.c.location, d.name)
        .join_from(directories, tables, tables.c.id == d.table_id)
        .join(directory_copies, copies.directory_id == d.id)
        .outerjoin(partitions, partitions.c.id == d.partition_id)
        .where(copies.cluster == cluster, ~tables.c.dropped)
    )
    with metastore._services.store.read() as connection:
        return {f"{of_partition or of_table}/{name}" for of_table, of_partition, name in connection.execute(query)}


def on_disk(root: Path) -> set[str]:
    """What lies below the databases' folders of a cluster, by its path below the root.

    Those are bases and deltas, hidden directories, and files that are in neither; folders of tables and partitions
    may be empty.
    """
    return {str(path.relative_to(root)) for database in root.glob("*.db") for path in _found(database)}


def _found(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        # A partition's folder may begin with an underscore, as its key does.
        is_hidden = path.name.startswith(("_", ".")) and "=" not in path.name
        if path.is_file() or is_hidden or parse_directory(path.name) is not None:
            yield path
        else:
            yield from _found(path)


def check_accounted(metastore: Metastore, root: Path, cluster: str = "c1") -> None:
    """See to it that each directory on disk is registered, and each that is registered on disk."""
    known, there = registered(metastore, cluster), on_disk(root / cluster)
    assert there == known, f"\n  not registered: {sorted(there - known)}\n  not on disk: {sorted(known - there)}"
