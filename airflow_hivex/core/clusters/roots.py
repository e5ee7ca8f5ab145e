"""Checks that the root of a cluster's file system is the one that the metastore and its jobs have written to.

A folder on which nothing is mounted looks like an empty root: what is written there is out of sight once the mount
is back, and the cleaner takes what it does not find for deleted. So the first write to a cluster puts a marker file
into its root, and the metastore notes the marker's id. Every write and every deletion compares the two ids first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from sqlalchemy import Connection, and_, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import ForeignRootError, RootMissingError, WrittenRowsMissingError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster, JobTrackerKind
from airflow_hivex.core.model.plans import JobResult, Plan, PlannedRoot, Write, WrittenDirectory
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import (
    cluster_roots,
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
    tables,
)

MARKER = "_hivex_root.json"
_ID = "root"
_LOOKED_FOR = 50
"""The number of directories, the newest first, that a root without a marker is searched for."""


class Roots:
    """The roots of the clusters and their markers. A check reads one small file, and the database the first time."""

    def __init__(self, store: Store, clusters: Clusters, clock: Clock) -> None:
        self._store = store
        self._clusters = clusters
        self._clock = clock
        self._known: dict[str, str] = {}

    def check(self, name: str) -> None:
        """Ensure that the root of a cluster is the one that it was; the first use of a cluster marks it.

        A cluster that was used before there were markers is marked if any of its newest directories is there.

        Raises:
            UnknownClusterError: the cluster is not configured.
            RootMissingError: the marker, or everything that is registered, is missing.
            ForeignRootError: another metastore, or another cluster, has marked the root.
            StorageError: the file system cannot be read or written.
        """
        cluster = self._clusters.get(name)
        files = ClusterFiles.of(cluster)
        if self._is_known(name, files):
            return
        root_id, is_marked, found = self._look(name, files)
        if is_marked:
            self._compare(cluster, root_id, found)
        else:
            self._mark_first(cluster, files, found, root_id)

    def examine(self, name: str) -> None:
        """Ensure the same and write nothing; a root that was never marked passes.

        Raises:
            RootMissingError, ForeignRootError, StorageError: as in :meth:`check`.
        """
        cluster = self._clusters.get(name)
        files = ClusterFiles.of(cluster)
        if self._is_known(name, files):
            return
        root_id, is_marked, found = self._look(name, files)
        if is_marked:
            self._compare(cluster, root_id, found)

    def planned(self, name: str) -> PlannedRoot:
        """Return the root of a cluster for the plan of a job. Asks neither database nor file system.

        The processes of a job compare the marker if this process has compared it before.
        """
        cluster = self._clusters.get(name)
        known = self._known.get(name)
        if known is None or cluster.root.scheme != "file":
            return PlannedRoot(name, cluster.shown_filesystem)
        path = cluster.root.uri.partition("://")[2]
        return PlannedRoot(name, cluster.shown_filesystem, path, f"{path.rstrip('/')}/{MARKER}", known)

    def accept(self, name: str) -> int:
        """Take the root of a cluster as it is now, whatever was there before; how many directories are registered.

        Other processes take it from their next statement on.

        Raises:
            UnknownClusterError: the cluster is not configured.
            StorageError: the file system cannot be written.
        """
        cluster = self._clusters.get(name)
        files = ClusterFiles.of(cluster)
        root_id = str(uuid.uuid4())
        values = {"root_id": root_id, "is_marked": False, "registered_ms": self._clock()}

        def begin(connection: Connection) -> None:
            self._insert(connection, name, root_id)
            connection.execute(update(cluster_roots).where(cluster_roots.c.cluster == name).values(**values))

        self._store.write(begin, name="accept root")
        self._mark(cluster, files, root_id)
        copies = directory_copies.c
        with self._store.read() as connection:
            count = select(func.count()).select_from(directory_copies).where(copies.cluster == name)
            return int(connection.execute(count).scalar_one())

    def _is_known(self, name: str, files: ClusterFiles) -> bool:
        """Return whether the marker is the one that this process has seen before. Asks no database."""
        known = self._known.get(name)
        return known is not None and _read(files) == known

    def _look(self, name: str, files: ClusterFiles) -> tuple[str | None, bool, str | None]:
        """Return the id of a cluster's root, whether it was marked, and the id in the marker that is there.

        A process that marks a root notes the id, writes the marker, then notes that it is marked. Where the two differ,
        that may have happened between one look and the other, and so both are looked at again.
        """
        for _ in range(2):
            root_id, is_marked = self._noted(name) or (None, False)
            found = _read(files)
            if found == root_id or (found is None and not is_marked):
                break
        return root_id, is_marked, found

    def _noted(self, name: str) -> tuple[str, bool] | None:
        """Return the id of a cluster's root, and whether the marker with it was written."""
        roots = cluster_roots.c
        with self._store.read() as connection:
            row = connection.execute(select(roots.root_id, roots.is_marked).where(roots.cluster == name)).one_or_none()
        return None if row is None else (row.root_id, row.is_marked)

    def _compare(self, cluster: Cluster, root_id: str | None, found: str | None) -> None:
        if found is None:
            raise RootMissingError(cluster.name, cluster.shown_filesystem, f"its marker {MARKER} is not there")
        if found != root_id:
            raise ForeignRootError(cluster.name, cluster.shown_filesystem, MARKER)
        self._known[cluster.name] = found

    def _mark_first(self, cluster: Cluster, files: ClusterFiles, found: str | None, begun: str | None) -> None:
        """Mark a root, or finish what another process has begun."""
        if found is None:
            self._check_not_empty(cluster, files)
        elif found != begun:
            raise ForeignRootError(cluster.name, cluster.shown_filesystem, MARKER)

        def begin(connection: Connection) -> str:
            # Of several processes at once the first one gives the id.
            self._insert(connection, cluster.name, str(uuid.uuid4()))
            of_cluster = cluster_roots.c.cluster == cluster.name
            return str(connection.execute(select(cluster_roots.c.root_id).where(of_cluster)).scalar_one())

        self._mark(cluster, files, self._store.write(begin, name="note root"))

    def _insert(self, connection: Connection, name: str, root_id: str) -> None:
        values = {"cluster": name, "root_id": root_id, "is_marked": False, "registered_ms": self._clock()}
        insert_or_skip = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
        connection.execute(insert_or_skip(cluster_roots).values(**values).on_conflict_do_nothing())

    def _mark(self, cluster: Cluster, files: ClusterFiles, root_id: str) -> None:
        files.make_directory("")
        files.write_text(MARKER, json.dumps({_ID: root_id, "cluster": cluster.name}))
        marked = update(cluster_roots).where(
            cluster_roots.c.cluster == cluster.name, cluster_roots.c.root_id == root_id
        )
        self._store.write(lambda connection: connection.execute(marked.values(is_marked=True)), name="mark root")
        # Two metastores may have written theirs at once.
        self._compare(cluster, root_id, _read(files))

    def _check_not_empty(self, cluster: Cluster, files: ClusterFiles) -> None:
        """Refuse a root that has no files although it should.

        Raises:
            RootMissingError: of the newest registered directories none is there.
        """
        with self._store.read() as connection:
            registered = _newest_directories(connection, cluster.name)
        if registered and not any(files.exists(location) for location in registered):
            missing = f"none of the {len(registered)} newest directories that are registered there is"
            raise RootMissingError(cluster.name, cluster.shown_filesystem, missing)


