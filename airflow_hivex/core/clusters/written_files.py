"""The files that a job says it has written, compared with those that this process finds.

The driver of spark-submit is a process of its own, perhaps on another host. Every result of a job passes here before
any part of it is registered.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_hivex.core.errors import WrittenRowsMissingError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster, JobTrackerKind
from airflow_hivex.core.model.plans import JobResult, Plan, Write, WrittenDirectory

_HERE = (JobTrackerKind.LOCAL, JobTrackerKind.CONNECT)
"""The kinds of clusters for which this process puts the files of a job into their places."""


def check_written(cluster: Cluster, plan: Plan, result: JobResult) -> JobResult:
    """Return the result of a job, whose files are all there.

    Raises:
        WrittenRowsMissingError: some are not there, or have another size.
        StorageError: the file system cannot be read.
    """
    if cluster.kind in _HERE:
        return result
    files = ClusterFiles.of(cluster)
    for write, directories in _written(plan, result):
        for directory in directories:
            _check(cluster, files, write, directory)
    return result


def _written(plan: Plan, result: JobResult) -> Iterable[tuple[Write, tuple[WrittenDirectory, ...]]]:
    if plan.write is not None:
        yield plan.write, result.directories
    for insert, directories in zip(plan.inserts, result.inserted, strict=False):
        yield insert.write, directories


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
