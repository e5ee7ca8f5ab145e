"""The partitions of an external table that a statement writes. Functions here take part in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog.pruning import FoundPartition, check_stored_alike
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import partitions


def locations_of(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, str]:
    """Return the locations of those of the partitions that exist, relative to the primary cluster.

    Raises:
        InvalidOperationError: one of them is stored in another format than the table.
    """
    p = partitions.c
    query = select(p.id, p.name, p.location, p.storage_descriptor_id).where(p.table_id == table.id, ~p.dropped)
    found = [
        FoundPartition(*row) for batch in batches(names) for row in connection.execute(query.where(p.name.in_(batch)))
    ]
    check_stored_alike(connection, table, found, "INSERT")
    return {each.name: each.location for each in found}
