"""The moments that were copied to clusters: the snapshots of replications.

Functions here take part in the caller's transaction.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.store.schema import cluster_storage_descriptors, copied_moments


def keep_moment(connection: Connection, moment: Moment) -> int:
    """Write the row of a moment, and return its id."""
    values = {"taken_ms": moment.taken_ms, "valid_txns": str(moment.valid_txns)}
    return int(connection.execute(insert(copied_moments).values(**values).returning(copied_moments.c.id)).scalar_one())


def purge_moments(connection: Connection) -> int:
    """Remove the moments that no copy has any more, and return their number."""
    used = select(cluster_storage_descriptors.c.moment_id).where(cluster_storage_descriptors.c.moment_id.is_not(None))
    return connection.execute(delete(copied_moments).where(copied_moments.c.id.not_in(used))).rowcount
