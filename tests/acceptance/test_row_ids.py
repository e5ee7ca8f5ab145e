"""ROW__ID, the virtual column of full ACID tables, wherever a query can name it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import AnalysisError, InvalidOperationError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

RowId = tuple[int, int, int]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def row_ids(session: Session, table: str = "t") -> dict[int, RowId]:
    """The row id of each id, none of them twice."""
    found = session.sql(f"SELECT id, ROW__ID FROM {table}")
    assert found.columns == ["id", "ROW__ID"]
    ids = {row[0]: (row[1]["writeid"], row[1]["bucketid"], row[1]["rowid"]) for row in found.rows}
    assert len(set(ids.values())) == len(found.rows) == len(ids)
    return ids


def stored(root: Path, table: str) -> set[RowId]:
    """All row ids that data files of a table on c1 have ever had."""
    found: set[RowId] = set()
    for file in (root / "c1" / "default.db" / table).glob("**/delta_*/bucket_*"):
        read = orc.ORCFile(file).read().to_pydict()
        found.update(zip(read["__original_write_id"], read["__bucket"], read["__row_id"], strict=True))
    return found


@pytest.fixture
def t(session: Session) -> Session:
    """``t`` with ten rows in two buckets of the partitions 0, 1 and 2."""
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql("INSERT INTO t SELECT id, concat('v', id), id % 3 FROM range(10)")
    return session


def test_ids_are_those_in_the_files_and_stay_as_long_as_their_rows(t: Session, tmp_path: Path) -> None:
    # A row id is unique in its partition: the same one stands in each of them.
    first = t.sql("SELECT p, id, ROW__ID, typeof(ROW__ID) AS type, ROW__ID.bucketid FROM t ORDER BY p, ROW__ID")
    assert first.columns == ["p", "id", "ROW__ID", "type", "bucketid"]
    assert {row[3] for row in first.rows} == {"struct<writeid:bigint,bucketid:int,rowid:bigint>"}
    before = {row[1]: (row[0], *row[2].values()) for row in first.rows}
    assert len(set(before.values())) == 10
    assert {row_id[1:] for row_id in before.values()} == stored(tmp_path, "t")
    assert [row_id[0] for row_id in before.values()] == sorted(row_id[0] for row_id in before.values())

    t.sql("UPDATE t SET v = 'new' WHERE id = 4")
    t.sql("DELETE FROM t WHERE id IN (1, 5)")
    t.sql("INSERT INTO t VALUES (10, 'v10', 1)")
    after = {row[1]: (row[0], *row[2].values()) for row in rows(t, "SELECT p, id, ROW__ID FROM t")}
    assert {key: row_id for key, row_id in after.items() if key not in (4, 10)} == {
        key: row_id for key, row_id in before.items() if key not in (1, 4, 5)
    }
    assert after[4] not in before.values()
    assert after[4][0] == before[4][0]
    assert {after[4][1], after[10][1]} == {before[4][1] + 1, before[4][1] + 3}
    # Conditions on a partition and on ids together.
    (where,) = rows(t, "SELECT ROW__ID.writeid, ROW__ID.rowid FROM t WHERE p = 2 AND id = 8")
    assert rows(t, f"SELECT id FROM t WHERE p = 2 AND ROW__ID.writeid = {where[0]} AND row__id.rowid = {where[1]}")


@pytest.mark.evidence(cases=1, among="row ids")
def test_rows_are_changed_by_their_ids(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, v string)")
    session.sql("CREATE TABLE s (id int, v string)")
    session.sql("INSERT INTO t SELECT id, 'old' FROM range(0, 6, 1, 1)")
    session.sql("INSERT INTO s SELECT id, 's' FROM range(4, 8, 1, 1)")
    ids = row_ids(session)
    deleted = session.sql("DELETE FROM t WHERE ROW__ID.rowid = :rowid", {"rowid": ids[3][2]})
    assert deleted.rows_deleted == 1
    assert row_ids(session) == {key: row_id for key, row_id in ids.items() if key != 3}
    session.sql("UPDATE t x SET v = concat('was ', x.ROW__ID.rowid) WHERE ROW__ID IN (SELECT min(ROW__ID) FROM t)")
    assert rows(session, "SELECT * FROM t WHERE v LIKE 'was%'") == [(0, f"was {ids[0][2]}")]
    # Duplicates but the first go: what row ids are for.
    session.sql("INSERT INTO t SELECT id, v FROM t WHERE id IN (1, 2)")
    session.sql("DELETE FROM t WHERE ROW__ID NOT IN (SELECT min(ROW__ID) FROM t GROUP BY id)")
    assert {key: row_id for key, row_id in row_ids(session).items() if key} == {key: ids[key] for key in (1, 2, 4, 5)}
    session.sql(
        "MERGE INTO t USING s ON t.id = s.id AND s.ROW__ID.rowid >= 0 WHEN MATCHED AND t.ROW__ID.rowid = 4 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.id = 6 THEN INSERT * "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, concat('row ', s.ROW__ID.rowid)) "
        "WHEN NOT MATCHED BY SOURCE AND t.ROW__ID.rowid = 2 THEN UPDATE SET v = t.ROW__ID.writeid"
    )
    assert rows(session, "SELECT * FROM t WHERE id > 0 ORDER BY id") == [
        (1, "old"),
        (2, str(ids[2][0])),
        (5, "s"),
        (6, "s"),
        (7, "row 3"),
    ]
    session.sql(
        "MERGE INTO t USING (SELECT *, ROW__ID AS rid FROM t WHERE id = 5) s ON t.ROW__ID = s.rid "
        "WHEN MATCHED THEN UPDATE SET v = 'itself'"
    )
    assert rows(session, "SELECT id FROM t WHERE v = 'itself'") == [(5,)]


@pytest.mark.evidence(cases=1, among="row ids")
def test_a_query_names_it_wherever_a_column_can_be_named(t: Session) -> None:
    t.sql("CREATE TABLE u (id int, w string)")
    assert rows(t, "SELECT *, ROW__ID FROM u") == []
    t.sql("INSERT INTO u SELECT id, 'w' FROM range(8, 12, 1, 1)")
    ids = row_ids(t, "u")
    first = ids[8][0]
    shown = t.sql("SELECT *, u.*, ROW__ID.rowid AS r FROM u ORDER BY ROW__ID DESC LIMIT 1")
    assert shown.columns == ["id", "w", "id", "w", "r"]
    assert shown.rows == [(11, "w", 11, "w", 3)]
    both = t.sql(
        "SELECT a.ROW__ID, b.ROW__ID.rowid, max(b.ROW__ID.rowid) FROM u a JOIN u b "
        "ON a.ROW__ID.rowid + 1 = b.ROW__ID.rowid GROUP BY 1, 2"
    )
    assert both.columns[:2] == ["ROW__ID", "rowid"]
    assert sorted((row[0]["rowid"], *row[1:]) for row in both.rows) == [(0, 1, 1), (1, 2, 2), (2, 3, 3)]
    natural = t.sql(
        "SELECT *, a.ROW__ID.rowid = b.ROW__ID.rowid AS same FROM u a NATURAL JOIN u b WHERE id > 9 ORDER BY id"
    )
    assert (natural.columns, natural.rows) == (["id", "w", "same"], [(10, "w", True), (11, "w", True)])
    assert rows(t, "SELECT * FROM t SEMI JOIN u ON t.id = u.id AND u.ROW__ID.rowid = 0 AND t.ROW__ID IS NOT NULL") == [
        (8, "v8", 2)
    ]
    assert rows(t, "SELECT count(*), count(DISTINCT u.*), max(ROW__ID.rowid) FROM u") == [(4, 4, 3)]
    assert rows(t, "WITH c AS (SELECT ROW__ID, * FROM u) SELECT c.* EXCEPT (w) FROM c WHERE c.row__id.rowid = 2") == [
        ({"writeid": first, "bucketid": ids[10][1], "rowid": 2}, 10)
    ]
    union = "SELECT ROW__ID.rowid, id FROM u UNION ALL SELECT t.row__id.writeid, id FROM t WHERE p = 9 ORDER BY rowid"
    assert [row[0] for row in rows(t, union)] == [0, 1, 2, 3]
    before = "(SELECT count(*) FROM u x WHERE x.ROW__ID.rowid < u.ROW__ID.rowid)"
    counted = f"SELECT {before} AS n, * FROM u ORDER BY ROW__ID.rowid"
    assert [row[0] for row in rows(t, counted)] == [0, 1, 2, 3]
    assert rows(t, "TABLE u ORDER BY ROW__ID.rowid DESC LIMIT 1") == [(11, "w")]
    assert rows(t, "SELECT ROW__ID.*, id FROM u WHERE id = 9") == [(*ids[9], 9)]
    assert rows(t, "SELECT DISTINCT ROW__ID.writeid FROM u ORDER BY writeid") == [(first,)]

    t.sql("CREATE TABLE copied AS SELECT ROW__ID AS rid, * FROM u")
    t.sql("INSERT INTO copied SELECT u.ROW__ID, * FROM u WHERE ROW__ID.rowid = 1")
    assert rows(t, "SELECT count(*), count_if(rid = u.ROW__ID) FROM copied JOIN u USING (id)") == [(5, 5)]
    t.sql("CREATE VIEW seen AS SELECT ROW__ID, id FROM u")
    assert rows(
        t, "SELECT v.ROW__ID, id, u.ROW__ID = v.ROW__ID FROM seen v JOIN u USING (id) WHERE v.ROW__ID.rowid = 1"
    ) == [({"writeid": first, "bucketid": ids[9][1], "rowid": 1}, 9, True)]
    t.sql("CREATE TABLE a (writeid bigint)")
    t.sql("CREATE TABLE b (id int, rowid bigint)")
    t.sql(
        "FROM (SELECT ROW__ID, id FROM u) x INSERT INTO a SELECT ROW__ID.writeid "
        "INSERT INTO b SELECT x.id, x.ROW__ID.rowid WHERE x.id < 10"
    )
    assert rows(t, "SELECT DISTINCT writeid FROM a") == [(first,)]
    assert rows(t, "SELECT * FROM b ORDER BY id") == [(8, 0), (9, 1)]
    assert rows(t, "EXPLAIN ROUTE DELETE FROM u WHERE ROW__ID.rowid = 1") == rows(t, "EXPLAIN ROUTE DELETE FROM u")


def test_tables_without_row_ids_are_named(t: Session, tmp_path: Path) -> None:
    (tmp_path / "c1" / "e").mkdir(parents=True)
    (tmp_path / "c1" / "e" / "e.csv").write_text("1,x\n2,y\n")
    t.sql("CREATE EXTERNAL TABLE e (id int, v string) STORED AS CSV LOCATION 'e'")
    t.sql("CREATE EXTERNAL TABLE own (id int, row__id string) STORED AS CSV LOCATION 'e'")
    t.sql("CREATE TABLE i (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    t.sql("CREATE VIEW seen AS SELECT id FROM t")
    for query, name in (
        ("SELECT ROW__ID FROM e", "default.e"),
        ("SELECT * FROM t WHERE id IN (SELECT i.ROW__ID.rowid FROM i)", "default.i"),
        ("SELECT ROW__ID.rowid FROM seen", "seen"),
        ("SELECT ROW__ID FROM t a JOIN t b ON a.id = b.id", r"default.t \(a\) and default.t \(b\)"),
        ("DELETE FROM i WHERE ROW__ID.rowid = 1", "default.i"),
        ("EXPLAIN ROUTE SELECT ROW__ID FROM e", "default.e"),
    ):
        with pytest.raises(InvalidOperationError, match=name):
            t.sql(query)
    with pytest.raises(AnalysisError, match="nothing"):
        t.sql("SELECT ROW__ID.nothing FROM t")
    assert rows(t, "SELECT *, row__id FROM own WHERE ROW__ID = 'x'") == [(1, "x", "x")]
    assert rows(t, "SELECT row__id, t.ROW__ID.rowid IS NULL FROM own JOIN t USING (id) ORDER BY ROW__ID") == [
        ("x", False),
        ("y", False),
    ]


def test_a_transaction_reads_and_deletes_its_own_rows_by_their_ids(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE TABLE u (id int)")
    t.sql("INSERT INTO u VALUES (1), (2)")
    committed = row_ids(t, "u")
    t.sql("START TRANSACTION")
    t.sql("INSERT INTO u VALUES (3)")
    t.sql("INSERT INTO u VALUES (4)")
    own = row_ids(t, "u")
    assert {key: own[key] for key in (1, 2)} == committed
    assert own[3][0] == own[4][0] > committed[1][0]
    assert (
        t.sql(f"DELETE FROM u WHERE ROW__ID.writeid = {own[3][0]} AND ROW__ID.bucketid = {own[4][1]}").rows_deleted == 1
    )
    assert row_ids(t, "u") == {key: own[key] for key in (1, 2, 3)}
    with metastore.session(user="other") as other:
        assert row_ids(other, "u") == committed
    t.sql("COMMIT")
    assert row_ids(t, "u") == {key: own[key] for key in (1, 2, 3)}
