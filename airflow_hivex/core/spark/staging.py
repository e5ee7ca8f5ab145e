"""The hidden directory where Spark writes first; its files are renamed into the directories of the write."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_hivex.core.model.partitions import unescape
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.spark import layout
from airflow_hivex.core.spark.storage import Place, place

log = logging.getLogger(__name__)

_TASK = re.compile(r"part-(\d+)-")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file with rows: the values of the columns that parted it, as text, and the task that wrote it."""

    place: Place
    values: tuple[str, ...]
    task: int
    rows: int
    size_bytes: int


class Staging:
    """The directory of one write. Nothing in it is visible, whatever happens."""

    def __init__(self, write: Write) -> None:
        self._uri = f"{write.path.rstrip('/')}/{layout.staging_name(write)}"
        self._place = place(write.path) / layout.staging_name(write)

    def write(self, rows: DataFrame, parted_by: Sequence[str]) -> None:
        """Write rows, which are sorted by the columns ``parted_by``, one file per task and their values."""
        writer = (
            rows.write.option("compression", layout.COMPRESSION)
            .option("maxRecordsPerFile", 0)
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        )
        if parted_by:
            writer = writer.partitionBy(*parted_by)
        writer.orc(self._uri)

    def last_task(self) -> int:
        """The highest number of a task that has written a file, -1 without any."""
        tasks = (_TASK.match(path.rpartition("/")[2]) for path, _ in self._place.files())
        return max((int(task[1]) for task in tasks if task is not None), default=-1)

    def files(self, parted_by: Sequence[str]) -> Iterator[StagedFile]:
        """All files that have rows."""
        from pyarrow import orc

        for path, size_bytes in self._place.files():
            *parts, name = path.split("/")
            task = _TASK.match(name)
            if task is None or len(parts) != len(parted_by):
                continue
            file = self._place / path
            with file.open() as data:
                row_count = int(orc.ORCFile(data).nrows)
            if row_count:
                values = tuple(unescape(part.partition("=")[2]) for part in parts)
                yield StagedFile(file, values, int(task[1]), row_count, size_bytes)

    def discard(self) -> None:
        """Delete it, to write again."""
        self._place.delete()

    def remove(self) -> None:
        """Delete it at the end; what cannot be deleted is logged, for no one reads it."""
        try:
            self._place.delete()
        except OSError as error:
            log.warning("Staging directory %s could not be deleted: %s", self._place.path, error)
