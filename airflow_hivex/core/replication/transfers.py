"""The transfer of planned directories: their places are noted, their files copied and verified there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.replication.comparing import CopyComparison
from airflow_hivex.core.replication.copying import CopiedFiles, FileCopy, There, copy_files
from airflow_hivex.core.replication.places import CopyPlaces
from airflow_hivex.core.replication.planning import PlannedTable
from airflow_hivex.core.replication.running import RunningReplication
from airflow_hivex.core.replication.services import ReplicationServices

THREADS = 8


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How a replication copies: threads, bytes per second at most, progress, and whether present copies are read."""

    threads: int = THREADS
    bytes_per_second: int | None = None
    progress: Callable[[CopyProgress], object] | None = None
    verify: bool = False


@dataclass(frozen=True, slots=True)
class Transferred:
    """The plan with the state of each place, its files, and their checksums."""

    planned: Sequence[PlannedTable]
    files: Sequence[FileCopy]
    copied: CopiedFiles


class Transfers:
    """Transfers planned directories to their cluster. Registers nothing."""

    def __init__(self, services: ReplicationServices, places: CopyPlaces) -> None:
        self._services = services
        self._places = places

    def transfer(
        self, running: RunningReplication, planned: Sequence[PlannedTable], target: str, options: CopyOptions
    ) -> Transferred:
        """Copy the files of the lacking directories.

        The caller has locked the tables against other replications to the cluster.

        Raises:
            HivexError: as :func:`~airflow_hivex.core.replication.copying.copy_files`.
            RootMissingError, ForeignRootError: the root of the target is not the one that it was.
        """
        self._services.roots.check(target)
        files = cache(self._services.files)
        comparison = CopyComparison(files, running.stop, options.threads)
        compared = [self._compared(each, comparison, running) for each in planned]
        taken = [self._with_links(each) for each in self._places.take(running.txn_id, compared, files)]
        wanted = [each for table in taken for lacks in table.lacking for each in lacks.copies(table.table.full_name)]
        copied = copy_files(
            files,
            files(target),
            target,
            wanted,
            running.stop,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            progress=options.progress,
        )
        # A disk that was lost meanwhile leaves an empty folder, into which the last files may have gone.
        self._services.roots.check(target)
        return Transferred(taken, wanted, copied)

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
