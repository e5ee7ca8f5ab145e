"""The survey of a namespace before it is moved to another cluster, and the metastore's rows about moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update

from airflow_hivex.core.catalog import capacity, link_rows
from airflow_hivex.core.catalog.database_rows import select_database
from airflow_hivex.core.catalog.table_rows import select_table_names, select_tables, select_tables_by_id
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import MoveEndedError, MoveUnderWayError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import CLUSTER, StoredTable, TableType
from airflow_hivex.core.model.replication import MOVE_STEPS, MoveBlocker, MoveState, NamespaceMove
from airflow_hivex.core.namespaces.closure import ClosureCheck, Dependency
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    databases,
    directories,
    directory_copies,
    moved_copies,
    namespace_moves,
    partitions,
    tables,
)


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """A link, and its source, whose primary cluster a move does not change.

    ``partitions`` are the partitions that the link shows, or None for the whole table.
    """

    link: Link
    table: StoredTable
    partitions: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class MoveSurvey:
    """The tables of a namespace, and the obstacles to its move to a cluster.

    ``tables`` are the tables, without views, whose primary cluster is not the target of the move, sorted by name.
    ``home`` is the cluster for created tables, or None if the namespace has no such cluster. ``linked`` are the links
    to sources whose primary cluster is not the target of the move.
    """

    namespace: str
    tables: tuple[StoredTable, ...]
    home: str | None
    linked: tuple[LinkedTable, ...]
    blockers: tuple[MoveBlocker, ...]
    notices: tuple[str, ...]


class MoveSurveyor:
    """A reader of the catalog that surveys namespaces before moves."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self._store = store
        self._closure = ClosureCheck(store, clusters)

    def tables(self, namespace: str, cluster: str) -> list[StoredTable]:
        """Return a namespace's tables, without views, whose primary cluster is not ``cluster``, sorted by name.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        with self._store.read() as connection:
            return _tables(connection, namespace, cluster)

    def linked(self, namespace: str, cluster: str) -> list[LinkedTable]:
        """Return a namespace's links to sources whose primary cluster is not ``cluster``, sorted by link."""
        with self._store.read() as connection:
            return list(_linked(connection, namespace, cluster))

    def survey(self, namespace: str, cluster: str, *, copies_linked: bool) -> MoveSurvey:
        """Return the tables of a namespace, and the obstacles to its move to a cluster.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        name = normalise(namespace)
        closure = self._closure.check(name)
        with self._store.read() as connection:
            home = select_database(connection, name).parameters.get(CLUSTER)
            found = _tables(connection, name, cluster)
            linked = list(_linked(connection, name, cluster))
            blockers = [
                MoveBlocker(f"{each.kind} {each.object}", f"it reads {each.name} of another namespace", _use_link(each))
                for each in closure.dependencies
                if each.create_link is not None
            ]
            if not copies_linked:
                blockers += [_stays_behind(each, cluster) for each in linked]
            blockers += _copies_apart(connection, found, cluster)
            notices = [
                f"{_owner(each)}: {each.name}: {each.reason}"
                for each in closure.dependencies
                if each.create_link is None
            ]
            notices += _links_of_others(connection, found, name, cluster)
        return MoveSurvey(name, tuple(found), home, tuple(linked), tuple(blockers), tuple(notices))

    def quota_blocker(self, namespace: str, cluster: str, size_bytes: int) -> MoveBlocker | None:
        """Return the blocker if ``size_bytes`` more bytes on a cluster would exceed the quota, or None if they fit."""
        with self._store.read() as connection:
            database_id = select_database(connection, namespace).id
            for each in capacity.read_quotas(connection):
                if (each.namespace, each.cluster) != (namespace, cluster):
                    continue
                wanted = capacity.used_bytes(connection, database_id, cluster) + size_bytes
                if wanted > each.size_bytes:
                    excess = wanted - each.size_bytes
                    return MoveBlocker(
                        f"quota of {namespace} on cluster {cluster}",
                        f"its tables would hold {wanted:,} bytes there, {excess:,} more than the quota",
                        f"raise it by ALTER DATABASE {namespace} SET QUOTA {wanted} ON CLUSTER '{cluster}', or drop "
                        "tables",
                    )
        return None


def _tables(connection: Connection, namespace: str, cluster: str) -> list[StoredTable]:
    names = [(namespace, each) for each in select_table_names(connection, namespace, None)]
    found = select_tables(connection, names)
    elsewhere = [each for each in found if not each.is_view and each.storage.primary.cluster != cluster]
    return sorted(elsewhere, key=lambda each: each.name)


def _linked(connection: Connection, namespace: str, cluster: str) -> Iterator[LinkedTable]:
    names = [each.name for each in link_rows.describe_links(connection, link_rows.links_in(namespace))]
    found = link_rows.find_links(connection, names)
    sources = {each.id: each for each in select_tables_by_id(connection, [x.source_id for x in found.values()])}
    for name in sorted(found):
        link = found[name]
        source = sources.get(link.source_id)
        if source is None or source.storage.primary.cluster == cluster:
            continue
        shown = None
        if source.is_partitioned:
            query = select(partitions.c.id, partitions.c.name).where(
                partitions.c.table_id == source.id, ~partitions.c.dropped
            )
            shown = tuple(sorted(row.name for row in connection.execute(query) if link.shows(row.id)))
        yield LinkedTable(link, source, shown)


def _use_link(dependency: Dependency) -> str:
    return f"{dependency.create_link}, and define the {dependency.kind} with the link"


def _owner(dependency: Dependency) -> str:
    # The name of a folder has the kind of its object.
    return dependency.object if dependency.kind == "folder" else f"{dependency.kind} {dependency.object}"


def _stays_behind(linked: LinkedTable, cluster: str) -> MoveBlocker:
    source = linked.table
    return MoveBlocker(
        f"link {linked.link.name}",
        f"its source {source.full_name} stays on cluster {source.storage.primary.cluster}",
        f"move WITH LINKED TABLES to copy what the link shows to {cluster}, or drop the link",
    )


def _copies_apart(connection: Connection, found: Iterable[StoredTable], cluster: str) -> Iterator[MoveBlocker]:
    """Yield a blocker for each managed table whose copy on the target has a partition outside of the copy's folder."""
    s = cluster_storage_descriptors.c
    managed = {each.id: each for each in found if not each.is_external and each.is_partitioned}
    query = (
        select(s.table_id, s.partition_id, s.location, partitions.c.name)
        .outerjoin(partitions, partitions.c.id == s.partition_id)
        .where(s.cluster == cluster, s.table_id.in_(list(managed)))
    )
    roots: dict[int, str] = {}
    places: list[tuple[int, str, str]] = []
    for row in connection.execute(query):
        if row.partition_id is None:
            roots[row.table_id] = row.location
        elif row.name is not None:
            places.append((row.table_id, row.name, row.location))
    reported: set[int] = set()
    for table_id, partition, location in places:
        root = roots.get(table_id)
        if root is None or location == f"{root}/{partition}" or table_id in reported:
            continue
        reported.add(table_id)
        name = managed[table_id].full_name
        yield MoveBlocker(
            f"table {name}",
            f"its copy of partition {partition} on cluster {cluster} lies in {location}, and not below {root}",
            f"drop the copy by ALTER TABLE {name} DROP COPY ON CLUSTER '{cluster}'",
        )


