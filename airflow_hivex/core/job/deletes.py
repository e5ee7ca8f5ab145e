"""The deleted rows of a table, which are read from its delete deltas once for each scan, and excluded without a join.

The driver turns the delete events into one bitmap for each writer of rows. An expression tests the bit of each row.
Spark joins only if bitmaps would be too large or too many.
Source: docs/reference/spark.md, "Deleted rows".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_hivex.core.job import data_files
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field
from airflow_hivex.core.job.configuration import OWN_FILES_OPTIONS
from airflow_hivex.core.job.delete_events import SOURCE, event_files, events_in
from airflow_hivex.core.job.layout import BUCKET, HIVE, METADATA_COLUMNS, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.original_files import OriginalFile, plain_path
from airflow_hivex.core.job.originals import (
    HIGHEST,
    LOWEST,
    NO_OWNER,
    OWNER,
    OWNER_COLUMNS,
    SHIFT,
    Owner,
    as_columns,
    as_spark_names_them,
)
from airflow_hivex.core.job.row_keys import Writer, runs
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.plans import Scan, ScanPart
from airflow_hivex.core.model.row_ids import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.row_ids import VERSION_SHIFT, WRITER_SHIFT

MOST_WORDS = 1 << 21
"""The greatest number of 64-bit words of all bitmaps together (16 MiB). With more words, Spark uses a join."""
MOST_CASES = 24
"""The greatest number of writers that the expression compares one by one.

With more writers, the expression looks up the bitmap of a writer in an array with a place for each possible writer.
"""
MOST_PLACES = 1 << 20
"""The greatest number of places in the array for looking up writers. With more places, Spark uses a join."""

_KEYS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class DeletedRows:
    """The deleted rows of a scan.

    This class excludes rows whose ids are unique in the table. ``DeletedInPartitions`` excludes the other rows: rows of
    original files, and rows of write ids up to ``Scan.partition_row_ids``. ``files`` are the files of the delete
    deltas. ``events`` are the delete events in these files, or None if there are too many events for the driver.
    """

    def __init__(self, spark: SparkSession, scan: Scan) -> None:
        self._spark = spark
        self._scan = scan
        self._highest_of_partitions = max(scan.partition_row_ids, FIRST_WRITE_ID)
        self._bitmaps: Bitmaps | None = None
        self._view = f"{scan.view}_deleted"
        files = event_files(scan)
        events = events_in(files, scan.filter)
        self.files = files
        self.events = events
        if events is not None:
            others = events.column(ORIGINAL_WRITE_ID).to_numpy() > self._highest_of_partitions
            self._bitmaps = bitmaps(events.filter(pa.array(others)))
        if self._bitmaps is not None and self._bitmaps.offsets:
            spark.createDataFrame(self._bitmaps.table()).createOrReplaceTempView(self._view)

    @property
    def view(self) -> str | None:
        """Return the name of the temporary view that :meth:`leave_out` reads, or None if there is no view."""
        return self._view if self._bitmaps is not None and self._bitmaps.offsets else None

    def leave_out(self, rows: DataFrame) -> DataFrame:
        """Return the rows without deleted rows. ``rows`` have their metadata columns."""
        if self._bitmaps is None:
            return rows.join(self._keys(), list(_KEYS), "left_anti")
        return rows.where(self._bitmaps.expression(self._view)) if self._bitmaps.offsets else rows

    def _keys(self) -> DataFrame:
        others = F.col(ORIGINAL_WRITE_ID) > F.lit(self._highest_of_partitions)
        return self.all_events().where(others).select(*_KEYS)

    def all_events(self) -> DataFrame:
        """Return a DataFrame of all delete events that the snapshot sees."""
        return delete_events(self._spark, self._scan)


def delete_events(spark: SparkSession, scan: Scan) -> DataFrame:
    """Return a DataFrame of the scan's delete events that its snapshot sees, with their metadata columns."""
    events = reduce(lambda one, other: one.union(other), (_events_of(spark, scan, part) for part in scan.deletes))
    if scan.filter is not None:
        events = events.where(F.col(WRITE_ID) <= F.lit(scan.filter.high_watermark))
        if scan.filter.exceptions:
            events = events.where(~F.col(WRITE_ID).isin(list(scan.filter.exceptions)))
    return events


