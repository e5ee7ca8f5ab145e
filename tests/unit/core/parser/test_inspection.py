from __future__ import annotations

import inspect as introspection
import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from airflow_hivex.core import inspect
from airflow_hivex.core.commands.handlers import HANDLERS
from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser import statements as kinds
from airflow_hivex.core.parser.inspection import Inspection
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import RoutedStatement, Statement

# For each class of statements one or more texts, and the roles and words of what each names, in order of the text.
EXAMPLES: dict[type[Statement], dict[str, str]] = {
    kinds.Select: {
        "SELECT * FROM a JOIN d.b USING (id)": "read a, read d.b",
        "SELECT * FROM d.a CHANGES FROM VERSION 1 AS c JOIN d.b USING (id)": "read d.a, read d.b",
    },
    kinds.ExplainQuery: {
        "EXPLAIN FORMATTED SELECT * FROM d.a": "read d.a",
        "EXPLAIN TABLE a": "read a",
        "EXPLAIN INSERT INTO d.t SELECT * FROM a": "describe d.t, read a",
        "EXPLAIN CREATE TABLE t AS SELECT * FROM a": "describe t, read a",
    },
    kinds.ExplainMultiInsert: {
        "EXPLAIN FROM a INSERT INTO d.b SELECT x INSERT INTO c SELECT y": "read a, describe d.b, describe c"
    },
    kinds.ExplainChanges: {"EXPLAIN DELETE FROM d.a WHERE x IN (SELECT y FROM b)": "describe d.a, read d.a, read b"},
    kinds.DescribeQuery: {"DESCRIBE QUERY SELECT * FROM d.a": "read d.a"},
    kinds.Insert: {
        "INSERT INTO d.t SELECT * FROM a": "insert d.t, read a",
        "INSERT OVERWRITE TABLE t PARTITION (ds = '1') VALUES (1)": "overwrite t",
        "WITH c AS (SELECT * FROM a) INSERT INTO t SELECT * FROM c": "read a, insert t",
    },
    kinds.InsertDirectory: {
        "INSERT OVERWRITE DIRECTORY 'x' USING csv SELECT * FROM a JOIN d.b USING (id)": "read a, read d.b"
    },
    kinds.MultiInsert: {
        """FROM (SELECT * FROM a) s JOIN b INSERT INTO t SELECT 1
           INSERT OVERWRITE TABLE u SELECT 2 WHERE EXISTS (FROM c)""": "read a, read b, insert t, overwrite u, read c",
    },
    kinds.ChangeRows: {
        "UPDATE d.t SET x = (SELECT max(x) FROM a)": "read d.t, update d.t, read a",
        "DELETE FROM t AS u WHERE u.x IN (SELECT x FROM t)": "read t, delete t, read t",
        "MERGE INTO d.t USING a ON t.x = a.x WHEN MATCHED THEN DELETE": "read d.t, delete d.t, read a",
        """MERGE INTO t USING (SELECT * FROM a) s ON t.x = s.x WHEN MATCHED AND t.y = 1 THEN DELETE
           WHEN MATCHED THEN UPDATE SET y = 2 WHEN NOT MATCHED THEN INSERT *""": (
            "read t, insert t, update t, delete t, read a"
        ),
    },
    kinds.LoadData: {
        "LOAD DATA INPATH '/x' INTO TABLE d.t": "insert d.t",
        "LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t": "overwrite t",
    },
    kinds.CopyInto: {
        "COPY INTO d.t FROM 'raw' FILEFORMAT = CSV": "insert d.t",
        "COPY INTO t (x) FROM (SELECT x FROM 'raw' WHERE x IN (SELECT x FROM d.a)) FILEFORMAT = CSV": (
            "insert t, read d.a"
        ),
    },
    kinds.ShowCopyHistory: {"SHOW COPY HISTORY d.t": "describe d.t"},
    kinds.Truncate: {"TRUNCATE TABLE t": "delete t"},
    kinds.RestoreTable: {"RESTORE TABLE d.t TO VERSION AS OF 3": "overwrite d.t"},
    kinds.Analyze: {
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS": "read t, alter t",
        "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN": "alter t",
    },
    kinds.AnalyzeTables: {"ANALYZE TABLES IN d COMPUTE STATISTICS": "read d, alter d"},
    kinds.CreateDatabase: {"CREATE DATABASE IF NOT EXISTS d": "create d"},
    kinds.DropDatabase: {"DROP SCHEMA d CASCADE": "drop d"},
    kinds.AlterDatabase: {"ALTER DATABASE `d` SET DBPROPERTIES (a = 1)": "alter `d`"},
    kinds.UseDatabase: {"USE d": "use d"},
    kinds.CreateTable: {
        "CREATE TABLE d.t (x INT)": "create d.t",
        "CREATE TABLE t AS SELECT * FROM a": "create t, read a",
        "CREATE OR REPLACE TABLE t (x INT)": "create t, drop t",
        "REPLACE TABLE t AS SELECT * FROM t": "create t, drop t, read t",
    },
    kinds.CreateTableLike: {
        "CREATE EXTERNAL TABLE t LIKE d.a LOCATION 'x'": "create t, describe d.a",
        "CREATE TABLE IF NOT EXISTS d.t LIKE a@y": "create d.t, describe a@y",
    },
    kinds.DropTable: {"DROP TABLE IF EXISTS d . t": "drop d . t"},
    kinds.AddPartitions: {"ALTER TABLE t ADD PARTITION (ds = 1)": "alter t"},
    kinds.DropPartitions: {"ALTER TABLE t DROP PARTITION (ds < 1)": "alter t"},
    kinds.RenamePartition: {"ALTER TABLE t PARTITION (ds = 1) RENAME TO PARTITION (ds = 2)": "alter t"},
    kinds.SetTableProperties: {"ALTER TABLE t SET TBLPROPERTIES (a = 1)": "alter t"},
    kinds.CreateView: {
        "CREATE VIEW v AS SELECT * FROM a, a AS b": "create v, read a, read a",
        "ALTER VIEW v AS SELECT * FROM a": "alter v, read a",
    },
    kinds.DropView: {"DROP VIEW v": "drop v"},
    kinds.RenameTable: {"ALTER TABLE t RENAME TO e.u": "alter t, create e.u"},
    kinds.AddColumns: {"ALTER TABLE t ADD COLUMNS (x INT)": "alter t"},
    kinds.ChangeColumn: {"ALTER TABLE t CHANGE x y INT": "alter t"},
    kinds.ChangeConstraints: {"ALTER TABLE d.t ADD CONSTRAINT c CHECK (x > 0)": "alter d.t"},
    kinds.ReplaceColumns: {"ALTER TABLE t REPLACE COLUMNS (x INT)": "alter t"},
    kinds.DropColumns: {"ALTER TABLE t DROP COLUMN x": "alter t"},
    kinds.CreateLink: {"CREATE LINK TO t@y": "create t@y, read t@y"},
    kinds.DropLink: {"DROP LINK TO d.t@y": "drop d.t@y"},
    kinds.AddLinkPartitions: {"ALTER LINK t@y ADD PARTITION (ds = 1)": "alter t@y"},
    kinds.DropLinkPartitions: {"ALTER LINK t@y DROP PARTITION (ds < 1)": "alter t@y"},
    kinds.SetLinkProperties: {"ALTER LINK t@y SET LINKPROPERTIES (a = 1)": "alter t@y"},
    kinds.ShowLinks: {"SHOW LINKS IN d": "describe d", "SHOW LINKS TO d.t": "describe d.t"},
    kinds.ShowCapacity: {
        "SHOW CAPACITY NAMESPACE d CLUSTER us-east-1 BY TABLE": "describe d, describe us-east-1",
        "SHOW CAPACITY BY AGE": "",
    },
    kinds.SetQuota: {
        "ALTER NAMESPACE d SET QUOTA '10 GB' WARNING 80 ON CLUSTER c1": "alter d, use c1",
        "ALTER DATABASE d UNSET QUOTA": "alter d",
    },
    kinds.MoveDatabase: {
        "ALTER DATABASE d SET PRIMARY CLUSTER us-east-1": "alter d, use us-east-1",
        "ALTER NAMESPACE d SET PRIMARY CLUSTER c2 WITH LINKED TABLES KEEP COPIES": "alter d, use c2",
    },
    kinds.CancelMove: {"ALTER DATABASE d CANCEL MOVE KEEP COPIES": "alter d"},
    kinds.ShowDatabases: {"SHOW DATABASES": ""},
    kinds.ShowCurrentNamespace: {"SHOW CURRENT NAMESPACE": ""},
    kinds.ShowTables: {"SHOW TABLES IN d": "describe d", "SHOW VIEWS FROM d": "describe d"},
    kinds.CommentOn: {
        "COMMENT ON DATABASE d IS 'x'": "alter d",
        "COMMENT ON TABLE d.t IS NULL": "alter d.t",
        "COMMENT ON COLUMN d . t . c IS 'x'": "alter d . t",
    },
    kinds.ShowFunctions: {"SHOW FUNCTIONS LIKE 'a*'": ""},
    kinds.DescribeFunction: {"DESCRIBE FUNCTION EXTENDED lower": ""},
    kinds.ShowColumns: {"SHOW COLUMNS IN t@y FROM d": "describe t@y"},
    kinds.ShowTableProperties: {"SHOW TBLPROPERTIES d.t ('a')": "describe d.t"},
    kinds.ShowPartitions: {"SHOW PARTITIONS t": "describe t"},
    kinds.ShowCreateTable: {"SHOW CREATE TABLE t": "describe t"},
    kinds.DescribeTable: {"DESCRIBE FORMATTED d.t x": "describe d.t"},
    kinds.DescribeDatabase: {"DESCRIBE DATABASE d": "describe d"},
    kinds.DescribeHistory: {"DESCRIBE HISTORY d.t LIMIT 3": "describe d.t"},
    kinds.StartTransaction: {"START TRANSACTION": ""},
    kinds.Commit: {"COMMIT": ""},
    kinds.Rollback: {"ROLLBACK": ""},
    kinds.AbortTransactions: {"ABORT TRANSACTIONS 1 2": ""},
    kinds.ShowTransactions: {"SHOW TRANSACTIONS": ""},
    kinds.ShowStatements: {"SHOW STATEMENTS": "", "SHOW STATEMENTS IN d LIKE 't*' DAG 'g'": "describe d"},
    kinds.ShowLocks: {"SHOW LOCKS t": "describe t", "SHOW LOCKS DATABASE d": "describe d"},
    kinds.Compact: {"ALTER TABLE t COMPACT 'major'": "alter t", "OPTIMIZE d.t PARTITION (ds = 1)": "alter d.t"},
    kinds.Vacuum: {"VACUUM d.t": "alter d.t"},
    kinds.ShowCompactions: {"SHOW COMPACTIONS t": "describe t", "SHOW COMPACTIONS DATABASE d": "describe d"},
    kinds.AbortCompactions: {"ABORT COMPACTIONS 1": ""},
    kinds.ReplicateTable: {"REPLICATE TABLE t PARTITION (ds < 1) TO CLUSTER c2": "read t, use c2"},
    kinds.DropCopy: {"ALTER TABLE t DROP COPY ON CLUSTER c2": "alter t, use c2"},
    kinds.SetPrimaryCluster: {
        "ALTER TABLE t SET PRIMARY CLUSTER us-east-1": "alter t, use us-east-1",
        "ALTER TABLE d.t SET PRIMARY CLUSTER c2 FORCE CONFIRM '0a1b'": "alter d.t, use c2",
    },
    kinds.ShowCopies: {"SHOW COPIES d.t": "describe d.t"},
    kinds.UseCluster: {"USE CLUSTER us-east-1": "use us-east-1", "USE CLUSTER": ""},
    kinds.ShowClusters: {"SHOW CLUSTERS": ""},
    kinds.ShowTableExtended: {"SHOW TABLE EXTENDED IN d LIKE 't*' PARTITION (p = 1)": "describe d"},
    kinds.RepairPartitions: {
        "MSCK REPAIR TABLE d.e SYNC PARTITIONS": "alter d.e",
        "MSCK TABLE e": "describe e",
        "REPAIR TABLE e": "alter e",
        "ALTER TABLE e RECOVER PARTITIONS": "alter e",
    },
    kinds.RefreshTable: {"REFRESH TABLE d.t": "describe d.t", "REFRESH t": "describe t"},
    kinds.ExchangePartition: {"ALTER TABLE t EXCHANGE PARTITION (p = 1) WITH TABLE d.u": "insert t, alter d.u"},
    kinds.SetLocation: {"ALTER TABLE d.t PARTITION (p = 1) SET LOCATION 'x'": "alter d.t"},
    kinds.SetFormat: {"ALTER TABLE t SET FILEFORMAT ORC": "alter t"},
    kinds.SetSerdeProperties: {"ALTER TABLE t UNSET SERDEPROPERTIES IF EXISTS ('a')": "alter t"},
    kinds.UpdateStatistics: {
        "ALTER TABLE t PARTITION (p = 1) UPDATE STATISTICS FOR COLUMN c SET ('numNulls' = '1') COMMENT 'c'": "alter t"
    },
    kinds.TouchTable: {"ALTER TABLE t TOUCH PARTITION (p = 1)": "alter t"},
    kinds.CreateTemporaryView: {"CREATE TEMP VIEW v AS SELECT * FROM d.a": "read d.a"},
    kinds.CreateFunction: {
        "CREATE OR REPLACE FUNCTION d.f AS 'x.Y' USING JAR '/x.jar'": "create d.f",
        "CREATE FUNCTION IF NOT EXISTS f(x INT) RETURNS INT RETURN g(x) + 1": "create f",
    },
    kinds.DropFunction: {"DROP FUNCTION IF EXISTS d.f": "drop d.f"},
    kinds.CreateTemporaryFunction: {"CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x + 1": ""},
    kinds.DropTemporaryFunction: {"DROP TEMPORARY FUNCTION IF EXISTS f": ""},
    kinds.DeclareVariable: {"DECLARE OR REPLACE VARIABLE x, y INT DEFAULT (SELECT max(a) FROM d.b)": "read d.b"},
    kinds.SetVariables: {
        "SET VAR x = (SELECT max(a) FROM b), y = DEFAULT": "read b",
        "SET VARIABLE (x, y) = (SELECT 1, a FROM d.b)": "read d.b",
    },
    kinds.DropVariable: {"DROP TEMPORARY VARIABLE x": ""},
    kinds.ExecuteImmediate: {"EXECUTE IMMEDIATE 'SELECT * FROM t WHERE x = ?' INTO y USING 1": ""},
    kinds.SetConfiguration: {"SET spark.sql.shuffle.partitions = 4": "", "SET": "", "SET TIME ZONE 'UTC'": ""},
    kinds.ResetConfiguration: {"RESET spark.sql.shuffle.partitions": "", "RESET": ""},
    kinds.SetSetting: {"SET hivex.replica.max.lag = 10min": "", "SET hivex.replica.max.lag.commits": ""},
    kinds.ResetSetting: {"RESET hivex.replica.max.lag": ""},
    kinds.ExplainRoute: {"EXPLAIN ROUTE INSERT INTO t SELECT * FROM a": "describe t, describe a"},
}


