from __future__ import annotations

import datetime as dt
import resource
from dataclasses import replace
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
from airflow_hivex.core.job.orc_tail.tail import read_tail, replace_tail
from airflow_hivex.core.job.orc_tail.types import attributes
from airflow_hivex.core.job.storage import Place, place
from tests.orc_files import stripes, user_metadata
from tests.unit.core.job.orc_tail.flat_files import NAMES, Key, deletes, inserts, note, write

BUCKET = 536870912
LOCAL = pafs.LocalFileSystem()
CODECS = ["uncompressed", "zlib", "zstd", "snappy", "lz4"]
ACID = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]


def user_columns(count: int) -> dict[str, pa.Array]:
    day = dt.date(2024, 2, 29)

    def some(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([values[at % len(values)] for at in range(count)], type_)

    nested = pa.struct([("a", pa.list_(pa.int32())), ("bucket", pa.map_(pa.string(), pa.decimal128(5, 1)))])
    return {
        # What does not compress fills several stripes.
        "noise": pa.array([Random(at).randbytes(100) for at in range(count)], pa.binary()),
        "id": pa.array(range(count), pa.int64()),
        "Operation": some(["x" * 30, None, "y"], pa.string()),
        "d": some([Decimal("1.25"), None], pa.decimal128(30, 2)),
        "t": some([1_709_168_523_000_004_000, None], pa.timestamp("ns")),
        "z": some([-1_000_000_000, None], pa.timestamp("ns", "UTC")),
        "day": some([day, None], pa.date32()),
        "b": some([b"\x00\xff", None], pa.binary()),
        "f": some([1.5, None, float("nan")], pa.float64()),
        "nested": some([{"a": [1, None], "bucket": [("k", Decimal("1.5"))]}, None], nested),
    }


def user_rows(columns: dict[str, pa.Array]) -> list[str]:
    # As text, since NaN does not equal itself.
    return [str(row) for row in pa.table(columns).to_pylist()]


@pytest.mark.parametrize("codec", CODECS)
def test_a_flat_file_becomes_a_full_acid_file_with_equal_rows(tmp_path: Path, codec: str) -> None:
    count = 3_000
    columns = user_columns(count)
    flat = write(
        tmp_path / "part-00000.orc",
        inserts([(5, BUCKET, at) for at in range(count)], columns),
        compression=codec,
        stripe_size=1_000,
    )
    target = tmp_path / "bucket_00000"
    size = nest(place(str(flat)), place(str(target)))
    assert (size, flat.exists()) == (target.stat().st_size, False)
    table = orc.read_table(str(target))
    assert table.column_names == ACID
    assert [row["rowId"] for row in table.select(["rowId"]).to_pylist()] == list(range(count))
    assert [str(row) for row in table.column("row").to_pylist()] == user_rows(columns)
    found = stripes(place(str(target)))
    assert len(found) > 2
    assert sum(stripe.rows for stripe in found) == count
    lasts = [sum(stripe.rows for stripe in found[: at + 1]) - 1 for at in range(len(found))]
    assert user_metadata(place(str(target))) == {
        "hive.acid.key.index": "".join(f"5,{BUCKET},{last};" for last in lasts).encode(),
        "hive.acid.stats": f"{count},0,0".encode(),
        "hive.acid.version": b"2",
    }


def test_delete_events_have_a_null_row_and_the_keys_of_several_writers(tmp_path: Path) -> None:
    keys: list[Key] = [(1, BUCKET, at) for at in range(3_500)] + [(3, BUCKET + 1, at) for at in range(3_500)]
    columns = {"a": pa.nulls(len(keys), pa.int32()), "b": pa.nulls(len(keys), pa.struct([("c", pa.string())]))}
    path = write(
        tmp_path / "bucket_00000",
        deletes(keys, 9, columns),
        compression="uncompressed",
        stripe_size=1_000,
    )
    nest(place(str(path)), place(str(path)))
    assert set(orc.read_table(str(path)).column("row").to_pylist()) == {None}
    ends = [0]
    for stripe in stripes(place(str(path))):
        ends.append(ends[-1] + stripe.rows)
    assert len(ends) > 3
    metadata = user_metadata(place(str(path)))
    assert metadata["hive.acid.key.index"] == "".join("{},{},{};".format(*keys[end - 1]) for end in ends[1:]).encode()
    assert metadata["hive.acid.stats"] == b"0,0,7000"


def test_rows_and_delete_events_in_one_file_are_refused(tmp_path: Path) -> None:
    """Readers would give rows the values of others."""
    table = pa.concat_tables(
        [
            inserts([(1, BUCKET, at) for at in range(3)], {"a": pa.array([1, 2, 3])}),
            deletes([(2, BUCKET, at) for at in range(2)], 7, {"a": pa.nulls(2, pa.int64())}),
        ]
    )
    path = write(tmp_path / "part", table)
    before = path.read_bytes()
    with pytest.raises(JobError, match="part has 3 rows and 2 delete events"):
        nest(place(str(path)), place(str(path)))
    assert path.read_bytes() == before


@pytest.mark.parametrize(("operation", "counts"), [(0, "3,0,0"), (1, "2,1,0"), (2, "2,0,1")])
def test_operations_are_counted_apart(tmp_path: Path, operation: int, counts: str) -> None:
    table = inserts([(1, BUCKET, at) for at in range(3)], {"a": pa.array([1, 2, 3])})
    table = table.set_column(0, NAMES[0], pa.array([0, operation, 0], pa.int32()))
    path = write(tmp_path / "f.orc", table)
    nest(place(str(path)), place(str(path)))
    assert user_metadata(place(str(path)))["hive.acid.stats"] == counts.encode()


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_without_rows_becomes_one(tmp_path: Path, codec: str) -> None:
    path = write(tmp_path / "f.orc", inserts([], {"a": pa.array([], pa.int32())}), compression=codec)
    nest(place(str(path)), place(str(path)))
    table = orc.read_table(str(path))
    assert (table.column_names, table.num_rows) == (ACID, 0)
    assert table.schema.field("row").type == pa.struct([("a", pa.int32())])
    metadata = user_metadata(place(str(path)))
    assert (metadata["hive.acid.key.index"], metadata["hive.acid.stats"]) == (b"", b"0,0,0")


def test_unknown_attributes_and_fields_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "part", inserts([(1, BUCKET, 0)], user_columns(1)), compression="zlib")
    file = place(str(path))
    note(path, 0, "struct")
    note(path, 7, "timestamp_ntz")
    tail = read_tail(file)
    replace_tail(file, file, replace(tail, footer=tail.footer.replaced(99, [b"of the future"])))
    before = read_tail(file)
    nest(file, file)
    after = read_tail(file)
    assert after.types[7:] == before.types[7:]
    assert attributes(after.types)[7] == attributes(before.types)[7] != []
    assert after.footer.data(99) == b"of the future"
    assert orc.read_table(str(path)).num_rows == 1


