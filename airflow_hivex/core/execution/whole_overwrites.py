"""Overwrites of a whole partitioned table: the partitions without new rows are emptied, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.pending import delete_directories
from airflow_hivex.core.execution.writing import OpenWrite
from airflow_hivex.core.job.empty_bases import write_empty_bases
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import JobResult


def with_empty_bases(
    context: StatementContext, running: Running, write: OpenWrite, written: JobResult, names: Iterable[str]
) -> JobResult:
    """Return the result of a job with an empty base in each of the named partitions that has got no rows.

    Raises:
        StorageError: the bases cannot be made. The directories of the job are deleted, too.
    """
    if running.joined is None:
        # Those of a transaction of several statements are noted before.
        undo = partial(delete_directories, context.services, write.table, written.directories)
        running.undo.append(partial(undo, write.facts.cluster, write.write))
    with_rows = {each.partition for each in written.directories}
    empty = [(name, nullable_values(name)) for name in names if name not in with_rows]
    emptied = write_empty_bases(write.write, empty)
    return replace(written, directories=(*written.directories, *emptied.directories))
