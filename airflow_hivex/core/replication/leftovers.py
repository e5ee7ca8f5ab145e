"""The files of copies that are not needed any more: of unfinished replications, and of replaced copies."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.replication.places import belongs_to, owners_of_places, registered_places
from airflow_hivex.core.replication.running import ReplicationTransactions
from airflow_hivex.core.replication.services import ReplicationServices
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    copy_places,
    counters,
    databases,
    directory_copies,
    partitions,
    tables,
    txns,
)

log = logging.getLogger(__name__)

_PLACE = copy_places.c
_HIGHEST_TXN = select(counters.c.value).where(counters.c.name == "txn").scalar_subquery()
_LOWEST_OPEN = select(func.min(txns.c.id)).where(txns.c.state == TxnState.OPEN.value).scalar_subquery()
_USER = "housekeeping"


@dataclass(frozen=True, slots=True)
class _Left:
    """A noted place without a running replication. ``database`` is None where the table was dropped."""

    id: int
    table_id: int
    cluster: str
    location: str
    txn_id: int
    files: tuple[str, ...]
    database: str | None


class CopyLeftovers:
    """Deletes the files of copies that are not registered; see :meth:`clean`."""

    def __init__(self, services: ReplicationServices, running: ReplicationTransactions) -> None:
        self._services = services
        self._store = services.store
        self._clock = services.clock
        self._running = running
        self._kept_ms = int(services.settings["hivex.replication.retention"]) * 1000
        self._read_ms = int(services.settings["hivex.dataframe.retention.time"]) * 1000

    def clean(self) -> int:
        """Delete what can be deleted, and return the number of places that are empty now.

        Only files that replications have written are deleted. Those of a replication that has not finished stay for
        ``hivex.replication.retention``. Those of a copy that was registered stay until each transaction has ended that
        was open when the copy was found withdrawn, and as long as a DataFrame may be read. Safe at any time.
        """
        with self._store.read() as connection:
            if connection.execute(select(_PLACE.id).limit(1)).first() is None:
                return 0
            owners = owners_of_places(connection)
        self._running.abort_dead(owners)
        self._store.write(self._mark, name="mark unused copies")
        gone = 0
        with self._store.read() as connection:
            left = _doomed(connection, self._clock(), self._kept_ms, self._read_ms)
        for each in left:
            try:
                gone += self._delete(each)
            except HivexError as error:
                log.warning("Files of a copy in %s on %s could not be deleted: %s", each.location, each.cluster, error)
        return gone

    def _mark(self, connection: Connection) -> None:
        """Forget places whose directories are registered by now, and note which registered copies are not any more."""
        held = directory_copies.c
        is_held = (
            select(held.directory_id)
            .where(held.directory_id == _PLACE.directory_id, held.cluster == _PLACE.cluster)
            .exists()
        )
        connection.execute(delete(copy_places).where(_is_ended(), _PLACE.directory_id.is_not(None), is_held))
        plain = connection.execute(
            select(_PLACE.id, _PLACE.table_id, _PLACE.cluster, _PLACE.location, _PLACE.unused_ms)
            .where(_is_ended(), _PLACE.directory_id.is_(None))
            .with_for_update(skip_locked=True)
        ).all()
        own = _own_locations(connection, {row.table_id for row in plain})
        clusters = {row.cluster for row in plain}
        others = {cluster: list(registered_places(connection, cluster)) for cluster in clusters}
        for row in plain:
            taken = {location for table_id, _, location in others[row.cluster] if table_id != row.table_id}
            is_used = (row.table_id, row.cluster, row.location) in own or _is_below(row.location, taken)
            if is_used is (row.unused_ms is None):
                continue
            unused: dict[str, object] = {"unused_txn_id": None, "unused_ms": None}
            if not is_used:
                unused = {"unused_txn_id": _HIGHEST_TXN, "unused_ms": self._clock()}
            connection.execute(update(copy_places).where(_PLACE.id == row.id).values(**unused))

    def _delete(self, left: _Left) -> int:
        self._services.roots.check(left.cluster)
        if left.database is None:
            self._delete_files(left)
            self._store.write(lambda connection: _forget(connection, left), name="forget copy")
            return 1
        with self._running.open(_USER, f"files of a copy on cluster {left.cluster}") as running:
            if not self._running.try_lock(running, left.database, left.table_id, left.cluster):
                self._running.give_up(running, "a replication is running")
                return 0
            with self._store.read() as connection:
                is_same = connection.execute(
                    select(_PLACE.id).where(_PLACE.id == left.id, _PLACE.txn_id == left.txn_id)
                ).first()
            if is_same is not None:
                self._delete_files(left)
            self._running.commit(running, lambda connection: _forget(connection, left))
            return int(is_same is not None)

    def _delete_files(self, left: _Left) -> None:
        files = self._services.files(left.cluster)
        # A killed copy leaves hidden files, whose names are not noted anywhere.
        hidden = [name for name, _ in files.walk(left.location) if name and belongs_to(name, left.files)]
        for name in (*left.files, *hidden):
            files.delete_file(f"{left.location}/{name}" if name else left.location)
        folders = {name.rpartition("/")[0] for name in left.files}
        for folder in sorted(folders, key=lambda each: each.count("/"), reverse=True):
            place = f"{left.location}/{folder}" if folder else left.location
            # The folder of the database stays, even if nothing else is in it.
            files.delete_empty_directories(place, place.count("/"))


def _is_ended() -> ColumnElement[bool]:
    """Return the condition that the replication that has written to a place has ended."""
    return ~select(txns.c.id).where(txns.c.id == _PLACE.txn_id, txns.c.state == TxnState.OPEN.value).exists()


def _own_locations(connection: Connection, table_ids: Collection[int]) -> set[tuple[int, str, str]]:
    """Return where tables, their partitions and copies of these lie: table id, cluster and location."""
    t, p, c = tables.c, partitions.c, cluster_storage_descriptors.c
    of_copies = select(c.table_id, c.cluster, c.location).outerjoin(partitions, p.id == c.partition_id)
    found: set[tuple[int, str, str]] = set()
    for batch in batches(sorted(table_ids)):
        for query in (
            select(t.id, t.primary_cluster, t.location).where(~t.dropped, t.id.in_(batch)),
            select(t.id, t.primary_cluster, p.location)
            .join_from(partitions, tables, t.id == p.table_id)
            .where(~t.dropped, ~p.dropped, t.id.in_(batch)),
            of_copies.join(tables, t.id == c.table_id).where(
                ~t.dropped, t.id.in_(batch), or_(c.partition_id.is_(None), ~p.dropped)
            ),
        ):
            found.update((row[0], row[1], row[2]) for row in connection.execute(query))
    return found


def _is_below(location: str, folders: Collection[str]) -> bool:
    """Return whether a place is one of some folders, or lies in one."""
    names = location.split("/")
    return any("/".join(names[:at]) in folders for at in range(1, len(names) + 1))


def _doomed(connection: Connection, now_ms: int, kept_ms: int, read_ms: int) -> list[_Left]:
    is_kept_long_enough = _PLACE.noted_ms <= now_ms - kept_ms
    is_unread = and_(
        _PLACE.unused_ms <= now_ms - read_ms,
        _PLACE.unused_txn_id < func.coalesce(_LOWEST_OPEN, _HIGHEST_TXN + 1),
    )
    query = (
        select(
            _PLACE.id,
            _PLACE.table_id,
            _PLACE.cluster,
            _PLACE.location,
            _PLACE.txn_id,
            _PLACE.files,
            databases.c.name,
        )
        .outerjoin(tables, and_(tables.c.id == _PLACE.table_id, ~tables.c.dropped))
        .outerjoin(databases, databases.c.id == tables.c.database_id)
        .where(
            _is_ended(),
            or_(
                and_(_PLACE.directory_id.is_not(None), ~_PLACE.is_complete, is_kept_long_enough),
                and_(_PLACE.directory_id.is_not(None), _PLACE.is_complete, is_unread),
                and_(_PLACE.directory_id.is_(None), is_unread, or_(_PLACE.is_complete, is_kept_long_enough)),
            ),
        )
        .order_by(_PLACE.id)
    )
    return [
        _Left(row.id, row.table_id, row.cluster, row.location, row.txn_id, tuple(row.files), row.name)
        for row in connection.execute(query)
    ]


def _forget(connection: Connection, left: _Left) -> None:
    connection.execute(delete(copy_places).where(_PLACE.id == left.id, _PLACE.txn_id == left.txn_id))