def test_a_tail_longer_than_one_read_is_edited(tmp_path: Path) -> None:
    columns = {f"column_{at}_{'x' * 60}": pa.array([at]) for at in range(1500)}
    path = write(tmp_path / "f.orc", inserts([(1, BUCKET, 0)], columns), compression="uncompressed")
    nest(place(str(path)), place(str(path)))
    (row,) = orc.read_table(str(path)).column("row").to_pylist()
    assert row == {name: at for at, name in enumerate(columns)}


def test_the_checksums_of_an_edited_file_are_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "part", inserts([(1, BUCKET, 0)], {"a": pa.array([1])}))
    (tmp_path / ".part.crc").write_bytes(b"of the flat file")
    (tmp_path / ".other.crc").write_bytes(b"of another file")
    nest(place(str(path)), place(str(tmp_path / "bucket_00000")))
    assert sorted(file.name for file in tmp_path.iterdir()) == [".other.crc", "bucket_00000"]


def test_a_file_in_another_file_system_is_copied(tmp_path: Path) -> None:
    columns = user_columns(100)
    path = write(tmp_path / "part", inserts([(1, BUCKET, at) for at in range(100)], columns), compression="zlib")
    remote = Place(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "")
    size = nest(remote / "part", remote / "bucket_00000")
    assert size == (tmp_path / "bucket_00000").stat().st_size
    table = orc.read_table(str(tmp_path / "bucket_00000"))
    assert [str(row) for row in table.column("row").to_pylist()] == user_rows(columns)
    assert orc.read_table(str(path)).column_names[:6] == list(NAMES)


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 100, -1, -20])
def test_a_file_that_is_cut_off_is_a_clear_error(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / "part", inserts([(1, BUCKET, 0)], user_columns(1)), compression="zstd")
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    with pytest.raises(JobError, match=str(path)):
        nest(place(str(path)), place(str(tmp_path / "bucket_00000")))
    assert [file.name for file in tmp_path.iterdir()] == ["part"]
    assert path.read_bytes() == whole[:kept]


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("This is a text file with more bytes than an ORC file's tail has at the least.")
    other = write(tmp_path / "other.orc", pa.table({"a": [1], "b": [2]}))
    nested = write(tmp_path / "nested.orc", inserts([(1, BUCKET, 0)], {"a": pa.array([1])}))
    nest(place(str(nested)), place(str(nested)))
    for path, reason in (
        (text, "as an ORC file"),
        (other, "is not a flat file"),
        (nested, "is not a flat file"),
        (tmp_path / "missing", "cannot be read"),
    ):
        with pytest.raises(JobError, match=f"{path.name} .*{reason}"):
            nest(place(str(path)), place(str(tmp_path / "bucket_00000")))
    assert not (tmp_path / "bucket_00000").exists()


def test_a_file_without_room_for_its_tail_is_a_clear_error(tmp_path: Path) -> None:
    source = write(tmp_path / "part", inserts([(1, BUCKET, at) for at in range(2000)], user_columns(2000)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        for target in (place(str(tmp_path / "bucket")), Place(pafs.SubTreeFileSystem(str(tmp_path), LOCAL), "bucket")):
            with pytest.raises(JobError, match=r"part cannot be rewritten: .*File too large"):
                nest(place(str(source)), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
