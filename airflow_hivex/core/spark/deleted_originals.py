"""Deleted rows of original files, whose ids are unique in their partition only.

Source: docs/reference/directories.md, "Original files", for the ids; otherwise as ``deletes``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.originals import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.plans import Scan
from airflow_hivex.core.spark.deletes import SOURCE, DeletedRows, bitmaps
from airflow_hivex.core.spark.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID
from airflow_hivex.core.spark.originals import OWNER, as_spark_names_them, plain_path
from airflow_hivex.core.spark.row_keys import Writer, runs
from airflow_hivex.core.spark.storage import Place, place

_KEYS = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class DeletedOriginals:
    """The deleted rows of a scan among rows whose ids are unique in their partition only.

    Those are the rows of original files, and where a compaction has put them. Each partition and write id is
    an owner with a number, by which bitmaps and joins tell them apart.
    """

    def __init__(self, spark: SparkSession, scan: Scan, deleted: DeletedRows) -> None:
        self._spark = spark
        self._deleted = deleted
        self._view = f"{scan.view}_deleted_originals"
        found: set[tuple[str, int]] = set()
        for part in scan.parts:
            found.update((group.place, group.write_id) for group in part.originals)
            found.update((path.rpartition("/")[0], FIRST_WRITE_ID) for path in part.paths if is_compacted_base(path))
        self.owners = {owner: number for number, owner in enumerate(sorted(found))}
        self._events = None if deleted.events is None else self._owned(deleted.files, deleted.events)
        self._bitmaps = None if self._events is None else bitmaps(self._events)
        self._by_writer: dict[Writer, Any] = {}
        if self._events is not None and len(self._events):
            owners, buckets, row_ids = (self._events.column(name).to_numpy() for name in _KEYS)
            order = np.lexsort((row_ids, buckets, owners))
            owners, buckets, row_ids = owners[order], buckets[order], row_ids[order]
            for start, end in runs(owners, buckets):
                self._by_writer[int(owners[start]), int(buckets[start])] = row_ids[start:end]
        if self._bitmaps is not None and self._bitmaps.offsets:
            spark.createDataFrame(self._bitmaps.table()).createOrReplaceTempView(self._view)

    @property
    def view(self) -> str | None:
        """Return the temporary view that the expression reads, if it needs one."""
        return self._view if self._bitmaps is not None and self._bitmaps.offsets else None

    def touches(self, owner: tuple[str, int], bucket: int | None = None, first: int = 0, rows: int = 0) -> bool:
        """Return whether rows of an owner may be deleted: any, or some of those with these ids."""
        if self._events is None:
            return True
        number = self.owners[owner]
        if bucket is None:
            return any(writer[0] == number for writer in self._by_writer)
        found = self._by_writer.get((number, bucket))
        if found is None:
            return False
        start, end = np.searchsorted(found, (first, first + rows))
        return bool(start < end)

    def leave_out(self, rows: DataFrame) -> DataFrame:
        """Return the rows, which have their metadata columns and :data:`OWNER`, without those that are deleted."""
        if self._bitmaps is None:
            return rows.join(self._keys(), [OWNER, BUCKET, ROW_ID], "left_anti")
        return rows.where(self._bitmaps.expression(self._view, OWNER)) if self._bitmaps.offsets else rows

    def leave_out_of_compacted(self, rows: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Return the rows of directories without those deleted ones that a compaction has taken from original files."""
        places = {path.rpartition("/")[0] for path in paths if is_compacted_base(path)}
        if not any(self.touches((at, FIRST_WRITE_ID)) for at in places):
            return rows
        numbers = {plain_path(at): self.owners[at, FIRST_WRITE_ID] for at in places}
        found = [
            (name, numbers.get(path.rpartition("/")[0].rpartition("/")[0], -1))
            for path, name in as_spark_names_them(rows).items()
        ]
        lookup = pa.table({SOURCE: [name for name, _ in found], OWNER: [number for _, number in found]})
        sourced = rows.withColumn(SOURCE, F.input_file_name())
        owned = sourced.join(F.broadcast(self._spark.createDataFrame(lookup)), SOURCE)
        of_originals = F.when(F.col(ORIGINAL_WRITE_ID) == F.lit(FIRST_WRITE_ID), F.col(OWNER)).otherwise(F.lit(-1))
        return self.leave_out(owned.withColumn(OWNER, of_originals)).drop(SOURCE, OWNER)

    def _owned(self, files: Sequence[Place], events: pa.Table) -> pa.Table:
        """Return the events of owners, the owner's number in the place of the write id."""
        numbers = {(place(at).path.rstrip("/"), write_id): number for (at, write_id), number in self.owners.items()}
        places = [_place_of(file.path) for file in files]
        write_ids, sources = events.column(ORIGINAL_WRITE_ID).to_numpy(), events.column(SOURCE).to_numpy()
        owners = np.full(len(events), -1, np.int64)
        for write_id in {write_id for _, write_id in self.owners}:
            by_source = np.array([numbers.get((at, write_id), -1) for at in places], np.int64)
            of_it = write_ids == write_id
            owners[of_it] = by_source[sources[of_it]]
        owned = events.set_column(events.schema.get_field_index(ORIGINAL_WRITE_ID), ORIGINAL_WRITE_ID, pa.array(owners))
        return owned.filter(pa.array(owners >= 0))

    def _keys(self) -> DataFrame:
        events = self._deleted.all_events()
        numbers = {(plain_path(at), write_id): number for (at, write_id), number in self.owners.items()}
        known = as_spark_names_them(events)
        lookup = [
            (name, write_id, numbers[_place_of(path), write_id])
            for path, name in known.items()
            for write_id in {write_id for _, write_id in self.owners}
            if (_place_of(path), write_id) in numbers
        ]
        columns = zip(*lookup, strict=True) if lookup else ((), (), ())
        types = (pa.string(), pa.int64(), pa.int64())
        arrays = [pa.array(list(values), of) for values, of in zip(columns, types, strict=True)]
        table = pa.table(dict(zip((SOURCE, ORIGINAL_WRITE_ID, OWNER), arrays, strict=True)))
        return (
            events.withColumn(SOURCE, F.input_file_name())
            .join(F.broadcast(self._spark.createDataFrame(table)), [SOURCE, ORIGINAL_WRITE_ID])
            .select(OWNER, BUCKET, ROW_ID)
        )


def _place_of(path: str) -> str:
    """Return the partition's directory of a file in a delete delta."""
    return re.sub(r"/delete_delta_[^/]+/.*", "", path)


def is_compacted_base(path: str) -> bool:
    """Return whether a directory is a base that a compaction has made, which may have rows of original files."""
    found = parse_directory(path.rpartition("/")[2])
    return found is not None and found.kind is DirectoryKind.BASE and found.visibility_txn_id > 0