def _events_of(spark: SparkSession, scan: Scan, part: ScanPart) -> DataFrame:
    if part.layout == HIVE:
        rows = data_files.load_nested(spark, part.paths, scan.columns)
        return rows.select(*(column.name for column in METADATA_COLUMNS))
    schema = StructType([field(column) for column in METADATA_COLUMNS])
    reader = spark.read.format("orc").schema(schema).options(__globPaths__="false", **OWN_FILES_OPTIONS)
    return data_files.load(reader, part.paths)


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """The bitmaps of deleted rows, one for each writer, which follow each other in ``words``.

    ``offsets`` has each bitmap's first word and number of words. ``skipped`` has the number of empty words at each
    bitmap's beginning. These empty words are not stored.
    """

    words: Any
    offsets: Mapping[Writer, tuple[int, int]]
    skipped: Mapping[Writer, int]

    @property
    def _is_small(self) -> bool:
        return len(self.offsets) <= MOST_CASES

    @property
    def _shape(self) -> tuple[int, int, int, int, int]:
        """Return five numbers that decide the place of a writer in the array for looking up writers.

        The numbers are the lowest write id, the lowest high half and the lowest low half of the bucket properties, and
        the numbers of possible high halves and of possible low halves.
        """
        writers = list(self.offsets)
        buckets = [bucket >> 16 for _, bucket in writers]
        lows = [bucket & 0xFFFF for _, bucket in writers]
        first_bucket, first_low = min(buckets), min(lows)
        return (
            min(write_id for write_id, _ in writers),
            first_bucket,
            first_low,
            max(buckets) - first_bucket + 1,
            max(lows) - first_low + 1,
        )

    @property
    def is_usable(self) -> bool:
        """Return whether the bitmaps are cheaper than a join."""
        if len(self.words) > MOST_WORDS:
            return False
        return self._is_small or self._places <= MOST_PLACES

    @property
    def _places(self) -> int:
        first, _, _, buckets, lows = self._shape
        return (max(write_id for write_id, _ in self.offsets) - first + 1) * buckets * lows

    def arrays(self) -> dict[str, Any]:
        """Return a dict from name to array, for the arrays in which the expression looks up rows."""
        if self._is_small:
            return {"words": self.words}
        first, first_bucket, first_low, buckets, lows = self._shape
        starts, firsts, ends = (np.zeros(self._places, np.int64) for _ in range(3))
        for writer, (start, length) in self.offsets.items():
            write_id, bucket = writer
            at = ((write_id - first) * buckets + (bucket >> 16) - first_bucket) * lows + (bucket & 0xFFFF) - first_low
            starts[at] = start - self.skipped[writer]
            firsts[at] = self.skipped[writer]
            ends[at] = self.skipped[writer] + length
        return {"words": self.words, "starts": starts, "firsts": firsts, "ends": ends}

    def table(self) -> pa.Table:
        """Return the arrays as a table with one row."""
        return pa.table({name: pa.array([words], pa.list_(pa.int64())) for name, words in self.arrays().items()})

    def expression(self, view: str, owner: str = ORIGINAL_WRITE_ID) -> str:
        """Return a condition that is true for rows that are not deleted. ``owner`` and the bucket identify a writer."""
        # As a long: ids of rebalanced rows are large.
        word = f"shiftright({ROW_ID}, 6)"
        if self._is_small:
            cases = " ".join(
                f"WHEN {owner} = {write_id}L AND {BUCKET} = {bucket} "
                f"AND {ROW_ID} >= {64 * self.skipped[write_id, bucket]}L "
                f"AND {ROW_ID} < {64 * (self.skipped[write_id, bucket] + length)}L "
                f"THEN CAST({start - self.skipped[write_id, bucket]}L + {word} AS INT)"
                for (write_id, bucket), (start, length) in self.offsets.items()
            )
            at = f"CASE {cases} END"
        else:
            first, first_bucket, first_low, buckets, lows = self._shape
            writer = f"({owner} - {first}L) * {buckets} + shiftright({BUCKET}, 16) - {first_bucket}"
            place = f"TRY_CAST(({writer}) * {lows} + ({BUCKET} & 65535) - {first_low} AS INT)"
            inside = " AND ".join(
                (
                    f"shiftright({BUCKET}, 16) BETWEEN {first_bucket} AND {first_bucket + buckets - 1}",
                    f"({BUCKET} & 65535) BETWEEN {first_low} AND {first_low + lows - 1}",
                    f"{owner} BETWEEN {first}L AND {first + self._places // (buckets * lows) - 1}L",
                    f"{word} >= get({_array(view, 'firsts')}, {place})",
                    f"{word} < get({_array(view, 'ends')}, {place})",
                )
            )
            at = f"CASE WHEN {inside} THEN CAST(get({_array(view, 'starts')}, {place}) + {word} AS INT) END"
        bit = f"shiftright(get({_array(view, 'words')}, {at}), CAST({ROW_ID} & 63 AS INT)) & 1L"
        return f"coalesce({bit}, 0L) = 0L"


