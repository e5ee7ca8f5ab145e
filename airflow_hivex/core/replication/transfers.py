"""The transfer of planned directories: their places are noted, their files copied and verified there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.clusters import Cluster, JobTrackerKind
from airflow_hivex.core.model.plans import PlannedRoot
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.replication.comparing import CopyComparison
from airflow_hivex.core.replication.copying import CopiedFiles, FileCopy, There, copy_files
from airflow_hivex.core.replication.job_copies import copy_by_jobs
from airflow_hivex.core.replication.places import CopyPlaces
from airflow_hivex.core.replication.planning import PlannedTable
from airflow_hivex.core.replication.running import RunningReplication

log = logging.getLogger(__name__)

THREADS = 8
_MIN_SIZE = "hivex.replication.job.min.size"
_JOB_CLUSTER = "hivex.replication.job.cluster"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of a replication: threads, bytes per second at most, progress, and checks of copies.

    ``copy_cluster`` is the cluster whose Spark copies; None lets settings and the number of bytes decide.
    """

    threads: int = THREADS
    bytes_per_second: int | None = None
    progress: Callable[[CopyProgress], object] | None = None
    verify: bool = False
    copy_cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Transferred:
    """The plan with the state of each place, its files, and their checksums."""

    planned: Sequence[PlannedTable]
    files: Sequence[FileCopy]
    copied: CopiedFiles


class Transfers:
    """Transfers planned directories to their cluster. Registers nothing."""

    def __init__(self, services: Foundation, places: CopyPlaces) -> None:
        self._services = services
        self._places = places

    def transfer(
        self, running: RunningReplication, planned: Sequence[PlannedTable], target: str, options: CopyOptions
    ) -> Transferred:
        """Copy the files of the lacking directories.

        The caller has locked the tables against other replications to the cluster.

        Raises:
            HivexError: as :func:`~airflow_hivex.core.replication.copying.copy_files` and
                :func:`~airflow_hivex.core.replication.job_copies.copy_by_jobs`.
            RootMissingError, ForeignRootError: the root of the target is not the one that it was.
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
        """Copy files by a job, by threads of this process, or by both; return their checksums."""
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
        """Return the roots that the tasks of a job read or write below.

        Raises:
            RootMissingError, ForeignRootError: a root is not the one that it was.
        """
        names = dict.fromkeys([*(each.source for each in wanted), target])
        for name in names:
            self._services.roots.examine(name)
        return [self._services.roots.planned(name) for name in names]

    def _job_cluster(self, wanted: Sequence[FileCopy], target: str, options: CopyOptions) -> Cluster | None:
        """Return the cluster whose Spark copies the files, None where this process does.

        Raises:
            UnknownClusterError: the cluster that is named for it is not configured.
            HivexError: the caller has named it, and it cannot run a job.
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
            # Its job would run in this process.
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
        """Link the files of an earlier copy that have not changed into the place of the new one, where that works."""
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
