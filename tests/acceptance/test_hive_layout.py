"""Tables of the row layout ``hive``: every statement on them, and Hive's own reader on their directories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from tests import hive_oracle

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

HIVE = "TBLPROPERTIES ('hivex.row.layout' = 'hive')"
TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (p string)",
    "bucketed": "PARTITIONED BY (p string) CLUSTERED BY (id) SORTED BY (v) INTO 3 BUCKETS",
}


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> list[tuple[Any, ...]]:
    return session.sql(sql).rows


def folders(root: Path, table: str = "t") -> dict[str, Path]:
    """The folders that have base and delta directories, by their path below the table's."""
    folder = root / "c1" / "default.db" / table
    found = {path.parent.parent for path in folder.glob("**/_orc_acid_version")}
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


def seen_by_hive(root: Path, columns: Mapping[str, str], table: str = "t") -> Counter[str]:
    """The rows, as JSON, that Hive finds in the folders of a table in which nothing was aborted."""
    found: Counter[str] = Counter()
    for path in folders(root, table).values():
        found.update(map(as_text, read_by_hive(path, columns)))
    return found


def read_by_hive(folder: Path, columns: Mapping[str, str], high_watermark: int = 1000) -> list[Mapping[str, Any]]:
    """The rows of one folder, with all write ids up to a highest one."""
    # The metastore's jobs run in this process.
    spark = SparkSession.builder.getOrCreate()
    transactions = hive_oracle.transactions(ValidWriteIdList(high_watermark))
    schema = [Column(name, kind) for name, kind in columns.items()]
    found = [row.values for row in hive_oracle.rows(spark, folder, transactions, schema)]
    assert all(isinstance(values, Mapping) for values in found), found
    return [values for values in found if isinstance(values, Mapping)]


def seen_by_us(session: Session, columns: Mapping[str, str], table: str = "t") -> Counter[str]:
    found = session.sql(f"SELECT {', '.join(columns)} FROM {table}").rows
    return Counter(as_text(dict(zip(columns, row, strict=True))) for row in found)


def as_text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def compressions(root: Path, table: str = "t") -> set[str]:
    files = [path for folder in folders(root, table).values() for path in folder.glob("*delta*/bucket_*")]
    return {orc.ORCFile(path).compression for path in files}


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("kind", TABLES)
def test_statements_write_what_hive_reads(lockless: Metastore, tmp_path: Path, kind: str) -> None:
    columns = {"id": "int", "v": "string", "n": "struct<a:int,b:array<int>>"}
    with lockless.session() as s:
        declared = ", ".join(f"{name} {of}" for name, of in columns.items())
        s.sql(f"CREATE TABLE t ({declared}{', p string' if kind == 'plain' else ''}) {TABLES[kind]} {HIVE}")
        s.sql("CREATE TABLE s (k int, w string)")
        s.sql("INSERT INTO s VALUES (2, 'two'), (7, 'seven'), (8, NULL), (104, 'far')")

        def check(expected: list[tuple[Any, ...]]) -> None:
            assert rows(s, "SELECT id, v, n.a, p FROM t WHERE id < 10 ORDER BY ALL") == expected
            assert seen_by_hive(tmp_path, columns) == seen_by_us(s, columns)

        # Without Spark, and with it.
        s.sql("INSERT INTO t (id, v, p) VALUES (1, 'a', 'x'), (2, 'b', 'y/z=%'), (3, NULL, NULL)")
        s.sql(
            "INSERT INTO t SELECT id, concat('v', id), named_struct('a', id, 'b', array(id, NULL)), 'x' "
            "FROM range(100, 200)"
        )
        s.sql("INSERT INTO t VALUES (4, 'd', named_struct('a', 4, 'b', array(1, NULL)), 'ü +')")
        check([(1, "a", None, "x"), (2, "b", None, "y/z=%"), (3, None, None, None), (4, "d", 4, "ü +")])
        assert s.sql("DELETE FROM t WHERE id IN (1, 150, 199)").rows_deleted == 3
        assert s.sql("UPDATE t SET v = concat(coalesce(v, ''), '!') WHERE id % 2 = 0").rows_written == 51
        check([(2, "b!", None, "y/z=%"), (3, None, None, None), (4, "d!", 4, "ü +")])
        s.sql("START TRANSACTION")
        s.sql("INSERT INTO t (id, p) VALUES (5, 'x'), (6, 'x')")
        s.sql("UPDATE t SET v = 'own' WHERE id = 5")
        s.sql("DELETE FROM t WHERE id = 6")
        s.sql("COMMIT")
        s.sql(
            "MERGE INTO t USING s ON t.id = s.k WHEN MATCHED AND k = 104 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = w WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (k, w, 'new')"
        )
        check(
            [
                (2, "two", None, "y/z=%"),
                (3, None, None, None),
                (4, "d!", 4, "ü +"),
                (5, "own", None, "x"),
                (7, "seven", None, "new"),
                (8, None, None, "new"),
            ]
        )
        assert rows(s, "SELECT count(*), count(v), count(n), sum(id) FROM t WHERE id >= 100") == [(97, 97, 97, 14497)]
        assert rows(s, "SELECT count(*) FROM t WHERE p = 'y/z=%'") == [(1,)]
        s.sql("DELETE FROM t WHERE id >= 100")
        target = "t" if kind == "plain" else "t PARTITION (p)"
        s.sql(
            f"FROM (SELECT 9 AS id) r INSERT INTO {target} SELECT id, 'multi', NULL, 'x' INSERT INTO s SELECT id, 'm'"
        )
        s.sql("INSERT OVERWRITE t SELECT id, 'over', NULL, 'x' FROM t WHERE id IN (5, 9)")
        kept = [] if kind == "plain" else [(2, "two", None, "y/z=%"), (3, None, None, None), (4, "d!", 4, "ü +")]
        new = [] if kind == "plain" else [(7, "seven", None, "new"), (8, None, None, "new")]
        check([*kept, (5, "over", None, "x"), *new, (9, "over", None, "x")])
        s.sql("TRUNCATE TABLE t")
        s.sql("INSERT INTO t VALUES (1, 'last', NULL, 'x')")
        check([(1, "last", None, "x")])
        s.sql(f"CREATE TABLE c {HIVE} AS SELECT id, v FROM t")
        assert seen_by_hive(tmp_path, {"id": "int", "v": "string"}, "c") == Counter([as_text({"id": 1, "v": "last"})])


