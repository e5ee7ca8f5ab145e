"""Namespace mode: a closed namespace names tables of others by links only, in every position of every statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from airflow_hivex.core import Metastore, Session, inspect
from airflow_hivex.core.errors import (
    ForeignNameError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchLinkError,
)
from airflow_hivex.core.model.findings import FindingKind
from airflow_hivex.core.model.permanent_functions import SqlFunction
from airflow_hivex.core.namespaces.closure import NamedStatement
from airflow_hivex.core.parser.statements import ObjectKind
from tests import evidence
from tests.acceptance.linked_rows import rows_of
from tests.acceptance.named_statements import Named, Statements
from tests.acceptance.test_links import create_view
from tests.conftest import Counts


@pytest.fixture
def a(metastore: Metastore) -> Iterator[Session]:
    """A session of the closed namespace A; B is another one, with a table."""
    with metastore.session() as session:
        session.sql("CREATE DATABASE a WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
        session.sql("CREATE DATABASE b")
        session.sql("CREATE TABLE b.t (id int)")
        session.sql("INSERT INTO b.t VALUES (1)")
        session.sql("USE a")
        yield session


REFUSED = [
    ("SELECT * FROM b.t", 1, 15, "CREATE LINK TO t@b"),
    ("SELECT *\nFROM own JOIN\n  `B` . T AS x USING (id)", 3, 3, "CREATE LINK TO t@b"),
    ("SELECT * FROM own WHERE id IN (SELECT id FROM b.t)", 1, 47, "CREATE LINK TO t@b"),
    ("WITH c AS (SELECT * FROM b.t) SELECT * FROM c", 1, 26, "CREATE LINK TO t@b"),
    ("SELECT * FROM b.`odd name`", 1, 15, "CREATE LINK TO `odd name`@b"),
    ("SELECT * FROM b.t@c", 1, 15, "CREATE LINK TO t@c"),
    ("MERGE INTO own USING b.t AS s ON own.id = s.id WHEN MATCHED THEN DELETE", 1, 22, "CREATE LINK TO t@b"),
    ("FROM b.t INSERT INTO own SELECT id INSERT INTO own SELECT id", 1, 6, "CREATE LINK TO t@b"),
    ("FROM own INSERT INTO own SELECT id INSERT INTO b.t SELECT id", 1, 48, None),
    ("INSERT INTO b.t VALUES (1)", 1, 13, None),
    ("UPDATE b.t SET id = 1", 1, 8, None),
    ("DELETE FROM b.t", 1, 13, None),
    ("CREATE TABLE b.u (id int)", 1, 14, None),
    ("CREATE TABLE own2 AS SELECT * FROM b.t", 1, 36, "CREATE LINK TO t@b"),
    ("CREATE TABLE own2 LIKE b.t", 1, 24, "CREATE LINK TO t@b"),
    ("CREATE TABLE b.own2 LIKE own", 1, 14, None),
    ("CREATE VIEW v AS SELECT * FROM b.t", 1, 32, "CREATE LINK TO t@b"),
    ("CREATE VIEW b.v AS SELECT * FROM own", 1, 13, None),
    ("ALTER TABLE own RENAME TO b.own", 1, 27, None),
    ("DROP TABLE IF EXISTS b.t", 1, 22, None),
    ("TRUNCATE TABLE b.t", 1, 16, None),
    ("DESCRIBE b.t", 1, 10, "CREATE LINK TO t@b"),
    ("SHOW PARTITIONS b.t", 1, 17, "CREATE LINK TO t@b"),
    ("SHOW CREATE TABLE b.t", 1, 19, "CREATE LINK TO t@b"),
    ("SHOW LOCKS b.t", 1, 12, "CREATE LINK TO t@b"),
    ("EXPLAIN SELECT * FROM b.t", 1, 23, "CREATE LINK TO t@b"),
    ("EXPLAIN ROUTE SELECT * FROM b.t", 1, 29, "CREATE LINK TO t@b"),
    ("SELECT * FROM spark_catalog.b.t", 1, 15, "CREATE LINK TO t@b"),
    ("SELECT * FROM table_changes('b.t', 1)", 1, 15, "CREATE LINK TO t@b"),
    ("ANALYZE TABLES IN b COMPUTE STATISTICS", 1, 19, None),
    ("SHOW TABLE EXTENDED IN b LIKE 't'", 1, 24, None),
    ("COMMENT ON DATABASE b IS 'theirs'", 1, 21, None),
    ("ALTER DATABASE b SET DBPROPERTIES ('hivex.namespace.mode' = 'false')", 1, 16, None),
    ("DROP DATABASE b CASCADE", 1, 15, None),
    ("DESCRIBE FUNCTION b.f", None, None, None),
    ("ALTER DATABASE b SET PRIMARY CLUSTER c2", 1, 16, None),
    ("ALTER DATABASE b SET QUOTA '1 GB'", 1, 16, None),
    ("ALTER DATABASE b UNSET QUOTA", 1, 16, None),
    ("ALTER DATABASE b CANCEL MOVE", 1, 16, None),
    ("ALTER DATABASE b SET LOCATION 'elsewhere'", 1, 16, None),
    ("EXPLAIN INSERT INTO b.t VALUES (1)", 1, 21, "CREATE LINK TO t@b"),
    ("EXPLAIN INSERT OVERWRITE b.t SELECT * FROM own", 1, 26, "CREATE LINK TO t@b"),
    ("EXPLAIN UPDATE b.t SET id = 1", 1, 16, "CREATE LINK TO t@b"),
    ("EXPLAIN FROM own INSERT INTO own SELECT id INSERT INTO b.t SELECT id", 1, 56, "CREATE LINK TO t@b"),
    ("EXPLAIN CREATE TABLE b.u AS SELECT * FROM own", 1, 22, "CREATE LINK TO u@b"),
    ("EXPLAIN ROUTE INSERT INTO b.t SELECT * FROM own", 1, 27, "CREATE LINK TO t@b"),
    ("EXECUTE IMMEDIATE 'SELECT * FROM b.t'", 1, 15, "CREATE LINK TO t@b"),
    ("ALTER LINK b.x@y ADD PARTITION (ds = 1)", 1, 12, None),
    ("CREATE LINK TO b.x@y", 1, 16, None),
]


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_foreign_name_is_refused_with_its_place_and_the_link_to_make(a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    for text, line, column, link in REFUSED:
        with pytest.raises(ForeignNameError) as error:
            a.sql(text)
        assert (error.value.line, error.value.column, error.value.create_link) == (line, column, link), text
        assert link is None or f"{link}; then write" in str(error.value)
    with pytest.raises(ForeignNameError):
        a.snapshot_files("b.t")
    with pytest.raises(ForeignNameError):
        a.transaction_batch("b.t")
    with pytest.raises(ForeignNameError):
        a.explain("SELECT * FROM b.t")
    # The statement that the error gives works, and so do names of the own namespace.
    a.sql("CREATE LINK TO t@b")
    assert rows_of(a, "t@b") == [(1,)]
    assert rows_of(a, "a.own") == []
    a.sql("USE b")
    assert rows_of(a, "t") == [(1,)]


@pytest.mark.every_backend
def test_view_of_a_closed_namespace_names_no_other_one(metastore: Metastore, a: Session) -> None:
    create_view(metastore, "a", "foreign_view", "SELECT `id` AS `id` FROM (SELECT * FROM `b`.`t` AS `t`\n)")
    create_view(metastore, "a", "outer_view", "SELECT `id` AS `id` FROM (SELECT * FROM `a`.`foreign_view` AS `f`\n)")
    create_view(metastore, "b", "open_view", "SELECT `id` AS `id` FROM (SELECT * FROM `a`.`own` AS `t`\n)")
    a.sql("CREATE TABLE own (id int)")
    for text in ("SELECT * FROM foreign_view", "SELECT * FROM own JOIN outer_view USING (id)"):
        with pytest.raises(ForeignNameError, match=r"View a\.foreign_view reads it\. CREATE LINK TO t@b"):
            a.explain(text)
    # The namespace of the view counts, not that of its reader.
    a.sql("USE default")
    with pytest.raises(ForeignNameError):
        a.explain("SELECT * FROM a.outer_view")
    with pytest.raises(ForeignNameError, match="closed"):
        a.sql("CREATE VIEW a.made AS SELECT * FROM b.t")
    assert a.explain("SELECT * FROM b.open_view").cluster == "c1"
    a.sql("USE a")
    with pytest.raises(ForeignNameError):
        a.explain("SELECT * FROM b.open_view")


@pytest.mark.every_backend
def test_metastore_is_closed_and_a_database_opened(metastore: Metastore, metastore_url: str, a: Session) -> None:
    clusters = {name: {"filesystem": metastore.clusters.get(name).filesystem} for name in metastore.clusters}
    for each in clusters.values():
        each["jobtracker"] = "local[1]"
    settings = {"hivex.namespace.mode": True}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as closed,
        closed.session() as session,
    ):
        with pytest.raises(ForeignNameError):
            rows_of(session, "b.t")
        session.sql("ALTER DATABASE default SET DBPROPERTIES ('hivex.namespace.mode' = 'False')")
        assert rows_of(session, "b.t") == [(1,)]
        for name, expected in (("default", False), ("a", True), ("b", True)):
            assert closed.namespaces.is_closed(name) is expected
    # Who opens the metastore later and says nothing has the same mode.
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as later:
        assert later.namespaces.is_closed("b")
    with Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", settings={"hivex.namespace.mode": False}
    ) as opened:
        assert not opened.namespaces.is_closed("b")
    with pytest.raises(InvalidObjectError, match="not a valid mode"):
        a.sql("ALTER DATABASE a SET DBPROPERTIES ('hivex.namespace.mode' = 'on')")


def create_function(metastore: Metastore, database: str, name: str, expression: str) -> None:
    """A function of SQL, as CREATE FUNCTION stores it, without Spark's analysis."""
    found = SqlFunction(database, "x INT", "INT", expression=expression)
    metastore.catalog.create_function(found.as_function(database, name, None, 0))


