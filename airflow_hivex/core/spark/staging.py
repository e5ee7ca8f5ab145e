"""The hidden directory where Spark writes first; its files are renamed into the directories of the write."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructType

from airflow_hivex.core.model.file_properties import COMPRESSION
from airflow_hivex.core.model.partitions import unescape
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.spark import layout, local_times
from airflow_hivex.core.spark.assignment import field, quoted
from airflow_hivex.core.spark.configuration import READ_OPTIONS
from airflow_hivex.core.spark.orc_tail import nest
from airflow_hivex.core.spark.storage import Place, place

log = logging.getLogger(__name__)

_TASK = re.compile(r"part-(\d+)-")


def _orc_rows(file: Place) -> int:
    from pyarrow import orc

    with file.open() as data:
        return int(orc.ORCFile(data).nrows)


def _parquet_rows(file: Place) -> int:
    from pyarrow import parquet

    with file.open() as data:
        return int(parquet.read_metadata(data).num_rows)


_FOOTERS: Mapping[str, Callable[[Place], int]] = {"orc": _orc_rows, "parquet": _parquet_rows}
"""What tells how many rows a file has, by its format."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file with rows: the values of the columns that parted it, as text, and the task that wrote it."""

    place: Place
    values: tuple[str, ...]
    task: int
    rows: int
    size_bytes: int


class Staging:
    """The directory of one write, its ``place``. Nothing in it is visible, whatever happens."""

    def __init__(self, write: Write) -> None:
        self._name = layout.staging_name(write)
        self._uri = f"{write.path.rstrip('/')}/{self._name}"
        self._columns = write.columns
        self._format = write.format
        self._layout = write.layout
        self._options = dict(write.options)
        self._spark: SparkSession | None = None
        self.place = place(write.path) / self._name

    def create(self) -> str:
        """Make the directory, for others than Spark to write to; its URI."""
        self.place.create_directory()
        return self._uri

    def write(self, rows: DataFrame, parted_by: Sequence[str]) -> None:
        """Write rows, which are sorted by the columns ``parted_by``, one file per task and their values."""
        stored = {column.name.lower(): column.stored_name for column in self._columns if column.stored_name}
        if stored:
            names = [F.col(quoted(name)).alias(stored.get(name.lower()) or name) for name in rows.columns]
            rows = rows.select(*names)
        if self._format == "orc":
            rows = local_times.store(rows, tuple(parted_by))
        writer = rows.write.format(self._format).options(**{**READ_OPTIONS, **self._options})
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("maxRecordsPerFile", 0)
        if self._format == "orc":
            writer = writer.option(COMPRESSION, layout.compression(self._layout, self._options))
        if parted_by:
            writer = writer.partitionBy(*parted_by)
        self._spark = rows.sparkSession
        writer.save(self._uri)

    def last_task(self) -> int:
        """The highest number of a task that has written a file, -1 without any."""
        tasks = (_TASK.match(path.rpartition("/")[2]) for path, _ in self.place.files())
        return max((int(task[1]) for task in tasks if task is not None), default=-1)

    def files(self, parted_by: Sequence[str]) -> Iterator[StagedFile]:
        """All files that have rows."""
        counted = self._counted_by_spark() if self._format not in _FOOTERS else {}
        for path, size_bytes in self.place.files():
            *parts, name = path.split("/")
            task = _TASK.match(name)
            if task is None or len(parts) != len(parted_by):
                continue
            file = self.place / path
            row_count = _FOOTERS[self._format](file) if self._format in _FOOTERS else counted.get(path, 0)
            if row_count:
                values = tuple(unescape(part.partition("=")[2]) for part in parts)
                yield StagedFile(file, values, int(task[1]), row_count, size_bytes)

    def publish(self, file: StagedFile, target: Place) -> int:
        """Make a file one of the write's, in its row layout; its size in bytes then."""
        if self._layout == layout.HIVE:
            return nest(file.place, target)
        file.place.move(target)
        return file.size_bytes

    def _counted_by_spark(self) -> dict[str, int]:
        """How many rows each file has, by its path; for files that do not say it themselves."""
        assert self._spark is not None
        reader = self._spark.read.format(self._format).options(**self._options)
        schema = StructType([field(replace(column, name=column.in_files)) for column in self._columns])
        rows = reader.schema(schema).option("recursiveFileLookup", "true").load(self._uri)
        counted = rows.groupBy(F.input_file_name().alias("file")).count().collect()
        return {unquote(row["file"]).partition(f"/{self._name}/")[2]: int(row["count"]) for row in counted}

    def discard(self) -> None:
        """Delete it, to write again."""
        self.place.delete()

    def remove(self) -> None:
        """Delete it at the end; what cannot be deleted is logged, for no one reads it."""
        try:
            self.place.delete()
        except OSError as error:
            log.warning("Staging directory %s could not be deleted: %s", self.place.path, error)