def _newest_directories(connection: Connection, cluster: str) -> list[str]:
    """Return the locations of directories with files that a cluster should hold. One statement."""
    d, copies, held = directories.c, directory_copies.c, cluster_storage_descriptors.c
    place = func.coalesce(held.location, partitions.c.location, tables.c.location)
    query = (
        select(place.label("location"), d.name)
        .select_from(directory_copies)
        .join(directories, d.id == copies.directory_id)
        .join(tables, and_(tables.c.id == d.table_id, ~tables.c.dropped))
        .outerjoin(partitions, partitions.c.id == d.partition_id)
        .outerjoin(
            cluster_storage_descriptors,
            and_(
                held.table_id == d.table_id,
                held.partition_id.is_not_distinct_from(d.partition_id),
                held.cluster == cluster,
            ),
        )
        .where(copies.cluster == cluster, d.files > 0)
        .order_by(d.id.desc())
        .limit(_LOOKED_FOR)
    )
    return [f"{row.location}/{row.name}".rstrip("/") for row in connection.execute(query)]


def _read(files: ClusterFiles) -> str | None:
    """Return the id in the marker of a root, or None without a marker; the empty text where it cannot be understood."""
    text = files.read_text(MARKER)
    if not text:
        # Its writer died before it wrote anything.
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get(_ID, "")) if isinstance(found, dict) else ""


_HERE = (JobTrackerKind.LOCAL, JobTrackerKind.CONNECT)
"""The kinds of clusters for which this process puts the files of a job into their places."""


def check_written(cluster: Cluster, plan: Plan, result: JobResult) -> JobResult:
    """Return the result of a job, whose files are all there as this process finds them.

    The driver of spark-submit is a process of its own, perhaps on another host. Each result of a job passes here before
    any part of it is registered.

    Raises:
        WrittenRowsMissingError: some are not there, or have another size.
        StorageError: the file system cannot be read.
    """
    if cluster.kind in _HERE:
        return result
    files = ClusterFiles.of(cluster)
    for write, written in _written(plan, result):
        for directory in written:
            _check(cluster, files, write, directory)
    return result


def _written(plan: Plan, result: JobResult) -> Iterable[tuple[Write, tuple[WrittenDirectory, ...]]]:
    if plan.write is not None:
        yield plan.write, result.directories
    for insert, written in zip(plan.inserts, result.inserted, strict=False):
        yield insert.write, written


def _check(cluster: Cluster, files: ClusterFiles, write: Write, directory: WrittenDirectory) -> None:
    parent = write.path if directory.partition is None else f"{write.path.rstrip('/')}/{directory.partition}"
    location = cluster.relative(f"{parent.rstrip('/')}/{directory.name}")
    sizes = [size for name, size in files.list_files(location).items() if name.endswith(write.batch_suffix)]
    if (len(sizes), sum(sizes)) != (directory.files, directory.size_bytes):
        raise WrittenRowsMissingError(
            cluster.name,
            write.table,
            cluster.shown_uri(location),
            f"{directory.files} files of {directory.size_bytes} bytes",
            f"{len(sizes)} files of {sum(sizes)} bytes",
            "the host of its driver and this one",
        )