def _array(view: str, name: str) -> str:
    return f"(SELECT {name} FROM {view})"  # noqa: S608 - both are names of our own


def bitmaps(events: pa.Table) -> Bitmaps | None:
    """Return the bitmaps of delete events, or None if a join is cheaper."""
    write_ids, buckets, row_ids = (events.column(name).to_numpy() for name in _KEYS)
    order = np.lexsort((row_ids, buckets, write_ids))
    write_ids, buckets, row_ids = write_ids[order], buckets[order], row_ids[order]
    offsets: dict[Writer, tuple[int, int]] = {}
    skipped: dict[Writer, int] = {}
    parts = []
    total = 0
    for start, end in runs(write_ids, buckets):
        writer = int(write_ids[start]), int(buckets[start])
        skip = int(row_ids[start]) >> 6
        length = (int(row_ids[end - 1]) >> 6) - skip + 1
        offsets[writer], skipped[writer] = (total, length), skip
        total += length
        if total > MOST_WORDS:
            return None
        bits = np.zeros(64 * length, np.uint8)
        bits[row_ids[start:end] - 64 * skip] = 1
        parts.append(np.packbits(bits, bitorder="little").view("<i8"))
    found = Bitmaps(np.concatenate(parts) if parts else np.zeros(0, np.int64), offsets, skipped)
    return found if not offsets or found.is_usable else None


_HAS_ORIGINALS = "__has_originals"
# The number of a pair of partition and write id in the bitmaps.
_PAIR = f"CASE WHEN {ORIGINAL_WRITE_ID} BETWEEN {LOWEST} AND {HIGHEST} THEN {ORIGINAL_WRITE_ID} + {SHIFT} END"