@pytest.mark.evidence(cases=2, among="row layouts")
def test_a_table_may_have_directories_of_both_layouts(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id int, v string, gone int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t SELECT id, concat('f', id), id, id % 2 FROM range(0, 6)")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")
    assert "'hivex.row.layout' = 'hive'" in str(rows(session, "SHOW CREATE TABLE t"))
    session.sql("INSERT INTO t SELECT id, concat('h', id), id, id % 3 FROM range(6, 12)")
    # Events of each layout take away rows of both.
    session.sql("DELETE FROM t WHERE id IN (0, 6)")
    session.sql("UPDATE t SET v = 'new' WHERE id IN (1, 7)")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'flat')")
    session.sql("DELETE FROM t WHERE id IN (2, 8)")
    session.sql("ALTER TABLE t DROP COLUMN gone")
    session.sql("ALTER TABLE t RENAME COLUMN v TO name")
    session.sql("ALTER TABLE t ADD COLUMNS (more bigint, gone string)")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")
    session.sql("INSERT INTO t VALUES (20, 'last', 5, 'gone', 0)")
    session.sql("UPDATE t SET more = id + 1 WHERE id IN (3, 9)")
    assert rows(session, "SELECT id, name, more, gone, p FROM t ORDER BY id") == [
        (1, "new", None, None, 1),
        (3, "f3", 4, None, 1),
        (4, "f4", None, None, 0),
        (5, "f5", None, None, 1),
        (7, "new", None, None, 1),
        (9, "h9", 10, None, 0),
        (10, "h10", None, None, 1),
        (11, "h11", None, None, 2),
        (20, "last", 5, "gone", 0),
    ]
    assert rows(session, "SELECT count(*), max(more) FROM t WHERE p = 0 AND name > 'g'") == [(2, 10)]
    assert {file.row_layout for file in session.snapshot_files("t").files} == {"flat", "hive"}


def test_rows_of_both_layouts_are_joined_by_their_keys(metastore_url: str, clusters: dict[str, dict[str, Any]]) -> None:
    # As for a table of more than 100 columns.
    clusters["c1"]["spark_conf"] = {"spark.sql.codegen.maxFields": "0"}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore, metastore.session() as s:
        s.sql("CREATE TABLE t (id int) PARTITIONED BY (p string)")
        s.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        s.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")
        s.sql("INSERT INTO t VALUES (3, 'a'), (4, 'c')")
        found = rows(s, "SELECT x.id, y.id FROM t x JOIN t y ON x.p = y.p WHERE y.id > 2 ORDER BY 1")
        assert found == [(1, 3), (3, 3), (4, 4)]


