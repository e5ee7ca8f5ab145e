"""Files of buckets put together: what is copied, what is rewritten, and that the rows that stay are all there."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core.job import stripe_merging
from airflow_hivex.core.job.new_directories import NewDirectories
from airflow_hivex.core.job.orc_tail import nest, read_tail
from airflow_hivex.core.job.orc_tail.tail import replace_tail
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.staging import Staging
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.directories import base_name
from airflow_hivex.core.model.plans import Scan, ScanPart, Write, WriteIdFilter
from tests.acceptance.middle_of_writes import limit_files
from tests.orc_files import stripes, user_metadata
from tests.unit.core.job.orc_tail.flat_files import Key, deletes, inserts, note, write

FIRST_BUCKET = 1 << 29
EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-32768, 32767]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "float": (pa.float32(), [float("-inf"), -0.0, 1e-45]),
    "double": (pa.float64(), [float("inf"), -0.0, 4.9e-324]),
    "small_decimal": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00")]),
    "decimal": (pa.decimal128(38, 18), [Decimal("9" * 20 + "." + "9" * 18), Decimal("-0." + "0" * 17 + "1")]),
    "string": (pa.string(), ["", "Straße 数 \U0001f600 \0", "x" * 5000]),
    "binary": (pa.binary(), [b"", b"\xff\x00", b"y" * 3000]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("ns"), [10**15 + 1, 253402300799 * 10**7]),
}


class Bucketed:
    """A table's directories below ``root`` in one row layout, and the delete events of it."""

    def __init__(self, root: Path, layout: str = "flat") -> None:
        self.root = root
        self.layout = layout
        self.random = Random(layout)
        self.paths: dict[str, int] = {}
        self.deleted: list[Key] = []
        self.filter: WriteIdFilter | None = None
        self.options: dict[str, str] = {}
        self.made: NewDirectories | None = None

    def columns(self, count: int) -> dict[str, pa.Array]:
        return {
            name: pa.array([self.random.choice([None, *values]) for _ in range(count)], of)
            for name, (of, values) in EXTREMES.items()
        }

    def add(self, delta: str, keys: Sequence[Key], name: str = "bucket_00000", **options: Any) -> Path:
        """A file of rows with these keys."""
        return self.add_table(delta, inserts(list(keys), self.columns(len(keys))), name, **options)

    def add_table(self, delta: str, table: pa.Table, name: str = "bucket_00000", **options: Any) -> Path:
        folder = self.root / delta
        folder.mkdir(parents=True, exist_ok=True)
        if self.layout == "flat":
            table = table.drop_columns(["__row"])
        path = write(folder / name, table, compression="zstd", batch_size=100, **options)
        if self.layout == "hive":
            nest(place(str(path)), place(str(path)))
        self.paths[str(folder)] = self.paths.get(str(folder), 0) + 1
        return path

    def delete(self, keys: Iterable[Key]) -> None:
        self.deleted += keys

    def merge(self) -> bool:
        """Whether all could be put together in a base."""
        part = ScanPart(tuple(self.paths), str(self.root), self.layout, files=sum(self.paths.values()))
        deltas: tuple[ScanPart, ...] = ()
        if self.deleted:
            folder = self.root / "delete_delta_0000008_0000008_0000"
            folder.mkdir(exist_ok=True)
            events = deletes(sorted(self.deleted), 8, {}).drop_columns(["__row"])
            write(folder / "bucket_00000", events)
            deltas = (ScanPart((str(folder),), str(self.root), "flat", files=1),)
        scan = Scan("v", "t", (), (), "orc", str(self.root), (part,), filter=self.filter, deletes=deltas, row_ids=True)
        target = Write(
            str(self.root),
            "t",
            (),
            (),
            9,
            overwrite=True,
            layout=self.layout,
            compacted=(0, 9, 5),
            options=self.options,
        )
        staging, self.made = Staging(target), NewDirectories(target)
        self.made.directory(None, ())
        # No Spark: there are few rows.
        done = stripe_merging.put_together(None, scan, target, staging, self.made)  # type: ignore[arg-type]
        staging.remove()
        return done

    def expected(self, name: str = "bucket_00000") -> pa.Table:
        """The rows of a bucket that stay."""
        there = [Path(folder) / name for folder in self.paths]
        rows = pa.concat_tables([orc.read_table(str(path)) for path in there if path.exists()])
        hidden = () if self.filter is None else self.filter.exceptions
        gone = set(self.deleted)
        _, *keys, written = (rows.column(at).to_pylist() for at in range(5))
        keep = [key not in gone and by not in hidden for key, by in zip(zip(*keys, strict=True), written, strict=True)]
        return rows.filter(pa.array(keep))

    @property
    def result(self) -> Path:
        return self.root / base_name(9, 5)

    def remove_result(self) -> None:
        """Take away what a merge has made, to merge again."""
        shutil.rmtree(self.result)

    def check(self, name: str = "bucket_00000") -> None:
        expected, path = self.expected(name), self.result / name
        assert path.exists() == bool(len(expected))
        if not len(expected):
            return
        found = orc.read_table(str(path))
        assert found.equals(expected)
        tail = read_tail(place(str(path)))
        assert tail.rows == len(found) == sum(stripe.rows for stripe in tail.stripes)
        assert tail.statistics[0].number(1) == len(found)
        if self.layout == "hive":
            metadata = user_metadata(place(str(path)))
            assert metadata["hive.acid.stats"] == f"{len(found)},0,0".encode()
            last = [sum(stripe.rows for stripe in tail.stripes[: at + 1]) - 1 for at in range(len(tail.stripes))]
            keys = ["{},{},{};".format(*(found.column(at)[row] for at in (1, 2, 3))) for row in last]
            assert metadata["hive.acid.key.index"] == "".join(keys).encode()


