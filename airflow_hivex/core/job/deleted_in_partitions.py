"""Deleted rows whose ids are unique in their partition only.

Source: docs/reference/directories.md, "Row layout" and "Original files", for the ids; otherwise as ``deletes``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.delete_events import SOURCE
from airflow_hivex.core.job.deletes import DeletedRows, bitmaps
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID
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
from airflow_hivex.core.model.buckets import VERSION_SHIFT, WRITER_SHIFT
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.originals import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.plans import Scan

_KEYS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)
_HAS_ORIGINALS = "__has_originals"
# A pair of partition and write id, as the bitmaps number it.
_PAIR = f"CASE WHEN {ORIGINAL_WRITE_ID} BETWEEN {LOWEST} AND {HIGHEST} THEN {ORIGINAL_WRITE_ID} + {SHIFT} END"


class DeletedInPartitions:
    """The deleted rows of a scan among rows whose ids are unique in their partition only.

    Those are the rows of original files, also where a compaction has put them, and the rows of write ids up to
    ``Scan.partition_row_ids``. Each partition with delete deltas is an :data:`Owner`: joins distinguish its rows by its
    number, and bitmaps by the number of the pair of partition and write id.
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
        """Return the temporary view that the expression reads, if it needs one."""
        return self._view if self._bitmaps is not None and self._bitmaps.offsets else None

    def owner(self, uri: str) -> Owner:
        """Return the owner of the rows in a partition's directory."""
        return self._owners.get(plain_path(uri), NO_OWNER)

    def touches(self, file: OriginalFile) -> bool:
        """Return whether rows of an original file may be deleted."""
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
        """Return the rows, which have their metadata and owner columns, without those that are deleted."""
        if self._bitmaps is None:
            return rows.join(self._keys(), [OWNER, *_KEYS], "left_anti")
        return rows.where(self._bitmaps.expression(self._view, _PAIR)) if self._bitmaps.offsets else rows

    def leave_out_of(self, rows: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Return the rows of these directories, which have their metadata columns, without those that are deleted."""
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
        """Return the events of such rows, each with the number of its partition and write id in place of the latter.

        Gives each owner its numbers: the range of its write ids is ``shift`` away from them.
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
        """Return the keys of the events of such rows, and the numbers of their partitions, as Spark reads them."""
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
    """Return the ids of the deleted rows of each writer, rising."""
    writers, buckets, row_ids = (events.column(name).to_numpy() for name in _KEYS)
    order = np.lexsort((row_ids, buckets, writers))
    writers, buckets, row_ids = writers[order], buckets[order], row_ids[order]
    return {(int(writers[start]), int(buckets[start])): row_ids[start:end] for start, end in runs(writers, buckets)}


def _place_of(path: str) -> str:
    """Return the partition's directory of a file in a delete delta."""
    return re.sub(r"/delete_delta_[^/]+/.*", "", path)