@pytest.mark.evidence(cases=2, among="row layouts")
def test_columns_may_be_called_as_those_of_the_file(session: Session, tmp_path: Path) -> None:
    columns = {
        "operation": "int",
        "originaltransaction": "bigint",
        "bucket": "string",
        "rowid": "string",
        "currenttransaction": "bigint",
        "row": "struct<operation:int,id:int>",
        "id": "int",
    }
    declared = ", ".join(f"`{name}` {of}" for name, of in columns.items())
    session.sql(f"CREATE TABLE t ({declared}) {HIVE}")
    session.sql(
        "INSERT INTO t SELECT 7, 100 + id, NULL, concat('r', id), -id, "
        "IF(id % 2 = 0, named_struct('operation', 1, 'id', CAST(-id AS INT)), NULL), CAST(id AS INT) FROM range(1, 101)"
    )
    session.sql("INSERT INTO t VALUES (0, 1, 'b', NULL, 3, NULL, 0)")
    for condition, count in (
        ("id = 50", 1),
        ("id > 90 AND `row` IS NULL", 5),
        ("`row`.id = -50 AND id = 50", 1),
        ("`row`.id > 0", 0),
        ("operation = 7 AND bucket IS NULL AND currenttransaction <= -100", 1),
        ("originaltransaction = 1 AND rowid IS NULL", 1),
        ("`row` IS NOT NULL", 50),
    ):
        assert rows(session, f"SELECT count(*) FROM t WHERE {condition}") == [(count,)], condition
    session.sql("DELETE FROM t WHERE id BETWEEN 10 AND 20 OR rowid = 'r33'")
    session.sql("UPDATE t SET operation = 8, bucket = 'new' WHERE id = 40")
    assert rows(session, "SELECT count(*), sum(operation), max(bucket) FROM t") == [(89, 88 * 7 + 1, "new")]
    assert seen_by_hive(tmp_path, columns) == seen_by_us(session, columns)
    with pytest.raises(InvalidObjectError, match="__row is reserved"):
        session.sql("CREATE TABLE r (id int, `__row` int)")


@pytest.mark.evidence(cases=2, among="row layouts")
def test_all_types_are_read_as_from_flat_files(session: Session, tmp_path: Path) -> None:
    columns = (
        "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, small decimal(10,2), "
        "large decimal(30,5), text string, v varchar(5), c char(5), bin binary, day date, ts timestamp, "
        "ntz timestamp_ntz, a array<int>, m map<string,bigint>, st struct<x:int,y:array<struct<z:string>>>"
    )
    constants = (
        "true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 1.25BD, 123456789012345678901234.5BD, 'text', 'v', 'c', X'00FF', "
        "DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789012Z', TIMESTAMP_NTZ '2024-02-29 12:34:56.789012'"
    )
    for table, layout in (("flat", ""), ("hive", HIVE)):
        session.sql(f"CREATE TABLE {table} ({columns}) {layout}")
        session.sql(
            f"INSERT INTO {table} SELECT {constants}, array(1, NULL), map('k', 5), "
            "named_struct('x', 1, 'y', array(named_struct('z', 'deep')))"
        )
        names = "b, t, s, i, l, f, d, small, large, text, v, c, bin, day, ts, ntz"
        session.sql(f"INSERT INTO {table} ({names}) VALUES ({constants})")
        session.sql(f"INSERT INTO {table} (i) VALUES (NULL)")
    found = rows(session, "SELECT * FROM hive ORDER BY text, st.x")
    assert found == rows(session, "SELECT * FROM flat ORDER BY text, st.x")
    assert session.sql("SELECT * FROM hive").columns == session.sql("SELECT * FROM flat").columns
    assert len(found) == 3
    assert rows(session, "SELECT count(*) FROM hive WHERE c = 'c' AND v = 'v' AND day = '2024-02-29'") == [(2,)]
    assert compressions(tmp_path, "hive") == {"SNAPPY"}
    assert rows(session, "SELECT id FROM (SELECT 1 AS id)") == [(1,)]
    hive_columns = {"i": "int"}
    assert sum(seen_by_hive(tmp_path, hive_columns, "hive").values()) == 3


