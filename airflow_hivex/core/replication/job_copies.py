"""Copying of files by a Spark job: for much data, and for clients that are far from the file systems.

The job is a normal plan, which each kind of runner executes. The tasks of the job only create new files, and return
checksums. If another file is in the place of a copy, or a task has failed, this process copies the file.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import cast

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import CopyAlteredError, JobCancelledError, StorageError, WrittenRowsMissingError
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.plans import COPIED, FAILED, KEPT, WRONG_SIZE, FileCopies, Plan, PlannedCopy, PlannedRoot
from airflow_hivex.core.model.progress import Progress
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.replication.copying import CopiedFiles, FileCopy, StoppedError, There
from airflow_hivex.core.runners.registry import Runner, runner_for
from airflow_hivex.core.runners.running_jobs import ProgressLog

log = logging.getLogger(__name__)

_FILES_IN_JOB = 20_000
"""The largest number of files in the plan of one job."""
_FILES_IN_TASK = 1000
_BYTES_IN_TASK = 256 << 20
_LOOK_INTERVAL_S = 0.2
_REPORTED_EVERY = 15


@dataclass(frozen=True, slots=True)
class JobCopies:
    """The files that jobs have copied, and the files that this process must copy."""

    copied: CopiedFiles
    left: Sequence[FileCopy] = ()


@dataclass(slots=True)
class _Done:
    checksums: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    left: list[FileCopy] = field(default_factory=list)
    bytes_done: int = 0


def copy_by_jobs(
    clusters: Clusters,
    cluster: Cluster,
    target: Cluster,
    files: Sequence[FileCopy],
    stop: threading.Event,
    *,
    name: str,
    threads: int,
    roots: Sequence[PlannedRoot] = (),
    bytes_per_second: int | None = None,
    progress: Callable[[CopyProgress], object] | None = None,
    only_by_job: bool = False,
) -> JobCopies:
    """Copy files by jobs on ``cluster`` and verify each copy. Return the checksums, and the files that are not copied.

    A file is not copied if another file lies in the place of the copy, or if a task could not read or write the file.
    With ``only_by_job`` a failed task is an error. The call is safe to repeat after an error or a kill.

    Args:
        clusters: all clusters, including the sources of the files.
        cluster: the cluster whose Spark runs the jobs; the executors of the cluster must reach the file systems of all
            clusters.
        target: the cluster to copy to.
        files: the files, each with a different place on the target.
        stop: cancels the job when it is set.
        name: the name of the jobs, for users to see.
        threads: the minimum number of tasks or, with ``bytes_per_second``, the exact number of tasks.
        roots: the root folders of all source and target clusters; each task checks that it reaches these folders.
        bytes_per_second: the limit of all tasks together.
        progress: called every few seconds, in the thread of the caller, with the files of the finished tasks.
        only_by_job: whether to raise the error of a task.

    Raises:
        CopyAlteredError: the size of a source file differs from ``FileCopy.size_bytes``.
        StorageError: a task could not read or write a file, and ``only_by_job`` is set.
        RootUnseenError: a task does not reach one of the root folders.
        WrittenRowsMissingError: this process does not find a file that a task has copied.
        JobError: the job failed.
        StoppedError: ``stop`` was set.
    """
    done = _Done()
    # Queries may be reading the damaged file that is replaced; a task never replaces files.
    replaced = [each for each in files if each.is_read and each.there is not There.NOTHING]
    chosen = [each for each in files if not (each.is_read and each.there is not There.NOTHING)]
    runner = runner_for(cluster)
    size_bytes = sum(each.size_bytes for each in files)
    for start in range(0, len(chosen), _FILES_IN_JOB):
        batch = chosen[start : start + _FILES_IN_JOB]
        plan = replace(_plan(clusters, cluster, target, batch, name, threads, bytes_per_second), roots=tuple(roots))
        report = _Reporting(done, batch, len(files), size_bytes, plan, progress)
        for number, outcome, checksum, location, problem in _run(runner, cluster, plan, stop, report):
            _take(done, batch[number], outcome, checksum, (location, problem), only_by_job=only_by_job)
        _check_there(cluster, target, [each for each in batch if each.place in done.checksums], threads)
    return JobCopies(CopiedFiles(done.checksums, frozenset(done.kept)), (*replaced, *done.left))


def _plan(
    clusters: Clusters,
    cluster: Cluster,
    target: Cluster,
    files: Sequence[FileCopy],
    name: str,
    threads: int,
    bytes_per_second: int | None,
) -> Plan:
    """Return the plan of a job whose tasks copy about the same number of bytes."""
    planned = tuple(
        PlannedCopy(clusters.get(each.source).uri(each.location), target.uri(each.place), each.size_bytes, task)
        for each, task in zip(files, _tasks(files, threads, is_limited=bytes_per_second is not None), strict=True)
    )
    tag = f"hivex_copies_{uuid.uuid4().hex}"
    return Plan(tag, name, "", copies=FileCopies(planned, bytes_per_second), spark_conf=cluster.spark_conf)


def _tasks(files: Sequence[FileCopy], threads: int, *, is_limited: bool) -> Sequence[int]:
    """Return for each file the index of the task that copies the file."""
    size_bytes = sum(each.size_bytes for each in files)
    wanted = max(threads, math.ceil(size_bytes / _BYTES_IN_TASK), math.ceil(len(files) / _FILES_IN_TASK))
    count = min(threads if is_limited else wanted, len(files))
    found = [0] * len(files)
    load = [(0, 0, task) for task in range(count)]
    for at in sorted(range(len(files)), key=lambda at: files[at].size_bytes, reverse=True):
        size, number, task = load[0]
        found[at] = task
        heapq.heapreplace(load, (size + files[at].size_bytes, number + 1, task))
    return found


def _run(
    runner: Runner, cluster: Cluster, plan: Plan, stop: threading.Event, reporting: _Reporting
) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield the result of each file. The job is cancelled when ``stop`` is set, and when the caller is interrupted."""
    with ThreadPoolExecutor(1, thread_name_prefix="hivex-copy-job") as pool:
        running = pool.submit(copy_context().run, runner.run, plan, cluster.name, reporting.note)
        try:
            looks = 0
            while not wait([running], _LOOK_INTERVAL_S).done:
                if stop.is_set():
                    runner.cancel(plan.tag)
                looks += 1
                if looks % _REPORTED_EVERY == 0:
                    reporting.report()
            result = running.result()
        except JobCancelledError as error:
            if stop.is_set():
                raise StoppedError from error
            raise
        except BaseException:
            runner.cancel(plan.tag)
            raise
    yield from cast("tuple[tuple[int, str, str, str, str], ...]", result.rows)


