"""Checks of the root of a cluster's file system: it must be the root to which the metastore and its jobs have written.

A folder on which no file system is mounted looks like an empty root. Files that are written there disappear when the
file system is mounted again, and the cleaner regards missing files as deleted. So the first write to a cluster creates
a root marker: a file with an id, which the metastore stores, too. Every write and every deletion first compares the two
ids.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from sqlalchemy import Connection, and_, func, select, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import ForeignRootError, RootMissingError, WrittenRowsMissingError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.job.mounts import is_own_disk
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
from airflow_hivex.core.store.upserts import insert_into

MARKER = "_hivex_root.json"
_ID = "root"
_LOOKED_FOR = 50
"""The largest number of registered directories that are looked for in a root without a marker, the newest first."""


class Roots:
    """The roots of the clusters and their markers.

    A check reads one small file. The first check of a cluster also reads the database.
    """

    def __init__(self, store: Store, clusters: Clusters, clock: Clock) -> None:
        self._store = store
        self._clusters = clusters
        self._clock = clock
        self._known: dict[str, str] = {}

    def check(self, name: str) -> None:
        """Ensure that the root of a cluster has its root marker; the first use of a cluster creates the marker.

        If directories are registered on the cluster, a root without a marker is marked only if one of the newest of
        these directories exists.

        Raises:
            UnknownClusterError: the cluster is not configured.
            RootMissingError: the marker, or all of the newest registered directories, are missing.
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
        """Raise an error if the root of a cluster does not have its root marker. Nothing is written.

        A root that was never marked is accepted.

        Raises:
            RootMissingError, ForeignRootError, StorageError: as in :meth:`check`, if the root was marked before.
        """
        cluster = self._clusters.get(name)
        files = ClusterFiles.of(cluster)
        if self._is_known(name, files):
            return
        root_id, is_marked, found = self._look(name, files)
        if is_marked:
            self._compare(cluster, root_id, found)

    def planned(self, name: str) -> PlannedRoot:
        """Return the root of a cluster for the plan of a job.

        The method reads neither the database nor the file system. If this process has seen the marker of a local root,
        the processes of the job check the marker, too.
        """
        cluster = self._clusters.get(name)
        known = self._known.get(name)
        if known is None or cluster.root.scheme != "file":
            return PlannedRoot(name, cluster.shown_filesystem)
        path = cluster.root.uri.partition("://")[2]
        return PlannedRoot(name, cluster.shown_filesystem, path, f"{path.rstrip('/')}/{MARKER}", known)

    def accept(self, name: str) -> int:
        """Accept the current root of a cluster, and mark it with a new id. Return the number of registered directories.

        Other processes use the new id from their next statement on.

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
        """Return whether the root still has the marker that this process has seen before. Only the marker is read."""
        known = self._known.get(name)
        return known is not None and _read(files) == known

    def _look(self, name: str, files: ClusterFiles) -> tuple[str | None, bool, str | None]:
        """Return the stored id of a cluster's root, whether the root is stored as marked, and the id in the marker.

        A process that marks a root stores the id, writes the marker, and then stores that the root is marked. If the
        two ids differ, another process is possibly between these steps, so both ids are read a second time.
        """
        for _ in range(2):
            root_id, is_marked = self._noted(name) or (None, False)
            found = _read(files)
            if found == root_id or (found is None and not is_marked):
                break
        return root_id, is_marked, found

    def _noted(self, name: str) -> tuple[str, bool] | None:
        """Return the stored id of a cluster's root and whether its marker was written, or None for a new cluster."""
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
        """Mark a root for the first time, or complete the marking that another process has begun."""
        if found is None:
            self._check_not_empty(cluster, files)
        elif found != begun:
            raise ForeignRootError(cluster.name, cluster.shown_filesystem, MARKER)

        def begin(connection: Connection) -> str:
            # If several processes mark the root at once, the first one determines the id.
            self._insert(connection, cluster.name, str(uuid.uuid4()))
            of_cluster = cluster_roots.c.cluster == cluster.name
            return str(connection.execute(select(cluster_roots.c.root_id).where(of_cluster)).scalar_one())

        self._mark(cluster, files, self._store.write(begin, name="note root"))

    def _insert(self, connection: Connection, name: str, root_id: str) -> None:
        values = {"cluster": name, "root_id": root_id, "is_marked": False, "registered_ms": self._clock()}
        connection.execute(insert_into(connection, cluster_roots).values(**values).on_conflict_do_nothing())

    def _mark(self, cluster: Cluster, files: ClusterFiles, root_id: str) -> None:
        files.make_directory("")
        files.write_text(MARKER, json.dumps({_ID: root_id, "cluster": cluster.name}))
        marked = update(cluster_roots).where(
            cluster_roots.c.cluster == cluster.name, cluster_roots.c.root_id == root_id
        )
        self._store.write(lambda connection: connection.execute(marked.values(is_marked=True)), name="mark root")
        # Another metastore may have written its marker at the same time.
        self._compare(cluster, root_id, _read(files))

    def _check_not_empty(self, cluster: Cluster, files: ClusterFiles) -> None:
        """Refuse a root without any of the newest registered directories of the cluster.

        Raises:
            RootMissingError: directories are registered, and none of the newest exists.
        """
        with self._store.read() as connection:
            registered = _newest_directories(connection, cluster.name)
        if registered and not any(files.exists(location) for location in registered):
            missing = f"none of the {len(registered)} newest directories that are registered there is"
            raise RootMissingError(cluster.name, cluster.shown_filesystem, missing)


def _newest_directories(connection: Connection, cluster: str) -> list[str]:
    """Return the locations of the newest directories with files that are registered on a cluster. One query."""
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
    """Return the id in the marker of a root, or None if there is no marker. An invalid marker gives an empty text."""
    text = files.read_text(MARKER)
    if not text:
        # The file is missing, or its writer was killed before it wrote the content.
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get(_ID, "")) if isinstance(found, dict) else ""


_HERE = (JobTrackerKind.LOCAL, JobTrackerKind.CONNECT)
"""The kinds of job trackers with which this process itself moves the files of a job to their places."""


def check_written(cluster: Cluster, plan: Plan, result: JobResult) -> JobResult:
    """Check that all files of a job's writes exist (:func:`check_directories`), and return the job's result."""
    if plan.write is not None:
        check_directories(cluster, plan.write, result.directories)
    for insert, written in zip(plan.inserts, result.inserted, strict=False):
        check_directories(cluster, insert.write, written)
    return result


def check_directories(cluster: Cluster, write: Write, written: Iterable[WrittenDirectory]) -> None:
    """Ensure that this process finds all files of a write. Call it before the directories are registered.

    The check is skipped if this process itself has moved the files to a disk of this host. The driver of spark-submit
    is a process of its own, perhaps on another host.

    Raises:
        WrittenRowsMissingError: a file is missing, or has another size.
        StorageError: the file system cannot be read.
    """
    files = ClusterFiles.of(cluster)
    local = files.local_path("")
    if cluster.kind in _HERE and local is not None and is_own_disk(local):
        return
    for directory in written:
        _check(cluster, files, write, directory)


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
            "the host of the driver and this one",
        )
