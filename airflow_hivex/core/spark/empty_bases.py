"""TRUNCATE: a base without rows in each partition, which hides what is below its write id."""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.model.plans import JobResult, Write
from airflow_hivex.core.spark.new_directories import NewDirectories, PartitionValues

_METADATA_FILE = "_metadata_acid"
_TRUNCATED = json.dumps({"thisFileVersion": "0", "dataFormat": "truncated"}).encode()


def write_empty_bases(write: Write, partitions: Sequence[tuple[str | None, PartitionValues]]) -> JobResult:
    """Return the bases that now hide what these partitions (None: the table without any) have had.

    Raises:
        StorageError: they cannot be made; none is left then.

    Source: Hive's ``hive.acid.truncate.usebase``, and docs/reference/directories.md for the metadata file.
    """
    made = NewDirectories(write)
    try:
        for partition, values in partitions:
            (made.directory(partition, values) / _METADATA_FILE).write(_TRUNCATED)
    except BaseException as error:
        made.discard()
        if isinstance(error, OSError):
            reason = str(error).rstrip(".")
            raise StorageError(write.path, f"{reason}. Nothing was written to {write.table}") from error
        raise
    return JobResult(directories=made.written)