def _check_there(cluster: Cluster, target: Cluster, copied: Sequence[FileCopy], threads: int) -> None:
    """Ensure that this process finds the files that tasks have copied.

    Raises:
        WrittenRowsMissingError: files are missing, or have another size.
    """
    there = ClusterFiles.of(target)
    with ThreadPoolExecutor(threads) as pool:
        sizes = list(pool.map(lambda each: there.size(each.place), copied))
    lost = [each for each, size in zip(copied, sizes, strict=True) if size != each.size_bytes]
    if lost:
        folder = target.shown_uri(lost[0].place.rpartition("/")[0])
        written, found = f"{len(copied)} files", f"{len(copied) - len(lost)} of them"
        raise WrittenRowsMissingError(cluster.name, lost[0].table, folder, written, found, "those of its Spark")


def _take(
    done: _Done, file: FileCopy, outcome: str, checksum: str, problem: tuple[str, str], *, only_by_job: bool
) -> None:
    """Add the result of a file to ``done``. ``problem`` is a pair: the URI of a file, and the text of an error.

    Raises:
        CopyAlteredError, StorageError: for the reasons of :func:`copy_by_jobs`.
    """
    if outcome in (COPIED, KEPT):
        done.checksums[file.place] = checksum
        done.bytes_done += file.size_bytes
        if outcome == KEPT:
            done.kept.add(file.place)
        return
    if outcome == WRONG_SIZE:
        raise CopyAlteredError(file.table, file.source, file.location, problem[1])
    if outcome == FAILED and only_by_job:
        raise StorageError(hide_in_uri(problem[0]), problem[1])
    if outcome == FAILED:
        log.warning(
            "A task could not copy %s to %s, so that this process copies it: %s", file.location, file.place, problem[1]
        )
    done.left.append(file)


class _Reporting:
    """A reporter that estimates the copied files and bytes from the share of finished tasks."""

    def __init__(
        self,
        done: _Done,
        batch: Sequence[FileCopy],
        files: int,
        size_bytes: int,
        plan: Plan,
        progress: Callable[[CopyProgress], object] | None,
    ) -> None:
        self._done = done
        self._batch = batch
        self._total = (files, size_bytes)
        assert plan.copies is not None
        self._tasks = 1 + max((each.task for each in plan.copies.files), default=0)
        self._progress = progress
        self._log = ProgressLog(plan.name)
        self._share = 0.0

    def note(self, progress: Progress) -> None:
        """Store the progress of the job. Another thread calls this method."""
        # The tasks that copy come last, after the tasks that distribute the files.
        before = max(0, progress.tasks - self._tasks)
        self._share = min(1.0, max(0, progress.tasks_done - before) / self._tasks)
        self._log(progress)

    def report(self) -> None:
        """Call the caller's ``progress`` function with the estimate."""
        if self._progress is None:
            return
        files, size_bytes = self._total
        of_batch = sum(each.size_bytes for each in self._batch)
        self._progress(
            CopyProgress(
                len(self._done.checksums) + int(self._share * len(self._batch)),
                files,
                self._done.bytes_done + int(self._share * of_batch),
                size_bytes,
            )
        )