def _links_of_others(
    connection: Connection, found: Iterable[StoredTable], namespace: str, cluster: str
) -> Iterator[str]:
    ids = [each.id for each in found]
    for link in link_rows.describe_links(connection, link_rows.links_to(ids)) if ids else ():
        if link.name.database != namespace:
            yield f"link {link.name} follows its source to cluster {cluster}"


_M, _C = namespace_moves.c, moved_copies.c


def begin_move(
    connection: Connection,
    namespace: str,
    cluster: str,
    *,
    copies_linked: bool,
    keeps_copies: bool,
    user: str,
    now_ms: int,
) -> NamespaceMove:
    """Set the options of a namespace's running move, or begin a move; return the move.

    Raises:
        MoveUnderWayError: the namespace is being moved to a cluster other than ``cluster``.
    """
    # The row of the database is locked, so that one process begins the move, and a concurrent one continues it.
    locked = select(databases.c.id).where(databases.c.name == namespace).with_for_update()
    database_id = connection.execute(locked).scalar_one()
    options = {"copies_linked": copies_linked, "keeps_copies": keeps_copies}
    running = (_M.database_id == database_id, _M.state == MoveState.COPYING.value)
    current = connection.execute(select(namespace_moves).where(*running)).one_or_none()
    if current is not None:
        if current.cluster != cluster:
            raise MoveUnderWayError(namespace, current.cluster, cluster)
        later(connection, update(namespace_moves).where(_M.id == current.id).values(**options))
    else:
        later(
            connection,
            insert(namespace_moves).values(
                database_id=database_id,
                namespace=namespace,
                cluster=cluster,
                state=MoveState.COPYING.value,
                user=user,
                started_ms=now_ms,
                **options,
            ),
        )
    return _move(connection.execute(select(namespace_moves).where(*running)).one())


