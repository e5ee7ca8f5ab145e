"""Statements of every kind in a closed namespace ``a``, each with one object of another namespace in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from airflow_hivex.core.parser import statements as kinds
from airflow_hivex.core.parser.statements import Statement

# The places of a template: {r} is a table that is read, {q} a query, {e} an expression of a query, {t} a table that is
# named, {n} the name of a new object, {d} a database, {f} a folder, {g} a permanent function.
TEMPLATES: dict[type[Statement], tuple[str, ...]] = {
    kinds.Select: ("{q}", "{q}", "{q}"),
    kinds.DescribeQuery: ("DESCRIBE QUERY {q}",),
    kinds.ExplainQuery: (
        "EXPLAIN {q}",
        "EXPLAIN FORMATTED INSERT INTO {t} {q}",
        "EXPLAIN INSERT OVERWRITE {t} {q}",
        "EXPLAIN CREATE TABLE {n} AS {q}",
        "EXPLAIN INSERT OVERWRITE DIRECTORY 'out' USING csv {q}",
    ),
    kinds.ExplainChanges: (
        "EXPLAIN DELETE FROM {t} WHERE id IN ({q})",
        "EXPLAIN UPDATE {t} SET id = 1",
        "EXPLAIN MERGE INTO {t} USING {r} AS s ON own.id = s.id WHEN MATCHED THEN DELETE",
    ),
    kinds.ExplainMultiInsert: ("EXPLAIN FROM {r} INSERT INTO own SELECT id INSERT INTO {t} SELECT id",),
    kinds.ExplainRoute: (
        "EXPLAIN ROUTE {q}",
        "EXPLAIN ROUTE INSERT INTO {t} {q}",
        "EXPLAIN ROUTE DELETE FROM {t}",
        "EXPLAIN ROUTE CREATE TABLE {n} AS {q}",
    ),
    kinds.Insert: (
        "INSERT INTO {t} {q}",
        "INSERT OVERWRITE {t} {q}",
        "INSERT INTO {t} VALUES (1)",
        "INSERT INTO own SELECT {e} FROM {r}",
    ),
    kinds.InsertDirectory: ("INSERT OVERWRITE DIRECTORY 'out' USING csv {q}",),
    kinds.MultiInsert: (
        "FROM {r} INSERT INTO own SELECT id INSERT INTO {t} SELECT id",
        "FROM own INSERT INTO own SELECT id INSERT INTO parted SELECT {e}, 1 WHERE id IN ({q})",
    ),
    kinds.ChangeRows: (
        "UPDATE {t} SET id = {e} WHERE id IN ({q})",
        "DELETE FROM {t} WHERE EXISTS ({q})",
        "MERGE INTO {t} AS o USING {r} AS s ON o.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO own USING ({q}) AS s ON own.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id",
    ),
    kinds.LoadData: ("LOAD DATA INPATH {f} INTO TABLE own", "LOAD DATA INPATH 'spare' OVERWRITE INTO TABLE {t}"),
    kinds.CopyInto: ("COPY INTO own FROM {f} FILEFORMAT = ORC", "COPY INTO {t} FROM 'spare' FILEFORMAT = ORC"),
    kinds.ShowCopyHistory: ("SHOW COPY HISTORY {t}",),
    kinds.Truncate: ("TRUNCATE TABLE {t}",),
    kinds.RestoreTable: ("RESTORE TABLE {t} TO VERSION AS OF 1",),
    kinds.Analyze: ("ANALYZE TABLE {t} COMPUTE STATISTICS", "ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS"),
    kinds.AnalyzeTables: ("ANALYZE TABLES IN {d} COMPUTE STATISTICS",),
    kinds.CreateDatabase: ("CREATE DATABASE new LOCATION {f} WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')",),
    kinds.DropDatabase: ("DROP DATABASE {d} CASCADE", "DROP DATABASE IF EXISTS {d}"),
    kinds.AlterDatabase: (
        "ALTER DATABASE {d} SET DBPROPERTIES ('x' = 'y')",
        "ALTER DATABASE {d} UNSET DBPROPERTIES IF EXISTS ('x')",
        "ALTER DATABASE {d} SET OWNER USER joe",
        "ALTER DATABASE {d} SET LOCATION {f}",
    ),
    kinds.UseDatabase: (),
    kinds.CreateTable: (
        "CREATE TABLE {n} (id INT)",
        "CREATE TABLE {n} AS {q}",
        "CREATE OR REPLACE TABLE {n} (id INT)",
        "REPLACE TABLE {t} AS {q}",
        "CREATE TEMPORARY TABLE new AS {q}",
        "CREATE EXTERNAL TABLE new (id INT) STORED AS ORC LOCATION {f}",
        "CREATE TABLE new (id INT) USING parquet OPTIONS (path {f})",
        "CREATE TABLE new (id INT) LOCATION {f}",
        "CREATE TABLE new (id INT, FOREIGN KEY (id) REFERENCES {t} (id) DISABLE NOVALIDATE)",
    ),
    kinds.CreateTableLike: (
        "CREATE TABLE {n} LIKE {t}",
        "CREATE EXTERNAL TABLE new LIKE ext LOCATION {f}",
    ),
    kinds.DropTable: ("DROP TABLE {t}", "DROP TABLE IF EXISTS {t} CASCADE"),
    kinds.AddPartitions: (
        "ALTER TABLE {t} ADD PARTITION (p = 9)",
        "ALTER TABLE ext ADD IF NOT EXISTS PARTITION (p = 9) LOCATION {f}",
    ),
    kinds.DropPartitions: ("ALTER TABLE {t} DROP PARTITION (p = 1)",),
    kinds.RenamePartition: ("ALTER TABLE {t} PARTITION (p = 1) RENAME TO PARTITION (p = 2)",),
    kinds.SetTableProperties: (
        "ALTER TABLE {t} SET TBLPROPERTIES ('x' = 'y')",
        "ALTER VIEW {t} UNSET TBLPROPERTIES IF EXISTS ('x')",
    ),
    kinds.CreateView: ("CREATE VIEW {n} AS {q}", "CREATE OR REPLACE VIEW {n} AS {q}", "ALTER VIEW fine AS {q}"),
    kinds.DropView: ("DROP VIEW {t}",),
    kinds.RenameTable: ("ALTER TABLE {t} RENAME TO {n}", "ALTER VIEW {t} RENAME TO {n}"),
    kinds.AddColumns: ("ALTER TABLE {t} ADD COLUMNS (x INT)",),
    kinds.ChangeColumn: ("ALTER TABLE {t} CHANGE id id2 INT",),
    kinds.ChangeConstraints: (
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
        "ALTER TABLE own ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES {t} (id) DISABLE NOVALIDATE",
        "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS c",
    ),
    kinds.ReplaceColumns: ("ALTER TABLE {t} REPLACE COLUMNS (id INT)",),
    kinds.DropColumns: ("ALTER TABLE {t} DROP COLUMN id",),
    kinds.CreateLink: ("CREATE LINK TO {o}",),
    kinds.DropLink: ("DROP LINK TO {o}",),
    kinds.AddLinkPartitions: ("ALTER LINK {o} ADD PARTITION (p = 1)",),
    kinds.DropLinkPartitions: ("ALTER LINK {o} DROP PARTITION (p = 1)",),
    kinds.SetLinkProperties: ("ALTER LINK {o} SET LINKPROPERTIES ('x' = 'y')",),
    kinds.ShowLinks: (),
    kinds.ShowCapacity: (),
    kinds.SetQuota: ("ALTER DATABASE {d} SET QUOTA '10 GB'", "ALTER NAMESPACE {d} UNSET QUOTA ON CLUSTER c1"),
    kinds.MoveDatabase: ("ALTER DATABASE {d} SET PRIMARY CLUSTER c2", "ALTER DATABASE {d} SET PRIMARY CLUSTER c1"),
    kinds.CancelMove: ("ALTER DATABASE {d} CANCEL MOVE", "ALTER DATABASE {d} CANCEL MOVE KEEP COPIES"),
    kinds.ShowDatabases: (),
    kinds.ShowCurrentNamespace: (),
    kinds.ShowTables: (),
    kinds.CommentOn: (
        "COMMENT ON DATABASE {d} IS 'x'",
        "COMMENT ON TABLE {t} IS 'x'",
        "COMMENT ON COLUMN {t}.id IS 'x'",
    ),
    kinds.ShowFunctions: (),
    kinds.DescribeFunction: ("DESCRIBE FUNCTION {g}", "DESCRIBE FUNCTION EXTENDED {g}"),
    kinds.ShowColumns: ("SHOW COLUMNS IN {t}",),
    kinds.ShowTableProperties: ("SHOW TBLPROPERTIES {t}",),
    kinds.ShowPartitions: ("SHOW PARTITIONS {t}",),
    kinds.ShowCreateTable: ("SHOW CREATE TABLE {t}",),
    kinds.DescribeTable: ("DESCRIBE {t}", "DESCRIBE FORMATTED {t}", "DESCRIBE EXTENDED {t} AS JSON", "DESCRIBE {t} id"),
    kinds.DescribeDatabase: (),
    kinds.DescribeHistory: ("DESCRIBE HISTORY {t}",),
    kinds.StartTransaction: (),
    kinds.Commit: (),
    kinds.Rollback: (),
    kinds.AbortTransactions: (),
    kinds.ShowTransactions: (),
    kinds.ShowStatements: (),
    kinds.ShowLocks: ("SHOW LOCKS {t}",),
    kinds.Compact: ("ALTER TABLE {t} COMPACT 'major'", "OPTIMIZE {t}"),
    kinds.Vacuum: ("VACUUM {t}", "VACUUM {t} DRY RUN"),
    kinds.ShowCompactions: ("SHOW COMPACTIONS {t}",),
    kinds.AbortCompactions: (),
    kinds.ReplicateTable: ("REPLICATE TABLE {t} TO CLUSTER c2",),
    kinds.DropCopy: ("ALTER TABLE {t} DROP COPY ON CLUSTER c2",),
    kinds.SetPrimaryCluster: ("ALTER TABLE {t} SET PRIMARY CLUSTER c2",),
    kinds.ShowCopies: ("SHOW COPIES {t}",),
    kinds.UseCluster: (),
    kinds.ShowClusters: (),
    kinds.ShowTableExtended: ("SHOW TABLE EXTENDED IN {d} LIKE '*'",),
    kinds.RepairPartitions: ("MSCK REPAIR TABLE {t}", "MSCK TABLE {t}"),
    kinds.RefreshTable: ("REFRESH TABLE {t}",),
    kinds.ExchangePartition: (
        "ALTER TABLE {t} EXCHANGE PARTITION (p = 1) WITH TABLE parted",
        "ALTER TABLE parted EXCHANGE PARTITION (p = 1) WITH TABLE {t}",
    ),
    kinds.SetLocation: (
        "ALTER TABLE ext SET LOCATION {f}",
        "ALTER TABLE ext PARTITION (p = 1) SET LOCATION {f}",
        "ALTER TABLE {t} SET LOCATION 'spare'",
    ),
    kinds.SetFormat: ("ALTER TABLE {t} SET FILEFORMAT ORC",),
    kinds.SetSerdeProperties: ("ALTER TABLE {t} SET SERDEPROPERTIES ('x' = 'y')",),
    kinds.UpdateStatistics: ("ALTER TABLE {t} UPDATE STATISTICS SET ('numRows' = '1')",),
    kinds.TouchTable: ("ALTER TABLE {t} TOUCH",),
    kinds.CreateTemporaryView: ("CREATE OR REPLACE TEMPORARY VIEW new AS {q}",),
    kinds.CreateFunction: (
        "CREATE FUNCTION {n}(id INT) RETURNS INT RETURN id + 1",
        "CREATE FUNCTION {n} AS 'x.Y'",
        "CREATE OR REPLACE FUNCTION new(id INT) RETURNS INT RETURN {e}",
        "CREATE FUNCTION new(x INT DEFAULT b.f(1)) RETURNS INT RETURN x",
    ),
    kinds.DropFunction: ("DROP FUNCTION {g}", "DROP FUNCTION IF EXISTS {g}"),
    kinds.CreateTemporaryFunction: ("CREATE TEMPORARY FUNCTION new(id INT) RETURNS INT RETURN {e}",),
    kinds.DropTemporaryFunction: (),
    kinds.DeclareVariable: ("DECLARE OR REPLACE VARIABLE x INT DEFAULT (SELECT max(id) FROM ({q}))",),
    kinds.SetVariables: ("SET VARIABLE known = (SELECT max(id) FROM ({q}))",),
    kinds.DropVariable: (),
    kinds.ExecuteImmediate: ('EXECUTE IMMEDIATE "{q}"', 'EXECUTE IMMEDIATE "INSERT INTO {t} {q}"'),
    kinds.SetConfiguration: (),
    kinds.ResetConfiguration: (),
    kinds.SetSetting: (),
    kinds.ResetSetting: (),
}
"""For each kind of statement its forms with places for foreign objects; none where it names no object of a namespace
but for lists (docs/how-to/namespaces.md, "Closed namespaces")."""

OWN = {"r": "own", "e": "id", "t": "own", "n": "new", "d": "a", "f": "'spare'", "g": "fine_f", "o": "t@b"}
QUERIES = (
    "SELECT id FROM {r}",
    "SELECT o.id FROM own AS o JOIN {r} AS s ON o.id = s.id",
    "SELECT id FROM own WHERE id IN (SELECT id FROM {r})",
    "SELECT id FROM own WHERE EXISTS (SELECT 1 FROM {r} AS s WHERE s.id = own.id)",
    "WITH c AS (SELECT * FROM {r}) SELECT id FROM c",
    "SELECT (SELECT max(id) FROM {r}) AS id",
    "SELECT id FROM own UNION ALL SELECT id FROM {r}",
    "SELECT id FROM (SELECT id FROM own EXCEPT SELECT id FROM {r}) AS s",
    "SELECT id FROM own GROUP BY id HAVING max(id) > (SELECT max(id) FROM {r})",
    "SELECT {e} AS id FROM own",
    "SELECT id FROM own WHERE {e} > 1",
    "SELECT max({e}) AS id FROM own GROUP BY {e}",
    "SELECT id FROM own VERSION AS OF 1 AS o WHERE o.id IN (SELECT id FROM {r})",
)
_TABLES = ("b.t", "B.T", "`b`.`t`", "b . t", "spark_catalog.b.t", "b.v", "b.e", "`B` /* a.own */ . t", "b.parted")
_OF_TEXT = {
    "r": (*_TABLES, "c.t@b", "b.t VERSION AS OF 1", "b.t CHANGES FROM VERSION 1", "table_changes('b.t', 1)"),
    "e": ("b.f(id)", "`b`.`f`(id)", "B.f(id)", "abs(b.f(id + 1))"),
    "t": _TABLES,
    "n": ("b.new", "`b`.new", "B.NEW", "spark_catalog.b.new"),
    "d": ("b", "B", "`b`"),
    "g": ("b.f", "`b`.`f`"),
    "o": ("b.t@c", "c.t@b", "`b`.t@c"),
}
_BY_DEFINITION = {
    "r": ("foreign_view", "a.outer_view", "calling_view", "temporary_view", "outer_temporary", "temporary_table"),
    "e": ("foreign_f(id)", "a.outer_f(id)", "temporary_f(id)"),
    "t": ("temporary_table",),
}
"""Own objects and those of the session that lead to another namespace."""
_FOLDERS = (
    *("theirs", "theirs/ext", "theirs/ext/", "./theirs//ext/.", "theirs/ext/inner", "elsewhere", "elsewhere/p=1"),
    *("{root}/theirs/ext", "file:{root}/theirs/ext", "file://{root}//theirs/ext/", "FILE:///{root}/theirs/./ext"),
    *("file://localhost{root}/elsewhere", "to_theirs", "to_theirs/ext", "b.db", "b.db/t"),
)


@dataclass(frozen=True, slots=True)
class ForeignStatement:
    """A statement with a foreign object; ``is_in_text`` says that its own text names the object."""

    kind: type[Statement]
    template: str
    text: str
    foreign: str
    is_in_text: bool


class ForeignStatements:
    """Makes statements; all kinds with places come again and again."""

    def __init__(self, random: Random, root: str) -> None:
        self._random = random
        self._folders = tuple(f"'{each.format(root=root)}'" for each in _FOLDERS)

    def __iter__(self) -> Iterator[ForeignStatement]:
        """Yield statements without an end."""
        forms = [(kind, template) for kind, templates in TEMPLATES.items() for template in templates]
        while True:
            self._random.shuffle(forms)
            for kind, template in forms:
                yield self._filled(kind, template)

    def _filled(self, kind: type[Statement], template: str) -> ForeignStatement:
        text = template
        while "{q}" in text:
            text = text.replace("{q}", self._random.choice(QUERIES), 1)
        places = [index for index in range(len(text) - 2) if text[index] == "{" and text[index + 2] == "}"]
        if not places:
            return ForeignStatement(kind, template, text, text, is_in_text=True)
        chosen = self._random.choice(places)
        place = text[chosen + 1]
        value, is_in_text = self._foreign(place, kind)
        filled = text[:chosen] + "\0" + text[chosen + 3 :]
        for name, own in OWN.items():
            filled = filled.replace(f"{{{name}}}", own)
        return ForeignStatement(kind, template, filled.replace("\0", value), value, is_in_text)

    def _foreign(self, place: str, kind: type[Statement]) -> tuple[str, bool]:
        if place == "f":
            return self._random.choice(self._folders), True
        of_text: Sequence[str] = _OF_TEXT[place]
        by_definition: Sequence[str] = (
            () if kind in (kinds.CreateView, kinds.CreateTableLike) else _BY_DEFINITION.get(place, ())
        )
        value = self._random.choice((*of_text, *by_definition))
        return value, value in of_text
