"""The file systems of the examined clusters, and the entries of folders. A cluster that does not respond is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.doctor.registered import TableRows
from airflow_hivex.core.errors import ForeignRootError, RootMissingError, StorageError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import AcidDirectory, parse_directory
from airflow_hivex.core.model.findings import Finding, FindingKind

_MARKERS = frozenset({"_SUCCESS", "_metadata", "_common_metadata", "_orc_acid_version"})


@dataclass(slots=True)
class Entry:
    """A directory or file directly in the folder of a table or partition. Paths are relative to the cluster's root.

    ``files`` and ``size_bytes`` count the data files in the entry; ``all_files`` and ``all_bytes`` also count hidden
    files. ``each`` is a dict from path to size of data files. It is filled only for deltas of streaming batches, and
    for directories that are not ACID directories.
    """

    partition: str | None
    folder: str
    path: str
    acid: AcidDirectory | None
    files: int = 0
    size_bytes: int = 0
    all_files: int = 0
    all_bytes: int = 0
    each: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the entry in the folder. It is empty if the location of the partition is a file."""
        return self.path[len(self.folder) + 1 :]

    def add(self, path: str, inside: str, size_bytes: int) -> None:
        """Count a file; ``inside`` is its path below the entry."""
        self.all_files += 1
        self.all_bytes += size_bytes
        if inside and _is_hidden(inside):
            return
        self.files += 1
        self.size_bytes += size_bytes
        if self.acid is None or self.acid.is_batch:
            self.each[path] = size_bytes


def entries(
    files: Iterable[tuple[str, int]],
    root: str,
    *,
    depth: int = 0,
    partition: str | None = None,
    elsewhere: Mapping[str, object] | None = None,
) -> dict[str, Entry]:
    """Return a dict from path to entry, for the entries of a folder that have files.

    ``files`` has all files below the folder ``root``, as (relative path, size) pairs. ``depth`` is the number of
    partition keys, or 0 if the whole folder belongs to ``partition``. Files in the folders ``elsewhere`` are skipped,
    and so are marker and checksum files such as ``_SUCCESS``.
    """
    found: dict[str, Entry] = {}
    folder, entry = None, None
    for path, size_bytes in files:
        above, _, last = path.rpartition("/")
        whole = f"{root}/{path}".rstrip("/")
        # Mostly the files of one directory follow each other.
        if entry is None or above != folder or not whole.startswith(f"{entry.path}/"):
            names = path.split("/")
            if elsewhere and any(f"{root}/{'/'.join(names[:at])}" in elsewhere for at in range(1, len(names) + 1)):
                continue
            level = 0
            while level < min(depth, len(names) - 1) and "=" in names[level]:
                level += 1
            if level == len(names) - 1 and is_marker(last):
                continue
            place = "/".join((root, *names[:level]))
            entry_path = f"{place}/{names[level]}".rstrip("/")
            of = "/".join(names[:level]) if depth and level == depth else partition
            folder = above
            entry = found.get(entry_path)
            if entry is None:
                acid = parse_directory(names[level]) if level < len(names) - 1 else None
                entry = found[entry_path] = Entry(of, place, entry_path, acid)
        entry.add(whole, whole[len(entry.path) + 1 :], size_bytes)
    return found


def is_marker(name: str) -> bool:
    """Return whether a file of this name is a marker or checksum of other files."""
    return name in _MARKERS or (name.startswith(".") and name.endswith(".crc"))


def _is_hidden(inside: str) -> bool:
    return inside.startswith(("_", ".")) or "/_" in inside or "/." in inside


_THREADS = 8
Entries = dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Looked:
    """A table, and a cluster on which its folders are examined."""

    table_id: int
    cluster: str


