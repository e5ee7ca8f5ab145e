"""COPY INTO: which files a table loads, what is remembered of them, and what is refused."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    JobError,
    LocationOutsideClusterError,
    NoSuchColumnError,
    UnfitRowError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CSV = "COPY INTO t FROM 'raw' FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id bigint, v string)")
    return session


def test_each_file_is_loaded_once(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "a.csv", "id,v\n1,a\n")
    put(raw / "day=1" / "b.csv", "V,id\nb,2\n")
    done = t.sql(CSV.replace("'raw'", "'raw/a.csv'"))
    assert done.rows == [(1, 0, 0, 9, 1, 0)]
    done = t.sql(CSV)
    assert dict(zip(done.columns, done.rows[0], strict=True)) == {
        "files_loaded": 1,
        "files_skipped": 1,
        "files_changed": 0,
        "bytes_loaded": 9,
        "rows_loaded": 1,
        "rows_rejected": 0,
    }
    assert t.sql(CSV).rows == [(0, 2, 0, 0, 0, 0)]
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    assert [row[0] for row in rows(t, "SHOW COPY HISTORY t")] == ["raw/day=1/b.csv", "raw/a.csv"]


def test_only_options_load_a_file_again(t: Session, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        put(tmp_path / "c1" / "raw" / name, f"id,v\n1,{name}\n")
    t.sql(CSV)
    # A touched file has not changed.
    (tmp_path / "c1" / "raw" / "a").touch()
    put(tmp_path / "c1" / "raw" / "b", "id,v\n2,new\n")
    assert t.sql(CSV).rows == [(0, 3, 1, 0, 0, 0)]
    assert t.sql(f"{CSV} COPY_OPTIONS ('allowOverwrites' = 'true')").rows == [(1, 2, 0, 11, 1, 0)]
    assert t.sql(f"{CSV} PATTERN = '[ac]' COPY_OPTIONS ('force' = 'true')").rows == [(2, 0, 0, 18, 2, 0)]
    assert len(rows(t, "SHOW COPY HISTORY t")) == 3


def test_a_transaction_remembers_its_own_files_until_it_ends(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "id,v\n1,a\n")
    t.sql("START TRANSACTION")
    assert t.sql(CSV).rows_written == 1
    assert t.sql(CSV).rows == [(0, 1, 0, 0, 0, 0)]
    assert rows(t, "SHOW COPY HISTORY t") == []
    t.sql("ROLLBACK")
    t.sql("START TRANSACTION")
    t.sql("INSERT INTO t VALUES (0, 'before')")
    t.sql(CSV)
    t.sql("COMMIT")
    assert t.sql(CSV).rows == [(0, 1, 0, 0, 0, 0)]
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(0, "before"), (1, "a")]
    # The files belong to the table, not to its name.
    t.sql("CREATE DATABASE other")
    t.sql("ALTER TABLE t RENAME TO other.t")
    assert [row[0] for row in rows(t, "SHOW COPY HISTORY other.t")] == ["raw/a.csv"]
    t.sql("DROP TABLE other.t PURGE")
    t.sql("CREATE TABLE t (id bigint, v string)")
    assert rows(t, "SHOW COPY HISTORY t") == []


def test_a_load_waits_for_another_one(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / "c1" / "raw" / f"{number}.csv", f"id,v\n{number},x\n")

    def load() -> int | None:
        with metastore.session() as session:
            return session.sql(CSV).rows_written

    with ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(load) for _ in range(3)]
        assert sorted(each.result() or 0 for each in loads) == [0, 0, 4]
    assert rows(t, "SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]


class KilledError(BaseException):
    """Stands for the death of a process: nothing of the statement goes on."""


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("point", ["while writing", "before commit", "after commit"])
def test_a_killed_load_leaves_nothing_or_all(
    metastore: Metastore,
    t: Session,
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
    tmp_path: Path,
    point: str,
) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "id,v\n1,a\n")

    reached = []

    def at(there: str) -> None:
        reached.append(there)
        if there == point and "while writing" in reached:
            raise KilledError

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=at) as dying,
        dying.session() as killed,
        pytest.raises(KilledError),
    ):
        killed.sql(CSV)
    for row in rows(t, "SHOW TRANSACTIONS"):
        t.sql(f"ABORT TRANSACTIONS {row[0]}")
    assert t.sql(CSV).rows_written == (0 if point == "after commit" else 1)
    assert rows(t, "SELECT * FROM t") == [(1, "a")]


def test_a_query_reads_the_files(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "7;seven\n8;eight\n")
    t.sql("CREATE TABLE known (id bigint)")
    t.sql("INSERT INTO known VALUES (7)")
    t.sql(
        "COPY INTO t (v, id) FROM (SELECT upper(f._c1), CAST(_c0 AS bigint) FROM 'raw' f "
        "WHERE EXISTS (SELECT 1 FROM known k WHERE k.id = _c0)) FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = ';')"
    )
    assert rows(t, "SELECT * FROM t") == [(7, "SEVEN")]


def test_files_of_each_format_are_read_by_name(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "j" / "a.json", '{"V": "json", "id": 1}\n')
    put(raw / "x" / "a.txt", "one line\n")
    put(raw / "c" / "a.csv", "2,csv\n")
    rows_of_file = pa.table({"v": ["file"], "ID": pa.array([3], pa.int32())})
    parquet.write_table(rows_of_file, str(raw / "p"))
    orc.write_table(rows_of_file, str(raw / "o"))
    for path, name in (("j", "JSON"), ("c", "CSV"), ("p", "PARQUET"), ("o", "ORC")):
        assert t.sql(f"COPY INTO t FROM 'raw/{path}' FILEFORMAT = {name}").rows_written == 1
    t.sql("COPY INTO t (v) FROM 'raw/x' FILEFORMAT = TEXT")
    found = [(1, "json"), (2, "csv"), (3, "file"), (3, "file"), (None, "one line")]
    assert rows(t, "SELECT * FROM t ORDER BY id NULLS LAST") == found
    put(raw / "j" / "b.json", '{"id": 1, "extra": 2}\n')
    with pytest.raises(NoSuchColumnError, match="extra"):
        t.sql("COPY INTO t FROM 'raw/j' FILEFORMAT = JSON")
    # Files with other headers are not read by the header of the first one.
    put(raw / "h" / "a.csv", "id,v\n1,a\n")
    put(raw / "h" / "b.csv", "v,id\na,1\n")
    with pytest.raises(JobError, match=r"b\.csv"):
        t.sql("COPY INTO t FROM 'raw/h' FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')")


def test_what_may_not_be_read_is_refused(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "id,v\n1,a\n")
    put(tmp_path / "elsewhere" / "a.csv", "id,v\n1,a\n")
    (tmp_path / "c1" / "raw" / "link").symlink_to(tmp_path / "elsewhere")
    t.sql("CREATE EXTERNAL TABLE e (v string) STORED AS TEXTFILE LOCATION 'landed'")
    t.sql("CREATE DATABASE own WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    put(tmp_path / "c1" / "own.db" / "in" / "a.csv", "id,v\n1,a\n")
    for path, reason in (
        ("raw/none", "there is no file or folder"),
        ("raw", "by symbolic links"),
        ("landed", "belongs to table default.e"),
        ("own.db/in", "database own"),
    ):
        with pytest.raises(InvalidOperationError, match=reason):
            t.sql(CSV.replace("'raw'", f"'{path}'"))
    with pytest.raises(InvalidOperationError, match=r"FILES names b\.csv"):
        t.sql(f"{CSV} FILES = ('a.csv', 'b.csv')")
    with pytest.raises(LocationOutsideClusterError):
        t.sql(CSV.replace("'raw'", f"'{tmp_path}/elsewhere'"))
    assert t.sql(f"{CSV} FILES = ('a.csv')").rows_written == 1
    assert rows(t, f"EXPLAIN ROUTE {CSV}")[0][:2] == ("c1", True)


def test_columns_of_files_are_added(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "ID,price,day\n1,2.5,2024-01-31\n")
    merged = f"{CSV} COPY_OPTIONS ('mergeSchema' = 'true')"
    assert t.sql(merged).rows_written == 1
    put(tmp_path / "c1" / "raw" / "b.csv", "v,id\nb,2\n")
    t.sql(merged)
    assert rows(t, "SELECT * FROM t ORDER BY id") == [
        (1, None, 2.5, date(2024, 1, 31)),
        (2, "b", None, None),
    ]


REJECTS = "CREATE TABLE rejects (file string, column_name string, reason string, record string)"


def test_rows_that_do_not_fit_are_an_error_or_go_to_a_table(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "good.csv", "id,v\n0,zero\n")
    raw.joinpath("a b.csv.gz").write_bytes(gzip.compress(b"id,v\n1,a\nx,b\n2\n3,c,d\n4,e\n"))
    with pytest.raises(UnfitRowError) as error:
        t.sql(CSV)
    assert "raw/a b.csv.gz, line 3, column id: 'x' is not a valid bigint. Nothing was loaded" in str(error.value)
    expected = [
        ("raw/a b.csv.gz", 3, "id", "'x' is not a valid bigint", "x,b"),
        ("raw/a b.csv.gz", 4, None, "the row has fewer than 2 fields", "2"),
        ("raw/a b.csv.gz", 5, None, "the row has more than 2 fields", "3,c,d"),
    ]
    assert t.sql(CSV.replace("FORMAT_O", "VALIDATE FORMAT_O")).rows == expected
    assert t.sql(CSV.replace("FORMAT_O", "VALIDATE 1 ROWS FORMAT_O")).rows == expected[:1]
    assert rows(t, "SELECT * FROM t") == rows(t, "SHOW COPY HISTORY t") == []
    t.sql(REJECTS)
    done = t.sql(f"{CSV} ON_ERROR = CONTINUE REJECTS INTO rejects")
    assert (done.rows, done.rows_written) == ([(2, 0, 0, done.rows[0][3], 3, 3)], 3)
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(0, "zero"), (1, "a"), (4, "e")]
    found = rows(t, "SELECT column_name, reason, record FROM rejects ORDER BY record DESC")
    assert found == [row[2:] for row in expected if row[4] == "x,b"] + [expected[2][2:], expected[1][2:]]
    assert t.sql(f"{CSV} ON_ERROR = CONTINUE REJECTS INTO rejects").rows == [(0, 2, 0, 0, 0, 0)]


GERMAN = 'Nr;Größe;Preis\r\n1;größer;1.234,56\r\n2;"ein;Wort";0,5\r\n'


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize(
    ("encoding", "option"), [("cp1252", "windows-1252"), ("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16")]
)
def test_files_of_excel_are_read(session: Session, tmp_path: Path, encoding: str, option: str) -> None:
    path = tmp_path / "c1" / "raw" / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(GERMAN.encode(encoding))
    session.sql("CREATE TABLE t (nr int, `größe` string, preis double)")
    session.sql(
        "COPY INTO t FROM 'raw' FILEFORMAT = CSV "
        f"FORMAT_OPTIONS ('header' = 'true', 'sep' = ';', 'encoding' = '{option}', 'locale' = 'de-DE')"
    )
    assert rows(session, "SELECT * FROM t ORDER BY nr") == [(1, "größer", 1234.56), (2, "ein;Wort", 0.5)]
    path.with_name("b.csv").write_bytes((GERMAN + "3;drei;drei\r\n").encode(encoding))
    with pytest.raises(UnfitRowError, match=r"b\.csv, line 4, column Preis: 'drei' is not a valid double"):
        session.sql(
            "COPY INTO t FROM 'raw' FILEFORMAT = CSV "
            f"FORMAT_OPTIONS ('header' = 'true', 'sep' = ';', 'encoding' = '{option}', 'locale' = 'de-DE')"
        )


def test_lines_that_are_not_json_are_found(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.json", '{"id": 1, "v": "a"}\n{"id": "x"}\nnot json\n')
    found = t.sql("COPY INTO t FROM 'raw' FILEFORMAT = JSON VALIDATE ALL").rows
    assert [row[1:4] for row in found] == [
        (2, "id", "'x' is not a valid bigint"),
        (3, None, "the line is not a JSON object"),
    ]