REFERENCES = (
    "CREATE TABLE u (id int, CONSTRAINT k FOREIGN KEY (id) REFERENCES b.t (id) DISABLE NOVALIDATE)",
    "ALTER TABLE own ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES b.t (id) DISABLE NOVALIDATE",
)


@pytest.mark.every_backend
def test_a_foreign_key_of_a_closed_namespace_references_its_own_tables(metastore: Metastore, a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    for text in REFERENCES:
        with pytest.raises(ForeignNameError):
            a.sql(text)
    a.sql(REFERENCES[1].replace("b.t", "own"))
    a.sql("USE b")
    a.sql("CREATE TABLE c (id int, CONSTRAINT k FOREIGN KEY (id) REFERENCES t (id) DISABLE NOVALIDATE)")
    # The namespace that has the table counts, not the one that makes or moves it.
    with pytest.raises(ForeignNameError, match=r"A foreign key of table a\.u references it"):
        a.sql(REFERENCES[0].replace("TABLE u", "TABLE a.u"))
    with pytest.raises(ForeignNameError, match=r"A foreign key of table a\.c references it"):
        a.sql("ALTER TABLE c RENAME TO a.c")
    assert metastore.namespaces.check("a").is_closed


@pytest.mark.every_backend
def test_definitions_that_call_functions_of_another_namespace_are_refused(metastore: Metastore, a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    create_function(metastore, "b", "f", "x + 1")
    create_function(metastore, "a", "g", "b.f(x)")
    create_function(metastore, "a", "h", "g(x) + 1")
    create_function(metastore, "a", "fine", "abs(x)")
    create_view(metastore, "a", "v", "SELECT `id` AS `id` FROM (SELECT b.f(id) AS id FROM `a`.`own` AS `o`\n)")
    create_view(metastore, "a", "w", "SELECT `id` AS `id` FROM (SELECT * FROM `a`.`v` AS `o`\n)")
    for text in (
        "SELECT g(id) FROM own",
        "INSERT INTO own SELECT h(id) FROM own",
        "SELECT id FROM own WHERE a.h(id) > 1",
        "SELECT * FROM v",
        "SELECT * FROM own JOIN w USING (id)",
        "SELECT b.f(id) FROM own",
    ):
        with pytest.raises(ForeignNameError, match=r"b\.f"):
            a.explain(text)
        for prefix in ("", "EXPLAIN ", "EXPLAIN ROUTE "):
            with pytest.raises(ForeignNameError, match=r"b\.f"):
                a.sql(prefix + text)
    assert a.explain("SELECT fine(id) FROM own").cluster == "c1"
    a.sql("USE b")
    # The namespace of the view or function counts, not that of its reader.
    for text in ("SELECT * FROM a.w", "SELECT a.h(1)"):
        with pytest.raises(ForeignNameError, match=r"b\.f"):
            a.explain(text)
    assert a.explain("SELECT f(1), a.fine(1)").cluster == "c1"
    found = {(each.kind, each.object, each.name) for each in metastore.namespaces.check("a").dependencies}
    assert found == {("view", "a.v", "b.f"), ("function", "a.g", "b.f")}


@pytest.mark.spark
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_temporary_objects_do_not_bring_rows_of_another_namespace(metastore: Metastore, a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    create_function(metastore, "b", "f", "x + 1")
    a.sql("USE b")
    a.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM t")
    a.sql("CREATE TEMPORARY VIEW w AS SELECT * FROM v")
    a.sql("CREATE TEMPORARY VIEW called AS SELECT f(1) AS id")
    a.sql("CREATE TEMPORARY TABLE copied AS SELECT * FROM t")
    a.sql("CREATE TEMPORARY VIEW of_copied AS SELECT * FROM copied")
    a.sql("CREATE TEMPORARY FUNCTION g(x INT) RETURNS INT RETURN f(x)")
    a.sql("CREATE TEMPORARY VIEW of_own AS SELECT * FROM a.own")
    assert a.sql("SELECT * FROM w").rows == [(1,)]
    a.sql("USE a")
    for name in ("v", "w", "called", "copied", "of_copied"):
        for text in (
            f"SELECT * FROM {name}",
            f"DESCRIBE {name}",
            f"INSERT INTO own SELECT * FROM {name}",
            f"EXPLAIN SELECT * FROM own JOIN {name} USING (id)",
            f"EXPLAIN ROUTE SELECT * FROM own WHERE id IN (SELECT id FROM {name})",
            f"CREATE TABLE more AS SELECT * FROM {name}",
            f"CREATE TEMPORARY VIEW more AS SELECT * FROM {name}",
            f"DECLARE x INT DEFAULT (SELECT max(id) FROM {name})",
            f"EXECUTE IMMEDIATE 'SELECT * FROM {name}'",
        ):
            with pytest.raises((ForeignNameError, InvalidOperationError), match=r"namespace a is closed|namespace b"):
                a.sql(text)
    with pytest.raises(ForeignNameError, match=r"b\.f"):
        a.sql("SELECT g(id) FROM own")
    with pytest.raises(InvalidOperationError, match="made in namespace b"):
        a.sql("INSERT INTO copied SELECT * FROM own")
    with pytest.raises(InvalidOperationError, match="made in namespace b"):
        a.to_arrow("copied")
    # Objects of the namespace that were made while it was closed stay usable, and do not leave it.
    assert a.sql("SELECT * FROM of_own").rows == []
    a.sql("CREATE TEMPORARY TABLE mine AS SELECT * FROM own")
    a.sql("CREATE TEMPORARY VIEW of_mine AS SELECT * FROM mine")
    assert a.sql("SELECT * FROM of_mine").rows == []
    a.sql("USE b")
    with pytest.raises(InvalidOperationError, match="made in namespace a"):
        a.sql("INSERT INTO mine SELECT * FROM t")
    # A namespace that is closed later does not take those from before.
    a.sql("CREATE TEMPORARY TABLE earlier AS SELECT * FROM t")
    a.sql("CREATE TEMPORARY VIEW of_other AS SELECT * FROM a.own")
    a.sql("ALTER DATABASE b SET DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    with pytest.raises(InvalidOperationError, match="before namespace b was closed"):
        a.sql("SELECT * FROM earlier")
    with pytest.raises(ForeignNameError):
        a.sql("SELECT * FROM of_other")
    assert a.sql("SELECT * FROM w").rows == [(1,)]


@pytest.mark.every_backend
def test_a_folder_belongs_to_one_namespace_where_either_is_closed(metastore: Metastore, a: Session) -> None:
    root = metastore.clusters.get("c1").filesystem.removeprefix("file://")
    for name in ("data/up/inner", "over", "parts/p=1", "free", "spare"):
        (Path(root) / name).mkdir(parents=True)
    (Path(root) / "over" / "file.orc").touch()
    a.sql("USE b")
    a.sql("CREATE EXTERNAL TABLE e (id int) STORED AS ORC LOCATION 'data/up'")
    a.sql("CREATE EXTERNAL TABLE p (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'parts'")
    a.sql("ALTER TABLE p ADD PARTITION (p = 1) LOCATION 'over'")
    a.sql("USE a")
    a.sql("CREATE EXTERNAL TABLE own (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'free'")
    a.sql("CREATE TABLE managed (id int)")
    for place in (
        *("data", "data/up", "data/up/", "./data//up/.", "data/up/inner", "over", "over/deep", "parts/p=1", "b.db"),
        *(f"file:{root}/data/up", f"file://{root}/data//up/", f"FILE:///{root}/over", f"file://localhost{root}/data"),
    ):
        for text in (
            f"CREATE EXTERNAL TABLE more (id int) STORED AS ORC LOCATION '{place}'",
            f"CREATE TABLE more (id int) USING orc OPTIONS (path '{place}')",
            f"CREATE EXTERNAL TABLE more LIKE own LOCATION '{place}'",
            f"CREATE TABLE more (id int) LOCATION '{place}'",
            f"ALTER TABLE own ADD PARTITION (p = 1) LOCATION '{place}'",
            f"ALTER TABLE own SET LOCATION '{place}'",
            f"CREATE DATABASE more LOCATION '{place}' WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')",
            f"ALTER DATABASE a SET LOCATION '{place}'",
        ):
            with pytest.raises(InvalidObjectError, match=r"not apart from|holds the tables of"):
                a.sql(text)
    with pytest.raises(InvalidOperationError, match=r"belongs to a partition of table b\.p"):
        a.sql("LOAD DATA INPATH 'over' INTO TABLE managed")
    # The namespace that is there first may be the closed one.
    a.sql("USE b")
    a.sql("CREATE EXTERNAL TABLE again (id int) STORED AS ORC LOCATION 'data'")
    with pytest.raises(InvalidObjectError, match=r"not apart from that of table a\.own"):
        a.sql("CREATE EXTERNAL TABLE more (id int) STORED AS ORC LOCATION 'free/p=1'")
    with pytest.raises(InvalidObjectError, match=r"not apart from that of table b\.again"):
        a.sql("ALTER TABLE e RENAME TO a.e")
    assert metastore.namespaces.check("a").is_closed
    # Folders from before a namespace was closed are listed.
    a.sql("CREATE DATABASE c")
    a.sql("CREATE EXTERNAL TABLE c.e (id int) STORED AS ORC LOCATION 'data/up/inner'")
    listed = [(each.kind, each.object, each.name) for each in metastore.namespaces.check("c").dependencies]
    assert listed == [("folder", "table c.e", "table b.e")]
    shared = [(each.database, each.table) for each in metastore.doctor.examine() if each.kind is FindingKind.SHARED]
    assert ("c", "e") in shared
    found = metastore.namespaces.check(
        "a", [NamedStatement("dag", "CREATE EXTERNAL TABLE x (id int) STORED AS ORC LOCATION 'over/deep'")]
    )
    assert [(each.object, each.reason) for each in found.dependencies] == [
        ("dag", "the folder is shared with a partition of table b.p")
    ]


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_batches_exports_and_options_do_not_leave_a_closed_namespace(metastore: Metastore, a: Session) -> None:
    root = Path(metastore.clusters.get("c1").filesystem.removeprefix("file://"))
    a.sql("CREATE TABLE own (id int)")
    a.sql("CREATE EXTERNAL TABLE ext (id int) STORED AS ORC LOCATION 'mine'")
    a.sql("USE b")
    with a.transaction_batch("t") as batch:
        batch.write([(2,)])
        a.sql("USE a")
        with pytest.raises(ForeignNameError, match="A link is read only"):
            batch.write([(3,)])
    with pytest.raises(ForeignNameError, match="A link is read only"):
        a.insert_rows("b.t", [(3,)])
    with pytest.raises(InvalidOperationError, match=r"not apart from the folder of table b\.t"):
        a.export_for_hive("own", root / "b.db" / "t" / "exported")
    for key in ("path", "PATH", "paths"):
        with pytest.raises(InvalidObjectError, match="SET LOCATION changes them"):
            a.sql(f"ALTER TABLE ext SET SERDEPROPERTIES ('{key}' = '{root}/b.db/t')")
    a.sql("USE b")
    assert sorted(rows_of(a, "t")) == [(1,), (2,)]


@pytest.mark.every_backend
def test_a_folder_of_a_temporary_table_belongs_to_the_namespace_that_made_it(metastore: Metastore, a: Session) -> None:
    root = Path(metastore.clusters.get("c1").filesystem.removeprefix("file://"))
    for name in ("theirs/p=1", "mine/p=1", "later", "made"):
        (root / name).mkdir(parents=True)
    (root / "linked").symlink_to(root / "theirs")
    a.sql("USE b")
    a.sql("CREATE EXTERNAL TABLE e (v string) STORED AS TEXTFILE LOCATION 'theirs'")
    a.sql("USE a")
    a.sql("CREATE EXTERNAL TABLE own (v string) STORED AS TEXTFILE LOCATION 'mine'")
    a.sql("CREATE TEMPORARY EXTERNAL TABLE of_own (v string) PARTITIONED BY (p int) STORED AS TEXTFILE LOCATION 'mine'")
    a.sql("CREATE TEMPORARY EXTERNAL TABLE placed (v string) STORED AS TEXTFILE")
    for place in ("theirs", "theirs/p=1", "linked", "linked/p=1", f"file:{root}/theirs"):
        for text in (
            f"CREATE TEMPORARY TABLE more (v string) STORED AS TEXTFILE LOCATION '{place}'",
            f"CREATE TEMPORARY EXTERNAL TABLE more (v string) STORED AS TEXTFILE LOCATION '{place}'",
            f"CREATE TEMPORARY TABLE more (v string) USING csv OPTIONS (path '{place}')",
            f"CREATE TEMPORARY TABLE more LIKE own STORED AS TEXTFILE LOCATION '{place}'",
            f"ALTER TABLE of_own ADD PARTITION (p = 2) LOCATION '{place}'",
            f"ALTER TABLE of_own SET LOCATION '{place}'",
        ):
            with pytest.raises(InvalidObjectError, match=r"not apart from that of table b\.e"):
                a.sql(text)
    with pytest.raises(InvalidObjectError, match=r"hivex\.temporary\.namespace"):
        a.sql("ALTER TABLE of_own SET TBLPROPERTIES ('hivex.temporary.namespace' = 'b')")
    with pytest.raises(InvalidObjectError, match=r"hivex\.temporary\.namespace"):
        a.sql("CREATE TEMPORARY TABLE more (v string) TBLPROPERTIES ('hivex.temporary.namespace' = 'b')")
    assert "hivex.temporary.namespace" not in str(a.sql("SHOW CREATE TABLE of_own").rows)
    # Another namespace does not get the folder of a temporary table of a closed one either.
    a.sql("CREATE TEMPORARY TABLE early (v string) STORED AS TEXTFILE LOCATION 'later'")
    (root / "again").symlink_to(root / "later")
    with metastore.session(database="b") as other:
        for place in ("later", "later/in", "again"):
            with pytest.raises(InvalidObjectError, match=r"not apart from that of table hivex_temporary\.early"):
                other.sql(f"CREATE EXTERNAL TABLE more (v string) STORED AS TEXTFILE LOCATION '{place}'")
        other.sql("CREATE TEMPORARY TABLE theirs (v string) STORED AS TEXTFILE LOCATION 'made'")
    a.sql("CREATE EXTERNAL TABLE more (v string) STORED AS TEXTFILE LOCATION 'later'")
    assert metastore.namespaces.check("a").is_closed


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_symbolic_links_do_not_lead_into_another_namespace(metastore: Metastore, a: Session) -> None:
    root = Path(metastore.clusters.get("c1").filesystem.removeprefix("file://"))
    (root / "theirs" / "inner").mkdir(parents=True)
    (root / "linked").symlink_to(root / "theirs")
    (root / "real").mkdir()
    (root / "seen").symlink_to(root / "real")
    (root / "mine").mkdir()
    a.sql("CREATE EXTERNAL TABLE own (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'mine'")
    a.sql("USE b")
    a.sql("CREATE EXTERNAL TABLE e (id int) STORED AS ORC LOCATION 'theirs'")
    a.sql("CREATE EXTERNAL TABLE f (id int) STORED AS ORC LOCATION 'seen'")
    a.sql("USE a")
    for place in ("linked", "linked/inner", "real", "real/inner"):
        for text in (
            f"CREATE EXTERNAL TABLE more (id int) STORED AS ORC LOCATION '{place}'",
            f"CREATE DATABASE more LOCATION '{place}' WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')",
            f"ALTER TABLE own ADD PARTITION (p = 1) LOCATION '{place}'",
            f"ALTER TABLE own SET LOCATION '{place}'",
        ):
            with pytest.raises(InvalidObjectError, match=r"not apart from that of table b\.[ef]"):
                a.sql(text)
    (root / "mine" / "p=1").symlink_to(root / "theirs")
    with pytest.raises(InvalidObjectError, match=r"not apart from that of table b\.e"):
        a.sql("MSCK REPAIR TABLE own")
    a.sql("USE b")
    (root / "in").symlink_to(root / "mine")
    with pytest.raises(InvalidObjectError, match=r"not apart from that of table a\.own"):
        a.sql("CREATE EXTERNAL TABLE more (id int) STORED AS ORC LOCATION 'in'")


@pytest.mark.every_backend
def test_check_lists_what_a_namespace_depends_on(metastore: Metastore, a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    assert metastore.namespaces.check("a").is_self_contained
    a.sql("CREATE LINK TO t@b")
    create_view(metastore, "a", "fine", "SELECT `id` AS `id` FROM (SELECT * FROM `a`.`t`@`b`, `a`.`own` AS `o`\n)")
    found = metastore.namespaces.check("a")
    assert found.is_closed
    assert not found.is_self_contained
    assert [(each.link, each.source) for each in found.imports] == [("t@b", "b.t")]
    create_view(metastore, "a", "bad", "SELECT `id` AS `id` FROM (SELECT * FROM `b`.`u` AS `u`, `a`.`w`@`b` AS `w`\n)")
    create_view(metastore, "a", "dangling", "SELECT `id` AS `id` FROM (SELECT * FROM `a`.`gone` AS `g`\n)")
    create_view(metastore, "a", "broken", "SELECT FROM")
    found = metastore.namespaces.check(
        "A",
        [
            NamedStatement("dag.py: load", "INSERT INTO own SELECT * FROM t@b;\nINSERT INTO b.t SELECT id FROM b.u"),
            NamedStatement("dag.py: other", "USE b; SELECT 1"),
            NamedStatement("dag.py: odd", "SELEC 1"),
        ],
    )
    listed = {(each.object, each.name, each.create_link, each.line) for each in found.dependencies}
    assert not found.is_closed
    assert {
        ("a.bad", "b.u", "CREATE LINK TO u@b", None),
        ("a.bad", "a.w@b", "CREATE LINK TO w@b", None),
        ("a.dangling", "a.gone", None, None),
        ("dag.py: load", "b.t", None, 2),
        ("dag.py: load", "b.u", "CREATE LINK TO u@b", 2),
        ("dag.py: other", "b", None, 1),
    } < listed
    assert {each[0] for each in listed} == {
        "a.bad",
        "a.dangling",
        "a.broken",
        "dag.py: load",
        "dag.py: other",
        "dag.py: odd",
    }


@pytest.mark.evidence
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_names_of_random_statements_are_found_exactly_and_foreign_ones_never_pass(a: Session, counts: Counts) -> None:
    random = Random(evidence.SEED)
    amount = evidence.amount("HIVEX_NAMED_STATEMENTS", share=300, whole=20_000)
    foreign = refused = 0
    for number in range(amount):
        statement = Statements(random, "a", ["b", "c"], foreign_share=0.15 if number % 2 else 0.0).next()
        (found,) = inspect(statement.text)
        named = {
            Named(use.role.is_output, use.database, str(use.name), use.namespace)
            for use in (*found.inputs, *found.outputs)
            if use.kind is ObjectKind.TABLE
        }
        assert named == statement.named, statement.text
        for use in (*found.inputs, *found.outputs):
            if use.kind is ObjectKind.TABLE:
                written = statement.text[use.start : use.end].lower()
                assert str(use.name) in written, statement.text
                assert (use.database or "") in written, statement.text
        if any(each.database in ("b", "c") for each in statement.named):
            foreign += 1
            with pytest.raises(HivexError) as error:
                a.sql(statement.text)
            # Links are not written to, wherever they are.
            assert isinstance(error.value, ForeignNameError) or "link" in str(error.value), statement.text
            refused += 1
    assert refused == foreign > amount // 20
    counts["random statements with names"] = {"statements": amount, "with a foreign name, refused": refused}


def test_link_that_is_missing_is_named(a: Session) -> None:
    with pytest.raises(NoSuchLinkError, match="CREATE LINK TO t@b makes one"):
        rows_of(a, "t@b")


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_names_are_never_read_as_statements(metastore: Metastore, a: Session) -> None:
    before = a.sql("SHOW DATABASES").rows, a.sql("SHOW TABLES").rows, a.sql("SHOW LINKS").rows
    texts = (
        "x`y",
        "x'y",
        'x"y',
        "x;DROP TABLE t",
        "x\ny",
        "x y",
        "x@y",
        "x.y",
        "x/*",
        "x--y",
        "",
        "x\0",
        "\u00fc",
        "x" * 200,
    )
    for text in texts:
        name = f"`{text.replace('`', '``')}`"
        for statement in (
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name} (id int)",
            f"CREATE LINK TO {name}@b",
            f"CREATE LINK TO t@{name}",
            f"DROP LINK {name}@b",
            f"SELECT * FROM {name}@b",
            f"ALTER DATABASE {name} SET QUOTA 10",
            f"SHOW CAPACITY NAMESPACE {name}",
        ):
            with pytest.raises(HivexError):
                a.sql(statement)
        with pytest.raises(HivexError):
            metastore.links.create("a", f"{text}@b")
        with pytest.raises(HivexError):
            metastore.capacity.set_quota(text, 10)
    assert (a.sql("SHOW DATABASES").rows, a.sql("SHOW TABLES").rows, a.sql("SHOW LINKS").rows) == before
