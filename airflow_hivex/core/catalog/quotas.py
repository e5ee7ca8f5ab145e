"""Quotas of namespaces on clusters. Functions here take part in the caller's transaction."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from airflow_hivex.core.catalog.capacity import largest_tables, used_bytes
from airflow_hivex.core.errors import QuotaExceededError
from airflow_hivex.core.store.schema import databases, quotas, tables

log = logging.getLogger(__name__)

_Q = quotas.c
_LARGEST = 3


@dataclass(frozen=True, slots=True)
class Quota:
    """The most bytes that the tables of a namespace may hold on a cluster, their copies included.

    From ``warning_percent`` of it on, commits log a warning.
    """

    namespace: str
    cluster: str
    size_bytes: int
    warning_percent: int

    def status(self, used: int) -> str:
        """Return ``ok``, ``warning`` or ``exceeded`` for a number of bytes."""
        if used > self.size_bytes:
            return "exceeded"
        return "warning" if used * 100 >= self.size_bytes * self.warning_percent else "ok"


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota, and the bytes that were used of it before a commit brings some."""

    quota: Quota
    database_id: int
    before: int


def read_quotas(connection: Connection) -> list[Quota]:
    """Return all quotas, by namespace and cluster. One round trip."""
    query = (
        select(databases.c.name, _Q.cluster, _Q.size_bytes, _Q.warning_percent)
        .join(databases, databases.c.id == _Q.database_id)
        .order_by(databases.c.name, _Q.cluster)
    )
    return [Quota(*row) for row in connection.execute(query)]


def lock_use(connection: Connection, table_id: int, cluster: str) -> QuotaUse | None:
    """Return the use of the quota that a table's namespace has on a cluster, None without one.

    Until the caller's transaction ends, no other commit brings bytes to the namespace there. Two round trips.
    """
    query = (
        select(_Q.database_id, databases.c.name, _Q.size_bytes, _Q.warning_percent)
        .join(databases, databases.c.id == _Q.database_id)
        .join(tables, tables.c.database_id == _Q.database_id)
        .where(tables.c.id == table_id, _Q.cluster == cluster)
        .with_for_update(of=quotas)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    quota = Quota(row.name, cluster, row.size_bytes, row.warning_percent)
    return QuotaUse(quota, row.database_id, used_bytes(connection, row.database_id, cluster))


def lock_use_of(connection: Connection, database_id: int, namespace: str, cluster: str) -> QuotaUse | None:
    """Return the use of the quota of a namespace on a cluster, None without one; otherwise as :func:`lock_use`."""
    query = select(_Q.size_bytes, _Q.warning_percent).where(_Q.database_id == database_id, _Q.cluster == cluster)
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        return None
    quota = Quota(namespace, cluster, row.size_bytes, row.warning_percent)
    return QuotaUse(quota, database_id, used_bytes(connection, database_id, cluster))


def check_use(connection: Connection, use: QuotaUse | None) -> None:
    """Refuse the directories that were registered since :func:`lock_use`, if they are too much for the quota.

    A commit that leaves no more bytes than were there is not refused. One round trip; none without a quota.

    Raises:
        QuotaExceededError: the namespace would hold more than its quota.
    """
    if use is None:
        return
    quota, used = use.quota, used_bytes(connection, use.database_id, use.quota.cluster)
    status = quota.status(used)
    if status == "exceeded" and used > use.before:
        largest = largest_tables(connection, use.database_id, quota.cluster, _LARGEST)
        raise QuotaExceededError(quota.namespace, quota.cluster, quota.size_bytes, used, largest)
    if status != "ok":
        log.warning(
            "Namespace %s uses %s of the %s bytes of its quota on cluster %s",
            quota.namespace,
            f"{used:,}",
            f"{quota.size_bytes:,}",
            quota.cluster,
        )


def put_quota(connection: Connection, database_id: int, quota: Quota) -> None:
    """Store the quota of a namespace on a cluster, in the place of an earlier one."""
    values = {"size_bytes": quota.size_bytes, "warning_percent": quota.warning_percent}
    of_namespace = (_Q.database_id == database_id, _Q.cluster == quota.cluster)
    if not connection.execute(update(quotas).where(*of_namespace).values(**values)).rowcount:
        connection.execute(insert(quotas).values(database_id=database_id, cluster=quota.cluster, **values))


def delete_quota(connection: Connection, database_id: int, cluster: str) -> bool:
    """Remove the quota of a namespace on a cluster; return whether there was one."""
    of_namespace = (_Q.database_id == database_id, _Q.cluster == cluster)
    return bool(connection.execute(delete(quotas).where(*of_namespace)).rowcount)
