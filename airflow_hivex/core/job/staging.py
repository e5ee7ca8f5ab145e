"""The staging directory of a write. The files that Spark writes to it are then renamed into the table's directories.

The name of the staging directory is hidden, so no query reads the directory.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, DataFrameWriter, Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job import data_files, layout, local_times, root_checks
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.job.orc_tail import nest
from airflow_hivex.core.job.original_files import parquet_rows
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.file_properties import COMPRESSION, TEXTFILE
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import unescape
from airflow_hivex.core.model.plans import Write

log = logging.getLogger(__name__)

Save: TypeAlias = Callable[[DataFrameWriter, str], Mapping[str, object]]
"""A function that runs a writer of Spark and saves the rows in the directory with the given URI.

The function returns the values that Spark has observed in the rows.
"""

InOrder: TypeAlias = Callable[[DataFrame], DataFrame]
"""A function that sorts the rows within each task, without a shuffle, into the order that the files need."""

_TASK = re.compile(r"part-(\d+)-")
# Readers take the compression of a file from its name, if the file itself does not record it.
_CODEC = re.compile(r"\.(?:bz2|deflate|gz|lz4|snappy|zst)\Z")


def _orc_rows(file: Place) -> int:
    from pyarrow import orc

    with file.open() as data:
        return int(orc.ORCFile(data).nrows)


_FOOTERS: Mapping[str, Callable[[Place], int]] = {"orc": _orc_rows, "parquet": parquet_rows}
"""A dict from format to the function that counts the rows of a file."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in the staging directory with at least one row, and the number of the task that wrote it.

    ``values`` are the values of the partition columns as text. ``ending`` is the end of the name that shows the
    compression, such as ``.gz``. The published file has the same ending.
    """

    place: Place
    values: tuple[str, ...]
    task: int
    rows: int
    size_bytes: int
    ending: str = ""


class Staging:
    """The staging directory of one write, at ``place``."""

    def __init__(self, write: Write, save: Save | None = None) -> None:
        """Prepare the directory. ``save`` runs Spark's writer, possibly in another process."""
        self._save = save
        self._name = layout.staging_name(write)
        self._uri = f"{write.path.rstrip('/')}/{self._name}"
        self._columns = write.columns
        self._format = write.format
        self._layout = write.layout
        self._options = dict(write.options)
        self._table = write.table
        self._is_external = write.is_external
        self._spark: SparkSession | None = None
        self._fingerprint: Fingerprint | None = None
        self._written: Callable[[], Mapping[str, object]] | None = None
        self._is_owned = True
        self.place = place(write.path) / self._name

    def create(self) -> str:
        """Create the directory for a writer other than Spark, and return its URI."""
        self.place.create_directory()
        return self._uri

    def write(self, rows: DataFrame, parted_by: Sequence[str], in_order: InOrder | None = None) -> None:
        """Write the rows to one file for each task and each combination of values of the columns ``parted_by``.

        ``in_order`` sorts the rows of each task, and must sort by the columns ``parted_by`` first.
        """
        rows = self._counted(rows)
        if in_order is not None:
            rows = in_order(rows)
        stored = {column.name.lower(): column.stored_name for column in self._columns if column.stored_name}
        if stored:
            names = [F.col(quoted(name)).alias(stored.get(name.lower()) or name) for name in rows.columns]
            rows = rows.select(*names)
        if self._format == "orc" and not self._is_external:
            rows = local_times.store(rows, tuple(parted_by))
        writer = data_files.writer(rows, self._format, self._options, self._columns, parted_by)
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("maxRecordsPerFile", 0)
        if self.place.copies_to_rename:
            # Tasks put files into the directory themselves, without a second copy by the driver. A task that fails
            # meanwhile may leave files, which the count of the rows finds.
            writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        if self._format == "orc":
            # Other programs may have an older reader, as Hive has.
            row_layout = layout.HIVE if self._is_external else self._layout
            writer = writer.option(COMPRESSION, layout.compression(row_layout, self._options))
        if parted_by:
            writer = writer.partitionBy(*parted_by)
        self._spark = rows.sparkSession
        if self._save is None:
            writer.save(self._uri)
            return
        # An earlier process may have begun the write, and a later one may continue it.
        self._is_owned = False
        saved = self._save(writer, self._uri)
        if self._written is not None:
            self._written = lambda: saved
        if self._fingerprint is not None:
            self._fingerprint.take(saved)
        self._is_owned = True

    def _counted(self, rows: DataFrame) -> DataFrame:
        """Return the rows. When they are written, Spark counts them, and each task checks the roots of the job.

        There is neither a count nor a check for ORC and Parquet files if the tasks run in this process and write to a
        local disk.
        """
        if self._format not in _FOOTERS:
            self._fingerprint = Fingerprint(self._columns)
            self._written = self._fingerprint.written
            return root_checks.guarded(self._fingerprint.observed(rows))
        if self.place.is_own_disk and not root_checks.is_elsewhere(rows.sparkSession):
            return rows
        observation = F.new_observation()
        self._written = lambda: observation.get
        # The check comes after the count: Spark generates no code across either, and would move the check below the
        # query.
        return root_checks.guarded(rows.observe(observation, F.count(F.lit(1)).alias(ROWS)))

    def last_task(self) -> int:
        """Return the highest number of a task that has written a file, or -1 if no task has."""
        tasks = (_TASK.match(path.rpartition("/")[2]) for path, _ in self.place.files())
        return max((int(task[1]) for task in tasks if task is not None), default=-1)

    def files(self, parted_by: Sequence[str]) -> Iterator[StagedFile]:
        """Check the written files, and yield each file that has rows.

        Raises:
            InvalidOperationError: the format cannot store some of the values exactly.
            WrittenRowsMissingError: the number of rows in the files differs from the number that tasks have written.
        """
        found = list(self._found(parted_by))
        if self._written is not None:
            written = int(str(self._written()[ROWS]))
            root_checks.check_written(self._table, self.place.path, written, sum(file.rows for file in found))
        yield from found

    def _found(self, parted_by: Sequence[str]) -> Iterator[StagedFile]:
        counted = self._read_back() if self._format not in _FOOTERS else {}
        for path, size_bytes in self.place.files():
            *parts, name = path.split("/")
            task = _TASK.match(name)
            if task is None or len(parts) != len(parted_by):
                continue
            file = self.place / path
            row_count = self._rows_of(file) if self._format in _FOOTERS else counted.get(path, 0)
            if row_count:
                values = tuple(unescape(part.partition("=")[2]) for part in parts)
                codec = None if self._format in _FOOTERS else _CODEC.search(name)
                yield StagedFile(file, values, int(task[1]), row_count, size_bytes, codec[0] if codec else "")

    def _rows_of(self, file: Place) -> int:
        try:
            return _FOOTERS[self._format](file)
        except (OSError, pa.ArrowException) as error:
            root_checks.refuse_incomplete(self._table, file.path, str(error))

    def publish(self, file: StagedFile, target: Place) -> int:
        """Move a file into a directory of the write, convert it to the row layout, and return its new size in bytes."""
        if self._layout == layout.HIVE:
            return nest(file.place, target)
        file.place.move(target)
        return file.size_bytes

    def _read_back(self) -> dict[str, int]:
        """Read the files, and return a dict from path to number of rows.

        This is necessary for formats that do not record the number of rows, and do not store all values exactly.

        Raises:
            InvalidOperationError: the values in the files differ from the values that were written.
        """
        if self._spark is None or self._fingerprint is None:
            return {}
        columns = [replace(column, name=column.in_files) for column in self._columns]
        reader = data_files.reader(self._spark, self._format, self._options, [*map(field, columns)])
        loaded = reader.option("recursiveFileLookup", "true").load(self._uri)
        rows = data_files.rows_of(loaded, self._format, self._options, columns)
        parts = rows.groupBy(F.input_file_name().alias("file")).agg(*self._fingerprint.aggregates).collect()
        changed = self._fingerprint.changed(parts)
        if changed is not None:
            root_checks.ask_again(self._spark)
            raise InvalidOperationError("INSERT", self._table, _unholdable(self._format, changed))
        return {unquote(part["file"]).partition(f"/{self._name}/")[2]: int(part[ROWS]) for part in parts}

    def discard(self) -> None:
        """Delete the directory, so that the write can be repeated."""
        self.place.delete()

    def remove(self) -> None:
        """Delete the directory at the end of the write. A failure is logged, and no error is raised.

        A directory that another process possibly still uses is not deleted.
        """
        if not self._is_owned:
            return
        try:
            self.place.delete()
        except OSError as error:
            log.warning("Staging directory %s could not be deleted: %s", self.place.path, error)


