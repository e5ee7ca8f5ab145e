"""Rows of original files have the ids that Hive gives them, and are deleted by these in their own partition only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core.model.buckets import decode_bucket, encode_bucket
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import OriginalFiles, Plan, Scan, ScanPart
from airflow_hivex.core.runners.registry import Runner
from airflow_hivex.core.spark import deletes
from tests import hive_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TAGS = itertools.count()
ROW_ID_COLUMNS = "__original_write_id, __bucket, __row_id"


def uri(path: Path) -> str:
    """The path as it stands: locations are not decoded."""
    return f"file://{path}"


def write(path: Path, ids: Sequence[int]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Small stripes, so that a file has several.
    orc.write_table(pa.table({"id": pa.array(ids, pa.int32())}), str(path), stripe_size=1024)
    return len(ids)


def write_with_ids(path: Path, keys: Sequence[tuple[int, int, int]], ids: Sequence[int] | None, write_id: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_ids, buckets, row_ids = zip(*keys, strict=True)
    count = len(keys)
    columns: dict[str, Any] = {
        "__operation": pa.array([0 if ids is not None else 2] * count, pa.int32()),
        "__original_write_id": pa.array(write_ids, pa.int64()),
        "__bucket": pa.array(buckets, pa.int32()),
        "__row_id": pa.array(row_ids, pa.int64()),
        "__write_id": pa.array([write_id] * count, pa.int64()),
        "id": pa.array(ids if ids is not None else [None] * count, pa.int32()),
    }
    orc.write_table(pa.table(columns), str(path))


def scan(root: Path, parts: Sequence[ScanPart], deleted: Sequence[Path] = (), *, row_ids: bool = False) -> Scan:
    return Scan(
        view="t",
        table="db.t",
        columns=(Column("id", "int"),),
        partition_columns=(Column("p", "string"),),
        format="orc",
        base_path=uri(root),
        parts=tuple(parts),
        is_transactional=True,
        deletes=(ScanPart(tuple(uri(path) for path in deleted), uri(root), "flat"),) if deleted else (),
        row_ids=row_ids,
    )


def run(runner: Runner, sql: str, table: Scan) -> list[tuple[object, ...]]:
    return list(runner.run(Plan(f"originals{next(_TAGS)}", "read", sql, (table,)), "c1").rows)


def originals(root: Path, *groups: OriginalFiles) -> ScanPart:
    return ScanPart((), uri(root), "original", originals=groups)


def test_hive_gives_the_rows_the_same_ids(runner: Runner, spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    sizes = {"000000_0": 700, "000001_0": 30, "000000_0_copy_1": 20, "000000_0_copy_2": 5, "000000_0_copy_10": 7}
    files = []
    for number, (name, size) in enumerate(sizes.items()):
        files.append((name, write(place / name, range(number * 1000, number * 1000 + size))))
    part = originals(place, OriginalFiles(uri(place), files=tuple(files)))
    found = run(
        runner,
        f"SELECT {ROW_ID_COLUMNS}, id FROM t",
        scan(tmp_path, [replace(part, values=("1",))], row_ids=True),
    )
    hives = hive_oracle.rows(spark, place, "5:9223372036854775807", [Column("id", "int")])
    # Hive 2.3 has the bucket's number alone where later ones have the bucket property, and takes no copy for one
    # of its bucket: that came with Hive 3 (HIVE-16177).
    ours = {value: (write_id, decode_bucket(bucket).bucket_id, row) for write_id, bucket, row, value in found}
    theirs = {row.values["id"]: (row.write_id, row.bucket, row.row_id) for row in hives if row.bucket >= 0}
    assert len(theirs) == 730
    assert theirs.items() <= ours.items()
    # Name order: copy_1, copy_10, copy_2.
    copies = [ours[start] for start in (2000, 4000, 3000)]
    assert copies == [(0, 0, 700), (0, 0, 720), (0, 0, 727)]
    assert len(found) == len(ours) == sum(sizes.values())


@pytest.mark.parametrize("means", ["bitmaps", "too many words", "too many events"])
def test_events_of_one_partition_leave_the_others_alone(
    runner: Runner, tmp_path: Path, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if means != "bitmaps":
        monkeypatch.setattr(deletes, "MOST_WORDS" if means == "too many words" else "MOST_EVENTS", 0)
    groups = []
    deleted = []
    for number, name in enumerate(("a", "b c%2Fd")):
        place = tmp_path / f"p={name}"
        start = number * 1000
        files = ((("000000_0"), write(place / "000000_0", range(start, start + 300))),)
        files += (("x/part-1", write(place / "x" / "part-1", range(start + 300, start + 310))),)
        groups.append(OriginalFiles(uri(place), files=files))
        # What LOAD DATA of a real Hive leaves: rows of write id 3 in its second statement.
        write(place / "delta_3_3_1" / "000002_0", range(start + 400, start + 404))
        groups.append(OriginalFiles(uri(place), 3, 1, folder="delta_3_3_1"))
        # What a compaction has made of other original files of the partition.
        of_bucket_5 = [(0, encode_bucket(5), row) for row in range(4)]
        write_with_ids(
            place / "base_0000001_v0000009" / "bucket_00005", of_bucket_5, range(start + 500, start + 504), 1
        )
        deleted.append(place / "delete_delta_0000007_0000007_0000")
    gone = [
        (0, encode_bucket(0), 299),
        (0, encode_bucket(0), 302),
        (3, encode_bucket(2, 1), 1),
        (0, encode_bucket(5), 2),
    ]
    write_with_ids(deleted[0] / "bucket_00000", gone, None, 7)
    write_with_ids(deleted[1] / "bucket_00000", [(0, encode_bucket(0), 0)], None, 7)
    bases = tuple(uri(tmp_path / f"p={name}" / "base_0000001_v0000009") for name in ("a", "b c%2Fd"))
    parts = [originals(tmp_path, *groups), ScanPart(bases, uri(tmp_path), "flat", files=2)]
    everything = {start + i for start in (0, 1000) for i in (*range(310), *range(400, 404), *range(500, 504))}
    expected = sorted(everything - {299, 302, 401, 502, 1000})
    found = run(runner, "SELECT id, p FROM t ORDER BY id", scan(tmp_path, parts, deleted))
    assert found == [(i, "a" if i < 1000 else "b c/d") for i in expected]
    with_ids = run(
        runner, f"SELECT id, {ROW_ID_COLUMNS} FROM t ORDER BY id", scan(tmp_path, parts, deleted, row_ids=True)
    )
    assert [row[0] for row in with_ids] == expected
    assert {row[0]: row[1:] for row in with_ids if row[0] in (0, 298, 309, 1301, 402, 1503)} == {
        0: (0, encode_bucket(0), 0),
        298: (0, encode_bucket(0), 298),
        309: (0, encode_bucket(0), 309),
        1301: (0, encode_bucket(0), 301),
        402: (3, encode_bucket(2, 1), 2),
        1503: (0, encode_bucket(5), 3),
    }
