"""COPY INTO: how the contents of files become rows of a table."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hivex.core import Session
from airflow_hivex.core.errors import AnalysisError, InvalidOperationError, JobError, StatementSyntaxError
from tests.acceptance.test_copy_into import CSV, put, rows, t

__all__ = ["t"]

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def test_keys_of_json_are_read_in_every_case(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "a.json", '{"ID": 1, "V": "up"}\n{"id": 2, "v": "low"}\n')
    put(raw / "b.json", '{"Id": 3}\n')
    load = "COPY INTO t FROM 'raw' FILEFORMAT = JSON"
    assert t.sql(load).rows_written == 3
    again = "COPY_OPTIONS ('force' = 'true')"
    t.sql(f"COPY INTO t FROM (SELECT id + 10 AS id, v FROM 'raw' WHERE id < 3) FILEFORMAT = JSON {again}")
    expected = [(1, "up"), (2, "low"), (3, None), (11, "up"), (12, "low")]
    assert rows(t, "SELECT * FROM t ORDER BY id") == expected
    put(raw / "c.json", '{"ID": 4}\n{"id": "x"}\n')
    assert [row[:2] for row in t.sql(f"{load} VALIDATE").rows] == [("raw/c.json", 2)]
    t.sql("CREATE TABLE rejects (file string, column_name string, reason string, record string)")
    done = t.sql(f"{load} ON_ERROR = CONTINUE REJECTS INTO rejects")
    assert done.rows[0][-2:] == (1, 1)


def test_quotes_within_quotes_are_written_twice(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", 'id,v\n1,"say ""hi"""\n2,"a\\b"\nx,"c"\n')
    t.sql("CREATE TABLE rejects (file string, column_name string, reason string, record string)")
    t.sql(f"{CSV} ON_ERROR = CONTINUE REJECTS INTO rejects")
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(1, 'say "hi"'), (2, "a\\b")]
    put(tmp_path / "c1" / "raw" / "b.csv", 'id,v\n3,"say \\"hi\\""\n')
    t.sql(CSV.replace("'header'", "'escape' = '\\\\', 'header'"))
    assert rows(t, "SELECT v FROM t WHERE id = 3") == [('say "hi"',)]


def test_folders_give_the_values_that_files_lack(session: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "day=2024-05-05" / "Place=a%3Ab+c d" / "1.csv", "id\n1\n")
    put(raw / "day=2024-05-06" / "place=x" / "1.csv", "id\n2\n")
    put(raw / "day=2024-05-07" / "1.json", '{"id": 3, "place": "own"}\n')
    session.sql("CREATE TABLE t (id bigint, place string) PARTITIONED BY (day date)")
    session.sql(f"{CSV} PATTERN = '**/*.csv'")
    session.sql("COPY INTO t FROM 'raw' FILEFORMAT = JSON PATTERN = '**/*.json'")
    expected = [(1, "a:b+c d", date(2024, 5, 5)), (2, "x", date(2024, 5, 6)), (3, "own", date(2024, 5, 7))]
    assert rows(session, "SELECT * FROM t ORDER BY id") == expected
    put(raw / "day=2024-05-08" / "1.csv", "id,place,more\n4,y,z\n")
    session.sql(f"{CSV} PATTERN = '*8/*.csv' COPY_OPTIONS ('mergeSchema' = 'true')")
    assert rows(session, "SELECT day, more FROM t WHERE id = 4") == [(date(2024, 5, 8), "z")]
    put(raw / "day=2024-05-09" / "1.csv", "5\n")
    session.sql(
        "COPY INTO t FROM (SELECT CAST(_c0 AS bigint) AS id, CAST(day AS date) AS day FROM 'raw') FILEFORMAT = CSV "
        "PATTERN = '*9/*.csv'"
    )
    assert rows(session, "SELECT day FROM t WHERE id = 5") == [(date(2024, 5, 9),)]


