"""Deleted rows of a table: read from its delete deltas once a scan, then left out of it without a join.

The driver turns the delete events into one bitmap for each writer of rows and tests each row's bit in
an expression; only where bitmaps would be too large or too many, Spark joins.
Source: docs/reference/spark.md, "Deleted rows".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_hivex.core.job import data_files, nested_rows
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field
from airflow_hivex.core.job.configuration import OWN_FILES_OPTIONS
from airflow_hivex.core.job.delete_events import event_files, events_in
from airflow_hivex.core.job.layout import BUCKET, HIVE, METADATA_COLUMNS, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.row_keys import Writer, runs
from airflow_hivex.core.model.originals import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.plans import Scan, ScanPart

MOST_WORDS = 1 << 21
"""64-bit words of all bitmaps together, 16 MiB; more are joined."""
MOST_CASES = 24
"""Writers that the expression compares one by one; more are looked up in a second array."""
MOST_PLACES = 1 << 20
"""Size of that second array; where it would be larger, Spark joins."""

_KEYS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class DeletedRows:
    """The deleted rows of a scan.

    Row ids are unique in the table, but for those of original files and of write ids up to ``Scan.partition_row_ids``,
    which are left to ``DeletedInPartitions``: it needs the ``files`` of the delete deltas, and their ``events``, None
    where these are too many for the driver.
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
        """Return the temporary view that the expression reads, if it needs one."""
        return self._view if self._bitmaps is not None and self._bitmaps.offsets else None

    def leave_out(self, rows: DataFrame) -> DataFrame:
        """Return the rows, which have their metadata columns, without those that are deleted."""
        if self._bitmaps is None:
            return rows.join(self._keys(), list(_KEYS), "left_anti")
        return rows.where(self._bitmaps.expression(self._view)) if self._bitmaps.offsets else rows

    def _keys(self) -> DataFrame:
        others = F.col(ORIGINAL_WRITE_ID) > F.lit(self._highest_of_partitions)
        return self.all_events().where(others).select(*_KEYS)

    def all_events(self) -> DataFrame:
        """Return all delete events that the snapshot sees, as Spark reads them."""
        return delete_events(self._spark, self._scan)


def delete_events(spark: SparkSession, scan: Scan) -> DataFrame:
    """Return the metadata columns of all events in the delete deltas of a scan that its snapshot sees."""
    events = reduce(lambda one, other: one.union(other), (_events_of(spark, scan, part) for part in scan.deletes))
    if scan.filter is not None:
        events = events.where(F.col(WRITE_ID) <= F.lit(scan.filter.high_watermark))
        if scan.filter.exceptions:
            events = events.where(~F.col(WRITE_ID).isin(list(scan.filter.exceptions)))
    return events


def _events_of(spark: SparkSession, scan: Scan, part: ScanPart) -> DataFrame:
    if part.layout == HIVE:
        rows = nested_rows.load(spark, part.paths, scan.columns)
        return rows.select(*(column.name for column in METADATA_COLUMNS))
    schema = StructType([field(column) for column in METADATA_COLUMNS])
    reader = spark.read.format("orc").schema(schema).options(__globPaths__="false", **OWN_FILES_OPTIONS)
    return data_files.load(reader, part.paths)


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """One bitmap a writer, one behind the other in ``words``; ``offsets`` has where each begins, and its words.

    ``skipped`` is the number of words without a bit that are left out before each.
    """

    words: Any
    offsets: Mapping[Writer, tuple[int, int]]
    skipped: Mapping[Writer, int]

    @property
    def _is_small(self) -> bool:
        return len(self.offsets) <= MOST_CASES

    @property
    def _shape(self) -> tuple[int, int, int, int, int]:
        """Lowest write id, lowest bucket and lowest low half of bucket properties; then the sizes of the last two."""
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
        """Return whether it is cheaper than a join."""
        if len(self.words) > MOST_WORDS:
            return False
        return self._is_small or self._places <= MOST_PLACES

    @property
    def _places(self) -> int:
        first, _, _, buckets, lows = self._shape
        return (max(write_id for write_id, _ in self.offsets) - first + 1) * buckets * lows

    def arrays(self) -> dict[str, Any]:
        """Return the arrays in which the expression looks up rows."""
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
        """Return the arrays as one row."""
        return pa.table({name: pa.array([words], pa.list_(pa.int64())) for name, words in self.arrays().items()})

    def expression(self, view: str, owner: str = ORIGINAL_WRITE_ID) -> str:
        """SQL that is true for a row that is not deleted; ``owner``, in SQL, and its bucket name its writer."""
        # As a long: the ids of rows that were rebalanced are large.
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
    """Return the bitmaps of delete events; None when a join is cheaper."""
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
