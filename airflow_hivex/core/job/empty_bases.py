"""TRUNCATE: a base without rows in each partition, which hides what is below its write id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.job.new_directories import NewDirectories, PartitionValues
from airflow_hivex.core.model.plans import JobResult, Write

_METADATA_FILE = "_metadata_acid"
_TRUNCATED = json.dumps({"thisFileVersion": "0", "dataFormat": "truncated"}).encode()
_AT_ONCE = 16
"""An object store answers one request after tens of milliseconds, and a partition takes four."""


def write_empty_bases(write: Write, partitions: Sequence[tuple[str | None, PartitionValues]]) -> JobResult:
    """Return the bases that now hide what these partitions (None: the table without any) have had.

    Several are written at once.

    Raises:
        StorageError: they cannot be made; none is left then.

    Source: Hive's ``hive.acid.truncate.usebase``, and docs/reference/directories.md for the metadata file.
    """
    made = NewDirectories(write)

    def write_one(partition: tuple[str | None, PartitionValues]) -> None:
        (made.directory(*partition) / _METADATA_FILE).write(_TRUNCATED)

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hivex-empty-bases")
    try:
        try:
            # The first error ends it.
            for _ in pool.map(write_one, partitions):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
    except BaseException as error:
        made.discard()
        if isinstance(error, OSError):
            reason = str(error).rstrip(".")
            raise StorageError(write.path, f"{reason}. Nothing was written to {write.table}") from error
        raise
    return JobResult(directories=made.written)
