"""Capacity: the bytes that namespaces have on each cluster, their growth, and their quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from airflow_hivex.core.catalog import capacity
from airflow_hivex.core.catalog.capacity import HeldBytes, LinkedBytes, Quota
from airflow_hivex.core.catalog.database_rows import select_database, select_database_names
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import capacity_history

DEFAULT_WARNING_PERCENT = 80

_MS_PER_DAY = 86_400_000
_GROWTH_DAYS = 7
_KEPT_DAYS = 400
_AGES = ((1, "up to 1 day"), (7, "up to 7 days"), (30, "up to 30 days"), (365, "up to 365 days"))
_OLDER = "older"


@dataclass(frozen=True, slots=True)
class Amounts:
    """The bytes of tables: in primary copies, in secondary copies, and in files that wait for the cleaner.

    ``owned_rows`` is the number of inserted rows, less the number of delete events.
    """

    owned_bytes: int = 0
    owned_rows: int = 0
    secondary_bytes: int = 0
    obsolete_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """The amount of data that a namespace has on a cluster.

    ``linked_bytes`` is the size of the tables of other namespaces that the links of this namespace show. These bytes do
    not count for the quota of this namespace. ``growth_7d_bytes`` is the change of the owned bytes since the oldest
    record of the last seven days, or None if there is no record.
    """

    namespace: str
    cluster: str
    amounts: Amounts
    linked_bytes: int = 0
    growth_7d_bytes: int | None = None
    quota: Quota | None = None

    @property
    def used_bytes(self) -> int:
        """Return the bytes that count for the quota: owned bytes and secondary copies."""
        return self.amounts.owned_bytes + self.amounts.secondary_bytes

    @property
    def status(self) -> str | None:
        """Return ``ok``, ``warning`` or ``exceeded``, or None if the namespace has no quota."""
        return None if self.quota is None else self.quota.status(self.used_bytes)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a namespace's data on a cluster that is of one table, one format or one range of ages."""

    namespace: str
    cluster: str
    name: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class CapacityRecord:
    """The amount of data that a namespace had on a cluster at the first housekeeping of a day."""

    namespace: str
    cluster: str
    day: datetime
    amounts: Amounts


