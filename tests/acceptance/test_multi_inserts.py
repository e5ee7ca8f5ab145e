"""FROM source INSERT ... INSERT ...: what each table gets, what is read once, and that all or nothing counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidOperationError, JobError, TypeMismatchError
from tests.acceptance.test_row_changes import directories

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, table: str) -> list[tuple[object, ...]]:
    return session.sql(f"SELECT * FROM {table} ORDER BY ALL").rows


@pytest.fixture
def s(session: Session) -> Session:
    """``s`` with five rows, and empty tables ``a`` and (partitioned by ``p``) ``b``."""
    session.sql("CREATE TABLE s (id int, v string)")
    session.sql("INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'a'), (5, NULL)")
    session.sql("CREATE TABLE a (id int, v string)")
    session.sql("CREATE TABLE b (id bigint, n int) PARTITIONED BY (p string)")
    return session


def test_each_table_gets_its_rows_in_one_transaction(s: Session, tmp_path: Path) -> None:
    s.sql("INSERT INTO a VALUES (0, 'old')")
    s.sql("INSERT INTO b VALUES (0, 0, 'x'), (0, 0, 'y')")
    done = s.sql(
        "FROM s INSERT INTO a SELECT id, v WHERE id < :limit "
        "INSERT OVERWRITE TABLE b PARTITION (p = 'x') SELECT max(id), count(*) GROUP BY v HAVING v IS NOT NULL "
        "INSERT INTO b PARTITION (p = 'z') (id) SELECT id",
        {"limit": 3},
    )
    assert (done.rows_written, done.cluster) == (10, "c1")
    assert rows(s, "a") == [(0, "old"), (1, "a"), (2, "b")]
    assert s.sql("SELECT p, id, n FROM b ORDER BY ALL").rows == [
        ("x", 2, 1),
        ("x", 3, 1),
        ("x", 4, 2),
        ("y", 0, 0),
        *(("z", number, None) for number in range(1, 6)),
    ]
    assert directories(tmp_path, "b") == [
        "p=x/base_0000003",
        "p=x/delta_0000002_0000002_0000",
        "p=y/delta_0000002_0000002_0000",
        "p=z/delta_0000003_0000003_0002",
    ]


def test_two_inserts_may_add_to_one_table(s: Session) -> None:
    s.sql("FROM s INSERT INTO a SELECT id, 'first' WHERE id = 1 INSERT INTO a SELECT id, 'second' WHERE id < 3")
    assert rows(s, "a") == [(1, "first"), (1, "second"), (2, "second")]
    assert s.sql("DELETE FROM a WHERE v = 'second' AND id = 1").rows_deleted == 1
    assert rows(s, "a") == [(1, "first"), (2, "second")]


@pytest.mark.parametrize(
    "beginning",
    [
        "FROM (SELECT id, rand() r FROM s CROSS JOIN range(200) n(i)) q",
        "WITH q AS (SELECT id, rand() r FROM s CROSS JOIN range(200) n(i)) FROM q",
    ],
)
def test_a_source_is_computed_once(s: Session, beginning: str) -> None:
    s.sql(f"{beginning} INSERT INTO a SELECT q.id, 'low' WHERE r < 0.5 INSERT INTO a SELECT id, 'high' WHERE r >= 0.5")
    assert s.sql("SELECT id, count(*) FROM a GROUP BY id ORDER BY id").rows == [(n, 200) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ("INSERT INTO b PARTITION (p = 'x') SELECT 1 / (id - 3), 1", JobError),
        ("INSERT INTO b SELECT v, 1, 'x'", TypeMismatchError),
    ],
)
def test_a_failure_of_one_leaves_all_as_they_were(
    s: Session, tmp_path: Path, last: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        s.sql(f"FROM s INSERT OVERWRITE TABLE a SELECT id, v {last}")
    assert rows(s, "a") == rows(s, "b") == []
    assert directories(tmp_path, "a") == directories(tmp_path, "b") == []
    assert s.sql("SHOW LOCKS").rows == []


@pytest.mark.parametrize(
    "inserts",
    [
        "INSERT INTO a SELECT id, v INSERT OVERWRITE TABLE a SELECT id, v",
        "INSERT OVERWRITE TABLE b PARTITION (p = 'x') SELECT id, 1 INSERT INTO b SELECT id, 1, v",
        "INSERT OVERWRITE TABLE b PARTITION (p = 'x') SELECT id, 1 INSERT OVERWRITE TABLE b PARTITION (p = 'x') "
        "SELECT id, 2",
    ],
)
def test_one_insert_cannot_hide_the_other(s: Session, inserts: str) -> None:
    with pytest.raises(InvalidOperationError, match="two of its INSERTs may write to the same partition"):
        s.sql(f"FROM s {inserts}")
    assert rows(s, "a") == rows(s, "b") == []


def test_it_is_part_of_a_transaction_and_reads_its_writes(s: Session, metastore: Metastore) -> None:
    with metastore.session(user="reader") as reader:
        s.sql("START TRANSACTION")
        s.sql("INSERT INTO s VALUES (6, 'own')")
        s.sql(
            "FROM s INSERT INTO a SELECT id, v WHERE id > 4 INSERT OVERWRITE TABLE b PARTITION (p = 'x') SELECT id, 1 "
            "WHERE id > 5 INSERT OVERWRITE TABLE b PARTITION (p = 'y') SELECT id, 2 WHERE id = 1"
        )
        assert rows(s, "a") == [(5, None), (6, "own")]
        assert rows(reader, "a") == []
        s.sql("COMMIT")
        assert rows(reader, "b") == [(1, 2, "y"), (6, 1, "x")]


def test_what_exists_is_left_out(s: Session) -> None:
    s.sql("INSERT INTO b VALUES (0, 0, 'x')")
    statement = (
        "FROM (SELECT id FROM s WHERE id = 1) q INSERT OVERWRITE TABLE b PARTITION (p = 'x') IF NOT EXISTS "
        "SELECT id, 1 INSERT OVERWRITE TABLE b PARTITION (p = 'y') IF NOT EXISTS SELECT id, 2"
    )
    assert s.sql(statement).rows_written == 1
    assert rows(s, "b") == [(0, 0, "x"), (1, 2, "y")]
    assert s.sql(statement).rows_written == 0
    assert s.sql("WITH q AS (SELECT 7 k) INSERT INTO a SELECT k, 'with' FROM q").rows_written == 1
    assert rows(s, "a") == [(7, "with")]


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO a VALUES (1, 'x')", "FROM s INSERT INTO a SELECT id, v", "DELETE FROM s", "TRUNCATE TABLE s"],
)
def test_nothing_is_written_in_a_transaction_for_reading(s: Session, statement: str) -> None:
    s.sql("START TRANSACTION READ ONLY")
    with pytest.raises(InvalidOperationError, match="it was started READ ONLY"):
        s.sql(statement)
    s.sql("COMMIT")
    assert (len(rows(s, "s")), rows(s, "a")) == (5, [])
