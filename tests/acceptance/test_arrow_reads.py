"""Tables read by pyarrow in this process: the rows of a SELECT, without Spark."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.arrow import scanning
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchColumnError,
    NoSuchTableError,
    NoSuchVersionError,
    StatementSyntaxError,
    StorageError,
    UnsupportedStatementError,
)

pytestmark = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)

UTC = dt.UTC
FILTERS: list[tuple[Any, list[int]]] = [
    ("id > 1", [2, 3]),
    ("id > 1.5", [2, 3]),
    ("ID = '1'", [1]),
    ("price > 1", [1, 3]),
    ("price = 1.50", [1]),
    ("NOT (price > 2)", [1]),
    ("price IS NULL", [2]),
    ("price <=> NULL OR name = 'a'", [1, 2]),
    ("code = 'a'", [1]),
    ("at >= '2020-01-01'", [1]),
    ("local = TIMESTAMP_NTZ '2020-01-01 10:00:00'", [1]),
    ("ratio > -2", [1, 3]),
    ("name LIKE 'a%'", [1]),
    ("id IN (1, 3, 4)", [1, 3]),
    ("name IN ('a', NULL)", [1]),
    ("id NOT IN (1, NULL)", []),
    ("name NOT IN ('a')", [2]),
    ("id BETWEEN 2 AND 9 AND day = '2020-01-02'", [2]),
    ("day < TIMESTAMP '2020-01-01 01:00:00'", [1]),
    ("day IS NULL", [3]),
    ([("id", "!=", 2), ("price", "is not", None)], [1, 3]),
    ([[("id", "==", 1)], [("name", "=", "b")]], [1, 2]),
    ([("day", "in", [dt.date(2020, 1, 2)])], [2]),
    ([("name", "not in", ["b"])], [1]),
    (pc.field("id") == 2, [2]),
    (pc.field("day").is_null() | (pc.field("ratio") > 0), [1, 3]),
]
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"columns": ["nothing"]}, NoSuchColumnError, "nothing"),
    ({"filter": "nothing = 1"}, NoSuchColumnError, "nothing"),
    ({"filter": pc.field("nothing") == 1}, InvalidParametersError, "nothing"),
    ({"filter": "id = 'a'"}, InvalidParametersError, "cannot be compared"),
    ({"filter": "id = :x"}, InvalidParametersError, "markers :x"),
    ({"filter": "id + 1 = 2"}, HivexError, "session.sql"),
    ({"filter": "id = ratio"}, UnsupportedStatementError, "session.sql"),
    ({"filter": "id = 1 LIMIT 3"}, StatementSyntaxError, "one condition"),
    ({"filter": "1 = 1) OR (1 = 1"}, StatementSyntaxError, "not expected here"),
    ({"filter": ""}, StatementSyntaxError, "a condition is expected"),
    ({"filter": [("id", "~", 1)]}, InvalidParametersError, "not in"),
    ({"filter": 5}, InvalidParametersError, "not a valid filter"),
    ({"filter": "id = :x", "parameters": [1]}, InvalidParametersError, "give a mapping"),
]


@pytest.fixture
def table(session: Session) -> Iterator[str]:
    session.sql(
        "CREATE TABLE t (id INT, name STRING, price DECIMAL(10,2), at TIMESTAMP, local TIMESTAMP_NTZ, code CHAR(3),"
        " ratio DOUBLE) PARTITIONED BY (day DATE)"
    )
    session.sql(
        "INSERT INTO t VALUES (1, 'a', 1.5, TIMESTAMP '2020-01-01 10:00:00', TIMESTAMP_NTZ '2020-01-01 10:00:00', 'a',"
        " 1.0, DATE '2020-01-01'), (2, 'b', NULL, NULL, NULL, NULL, NULL, DATE '2020-01-02')"
    )
    session.sql("INSERT INTO t VALUES (3, NULL, 2.25, NULL, NULL, 'xyz', -1.5, NULL)")
    yield "t"
    assert session.sql("SHOW LOCKS").rows == []


def test_rows_have_the_types_of_spark(session: Session, table: str) -> None:
    found = session.to_arrow(table).sort_by("id")
    assert found.schema == pa.schema(
        {
            "id": pa.int32(),
            "name": pa.string(),
            "price": pa.decimal128(10, 2),
            "at": pa.timestamp("us", tz="UTC"),
            "local": pa.timestamp("us"),
            "code": pa.string(),
            "ratio": pa.float64(),
            "day": pa.date32(),
        }
    )
    first, _, last = found.to_pylist()
    assert first == {
        "id": 1,
        "name": "a",
        "price": Decimal("1.50"),
        "at": dt.datetime(2020, 1, 1, 10, tzinfo=UTC),
        "local": dt.datetime.fromisoformat("2020-01-01 10:00:00"),
        "code": "a  ",
        "ratio": 1.0,
        "day": dt.date(2020, 1, 1),
    }
    assert last["day"] is None


@pytest.mark.parametrize("values", [1, scanning.VALUES])
def test_a_filter_leaves_the_rows_that_sql_leaves(
    session: Session, table: str, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "VALUES", values)
    for condition, ids in FILTERS:
        found = session.to_arrow(table, columns=["id"], filter=condition)
        assert (str(condition), sorted(found["id"].to_pylist())) == (str(condition), ids)


def test_texts_of_char_of_every_writer_are_padded(session: Session, tmp_path: Path) -> None:
    where = tmp_path / "c1" / "outside"
    where.mkdir(parents=True)
    written = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "c": ["ab", "abc", "b"], "s": [{"c": "x"}] * 3})
    orc.write_table(written, where / "f")
    session.sql("CREATE EXTERNAL TABLE e (id INT, c CHAR(3), s STRUCT<c: CHAR(2)>) STORED AS ORC LOCATION 'outside'")
    assert session.to_arrow("e").to_pylist()[0] == {"id": 1, "c": "ab ", "s": {"c": "x "}}
    for condition, ids in [
        ("c = 'ab'", [1]),
        ("c = 'ab   '", [1]),
        ("c IN ('ab', 'b     ')", [1, 3]),
        ("c > 'ab'", [2, 3]),
        ("c <> 'ab'", [2, 3]),
        ("c LIKE 'ab'", []),
    ]:
        assert (condition, session.to_arrow("e", filter=condition)["id"].to_pylist()) == (condition, ids)
    session.sql("SET spark.sql.readSideCharPadding = false")
    with pytest.raises(InvalidOperationError, match="readSideCharPadding"):
        session.to_arrow("e")
    assert session.to_arrow("e", columns=["id"]).num_rows == 3


def test_times_without_a_zone_are_those_of_the_session(session: Session, tmp_path: Path) -> None:
    where = tmp_path / "c1" / "outside" / "k"
    where.mkdir(parents=True)
    # Ten o'clock in Tokyo.
    moment = dt.datetime.fromisoformat("2020-01-01 01:00:00")
    rows = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([moment], pa.timestamp("us"))})
    orc.write_table(rows, where / "f")
    session.sql(
        "CREATE EXTERNAL TABLE e (id INT, at TIMESTAMP) PARTITIONED BY (k TIMESTAMP) STORED AS ORC LOCATION 'outside'"
    )
    session.sql("ALTER TABLE e ADD PARTITION (k = '2020-01-01 10:00:00') LOCATION 'outside/k'")
    session.sql("SET TIME ZONE 'Asia/Tokyo'")
    assert session.to_arrow("e", columns=["k"])["k"].to_pylist() == [dt.datetime(2020, 1, 1, 1, tzinfo=UTC)]
    for condition in (
        "at = TIMESTAMP '2020-01-01 10:00:00'",
        "at = '2020-01-01 10:00:00'",
        "at > DATE '2020-01-01' AND at < '2020-01-01 10:00:01'",
        "k = '2020-01-01 10:00:00'",
        [("at", "=", dt.datetime(2020, 1, 1, 1, tzinfo=UTC)), ("k", "in", [moment.replace(hour=10)])],
    ):
        assert session.to_arrow("e", filter=condition).num_rows == 1
    session.sql("SET TIME ZONE 'UTC'")
    assert session.to_arrow("e", filter="at = TIMESTAMP '2020-01-01 10:00:00'").num_rows == 0
    session.sql("SET TIME ZONE 'Europe/Berlin'")
    with pytest.raises(InvalidParametersError, match="without Spark"):
        session.to_arrow("e", filter="at IN ('2020-10-25 02:30:00')")


@pytest.mark.parametrize(
    "condition",
    [
        "id = '1.5'",
        "id = '01'",
        "price IN ('1.5')",
        "at IN ('2020-01-01')",
        "day = '2020-01-01 10:00:00'",
        "id IN (1, 1e0)",
        "id < 9223372036854775808",
        "code IN ('a', NULL)",
        "code BETWEEN 'a' AND 'b'",
        "ratio IN ('1')",
        r"name LIKE 'a\\b'",
    ],
)
def test_a_constant_that_spark_may_read_in_several_ways_is_refused(
    session: Session, table: str, condition: str
) -> None:
    with pytest.raises(InvalidParametersError):
        session.to_arrow(table, filter=condition)


def test_what_is_not_a_filter_or_a_column_is_refused(session: Session, table: str) -> None:
    for options, error, reason in REFUSED:
        with pytest.raises(error, match=reason):
            session.to_arrow(table, **options)


def test_rows_go_to_pandas_polars_and_duckdb(session: Session, table: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    assert sorted(session.to_pandas(table, filter="id < :n", parameters={"n": 3})["id"]) == [1, 2]
    assert session.to_polars(table)["id"].sum() == 6
    with duckdb.connect() as connection:
        assert session.to_duckdb(table, connection).count("*").fetchall() == [(3,)]
        session.to_duckdb("default.t", connection, view="late", filter="day > '2020-01-01'")
        assert connection.sql("SELECT max(t.id) FROM t JOIN late USING (day)").fetchall() == [(2,)]


def test_a_scan_reads_the_table_as_it_is_when_a_method_is_called(session: Session) -> None:
    scan = session.scan("late", ["id"], "id > :n", {"n": 1})
    with pytest.raises(NoSuchTableError):
        scan.to_arrow()
    session.sql("CREATE TABLE late (id INT, name STRING)")
    session.sql("INSERT INTO late VALUES (1, 'a'), (2, 'b')")
    assert scan.to_arrow().to_pydict() == {"id": [2]}
    session.sql("INSERT INTO late VALUES (3, 'c')")
    assert sorted(scan.to_pandas()["id"]) == sorted(scan.to_polars()["id"]) == [2, 3]
    assert sorted(scan.to_batches().read_all()["id"].to_pylist()) == [2, 3]


def test_a_read_is_of_one_snapshot_and_of_a_transaction(session: Session, metastore: Metastore, table: str) -> None:
    stream = session.to_batches(table, columns="id", threads=1)
    session.sql("START TRANSACTION")
    session.sql("INSERT INTO t VALUES (4, 'own', NULL, NULL, NULL, NULL, NULL, DATE '2020-01-01')")
    assert session.to_arrow(table).num_rows == 4
    with metastore.session(user="other") as other:
        assert other.to_arrow("default.t").num_rows == 3
    session.sql("COMMIT")
    assert sorted(each for batch in stream for each in batch["id"].to_pylist()) == [1, 2, 3]
    assert session.to_arrow(table, columns=[]).num_rows == 4


def test_an_earlier_version_has_its_rows_and_columns(session: Session) -> None:
    session.sql("CREATE TABLE h (id INT, v STRING) TBLPROPERTIES ('hivex.history.retention' = '1h')")
    session.sql("INSERT INTO h VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT INTO h VALUES (3, 'c')")
    session.sql("ALTER TABLE h RENAME COLUMN v TO w")
    before = session.to_arrow("h", filter="v > 'a'", version=2)
    assert before.to_pylist() == [{"id": 2, "v": "b"}]
    stream = session.to_batches("h", version=3)
    session.sql("TRUNCATE TABLE h")
    assert session.to_pandas("h", version=2)["id"].sum() == 3
    assert sum(batch.num_rows for batch in stream) == 3
    now = dt.datetime.now(UTC)
    assert session.to_arrow("h", timestamp=now).num_rows == session.to_arrow("h").num_rows == 0
    with pytest.raises(NoSuchVersionError):
        session.to_arrow("h", version=99)


def test_columns_and_names_of_now_hold_for_files_of_before(session: Session) -> None:
    session.sql("CREATE TABLE c (id INT, s STRUCT<a: INT, b: STRING>, v STRING)")
    session.sql("INSERT INTO c (id, v) VALUES (1, 'one')")
    session.sql("ALTER TABLE c RENAME COLUMN v TO w")
    session.sql("ALTER TABLE c CHANGE COLUMN id id BIGINT")
    session.sql("ALTER TABLE c ADD COLUMNS (v INT, m MAP<STRING, ARRAY<DATE>>)")
    found = session.to_arrow("c")
    assert found.to_pylist() == [{"id": 1, "s": None, "w": "one", "v": None, "m": None}]
    assert found.schema.field("s").type == pa.struct({"a": pa.int32(), "b": pa.string()})
    assert found.schema.field("id").type == pa.int64()


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_stripes_that_a_filter_excludes_are_not_read(session: Session, tmp_path: Path, format: str) -> None:
    where = tmp_path / "c1" / "outside"
    where.mkdir(parents=True)
    days = [dt.date(1970, 1, 1) + dt.timedelta(n) for n in range(100_000)]
    rows = pa.table({"id": pa.array(range(100_000), pa.int64()), "day": days})
    if format == "orc":
        orc.write_table(rows, where / "f", stripe_size=1, row_index_stride=1000, batch_size=1000)
    else:
        parquet.write_table(rows, where / "f", row_group_size=1000)
    session.sql(f"CREATE EXTERNAL TABLE e (ID BIGINT, day DATE) STORED AS {format} LOCATION 'outside'")
    assert session.to_arrow("e").num_rows == 100_000
    for condition in ("id = 5", "id = 99000 AND id IS NOT NULL", "day < '1970-01-03' AND id > 0"):
        assert session.to_arrow("e", filter=condition).num_rows == 1
    damaged = bytearray((where / "f").read_bytes())
    damaged[100:2000] = bytes(1900)
    (where / "f").write_bytes(damaged)
    assert session.to_arrow("e", filter="id > 99000").num_rows == 999
    with pytest.raises(StorageError, match="outside/f"):
        session.to_arrow("e")


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_rows_of_a_file_that_another_program_replaces_are_of_one_state(
    session: Session, tmp_path: Path, format: str
) -> None:
    where = tmp_path / "c1" / "outside"
    where.mkdir(parents=True)

    def write(state: int) -> None:
        rows = pa.table({"id": range(100_000), "state": [state] * 100_000})
        if format == "orc":
            orc.write_table(rows, tmp_path / "f", stripe_size=1, batch_size=1000)
        else:
            parquet.write_table(rows, tmp_path / "f", row_group_size=1000)
        (tmp_path / "f").replace(where / "f")

    write(1)
    session.sql(f"CREATE EXTERNAL TABLE e (id BIGINT, state BIGINT) STORED AS {format} LOCATION 'outside'")
    batches = session.to_batches("e", threads=1)
    assert batches.read_next_batch()["state"].unique().to_pylist() == [1]
    write(2)
    with pytest.raises(StorageError, match=r"another program has changed it while default\.e was read"):
        batches.read_all()
    assert session.to_arrow("e", columns=["state"]).column(0).unique().to_pylist() == [2]


def test_what_only_spark_reads_is_refused(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE e (id INT) STORED AS CSV LOCATION 'e'")
    session.sql("CREATE TABLE t (id INT)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE VIEW v AS SELECT 1 AS id")
    for name in ("e", "v"):
        with pytest.raises(InvalidOperationError):
            session.to_arrow(name)
    with pytest.raises(NoSuchTableError):
        session.to_arrow("nowhere")
    for file in (tmp_path / "c1" / "default.db" / "t").rglob("bucket_*"):
        file.unlink()
    with pytest.raises(StorageError, match="deleted or added by other means"):
        session.to_arrow("t")
    assert session.sql("SHOW LOCKS").rows == []


def test_no_spark_is_imported(session: Session, table: str, metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[1]"}}
    program = (
        "import sys\nfrom airflow_hivex.core import Metastore\n"
        f"with Metastore.open({metastore_url!r}, clusters={clusters!r}, default_cluster='c1') as metastore,"
        " metastore.session(user='reader') as session:\n"
        "    print(session.to_arrow('t').num_rows, 'pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "False"]


KINDS = {
    "flat": "(id INT, v STRING) PARTITIONED BY (p INT)",
    "nested": "(id INT, v STRING) PARTITIONED BY (p INT) TBLPROPERTIES ('hivex.row.layout' = 'hive')",
    "plain": "(id INT, v STRING) PARTITIONED BY (p INT) STORED AS PARQUET"
    " TBLPROPERTIES ('transactional_properties' = 'insert_only')",
    "original": "",
}


@pytest.mark.spark
@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("kind", KINDS)
def test_deletes_layouts_and_original_files_are_read_as_spark_reads_them(
    session: Session, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "original":
        convert_files(session, tmp_path / "c1" / "t")
    else:
        session.sql(f"CREATE TABLE t {KINDS[kind]}")
        session.sql("INSERT INTO t SELECT id, concat('v', id), id % 3 FROM range(60)")
    if kind != "plain":
        session.sql("DELETE FROM t WHERE id % 10 = 3")
        session.sql("UPDATE t SET v = 'new' WHERE id % 10 = 4 AND p < 2")
    if kind == "nested":
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'flat')")
        session.sql("INSERT INTO t VALUES (1000, 'flat', 2)")
    expected = sorted(session.sql("SELECT * FROM t WHERE p > 0").rows)
    assert len(expected) > 20
    for values in (scanning.VALUES, 1):
        monkeypatch.setattr(scanning, "VALUES", values)
        found = session.to_arrow("t", filter="p > 0")
        assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected
        assert session.to_arrow("t", columns=[], filter="p > 0").num_rows == len(expected)


def convert_files(session: Session, where: Path) -> None:
    for p in range(3):
        (where / f"p={p}").mkdir(parents=True)
        for part in range(2):
            ids = pa.array(range(10 * p + 100 * part, 10 * p + 100 * part + 10), pa.int32())
            orc.write_table(pa.table({"id": ids, "v": ids.cast(pa.string())}), where / f"p={p}" / f"00000{part}_0")
        (where / f"p={p}" / "000002_0").touch()
        # As a pattern, its name would mean another file.
        orc.write_table(pa.table({"id": pa.array([200 + p], pa.int32()), "v": ["x"]}), where / f"p={p}" / "00000[01]_0")
    session.sql("CREATE EXTERNAL TABLE t (id INT, v STRING) PARTITIONED BY (p INT) LOCATION 't'")
    session.sql("ALTER TABLE t ADD PARTITION (p=0) PARTITION (p=1) PARTITION (p=2)")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')")