class Disks:
    """The files on the disks of the clusters. Listings run in parallel. A cluster that does not respond is skipped."""

    def __init__(self, clusters: Clusters, roots: Roots, names: Iterable[str]) -> None:
        self._clusters = clusters
        self._roots = roots
        self._files: dict[str, ClusterFiles] = {}
        self._without_root: set[str] = set()
        self.unreachable: dict[str, Finding] = {}
        for name in names:
            self._try(name)

    def _try(self, name: str) -> None:
        cluster = self._clusters.get(name)
        try:
            files = self._files.get(name) or ClusterFiles.of(cluster)
            self._roots.examine(name)
            if files.exists(""):
                self._without_root.discard(name)
            else:
                # A cluster has no root before the first write.
                self._without_root.add(name)
        except (StorageError, RootMissingError, ForeignRootError) as error:
            self._files.pop(name, None)
            self.unreachable[name] = _unreachable(cluster, f"{error} Nothing on it was examined")
        else:
            self._files[name] = files

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the clusters that respond."""
        return tuple(self._files)

    def cluster(self, name: str) -> Cluster:
        """Return the configuration of a cluster."""
        return self._clusters.get(name)

    def files(self, name: str) -> ClusterFiles:
        """Return the file system of a cluster that responds."""
        return self._files[name]

    def is_absent(self, name: str, registered: int) -> bool:
        """Return whether the root of a cluster is missing although the cluster has registered directories.

        If so, the cluster is not examined any more. ``registered`` is the number of its registered directories.
        """
        if name not in self._without_root:
            return False
        message = (
            f"its folder is not there, and {registered} directories are registered in it: is a disk not mounted? "
            "Nothing on it was examined"
        )
        self._files.pop(name, None)
        self.unreachable[name] = _unreachable(self._clusters.get(name), message)
        return True

    def look(
        self, rows: Mapping[int, TableRows], only: Iterable[Looked] | None = None
    ) -> dict[Looked, Entries | Finding]:
        """Return a dict from table and cluster to the folders' entries, or to a finding if a folder cannot be read.

        On each cluster, the table's folder and each partition outside of this folder are listed once.
        """
        if only is None:
            wanted = [
                Looked(table_id, name)
                for table_id, table in rows.items()
                for name in self._files
                if table.root(name) is not None or table.places.get(name)
            ]
        else:
            wanted = [each for each in only if each.table_id in rows and each.cluster in self._files]
        with ThreadPoolExecutor(_THREADS) as pool:
            listed = pool.map(lambda each: self._look(rows[each.table_id], each.cluster), wanted)
            found = dict(zip(wanted, listed, strict=True))
        failed = {each.cluster for each, what in found.items() if isinstance(what, Finding)}
        for name in failed:
            self._try(name)
        return {each: what for each, what in found.items() if each.cluster in self._files}

    def _look(self, rows: TableRows, name: str) -> Entries | Finding:
        files, root = self._files[name], rows.root(name)
        elsewhere = rows.elsewhere(name)
        found: Entries = {}
        location = root or ""
        try:
            if root is not None:
                found |= entries(files.walk(root), root, depth=rows.depth, elsewhere=elsewhere)
            for location, place in elsewhere.items():
                found |= entries(files.walk(location), location, partition=place.partition)
        except StorageError as error:
            table, uri = rows.table, self._clusters.get(name).shown_uri(location)
            return Finding(
                FindingKind.UNREACHABLE, name, table.database, table.name, None, uri, f"{error} It was not examined"
            )
        return found


def unconfigured(name: str, tables: int) -> Finding:
    """Return the finding about a cluster that has tables, but is not configured any more."""
    message = f"it is not in hive.cluster.properties and was not examined; add it there (registered tables: {tables})"
    return Finding(FindingKind.UNREACHABLE, name, None, None, None, "", message)


def _unreachable(cluster: Cluster, message: str) -> Finding:
    return Finding(FindingKind.UNREACHABLE, cluster.name, None, None, None, cluster.shown_filesystem, message)


def sizes(files: Iterator[tuple[str, int]]) -> tuple[int, int]:
    """Return a pair: the number of files, and the sum of their bytes."""
    count = size_bytes = 0
    for _, each in files:
        count += 1
        size_bytes += each
    return count, size_bytes
