"""The deletion of files of copies that are not needed any more: unfinished, replaced and withdrawn copies.

A place is the location of one copied directory on a cluster. The metastore has a record of each place with files to
delete.
"""

from __future__ import annotations

import getpass
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from airflow_hivex.core.catalog import copy_rows
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.table_events import record_table_event
from airflow_hivex.core.catalog.table_rows import lock_for_change, raise_versions, select_tables_by_id
from airflow_hivex.core.errors import HivexError, NoSuchDatabaseError, NoSuchObjectError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.replication.places import belongs_to, owners_of_places, registered_places
from airflow_hivex.core.replication.running import ReplicationTransactions, RunningReplication, this_process
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
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
_MOST_FILES = 300
"""The number of files after which a transaction takes no further place, since replications wait for the transaction."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A record of a place whose files can be deleted. ``database`` is None if the table was dropped."""

    id: int
    table_id: int
    cluster: str
    location: str
    files: tuple[str, ...]
    database: str | None


class CopyLeftovers:
    """The deletion of the files of copies that are not registered; see :meth:`clean`."""

    def __init__(self, services: Foundation, running: ReplicationTransactions) -> None:
        self._services = services
        self._store = services.store
        self._clock = services.clock
        self._running = running
        self._kept_ms = int(services.settings["hivex.replication.retention"]) * 1000
        self._read_ms = int(services.settings["hivex.dataframe.retention.time"]) * 1000

    def clean(self, most_s: float | None = None) -> int:
        """Delete the files of copies that can be deleted. Return the number of places that are empty after the call.

        Only files that replications have written are deleted. Files of an unfinished replication stay for
        ``hivex.replication.retention``. Files of a withdrawn copy stay until all transactions that were open at the
        withdrawal have ended, and as long as an open DataFrame can read these files.

        The call stops after ``most_s`` seconds, if given. After a stop or a kill, the next call deletes the remaining
        files.
        """
        until = None if most_s is None else time.monotonic() + most_s
        with self._store.read() as connection:
            if connection.execute(select(_PLACE.id).limit(1)).first() is None:
                return 0
            owners = owners_of_places(connection)
        self._running.abort_dead(owners)
        self._store.write(self._mark, name="mark unused copies")
        with self._store.read() as connection:
            left = _doomed(connection, self._clock(), self._kept_ms, self._read_ms)
        gone = 0
        for together in _together(left):
            try:
                gone += self._delete(together)
            except HivexError as error:
                log.warning("Files of copies on cluster %s could not be deleted: %s", together[0].cluster, error)
            if until is not None and time.monotonic() >= until:
                break
        return gone

    def _mark(self, connection: Connection) -> None:
        """Update the records of places whose replications have ended.

        Records of registered directories are deleted. A place of a plain table is marked as unused while no table,
        partition or copy is registered there.
        """
        held = directory_copies.c
        is_held = (
            select(held.directory_id)
            .where(held.directory_id == _PLACE.directory_id, held.cluster == _PLACE.cluster)
            .exists()
        )
        later(connection, delete(copy_places).where(_is_ended(), _PLACE.directory_id.is_not(None), is_held))
        plain = connection.execute(
            select(_PLACE.id, _PLACE.table_id, _PLACE.cluster, _PLACE.location, _PLACE.unused_ms)
            .where(_is_ended(), _PLACE.directory_id.is_(None))
            .with_for_update(skip_locked=True)
        ).all()
        own = _own_locations(connection, {row.table_id for row in plain})
        clusters = {row.cluster for row in plain}
        others = {cluster: _tables_at(connection, cluster) for cluster in clusters}
        used: list[int] = []
        unused: list[int] = []
        for row in plain:
            is_own = (row.table_id, row.cluster, row.location) in own
            is_used = is_own or _is_of_others(row.location, row.table_id, others[row.cluster])
            if is_used is (row.unused_ms is None):
                continue
            (used if is_used else unused).append(row.id)
        for ids, txn_id, now_ms in ((used, None, None), (unused, _HIGHEST_TXN, self._clock())):
            for batch in batches(ids):
                marked = update(copy_places).where(_PLACE.id.in_(batch))
                later(connection, marked.values(unused_txn_id=txn_id, unused_ms=now_ms))

    def _delete(self, left: Sequence[_Left]) -> int:
        """Delete the files of places on one cluster, and then the places' records. Return the number of records."""
        cluster = left[0].cluster
        self._services.roots.check(cluster)
        tables = sorted({(each.database, each.table_id) for each in left if each.database is not None})
        if not tables:
            empty = self._emptied(left)
            self._store.write(lambda connection: _forget(connection, empty), name="forget copies")
            return len(empty)
        with self._running.open(_USER, f"files of copies on cluster {cluster}") as running:
            if self._is_locked(running, tables, cluster):
                with self._store.read() as connection:
                    noted = _still_noted(connection, left)
                empty = self._emptied([each for each in left if each.id in noted], running.stop)
                self._running.commit(running, lambda connection: _forget(connection, empty))
                return len(empty)
            self._running.give_up(running, "a replication is running")
        if len(tables) == 1:
            return 0
        # One of the tables is being replicated. The other tables need not wait for it.
        apart = {table_id: [each for each in left if each.table_id == table_id] for _, table_id in tables}
        return sum(self._delete(of_table) for of_table in apart.values())

    def _is_locked(self, running: RunningReplication, tables: Sequence[tuple[str, int]], cluster: str) -> bool:
        try:
            return self._running.try_lock(running, tables, cluster)
        except NoSuchDatabaseError:
            # The database was dropped just now, with its tables.
            return False

    def _emptied(self, left: Sequence[_Left], stop: threading.Event | None = None) -> list[int]:
        """Delete the files of places, and return the ids of the places that are empty now."""
        empty = []
        for each in left:
            if stop is not None and stop.is_set():
                # The transaction has ended, so that a replication may write here again.
                break
            try:
                self._delete_files(each)
            except HivexError as error:
                log.warning("Files of a copy in %s on %s could not be deleted: %s", each.location, each.cluster, error)
            else:
                empty.append(each.id)
        return empty

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
    """Return the SQL condition for the places whose replication has ended."""
    return ~select(txns.c.id).where(txns.c.id == _PLACE.txn_id, txns.c.state == TxnState.OPEN.value).exists()


