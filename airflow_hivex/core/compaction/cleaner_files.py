"""The files that the cleaner finds on the clusters, and their deletion."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.compaction.cleaning_work import CleanedFolder, CleaningWork
from airflow_hivex.core.errors import ReplacementMissingError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.cleaning import Aborted, is_settled, is_without_owner
from airflow_hivex.core.model.objects import PLAIN_LAYOUT

_SUFFIXED = "bucket_"
OBSOLETE, ABORTED = "obsolete", "aborted"


@dataclass(frozen=True, slots=True)
class Doomed:
    """A directory or file that is to be deleted. ``is_file`` is true for a file of a delta that itself stays."""

    cluster: str
    location: str
    why: str
    is_file: bool = False


class CleaningFiles:
    """The clusters' file systems, in which the cleaner finds and deletes files."""

    def __init__(self, clusters: Clusters, roots: Roots) -> None:
        self._clusters = clusters
        self._roots = roots
        self._files: dict[str, ClusterFiles] = {}

    def of(self, name: str) -> ClusterFiles:
        """Return the file system of a cluster.

        Raises:
            UnknownClusterError: the cluster is not configured any more.
            RootMissingError, ForeignRootError: the root marker is missing, or belongs to another root.
            StorageError: the kind of file system is unknown.
        """
        if name not in self._files:
            cluster = self._clusters.get(name)
            self._roots.check(name)
            self._files[name] = ClusterFiles.of(cluster)
        return self._files[name]

    def check_replaced(self, work: CleaningWork) -> None:
        """Raise an error unless all directories that replace obsolete directories are complete on the primary cluster.

        Each replacing directory is listed once.

        Raises:
            ReplacementMissingError: a replacing directory has fewer files or bytes than registered.
            StorageError: the file system cannot be read.
        """
        if not work.is_active or work.table is None:
            return
        cluster = self._clusters.get(work.table.storage.primary.cluster)
        folder = work.place.location if work.place is not None else work.table.storage.primary.location
        for each in work.replacing:
            location = f"{folder}/{each.name}"
            found = self.of(cluster.name).list_files(location) if each.files else {}
            # A streaming batch may have added files since.
            if len(found) < each.files or sum(found.values()) < each.size_bytes:
                raise ReplacementMissingError(
                    cluster.shown_uri(location), (len(found), sum(found.values())), (each.files, each.size_bytes)
                )

    def find(self, work: CleaningWork) -> list[Doomed]:
        """Return the existing directories and files that can be deleted. Each folder is listed once.

        If the work has aborted writes, the folder of the table is listed, too.

        Raises:
            StorageError: a file system cannot be read.
        """
        if not work.is_active:
            return []
        found: dict[Doomed, None] = {}
        for folder in work.folders:
            files = self.of(folder.cluster)
            there = files.list_entries(folder.location, folder.depth)
            found.update(dict.fromkeys(self._obsolete(work, folder, set(there))))
            found.update(dict.fromkeys(_on_the_way(work, folder, there)))
            found.update(dict.fromkeys(_without_owner(work, folder, there)))
            if work.aborted is not None:
                for path in there:
                    found.update(dict.fromkeys(self._aborted(work, folder, path)))
                    if work.aborted.is_staging(path.rpartition("/")[2]):
                        found[Doomed(folder.cluster, f"{folder.location}/{path}", ABORTED)] = None
        if work.aborted is not None and work.table is not None:
            primary = work.table.storage.primary
            for name in self.of(primary.cluster).list_entries(primary.location):
                if work.aborted.is_staging(name):
                    found[Doomed(primary.cluster, f"{primary.location}/{name}", ABORTED)] = None
        return list(found)

    def _obsolete(self, work: CleaningWork, folder: CleanedFolder, there: set[str]) -> Iterable[Doomed]:
        for name in sorted(work.obsolete):
            location = f"{folder.location}/{name}".rstrip("/")
            # Original files may be in subfolders.
            is_there = name in there if "/" not in name else self.of(folder.cluster).exists(location)
            if is_there:
                yield Doomed(folder.cluster, location, OBSOLETE)

    def _aborted(self, work: CleaningWork, folder: CleanedFolder, path: str) -> Iterable[Doomed]:
        """Yield the directory ``path`` if an aborted write has left it, unless the directory is obsolete.

        If the directory is the delta of a streaming batch, and other transactions can have files in the delta, only the
        files of aborted transactions are yielded.
        """
        assert work.aborted is not None
        assert work.write_ids is not None
        directory = work.aborted.leftover(path.rpartition("/")[2])
        if directory is None or directory.name in work.obsolete:
            return
        location = f"{folder.location}/{path}"
        partition_id = work.place.id if work.place is not None else None
        if not directory.is_batch:
            yield Doomed(folder.cluster, location, ABORTED)
            return
        is_registered = (
            any(name == directory.name for _, name in work.batches)
            if folder.depth
            else (partition_id, directory.name) in work.batches
        )
        if not is_registered and is_settled(directory, work.write_ids):
            yield Doomed(folder.cluster, location, ABORTED)
            return
        registered = work.registered.get(directory.name)
        if registered is not None and registered.row_layout == PLAIN_LAYOUT:
            return
        suffixes = tuple(f"_{each - directory.min_write_id}" for each in work.aborted.of_batch(directory))
        for name in self.of(folder.cluster).list_entries(location):
            # The fourth transaction of the batch has written bucket_00000_3.
            if name.startswith(_SUFFIXED) and name.count("_") == 2 and name.endswith(suffixes):
                yield Doomed(folder.cluster, f"{location}/{name}", ABORTED, is_file=True)

    def delete(self, doomed: Doomed) -> None:
        """Delete a directory or file, if it exists.

        Raises:
            StorageError: the directory or file could not be deleted.
        """
        files = self.of(doomed.cluster)
        if doomed.is_file:
            files.delete_file(doomed.location)
        else:
            files.delete_directory(doomed.location)

    def delete_empty_folders(self, work: CleaningWork) -> None:
        """Delete the empty folders of a partition that does not exist.

        Only aborted transactions have written to such a partition. The folders of other partitions stay.
        """
        if work.table is not None and work.table.is_partitioned and work.partition and work.place is None:
            for folder in work.folders:
                self.of(folder.cluster).delete_empty_directories(folder.location, len(work.table.partition_keys))