class Capacities:
    """The sizes of namespaces, computed from the registered sizes of directories."""

    def __init__(self, store: Store, clusters: Clusters, clock: Clock) -> None:
        self._store = store
        self._clusters = clusters
        self._clock = clock

    def show(self, namespace: str | None = None, cluster: str | None = None) -> list[Capacity]:
        """Return the amount of data that each namespace has on each cluster. Five round trips.

        If ``namespace`` or ``cluster`` is given, the result has only entries of this namespace or cluster. A namespace
        without data has one entry, with the given or the default cluster.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
            UnknownClusterError: the cluster is not configured.
        """
        names, on = self._scope(namespace, cluster)
        today = self._clock() // _MS_PER_DAY
        with self._store.read() as connection:
            every = names or select_database_names(connection, None)
            held = capacity.read_held(connection, (), names, on)
            linked: Counter[tuple[str, str]] = Counter()
            for each in capacity.read_linked(connection, names, on):
                linked[each.namespace, each.cluster] += each.size_bytes
            limits = {(each.namespace, each.cluster): each for each in capacity.read_quotas(connection)}
            earlier = _earlier(connection, today)
        amounts = {(key[0], key[1]): each for key, each in _summed(held, _by_cluster).items()}
        limits = {key: each for key, each in limits.items() if key[0] in every and on in (None, key[1])}
        wanted = amounts.keys() | linked.keys() | limits.keys()
        empty = set(every) - {name for name, _ in wanted}
        found = []
        for key in sorted({*wanted, *((name, on or self._clusters.default) for name in empty)}):
            own = amounts.get(key, Amounts())
            growth = own.owned_bytes - earlier[key] if key in earlier else None
            found.append(Capacity(key[0], key[1], own, linked.get(key, 0), growth, limits.get(key)))
        return found

    def by_table(self, namespace: str | None = None, cluster: str | None = None) -> list[Share]:
        """Return the share of each table. The arguments are those of :meth:`show`.

        The shares are sorted by namespace and cluster, and then by size, the largest table first.
        """
        return self._shares(namespace, cluster, lambda each: each.table)

    def by_link(self, namespace: str | None = None, cluster: str | None = None) -> list[LinkedBytes]:
        """Return the bytes that each link shows, sorted by namespace, cluster and link.

        Raises:
            NoSuchDatabaseError, UnknownClusterError: as :meth:`show`.
        """
        names, on = self._scope(namespace, cluster)
        with self._store.read() as connection:
            return capacity.read_linked(connection, names, on)

    def by_format(self, namespace: str | None = None, cluster: str | None = None) -> list[Share]:
        """Return the share of each file format. The arguments are those of :meth:`show`."""
        return self._shares(namespace, cluster, lambda each: each.format)

    def by_age(self, namespace: str | None = None, cluster: str | None = None) -> list[Share]:
        """Return the share of each range of ages of data. The arguments are those of :meth:`show`.

        The age of a directory is the time since its registration.
        """
        names = [*(name for _, name in _AGES), _OLDER]
        return self._shares(namespace, cluster, lambda each: names[each.age])

    def history(self, namespace: str | None = None, cluster: str | None = None) -> list[CapacityRecord]:
        """Return the daily records of the housekeeper, the oldest first. Records are kept for 400 days."""
        names, on = self._scope(namespace, cluster)
        h = capacity_history.c
        query = select(capacity_history).order_by(h.day, h.database, h.cluster)
        if names is not None:
            query = query.where(h.database.in_(names))
        if on is not None:
            query = query.where(h.cluster == on)
        with self._store.read() as connection:
            return [
                CapacityRecord(
                    row.database,
                    row.cluster,
                    datetime.fromtimestamp(row.day * 86_400, UTC),
                    Amounts(row.owned_bytes, row.owned_rows, row.secondary_bytes, row.obsolete_bytes),
                )
                for row in connection.execute(query)
            ]

    def set_quota(
        self,
        namespace: str,
        size_bytes: int,
        cluster: str | None = None,
        warning_percent: int = DEFAULT_WARNING_PERCENT,
    ) -> Quota:
        """Limit the total size of the tables of a namespace on a cluster, by default on the default cluster.

        Raises:
            InvalidObjectError: ``warning_percent`` is not from 1 to 100.
            InvalidOperationError: the namespace has more bytes than ``size_bytes``.
            NoSuchDatabaseError, UnknownClusterError: the namespace or cluster does not exist.
        """
        on = self._clusters.get(cluster or self._clusters.default).name
        name = normalise(namespace)
        if not (1 <= warning_percent <= 100 and size_bytes > 0):
            reason = f"a quota of {size_bytes} bytes with a warning at {warning_percent} % is not a valid quota"
            raise InvalidObjectError("database", name, f"{reason}; give a size above 0 and a share from 1 to 100")
        quota = Quota(name, on, size_bytes, warning_percent)

        def work(connection: Connection) -> None:
            database_id = select_database(connection, name).id
            # Stored first, so that commits wait for the new quota.
            capacity.put_quota(connection, database_id, quota)
            used = capacity.used_bytes(connection, database_id, on)
            if used > size_bytes:
                reason = f"its tables hold {used:,} bytes on cluster {on}, {used - size_bytes:,} more than the quota"
                raise InvalidOperationError(
                    "ALTER DATABASE SET QUOTA", name, f"{reason}; drop some, or give a larger one"
                )
            message = {"quota": {"cluster": on, "size_bytes": size_bytes, "warning_percent": warning_percent}}
            notification_log.record(connection, self._clock(), EventType.ALTER_DATABASE, database=name, message=message)

        self._store.write(work)
        return quota

    def drop_quota(self, namespace: str, cluster: str | None = None) -> None:
        """Remove the quota of a namespace on a cluster, by default on the default cluster.

        Raises:
            InvalidOperationError: the namespace has no quota on the cluster.
            NoSuchDatabaseError: the namespace does not exist.
        """
        on, name = cluster or self._clusters.default, normalise(namespace)

        def work(connection: Connection) -> None:
            if not capacity.delete_quota(connection, select_database(connection, name).id, on):
                raise InvalidOperationError("ALTER DATABASE UNSET QUOTA", name, f"it has no quota on cluster {on}")
            message = {"quota": {"cluster": on, "size_bytes": None}}
            notification_log.record(connection, self._clock(), EventType.ALTER_DATABASE, database=name, message=message)

        self._store.write(work)

    def record(self) -> int:
        """Record the sizes of today; return the number of records, or 0 if today has records already.

        The housekeeper calls this method.
        """
        day = self._clock() // _MS_PER_DAY
        h = capacity_history.c
        with self._store.read() as connection:
            if connection.execute(select(h.day).where(h.day == day).limit(1)).first() is not None:
                return 0
            amounts = _summed(capacity.read_held(connection), _by_cluster)
        rows = [
            {
                "database": namespace,
                "cluster": cluster,
                "day": day,
                "owned_bytes": each.owned_bytes,
                "owned_rows": each.owned_rows,
                "secondary_bytes": each.secondary_bytes,
                "obsolete_bytes": each.obsolete_bytes,
            }
            for (namespace, cluster), each in amounts.items()
        ]

        def work(connection: Connection) -> int:
            # Another housekeeper may have been faster.
            later(connection, delete(capacity_history).where((h.day == day) | (h.day < day - _KEPT_DAYS)))
            if rows:
                later(connection, insert(capacity_history), rows)
            return len(rows)

        return self._store.write(work, name="purge")

    def _shares(self, namespace: str | None, cluster: str | None, name_of: Callable[[HeldBytes], str]) -> list[Share]:
        names, on = self._scope(namespace, cluster)
        now = self._clock()
        with self._store.read() as connection:
            if names is not None:
                select_database(connection, names[0])
            held = capacity.read_held(connection, [now - days * _MS_PER_DAY for days, _ in _AGES], names, on)
        found = _summed(held, lambda each: (each.namespace, each.cluster, name_of(each)))
        shares = [Share(key[0], key[1], key[2], amounts) for key, amounts in found.items()]
        return sorted(shares, key=lambda each: (each.namespace, each.cluster, -_total(each.amounts), each.name))

    def _scope(self, namespace: str | None, cluster: str | None) -> tuple[list[str] | None, str | None]:
        if cluster is not None:
            self._clusters.get(cluster)
        if namespace is None:
            return None, cluster
        with self._store.read() as connection:
            return [select_database(connection, namespace).name], cluster


def _summed(
    held: Iterable[HeldBytes], key_of: Callable[[HeldBytes], tuple[str, ...]]
) -> dict[tuple[str, ...], Amounts]:
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for each in held:
        found = sums[key_of(each)]
        if each.is_obsolete:
            found[3] += each.size_bytes
        elif each.is_secondary:
            found[2] += each.size_bytes
        else:
            found[0] += each.size_bytes
            found[1] += each.rows
    return {key: Amounts(*found) for key, found in sums.items()}


def _by_cluster(held: HeldBytes) -> tuple[str, ...]:
    return held.namespace, held.cluster


def _total(amounts: Amounts) -> int:
    return amounts.owned_bytes + amounts.secondary_bytes + amounts.obsolete_bytes


def _earlier(connection: Connection, today: int) -> dict[tuple[str, str], int]:
    """Return a dict from (namespace, cluster) to the owned bytes in the oldest record of the last seven days."""
    h = capacity_history.c
    query = (
        select(h.database, h.cluster, h.owned_bytes)
        .where(h.day >= today - _GROWTH_DAYS, h.day < today)
        .order_by(h.day.desc())
    )
    return {(row.database, row.cluster): row.owned_bytes for row in connection.execute(query)}