class DeletedInPartitions:
    """The deleted rows of a scan whose row ids are unique only in their partition.

    These are rows of original files, also after a compaction, and rows of write ids up to ``Scan.partition_row_ids``.
    Each partition with delete deltas is an :data:`Owner`. Joins compare the number of the partition. Bitmaps use a
    number for each pair of partition and write id, in place of the write id.

    Source: docs/reference/directories.md, "Row layout" and "Original files".
    """

    def __init__(self, spark: SparkSession, scan: Scan, deleted: DeletedRows) -> None:
        self._spark = spark
        self._deleted = deleted
        self._highest = max(scan.partition_row_ids, FIRST_WRITE_ID)
        self._view = f"{scan.view}_deleted_in_partitions"
        groups = [group for part in scan.parts for group in part.originals]
        self._of_loads = sorted({group.write_id for group in groups if group.write_id > self._highest})
        self._uris = sorted({path.rpartition("/")[0] for part in scan.deletes for path in part.paths})
        with_originals = {plain_path(group.place) for group in groups if group.write_id == FIRST_WRITE_ID}
        self._has_originals = np.array([plain_path(uri) in with_originals for uri in self._uris], bool)
        self._owners: dict[str, Owner] = {
            plain_path(uri): (number, *NO_OWNER[1:]) for number, uri in enumerate(self._uris)
        }
        self._bitmaps = None
        self._by_writer: dict[Writer, Any] = {}
        self._knows_events = deleted.events is not None
        if deleted.events is not None:
            events = self._numbered(deleted.files, deleted.events)
            self._bitmaps = bitmaps(events)
            if groups:
                self._by_writer = _row_ids(events)
        if self._bitmaps is not None and self._bitmaps.offsets:
            spark.createDataFrame(self._bitmaps.table()).createOrReplaceTempView(self._view)

    @property
    def view(self) -> str | None:
        """Return the name of the temporary view that :meth:`leave_out` reads, or None if there is no view."""
        return self._view if self._bitmaps is not None and self._bitmaps.offsets else None

    def owner(self, uri: str) -> Owner:
        """Return the owner of the rows in a partition's directory."""
        return self._owners.get(plain_path(uri), NO_OWNER)

    def touches(self, file: OriginalFile) -> bool:
        """Return whether an original file possibly has deleted rows."""
        if not self._knows_events:
            return True
        at, write_id = file.owner
        _, lowest, highest, shift = self.owner(at)
        found = self._by_writer.get((write_id + shift, file.bucket)) if lowest <= write_id <= highest else None
        if found is None:
            return False
        start, end = np.searchsorted(found, (file.first_row_id, file.first_row_id + file.rows))
        return bool(start < end)

    def leave_out(self, rows: DataFrame) -> DataFrame:
        """Return the rows without deleted rows. ``rows`` have their metadata columns and owner columns."""
        if self._bitmaps is None:
            return rows.join(self._keys(), [OWNER, *_KEYS], "left_anti")
        return rows.where(self._bitmaps.expression(self._view, _PAIR)) if self._bitmaps.offsets else rows

    def leave_out_of(self, rows: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Return the rows of the directories ``paths`` without deleted rows. ``rows`` have their metadata columns."""
        places = {path.rpartition("/")[0] for path in paths}
        if not any(self._is_touched(path.rpartition("/")[0]) for path in paths if self._may_have_such_rows(path)):
            return rows
        if len(places) == 1:
            values = (F.lit(value).cast("bigint") for value in self.owner(places.pop()))
            return self.leave_out(rows.withColumns(dict(zip(OWNER_COLUMNS, values, strict=True)))).drop(*OWNER_COLUMNS)
        known = as_spark_names_them(rows)
        # A file lies in a base or delta of its partition.
        owners = [self.owner(path.rpartition("/")[0].rpartition("/")[0]) for path in known]
        lookup = pa.table({SOURCE: list(known.values()), **as_columns(owners)})
        sourced = rows.withColumn(SOURCE, F.input_file_name())
        owned = sourced.join(F.broadcast(self._spark.createDataFrame(lookup)), SOURCE)
        return self.leave_out(owned).drop(SOURCE, *OWNER_COLUMNS)

    def _is_touched(self, uri: str) -> bool:
        number, lowest, highest, _ = self.owner(uri)
        return lowest <= highest if self._knows_events else number >= 0

    def _may_have_such_rows(self, path: str) -> bool:
        found = parse_directory(path.rpartition("/")[2])
        if found is None:
            return False
        if self._highest > FIRST_WRITE_ID:
            return found.kind is DirectoryKind.BASE or found.min_write_id <= self._highest
        # Rows of original files.
        return found.kind is DirectoryKind.BASE and found.visibility_txn_id > 0

    def _numbered(self, files: Sequence[Place], events: pa.Table) -> pa.Table:
        """Return the events of rows whose ids are unique only in partitions, with numbers in place of the write ids.

        A number stands for a pair of partition and write id. The number is the write id plus the ``shift`` of the
        partition's owner. This method sets the shifts.
        """
        write_ids = events.column(ORIGINAL_WRITE_ID).to_numpy()
        events = events.filter(pa.array((write_ids <= self._highest) | np.isin(write_ids, self._of_loads)))
        write_ids, buckets, sources = (events.column(name).to_numpy() for name in (ORIGINAL_WRITE_ID, BUCKET, SOURCE))
        numbers = {place(uri).path.rstrip("/"): number for number, uri in enumerate(self._uris)}
        places = np.array([numbers[_place_of(file.path)] for file in files], np.int64)[sources]
        lowest = np.full(len(self._uris), np.iinfo(np.int64).max)
        highest = np.full(len(self._uris), -1, np.int64)
        np.minimum.at(lowest, places, write_ids)
        np.maximum.at(highest, places, write_ids)
        has_events = highest >= 0
        widths = np.where(has_events, highest - lowest + 1, 0)
        shifts = np.cumsum(widths) - widths - lowest
        for number in np.flatnonzero(has_events):
            span = int(lowest[number]), int(highest[number]), int(shifts[number])
            self._owners[plain_path(self._uris[number])] = (int(number), *span)
        is_plain = self._has_originals[places] & (write_ids == FIRST_WRITE_ID) & (buckets >> VERSION_SHIFT == 0)
        encoded = np.where(is_plain, 1 << VERSION_SHIFT | buckets.astype(np.int64) << WRITER_SHIFT, buckets)
        columns = (write_ids + shifts[places], encoded, events.column(ROW_ID))
        return pa.table(dict(zip(_KEYS, map(pa.array, columns), strict=True)))

    def _keys(self) -> DataFrame:
        """Return the row keys and partition numbers of deleted rows whose ids are unique only in their partition."""
        events = self._deleted.all_events()
        known = as_spark_names_them(events)
        numbers = {plain_path(uri): number for number, uri in enumerate(self._uris)}
        places = [numbers[_place_of(path)] for path in known]
        lookup = pa.table(
            {
                SOURCE: pa.array(list(known.values()), pa.string()),
                OWNER: pa.array(places, pa.int64()),
                _HAS_ORIGINALS: pa.array([bool(self._has_originals[each]) for each in places], pa.bool_()),
            }
        )
        is_such = F.col(ORIGINAL_WRITE_ID) <= F.lit(self._highest)
        if self._of_loads:
            is_such |= F.col(ORIGINAL_WRITE_ID).isin(self._of_loads)
        is_plain = (
            f"{_HAS_ORIGINALS} AND {ORIGINAL_WRITE_ID} = {FIRST_WRITE_ID} AND shiftright({BUCKET}, {VERSION_SHIFT}) = 0"
        )
        encoded = f"{1 << VERSION_SHIFT} | shiftleft({BUCKET}, {WRITER_SHIFT})"
        return (
            events.where(is_such)
            .withColumn(SOURCE, F.input_file_name())
            .join(F.broadcast(self._spark.createDataFrame(lookup)), SOURCE)
            .selectExpr(OWNER, ORIGINAL_WRITE_ID, f"IF({is_plain}, {encoded}, {BUCKET}) AS {BUCKET}", ROW_ID)
        )


def _row_ids(events: pa.Table) -> dict[Writer, Any]:
    """Return a dict from writer to the ascending ids of its deleted rows."""
    writers, buckets, row_ids = (events.column(name).to_numpy() for name in _KEYS)
    order = np.lexsort((row_ids, buckets, writers))
    writers, buckets, row_ids = writers[order], buckets[order], row_ids[order]
    return {(int(writers[start]), int(buckets[start])): row_ids[start:end] for start, end in runs(writers, buckets)}


def _place_of(path: str) -> str:
    """Return the directory of the partition to which a file of a delete delta belongs."""
    return re.sub(r"/delete_delta_[^/]+/.*", "", path)
