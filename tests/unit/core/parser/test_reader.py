"""Statements that define and show things are read exactly, and all others are refused by name."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.objects import Column, Skew, SortColumn
from airflow_hivex.core.model.predicates import And, ColumnReference, Comparison, IsNull, Not
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    AddLinkPartitions,
    AddPartitions,
    AlterDatabase,
    CommentOn,
    CreateDatabase,
    CreateLink,
    CreateTable,
    CreateTableLike,
    DescribeDatabase,
    DescribeFunction,
    DescribeQuery,
    DescribeTable,
    DropDatabase,
    DropLink,
    DropLinkPartitions,
    DropPartitions,
    DropTable,
    ExplainQuery,
    ExplainRoute,
    Insert,
    Literal,
    RoutedStatement,
    Select,
    SetLinkProperties,
    SetTableProperties,
    ShowClusters,
    ShowColumns,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowDatabases,
    ShowFunctions,
    ShowLinks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    Statement,
    TableName,
    Truncate,
    UseCluster,
    UseDatabase,
)

T = TableName("t")
DB_T = TableName("t", "db")
DS, HR = ColumnReference("ds"), ColumnReference("hr")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USE CLUSTER c1", UseCluster("c1")),
        ("use cluster C1;", UseCluster("C1")),
        ("USE CLUSTER us-east-1", UseCluster("us-east-1")),
        ("USE CLUSTER 'My Cluster'", UseCluster("My Cluster")),
        ("USE CLUSTER `c 1`", UseCluster("c 1")),
        ("USE CLUSTER", UseCluster(None)),
        ("USE `cluster`", UseDatabase("cluster")),
        ("USE Db", UseDatabase("db")),
        ("USE DATABASE db", UseDatabase("db")),
        ("USE SCHEMA db", UseDatabase("db")),
        ("USE database", UseDatabase("database")),
        ("SHOW CLUSTERS", ShowClusters()),
        ("SHOW DATABASES", ShowDatabases()),
        ("SHOW CURRENT SCHEMA", ShowCurrentNamespace()),
        ("SHOW SCHEMAS LIKE 'a*'", ShowDatabases("a*")),
        ("SHOW NAMESPACES 'a*'", ShowDatabases("a*")),
        ("SHOW TABLES", ShowTables()),
        ("SHOW TABLES IN Db", ShowTables("db")),
        ("SHOW TABLES FROM `db` LIKE 'a|b'", ShowTables("db", "a|b")),
        ("SHOW TABLES 'a*'", ShowTables(None, "a*")),
        ("SHOW PARTITIONS db.t", ShowPartitions(DB_T)),
        ("SHOW COLUMNS IN t", ShowColumns(T)),
        ("SHOW FUNCTIONS", ShowFunctions()),
        ("SHOW USER FUNCTIONS IN d 'a*'", ShowFunctions("a*", "d", "USER")),
        ("SHOW ALL FUNCTIONS LIKE 'a*'", ShowFunctions("a*")),
        ("SHOW SYSTEM FUNCTIONS lower", ShowFunctions("lower", scope="SYSTEM")),
        ("DESCRIBE FUNCTION lower", DescribeFunction("lower")),
        ("DESC FUNCTION EXTENDED !=", DescribeFunction("!=", extended=True)),
        ("DESCRIBE FUNCTION 'x'", DescribeFunction("x")),
        ("DESCRIBE function", DescribeTable(TableName("function"))),
        ("SHOW SORTED COLUMNS FROM t IN db LIKE 'a*'", ShowColumns(DB_T, "a*", is_sorted=True)),
        ("SHOW COLUMNS FROM db.t IN db 'a|b'", ShowColumns(DB_T, "a|b")),
        ("SHOW TBLPROPERTIES db.t", ShowTableProperties(DB_T)),
        ("SHOW TBLPROPERTIES t ('a.B')", ShowTableProperties(T, "a.B")),
        ("SHOW TBLPROPERTIES t (a.B)", ShowTableProperties(T, "a.B")),
        ("COMMENT ON SCHEMA db IS 'x'", CommentOn("x", database="db")),
        ("COMMENT ON TABLE db.t IS NULL", CommentOn(None, table=DB_T)),
        ("COMMENT ON COLUMN db.t.`A b` IS ''", CommentOn("", table=DB_T, column="a b")),
        ("COMMENT ON COLUMN t.a IS 'x'", CommentOn("x", table=T, column="a")),
        ("TRUNCATE t", Truncate(T)),
        ("TRUNCATE db.t PARTITION (ds = '1')", Truncate(DB_T, Comparison(DS, "=", "1"))),
        ("CREATE LINK TO T@Y", CreateLink(TableName("t", namespace="y"))),
        (
            "CREATE STATIC TABLELINK IF NOT EXISTS TO x.`t` @ `y` LINKPROPERTIES ('RETENTION'='7')",
            CreateLink(TableName("t", "x", "y"), static=True, if_not_exists=True, properties={"RETENTION": "7"}),
        ),
        ("DROP LINK TO t@y", DropLink(TableName("t", namespace="y"))),
        ("DROP TABLELINK IF EXISTS to@y", DropLink(TableName("to", namespace="y"), if_exists=True)),
        ("DROP LINK t", DropLink(TableName("t"))),
        (
            "ALTER LINK t@y ADD IF NOT EXISTS PARTITION (ds=1) PARTITION (ds=2), PARTITION (ds=3)",
            AddLinkPartitions(
                TableName("t", namespace="y"), tuple({"ds": Literal(day, "int")} for day in (1, 2, 3)), True
            ),
        ),
        (
            "ALTER TABLELINK t@y DROP IF EXISTS PARTITION (ds < 1)",
            DropLinkPartitions(TableName("t", namespace="y"), (Comparison(ColumnReference("ds"), "<", 1),), True),
        ),
        ("ALTER LINK t@y SET LINKPROPERTIES (a = 1)", SetLinkProperties(TableName("t", namespace="y"), {"a": "1"})),
        (
            "ALTER LINK t@y UNSET LINKPROPERTIES IF EXISTS ('a')",
            SetLinkProperties(TableName("t", namespace="y"), unset=("a",), if_exists=True),
        ),
        ("SHOW LINKS", ShowLinks()),
        ("SHOW LINKS TO d.t", ShowLinks(table=TableName("t", "d"))),
        ("SHOW LINKS IN x LIKE 't*'", ShowLinks("x", "t*")),
        ("DESCRIBE LINK FORMATTED t@y", DescribeTable(TableName("t", namespace="y"), extended=True, as_link=True)),
        ("DESCRIBE link@y", DescribeTable(TableName("link", namespace="y"))),
        ("DESCRIBE link x", DescribeTable(TableName("link"), column="x")),
        ("DROP TABLE t PURGE CASCADE", DropTable(TableName("t"), cascade=True)),
        ("DROP TABLE t@y", DropTable(TableName("t", namespace="y"))),
        ("SHOW PARTITIONS t@y", ShowPartitions(TableName("t", namespace="y"))),
        (
            "SHOW PARTITIONS t PARTITION (ds='1', hr=2)",
            ShowPartitions(T, And((Comparison(DS, "=", "1"), Comparison(HR, "=", 2)))),
        ),
        (
            "SHOW PARTITIONS db.t WHERE DS >= '1' AND hr <> 2 ORDER BY hr DESC, `Ds` LIMIT 3",
            ShowPartitions(
                DB_T,
                condition=And((Comparison(DS, ">=", "1"), Comparison(HR, "<>", 2))),
                order_by=(SortColumn("hr", ascending=False), SortColumn("ds")),
                limit=3,
            ),
        ),
        (
            "SHOW PARTITIONS t PARTITION (hr = 2) WHERE ds IS NOT NULL LIMIT 0",
            ShowPartitions(T, Comparison(HR, "=", 2), Not(IsNull(DS)), limit=0),
        ),
        ("SHOW CREATE TABLE `Db`.`T`", ShowCreateTable(DB_T)),
        ("SHOW CREATE TABLE `Db`.`T` AS SERDE", ShowCreateTable(DB_T, as_serde=True)),
        ("DESCRIBE t", DescribeTable(T)),
        ("DESC TABLE db.t", DescribeTable(DB_T)),
        ("DESC EXTENDED t", DescribeTable(T, extended=True)),
        ("DESC EXTENDED t AS JSON", DescribeTable(T, extended=True, as_json=True)),
        ("DESCRIBE TABLE FORMATTED t", DescribeTable(T, extended=True)),
        ("DESC DATABASE db", DescribeDatabase("db")),
        ("DESCRIBE SCHEMA EXTENDED db", DescribeDatabase("db", extended=True)),
        ("CREATE DATABASE db", CreateDatabase("db")),
        (
            "CREATE SCHEMA IF NOT EXISTS Db LOCATION '/x' COMMENT 'it''s' WITH DBPROPERTIES (a.B = 'c', 'd' = 1)",
            CreateDatabase("db", True, "it's", "/x", {"a.B": "c", "d": "1"}),
        ),
        ("DROP DATABASE db", DropDatabase("db")),
        ("DROP NAMESPACE IF EXISTS db CASCADE", DropDatabase("db", if_exists=True, cascade=True)),
        ("DROP SCHEMA db RESTRICT", DropDatabase("db")),
        ("ALTER DATABASE db SET DBPROPERTIES ('a' = 'b')", AlterDatabase("db", properties={"a": "b"})),
        ("ALTER SCHEMA db SET OWNER USER `Bob`", AlterDatabase("db", owner="Bob")),
        ("ALTER DATABASE db SET LOCATION '/x'", AlterDatabase("db", location="/x")),
        ("DROP TABLE db.t", DropTable(DB_T)),
        ("DROP TABLE IF EXISTS t PURGE", DropTable(T, if_exists=True)),
        (
            "ALTER TABLE t ADD IF NOT EXISTS PARTITION (ds='1', hr=NULL) LOCATION '/x' PARTITION (ds='2', hr=-1)",
            AddPartitions(
                T,
                (
                    ({"ds": Literal("1", "string"), "hr": Literal(None, "void")}, "/x"),
                    ({"ds": Literal("2", "string"), "hr": Literal(-1, "int")}, None),
                ),
                if_not_exists=True,
            ),
        ),
        (
            "ALTER TABLE db.t DROP IF EXISTS PARTITION (ds < '2', hr = NULL), PARTITION (hr != 1) PURGE",
            DropPartitions(
                DB_T, (And((Comparison(DS, "<", "2"), IsNull(HR))), Comparison(HR, "<>", 1)), if_exists=True
            ),
        ),
        ("ALTER TABLE t DROP PARTITION (ds <> NULL)", DropPartitions(T, (Not(IsNull(DS)),))),
        (
            "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b', c.d = true, e = -1.5)",
            SetTableProperties(T, set={"a": "b", "c.d": "true", "e": "-1.5"}),
        ),
        (
            "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a', c.d)",
            SetTableProperties(T, unset=("a", "c.d"), if_exists=True),
        ),
    ],
)
def test_statement_is_read(text: str, expected: Statement) -> None:
    assert read(text) == expected


def table(text: str) -> CreateTable:
    statement = read(text)
    assert isinstance(statement, CreateTable)
    return statement


def test_table_in_the_form_of_spark_is_read() -> None:
    assert table(
        """CREATE TABLE IF NOT EXISTS Db.T (Id BIGINT COMMENT 'key', ds STRING)
        TBLPROPERTIES ('transactional' = 'true') COMMENT 'x' USING Parquet OPTIONS (header true, 'sep' = '|')
        LOCATION '/x' PARTITIONED BY (DS) CLUSTERED BY (id) SORTED BY (id DESC, ds) INTO 4 BUCKETS"""
    ) == CreateTable(
        DB_T,
        columns=(Column("id", "bigint", "key"), Column("ds", "string")),
        partition_keys=(Column("ds", ""),),
        if_not_exists=True,
        format="parquet",
        options={"header": "true", "sep": "|"},
        location="/x",
        comment="x",
        properties={"transactional": "true"},
        bucket_columns=("id",),
        sort_columns=(SortColumn("id", ascending=False), SortColumn("ds")),
        num_buckets=4,
    )


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("EXPLAIN SELECT :a", "simple"),
        ("EXPLAIN EXTENDED WITH formatted AS (SELECT 1) SELECT * FROM formatted", "extended"),
        ("EXPLAIN FORMATTED (SELECT 1) UNION SELECT 2", "formatted"),
        ("EXPLAIN CODEGEN VALUES (1)", "codegen"),
        ("EXPLAIN COST FROM t SELECT a", "cost"),
        ("EXPLAIN TABLE t", "simple"),
        ("EXPLAIN INSERT OVERWRITE t SELECT 1", "simple"),
        ("EXPLAIN FORMATTED CREATE TABLE t AS SELECT 1", "formatted"),
    ],
)
def test_query_to_explain_is_read(text: str, mode: str) -> None:
    statement = read(text, {"a": 1} if ":a" in text else None)
    assert isinstance(statement, ExplainQuery)
    assert statement.mode == mode


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("EXPLAIN INSERT INTO t VALUES (DEFAULT)", 9, "plan of a query, and not of INSERT; EXPLAIN ROUTE shows where"),
        ("EXPLAIN EXTENDED DROP TABLE t", 18, "plan of a query, and not of DROP TABLE"),
        ("EXPLAIN SHOW TABLES", 9, "plan of a query, and not of SHOW TABLES"),
    ],
)
def test_plans_of_other_statements_are_refused(text: str, column: int, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=reason) as error:
        read(text)
    assert error.value.column == column


def test_table_like_another_one_is_read() -> None:
    assert read("CREATE TABLE Db.T LIKE u@y") == CreateTableLike(CreateTable(DB_T), TableName("u", namespace="y"))
    assert read(
        "CREATE EXTERNAL TABLE IF NOT EXISTS t LIKE like TBLPROPERTIES (a = 1) LOCATION '/x' USING csv"
    ) == CreateTableLike(
        CreateTable(T, external=True, if_not_exists=True, format="csv", location="/x", properties={"a": "1"}),
        TableName("like"),
    )
    for clause in ("COMMENT 'x'", "PARTITIONED BY (a)", "CLUSTERED BY (a) INTO 2 BUCKETS", "OPTIONS (a 'b')"):
        with pytest.raises(StatementSyntaxError, match=f"takes what {clause.split()[0]} says from its source"):
            read(f"CREATE TABLE t LIKE u {clause}")
    for text in ("CREATE TABLE t LIKE u AS SELECT 1", "CREATE TABLE t LIKE u (a INT)", "CREATE TABLE t@y LIKE u"):
        with pytest.raises(StatementSyntaxError):
            read(text)


@pytest.mark.parametrize(
    ("clause", "skew"),
    [
        ("SKEWED BY (A) ON (1, -2.50, 'x''y')", Skew(("a",), (("1",), ("-2.50",), ("x'y",)))),
        ("SKEWED BY (a) ON (('x'), (TRUE))", Skew(("a",), (("x",), ("true",)))),
        ("SKEWED BY (a, b) ON ((1, 'x'), (2, 'y')) STORED AS ORC", Skew(("a", "b"), (("1", "x"), ("2", "y")))),
    ],
)
def test_values_of_many_rows_are_read(clause: str, skew: Skew) -> None:
    assert table(f"CREATE TABLE t (a INT, b STRING) {clause}").skew == skew


def test_table_in_the_form_of_hive_is_read() -> None:
    assert table(
        r"""CREATE EXTERNAL TABLE t (a INT) PARTITIONED BY (ds STRING COMMENT 'day', hr INT)
        ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\' LINES TERMINATED BY '\n' NULL DEFINED AS ''
        STORED AS TEXTFILE LOCATION '/x'"""
    ) == CreateTable(
        T,
        columns=(Column("a", "int"),),
        partition_keys=(Column("ds", "string", "day"), Column("hr", "int")),
        external=True,
        format="textfile",
        options={"field.delim": ",", "escape.delim": "\\", "line.delim": "\n", "serialization.null.format": ""},
        location="/x",
    )


@pytest.mark.parametrize(
    ("clauses", "format", "options"),
    [
        ("", None, {}),
        ("USING csv", "csv", {}),
        ("STORED AS ORC", "orc", {}),
        ("STORED AS TEXTFILE", "textfile", {}),
        ("USING textfile OPTIONS (sep ';')", "textfile", {"field.delim": ";"}),
        ("ROW FORMAT DELIMITED", "textfile", {}),
        ("ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t'", "textfile", {"field.delim": "\t"}),
        (
            "ROW FORMAT DELIMITED COLLECTION ITEMS TERMINATED BY '|' MAP KEYS TERMINATED BY ':'",
            "textfile",
            {"collection.delim": "|", "mapkey.delim": ":"},
        ),
    ],
)
def test_format_is_named_as_in_spark(clauses: str, format: str | None, options: dict[str, str]) -> None:
    found = table(f"CREATE TABLE t (a INT) {clauses}")
    assert (found.format, found.options) == (format, options)


_TEXT = (
    "STORED AS INPUTFORMAT 'org.apache.hadoop.mapred.TextInputFormat' OUTPUTFORMAT 'x.HiveIgnoreKeyTextOutputFormat'"
)


@pytest.mark.parametrize(
    ("clauses", "format", "options"),
    [
        (
            "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' WITH SERDEPROPERTIES (separatorChar = ';')",
            "csv",
            {"sep": ";", "quote": '"', "escape": "\\", "nullValue": "\x1a"},
        ),
        (
            "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' WITH SERDEPROPERTIES "
            f"('field.delim' = '|', 'serialization.format' = '|') {_TEXT}",
            "textfile",
            {"field.delim": "|", "serialization.format": "|"},
        ),
        ("ROW FORMAT SERDE 'org.apache.hive.hcatalog.data.JsonSerDe' STORED AS TEXTFILE", "json", {}),
        ("ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' STORED AS ORC", "orc", {}),
        (
            "ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe' STORED AS INPUTFORMAT "
            "'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat' OUTPUTFORMAT 'x'",
            "parquet",
            {},
        ),
        (
            "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.avro.AvroSerDe' WITH SERDEPROPERTIES "
            "('avro.schema.url' = 'a.avsc') STORED AS AVRO",
            "avro",
            {"avroSchemaUrl": "a.avsc"},
        ),
    ],
)
def test_serdes_of_hive_are_formats_of_spark(clauses: str, format: str, options: dict[str, str]) -> None:
    found = table(f"CREATE EXTERNAL TABLE t (a INT) {clauses}")
    assert (found.format, found.options) == (format, options)


def test_serde_goes_with_its_own_format() -> None:
    with pytest.raises(StatementSyntaxError, match="goes with files of ORC only"):
        table("CREATE TABLE t (a INT) ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' STORED AS PARQUET")


def test_table_of_a_query_is_read_with_its_query() -> None:
    text = "CREATE TABLE t USING orc PARTITIONED BY (ds) AS SELECT u.a, u.ds FROM db.u"
    found = table(text)
    assert found.query is not None
    assert (found.columns, found.partition_keys) == ((), (Column("ds", ""),))
    assert found.query.render(["v"]) == "SELECT u.a, u.ds FROM v AS `u`"
    for other in ("CREATE TABLE t (SELECT 1 AS a)", "CREATE TABLE t SELECT 1 AS a", "CREATE TABLE t AS TABLE u"):
        assert table(other).query is not None


def test_transactional_table_has_the_property() -> None:
    assert table("CREATE TRANSACTIONAL TABLE t (a INT)").properties == {"transactional": "true"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("BOOLEAN", "boolean"),
        ("TINYINT", "tinyint"),
        ("byte", "tinyint"),
        ("short", "smallint"),
        ("INTEGER", "int"),
        ("Long", "bigint"),
        ("REAL", "float"),
        ("DOUBLE PRECISION", "double"),
        ("STRING", "string"),
        ("BINARY", "binary"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("DECIMAL", "decimal(10,0)"),
        ("DEC(3)", "decimal(3,0)"),
        ("NUMERIC(5, 1)", "decimal(5,1)"),
        ("VARCHAR(10)", "varchar(10)"),
        ("CHARACTER(4)", "char(4)"),
        ("ARRAY<INT>", "array<int>"),
        ("MAP<STRING, ARRAY<REAL>>", "map<string,array<float>>"),
        (
            "array<struct<a: int, B decimal(10,2), c: map<int, array<struct<d:date>>>>>",
            "array<struct<a:int,b:decimal(10,2),c:map<int,array<struct<d:date>>>>>",
        ),
    ],
)
def test_types_are_spark_simple_strings(written: str, expected: str) -> None:
    assert table(f"CREATE TABLE t (a {written} COMMENT 'x')").columns == (Column("a", expected, "x"),)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "no statement"),
        ("CREATE TABLE t (a INT CHECK a > 0)", 1, 29, "and a condition, found a"),
        ("-- nothing\n;", 2, 1, "no statement"),
        ("SELEC 1", 1, 1, "SELEC does not begin"),
        ("SELECT 1; SELECT 2", 1, 11, "second statement"),
        ("DROP TABLE a; DROP TABLE b", 1, 15, "second statement"),
        ("DROP TABLE a b", 1, 14, "end of the statement"),
        ("DROP TABLE", 1, 11, "name of a table"),
        ("CREATE TABLE t", 1, 15, "columns of the table"),
        ("CREATE TABLE t (", 1, 17, "name of a column"),
        ("CREATE TABLE t ()", 1, 17, "name of a column"),
        ("CREATE TABLE t (a)", 1, 18, "expected a type"),
        ("CREATE TABLE t (\n  a strin)", 2, 5, "no type strin"),
        ("CREATE TABLE t (a INT(3))", 1, 22, "takes no length"),
        ("CREATE TABLE t (a VARCHAR)", 1, 19, "needs a length"),
        ("CREATE TABLE t (a CHAR(0))", 1, 24, "at least 1"),
        ("CREATE TABLE t (a DECIMAL(39, 0))", 1, 26, "1 to 38"),
        ("CREATE TABLE t (a DECIMAL(3, 4))", 1, 26, "1 to 38"),
        ("CREATE TABLE t (a ARRAY<INT)", 1, 28, "expected '>'"),
        ("CREATE TABLE t (a STRUCT<b:INT,B:INT>)", 1, 32, "two fields b"),
        ("CREATE TABLE t (a STRUCT<`b``c`:INT>)", 1, 26, "a backquote: 'b`c'"),
        ("CREATE TABLE t (a INT, A STRING)", 1, 24, "named twice"),
        ("CREATE TABLE t (a INT b)", 1, 23, "found b"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b)", 1, 40, "not one of the columns"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", 1, 40, "not a partition column"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a INT)", 1, 40, "column already"),
        ("CREATE TABLE t (a INT, b INT) PARTITIONED BY (a, c INT)", 1, 50, "or none has one"),
        ("CREATE TABLE t PARTITIONED BY (a INT) AS SELECT 1 AS a", 1, 32, "without types"),
        ("CREATE TABLE t (a INT) AS SELECT 1", 1, 16, "cannot list them"),
        ("CREATE TABLE t AS", 1, 18, "expected a query"),
        ("CREATE TABLE t (a INT) USING orc USING csv", 1, 34, "given twice"),
        ("CREATE TABLE t (a INT) USING orc STORED AS orc", 1, 34, "not by both"),
        ("CREATE TABLE t (a INT) STORED AS orc ROW FORMAT DELIMITED", 1, 38, "TEXTFILE only"),
        ("CREATE TABLE t (a INT) CLUSTERED BY (a) INTO 0 BUCKETS", 1, 46, "not a valid number of buckets"),
        ("CREATE TABLE t (a INT) SKEWED BY (a) ON ((1, 2))", 1, 42, "expected 1 values"),
        ("CREATE TABLE t (a INT, b INT) SKEWED BY (a, b) ON (1, 2)", 1, 52, "expected 2 values"),
        ("CREATE TABLE t (a INT) SKEWED BY (a) ON (1, 1)", 1, 45, "values are named twice"),
        ("CREATE TABLE t (a INT) SKEWED BY (a, a) ON ((1, 1))", 1, 38, "named twice"),
        ("CREATE TABLE t (a INT) SKEWED BY (a) ON (NULL)", 1, 42, "a text or a number"),
        ("CREATE TABLE t (a INT) WHATEVER", 1, 24, "expected USING, STORED AS, "),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('a' = 1, 'a' = 2)", 1, 48, "named twice"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('a')", 1, 42, "a value for property a"),
        ("CREATE TABLE t@y (a INT)", 1, 14, "that of a link"),
        ("ALTER TABLE t ADD PARTITION (ds)", 1, 29, "needs a value"),
        ("ALTER TABLE t ADD PARTITION (ds = x)", 1, 35, "a constant for ds"),
        ("ALTER TABLE t ADD PARTITION (ds = 1 + 1)", 1, 37, "',' or '\\)'"),
        ("ALTER TABLE t ADD PARTITION (ds = 1),", 1, 38, "expected PARTITION"),
        ("ALTER TABLE t DROP PARTITION (ds LIKE 'a')", 1, 34, "one of = <>"),
        ("ALTER TABLE t DROP PARTITION (ds < NULL)", 1, 36, "NULL"),
        ("USE CLUSTER c1 c2", 1, 16, "end of the statement"),
        ("SHOW TABLES LIKE 1", 1, 18, "a pattern"),
        ("SHOW PARTITIONS t WHERE", 1, 24, "expected a condition"),
        ("SHOW PARTITIONS t WHERE ds = = 3", 1, 30, "not complete"),
        ("SHOW PARTITIONS t WHERE ds = 3 GROUP BY ds", 1, 25, "expected one condition"),
        ("SHOW PARTITIONS t ORDER BY ds, DS", 1, 32, "named twice"),
        ("SHOW PARTITIONS t LIMIT x", 1, 25, "a number of partitions"),
        ("SHOW PARTITIONS t LIMIT 3 ORDER BY ds", 1, 27, "the end of the statement"),
        ("SELEC 1", 1, 1, "SELEC does not begin a statement; perhaps SELECT is meant"),
        ("hello world", 1, 1, r"hello does not begin a statement\.\n"),
        ("SELECT * FORM t", 1, 15, "t is not expected here; perhaps FROM is meant"),
        ("SELECT a FROM t WEHRE a = 1", 1, 23, "a is not expected here; perhaps WHERE is meant"),
        ("SELECT (1 + 2 FROM t", 1, 15, r"expected '\)', found FROM\.\n"),
        ("SELECT * FROM t JOIN ON a = b", 1, 22, "expected a table, found ON"),
        ("CREATE TABLE t (a INT) PARTITION BY (a)", 1, 24, "perhaps PARTITIONED is meant"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason) as error:
        read(text)
    assert (error.value.line, error.value.column) == (line, column)
    assert not isinstance(error.value, UnsupportedStatementError)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1", "; make a view, or a temporary view in each session"),
        ("REPLACE INTO t VALUES (1)", "REPLACE INTO is not a statement of this release; use MERGE INTO"),
        ("GRANT SELECT ON t TO u", "GRANT is"),
        ("CACHE TABLE t", "CACHE TABLE is"),
        ("COMMENT ON CATALOG c IS 'x'", "COMMENT is"),
        ("LOCK TABLE t SHARED", "LOCK TABLE is"),
        ("SHOW GRANT ON TABLE t", "SHOW GRANT is"),
        ("EXPLAIN AST SELECT 1", "EXPLAIN AST is not a statement of this release; EXPLAIN FORMATTED shows"),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN ANALYZE is"),
        ("SHOW PARTITION t", "; perhaps PARTITIONS is meant"),
        ("SHOW HISTORY t", "; DESCRIBE HISTORY lists"),
        ("CONVERT TO DELTA parquet.`/x`", "; CREATE EXTERNAL TABLE reads files where they are"),
        ("UPSERT INTO t VALUES (1)", "; use MERGE INTO"),
    ],
)
def test_statement_of_another_release_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(f"\n  {text}")
    assert named in error.value.reason
    assert (error.value.line, error.value.column) == (2, 3)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("CREATE TABLE t (a INT DEFAULT 1 DISABLE)", 33),
        ("CREATE TABLE t (a INT GENERATED ALWAYS AS (1))", 23),
        ("ALTER TABLE t ADD COLUMNS (a INT DEFAULT 3)", 34),
        ("CREATE TABLE t (a INT PRIMARY KEY)", 23),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", 24),
        ("CREATE TABLE t (a INT, CONSTRAINT c PRIMARY KEY (a))", 24),
        ("CREATE TABLE t (a STRUCT<b: INT COMMENT 'x'>)", 33),
        ("CREATE TABLE t (a INT, CHECK (a < rand()))", 30),
        ("CREATE TABLE t (a INT) PARTITIONED BY (years(a))", 40),
        ("CREATE TABLE t (a INT) ROW FORMAT SERDE 'x'", 41),
        ("CREATE TABLE t (a INT) STORED AS INPUTFORMAT 'x' OUTPUTFORMAT 'y'", 46),
        ("CREATE TABLE t (a INT) STORED BY 'x'", 31),
        ("CREATE TABLE t (a INT) SKEWED BY (a) ON (1) STORED AS DIRECTORIES", 45),
        ("CREATE TABLE t (a ARRAY<UNIONTYPE<INT, STRING>>)", 25),
        ("CREATE VIEW v PARTITIONED ON (a) AS SELECT a FROM t", 15),
        ("ALTER VIEW v ADD PARTITION (a = 1)", 14),
        ("TRUNCATE TABLE t PARTITION (a = 1) COLUMNS (b)", 36),
        ("MSCK REPAIR TABLE t SYNC PARTITIONS (a = 1)", 37),
        ("CREATE TABLE t LIKE FILE PARQUET '/x'", 26),
        ("CREATE TABLE t SHALLOW CLONE s", 16),
        ("SELECT TOP 10 * FROM t", 1),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", 26),
        ("CREATE DATABASE a.b", 17),
        ("DROP TABLE other_catalog.db.t", 12),
        ("ALTER TABLE t@y SET TBLPROPERTIES ('a' = 'b')", 13),
        ("EXPLAIN ROUTE SHOW TABLES", 15),
        ("EXPLAIN ROUTE CREATE TABLE t (a INT)", 15),
    ],
)
def test_part_that_would_be_lost_is_refused_at_its_place(text: str, column: int) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(text)
    assert (error.value.line, error.value.column) == (1, column)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {}d.t.a, u.b FROM {}d.t JOIN u ON {}d.t.a = u.a",
        "UPDATE {}d.t SET {}d.t.a = {}d.f({}d.t.b)",
        "MERGE INTO {}d.t USING {}d.s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "SELECT * FROM table_changes('{}d.t', 1)",
        "SELECT * FROM IDENTIFIER('{}d.t') VERSION AS OF 2",
        "DESCRIBE {}d.t a",
        "USE {}d",
        "SHOW TABLES IN {}d",
    ],
)
def test_the_one_catalog_may_stand_before_a_database(text: str) -> None:
    def read_with(catalog: str) -> tuple[object, list[str], list[str]]:
        statement = read(text.replace("{}", catalog))
        queries = statement.queries if isinstance(statement, RoutedStatement) else ()
        texts = [query.render([f"v{n}" for n in range(len(query.references))]) for query in queries]
        tables = [str(reference.table) for query in queries for reference in query.references]
        # Spark calls functions by their whole names.
        return None if queries else statement, [" ".join(each.replace(catalog, "").split()) for each in texts], tables

    for catalog in ("spark_catalog.", "`SPARK_CATALOG` . "):
        assert read_with(catalog) == read_with("")


def test_a_property_and_its_value_may_be_two_strings() -> None:
    statement = read("CREATE TABLE t (a INT) TBLPROPERTIES ('owner.team' 'x y', 'b' = 'c' 'd')")
    assert isinstance(statement, CreateTable)
    assert dict(statement.properties) == {"owner.team": "x y", "b": "cd"}


@pytest.mark.parametrize(
    "text",
    [
        "INSERT WITH SCHEMA EVOLUTION INTO t (a) SELECT 1",
        "DESCRIBE t AS JSON",
        "DESCRIBE EXTENDED t a AS JSON",
        "SHOW PARTITIONS t WHERE ds IN (SELECT 1)",
        "SHOW PARTITIONS t WHERE ds = current_date()",
        "SHOW PARTITIONS t WHERE x.ds = 1",
        "CREATE TABLE t (c STRING) USING orc DEFAULT COLLATION unicode",
    ],
)
def test_part_that_spark_has_is_not_called_an_error(text: str) -> None:
    with pytest.raises(UnsupportedStatementError):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "DESC SELECT a, b FROM t",
        "DESCRIBE WITH s AS (SELECT 1) SELECT * FROM s",
        "DESCRIBE QUERY SELECT 1",
        "DESC QUERY (SELECT 1) UNION (SELECT 2)",
        "DESCRIBE QUERY FROM t SELECT a",
        "DESCRIBE VALUES (1)",
    ],
)
def test_a_query_is_described_with_and_without_the_word(text: str) -> None:
    assert isinstance(read(text), DescribeQuery)


def test_a_table_may_be_called_query() -> None:
    assert read("DESCRIBE query") == DescribeTable(TableName("query"))
    with pytest.raises(StatementSyntaxError, match="expected a query"):
        read("DESCRIBE QUERY t")


def test_column_may_be_called_like_a_constraint() -> None:
    found = table("CREATE TABLE t (primary INT, check STRING, `Not` INT, constraint INT)")
    assert [column.name for column in found.columns] == ["primary", "check", "not", "constraint"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("EXPLAIN ROUTE SELECT * FROM t", Select),
        ("EXPLAIN ROUTE INSERT INTO t SELECT * FROM u", Insert),
        ("explain route CREATE TABLE t AS SELECT * FROM u", CreateTable),
    ],
)
def test_route_is_explained_for_statements_that_run_on_a_cluster(text: str, kind: type[Statement]) -> None:
    statement = read(text)
    assert isinstance(statement, ExplainRoute)
    assert isinstance(statement.statement, kind)