@pytest.mark.parametrize("format", ["CSV", "JSON", "PARQUET", "ORC", "TEXT"])
def test_empty_files_wait_for_their_content(t: Session, tmp_path: Path, format: str) -> None:
    put(tmp_path / "c1" / "raw" / "a", "")
    load = CSV.replace("= CSV", f"= {format}")
    assert t.sql(load).rows == [(0, 1, 0, 0, 0, 0)]
    assert t.sql(f"{load} COPY_OPTIONS ('force' = 'true')").rows == [(0, 1, 0, 0, 0, 0)]
    if format == "CSV":
        put(tmp_path / "c1" / "raw" / "a", "id,v\n1,a\n")
        assert t.sql(load).rows_written == 1


def test_options_that_leave_out_files_or_rows_are_refused(t: Session) -> None:
    for option, instead in (
        ("pathGlobFilter", "PATTERN and FILES"),
        ("MODIFIEDBEFORE", "PATTERN and FILES"),
        ("ignoreCorruptFiles", "FILES or PATTERN"),
        ("mode", "ON_ERROR = CONTINUE"),
        ("basePath", "the path after FROM"),
        ("force", "COPY_OPTIONS"),
    ):
        for form in (CSV, CSV.replace("'raw'", "(SELECT * FROM 'raw')").replace("CSV", "PARQUET")):
            with pytest.raises(StatementSyntaxError, match=f"FORMAT_OPTIONS cannot have {option}: .*{instead}"):
                t.sql(form.replace("'header'", f"'{option}' = 'x', 'header'"))


def test_fields_in_columns_of_json_are_read_in_every_case(session: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.json", '{"S": {"B": [{"C": 2}], "a": 1}}\n')
    session.sql("CREATE TABLE t (s struct<a: int, b: array<struct<c: bigint>>>)")
    session.sql("COPY INTO t FROM 'raw' FILEFORMAT = JSON")
    assert rows(session, "SELECT s.a, s.b[0].c FROM t") == [(1, 2)]
    put(tmp_path / "c1" / "raw" / "a2.json", '{"s": {"A": 3}}\n')
    session.sql("COPY INTO t FROM 'raw' FILEFORMAT = JSON COPY_OPTIONS ('force' = 'true')")
    assert rows(session, "SELECT s.a FROM t ORDER BY s.a") == [(1,), (1,), (3,)]
    put(tmp_path / "c1" / "raw" / "b.json", '{"S": {"A": 1}}\n{"s": {"a": 1, "A": 2}}\n')
    with pytest.raises(AnalysisError, match="that differ only in case: A and a"):
        session.sql("COPY INTO t FROM 'raw' FILEFORMAT = JSON")


def test_headers_that_cannot_be_read_are_named(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    put(raw / "a.csv", "id,v\n1,a\n")
    for header, said in (("id,w", "has the columns id, w, and not id, v"), ("id", "has 1 columns, and not 2")):
        put(raw / "b.csv", f"{header}\n")
        with pytest.raises(JobError, match=rf"the header of the file \S+raw/b\.csv {said}"):
            t.sql(CSV)
    put(raw / "twice" / "a.csv", "id,v,ID\n1,a,1\n")
    with pytest.raises(AnalysisError, match=r"twice/a\.csv has the column id twice"):
        t.sql(CSV.replace("'raw'", "'raw/twice'"))


def test_types_of_parquet_files_are_widened(t: Session, tmp_path: Path) -> None:
    raw = tmp_path / "c1" / "raw"
    raw.mkdir(parents=True)
    for number, wanted in ((1, pa.int32()), (2, pa.int64())):
        parquet.write_table(pa.table({"ID": pa.array([number], wanted)}), str(raw / f"{number}.parquet"))
    load = "COPY INTO t FROM 'raw' FILEFORMAT = PARQUET"
    t.sql(load)
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(1, None), (2, None)]
    parquet.write_table(pa.table({"id": ["x"]}), str(raw / "3.parquet"))
    with pytest.raises(JobError, match=r"3\.parquet.*\[id\]"):
        t.sql(f"{load} COPY_OPTIONS ('force' = 'true')")


def test_a_transaction_loads_a_file_once(t: Session, tmp_path: Path) -> None:
    put(tmp_path / "c1" / "raw" / "a.csv", "id,v\n1,a\n")
    t.sql("START TRANSACTION")
    t.sql(CSV)
    with pytest.raises(InvalidOperationError, match=r"a\.csv.* has loaded it already"):
        t.sql(f"{CSV} COPY_OPTIONS ('force' = 'true')")
    t.sql("ROLLBACK")
