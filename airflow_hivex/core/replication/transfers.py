"""The transfer of planned directories: comparison with existing files, records of places, copying, verification."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from airflow_hivex.core.catalog.copy_rows import place_in_copy
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.clusters import Cluster, JobTrackerKind
from airflow_hivex.core.model.directories import UNFINISHED
from airflow_hivex.core.model.plans import PlannedRoot
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.replication.copying import (
    CopiedFiles,
    FileCopy,
    There,
    copy_files,
    directory_checksum,
    hash_files,
)
from airflow_hivex.core.replication.job_copies import copy_by_jobs
from airflow_hivex.core.replication.places import CopyPlaces
from airflow_hivex.core.replication.planning import PlannedDirectory, PlannedTable
from airflow_hivex.core.replication.running import RunningReplication

log = logging.getLogger(__name__)

THREADS = 8
_MIN_SIZE = "hivex.replication.job.min.size"
_JOB_CLUSTER = "hivex.replication.job.cluster"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of a replication: threads, the limit of bytes per second, progress, and checks of copies.

    ``copy_cluster`` is the cluster whose Spark copies the files. With None, settings and the number of bytes decide.
    """

    threads: int = THREADS
    bytes_per_second: int | None = None
    progress: Callable[[CopyProgress], object] | None = None
    verify: bool = False
    copy_cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Transferred:
    """The plan, with the files that exist in the places of copies, and the copied files, with their checksums."""

    planned: Sequence[PlannedTable]
    files: Sequence[FileCopy]
    copied: CopiedFiles


class Transfers:
    """The transfer of planned directories to their cluster, without registration."""

    def __init__(self, services: Foundation, places: CopyPlaces) -> None:
        self._services = services
        self._places = places

    def transfer(
        self, running: RunningReplication, planned: Sequence[PlannedTable], target: str, options: CopyOptions
    ) -> Transferred:
        """Copy the files of the directories that the target lacks. Return the plan and the copied files.

        The caller must lock the tables against other replications to the target.

        Raises:
            HivexError: for the reasons of :func:`~airflow_hivex.core.replication.copying.copy_files` and
                :func:`~airflow_hivex.core.replication.job_copies.copy_by_jobs`.
            RootMissingError, ForeignRootError: the root of the target is not mounted, or is another root.
        """
        self._services.roots.check(target)
        files = cache(self._services.files)
        comparison = CopyComparison(files, running.stop, options.threads)
        compared = [self._compared(each, comparison, running) for each in planned]
        taken = [self._with_links(each) for each in self._places.take(running.txn_id, compared, files)]
        wanted = [each for table in taken for lacks in table.lacking for each in lacks.copies(table.table.full_name)]
        copied = self._copied(running, wanted, target, options, files)
        # A disk that was lost meanwhile leaves an empty folder, into which the last files may have gone.
        self._services.roots.check(target)
        return Transferred(taken, wanted, copied)

    def _copied(
        self,
        running: RunningReplication,
        wanted: Sequence[FileCopy],
        target: str,
        options: CopyOptions,
        files: Callable[[str], ClusterFiles],
    ) -> CopiedFiles:
        """Copy files by a job, by threads of this process, or by both. Return the copied files with checksums."""
        left, by_job = wanted, CopiedFiles({}, frozenset())
        cluster = self._job_cluster(wanted, target, options)
        if cluster is not None:
            done = copy_by_jobs(
                self._services.clusters,
                cluster,
                self._services.clusters.get(target),
                wanted,
                running.stop,
                name=f"copies to {target}, transaction {running.txn_id}",
                threads=options.threads,
                roots=self._roots(wanted, target),
                bytes_per_second=options.bytes_per_second,
                progress=options.progress,
                only_by_job=options.copy_cluster is not None,
            )
            left, by_job = done.left, done.copied
        copied = copy_files(
            files,
            files(target),
            target,
            left,
            running.stop,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            progress=options.progress,
        )
        return CopiedFiles({**by_job.checksums, **copied.checksums}, by_job.kept | copied.kept)

    def _roots(self, wanted: Sequence[FileCopy], target: str) -> list[PlannedRoot]:
        """Return the roots below which the tasks of a job read or write.

        Raises:
            RootMissingError, ForeignRootError: a root is not mounted, or is another root.
        """
        names = dict.fromkeys([*(each.source for each in wanted), target])
        for name in names:
            self._services.roots.examine(name)
        return [self._services.roots.planned(name) for name in names]

    def _job_cluster(self, wanted: Sequence[FileCopy], target: str, options: CopyOptions) -> Cluster | None:
        """Return the cluster whose Spark copies the files, or None if this process copies them.

        Raises:
            UnknownClusterError: the named cluster is not configured.
            HivexError: the cluster that the caller names cannot run a job.
        """
        clusters, health, settings = self._services.clusters, self._services.health, self._services.settings
        if not wanted:
            return None
        if options.copy_cluster is not None:
            problem = health.of_runner(options.copy_cluster).problem
            if problem is not None:
                raise problem
            return clusters.get(options.copy_cluster)
        smallest = int(settings[_MIN_SIZE])
        if smallest < 0 or sum(each.size_bytes for each in wanted) < smallest:
            return None
        configured = str(settings[_JOB_CLUSTER])
        cluster = clusters.get(configured or target)
        if cluster.kind is JobTrackerKind.LOCAL and not configured:
            # The cluster's job would run in this process.
            return None
        problem = health.of_runner(cluster.name).problem
        if problem is not None:
            log.warning(
                "Cluster %s cannot run the job that copies, so that this process copies: %s", cluster.name, problem
            )
            return None
        return cluster

    def _compared(self, planned: PlannedTable, comparison: CopyComparison, running: RunningReplication) -> PlannedTable:
        if not planned.present:
            return planned
        registered = [each.registered for each in planned.present if each.registered]
        known = self._services.catalog.copy_checksums(registered)
        unfinished = self._places.unfinished(planned.table.id, planned.cluster)
        return comparison.without_equal(planned, known, running.txn_id, unfinished)

    def _with_links(self, planned: PlannedTable) -> PlannedTable:
        """Link unchanged files of an earlier copy into the place of the new copy, if the file system has hard links."""
        target = self._services.files(planned.cluster)
        lacking = []
        for each in planned.lacking:
            linked = [
                name
                for name, location in each.reused.items()
                if name not in each.there and target.link(location, each.place_of(name))
            ]
            lacking.append(replace(each, there={**each.there, **dict.fromkeys(linked, There.OWN)}))
        return replace(planned, lacking=tuple(lacking))