@pytest.mark.evidence(cases=2, among="row layouts")
def test_partitions_get_their_values_wherever_they_lie(session: Session, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE t (id int) PARTITIONED BY (d date, n int, s string) {HIVE}")
    session.sql("INSERT INTO t PARTITION (d = '2024-01-02', n = 1, s = 'there') VALUES (1)")
    session.sql(
        "ALTER TABLE t PARTITION (d = '2024-01-02', n = 1, s = 'there') "
        "RENAME TO PARTITION (d = '2024-01-02', n = 7, s = 'else')"
    )
    session.sql("INSERT INTO t VALUES (2, DATE '2024-01-02', 8, 'a+b c%20'), (3, NULL, NULL, NULL)")
    session.sql("INSERT INTO t SELECT 4, DATE '1999-12-31', -1, '[{ü}] \\'#^?*'")
    session.sql("DELETE FROM t WHERE id > 100")
    assert rows(session, "SELECT id, CAST(d AS STRING), n + 1, s FROM t ORDER BY id") == [
        (1, "2024-01-02", 8, "else"),
        (2, "2024-01-02", 9, "a+b c%20"),
        (3, None, None, None),
        (4, "1999-12-31", 0, "[{ü}] '#^?*"),
    ]
    assert rows(session, "SELECT id FROM t WHERE d > DATE '2000-01-01' AND concat(s, '') LIKE 'a+%'") == [(2,)]
    session.sql("UPDATE t SET id = id * 10 WHERE n IS NULL OR s = 'else'")
    assert rows(session, "SELECT id, s FROM t ORDER BY id") == [
        (2, "a+b c%20"),
        (4, "[{ü}] '#^?*"),
        (10, "else"),
        (30, None),
    ]
    next(iter((tmp_path / "c1" / "default.db" / "t").glob("**/delta*/bucket_*"))).unlink()
    with pytest.raises(JobError, match="data files"):
        rows(session)


def test_an_unknown_layout_is_refused(session: Session) -> None:
    with pytest.raises(InvalidObjectError, match="is not one of flat, hive"):
        session.sql("CREATE TABLE t (id int) TBLPROPERTIES ('hivex.row.layout' = 'nested')")
    session.sql("CREATE TABLE t (id int)")
    with pytest.raises(InvalidObjectError, match="is not one of flat, hive"):
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'plain')")
    session.sql("CREATE TABLE i (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    with pytest.raises(InvalidObjectError, match=r"no hivex.row.layout"):
        session.sql("ALTER TABLE i SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")


def test_a_copy_is_made_for_hive(
    session: Session,
    tmp_path: Path,
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = {"id": "int", "called": "string"}
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (y int, m string)")
    session.sql(
        "INSERT INTO t VALUES (1, 'a', 2013, 'x y'), (2, 'b', 2013, NULL), (3, 'c', 2014, 'z'), (4, 'd', 2014, 'z')"
    )
    session.sql("DELETE FROM t WHERE id = 4")
    session.sql("ALTER TABLE t RENAME COLUMN v TO called")
    common = [
        "--metastore",
        metastore_url,
        "--clusters",
        json.dumps(clusters),
        "--default-cluster",
        "c1",
        "export",
        "--hive",
    ]

    def export(*arguments: str) -> tuple[int, str, str]:
        code = main([*common, *arguments])
        return code, *capsys.readouterr()

    whole = tmp_path / "whole é"
    code, out, err = export("t", str(whole))
    assert code == 0
    assert "STORED AS ORC" in out
    assert f"LOCATION 'file://{whole}'" in out
    assert out.endswith("-- write id: 1\n")
    assert "3 rows of default.t from cluster c1" in err
    names = {"y=2013/m=__HIVE_DEFAULT_PARTITION__": 2, "y=2013/m=x y": 1, "y=2014/m=z": 3}
    for name, number in names.items():
        assert read_by_hive(whole / name, columns, 1) == [{"id": number, "called": "abc"[number - 1]}]
    assert {path.parent.relative_to(whole).as_posix() for path in whole.glob("**/delta_0000001_0000001_0000")} == set(
        names
    )
    some = tmp_path / "some"
    assert export("default.t", str(some), "--partition", "y=2014", "--partition", "y=2013/m=x y")[0] == 0
    assert {path.parent.name for path in some.glob("**/delta_*")} == {"m=z", "m=x y"}
    code, _, err = export("t", str(some))
    assert code == 1
    assert "is not empty" in err
    assert export("t", str(tmp_path / "new"), "--partition", "nothing=1")[0] == 1
    code, _, err = export("t", str(tmp_path / "new"), "--partition", "y=2014", "--partition", "y=2031")
    assert code == 1
    assert "Table default.t has no partition y=2031; SHOW PARTITIONS lists those it has." in err
    session.sql("CREATE TABLE u (at timestamp_ntz)")
    with pytest.raises(InvalidOperationError, match="Hive has no type for column at"):
        session.export_for_hive("u", tmp_path / "new")
    session.sql("CREATE VIEW w AS SELECT id FROM t")
    with pytest.raises(InvalidOperationError, match="it is a view"):
        session.export_for_hive("w", tmp_path / "new")
    assert not (tmp_path / "new").exists()
