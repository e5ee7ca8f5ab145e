"""LOAD DATA: whose files, what becomes of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Session
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidOperationError,
    LocationOutsideClusterError,
    NoSuchTableError,
    StatementSyntaxError,
    TypeMismatchError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def write(path: Path, **columns: list[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: pa.array(values, pa.string() if values == [None] else None) for name, values in columns.items()}
    orc.write_table(pa.table(arrays), str(path))


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id bigint, v string)")
    session.sql("INSERT INTO t VALUES (0, 'old')")
    return session


def test_files_of_the_cluster_are_moved(t: Session, tmp_path: Path) -> None:
    folder = tmp_path / "c1" / "in, {coming}"
    write(folder / "a[1].orc", _col0=[1, 2], _col1=["a", "b"])
    write(folder / "b.orc", _col0=[3], _col1=[None])
    write(folder / "_hidden", _col0=[9], _col1=["hidden"])
    done = t.sql("LOAD DATA INPATH 'in, {coming}' INTO TABLE t")
    assert (done.rows_written, done.cluster) == (3, "c1")
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(0, "old"), (1, "a"), (2, "b"), (3, None)]
    assert [path.name for path in folder.iterdir()] == ["_hidden"]
    t.sql("UPDATE t SET v = 'loaded' WHERE id = 3")
    assert rows(t, "SELECT v FROM t WHERE id = 3") == [("loaded",)]


def test_files_of_this_machine_are_copied(t: Session, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "x.orc"
    write(file, k=[7], w=["seven"])
    t.sql(f"LOAD DATA LOCAL INPATH '{file}' OVERWRITE INTO TABLE t")
    assert rows(t, "SELECT * FROM t") == [(7, "seven")]
    t.sql(f"LOAD DATA LOCAL INPATH '{file.parent}' INTO TABLE t")
    assert rows(t, "SELECT * FROM t") == [(7, "seven"), (7, "seven")]


def test_partitions_are_named_or_stand_in_the_rows(t: Session, tmp_path: Path) -> None:
    t.sql("CREATE TABLE p (id bigint) PARTITIONED BY (ds string, hr int) CLUSTERED BY (id) INTO 2 BUCKETS")
    write(tmp_path / "c1" / "one" / "f", id=[1, 2])
    write(tmp_path / "c1" / "two" / "f", id=[3, 4], hr=[5, 6])
    write(tmp_path / "c1" / "three" / "f", id=[7], ds=["y"], hr=[8])
    t.sql("LOAD DATA INPATH 'one' INTO TABLE p PARTITION (ds = 'x', hr = 1)")
    t.sql("LOAD DATA INPATH 'two' INTO TABLE p PARTITION (ds = 'x')")
    t.sql("LOAD DATA INPATH 'three' INTO TABLE p")
    assert rows(t, "SELECT ds, hr, id FROM p ORDER BY ALL") == [
        ("x", 1, 1),
        ("x", 1, 2),
        ("x", 5, 3),
        ("x", 6, 4),
        ("y", 8, 7),
    ]


def test_a_transaction_may_be_rolled_back(t: Session, tmp_path: Path) -> None:
    file = tmp_path / "c1" / "in" / "f"
    write(file, id=[1], v=["a"])
    t.sql("START TRANSACTION")
    t.sql("LOAD DATA INPATH 'in' INTO TABLE t")
    assert len(rows(t, "SELECT * FROM t")) == 2
    t.sql("ROLLBACK")
    assert rows(t, "SELECT * FROM t") == [(0, "old")]
    assert file.exists()


@pytest.mark.parametrize(
    ("statement", "error", "reason"),
    [
        ("LOAD DATA INPATH 'nothing' INTO TABLE t", InvalidOperationError, "no files in nothing"),
        ("LOAD DATA INPATH 'deep' INTO TABLE t", InvalidOperationError, "subdirectories"),
        ("LOAD DATA INPATH 'default.db/t' INTO TABLE t", InvalidOperationError, r"belongs to table default\.t"),
        ("LOAD DATA INPATH 'default.db' INTO TABLE t", InvalidOperationError, r"belongs to table default\.t"),
        ("LOAD DATA INPATH '/etc' INTO TABLE t", LocationOutsideClusterError, "c1"),
        ("LOAD DATA INPATH '../x' INTO TABLE t", LocationOutsideClusterError, "c1"),
        ("LOAD DATA INPATH 'deep/er' INTO TABLE t", ColumnCountMismatchError, "2"),
        ("LOAD DATA INPATH 'types' INTO TABLE t", TypeMismatchError, "id"),
        ("LOAD DATA INPATH 'text' INTO TABLE t", InvalidOperationError, "text holds files that are not ORC"),
        ("LOAD DATA INPATH 'types' INTO TABLE nowhere", NoSuchTableError, "nowhere"),
        ("LOAD DATA INPATH 'types' INTO TABLE w", InvalidOperationError, "it is a view"),
        ("LOAD DATA INTO TABLE t", StatementSyntaxError, "INPATH"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    t: Session, tmp_path: Path, statement: str, error: type[Exception], reason: str
) -> None:
    t.sql("CREATE VIEW w AS SELECT * FROM t")
    write(tmp_path / "c1" / "deep" / "er" / "f", id=[1])
    write(tmp_path / "c1" / "types" / "f", id=["text"], v=["text"])
    text = tmp_path / "c1" / "text" / "f"
    text.parent.mkdir()
    text.write_text("id,v\n1,a\n")
    with pytest.raises(error, match=reason):
        t.sql(statement)
    assert rows(t, "SELECT * FROM t") == [(0, "old")]
    assert text.exists()
    assert rows(t, "SHOW LOCKS") == []
