"""Deleted rows are left out, by whatever means: bitmaps distinguished by cases, by a second array, or a join."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core.job import delete_events, deletes
from airflow_hivex.core.job.deletes import DeletedRows
from airflow_hivex.core.job.layout import HIVE_NAMES, METADATA_COLUMNS
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Scan, ScanPart, WriteIdFilter
from airflow_hivex.core.model.row_ids import encode_bucket

if TYPE_CHECKING:
    from pyarrow import Table
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Key = tuple[int, int, int]
ROW_TYPE = pa.struct([("rowid", pa.int32())])
HIGHEST = (1 << 33) - 1
KEYS = [
    (write_id, encode_bucket(writer, statement), row_id)
    for write_id in (3, 4, 90)
    for writer in (0, 1, 40)
    for statement in (0, 7)
    for row_id in (0, 1, 63, 64, 65, 127, 128, 1000, 100_000)
]


def events(keys: list[Key], write_id: int, layout: str = "flat") -> Table:
    columns = zip(*keys, strict=True)
    write_ids, buckets, row_ids = (list(column) for column in columns)
    count = len(keys)
    flat = pa.table(
        {
            "__operation": pa.array([2] * count, pa.int32()),
            "__original_write_id": pa.array(write_ids, pa.int64()),
            "__bucket": pa.array(buckets, pa.int32()),
            "__row_id": pa.array(row_ids, pa.int64()),
            "__write_id": pa.array([write_id] * count, pa.int64()),
        }
    )
    if layout == "flat":
        return flat
    return flat.rename_columns(list(HIVE_NAMES.values())).append_column("row", pa.nulls(count, ROW_TYPE))


def scan(directories: list[Path], valid: WriteIdFilter | None = None, layouts: Sequence[str] = ()) -> Scan:
    return Scan(
        view=f"scan_{abs(hash(tuple(directories)))}",
        table="default.t",
        columns=(Column("rowid", "int"),),
        partition_columns=(),
        format="orc",
        base_path=directories[0].parent.as_uri(),
        is_transactional=True,
        filter=valid,
        deletes=tuple(
            ScanPart((directory.as_uri(),), directories[0].parent.as_uri(), layout=layout)
            for directory, layout in zip_longest(directories, layouts, fillvalue="flat")
        ),
    )


def rows(spark: SparkSession, keys: list[Key]) -> DataFrame:
    metadata = ", ".join(f"{column.name} {column.type}" for column in METADATA_COLUMNS)
    return spark.createDataFrame([(0, *key, key[0]) for key in keys], metadata)


def left(found: DataFrame) -> list[Key]:
    return sorted(tuple(row) for row in found.select("__original_write_id", "__bucket", "__row_id").collect())


MEANS = {
    "cases": {},
    "arrays": {"MOST_CASES": 0, "MOST_PLACES": 1 << 20},
    "too many places": {"MOST_CASES": 0, "MOST_PLACES": 10},
    "too many words": {"MOST_WORDS": 1},
    "too many events": {"MOST_EVENTS": 1},
}


@pytest.mark.parametrize("means", MEANS)
def test_deleted_rows_are_left_out(
    spark: SparkSession, tmp_path: Path, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in MEANS[means].items():
        monkeypatch.setattr(delete_events if name == "MOST_EVENTS" else deletes, name, value)
    rng = np.random.default_rng(len(means))
    chosen = [key for key in KEYS if rng.random() < 0.4]
    # One write id, one bucket and one row id that no row has; one directory without files.
    strangers = [(5, KEYS[0][1], 1), (3, encode_bucket(9), 1), (3, KEYS[0][1], 7)]
    directories = [tmp_path / f"delete_delta_{i}_{i}_0" for i in (10, 11, 12)]
    layouts = ("flat", "hive")
    for directory, keys, layout in zip(directories, (chosen[::2], [*chosen[1::2], *strangers]), layouts, strict=False):
        directory.mkdir()
        (directory / "_orc_acid_version").write_text("2")
        orc.write_table(events(keys, 10, layout), directory / "bucket_00000")
    directories[2].mkdir()
    deleted = DeletedRows(spark, scan(directories, layouts=layouts))
    everything = rows(spark, KEYS)
    # Before the first and behind the last bit of each writer, and beyond what an int can count.
    others = rows(spark, [(3, KEYS[0][1], 10_000_000), (3, KEYS[0][1], HIGHEST), (1, KEYS[0][1], 0), (10**12, 1, 0)])
    assert left(deleted.leave_out(everything)) == sorted(set(KEYS) - set(chosen))
    assert left(deleted.leave_out(others)) == left(others)


@pytest.mark.parametrize("means", ["cases", "too many events"])
def test_delete_events_that_the_snapshot_must_not_see_delete_nothing(
    spark: SparkSession, tmp_path: Path, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in MEANS[means].items():
        monkeypatch.setattr(delete_events if name == "MOST_EVENTS" else deletes, name, value)
    directory = tmp_path / "delete_delta_10_13"
    directory.mkdir()
    parts = [events([KEYS[number]], write_id) for number, write_id in enumerate((10, 11, 12, 13))]
    orc.write_table(pa.concat_tables(parts), directory / "bucket_00000")
    deleted = DeletedRows(spark, scan([directory], WriteIdFilter(12, (11,))))
    assert left(deleted.leave_out(rows(spark, KEYS[:4]))) == sorted([KEYS[1], KEYS[3]])


def test_no_event_at_all_costs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "delete_delta_10_10"
    directory.mkdir()
    deleted = DeletedRows(spark, scan([directory]))
    found = rows(spark, KEYS)
    assert deleted.view is None
    assert deleted.leave_out(found) is found
