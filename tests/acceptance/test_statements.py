"""Every kind of statement, through sessions: what it does, and what it leaves on disk."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    JobError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.model.objects import Column, TableType
from tests.acceptance.cluster_files import data_files

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


def names(session: Session, sql: str) -> list[object]:
    """The first column of what a statement brings."""
    return [row[0] for row in session.sql(sql).rows]


# -- databases ---------------------------------------------------------------------------


def test_database_is_created_altered_described_and_dropped(session: Session) -> None:
    session.sql("CREATE DATABASE sales COMMENT 'it''s' LOCATION 'my sales 100%' WITH DBPROPERTIES ('a' = 'b')")
    session.sql("CREATE SCHEMA IF NOT EXISTS SALES")
    with pytest.raises(AlreadyExistsError, match="IF NOT EXISTS"):
        session.sql("CREATE DATABASE sales")
    session.sql("ALTER DATABASE sales SET DBPROPERTIES ('a' = 'c', k = 1)")
    session.sql("ALTER DATABASE sales SET OWNER USER boss")
    described = dict(session.sql("DESCRIBE DATABASE EXTENDED sales").rows)
    assert described["Location"] == "my sales 100%"
    assert described["Owner"] == "boss"
    assert described["Properties"] == "'a' = 'c', 'k' = '1'"
    assert names(session, "SHOW DATABASES LIKE 's*'") == ["sales"]
    session.sql("USE sales")
    session.sql("CREATE TABLE t (a int)")
    assert names(session, "SHOW TABLES") == ["t"]
    with pytest.raises(InvalidOperationError, match="CASCADE"):
        session.sql("DROP DATABASE sales")
    session.sql("DROP DATABASE sales CASCADE")
    with pytest.raises(NoSuchDatabaseError):
        session.sql("CREATE TABLE t (a int)")
    session.sql("DROP DATABASE IF EXISTS sales")
    with pytest.raises(InvalidOperationError, match="default"):
        session.sql("DROP DATABASE default CASCADE")


def test_cascade_deletes_files_and_the_names_can_be_used_again(session: Session, tmp_path: Path) -> None:
    for _ in range(2):
        session.sql("CREATE DATABASE d")
        session.sql("CREATE TABLE d.t (a int) PARTITIONED BY (p int)")
        session.sql("INSERT INTO d.t VALUES (1, 2)")
        assert data_files(tmp_path)
        session.sql("DROP DATABASE d CASCADE")
        assert data_files(tmp_path) == []


def test_a_folder_of_one_table_is_never_that_of_another(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("INSERT INTO t VALUES (1)")
    kept = data_files(tmp_path)
    for location in ("default.db/t", "default.db/t/below", "default.db", "default.db/", (tmp_path / "c1").as_uri(), ""):
        with pytest.raises(InvalidObjectError, match="location"):
            session.sql(f"CREATE TABLE other (a int) LOCATION '{location}'")
        with pytest.raises(InvalidObjectError, match="location"):
            session.sql(f"CREATE TABLE other LOCATION '{location}' AS SELECT * FROM t")
    with pytest.raises(InvalidObjectError, match=r"default\.t"):
        session.sql("CREATE EXTERNAL TABLE other (a int) STORED AS ORC LOCATION 'default.db/t'")
    session.sql("CREATE TABLE lower (a int) LOCATION 'default.db/upper/x'")
    session.sql("CREATE TABLE upper (a int)")
    session.sql("DROP TABLE upper")
    assert data_files(tmp_path) == kept
    session.sql("CREATE TABLE placed (a int) LOCATION 'else where/100%'")
    session.sql("CREATE TABLE IF NOT EXISTS placed (a int) LOCATION 'else where/100%'")
    # As in Hive; without the property it is external, as in Spark.
    for name, properties, is_managed in (("m", "TBLPROPERTIES ('Transactional' = 'true')", True), ("x", "", False)):
        session.sql(f"CREATE TABLE {name} (a int) STORED AS ORC LOCATION 'other {name}' {properties}")
        assert ("MANAGED" in str(session.sql(f"DESCRIBE FORMATTED {name}").rows)) is is_managed
        session.sql(f"DROP TABLE {name}")
    session.sql("INSERT INTO placed VALUES (1)")
    assert [name for name in data_files(tmp_path) if name.startswith("c1/else where/100%/delta")]
    session.sql("DROP TABLE placed")
    assert data_files(tmp_path) == kept


# -- tables ------------------------------------------------------------------------------


@pytest.mark.spark
@on_sqlite
def test_dropped_table_is_gone_with_its_files_and_its_successor_is_empty(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (a int, b string)")
    session.sql("INSERT INTO t VALUES (1, 'x')")
    session.sql("DROP TABLE t")
    assert data_files(tmp_path) == []
    with pytest.raises(NoSuchTableError):
        session.sql("DROP TABLE t")
    session.sql("DROP TABLE IF EXISTS t")
    session.sql("DROP TABLE IF EXISTS nowhere.t")
    session.sql("CREATE TABLE t (a int, b string)")
    session.sql("CREATE TABLE IF NOT EXISTS t (other int)")
    assert session.sql("SELECT * FROM t").rows == []
    assert session.sql("INSERT INTO t SELECT 2, 'y'").rows_written == 1
    assert session.sql("SELECT * FROM t").rows == [(2, "y")]


def test_create_table_takes_write_id_1_and_the_first_insert_2(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE TABLE c AS SELECT 1 AS id")
    folders = {name: tmp_path / "c1" / "default.db" / name for name in ("t", "c")}
    found = {name: [path.name for path in folder.iterdir()] for name, folder in folders.items()}
    assert found == {"t": ["delta_0000002_0000002_0000"], "c": ["delta_0000001_0000001_0000"]}


@pytest.mark.parametrize(
    ("property", "reason"),
    [
        ("'immutable' = 'true'", "INSERT INTO would add rows to it"),
        ("'Immutable' = 'TRUE'", "INSERT INTO would add rows to it"),
        ("'EXTERNAL' = 'TRUE'", "CREATE EXTERNAL TABLE|cannot be changed"),
        ("'bucketing_version' = '1'", "bucketing version 2 only|cannot be changed"),
        ("'TRANSACTIONAL' = 'false'", "transactional"),
        ("'location' = '/x'", "the clause LOCATION"),
        ("'provider' = 'parquet'", "the clause USING"),
        ("'owner' = 'root'", "the user of the session"),
    ],
)
def test_properties_that_nothing_would_obey_are_refused(session: Session, property: str, reason: str) -> None:
    create = "CREATE TABLE {} (id int) CLUSTERED BY (id) INTO 2 BUCKETS TBLPROPERTIES ({})"
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(create.format("t", property))
    session.sql(create.format("u", "'immutable' = 'false', 'auto.purge' = 'true'"))
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(f"ALTER TABLE u SET TBLPROPERTIES ({property})")


DEFINITIONS = [
    "CREATE TABLE t (ID int COMMENT 'it''s', `select` string, s struct<a:int,b:array<string>>) COMMENT 'c\\n'",
    "CREATE TABLE t (a int) PARTITIONED BY (ds string COMMENT 'day', n decimal(5,2)) TBLPROPERTIES ('k' = '\\\\v\\'')",
    "CREATE TABLE t (a int, b string) PARTITIONED BY (b)",
    "CREATE TABLE t (a int, v varchar(3), c char(2)) CLUSTERED BY (a, v) SORTED BY (a DESC, v) INTO 3 BUCKETS",
    "CREATE TABLE t (a int, b string) SKEWED BY (B, a) ON (('it''s', 1), ('y', -2)) STORED AS ORC",
    "CREATE TABLE t (a int) TBLPROPERTIES ('hivex.cluster' = 'c2')",
    "CREATE TABLE t (a int) USING csv OPTIONS (header 'true', sep ';') LOCATION 'x y/100%'",
    "CREATE EXTERNAL TABLE t (a int) STORED AS PARQUET TBLPROPERTIES ('hivex.cluster' = 'c2')",
    "CREATE EXTERNAL TABLE t (a int) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t' STORED AS TEXTFILE LOCATION 'x' "
    "TBLPROPERTIES ('skip.header.line.count' = '1')",
    "CREATE TABLE `from` (a int)",
]


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_show_create_table_makes_an_equal_table(metastore: Metastore, session: Session, definition: str) -> None:
    session.sql(definition)
    ((name,),) = session.sql("SHOW TABLES").rows
    first = metastore.catalog.get_table("default", str(name))
    (shown,) = names(session, f"SHOW CREATE TABLE `{name}`")
    session.sql(f"DROP TABLE `{name}`")
    session.sql(str(shown))
    again = metastore.catalog.get_table("default", str(name))
    assert names(session, f"SHOW CREATE TABLE `{name}`") == [shown]
    facts = ("storage", "partition_keys", "type", "parameters", "comment", "location")
    assert [getattr(again, fact) for fact in facts] == [getattr(first, fact) for fact in facts]


def test_table_like_another_one_has_its_definition_and_no_rows(metastore: Metastore, session: Session) -> None:
    session.sql(
        "CREATE TABLE s (a int COMMENT 'x', b string, c date) PARTITIONED BY (ds string COMMENT 'day') COMMENT 'about' "
        "CLUSTERED BY (a) INTO 3 BUCKETS "
        "TBLPROPERTIES ('hivex.row.layout' = 'hive', 'orc.compress' = 'ZLIB', 'quality' = 'raw')"
    )
    session.sql("ALTER TABLE s RENAME COLUMN c TO d")
    session.sql("ALTER TABLE s DROP COLUMN b")
    session.sql("INSERT INTO s VALUES (1, NULL, '2013')")
    session.sql("ANALYZE TABLE s PARTITION (ds) COMPUTE STATISTICS NOSCAN")
    session.sql("CREATE TABLE t LIKE s")
    source, made = (metastore.catalog.get_table("default", name) for name in ("s", "t"))
    assert made.columns == (Column("a", "int", "x"), Column("d", "date"))
    assert (made.partition_keys, made.comment, made.type) == (source.partition_keys, "about", TableType.MANAGED_TABLE)
    same = ("num_buckets", "bucket_columns", "sort_columns", "format")
    assert [getattr(made.storage, fact) for fact in same] == [getattr(source.storage, fact) for fact in same]
    assert made.storage.primary.location != source.storage.primary.location
    assert made.parameters == {
        "hivex.row.layout": "hive",
        "orc.compress": "ZLIB",
        "transactional": "true",
        "transactional_properties": "default",
        "bucketing_version": "2",
    }
    assert names(session, "SHOW PARTITIONS t") == []
    assert session.sql("INSERT INTO t VALUES (1, NULL, '2013')").rows_written == 1
    session.sql("CREATE TABLE IF NOT EXISTS t LIKE s")
    for text, error in (
        ("CREATE TABLE t LIKE s", AlreadyExistsError),
        ("CREATE TABLE s LIKE s", AlreadyExistsError),
        ("CREATE TABLE u LIKE nope", NoSuchTableError),
        ("CREATE TABLE nowhere.u LIKE s", NoSuchDatabaseError),
        ("CREATE TABLE u LIKE s TBLPROPERTIES ('hivex.row.layout' = 'odd')", InvalidObjectError),
        ("CREATE TABLE u LIKE s LOCATION 'default.db/s'", InvalidObjectError),
    ):
        with pytest.raises(error):
            session.sql(text)
    assert names(session, "SHOW TABLES") == ["s", "t"]


LIKE = {
    "CREATE TABLE t LIKE acid": ("managed", "orc", "default", "hive"),
    "CREATE TABLE t LIKE acid LOCATION 'elsewhere'": ("managed", "orc", "default", "hive"),
    "CREATE TABLE t LIKE acid STORED AS ORC": ("managed", "orc", "default", None),
    "CREATE TABLE t LIKE acid TBLPROPERTIES ('transactional_properties' = 'insert_only')": (
        "managed",
        "orc",
        "insert_only",
        None,
    ),
    "CREATE TABLE t LIKE acid STORED AS PARQUET": ("managed", "parquet", "insert_only", None),
    "CREATE TABLE t LIKE acid USING parquet LOCATION 'files'": ("external", "parquet", None, None),
    "CREATE EXTERNAL TABLE t LIKE acid LOCATION 'files'": ("external", "orc", None, None),
    "CREATE TABLE t LIKE only": ("managed", "parquet", "insert_only", None),
    "CREATE TABLE t LIKE only LOCATION 'elsewhere'": ("managed", "parquet", "insert_only", None),
    "CREATE TABLE t LIKE plain_orc": ("managed", "orc", "default", None),
    "CREATE TABLE t LIKE lines": ("managed", "textfile", "insert_only", None),
    "CREATE EXTERNAL TABLE t LIKE lines LOCATION 'files'": ("external", "textfile", None, None),
    "CREATE EXTERNAL TABLE t LIKE elements LOCATION 'files'": ("external", "xml", None, None),
    "CREATE TABLE t LIKE elements USING json": ("managed", "json", "insert_only", None),
    "CREATE TABLE t LIKE seen": ("managed", "orc", "default", None),
}


@on_sqlite
def test_table_like_another_one_is_managed_unless_it_says_otherwise(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE acid (a int) CLUSTERED BY (a) INTO 2 BUCKETS TBLPROPERTIES ('hivex.row.layout' = 'hive')")
    session.sql("CREATE TABLE only (a int) USING parquet TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    session.sql("CREATE EXTERNAL TABLE plain_orc (a int) STORED AS ORC LOCATION 'o'")
    session.sql(
        "CREATE EXTERNAL TABLE lines (a int) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' LOCATION 'l' "
        "TBLPROPERTIES ('skip.header.line.count' = '1')"
    )
    session.sql("CREATE EXTERNAL TABLE elements (a int) USING xml OPTIONS (rowTag 'a') LOCATION 'x'")
    session.sql("CREATE VIEW seen AS SELECT 1 AS a")
    for text, expected in LIKE.items():
        session.sql(text)
        made = metastore.catalog.get_table("default", "t")
        kinds = [made.parameters.get(name) for name in ("transactional_properties", "hivex.row.layout")]
        assert ("external" if made.is_external else "managed", made.storage.format, *kinds) == expected, text
        assert [column.name for column in made.columns] == ["a"]
        assert made.storage.num_buckets == (2 if "LIKE acid" in text and not made.is_external else -1), text
        has_header = made.is_external and "lines" in text
        assert made.read_options.get("skip.header.line.count") == ("1" if has_header else None)
        assert made.read_options.get("field.delim") == ("|" if "lines" in text else None)
        session.sql("DROP TABLE t")
    with pytest.raises(InvalidObjectError, match=r"files of format xml, which default\.elements has, are not written"):
        session.sql("CREATE TABLE t LIKE elements")


def test_partitions_are_shown_by_a_condition_in_an_order(session: Session) -> None:
    session.sql("CREATE TABLE t (a int) PARTITIONED BY (d date, n int, s string)")
    values = [("2013-01-31", 10, "a"), ("2013-02-01", 9, "a"), ("2013-02-01", 10, "b"), ("2014-01-01", None, "a")]
    session.insert_rows("t", [(1, date.fromisoformat(day), number, text) for day, number, text in values])
    first, second, third, fourth = (
        "d=2013-01-31/n=10/s=a",
        "d=2013-02-01/n=9/s=a",
        "d=2013-02-01/n=10/s=b",
        "d=2014-01-01/n=__HIVE_DEFAULT_PARTITION__/s=a",
    )

    def shown(rest: str, parameters: dict[str, object] | None = None) -> list[object]:
        return [row[0] for row in session.sql(f"SHOW PARTITIONS t {rest}", parameters).rows]

    assert shown("WHERE d >= '2013-02-01' AND n < 10") == [second]
    assert shown("WHERE year(d) = 2013 AND s LIKE 'a%' OR n IS NULL ORDER BY n") == [fourth, second, first]
    assert shown("WHERE n IN (:n, 11) ORDER BY d DESC", {"n": 10}) == [third, first]
    assert shown("PARTITION (s = 'a') WHERE NOT n = 10") == [second]
    assert shown("ORDER BY s DESC, n") == [third, fourth, second, first]
    assert shown("ORDER BY d DESC LIMIT 1") == [fourth]
    assert shown("LIMIT 0") == []
    with pytest.raises(NoSuchColumnError):
        shown("WHERE a = 1")
    with pytest.raises(NoSuchColumnError):
        shown("ORDER BY a")
    with pytest.raises(InvalidOperationError, match="cannot be decided for partition"):
        shown("WHERE s = 3")
    session.sql("CREATE TABLE plain (a int)")
    with pytest.raises(InvalidOperationError, match="no partition keys"):
        session.sql("SHOW PARTITIONS plain WHERE a = 1")


def test_parts_of_a_definition_are_shown_and_commented(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (z int, Ab int, aa string) PARTITIONED BY (ds string) TBLPROPERTIES ('k.X' = 'v')")
    assert session.sql("SHOW COLUMNS IN t").columns == ["col_name"]
    assert names(session, "SHOW COLUMNS IN t") == ["z", "ab", "aa", "ds"]
    assert names(session, "SHOW SORTED COLUMNS FROM t FROM default LIKE 'a*|z'") == ["aa", "ab", "z"]
    shown = session.sql("SHOW TBLPROPERTIES t")
    assert shown.columns == ["key", "value"]
    assert dict(shown.rows) == metastore.catalog.get_table("default", "t").parameters
    assert session.sql("SHOW TBLPROPERTIES t (k.X)").rows == [("k.X", "v")]
    with pytest.raises(InvalidObjectError, match=r"has no property k\.x"):
        session.sql("SHOW TBLPROPERTIES t ('k.x')")
    session.sql("COMMENT ON TABLE t IS 'it''s'")
    session.sql("COMMENT ON COLUMN t.AB IS 'a number'")
    session.sql("COMMENT ON COLUMN default.t.ds IS 'day'")
    session.sql("COMMENT ON DATABASE default IS 'all'")
    assert session.sql("DESCRIBE t").rows[:4] == [
        ("z", "int", None),
        ("ab", "int", "a number"),
        ("aa", "string", None),
        ("ds", "string", "day"),
    ]
    made = metastore.catalog.get_table("default", "t")
    assert (made.comment, metastore.catalog.get_database("default").description) == ("it's", "all")
    session.sql("COMMENT ON TABLE t IS NULL")
    session.sql("COMMENT ON COLUMN t.ab IS ''")
    made = metastore.catalog.get_table("default", "t")
    assert (made.comment, made.columns[1].comment) == (None, None)
    session.sql("CREATE EXTERNAL TABLE e (a int) STORED AS ORC LOCATION 'e'")
    session.sql("COMMENT ON COLUMN e.a IS 'of files'")
    assert session.sql("DESCRIBE e").rows == [("a", "int", "of files")]
    for text, error in (
        ("COMMENT ON COLUMN t.nope IS 'x'", NoSuchColumnError),
        ("COMMENT ON TABLE nope IS 'x'", NoSuchTableError),
        ("COMMENT ON DATABASE nope IS 'x'", NoSuchDatabaseError),
        ("SHOW COLUMNS IN nope", NoSuchTableError),
        ("SHOW TBLPROPERTIES nope", NoSuchTableError),
    ):
        with pytest.raises(error):
            session.sql(text)


def test_describe_lists_columns_and_keys_and_extended_the_facts(session: Session) -> None:
    session.sql("CREATE TABLE t (a int COMMENT 'x') PARTITIONED BY (ds string) COMMENT 'about'")
    rows = session.sql("DESCRIBE t").rows
    assert rows[:2] == [("a", "int", "x"), ("ds", "string", None)]
    assert ("# Partition Information", "", "") in rows
    facts = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED default.t").rows}
    assert facts["Primary Cluster"] == "c1"
    assert facts["Comment"] == "about"
    with pytest.raises(NoSuchTableError):
        session.sql("DESCRIBE nope")


def test_table_properties_are_set_and_unset(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("ALTER TABLE default.t SET TBLPROPERTIES ('a' = 'b', k.x = 2)")
    assert metastore.catalog.get_table("default", "t").parameters["k.x"] == "2"
    with pytest.raises(InvalidObjectError, match="no property zz"):
        session.sql("ALTER TABLE t UNSET TBLPROPERTIES ('zz')")
    session.sql("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('zz', 'a')")
    assert "a" not in metastore.catalog.get_table("default", "t").parameters
    for change in ("SET TBLPROPERTIES ('transactional' = 'false')", "UNSET TBLPROPERTIES ('transactional')"):
        with pytest.raises(InvalidObjectError, match="transactional"):
            session.sql(f"ALTER TABLE t {change}")


# -- partitions --------------------------------------------------------------------------


def test_partitions_are_added_shown_and_dropped_by_the_values_of_their_types(session: Session) -> None:
    session.sql("CREATE TABLE p (v string) PARTITIONED BY (m int, d date)")
    session.sql("ALTER TABLE p ADD PARTITION (m = '01', d = '2020-01-01') PARTITION (m = 2, d = DATE'2020-01-02')")
    with pytest.raises(AlreadyExistsError, match="m=1/d=2020-01-01"):
        session.sql("ALTER TABLE p ADD PARTITION (m = 10, d = '2020-01-01') PARTITION (m = 1, d = '2020-01-01')")
    session.sql("ALTER TABLE p ADD IF NOT EXISTS PARTITION (m = 1, d = '2020-01-01') PARTITION (m = NULL, d = NULL)")
    null = "m=__HIVE_DEFAULT_PARTITION__/d=__HIVE_DEFAULT_PARTITION__"
    assert names(session, "SHOW PARTITIONS p") == ["m=1/d=2020-01-01", "m=2/d=2020-01-02", null]
    assert names(session, "SHOW PARTITIONS p PARTITION (m = '01')") == ["m=1/d=2020-01-01"]
    session.sql("ALTER TABLE p DROP PARTITION (m < 2)")
    assert names(session, "SHOW PARTITIONS p") == ["m=2/d=2020-01-02", null]
    session.sql("ALTER TABLE p DROP PARTITION (m = NULL), PARTITION (d >= '2020-01-02')")
    assert names(session, "SHOW PARTITIONS p") == []


@pytest.mark.parametrize("type", ["int", "date", "boolean", "decimal(5,2)", "double", "char(3)", "timestamp", "string"])
def test_dropping_partitions_never_takes_one_that_is_not_meant(session: Session, type: str) -> None:
    values = {
        "int": ("7", "8"), "date": ("DATE'2020-01-01'", "'2020-01-02'"), "boolean": ("true", "'false'"),
        "decimal(5,2)": ("1.5", "'1.51'"), "double": ("1.5D", "1e10"), "char(3)": ("'a'", "'b'"),
        "timestamp": ("TIMESTAMP'2020-01-01 00:00:00.5'", "'2020-01-02'"), "string": ("'a'", "'a '"),
    }[type]  # fmt: skip
    session.sql(f"CREATE TABLE p (v string) PARTITIONED BY (k {type})")
    for value in (*values, "NULL"):
        session.sql(f"ALTER TABLE p ADD PARTITION (k = {value})")
    every = names(session, "SHOW PARTITIONS p")
    if type != "string":
        for operator in ("=", "<>", "<", ">="):
            with pytest.raises(InvalidObjectError, match="not of type"):
                session.sql(f"ALTER TABLE p DROP PARTITION (k {operator} 'abcde')")
    assert names(session, "SHOW PARTITIONS p") == every
    session.sql(f"ALTER TABLE p DROP PARTITION (k = {values[0]})")
    assert len(names(session, "SHOW PARTITIONS p")) == 2
    with pytest.raises(NoSuchPartitionError):
        session.sql(f"ALTER TABLE p DROP PARTITION (k = {values[0]})")
    session.sql(f"ALTER TABLE p DROP PARTITION (k <> {values[0]})")
    assert names(session, "SHOW PARTITIONS p") == ["k=__HIVE_DEFAULT_PARTITION__"]


def test_dropped_partition_is_gone_with_its_files(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (m int, ds string)")
    session.sql("INSERT INTO p VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'a/b=%')")
    session.sql("INSERT INTO p VALUES (4, 2, 'a/b=%')")
    session.sql("ALTER TABLE p DROP PARTITION (ds = 'a/b=%')")
    assert not (tmp_path / "c1/default.db/p/m=2").exists()
    session.sql("ALTER TABLE p DROP PARTITION (ds = 'x')")
    assert [path.name for path in (tmp_path / "c1/default.db/p/m=1").iterdir()] == ["ds=y"]


# -- external tables ---------------------------------------------------------------------


@pytest.mark.spark
@on_sqlite
def test_external_tables_are_read_as_they_lie_and_outlive_their_table(session: Session, tmp_path: Path) -> None:
    files = {"csv": "ext/a.csv", "orc": "o/ds=1 2/f.orc", "parquet": "p/elsewhere/f.parquet"}
    for name in files.values():
        (tmp_path / "c1" / name).parent.mkdir(parents=True)
    (tmp_path / "c1" / files["csv"]).write_text("id,name\n1,x\n2,\n", encoding="utf-8")
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    orc.write_table(rows, tmp_path / "c1" / files["orc"])
    parquet.write_table(rows, tmp_path / "c1" / files["parquet"])
    session.sql("CREATE TABLE e_csv (id int, name string) USING csv OPTIONS (header 'true') LOCATION 'ext'")
    session.sql(
        "CREATE EXTERNAL TABLE e_text (id int, name string) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS "
        f"TEXTFILE LOCATION '{(tmp_path / 'c1/ext').as_uri()}' TBLPROPERTIES ('skip.header.line.count' = '1')"
    )
    session.sql("CREATE EXTERNAL TABLE e_orc (id int) PARTITIONED BY (ds string) STORED AS ORC LOCATION 'o'")
    session.sql("CREATE EXTERNAL TABLE e_parquet (id int) PARTITIONED BY (n int) STORED AS PARQUET LOCATION 'p'")
    assert session.sql("SELECT * FROM e_orc").rows == []
    session.sql("ALTER TABLE e_orc ADD PARTITION (ds = '1 2') PARTITION (ds = 'no files')")
    session.sql("ALTER TABLE e_parquet ADD PARTITION (n = 1) LOCATION 'p/elsewhere' PARTITION (n = 2)")
    assert session.sql("SELECT id, name FROM e_csv ORDER BY id").rows == [(1, "x"), (2, None)]
    assert len(session.sql("SELECT * FROM e_text").rows) == 2
    assert session.sql("SELECT sum(id), max(ds) FROM e_orc").rows == [(3, "1 2")]
    assert session.sql("SELECT sum(id), max(n) FROM e_parquet WHERE n = 1").rows == [(3, 1)]
    session.sql("ALTER TABLE e_orc DROP PARTITION (ds = '1 2')")
    for name in files:
        session.sql(f"DROP TABLE e_{name}")
    assert [name.removeprefix("c1/") for name in data_files(tmp_path)] == sorted(files.values())


# -- rows --------------------------------------------------------------------------------


@pytest.mark.spark
@on_sqlite
def test_create_table_as_select_takes_names_types_partitions_and_rows(session: Session, tmp_path: Path) -> None:
    query = "SELECT id AS K, concat('v', id) AS V, id % 2 = 0 AS even FROM range(4)"
    assert session.sql(f"CREATE TABLE c PARTITIONED BY (even) AS {query}").rows_written == 4
    assert session.sql("SELECT * FROM c WHERE even ORDER BY k").rows == [(0, "v0", True), (2, "v2", True)]
    assert names(session, "SHOW PARTITIONS c") == ["even=false", "even=true"]
    assert session.sql("CREATE TABLE IF NOT EXISTS c AS SELECT 1 AS x").rows_written == 0
    before = data_files(tmp_path)
    for refused in ("1/0 AS a", "1 AS a, 2 AS a", "NULL AS a", "count(*)"):
        with pytest.raises((InvalidObjectError, JobError)):
            session.sql(f"CREATE TABLE d AS SELECT {refused} FROM c")
    assert data_files(tmp_path) == before
    assert names(session, "SHOW TABLES") == ["c"]
    session.sql("CREATE TABLE d CLUSTERED BY (k) INTO 2 BUCKETS AS SELECT k FROM c WHERE k > 1")
    assert session.sql("SELECT sum(k) FROM d").rows == [(5,)]


@pytest.mark.spark
@on_sqlite
def test_insert_static_dynamic_mixed_overwrite_and_column_lists(session: Session) -> None:
    session.sql("CREATE TABLE p (id int, v string) PARTITIONED BY (m int, d date)")
    session.sql("INSERT INTO p PARTITION (m = 3, d) VALUES (1, 'a', DATE'2020-05-05'), (2, 'b', NULL)")
    session.sql("INSERT INTO TABLE p PARTITION (m = '03', d = '2020-05-05') SELECT 3, 'c'")
    session.sql("INSERT INTO p (d, id, m) SELECT DATE'2021-01-01', 4, 11")
    session.sql("INSERT INTO p PARTITION (m = 12, d) (d, id) VALUES (DATE'2021-01-01', 5)")
    ordered = "SELECT id, v, m, CAST(d AS string) FROM p ORDER BY id"
    assert session.sql(ordered).rows == [
        (1, "a", 3, "2020-05-05"), (2, "b", 3, None), (3, "c", 3, "2020-05-05"),
        (4, None, 11, "2021-01-01"), (5, None, 12, "2021-01-01"),
    ]  # fmt: skip
    session.sql("INSERT OVERWRITE p SELECT id * 10, v, m, d FROM p WHERE m = 3 AND d IS NOT NULL")
    assert [row[0] for row in session.sql(ordered).rows] == [2, 4, 5, 10, 30]
    session.sql("INSERT OVERWRITE p PARTITION (m = 11, d = '2021-01-01') SELECT 1, 'x' WHERE false")
    session.sql("INSERT OVERWRITE p PARTITION (m = 12, d = '2021-01-01') IF NOT EXISTS VALUES (0, 'x')")
    assert [row[0] for row in session.sql(ordered).rows] == [2, 5, 10, 30]


@pytest.mark.spark
@on_sqlite
@pytest.mark.evidence(cases=1, among="long scenarios")
def test_300_partitions_in_one_insert_and_100_deltas_in_one_scan(session: Session) -> None:
    session.sql("CREATE TABLE many (id bigint) PARTITIONED BY (p int)")
    assert session.sql("INSERT INTO many SELECT id, CAST(id AS int) FROM range(300)").rows_written == 300
    assert session.sql("SELECT count(*), count(DISTINCT p), sum(id) FROM many").rows == [(300, 300, 44850)]
    session.sql("CREATE TABLE deltas (id int)")
    for number in range(100):
        session.sql("INSERT INTO deltas VALUES (:n)", {"n": number})
    assert session.sql("SELECT count(*), sum(id) FROM deltas").rows == [(100, 4950)]


@pytest.mark.spark
@on_sqlite
def test_queries_bring_the_columns_and_rows_they_ask_for(session: Session) -> None:
    session.sql("CREATE DATABASE other")
    session.sql("CREATE TABLE t (ID int, `Group` string) PARTITIONED BY (p int)")
    session.sql("CREATE TABLE other.t (id int, v string)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, NULL, NULL)")
    session.sql("INSERT INTO other.t VALUES (1, 'one'), (3, 'three'), (3, 'drei')")
    for sql, columns, rows in QUERIES:
        result = session.sql(sql)
        assert (sql, result.columns) == (sql, columns)
        assert (sql, sorted(result.rows, key=repr)) == (sql, sorted(rows, key=repr))


QUERIES = [
    ("SELECT ID, Id, `group` FROM T WHERE P = 2", ["ID", "Id", "group"], [(3, 3, "c")]),
    ("SELECT * FROM t AS x JOIN t AS y ON x.id = y.id + 1 AND y.p = 1 AND x.p = 2", 2 * ["id", "group", "p"],
     [(3, "c", 2, 2, "b", 1)]),
    ("SELECT t.id, v FROM t JOIN other.t AS o ON o.id = t.id", ["id", "v"], [(1, "one"), (3, "three"), (3, "drei")]),
    ("SELECT default.t.id, other.t.v FROM default.t, other.t WHERE default.t.id = other.t.id AND other.t.id = 1",
     ["id", "v"], [(1, "one")]),
    ("SELECT id FROM t WHERE id IN (SELECT id FROM other.t) AND NOT EXISTS (SELECT 1 FROM other.t o WHERE o.id = t.id "
     "AND o.v = 'one')", ["id"], [(3,)]),
    ("WITH t AS (SELECT 7 AS id), u AS (SELECT id + 1 AS n FROM t) SELECT n FROM u", ["n"], [(8,)]),
    ("SELECT id FROM t UNION SELECT id FROM other.t EXCEPT SELECT 1 INTERSECT SELECT 1", ["id"], [(2,), (3,), (4,)]),
    ("(SELECT p FROM t) UNION ALL (SELECT id FROM other.t WHERE id > 9) ORDER BY 1 LIMIT 1", ["p"], [(None,)]),
    ("SELECT id, row_number() OVER w AS n FROM t WHERE p = 1 WINDOW w AS (PARTITION BY p ORDER BY id DESC)",
     ["id", "n"], [(1, 2), (2, 1)]),
    ("SELECT p, count(*) AS n FROM t GROUP BY p HAVING count(*) > 1", ["p", "n"], [(1, 2)]),
    ("SELECT max(id) FROM t", ["max(id)"], [(4,)]),
    ("SELECT (SELECT max(v) FROM other.t o WHERE o.id = t.id) AS m FROM t WHERE t.p = 2", ["m"], [("three",)]),
    ("SELECT x.n FROM (SELECT id AS n FROM t) x LEFT ANTI JOIN other.t ON x.n = t.id WHERE x.n < 4", ["n"], [(2,)]),
    ("SELECT e FROM t LATERAL VIEW explode(array(id, p)) v AS e WHERE id = 3", ["e"], [(3,), (2,)]),
    ("FROM t SELECT id WHERE p = 2", ["id"], [(3,)]),
    ("SELECT 1 AS a, 2 AS a", ["a", "a"], [(1, 2)]),
    ("-- a; comment\nSELECT /* x; */ ';' AS `A b` -- end\n;", ["A b"], [(";",)]),
    ("VALUES (1, 'x')", ["col1", "col2"], [(1, "x")]),
    ("SELECT id FROM t WHERE false", ["id"], []),
]  # fmt: skip


@pytest.mark.spark
@on_sqlite
def test_parameters_and_max_rows(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, b string)")
    session.sql("INSERT INTO t VALUES (:a, :b), (2, :b)", {"a": None, "b": "x'; DROP TABLE t; --"})
    found = session.sql("SELECT a, :n AS n FROM t WHERE b = :b ORDER BY a", {"b": "x'; DROP TABLE t; --", "n": None})
    assert found.rows == [(None, None), (2, None)]
    assert (session.sql("SELECT a FROM t", max_rows=0).columns, session.sql("SELECT a FROM t", max_rows=0).rows) == (
        ["a"],
        [],
    )
    one = session.sql("SELECT a FROM t", max_rows=1)
    assert (len(one.rows), one.truncated) == (1, True)
    both = session.sql("SELECT a FROM t", max_rows=2)
    assert (len(both.rows), both.truncated) == (2, False)
    session.sql("CREATE TABLE u (a int)")
    first = session.sql("SHOW TABLES", max_rows=1)
    assert (first.rows, first.truncated) == ([("t",)], True)
    assert not session.sql("SHOW TABLES", max_rows=2).truncated
    with pytest.raises(InvalidParametersError, match="max_rows"):
        session.sql("SELECT a FROM t", max_rows=-1)


# -- clusters ----------------------------------------------------------------------------


def test_clusters_are_shown_used_and_explained(session: Session) -> None:
    session.sql("USE CLUSTER c2")
    session.sql("CREATE TABLE t2 (a int)")
    assert [row[3:6] for row in session.sql("SHOW CLUSTERS").rows] == [
        (True, False, "usable"),
        (False, True, "usable"),
        (False, False, "usable"),
    ]
    session.sql("USE CLUSTER")
    session.sql("CREATE TABLE t1 (a int)")
    explained = session.sql("EXPLAIN ROUTE INSERT INTO t1 SELECT * FROM t2")
    assert explained.cluster is None
    assert [row[:2] for row in explained.rows] == [("c1", False)]
    assert "default.t2 (primary c2) is not there" in str(explained.rows)
    assert session.sql("EXPLAIN ROUTE SELECT * FROM t2").rows[0][:2] == ("c2", True)
    with pytest.raises(InvalidOperationError, match="EXPLAIN ROUTE on LOAD DATA is refused"):
        session.explain("LOAD DATA INPATH '/x' INTO TABLE t1")


@pytest.mark.spark
@on_sqlite
def test_added_columns_are_null_in_the_rows_before(session: Session) -> None:
    session.sql("CREATE TABLE t (a int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    session.sql("ALTER TABLE t ADD COLUMNS (b string COMMENT 'new', c struct<x:int>)")
    session.sql("ALTER TABLE t ADD COLUMN d decimal(3,1)")
    session.sql("INSERT INTO t SELECT 3, 'b', named_struct('x', 1), 1.5, 1")
    session.sql("UPDATE t SET b = 'updated' WHERE a = 2")
    assert session.sql("SELECT a, b, c.x, CAST(d AS STRING), p FROM t ORDER BY a").rows == [
        (1, None, None, None, 1),
        (2, "updated", None, None, 2),
        (3, "b", 1, "1.5", 1),
    ]
    assert ("b", "string", "new") in session.sql("DESCRIBE t").rows
    for columns, says in (("(A int)", "a twice"), ("(p int)", "p twice"), ("(__kind int)", "reserved")):
        with pytest.raises(InvalidObjectError, match=says):
            session.sql(f"ALTER TABLE t ADD COLUMNS {columns}")


@on_sqlite
def test_a_renamed_table_keeps_its_rows_and_frees_its_name(session: Session) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE TABLE taken (a int)")
    with pytest.raises(AlreadyExistsError, match="taken"):
        session.sql("ALTER TABLE t RENAME TO taken")
    with pytest.raises(NoSuchDatabaseError, match="other"):
        session.sql("ALTER TABLE t RENAME TO other.u")
    session.sql("ALTER TABLE t RENAME TO default.u")
    session.sql("CREATE TABLE t (b string)")
    session.sql("INSERT INTO t VALUES ('new')")
    session.sql("INSERT INTO u VALUES (2)")
    assert names(session, "SHOW TABLES") == ["t", "taken", "u"]
    assert names(session, "SELECT a FROM u ORDER BY a") == [1, 2]
    assert names(session, "SELECT b FROM t") == ["new"]
    session.sql("DROP TABLE t")
    assert names(session, "SELECT count(*) FROM u") == [2]