STATEMENTS = {kind for chapter in kinds.CHAPTERS for kind in kinds.statements_of(chapter)}


def all_kinds(base: type[Statement] = Statement) -> Iterator[type[Statement]]:
    for kind in base.__subclasses__():
        # A dataclass with slots replaces the class that was written.
        if kind in STATEMENTS and not introspection.isabstract(kind):
            yield kind
        yield from all_kinds(kind)


def facts_of(text: str, inspection: Inspection) -> list[tuple[int, str]]:
    return sorted(
        (use.start, f"{use.role} {text[use.start : use.end]}")
        for use in (*inspection.inputs, *inspection.outputs)
        if use.start is not None
    )


@pytest.mark.parametrize("kind", sorted(all_kinds(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_kind_of_statement_returns_its_objects_with_their_places(kind: type[Statement]) -> None:
    assert kind in EXAMPLES, "add an example of the new kind of statement"
    for text, expected in EXAMPLES[kind].items():
        assert type(read(text)) is kind
        (inspection,) = inspect(text)
        assert inspection.kind
        assert (inspection.start, inspection.end) == (0, len(text))
        found = facts_of(text, inspection)
        wanted = expected.split(", ") if expected else []
        assert sorted(what for _, what in found) == sorted(wanted)
        assert [what.split(" ", 1)[1] for _, what in found] == [what.split(" ", 1)[1] for what in wanted]


def test_all_kinds_of_statements_are_found_and_run() -> None:
    found = set(all_kinds())
    assert len(found) == len(EXAMPLES) >= 43
    assert found == set(HANDLERS)


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if issubclass(kind, RoutedStatement)])
def test_a_routed_statement_binds_the_tables_that_it_names(kind: type[Statement]) -> None:
    for text in EXAMPLES[kind]:
        statement = read(text)
        assert isinstance(statement, RoutedStatement)
        read_names = {str(reference.table) for reference in statement.references}
        roles = {(str(use.role), f"{use.database}.{use.name}" if use.database else use.name) for use in statement.uses}
        assert {name for role, name in roles if role == "read"} == read_names
        written = {str(name) for name in statement.targets}
        assert {name for role, name in roles if role not in ("read", "describe", "create", "drop")} == written


def test_a_merge_names_database_and_namespace_of_its_target() -> None:
    text = "MERGE INTO db.t@ns AS x USING s@other ON x.id = s.id WHEN NOT MATCHED THEN INSERT *"
    (inspection,) = inspect(text, "here")
    (target,) = inspection.outputs
    assert (target.role, target.database, target.name, target.namespace) == ("insert", "db", "t", "ns")
    assert text[target.start : target.end] == "db.t@ns"
    source = inspection.inputs[1]
    assert (source.role, source.database, source.name, source.namespace) == ("read", None, "s", "other")


@pytest.mark.parametrize(
    "text",
    [
        "MERGE INTO db.t@ns USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "UPDATE t@ns SET x = 1",
        "INSERT INTO t@ns SELECT * FROM a@ns",
        "FROM a INSERT INTO b SELECT 1 INSERT INTO t@ns SELECT 2",
        "EXPLAIN ROUTE DELETE FROM t@ns",
        "ALTER TABLE t RENAME TO u@ns",
        "ALTER TABLE t@ns COMPACT 'major'",
        "LOAD DATA INPATH '/x' INTO TABLE t@ns",
        "TRUNCATE TABLE t@ns",
        "COMMENT ON TABLE t@ns IS NULL",
        "ANALYZE TABLE t@ns COMPUTE STATISTICS",
        "SHOW LOCKS t@ns",
        "SHOW COMPACTIONS t@ns",
    ],
)
def test_a_link_is_inspected_and_not_changed(text: str) -> None:
    (inspection,) = inspect(text)
    assert "ns" in {use.namespace for use in (*inspection.inputs, *inspection.outputs)}
    with pytest.raises(
        UnsupportedStatementError, match=r"does not take a link such as (db.)?[tu]@ns; links are read"
    ) as e:
        read(text)
    assert text[e.value.column - 1 :].startswith(("db.t@ns", "t@ns", "u@ns"))


def test_statements_of_a_script_have_their_places_in_it() -> None:
    text = "-- first;\nSELECT ';' FROM a;;\nUSE d2; /* ; */ DELETE FROM b WHERE x > :x AND y = :y"
    first, second, third = inspect(text, "d1")
    assert [text[each.start : each.end] for each in (first, second, third)] == [
        "SELECT ';' FROM a",
        "USE d2",
        "DELETE FROM b WHERE x > :x AND y = :y",
    ]
    assert [(use.database, use.name) for use in first.inputs] == [("d1", "a")]
    assert [(use.kind, use.name) for use in second.inputs] == [("database", "d2")]
    assert [(use.database, use.name, text[use.start : use.end]) for use in third.outputs] == [("d2", "b", "b")]
    assert set(third.parameters) == {"x", "y"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t TIMESTAMP AS OF :x",
        "SELECT * FROM t CHANGES FROM TIMESTAMP :x",
        "ALTER TABLE t ADD PARTITION (ds = :x)",
        "ALTER TABLE t DROP PARTITION (ds < :x)",
        "INSERT INTO t VALUES ('a'), (:x)",
        "INSERT INTO t PARTITION (ds = :x) SELECT 1",
        "SELECT * FROM t LIMIT :x",
        "ABORT TRANSACTIONS :x",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = :x",
    ],
)
def test_markers_are_inspected_without_values(text: str) -> None:
    (inspection,) = inspect(text)
    assert inspection.parameters == ("x",)