class CopyComparison:
    """The comparison of copies with their sources, by the names, sizes and checksums of their files."""

    def __init__(self, files: Callable[[str], ClusterFiles], stop: threading.Event, threads: int) -> None:
        self._files = files
        self._stop = stop
        self._threads = threads

    def without_equal(
        self, planned: PlannedTable, known: Mapping[int, str], txn_id: int, unfinished: Collection[str]
    ) -> PlannedTable:
        """Return the plan, to which those directories of the target are added that differ from their sources.

        Each directory in ``planned.present`` is compared with its source. A directory that differs is copied again to
        the same location. A changed partition of a plain table is copied into a new folder, since queries can be
        reading the old folder; ``unfinished`` are such folders of earlier replications, which are used again. Unchanged
        files are reused. ``known`` is a dict from directory id to recorded checksum.
        """
        if not planned.present:
            return planned
        changed = list(self._changed(planned, known))
        folder = f"{planned.table.storage.primary.location}_copy_{txn_id}"
        again = []
        for each, reused in changed:
            if each.registered is not None:
                again.append(replace(each, is_held=True))
                continue
            place = _place(planned, each, folder)
            ending = place.removeprefix(folder)
            left = [one for one in unfinished if _is_version(one, planned.table.storage.primary.location, ending)]
            place = max(left, default=place)
            again.append(replace(each, place=place, folder=place, reused=reused))
        lacking = (*planned.lacking, *again)
        return replace(planned, lacking=lacking, present=(), is_complete=planned.is_complete and not again)

    def _changed(
        self, planned: PlannedTable, known: Mapping[int, str]
    ) -> Iterator[tuple[PlannedDirectory, dict[str, str]]]:
        """Yield each directory that differs from its source, with a dict from the names of equal files to locations."""
        target = self._files(planned.cluster)
        for each in planned.present:
            found = {name: size for name, size in target.walk(each.place) if not _is_apart(name)}
            same_size = [name for name, size in each.files.items() if found.get(name) == size]
            is_alike = found == dict(each.files)
            if each.registered is None:
                same = self._same(planned, each, same_size)
                if not is_alike or len(same) < len(each.files):
                    yield each, {name: each.place_of(name) for name in same}
            elif not is_alike or not self._is_right(planned, each, known):
                yield each, {}

    def _is_right(self, planned: PlannedTable, directory: PlannedDirectory, known: Mapping[int, str]) -> bool:
        """Return whether the copy of a registered directory has the recorded checksum.

        If no checksum is recorded, the files are compared with the files of the source.
        """
        assert directory.registered is not None
        expected = known.get(directory.registered.id)
        if expected is None:
            return len(self._same(planned, directory, list(directory.files))) == len(directory.files)
        copies = {name: (planned.cluster, directory.place_of(name)) for name in directory.files}
        hashed = hash_files(self._files, list(copies.values()), self._stop, threads=self._threads)
        return checksum_of({name: hashed[copy] for name, copy in copies.items()}) == expected

    def _same(self, planned: PlannedTable, directory: PlannedDirectory, names: Collection[str]) -> list[str]:
        """Return the names of the files whose copies have the same checksum as their sources."""
        pairs = {
            name: ((planned.cluster, directory.place_of(name)), (directory.source, directory.source_of(name)))
            for name in names
        }
        both = [file for pair in pairs.values() for file in pair]
        hashed = hash_files(self._files, both, self._stop, threads=self._threads)
        return [name for name, (copy, source) in pairs.items() if hashed[copy] == hashed[source]]


def checksum_of(checksums: Mapping[str, str]) -> str:
    """Return the checksum of a directory, computed without its hidden files."""
    return directory_checksum({name: each for name, each in checksums.items() if not is_hidden(name)})


def _is_apart(name: str) -> bool:
    """Return whether readers and replications ignore a file, because it is a hidden file or an unfinished copy."""
    last = name.rpartition("/")[2]
    return last.startswith(".") or last.endswith(UNFINISHED)


def _place(planned: PlannedTable, directory: PlannedDirectory, folder: str) -> str:
    locations = {each.name: each.location for each in planned.bound.partitions}
    inside = place_in_copy(planned.table, directory.partition, locations[directory.partition])
    return f"{folder}/{inside}" if inside else folder


def _is_version(place: str, location: str, ending: str) -> bool:
    """Return whether a place lies in a new folder that an earlier replication has created for a table.

    ``location`` is the folder of the table. ``ending`` is the path of the partition below the new folder.
    """
    start = f"{location}_copy_"
    inside = place.removesuffix(ending) if ending else place
    return place.startswith(start) and place.endswith(ending) and inside[len(start) :].isdecimal()