def _on_the_way(work: CleaningWork, folder: CleanedFolder, there: Iterable[str]) -> Iterable[Doomed]:
    """Yield intermediate directories of a compaction, which its worker has made but could not delete."""
    if work.entry is None or work.entry.txn_id is None:
        return
    own = frozenset({work.entry.txn_id})
    made = Aborted(own, frozenset(), compactions=own)
    for name in there:
        if made.is_staging(name) or (name not in work.registered and made.leftover(name) is not None):
            yield Doomed(folder.cluster, f"{folder.location}/{name}", ABORTED)


def _without_owner(work: CleaningWork, folder: CleanedFolder, there: Collection[str]) -> Iterable[Doomed]:
    """Yield the unregistered directories of ended transactions in the folder on the primary cluster.

    If a registered directory is missing in the folder, nothing is yielded. In this case the database is possibly older
    than the files, for example after a restore, and an unregistered directory can have the last copy of rows.
    """
    table, place = work.table, work.place
    if table is None or work.write_ids is None or work.valid_txns is None or (table.is_partitioned and place is None):
        return
    primary = table.storage.primary
    location = primary.location if place is None else place.location
    if (folder.cluster, folder.location) != (primary.cluster, location):
        return
    if any(each.files and each.name.partition("/")[0] not in there for each in work.registered.values()):
        return
    for name in there:
        if name not in work.registered and is_without_owner(name, work.write_ids, work.valid_txns):
            yield Doomed(folder.cluster, f"{location}/{name}", ABORTED)
