"""The copying of files by tasks of Spark. A task copies some of the files, reads the copies, and returns checksums.

A task only creates new files. A task never overwrites or deletes other files, since it can run for a while after its
client has died and another client has continued. If another file has the name of a copy, the client decides what
happens.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import root_checks, root_markers, storage
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.directories import UNFINISHED
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import COPIED, FAILED, IN_THE_WAY, KEPT, WRONG_SIZE, FileCopies, JobResult

_CHUNK_BYTES = 4 << 20
_THROTTLED_CHUNK_BYTES = 64 << 10
_LOCAL = pafs.LocalFileSystem
_TASK, _NUMBER, _SOURCE, _TARGET, _SIZE = "task", "number", "source", "target", "size_bytes"
_GIVEN = {_TASK: pa.int32(), _NUMBER: pa.int32(), _SOURCE: pa.string(), _TARGET: pa.string(), _SIZE: pa.int64()}
_RETURNED = (_NUMBER, "outcome", "checksum", "location", "problem")
_TYPES = ("int", "string", "string", "string", "string")


def copy_files(spark: SparkSession, copies: FileCopies) -> tuple[JobResult, pa.Table]:
    """Copy files in tasks. Return a pair: the result without rows, and a table with one row for each file.

    The columns are number, outcome, checksum, and location and text of a problem.
    """
    # By value, so that a cluster's Python workers do not need our package.
    for module in (storage, root_markers, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    tasks = max((each.task for each in copies.files), default=0) + 1
    given = spark.createDataFrame(_as_table(copies))
    dealt = given.repartitionById(tasks, F.col(_TASK))
    rate = None if copies.bytes_per_second is None else copies.bytes_per_second / tasks
    columns = [Column(*each) for each in zip(_RETURNED, _TYPES, strict=True)]
    returned = ", ".join(f"{column.name} {column.type}" for column in columns)
    opened = storage.opened_in("\n".join(uri for each in copies.files for uri in (each.source, each.target)))
    task = _task(rate, root_checks.markers(), opened)
    return JobResult(tuple(columns)), dealt.mapInArrow(task, returned).toArrow()


def _as_table(copies: FileCopies) -> pa.Table:
    rows = [
        {
            _TASK: each.task,
            _NUMBER: number,
            _SOURCE: each.source,
            _TARGET: each.target,
            _SIZE: each.size_bytes,
        }
        for number, each in enumerate(copies.files)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(_GIVEN))


def _task(
    rate: float | None, markers: Sequence[root_markers.Marker], opened: Mapping[str, Any]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which copies the files of its rows, at most ``rate`` bytes per second."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        root_markers.check(markers)
        storage.use_opened(opened)
        copier = _Copier(rate)
        for batch in batches:
            rows = batch.to_pylist()
            done = [copier.copy(row[_SOURCE], row[_TARGET], row[_SIZE]) for row in rows]
            numbers = pa.array([row[_NUMBER] for row in rows], pa.int32())
            texts = [pa.array([each[at] for each in done], pa.string()) for at in range(len(_RETURNED) - 1)]
            yield pa.RecordBatch.from_arrays([numbers, *texts], names=list(_RETURNED))

    return run


_Done = tuple[str, str, str, str]
"""The outcome of a copy, the checksum of the file, and the location and reason of a problem."""


class _Copier:
    """The copier of a task, which copies one file after the other."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._free_at = time.monotonic()
        self._folders: set[str] = set()

    def copy(self, source: str, target: str, size_bytes: int) -> _Done:
        """Copy a file, or compare the file with the target if the target exists."""
        location = source
        try:
            origin = place(source)
            location = target
            copy = place(target)
            if copy.exists():
                return self._compared(origin, copy, source, size_bytes)
            return self._made(origin, copy, source, target, size_bytes)
        except _SourceError as error:
            return FAILED, "", source, str(error)
        except (OSError, ValueError, ImportError) as error:
            return FAILED, "", location, str(error) or type(error).__name__

    def _compared(self, origin: Place, copy: Place, source: str, size_bytes: int) -> _Done:
        size, checksum = _hash(_pieces(origin))
        if size != size_bytes:
            return _wrong_size(source, size, size_bytes)
        return (KEPT if _hash(_read(copy)) == (size, checksum) else IN_THE_WAY), checksum, "", ""

    def _made(self, origin: Place, copy: Place, source: str, target: str, size_bytes: int) -> _Done:
        folder, _, name = copy.path.rpartition("/")
        is_local = isinstance(copy.filesystem, _LOCAL)
        # Object stores show a file only once it is complete.
        written = Place(copy.filesystem, f"{folder}/.{name}.{uuid.uuid4().hex}{UNFINISHED}") if is_local else copy
        if is_local and folder not in self._folders:
            copy.filesystem.create_dir(folder, recursive=True)
            self._folders.add(folder)
        try:
            digest, size = hashlib.sha256(), 0
            with written.filesystem.open_output_stream(written.path) as stream:
                for piece in _pieces(origin, _CHUNK_BYTES if self._rate is None else _THROTTLED_CHUNK_BYTES):
                    self._wait(len(piece))
                    digest.update(piece)
                    stream.write(piece)
                    size += len(piece)
            checksum = digest.hexdigest()
            if size != size_bytes:
                return _wrong_size(source, size, size_bytes)
            if _hash(_read(written)) != (size, checksum):
                return IN_THE_WAY, checksum, target, "the copy was read back with another checksum"
            if is_local and not _publish(written.path, copy.path):
                return self._compared(origin, copy, source, size_bytes)
            return COPIED, checksum, "", ""
        finally:
            if is_local:
                _remove(written.path)

    def _wait(self, size: int) -> None:
        """Wait until the rate permits the copying of ``size`` bytes."""
        if self._rate is None:
            return
        starts = max(self._free_at, time.monotonic())
        self._free_at = starts + size / self._rate
        # The pause is intended: it limits the rate.
        time.sleep(max(0.0, starts - time.monotonic()))


class _SourceError(Exception):
    """A source cannot be read."""


def _pieces(origin: Place, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the content of a source.

    Raises:
        _SourceError: the source cannot be read.
    """
    try:
        yield from _read(origin, size)
    except OSError as error:
        raise _SourceError(str(error) or type(error).__name__) from error


def _read(file: Place, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
    with file.filesystem.open_input_stream(file.path) as stream:
        while piece := stream.read(size):
            yield piece


def _hash(pieces: Iterator[bytes]) -> tuple[int, str]:
    """Return the size and the checksum of a file."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _wrong_size(source: str, size: int, listed: int) -> _Done:
    return WRONG_SIZE, "", source, f"it has {size} bytes, and {listed} when it was listed"


def _publish(written: str, target: str) -> bool:
    """Give a file its final name, and return True. Return False if another file has this name."""
    try:
        os.link(written, target)
    except FileExistsError:
        return False
    except OSError:
        # A file system without hard links, such as some network file systems.
        if os.path.exists(target):  # noqa: PTH110 - no other call of this function makes a Path
            return False
        os.rename(written, target)  # noqa: PTH104
    return True


def _remove(written: str) -> None:
    try:
        os.unlink(written)  # noqa: PTH108
    except FileNotFoundError:
        return
