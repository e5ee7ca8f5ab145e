from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyarrow import orc

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job.orc_tail import nest
from airflow_hivex.core.job.orc_tail.tail import read_tail
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import Place, place
from tests.orc_files import concatenate, stripes, user_metadata
from tests.unit.core.job.orc_tail.flat_files import deletes, inserts, note, write

BUCKET = 536870912


def rows(seed: int, count: int) -> dict[str, pa.Array]:
    random = Random(seed)

    def some(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([random.choice([None, value]) for value in values], type_)

    return {
        "noise": pa.array([random.randbytes(100) for _ in range(count)], pa.binary()),
        "i": some([random.randrange(-(2**62), 2**62) for _ in range(count)], pa.int64()),
        "s": some([f"{random.random()}" * 80 for _ in range(count)], pa.string()),
        "f": some([random.uniform(-5, 5) for _ in range(count)], pa.float64()),
        "d": some([Decimal(random.randrange(-(10**9), 10**9)).scaleb(-2) for _ in range(count)], pa.decimal128(20, 2)),
        "day": some([random.randrange(-9999, 9999) for _ in range(count)], pa.date32()),
        "t": some([random.randrange(-(10**18), 10**18) for _ in range(count)], pa.timestamp("ns")),
        "b": some([random.random() < 0.5 for _ in range(count)], pa.bool_()),
        "l": some([[1] * random.randrange(5) for _ in range(count)], pa.list_(pa.int32())),
    }


def one_writer(keys: range, seed: int) -> pa.Table:
    return inserts([(seed, BUCKET, at) for at in keys], rows(seed, len(keys)))


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd", "snappy", "lz4"])
def test_the_rows_of_all_files_follow_each_other(tmp_path: Path, codec: str) -> None:
    tables = [one_writer(range(count), seed) for seed, count in ((1, 3000), (2, 0), (3, 10), (4, 3000))]
    sources = []
    for at, table in enumerate(tables):
        path = write(tmp_path / str(at), table, compression=codec, stripe_size=1000)
        nest(place(str(path)), place(str(path)))
        sources.append(place(str(path)))
    target = place(str(tmp_path / "bucket_00000"))
    made = concatenate(target, sources)
    before = [orc.read_table(source.path) for source in sources]
    assert orc.read_table(target.path).equals(pa.concat_tables(before))
    assert (made.rows, made.size_bytes) == (6010, Path(target.path).stat().st_size)
    per_file = [stripes(source) for source in sources]
    assert made.stripes == sum(map(len, per_file)) == len(stripes(target)) > 4
    metadata = [user_metadata(source) for source in sources]
    assert user_metadata(target) == {
        "hive.acid.key.index": b"".join(each["hive.acid.key.index"] for each in metadata),
        "hive.acid.stats": b"6010,0,0",
        "hive.acid.version": b"2",
    }


def test_merged_statistics_are_those_of_a_file_with_all_rows(tmp_path: Path) -> None:
    tables = [one_writer(range(count), seed) for seed, count in ((1, 400), (2, 0), (3, 7), (4, 600))]
    sources = [place(str(write(tmp_path / str(at), table))) for at, table in enumerate(tables)]
    target = place(str(tmp_path / "all"))
    concatenate(target, sources)
    whole = place(str(write(tmp_path / "whole", pa.concat_tables(tables))))
    found, expected = (read_tail(file).statistics for file in (target, whole))
    assert len(found) == len(expected) == 17
    for column, (ours, of_writer) in enumerate(zip(found, expected, strict=True)):
        # A sum of doubles depends on the order.
        without = (3,) if column == 10 else ()
        for number in (2, 3, 4, 5, 6, 7, 8, 9, 12):
            assert parts(ours.data(number), *without) == parts(of_writer.data(number), *without), (column, number)
        assert (ours.number(1), ours.number(10)) == (of_writer.number(1), of_writer.number(10)), column


def parts(data: bytes, *without: int) -> list[Any]:
    return sorted(Message.parse(data).without(*without).fields)


def test_inserts_and_deletes_are_added_up(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "1", inserts([(1, BUCKET, 0)], {"a": pa.array([1])})),
        write(tmp_path / "2", deletes([(1, BUCKET, 0), (1, BUCKET, 2)], 5, {"a": pa.nulls(2, pa.int64())})),
    ]
    for path in paths:
        nest(place(str(path)), place(str(path)))
    concatenate(place(str(tmp_path / "3")), [place(str(path)) for path in paths])
    assert user_metadata(place(str(tmp_path / "3")))["hive.acid.stats"] == b"1,0,2"
    assert orc.read_table(str(tmp_path / "3")).column("row").to_pylist() == [{"a": 1}, None, None]


def test_other_file_systems_are_written_to(tmp_path: Path) -> None:
    table = one_writer(range(100), 1)
    remote = Place(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "")
    for name in "ab":
        write(tmp_path / name, table, compression="zstd")
    concatenate(remote / "c", [remote / "a", remote / "b"])
    assert orc.read_table(str(tmp_path / "c")).equals(pa.concat_tables([table, table]))


ONE = inserts([(1, BUCKET, 0)], {"a": pa.array([1])})


@pytest.mark.parametrize(
    ("other", "options", "reason"),
    [
        (ONE, {"compression": "zlib"}, "compression"),
        (ONE, {"row_index_stride": 5000}, "row index stride"),
        (inserts([(1, BUCKET, 0)], {"b": pa.array([1])}), {}, "types"),
        (inserts([(1, BUCKET, 0)], {"a": pa.array([1], pa.int32())}), {}, "types"),
        (inserts([(1, BUCKET, 0)], {"a": pa.array([Decimal(1)], pa.decimal128(9, 0))}), {}, "types"),
    ],
)
def test_files_that_differ_are_refused(tmp_path: Path, other: pa.Table, options: dict[str, Any], reason: str) -> None:
    sources = [write(tmp_path / name, ONE) for name in "ab"] + [write(tmp_path / "c", other, **options)]
    target = tmp_path / "d"
    with pytest.raises(JobError, match=f"{sources[2]} .*{sources[0]}.* differ in {reason}"):
        concatenate(place(str(target)), [place(str(source)) for source in sources])
    assert not target.exists()


def test_attributes_may_be_missing_but_not_differ(tmp_path: Path) -> None:
    """Small VALUES lists are written without Spark, and so without its attributes."""
    paths = [write(tmp_path / name, ONE) for name in "abc"]
    note(paths[1], 7, "timestamp_ntz")
    target = place(str(tmp_path / "d"))
    concatenate(target, [place(str(path)) for path in paths])
    assert read_tail(target).types == read_tail(place(str(paths[1]))).types
    note(paths[2], 7, "bigint")
    with pytest.raises(JobError, match=f"{paths[2]} .*{paths[1]}.* attributes of types"):
        concatenate(place(str(tmp_path / "e")), [place(str(path)) for path in paths])
    assert not (tmp_path / "e").exists()


def test_a_flat_file_is_not_put_behind_a_nested_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, ONE) for name in "ab"]
    nest(place(str(paths[0])), place(str(paths[0])))
    with pytest.raises(JobError, match="types"):
        concatenate(place(str(tmp_path / "c")), [place(str(path)) for path in paths])


def test_a_damaged_source_leaves_no_target(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, ONE) for name in "ab"]
    paths[1].write_bytes(paths[1].read_bytes()[:-9])
    with pytest.raises(JobError, match=str(paths[1])):
        concatenate(place(str(tmp_path / "c")), [place(str(path)) for path in paths])
    assert not (tmp_path / "c").exists()