def _unholdable(format: str, columns: Sequence[str]) -> str:
    """Return the reason why the format cannot store the rows, as the end of a sentence."""
    where = f"column {', '.join(columns)}" if columns else "a row"
    advice = "declare ESCAPED BY '\\\\' for it, or " if format == TEXTFILE else ""
    return (
        f"nothing was written, as files of format {format} would give back other values than those of {where}, such as "
        "for line ends, separators, empty texts, or the text that stands for NULL; "
        f"{advice}store the table as ORC or Parquet"
    )


ROWS = "rows"
"""The name of the aggregate with the number of rows."""


class Fingerprint:
    """A checksum of written rows: their number and, for each column, sums of the hashes of its values."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._observation = F.new_observation()
        self._taken: Mapping[str, object] | None = None

    @property
    def aggregates(self) -> list[Expression]:
        """Return the aggregates that compute the checksum of rows that are read from files.

        The aggregates can be computed for all rows at once, or for each part of the rows. Pass the results to
        :meth:`changed`.
        """
        return self._aggregates([column.in_files for column in self._columns])

    def observed(self, rows: DataFrame) -> DataFrame:
        """Return the rows. When they are written, Spark computes their checksum for this object."""
        return rows.observe(self._observation, *self._aggregates([column.name for column in self._columns]))

    def _aggregates(self, names: Sequence[str]) -> list[Expression]:
        sums = [
            F.expr(f"sum({half})").alias(title)
            for number, (column, name) in enumerate(zip(self._columns, names, strict=True))
            for title, half in zip(_names(number), _halves(column, name), strict=True)
        ]
        return [F.count(F.lit(1)).alias(ROWS), *sums]

    def take(self, values: Mapping[str, object]) -> None:
        """Use the given aggregates of the written rows, for example from another process that has written them."""
        self._taken = values

    def written(self) -> Mapping[str, object]:
        """Return the aggregates of the written rows."""
        return self._observation.get if self._taken is None else self._taken

    def changed(self, parts: Iterable[Row]) -> list[str] | None:
        """Return the columns whose values differ between the written rows and the files, or None if nothing differs.

        The list is empty if only the number of rows differs. ``parts`` has the :attr:`aggregates` of each part of the
        rows in the files.
        """
        parts = list(parts)
        written = self.written()

        def differs(name: str) -> bool:
            return (written[name] or 0) != sum(part[name] or 0 for part in parts)

        columns = [column.name for number, column in enumerate(self._columns) if any(map(differs, _names(number)))]
        return columns if columns or differs(ROWS) else None


def _names(number: int) -> tuple[str, str]:
    return f"low_{number}", f"high_{number}"


def _halves(column: Column, name: str) -> tuple[str, str]:
    """Return SQL for the lower and the upper half of the hash of a column's value."""
    whole = f"xxhash64({_hashable(quoted(name), field(column).dataType, 0)})"
    return f"{whole} & 4294967295L", f"shiftrightunsigned({whole}, 32)"


def _hashable(value: str, type: DataType, level: int) -> str:
    """Return SQL for a struct with all parts of a value, to hash it: Spark's hash skips NULLs, and refuses maps."""
    match type:
        case ArrayType():
            item = f"i{level}"
            items = f"transform({value}, {item} -> {_hashable(item, type.elementType, level + 1)})"
            return f"struct({value} IS NULL, size({value}), {items})"
        case MapType():
            entry = f"e{level}"
            key = _hashable(f"{entry}.key", type.keyType, level + 1)
            item = _hashable(f"{entry}.value", type.valueType, level + 1)
            items = f"transform(map_entries({value}), {entry} -> struct({key}, {item}))"
            return f"struct({value} IS NULL, size({value}), {items})"
        case StructType():
            fields = (_hashable(f"{value}.{quoted(item.name)}", item.dataType, level + 1) for item in type.fields)
            return f"struct({value} IS NULL, {', '.join(fields)})"
    return f"struct({value} IS NULL, {value})"
