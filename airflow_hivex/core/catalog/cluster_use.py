"""The use of the clusters now: open transactions, by the primary clusters of the tables that they have locked."""

from __future__ import annotations

from sqlalchemy import Connection, and_, func, or_, select

from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.store.schema import databases, locks, tables


def transactions_by_cluster(connection: Connection) -> dict[str, int]:
    """Return how many transactions hold locks on tables of each cluster, of all processes. One round trip.

    A lock on a whole database counts for the clusters of its tables.
    """
    query = (
        select(tables.c.primary_cluster, func.count(locks.c.txn_id.distinct()))
        .select_from(locks)
        .join(databases, databases.c.name == locks.c.database)
        .join(
            tables,
            and_(
                tables.c.database_id == databases.c.id,
                tables.c.dropped.is_(False),
                or_(tables.c.name == locks.c.table, locks.c.table == ""),
            ),
        )
        .where(locks.c.state == LockState.ACQUIRED.value, locks.c.txn_id > 0)
        .group_by(tables.c.primary_cluster)
    )
    return {str(cluster): int(count) for cluster, count in connection.execute(query)}