def keys(write_id: int, rows: Iterable[int], bucket: int = FIRST_BUCKET) -> list[Key]:
    return [(write_id, bucket, row) for row in rows]


def stripes_in(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[stripe.offset : stripe.offset + stripe.size_bytes] for stripe in stripes(place(str(path)))]


@pytest.fixture(params=["flat", "hive"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucketed:
    monkeypatch.setattr(stripe_merging, "SMALL_STRIPE", 50)
    return Bucketed(tmp_path, request.param)


def test_only_stripes_with_deleted_rows_are_written_anew(table: Bucketed) -> None:
    first = table.add("base_0000003", keys(2, range(500)) + keys(3, range(300)), stripe_size=1)
    second = table.add("delta_0000004_0000004_0000", keys(4, range(400)), stripe_size=1)
    other = table.add("delta_0000005_0000005_0000", keys(5, range(100), FIRST_BUCKET + (1 << 16)), "bucket_00001")
    table.delete(keys(2, range(120, 130)) + keys(4, [0, 399]) + keys(7, [3]))
    assert len(stripes_in(first)) == 8
    assert table.merge()
    table.check()
    table.check("bucket_00001")
    copied = stripes_in(first)
    del copied[1]
    found = stripes_in(table.result / "bucket_00000")
    assert found[:1] + found[2:8] == copied
    assert found[9:-1] == stripes_in(second)[1:-1]
    assert stripes_in(table.result / "bucket_00001") == stripes_in(other)
    assert table.made is not None
    assert [(each.files, each.rows) for each in table.made.written] == [(2, 1300 - 12)]


def test_nothing_is_left_of_stripes_whose_rows_are_all_deleted(table: Bucketed) -> None:
    table.add("delta_0000004_0000004_0000", keys(4, range(300)), stripe_size=1)
    table.add("delta_0000004_0000004_0000", keys(4, range(0, 300, 2), FIRST_BUCKET + (1 << 16)), "bucket_00001")
    table.delete(keys(4, range(300)) + keys(4, range(0, 300, 2), FIRST_BUCKET + (1 << 16)))
    assert table.merge()
    assert [path.name for path in table.result.glob("bucket_*")] == []
    table.deleted.pop()
    table.remove_result()
    assert table.merge()
    assert orc.read_table(str(table.result / "bucket_00001")).num_rows == 1


def test_small_stripes_beside_each_other_become_one(table: Bucketed) -> None:
    large = table.add("base_0000003", keys(2, range(400)))
    for write_id in (4, 5, 6):
        table.add(f"delta_000000{write_id}_000000{write_id}_0000", keys(write_id, range(write_id)))
    assert table.merge()
    table.check()
    found = stripes_in(table.result / "bucket_00000")
    assert found[0] == stripes_in(large)[0]
    assert len(found) == 2


def test_rows_of_aborted_transactions_are_left_out(table: Bucketed) -> None:
    for number in (0, 1, 2):
        table.add("delta_0000004_0000006", keys(4 + number, range(60)), f"bucket_00000_{number}")
    table.filter = WriteIdFilter(9, (5,))
    assert table.merge()
    found = orc.read_table(str(table.result / "bucket_00000"))
    assert found.column(1).to_pylist() == [4] * 60 + [6] * 60


def test_statements_of_one_transaction_follow_each_other(table: Bucketed) -> None:
    for statement in (0, 1):
        table.add(f"delta_0000004_0000004_000{statement}", keys(4, range(70), FIRST_BUCKET + statement))
    table.delete(keys(4, [69], FIRST_BUCKET) + keys(4, [0], FIRST_BUCKET + 1))
    assert table.merge()
    table.check()


@pytest.mark.parametrize(
    "rows",
    [[range(100), range(50, 150)], [range(100, 200), range(100)], [range(100), range(99, 120)]],
    ids=["overlapping", "in the wrong order", "with one row twice"],
)
def test_files_that_are_not_in_order_are_refused(table: Bucketed, rows: list[range]) -> None:
    for number, each in enumerate(rows):
        table.add(f"delta_000000{number + 2}_000000{number + 2}_0000", keys(1, each))
    table.delete(keys(1, [3]))
    assert not table.merge()
    assert not list(table.result.glob("bucket_*"))


def test_rows_that_are_not_in_order_within_a_stripe_are_refused(table: Bucketed) -> None:
    table.add("delta_0000002_0000002_0000", keys(2, [*range(50, 100), *range(50)]))
    table.delete(keys(2, [3]))
    assert not table.merge()


def test_what_pyarrow_cannot_write_as_spark_does_is_refused_where_it_must_be_written(table: Bucketed) -> None:
    moments = {
        "before 1970": pa.array([-1] * 100, pa.timestamp("ns")),
        "a list": pa.array([[1]] * 100, pa.list_(pa.int32())),
        "a struct": pa.array([{"a": 1}] * 100, pa.struct({"a": pa.int32()})),
    }
    for number, values in enumerate(moments.values()):
        each = Bucketed(table.root / str(number), table.layout)
        each.add_table("delta_0000002_0000002_0000", inserts(keys(2, range(100)), {"c": values}))
        assert each.merge()
        each.check()
        again = Bucketed(table.root / f"{number}_deleted", table.layout)
        again.add_table("delta_0000002_0000002_0000", inserts(keys(2, range(100)), {"c": values}))
        again.delete(keys(2, [3]))
        assert not again.merge()
    # Spark's writer is given options that this one does not know.
    table.options = {"orc.bloom.filter.columns": "int"}
    table.add("delta_0000002_0000002_0000", keys(2, range(100)))
    table.delete(keys(2, [3]))
    assert not table.merge()


def test_files_are_compressed_as_is_asked_for(table: Bucketed) -> None:
    table.add("delta_0000002_0000002_0000", keys(2, range(100)))
    table.delete(keys(2, [3]))
    table.options = {"orc.compress": "SNAPPY"}
    assert not table.merge()
    table.remove_result()
    table.options = {"orc.compress": "ZSTD"}
    assert table.merge()
    table.check()


def test_nothing_is_left_where_a_file_is_damaged(table: Bucketed) -> None:
    table.add("delta_0000002_0000002_0000", keys(2, range(100)))
    damaged = table.add("delta_0000003_0000003_0000", keys(3, range(100)))
    table.add("delta_0000003_0000003_0000", keys(3, range(100), FIRST_BUCKET + (1 << 16)), "bucket_00001")
    table.delete(keys(2, [3]) + keys(3, [3]))
    (stripe,) = stripes(place(str(damaged)))
    content = bytearray(damaged.read_bytes())
    content[stripe.offset : stripe.offset + stripe.size_bytes] = bytes(stripe.size_bytes)
    damaged.write_bytes(content)
    assert not table.merge()
    assert not list(table.result.glob("bucket_*"))


def test_no_room_for_a_file_does_not_end_the_process(table: Bucketed) -> None:
    table.add("delta_0000002_0000002_0000", keys(2, range(400)))
    table.delete(keys(2, [3]))
    # What is created has no bytes yet.
    limit_files(os.getpid(), 2000)
    try:
        assert not table.merge()
    finally:
        limit_files(os.getpid(), -1)
    assert not list(table.result.glob("bucket_*"))
    table.remove_result()
    assert table.merge()
    table.check()


def test_types_and_calendar_stay_as_they_were(table: Bucketed) -> None:
    """Texts of CHAR and VARCHAR are texts to pyarrow, and it knows one calendar only."""
    path = table.add("delta_0000002_0000002_0000", keys(2, range(100)))
    file = place(str(path))
    tail = read_tail(file)
    at = len(tail.types) - 4
    declared = tail.types
    declared[at] = Message().replaced(1, [17]).replaced(4, [9])
    changed = tail.with_types(declared)
    calendar = changed.footer.replaced(11, [1])
    replace_tail(file, file, type(tail)(tail.postscript, calendar, tail.metadata, tail.data_length))
    note(path, at + 2, "date")
    before = read_tail(file)
    table.delete(keys(2, [3]))
    assert table.merge()
    table.check()
    after = read_tail(place(str(table.result / "bucket_00000")))
    assert (after.types, after.form) == (before.types, before.form)
