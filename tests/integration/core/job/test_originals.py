"""Rows of original files, and rows of Hive, are deleted by their ids in their own partition only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core.job import delete_events, deletes
from airflow_hivex.core.job.layout import HIVE_NAMES
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import OriginalFiles, Plan, Scan, ScanPart
from airflow_hivex.core.model.row_ids import decode_bucket, encode_bucket
from airflow_hivex.core.runners.registry import Runner
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


def write_with_ids(
    path: Path, keys: Sequence[tuple[int, int, int]], ids: Sequence[int] | None, write_id: int, layout: str = "flat"
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_ids, buckets, row_ids = zip(*keys, strict=True)
    count = len(keys)
    columns: dict[str, Any] = {
        "__operation": pa.array([0 if ids is not None else 2] * count, pa.int32()),
        "__original_write_id": pa.array(write_ids, pa.int64()),
        "__bucket": pa.array(buckets, pa.int32()),
        "__row_id": pa.array(row_ids, pa.int64()),
        "__write_id": pa.array([write_id] * count, pa.int64()),
    }
    values = pa.array(ids if ids is not None else [None] * count, pa.int32())
    if layout == "flat":
        orc.write_table(pa.table({**columns, "id": values}), str(path))
        return
    rows = pa.StructArray.from_arrays([values], ["id"], mask=pa.array([ids is None] * count))
    orc.write_table(pa.table({**{HIVE_NAMES[name]: each for name, each in columns.items()}, "row": rows}), str(path))


def scan(
    root: Path,
    parts: Sequence[ScanPart],
    deleted: Sequence[Path] = (),
    *,
    row_ids: bool = False,
    layout: str = "flat",
    partition_row_ids: int = 0,
) -> Scan:
    return Scan(
        view="t",
        table="db.t",
        columns=(Column("id", "int"),),
        partition_columns=(Column("p", "string"),),
        format="orc",
        base_path=uri(root),
        parts=tuple(parts),
        is_transactional=True,
        deletes=(ScanPart(tuple(uri(path) for path in deleted), uri(root), layout),) if deleted else (),
        row_ids=row_ids,
        partition_row_ids=partition_row_ids,
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
        name, module = ("MOST_WORDS", deletes) if means == "too many words" else ("MOST_EVENTS", delete_events)
        monkeypatch.setattr(module, name, 0)
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


MEANS = {
    "cases": {},
    "arrays": {"MOST_CASES": 0},
    "too many words": {"MOST_WORDS": 0},
    "too many events": {"MOST_EVENTS": 0},
}


@pytest.mark.parametrize("layout", ["flat", "hive"])
@pytest.mark.parametrize("means", MEANS)
def test_rows_that_hive_has_numbered_in_each_partition_are_deleted_in_their_own(
    runner: Runner, tmp_path: Path, means: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in MEANS[means].items():
        monkeypatch.setattr(delete_events if name == "MOST_EVENTS" else deletes, name, value)
    bucket, other = encode_bucket(0), encode_bucket(3, 1)
    directories = ("base_0000004", "delta_0000005_0000006", "delta_0000009_0000009_0000")
    expected = set()
    gone = {
        # The last one is of a write of ours, whose ids are unique in the table.
        "a": [(2, bucket, 0), (2, bucket, 70), (5, other, 1), (9, bucket, 100)],
        "b c%2Fd": [(4, bucket, 1), (6, other, 0)],
        "c": [],
    }
    for number, (name, events) in enumerate(gone.items()):
        place, start = tmp_path / f"p={name}", 1000 * number
        keys = {
            "base_0000004": [(write_id, bucket, row) for write_id in (2, 4) for row in (0, 1, 70)],
            "delta_0000005_0000006": [(write_id, other, row) for write_id in (5, 6) for row in (0, 1)],
            "delta_0000009_0000009_0000": [(9, bucket, 100 * (number + 1) + row) for row in (0, 1)],
        }
        for directory, of_it in keys.items():
            ids = range(start, start + len(of_it))
            start += len(of_it)
            write_with_ids(place / directory / "bucket_00000", of_it, ids, of_it[-1][0], layout)
            expected |= {
                (at, name.replace("%2F", "/")) for at, key in zip(ids, of_it, strict=True) if key not in events
            }
        if events:
            write_with_ids(place / "delete_delta_0000010_0000010_0000" / "bucket_00000", events, None, 10, layout)
    deleted = [tmp_path / f"p={name}" / "delete_delta_0000010_0000010_0000" for name in ("a", "b c%2Fd")]

    def part(*names: str) -> ScanPart:
        paths = tuple(uri(tmp_path / f"p={name}" / directory) for name in names for directory in directories)
        return ScanPart(paths, uri(tmp_path), layout, files=len(paths))

    def found(*parts: ScanPart, row_ids: bool = False) -> list[tuple[object, ...]]:
        read = scan(tmp_path, parts, deleted, layout=layout, partition_row_ids=6, row_ids=row_ids)
        return run(runner, "SELECT id, p FROM t ORDER BY id", read)

    assert found(part("a", "b c%2Fd"), part("c")) == sorted(expected)
    assert found(part("a", "b c%2Fd", "c"), row_ids=True) == sorted(expected)
    assert found(part("a")) == sorted(row for row in expected if row[1] == "a")


@pytest.mark.parametrize("means", ["cases", "too many events"])
def test_events_of_hive_2_name_rows_of_original_files_by_the_bucket_alone(
    runner: Runner, tmp_path: Path, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in MEANS[means].items():
        monkeypatch.setattr(delete_events if name == "MOST_EVENTS" else deletes, name, value)
    place = tmp_path / "p=a"
    files = tuple((name, write(place / name, range(at, at + 10))) for at, name in ((0, "000000_0"), (100, "000001_0")))
    # Those of a later Hive, or of ours, have the bucket property.
    gone = [(0, 0, 4), (0, 1, 5), (0, encode_bucket(1), 6)]
    write_with_ids(place / "delete_delta_0000007_0000007_0000" / "bucket_00000", gone, None, 7)
    read = scan(
        tmp_path,
        [originals(tmp_path, OriginalFiles(uri(place), files=files))],
        [place / "delete_delta_0000007_0000007_0000"],
        partition_row_ids=6,
    )
    expected = sorted({*range(10), *range(100, 110)} - {4, 105, 106})
    assert run(runner, "SELECT id FROM t ORDER BY id", read) == [(each,) for each in expected]
