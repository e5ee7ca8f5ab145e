"""The survey of a namespace before it moves to another cluster: its tables, and the objects in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog import capacity, links, tables
from airflow_hivex.core.catalog.databases import select_database
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import CLUSTER, StoredTable
from airflow_hivex.core.model.replication import MoveBlocker
from airflow_hivex.core.namespaces.closure import ClosureCheck, Dependency
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import cluster_storage_descriptors, partitions


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """The source of a link, which stays behind, and the partitions that the link shows; None for a whole table."""

    link: Link
    table: StoredTable
    partitions: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class MoveSurvey:
    """The state of a namespace before its move.

    ``tables`` are those with another primary cluster than the target, by name, without views. ``home`` is the cluster
    of new tables, None where none is set. ``linked`` are sources of the namespace's links that are elsewhere.
    """

    namespace: str
    tables: tuple[StoredTable, ...]
    home: str | None
    linked: tuple[LinkedTable, ...]
    blockers: tuple[MoveBlocker, ...]
    notices: tuple[str, ...]


class MoveSurveyor:
    """Surveys namespaces. Reads the catalog, and no data."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self._store = store
        self._closure = ClosureCheck(store, clusters)

    def tables(self, namespace: str, cluster: str) -> list[StoredTable]:
        """Return the tables of a namespace, without views, whose primary cluster is another one; by name.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        with self._store.read() as connection:
            return _tables(connection, namespace, cluster)

    def linked(self, namespace: str, cluster: str) -> list[LinkedTable]:
        """Return the sources of the links of a namespace whose primary cluster is another one; by link."""
        with self._store.read() as connection:
            return list(_linked(connection, namespace, cluster))

    def survey(self, namespace: str, cluster: str, *, copies_linked: bool) -> MoveSurvey:
        """Return the state of a namespace before its move to a cluster.

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
        """Return the quota that more bytes on a cluster would exceed, None where they fit."""
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
    names = [(namespace, each) for each in tables.select_table_names(connection, namespace, None)]
    found = tables.select_tables(connection, names)
    elsewhere = [each for each in found if not each.is_view and each.storage.primary.cluster != cluster]
    return sorted(elsewhere, key=lambda each: each.name)


def _linked(connection: Connection, namespace: str, cluster: str) -> Iterator[LinkedTable]:
    names = [each.name for each in links.describe_links(connection, links.links_in(namespace))]
    found = links.find_links(connection, names)
    sources = {each.id: each for each in tables.select_tables_by_id(connection, [x.source_id for x in found.values()])}
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
    # A folder names the kind of its object itself.
    return dependency.object if dependency.kind == "folder" else f"{dependency.kind} {dependency.object}"


def _stays_behind(linked: LinkedTable, cluster: str) -> MoveBlocker:
    source = linked.table
    return MoveBlocker(
        f"link {linked.link.name}",
        f"its source {source.full_name} stays on cluster {source.storage.primary.cluster}",
        f"move WITH LINKED TABLES to copy what the link shows to {cluster}, or drop the link",
    )


def _copies_apart(connection: Connection, found: Iterable[StoredTable], cluster: str) -> Iterator[MoveBlocker]:
    """Yield the managed tables whose copies on the target have partitions in several folders."""
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
    for link in links.describe_links(connection, links.links_to(ids)) if ids else ():
        if link.name.database != namespace:
            yield f"link {link.name} follows its source to cluster {cluster}"