def test_names_that_are_not_objects_are_no_inputs() -> None:
    text = """WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r), s AS (SELECT * FROM t AS u)
        SELECT u.x, (SELECT max(v.n) FROM r AS v) FROM s AS u, LATERAL (SELECT u.x) w, range(3) AS g, (VALUES (1)) AS k
        LATERAL VIEW explode(u.xs) e AS one"""
    (inspection,) = inspect(text)
    assert [use.name for use in inspection.inputs] == ["t"]
    assert inspection.outputs == ()


def test_a_statement_without_a_name_means_the_current_database() -> None:
    (inspection,) = inspect("SHOW TABLES", "Sales")
    (use,) = inspection.inputs
    assert (use.kind, use.name, use.start, use.end) == ("database", "sales", None, None)
    assert inspect("SHOW TABLES")[0].inputs[0].name is None


def test_an_error_has_its_place_in_the_whole_text() -> None:
    with pytest.raises(StatementSyntaxError) as e:
        inspect("SELECT 1;\nMERGE INTO t USING s ON a = b\nWHEN MATCHED THEN UPDATE SET x = (1 +")
    assert (e.value.line, e.value.column) == (3, 34)
    with pytest.raises(UnsupportedStatementError) as unsupported:
        inspect("SELECT 1;\n  GRANT SELECT ON t TO joe")
    assert (unsupported.value.line, unsupported.value.column) == (2, 3)


