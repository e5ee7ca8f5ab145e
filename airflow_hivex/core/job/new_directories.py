"""The base, delta and delete delta directories of one write, and empty bases. They are deleted if the write fails."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from airflow_hivex.core.errors import InvalidOperationError, StorageError
from airflow_hivex.core.job.layout import (
    PLAIN,
    VERSION,
    VERSION_FILE,
    delete_directory_name,
    directory_name,
    partition_location,
)
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.plans import JobResult, Write, WrittenDirectory

log = logging.getLogger(__name__)

PartitionValues = tuple[str | None, ...]


class NewDirectories:
    """The new directories of a write, one for each partition and kind. A directory is created before its first file."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._places: dict[tuple[str | None, str], Place] = {}
        self._written: dict[tuple[str | None, str], WrittenDirectory] = {}

    def directory(self, partition: str | None, values: PartitionValues, *, deletes: bool = False) -> Place:
        """Return the directory of a partition, or with ``deletes`` its delete delta. The first call creates it.

        Raises:
            InvalidOperationError: the directory exists, because another write has the same write id.
        """
        key = partition, self._name(deletes)
        if key not in self._places:
            target = place(partition_location(self._write, partition)) / key[1]
            if target.exists() and self._write.batch is None:
                operation = "INSERT" if self._write.compacted is None else "A compaction of"
                reason = (
                    f"directory {target.path} exists already. Its write id was given before, as after a restore or a "
                    "failover of the metastore's database; `hivex metastore doctor` names all such directories"
                )
                raise InvalidOperationError(operation, self._write.table, reason)
            self._places[key] = target
            target.create_directory()
            if self._write.layout != PLAIN:
                (target / VERSION_FILE).write(VERSION)
            self._written[key] = WrittenDirectory(partition, values, key[1], 0, 0, 0, self._write.layout)
        return self._places[key]

    def count(self, partition: str | None, rows: int, size_bytes: int, *, deletes: bool = False) -> None:
        """Count a file that was put into a partition's directory."""
        key = partition, self._name(deletes)
        known = self._written[key]
        self._written[key] = replace(
            known, files=known.files + 1, rows=known.rows + rows, size_bytes=known.size_bytes + size_bytes
        )

    def _name(self, deletes: bool) -> str:
        return delete_directory_name(self._write) if deletes else directory_name(self._write)

    @property
    def written(self) -> tuple[WrittenDirectory, ...]:
        """Return all directories, in the order of their partitions' names."""
        return tuple(self._written[key] for key in sorted(self._written, key=lambda key: (key[0] or "", key[1])))

    def discard(self) -> None:
        """Delete the new directories. A failure is only logged, since no query will ever read them."""
        for made in self._places.values():
            _delete(made, self._write)


def discard(write: Write, directories: Iterable[WrittenDirectory]) -> None:
    """Delete the directories of a finished write, as :meth:`NewDirectories.discard` does."""
    for directory in directories:
        _delete(place(partition_location(write, directory.partition)) / directory.name, write)


def _delete(made: Place, write: Write) -> None:
    try:
        if write.batch is None:
            made.delete()
            return
        # Other transactions have their files there.
        for name, _ in made.files():
            if name.endswith(write.batch_suffix):
                (made / name).delete_file()
    except OSError as error:
        log.warning("Directory %s of a failed write could not be deleted: %s", made.path, error)


_METADATA_FILE = "_metadata_acid"
_TRUNCATED = json.dumps({"thisFileVersion": "0", "dataFormat": "truncated"}).encode()
_AT_ONCE = 16
"""The number of bases that are written at the same time. Each base needs four requests to an object store."""


def write_empty_bases(write: Write, partitions: Sequence[tuple[str | None, PartitionValues]]) -> JobResult:
    """Write empty bases that hide all rows of partitions, and return the bases in a JobResult.

    The partition None stands for a table without partitions. Several bases are written at the same time.

    Raises:
        StorageError: a base cannot be written. No base is left.

    Source: Hive's ``hive.acid.truncate.usebase``, and docs/reference/directories.md for the metadata file.
    """
    made = NewDirectories(write)

    def write_one(partition: tuple[str | None, PartitionValues]) -> None:
        (made.directory(*partition) / _METADATA_FILE).write(_TRUNCATED)

    began = time.monotonic()
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hivex-empty-bases")
    try:
        try:
            # The first error ends the block.
            for _ in pool.map(write_one, partitions):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
    except BaseException as error:
        made.discard()
        if isinstance(error, OSError):
            reason = place(write.path).describe(error, began).rstrip(".")
            raise StorageError(write.path, f"{reason}. Nothing was written to {write.table}") from error
        raise
    return JobResult(directories=made.written)
