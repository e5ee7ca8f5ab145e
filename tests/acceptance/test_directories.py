"""INSERT OVERWRITE DIRECTORY: rows as files of a folder that belongs to no table."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError, LocationOutsideClusterError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def contents(folder: Path) -> list[str]:
    """Return the texts of all files in a folder but those of Hadoop's sums, hidden ones among them."""
    return sorted(each.read_text() for each in folder.rglob("*") if each.is_file() and each.suffix != ".crc")


def test_rows_of_a_query_become_the_files_of_a_directory(session: Session, tmp_path: Path) -> None:
    root = tmp_path / "c1"
    session.sql("CREATE TABLE t (id int, v string, d date) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a,b', DATE'1500-01-01', 1), (2, NULL, NULL, 2)")
    session.sql("INSERT OVERWRITE DIRECTORY 'out' SELECT * FROM t ORDER BY id")
    assert contents(root / "out") == ["1\x01a,b\x011500-01-01\x011\n2\x01\\N\x01\\N\x012\n"]
    # Files of Hive's text have no names of columns.
    session.sql("INSERT OVERWRITE DIRECTORY 'out' SELECT count(*), max(id) + 1, max(id) + 1 FROM t")
    assert contents(root / "out") == ["2\x013\x013\n"]
    delimited = r"ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\' NULL DEFINED AS 'none'"
    query = "SELECT v, id FROM t ORDER BY id"
    assert session.sql(f"INSERT OVERWRITE LOCAL DIRECTORY '{root}/out' {delimited} {query}").rows_written == 2
    assert contents(root / "out") == ["a\\,b,1\nnone,2\n"]
    session.sql(f"CREATE EXTERNAL TABLE e (v string, id int) {delimited} LOCATION 'out'")
    assert session.sql("SELECT * FROM e ORDER BY id").rows == [("a,b", 1), (None, 2)]
    session.sql("INSERT OVERWRITE DIRECTORY USING json OPTIONS (path 'json') SELECT id, v FROM t WHERE p = 1")
    assert contents(root / "json") == ['{"id":1,"v":"a,b"}\n']
    # A query that fails leaves the files, and one without rows leaves none.
    with pytest.raises(JobError, match="Nothing was written to json"):
        session.sql("INSERT OVERWRITE DIRECTORY 'json' USING json SELECT 1 / (id - 1) AS x FROM t")
    assert contents(root / "json") == ['{"id":1,"v":"a,b"}\n']
    session.sql("INSERT OVERWRITE DIRECTORY 'json' USING json SELECT id FROM t WHERE id > 5")
    assert contents(root / "json") == []
    with pytest.raises(JobError):
        session.sql("INSERT OVERWRITE DIRECTORY 'never' SELECT 1 / (id - 1) AS x FROM t")
    assert not (root / "never").exists()
    assert session.sql("EXPLAIN ROUTE INSERT OVERWRITE DIRECTORY 'out' SELECT * FROM t").rows[0][:2] == ("c1", True)
    assert "t" in session.sql("EXPLAIN INSERT OVERWRITE DIRECTORY 'out' SELECT * FROM t").rows[0][0]


def test_directories_that_are_not_apart_from_others_are_refused(
    session: Session, metastore: Metastore, tmp_path: Path
) -> None:
    root = tmp_path / "c1"
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE EXTERNAL TABLE e (id int) STORED AS ORC LOCATION 'files/e'")
    (root / "link").symlink_to(root / "default.db" / "t")
    (root / "out").symlink_to(tmp_path)
    (root / "file").write_text("")
    before = sorted(root.rglob("*"))
    for path, reason in {
        "default.db/t": "table default.t",
        "default.db": "table default.t",
        "default.db/other": "database default",
        "files": "table default.e",
        "files/e/below": "table default.e",
        "link": "table default.t",
        "out/below": "out of the root",
        "file": "is a file",
        "": "no folder of its own",
    }.items():
        with pytest.raises(InvalidOperationError, match=f"INSERT OVERWRITE DIRECTORY on .*{reason}"):
            session.sql(f"INSERT OVERWRITE DIRECTORY '{path}' SELECT id FROM t")
    for path in ("/elsewhere", "/", "a/../.."):
        with pytest.raises(LocationOutsideClusterError):
            session.sql(f"INSERT OVERWRITE DIRECTORY '{path}' SELECT id FROM t")
    with pytest.raises(InvalidObjectError, match="twice"):
        session.sql("INSERT OVERWRITE DIRECTORY 'new' USING json SELECT 1 AS x, 2 AS X")
    # Spark would write no rows, and report no error.
    with pytest.raises(InvalidOperationError, match="control character"):
        session.sql(r"INSERT OVERWRITE DIRECTORY 'new\nline' SELECT 1 AS x")
    with pytest.raises(InvalidOperationError, match="sequencefile"):
        session.sql("INSERT OVERWRITE DIRECTORY 'new' STORED AS SEQUENCEFILE SELECT 1 AS x")
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="on its own"):
        session.sql("INSERT OVERWRITE DIRECTORY 'new' SELECT 1 AS x")
    session.sql("ROLLBACK")
    assert sorted(root.rglob("*")) == before
    assert metastore.locks.show() == []