def test_an_inspection_is_plain_data() -> None:
    inspections = inspect("USE CLUSTER c1; USE d; UPDATE t SET x = 1")
    assert pickle.loads(pickle.dumps(inspections)) == inspections
    (update,) = (each for each in json.loads(json.dumps([asdict(each) for each in inspections])) if each["outputs"])
    assert update["outputs"] == [
        {"kind": "table", "role": "update", "name": "t", "database": "d", "namespace": None, "start": 30, "end": 31}
    ]
    assert inspect(" -- nothing\n;") == ()


def test_names_of_databases_keep_their_place_when_pickled() -> None:
    statement = read("CREATE DATABASE sales")
    assert pickle.loads(pickle.dumps(statement)).uses == statement.uses != ()
    assert statement == kinds.CreateDatabase("sales")


def test_a_temporary_view_stands_for_what_it_reads() -> None:
    text = """CREATE TEMP VIEW v AS SELECT * FROM d.a JOIN b; CREATE TEMP VIEW w AS SELECT * FROM v;
        INSERT INTO t SELECT * FROM w JOIN d.w; DROP VIEW w; SELECT * FROM w"""
    first, _, insert, _, last = inspect(text, "here")
    assert (first.kind, first.outputs) == ("CREATE TEMPORARY VIEW", ())
    found = [(use.database, use.name, text[use.start : use.end]) for use in insert.inputs]
    assert sorted(found) == [("d", "a", "w"), ("d", "w", "d.w"), ("here", "b", "w")]
    assert [(use.database, use.name) for use in last.inputs] == [("here", "w")]
