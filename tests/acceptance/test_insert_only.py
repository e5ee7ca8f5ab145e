"""Insert-only tables: transactional, of any format, without row ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

FORMATS = ["orc", "parquet", "json", "textfile"]


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def create(session: Session, format: str, columns: str = "id int, v string", more: str = "") -> None:
    session.sql(
        f"CREATE TABLE t ({columns}) {more} STORED AS {format} "
        "TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only')"
    )


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_inserted_and_overwritten_in_transactions(session: Session, tmp_path: Path, format: str) -> None:
    create(session, format, more="PARTITIONED BY (p string)")
    done = session.sql("INSERT INTO t VALUES (1, 'a', 'x/y'), (2, NULL, 'x/y'), (3, 'tab\\tand \"quote\"', NULL)")
    assert done.rows_written == 3
    session.sql("INSERT INTO t SELECT id + 10, v, 'z' FROM t WHERE p = 'x/y'")
    assert rows(session, "SELECT id, p FROM t ORDER BY id") == [(1, "x/y"), (2, "x/y"), (3, None), (11, "z"), (12, "z")]
    assert rows(session, "SELECT v FROM t WHERE id = 3") == [('tab\tand "quote"',)]
    session.sql("START TRANSACTION")
    session.sql("INSERT OVERWRITE t PARTITION (p = 'z') SELECT id, 'new' FROM t WHERE id = 11")
    assert rows(session, "SELECT * FROM t WHERE p = 'z'") == [(11, "new", "z")]
    session.sql("ROLLBACK")
    assert rows(session, "SELECT count(*) FROM t WHERE p = 'z'") == [(2,)]
    session.sql("INSERT OVERWRITE t PARTITION (p = 'z') SELECT id, 'new' FROM t WHERE id = 11")
    assert rows(session, "SELECT * FROM t WHERE p = 'z'") == [(11, "new", "z")]
    files = sorted(path for path in (tmp_path / "c1" / "default.db" / "t").rglob("*") if path.is_file())
    assert {path.name.partition("_")[2] for path in files if not path.name.startswith(".")} == {"0"}
    assert {path.parent.name.partition("_")[0] for path in files} == {"delta", "base"}
    session.sql("TRUNCATE TABLE t")
    assert rows(session) == []


_ESCAPED = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' STORED AS TEXTFILE"
_OPEN_CSV = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' STORED AS TEXTFILE"
_LINE_ENDS = ["\n", "a\nb", "a\rb", "a\r\nb"]
_ODD = [
    *(
        "",
        " ",
        " a ",
        "\ta\t",
        "\\",
        "a\\",
        "\\N",
        "\\n",
        "\\\\",
        '"',
        '""',
        'a"b',
        '"a"',
        "'",
        ",",
        "a,b",
        ";",
        "|",
        "#",
        "{",
        "[1]",
    ),
    *(
        "\x00",
        "a\x00b",
        "\x01",
        "\x02a\x03",
        "\x0b",
        "\x1a",
        "\x1f",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeffa",
        "é€😀",
        "NULL",
        "null",
        "$1",
    ),
    *(" \ufeff", "a\\,b", 'a\\"b', None, *_LINE_ENDS),
]


@pytest.mark.parametrize(
    ("clauses", "refused"),
    [
        ("STORED AS TEXTFILE", ["\x01", "\\N", *_LINE_ENDS]),
        (_ESCAPED, []),
        ("USING csv", ["\\N", *_LINE_ENDS]),
        (_OPEN_CSV, ["\x1a", *_LINE_ENDS]),
        ("USING json", []),
    ],
    ids=["textfile", "escaped", "csv", "open csv", "json"],
)
def test_a_value_comes_back_as_it_was_or_is_refused(session: Session, clauses: str, refused: list[str]) -> None:
    session.sql(
        f"CREATE TABLE t (id int, v string) {clauses} TBLPROPERTIES ('transactional_properties' = 'insert_only')"
    )
    kept = [(number, value) for number, value in enumerate(_ODD) if value not in refused]
    values = {f"v{number}": value for number, value in kept}
    done = session.sql(f"INSERT INTO t VALUES {', '.join(f'({n}, :v{n})' for n, _ in kept)}", values)
    assert done.rows_written == len(kept)
    assert rows(session, "SELECT * FROM t ORDER BY id") == kept
    for value in refused[:3]:
        with pytest.raises(InvalidOperationError, match=r"nothing was written.* column .*v"):
            session.sql("INSERT INTO t VALUES (-1, 'fine'), (-2, :value)", {"value": value})
    assert rows(session, "SELECT count(*) FROM t") == [(len(kept),)]


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("format", ["textfile", "csv", "json"])
def test_types_of_text_come_back_as_they_were(session: Session, format: str) -> None:
    columns = (
        "id int, b boolean, d decimal(38,10), f float, e double, c char(3), h varchar(3), n binary, day date, "
        "t timestamp, z timestamp_ntz"
    )
    values = (
        "id, id = 1, 1.5, 1e-3, CAST('NaN' AS DOUBLE), 'a', ' b', X'00ff0a', DATE '0999-02-28', "
        "TIMESTAMP '2024-10-27 01:02:03.123456', TIMESTAMP_NTZ '1969-12-31 23:59:59.000001'"
    )
    if format != "csv":
        columns += ", a array<int>, m map<string,array<string>>, s struct<x:double,y:string>"
        values += ", array(1, NULL), map('k', array('', 'x'), 'l', NULL)"
        values += ", named_struct('x', CAST('-Infinity' AS DOUBLE), 'y', '')"
    else:
        # It writes these as a text that they are not read from.
        values = values.replace("X'00ff0a'", "NULL")
    create(session, format, columns)
    session.sql(f"CREATE TABLE plain ({columns})")
    session.sql(f"INSERT INTO plain SELECT {values} FROM range(2) r(id)")
    expected = rows(session, "SELECT * FROM plain ORDER BY id")
    session.sql("INSERT INTO t SELECT * FROM plain")
    session.sql("INSERT INTO t (id) VALUES (9)")
    found = rows(session, "SELECT * FROM t ORDER BY id")
    assert found[2] == (9, *[None] * (len(found[2]) - 1))
    # As text, since no NaN is equal to another.
    assert repr(found[:2]) == repr(expected)


def test_compressed_text_is_read_by_the_ends_of_its_names(session: Session, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE t (id int, v string) USING textfile OPTIONS (compression 'gzip') "
        "TBLPROPERTIES ('transactional_properties' = 'insert_only')"
    )
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT OVERWRITE t SELECT id + 1, v FROM t")
    assert rows(session) == [(2, "a"), (3, "b")]
    assert {path.name[6:] for path in (tmp_path / "c1").rglob("0*")} == {"_0.gz"}


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_types_nested_buckets_and_columns(session: Session, format: str) -> None:
    create(
        session,
        format,
        "id int, d decimal(10,2), s struct<a:int,b:array<string>>, t timestamp",
        "CLUSTERED BY (id) INTO 3 BUCKETS",
    )
    session.sql(
        "INSERT INTO t SELECT id, id / 4, named_struct('a', id, 'b', array('x', NULL)), "
        "TIMESTAMP '2020-01-01 00:00:00' FROM range(5) r(id)"
    )
    assert rows(session, "SELECT sum(d), max(s.a), max(s.b[0]), count(DISTINCT t) FROM t") == [
        (session.sql("SELECT CAST(2.50 AS DECIMAL(20,2))").rows[0][0], 4, "x", 1)
    ]
    session.sql("ALTER TABLE t RENAME COLUMN d TO amount")
    session.sql("ALTER TABLE t DROP COLUMN t")
    session.sql("ALTER TABLE t ADD COLUMNS (t string)")
    session.sql("INSERT INTO t SELECT 9, 1, NULL, 'text'")
    assert rows(session, "SELECT id, amount, t FROM t WHERE id > 3") == [
        (4, session.sql("SELECT CAST(1 AS DECIMAL(10,2))").rows[0][0], None),
        (9, session.sql("SELECT CAST(1 AS DECIMAL(10,2))").rows[0][0], "text"),
    ]
    (statement,) = rows(session, "SHOW CREATE TABLE t")[0]
    session.sql("DROP TABLE t")
    session.sql(str(statement))
    assert rows(session) == []


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize(
    "clause", ["USING parquet", "STORED AS PARQUET", "STORED AS JSONFILE", "USING csv", "ROW FORMAT DELIMITED"]
)
def test_a_table_of_another_format_is_insert_only(session: Session, metastore: Metastore, clause: str) -> None:
    session.sql(f"CREATE TABLE t {clause} AS SELECT 1 AS id, 'a' AS v")
    session.sql("INSERT INTO t VALUES (2, 'b')")
    assert rows(session) == [(1, "a"), (2, "b")]
    table = metastore.catalog.get_table("default", "t")
    assert (table.is_insert_only, table.is_external) == (True, False)


def test_a_reader_keeps_its_snapshot_and_nothing_is_left_by_a_failure(session: Session, metastore: Metastore) -> None:
    create(session, "parquet")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    with metastore.session(user="reader") as reader:
        reader.sql("START TRANSACTION")
        assert rows(reader) == [(1, "a")]
        session.sql("INSERT INTO t VALUES (2, 'b')")
        with pytest.raises(JobError, match="ivi"):
            session.sql("INSERT INTO t SELECT 1 / (id - 2), v FROM t")
        assert rows(reader) == [(1, "a")]
        reader.sql("COMMIT")
        assert rows(reader) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM t", "UPDATE t SET v = 'x'", "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN DELETE"],
)
def test_its_rows_cannot_be_changed(session: Session, statement: str) -> None:
    create(session, "parquet")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(InvalidOperationError, match="insert-only"):
        session.sql(statement)
    assert rows(session) == [(1, "a")]


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("USING xml TBLPROPERTIES ('transactional_properties' = 'insert_only')", "not xml"),
        ("STORED AS SEQUENCEFILE", "a managed table is stored as one of avro, .*, not sequencefile"),
        ("STORED AS PARQUET TBLPROPERTIES ('transactional_properties' = 'default')", "stored as ORC, not parquet"),
        ("TBLPROPERTIES ('transactional_properties' = 'some')", "neither default nor insert_only"),
        (
            "TBLPROPERTIES ('transactional_properties' = 'insert_only', 'hivex.row.layout' = 'flat')",
            "has no hivex.row.layout",
        ),
    ],
)
def test_kinds_of_tables_that_are_not_there_are_refused(session: Session, clauses: str, reason: str) -> None:
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(f"CREATE TABLE t (id int) {clauses}")
    assert rows(session, "SHOW TABLES") == []