def _own_locations(connection: Connection, table_ids: Collection[int]) -> set[tuple[int, str, str]]:
    """Return (table id, cluster, location) for each registered place of the tables, partitions and copies."""
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


def _tables_at(connection: Connection, cluster: str) -> dict[str, set[int]]:
    """Return a dict from location on a cluster to the ids of the tables that are registered there."""
    found: dict[str, set[int]] = {}
    for table_id, _, location in registered_places(connection, cluster):
        found.setdefault(location, set()).add(table_id)
    return found


def _is_of_others(location: str, table_id: int, tables_at: Mapping[str, Collection[int]]) -> bool:
    """Return whether a place is the folder of another table, or lies in the folder of another table."""
    names = location.split("/")
    above = ("/".join(names[:at]) for at in range(1, len(names) + 1))
    return any(each != table_id for folder in above for each in tables_at.get(folder, ()))


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
        _Left(row.id, row.table_id, row.cluster, row.location, tuple(row.files), row.name)
        for row in connection.execute(query)
    ]


def _together(left: Iterable[_Left]) -> Iterator[list[_Left]]:
    """Yield groups of places. Each group is deleted by one transaction.

    All places of a group are on one cluster. Either the tables of all these places exist, or all were dropped.
    """
    found: dict[tuple[str, bool], list[_Left]] = {}
    for each in left:
        found.setdefault((each.cluster, each.database is None), []).append(each)
    for places in found.values():
        together: list[_Left] = []
        files = 0
        for each in places:
            together.append(each)
            files += 1 + len(each.files)
            if files >= _MOST_FILES:
                yield together
                together, files = [], 0
        if together:
            yield together


