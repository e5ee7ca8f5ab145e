"""External tables over real files of every format that Spark reads."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
JSON = "org.apache.hadoop.hive.serde2.JsonSerDe"
INPUT = "org.apache.hadoop.mapred.TextInputFormat"
OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"

TABLE = pa.table(
    {
        "id": pa.array([1, 2], pa.int32()),
        "name": pa.array(["a,é", None], pa.string()),
        "amount": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "day": pa.array([date(2024, 2, 29), None], pa.date32()),
    }
)
COLUMNS = "(id int, name string, amount decimal(10,2), day date)"
ROWS = [(1, "a,é", Decimal("1.50"), date(2024, 2, 29)), (2, None, None, None)]

Maker = Callable[[Path], object]


def text(content: str) -> Maker:
    return lambda path: path.write_text(content, encoding="utf-8")


FORMATS: dict[str, tuple[str, Maker]] = {
    "orc": ("STORED AS ORC", lambda path: orc.write_table(TABLE, str(path))),
    "parquet": ("USING parquet", lambda path: parquet.write_table(TABLE, path)),
    "csv": (
        "USING csv OPTIONS (header 'true', sep ';', nullValue 'NA')",
        text('id;name;amount;day\n1;"a,é";1.50;2024-02-29\n2;NA;NA;NA\n'),
    ),
    "json": (
        "USING json",
        text('{"id": 1, "name": "a,é", "amount": 1.50, "day": "2024-02-29"}\n{"id": 2, "name": null}\n'),
    ),
    "xml": (
        "USING xml OPTIONS (rowTag 'row')",
        text(
            "<rows><row><id>1</id><name>a,é</name><amount>1.50</amount><day>2024-02-29</day></row>"
            "<row><id>2</id></row></rows>"
        ),
    ),
    "delimited": (
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' NULL DEFINED AS '-' STORED AS TEXTFILE",
        text("1|a,é|1.50|2024-02-29\n2|-|-|-\n"),
    ),
    "hive text": ("STORED AS TEXTFILE", text("1\x01a,é\x011.50\x012024-02-29\n2\x01\\N\x01\\N\x01\\N\n")),
    "open csv": (
        f"ROW FORMAT SERDE '{OPEN_CSV}' WITH SERDEPROPERTIES ('separatorChar' = ',', 'quoteChar' = \"'\") "
        "STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count' = '1')",
        text("id,name,amount,day\n1,'a,é',1.50,2024-02-29\n2\n"),
    ),
    "lazy simple": (
        f"ROW FORMAT SERDE '{LAZY}' WITH SERDEPROPERTIES ('field.delim' = '\\t', 'serialization.format' = '\\t') "
        f"STORED AS INPUTFORMAT '{INPUT}' OUTPUTFORMAT '{OUTPUT}'",
        text("1\ta,é\t1.50\t2024-02-29\n2\t\\N\t\\N\t\\N\n"),
    ),
    "json serde": (
        f"ROW FORMAT SERDE '{JSON}' STORED AS TEXTFILE",
        text('{"id": 1, "name": "a,é", "amount": 1.50, "day": "2024-02-29"}\n{"id": 2}\n'),
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "c1"


def test_every_format_is_read_with_its_types_and_partitions(session: Session, root: Path) -> None:
    for number, (name, (clauses, make)) in enumerate(FORMATS.items()):
        folder = root / f"e{number}"
        (folder / "p=x").mkdir(parents=True)
        make(folder / "p=x" / "data")
        location = f"LOCATION 'e{number}'"
        partitioned = "PARTITIONED BY (p string)"
        # The clauses may stand in any order.
        session.sql(f"CREATE EXTERNAL TABLE e{number} {COLUMNS} {partitioned} {clauses} {location}")
        assert session.sql(f"SELECT * FROM e{number}").rows == [], name
        session.sql(f"ALTER TABLE e{number} ADD PARTITION (p = 'x')")
        session.sql(f"ALTER TABLE e{number} ADD PARTITION (p = 'y') LOCATION 'e{number}/p=x'")
        found = session.sql(f"SELECT * FROM e{number} ORDER BY p, id").rows
        assert found == [(*row, p) for p in ("x", "y") for row in ROWS], name
        assert session.sql(f"SELECT count(*), max(day) FROM e{number} WHERE p = 'y' AND id < 2").rows == [
            (1, ROWS[0][3])
        ], name
        session.sql(f"CREATE EXTERNAL TABLE f{number} {COLUMNS} {clauses} LOCATION 'e{number}/p=x'")
        assert session.sql(f"SELECT * FROM f{number} ORDER BY id").rows == ROWS, name
        (statement,) = session.sql(f"SHOW CREATE TABLE e{number}").rows[0]
        session.sql(f"DROP TABLE e{number}")
        session.sql(str(statement))
        session.sql(f"ALTER TABLE e{number} ADD PARTITION (p = 'x')")
        assert session.sql(f"SELECT * FROM e{number} ORDER BY id").rows == [(*row, "x") for row in ROWS], name


def test_formats_with_columns_of_their_own_need_no_column_list(session: Session, root: Path) -> None:
    (root / "lines" / "p=1").mkdir(parents=True)
    (root / "lines" / "p=1" / "a.txt").write_text('one, "two"\n\nthree\n')
    session.sql("CREATE EXTERNAL TABLE lines USING text LOCATION 'lines/p=1'")
    assert session.sql("SELECT value FROM lines ORDER BY 1").rows == [("",), ('one, "two"',), ("three",)]
    session.sql("CREATE EXTERNAL TABLE parted (line string) USING text PARTITIONED BY (p int) LOCATION 'lines'")
    session.sql("ALTER TABLE parted ADD PARTITION (p = 1)")
    assert session.sql("SELECT max(line), max(p) FROM parted").rows == [("three", 1)]
    session.sql("CREATE EXTERNAL TABLE files USING binaryFile OPTIONS (pathGlobFilter '*.txt') LOCATION 'lines/p=1'")
    ((path, length, content),) = session.sql(
        "SELECT path, length, content FROM files WHERE modificationTime > DATE '2001-01-01'"
    ).rows
    assert str(path).endswith("/lines/p=1/a.txt")
    assert content == (root / "lines" / "p=1" / "a.txt").read_bytes()
    assert length == len(content)


def test_no_line_of_hive_text_is_lost_and_no_value_changed(session: Session, root: Path) -> None:
    (root / "q").mkdir(parents=True)
    lines = ['1\x01"a', "2\x01\\N", "3\x01", "\\N\x01\\N", "\x01", " \x01 ", "4", "5\x01b\x01more", ""]
    (root / "q" / "data").write_text("\n".join(lines) + "\n")
    with gzip.open(root / "q" / "packed.gz", "wt") as file:
        file.write("6\x01packed\n\x01\n")
    session.sql("CREATE EXTERNAL TABLE q (id int, v string) STORED AS TEXTFILE LOCATION 'q'")
    rows = [(1, '"a'), (2, None), (3, ""), (None, None), (None, ""), (None, " "), (4, None), (5, "b"), (None, None)]
    key = repr
    assert sorted(session.sql("SELECT * FROM q").rows, key=key) == sorted([*rows, (6, "packed"), (None, "")], key=key)
    assert session.sql("SELECT count(*) FROM q").rows == [(11,)]
    session.sql("CREATE EXTERNAL TABLE lines (line string) STORED AS TEXTFILE LOCATION 'q'")
    assert session.sql("SELECT count(*), count(line) FROM lines").rows == [(11, 10)]


def test_collections_of_hive_text_are_read_with_their_separators(session: Session, root: Path) -> None:
    (root / "c").mkdir(parents=True)
    (root / "c" / "data").write_text("a|b\\|c;k=1|l=x;1|x=y;tail\\;\\n;\\N\n;;;;-\n")
    session.sql(
        "CREATE EXTERNAL TABLE c (a array<string>, m map<string,int>, s struct<n:int,l:map<string,string>>, v string, "
        "w varchar(2)) ROW FORMAT DELIMITED FIELDS TERMINATED BY ';' ESCAPED BY '\\\\' "
        "COLLECTION ITEMS TERMINATED BY '|' "
        "MAP KEYS TERMINATED BY '=' LINES TERMINATED BY '\\n' NULL DEFINED AS '-' STORED AS TEXTFILE LOCATION 'c'"
    )
    found = session.sql("SELECT a, m, s.n, v, w FROM c ORDER BY size(a) DESC").rows
    assert found == [
        (["a", "b|c"], {"k": 1, "l": None}, 1, "tail;\n", "N"),
        ([], {}, None, "", None),
    ]
    (statement,) = session.sql("SHOW CREATE TABLE c").rows[0]
    assert "LazySimpleSerDe' WITH SERDEPROPERTIES ('collection.delim' = '|', 'escape.delim' = '\\\\'" in str(statement)
    session.sql("DROP TABLE c")
    session.sql(str(statement))
    assert session.sql("SELECT a, m, s.n, v, w FROM c ORDER BY size(a) DESC").rows == found


def test_header_and_footer_lines_of_hive_text_are_skipped_in_each_file(session: Session, root: Path) -> None:
    for part in ("p=1", "p=2"):
        (root / "h" / part).mkdir(parents=True)
        for name in ("a", "b"):
            (root / "h" / part / name).write_text("head 1\nhead 2\n" + f"{part}{name}\n" * 3 + "foot\n")
    session.sql(
        "CREATE EXTERNAL TABLE h (v string) PARTITIONED BY (p int) STORED AS TEXTFILE LOCATION 'h' "
        "TBLPROPERTIES ('skip.header.line.count' = '2', 'skip.footer.line.count' = '1')"
    )
    session.sql("ALTER TABLE h ADD PARTITION (p = 1) PARTITION (p = 2)")
    counted = "SELECT p, v, count(*) FROM h GROUP BY ALL ORDER BY ALL"
    rows = [(p, f"p={p}{name}", 3) for p in (1, 2) for name in ("a", "b")]
    assert session.sql(counted).rows == rows
    session.sql("ALTER TABLE h SET TBLPROPERTIES ('skip.footer.line.count' = '0')")
    assert session.sql(counted).rows == [
        (p, v, n) for p in (1, 2) for v, n in [("foot", 2), *((r[1], 3) for r in rows if r[0] == p)]
    ]
    session.sql(
        "ALTER TABLE h SET TBLPROPERTIES ('skip.header.line.count' = '0', 'serialization.null.format' = 'foot')"
    )
    assert session.sql("SELECT count(*), count(v) FROM h WHERE p = 1").rows == [(12, 10)]


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("ROW FORMAT DELIMITED FIELDS TERMINATED BY '||'", "one ASCII character"),
        ("ROW FORMAT DELIMITED FIELDS TERMINATED BY 'þ'", "one ASCII character"),
        ("ROW FORMAT DELIMITED LINES TERMINATED BY ';'", "takes '.n' only"),
        (
            f"ROW FORMAT SERDE '{LAZY}' WITH SERDEPROPERTIES ('serialization.encoding' = 'UTF-16')",
            "UTF-16 are not read",
        ),
        ("STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count' = 'one')", "not a whole number"),
    ],
)
def test_text_that_is_not_read_is_refused_when_its_table_is_made(session: Session, clauses: str, reason: str) -> None:
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(f"CREATE EXTERNAL TABLE t (v string) {clauses} LOCATION 't'")
    assert session.sql("SHOW TABLES").rows == []


def test_avro_names_the_package_that_is_missing(session: Session, root: Path) -> None:
    (root / "a").mkdir(parents=True)
    session.sql("CREATE EXTERNAL TABLE a (id int) STORED AS AVRO LOCATION 'a'")
    with pytest.raises(JobError, match=r"org\.apache\.spark:spark-avro_2\.13:.*spark\.jars"):
        session.sql("SELECT * FROM a")
    session.sql("CREATE TABLE i (id int) STORED AS AVRO TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    with pytest.raises(JobError, match="spark-avro"):
        session.sql("INSERT INTO i SELECT id FROM range(3)")
    assert session.sql("SELECT * FROM i").rows == []


def test_partition_of_another_format_is_kept_and_not_read_as_its_table(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE EXTERNAL TABLE parted (id int) PARTITIONED BY (p int) STORED AS PARQUET")
    catalog = metastore.catalog
    table = catalog.get_table("default", "parted")
    place = replace(table.storage.primary, location="")
    alike = replace(table.storage, primary=place, serde_parameters={"serialization.format": "1"})
    for value, storage in ((1, alike), (2, replace(alike, format="csv", serde_parameters={"sep": ";"}))):
        new = replace(catalog.new_partition(table, [value]), storage=storage)
        catalog.add_partitions("default", "parted", [new])
    assert session.explain("SELECT * FROM parted WHERE p = 1").cluster == "c1"
    with pytest.raises(InvalidOperationError, match=r"partition p=2 is stored as csv"):
        session.sql("SELECT * FROM parted")
    assert ("Provider", "csv", "") in session.sql("DESCRIBE EXTENDED parted PARTITION (p = 2)").rows


def test_files_of_europes_excel_are_read_as_they_are_meant(session: Session, root: Path) -> None:
    folder = root / "excel"
    folder.mkdir(parents=True)
    rows = "name;amount\r\nCafé „Zürich“ 5 €;1234,50\r\nÅrhus;0,75\r\n"
    (folder / "sales 2026.csv").write_bytes(rows.encode("windows-1252"))
    options = "header 'true', sep ';', encoding 'windows-1252', locale 'de-DE'"
    session.sql(
        f"CREATE EXTERNAL TABLE excel (name STRING, amount DECIMAL(10,2)) USING csv OPTIONS ({options}) "
        "LOCATION 'excel'"
    )
    found = session.sql("SELECT * FROM excel ORDER BY amount").rows
    assert found == [("Århus", Decimal("0.75")), ("Café „Zürich“ 5 €", Decimal("1234.50"))]


def test_a_locale_counts_for_decimals_alone(session: Session, root: Path) -> None:
    folder = root / "numbers"
    folder.mkdir(parents=True)
    (folder / "part.csv").write_text("1;1.234,50;1,5;1.234\n2;1234.50;1.234;1234\n")
    columns = "(k INT, amount DECIMAL(12,2), ratio DOUBLE, number INT) USING csv"
    for name, option, amounts in (
        ("german", ", locale 'de-DE'", [Decimal("1234.50"), Decimal("123450.00")]),
        ("none", "", [Decimal("1.23"), Decimal("1234.50")]),
    ):
        session.sql(f"CREATE EXTERNAL TABLE {name} {columns} OPTIONS (sep ';'{option}) LOCATION 'numbers'")
        assert session.sql(f"SELECT amount, ratio, number FROM {name} ORDER BY k").rows == [
            (amounts[0], None, None),
            (amounts[1], 1.234, 1234),
        ]
    (folder / "part.csv").write_text("1;1234,50;1;1\n")
    assert session.sql("SELECT amount FROM none").rows == [(Decimal("123450.00"),)]
    # Spark takes these for a locale without a language: 1234,50 would be 123450.
    for wrong in ("de_DE", "german", ""):
        with pytest.raises(InvalidObjectError, match=r"locale '\w*' is not a language and a region"):
            session.sql(f"CREATE EXTERNAL TABLE other {columns} OPTIONS (Locale '{wrong}') LOCATION 'numbers'")
    with pytest.raises(InvalidObjectError, match=r"locale 'de_DE' is not"):
        session.sql("ALTER TABLE german SET SERDEPROPERTIES ('locale' = 'de_DE')")


def test_rows_of_other_lengths_are_cut_filled_dropped_or_refused_with_their_file(session: Session, root: Path) -> None:
    folder = root / "uneven"
    folder.mkdir(parents=True)
    (folder / "part 1.csv").write_text("1;a\n2;b;more\n3\n")
    for mode, rows in (
        ("PERMISSIVE", [(1, "a"), (2, "b"), (3, None)]),
        ("DROPMALFORMED", [(1, "a")]),
    ):
        session.sql(
            f"CREATE EXTERNAL TABLE {mode} (id INT, v STRING) USING csv OPTIONS (sep ';', mode '{mode}') "
            "LOCATION 'uneven'"
        )
        assert session.sql(f"SELECT id, v FROM {mode} ORDER BY id").rows == rows
        # Spark parses no column that a query does not read.
        assert session.sql(f"SELECT count(*) FROM {mode}").rows == [(3,)]
    session.sql(
        "CREATE EXTERNAL TABLE strict (id INT, v STRING) USING csv OPTIONS (sep ';', mode 'FAILFAST') LOCATION 'uneven'"
    )
    with pytest.raises(JobError, match=r"2;b;more, in the file \S+/uneven/part 1\.csv"):
        session.sql("SELECT id, v FROM strict")
