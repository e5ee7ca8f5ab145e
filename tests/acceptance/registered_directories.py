"""The directories that the metastore knows, held against those on disk. Not a test itself."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from airflow_hivex.core import Metastore
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
    with metastore.services.store.read() as connection:
        return {f"{of_partition or of_table}/{name}" for of_table, of_partition, name in connection.execute(query)}


def check_accounted(metastore: Metastore, root: Path, cluster: str = "c1") -> None:
    """See to it that the doctor finds no difference of any kind on a cluster, whose folder is in ``root``."""
    # Without it, nothing at all would be compared.
    assert (root / cluster).is_dir()
    found = metastore.doctor.examine(cluster=cluster)
    assert not found, "".join(f"\n  {each}" for each in found)