def find_move(connection: Connection, namespace: str) -> NamespaceMove | None:
    """Return the running move of a namespace, or None."""
    database_id = select_database(connection, namespace).id
    row = connection.execute(
        select(namespace_moves).where(_M.database_id == database_id, _M.state == MoveState.COPYING.value)
    ).one_or_none()
    return None if row is None else _move(row)


def list_moves(connection: Connection, namespace: str | None) -> list[NamespaceMove]:
    """Return the moves of a namespace, or of all namespaces, the oldest first."""
    query = select(namespace_moves).order_by(_M.id)
    if namespace is not None:
        query = query.where(_M.namespace == namespace)
    return [_move(row) for row in connection.execute(query)]


def check_running(connection: Connection, move: NamespaceMove) -> None:
    """Ensure that a move is running, and cannot end before the caller's transaction ends.

    Raises:
        MoveEndedError: another process has cancelled or finished the move.
    """
    state = connection.execute(select(_M.state).where(_M.id == move.id).with_for_update()).scalar_one()
    if state != MoveState.COPYING.value:
        raise MoveEndedError(move.namespace, move.cluster, state)


def end_move(connection: Connection, move: NamespaceMove, state: MoveState, now_ms: int) -> None:
    """Store the end of a move.

    Raises:
        MoveEndedError: another process has cancelled or finished the move.
    """
    assert state in MOVE_STEPS[MoveState.COPYING]
    ended = (
        update(namespace_moves)
        .where(_M.id == move.id, _M.state == MoveState.COPYING.value)
        .values(state=state.value, ended_ms=now_ms)
    )
    if connection.execute(ended).rowcount:
        return
    raise MoveEndedError(
        move.namespace, move.cluster, connection.execute(select(_M.state).where(_M.id == move.id)).scalar_one()
    )


def note_copy(connection: Connection, move: NamespaceMove, table: StoredTable, now_ms: int) -> None:
    """Record, before a move copies a table, whether the target cluster has a copy of the table already.

    If the table is recorded already, nothing is changed.
    """
    check_running(connection, move)
    of_copy = (_C.move_id == move.id, _C.table_id == table.id, _C.cluster == move.cluster)
    if connection.execute(select(_C.move_id).where(*of_copy)).first() is not None:
        return
    later(
        connection,
        insert(moved_copies).values(
            move_id=move.id,
            table_id=table.id,
            cluster=move.cluster,
            is_new=not has_copy(connection, table.id, move.cluster),
            noted_ms=now_ms,
        ),
    )