def _still_noted(connection: Connection, left: Sequence[_Left]) -> set[int]:
    """Return the ids of those places whose records still exist. A new replication replaces the record of its place."""
    return set(connection.execute(select(_PLACE.id).where(_PLACE.id.in_([each.id for each in left]))).scalars())


def _forget(connection: Connection, place_ids: Sequence[int]) -> None:
    later(connection, delete(copy_places).where(_PLACE.id.in_(place_ids)))


class CopyWithdrawal:
    """The withdrawal of copies of tables without a wait for readers.

    The object is safe to share between threads and processes.

    No new query reads a withdrawn copy. The housekeeper deletes the files of the copy when all transactions that were
    open at the withdrawal have ended, and no open DataFrame can read the files.
    """

    def __init__(self, services: Foundation) -> None:
        self._services = services
        self._running = ReplicationTransactions(services)

    def withdraw(self, table_id: int, cluster: str, agent_info: str) -> bool:
        """Withdraw the copy of a table on a cluster, or return False if a replication to this copy is running.

        If the table was dropped, or the cluster is the table's primary, nothing changes. The call is safe to repeat
        after an error or a kill.

        Raises:
            RootMissingError, ForeignRootError, StorageError: the files on the cluster cannot be listed.
        """
        table = self._table(table_id)
        if table is None or table.storage.primary.cluster == cluster:
            return True
        self._services.roots.check(cluster)
        with self._running.open(getpass.getuser(), agent_info) as running:
            if not self._running.try_lock(running, [(table.database, table.id)], cluster):
                self._running.give_up(running, "a replication is running")
                return False
            name = (table.database, table.name)
            try:
                snapshot = self._services.catalog.snapshot([name])
            except NoSuchObjectError:
                self._running.give_up(running, "the table was dropped or renamed")
                return self._table(table_id) is None
            current = snapshot.tables[name]
            if current.id != table_id or current.storage.primary.cluster == cluster:
                self._running.give_up(running, "the table has changed")
                return False
            contents = self._services.catalog.contents(snapshot, current, None, [cluster])
            rows = [] if current.is_external else self._places(current, contents, cluster, running.txn_id)
            self._running.commit(running, lambda connection: self._forget(connection, current, cluster, rows))
        return True

    def _table(self, table_id: int) -> StoredTable | None:
        with self._services.store.read() as connection:
            return next(iter(select_tables_by_id(connection, [table_id])), None)

    def _places(
        self, table: StoredTable, contents: TableContents, cluster: str, txn_id: int
    ) -> list[dict[str, object]]:
        """List the files of each directory of a copy. Return a row of the table ``copy_places`` for each directory."""
        files = self._services.files(cluster)
        held = contents.held.get(cluster, frozenset())
        rows: list[dict[str, object]] = []
        for partition_id, location in contents.locations.get(cluster, {}).items():
            for each in contents.directories.get(partition_id, ()):
                if each.id not in held:
                    continue
                place = f"{location}/{each.name}"
                rows.append(
                    {
                        "table_id": table.id,
                        "cluster": cluster,
                        "location": place,
                        "directory_id": each.id,
                        "files": sorted(name for name, _ in files.walk(place)),
                        "txn_id": txn_id,
                        "process": this_process(),
                        "noted_ms": self._services.clock(),
                        "is_complete": True,
                        "unused_ms": self._services.clock(),
                    }
                )
        return rows

    def _forget(self, connection: Connection, table: StoredTable, cluster: str, rows: list[dict[str, object]]) -> None:
        if not lock_for_change(connection, [table.id]):
            return
        copy_rows.drop_all_copies(connection, table, cluster)
        for batch in batches(rows):
            later(connection, insert(copy_places).values(unused_txn_id=_HIGHEST_TXN), batch)
        raise_versions(connection, [table.id])
        message = {"cluster": cluster, "partitions": None}
        record_table_event(connection, self._services.clock(), EventType.UNREGISTER_COPY, table, None, None, message)