def has_copy(connection: Connection, table_id: int, cluster: str) -> bool:
    """Return whether a cluster has a copy of a table or of a part of it, even if the copy is not current."""
    s, d, held = cluster_storage_descriptors.c, directories.c, directory_copies.c
    places = select(s.table_id).where(s.table_id == table_id, s.cluster == cluster).limit(1)
    held_there = (
        select(d.id)
        .join(directory_copies, held.directory_id == d.id)
        .where(d.table_id == table_id, held.cluster == cluster)
        .limit(1)
    )
    return any(connection.execute(query).first() is not None for query in (places, held_there))


def leave_copies(
    connection: Connection, move: NamespaceMove, before: Collection[tuple[int, str]], now_ms: int, grace_ms: int
) -> None:
    """Replace the records of a switched move by records of the copies on the previous primary clusters.

    These copies are withdrawn after ``grace_ms``. ``before`` has the id and the previous primary cluster of each table.
    If ``keeps_copies`` of the move is true, the records are deleted, and the copies stay.
    """
    later(connection, delete(moved_copies).where(_C.move_id == move.id))
    rows = [
        {
            "move_id": move.id,
            "table_id": table_id,
            "cluster": cluster,
            "is_new": False,
            "noted_ms": now_ms,
            "drop_after_ms": now_ms + grace_ms,
        }
        for table_id, cluster in before
    ]
    if rows and not move.keeps_copies:
        later(connection, insert(moved_copies), rows)


def doom_new_copies(connection: Connection, move: NamespaceMove, now_ms: int, *, keeps_copies: bool) -> None:
    """Mark for withdrawal the copies that a cancelled move has made, unless ``keeps_copies`` is true.

    If the cluster had a copy of the table before the move, this copy stays.
    """
    of_move = _C.move_id == move.id
    kept = of_move if keeps_copies else and_(of_move, ~_C.is_new)
    later(connection, delete(moved_copies).where(kept))
    later(connection, update(moved_copies).where(of_move).values(drop_after_ms=now_ms))


def doomed_copies(connection: Connection, now_ms: int, move_id: int | None) -> list[Row[Any]]:
    """Return the copies of a move that must be withdrawn now, or those of all moves if ``move_id`` is None.

    A row has the id, namespace and state of the move, and the table id, the cluster and the time of the record.
    """
    query = (
        select(_C.move_id, _C.table_id, _C.cluster, _C.noted_ms, _M.namespace, _M.state)
        .join(namespace_moves, _M.id == _C.move_id)
        .where(_C.drop_after_ms <= now_ms)
        .order_by(_C.move_id, _C.table_id)
    )
    return list(connection.execute(query if move_id is None else query.where(_C.move_id == move_id)))


def is_renewed(connection: Connection, table_id: int, cluster: str, since_ms: int) -> bool:
    """Return whether a copy of a table on a cluster was registered after the time ``since_ms``."""
    s = cluster_storage_descriptors.c
    newest = select(func.max(s.registered_ms)).where(s.table_id == table_id, s.cluster == cluster)
    return (connection.execute(newest).scalar() or 0) > since_ms


def forget_copy(connection: Connection, move_id: int, table_id: int, cluster: str) -> None:
    """Delete the record of a withdrawn copy."""
    later(connection, delete(moved_copies).where(_C.move_id == move_id, _C.table_id == table_id, _C.cluster == cluster))


def tables_elsewhere(connection: Connection, namespace: str, cluster: str) -> set[int]:
    """Return the ids of a namespace's tables, without views, whose primary cluster is not ``cluster``."""
    t = tables.c
    query = (
        select(t.id)
        .join(databases, databases.c.id == t.database_id)
        .where(
            databases.c.name == namespace,
            ~t.dropped,
            t.type != TableType.VIRTUAL_VIEW.value,
            t.primary_cluster != cluster,
        )
    )
    return set(connection.execute(query).scalars())


def _move(row: Row[Any]) -> NamespaceMove:
    return NamespaceMove(
        row.id,
        row.namespace,
        row.cluster,
        MoveState(row.state),
        row.copies_linked,
        row.keeps_copies,
        row.user,
        to_datetime(row.started_ms),
        None if row.ended_ms is None else to_datetime(row.ended_ms),
    )
