"""Links: tables of other namespaces, by the rules that Hive's design and its short-lived implementation give."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    LinkedTableError,
    LinkError,
    LinkIsNotATableError,
    NoSuchColumnError,
    NoSuchLinkError,
    NoSuchLinkSourceError,
    NoSuchPartitionError,
    NoSuchTableError,
    NotLinkableError,
    OwnTableLinkError,
    RoutingError,
    StatementSyntaxError,
    TableIsNotALinkError,
    UnsupportedStatementError,
    ViewIsNotALinkError,
)
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from tests.acceptance.linked_rows import rows_of

pytestmark = pytest.mark.every_backend


@pytest.fixture
def b(metastore: Metastore) -> Iterator[Session]:
    """A session of namespace B, which owns T1: partitioned, with two partitions that are there before any link."""
    with metastore.session(user="owner of b") as session:
        session.sql("CREATE DATABASE a")
        session.sql("CREATE DATABASE b")
        session.sql("USE b")
        session.sql("CREATE TABLE t1 (id int, v string) PARTITIONED BY (ds string) TBLPROPERTIES ('quality' = 'raw')")
        session.sql("INSERT INTO t1 VALUES (1, 'one', '1'), (2, 'two', '2')")
        yield session


@pytest.fixture
def a(metastore: Metastore, b: Session) -> Iterator[Session]:
    """A session of namespace A, which has nothing yet."""
    with metastore.session(user="owner of a", database="a") as session:
        yield session


def partitions(session: Session, name: str) -> list[str]:
    return [str(row[0]) for row in session.sql(f"SHOW PARTITIONS {name}").rows]


def names(session: Session, text: str) -> list[str]:
    return [str(row[0]) for row in session.sql(text).rows]


def described(session: Session, text: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in session.sql(text).rows}


def create_view(metastore: Metastore, database: str, name: str, text: str) -> None:
    """A view, as CREATE VIEW stores it, without Spark's analysis."""
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    view = Table(database, name, storage, type=TableType.VIRTUAL_VIEW, view_original_text=text, view_expanded_text=text)
    metastore.catalog.create_table(view)


# -- the concrete example of the design -----------------------------------------------------


def test_the_example_of_the_design(a: Session, b: Session) -> None:
    # The user imports table T1 from B into A: metadata for the table, and which object is linked.
    a.sql("CREATE LINK TO T1@B")
    assert names(a, "SHOW TABLES") == ["t1@b"]
    assert described(a, "DESCRIBE EXTENDED t1@b")["Link Target"] == "b.t1"
    # No partition is there yet; ALTER LINK ADD PARTITION adds some.
    assert partitions(a, "t1@b") == []
    assert rows_of(a, "t1@b") == []
    a.sql("ALTER LINK T1@B ADD PARTITION (ds='1')")
    assert rows_of(a, "t1@b") == [(1, "one", "1")]
    # The link is dynamic: it is updated as the source table gets new partitions, or drops some.
    b.sql("INSERT INTO t1 VALUES (3, 'three', '3')")
    assert partitions(a, "t1@b") == ["ds=1", "ds=3"]
    b.sql("ALTER TABLE t1 DROP PARTITION (ds='1')")
    assert rows_of(a, "t1@b") == [(3, "three", "3")]
    # No copy of the table was made.
    assert {file.uri for file in a.snapshot_files("t1@b").files} < {file.uri for file in b.snapshot_files("t1").files}
    a.sql("DROP LINK TO T1@B")
    assert names(a, "SHOW TABLES") == []
    assert rows_of(b, "t1") == [(2, "two", "2"), (3, "three", "3")]


# -- L1 to L5: objects that are not links -----------------------------------------------------


def test_link_to_a_table_of_the_own_namespace_is_refused(b: Session) -> None:
    with pytest.raises(OwnTableLinkError, match="10130") as error:
        b.sql("CREATE LINK TO t1@b")
    assert error.value.hive_error == 10130


def test_link_to_a_view_an_external_table_or_a_link_is_refused(metastore: Metastore, a: Session, b: Session) -> None:
    create_view(metastore, "b", "v", "SELECT `id` AS `id` FROM (SELECT id FROM `b`.`t1`)")
    b.sql("CREATE EXTERNAL TABLE e (id int) STORED AS ORC LOCATION 'elsewhere'")
    for name, kind in (("v", "a view"), ("e", "an external table")):
        with pytest.raises(NotLinkableError, match=f"10131.*{kind}"):
            a.sql(f"CREATE LINK TO {name}@b")
    a.sql("CREATE LINK TO t1@b")
    b.sql("CREATE DATABASE c")
    # A link of a link cannot be written: its table would be called t1@b.
    with pytest.raises(StatementSyntaxError):
        a.sql("CREATE LINK TO t1@b@a")
    with pytest.raises(NoSuchLinkSourceError):
        b.sql("CREATE LINK TO c.t1@a")


@pytest.mark.parametrize("name", ["nothing@b", "t1@nowhere", "`t1@b`@b"])
def test_link_to_a_missing_table_names_it(a: Session, name: str) -> None:
    with pytest.raises((NoSuchLinkSourceError, InvalidObjectError)) as error:
        a.sql(f"CREATE LINK TO {name}")
    assert name.replace("`", "") in str(error.value)
    assert names(a, "SHOW LINKS") == []


def test_drop_table_and_drop_view_name_the_statement_that_drops_a_link(a: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    for statement in ("DROP TABLE t1@b", "DROP VIEW t1@b"):
        with pytest.raises(LinkIsNotATableError, match=r"use DROP LINK TO t1@b \(Hive error 10133\)"):
            a.sql(statement)
    a.sql("DROP TABLE IF EXISTS t1@b")
    a.sql("DROP VIEW IF EXISTS t1@b")
    assert names(a, "SHOW TABLES") == ["t1@b"]


def test_drop_link_names_the_statement_that_drops_a_table_or_view(metastore: Metastore, b: Session) -> None:
    create_view(metastore, "b", "v", "SELECT `id` AS `id` FROM (SELECT id FROM `b`.`t1`)")
    with pytest.raises(TableIsNotALinkError, match=r"use DROP TABLE \(Hive error 10134\)"):
        b.sql("DROP TABLELINK t1")
    with pytest.raises(ViewIsNotALinkError, match=r"use DROP VIEW \(Hive error 10132\)"):
        b.sql("DROP TABLELINK v")
    b.sql("DROP TABLELINK IF EXISTS t1")
    b.sql("DROP LINK IF EXISTS TO v")
    assert names(b, "SHOW TABLES") == ["t1", "v"]


# -- L6 to L8: what a link has ------------------------------------------------------------------


def test_link_has_the_columns_of_its_source_and_an_owner_and_properties_of_its_own(a: Session, b: Session) -> None:
    b.sql("CREATE TABLE bucketed (id int, v string) CLUSTERED BY (id) INTO 3 BUCKETS")
    a.sql("CREATE LINK TO t1@b LINKPROPERTIES ('retention'='7', 'team'='x')")
    a.sql("CREATE STATIC LINK TO bucketed@b")
    assert a.sql("DESCRIBE t1@b").rows == b.sql("DESCRIBE t1").rows
    facts = described(a, "DESC FORMATTED t1@b")
    assert (facts["Owner"], facts["Type"], facts["Database"]) == ("owner of a", "LINK_TABLE", "a")
    assert "quality" not in str(facts)
    assert facts["Link Properties"] == "['RETENTION' = '7', 'team' = 'x']"
    facts = described(a, "DESCRIBE LINK EXTENDED bucketed@b")
    assert (facts["Type"], facts["Num Buckets"]) == ("STATIC_LINK_TABLE", "3")
    (row,) = a.sql("SHOW LINKS LIKE 't*'").rows
    assert (row[:4], row[5]) == (("t1@b", "LINK_TABLE", "b.t1", "owner of a"), "RETENTION=7, team=x")
    shown = a.sql("SHOW CREATE TABLE t1@b").rows[0][0]
    assert shown == "CREATE LINK TO `t1`@`b`\nLINKPROPERTIES ('RETENTION' = '7', 'team' = 'x')"
    a.sql("DROP LINK t1@b")
    a.sql(str(shown))
    assert names(a, "SHOW LINKS") == ["bucketed@b", "t1@b"]


def test_importers_of_a_table_are_shown(a: Session, b: Session) -> None:
    assert b.sql("SHOW LINKS TO t1").rows == []
    a.sql("CREATE STATIC LINK TO t1@b")
    found = b.sql("SHOW LINKS TO t1")
    assert found.columns[:4] == ["namespace", "link", "type", "source"]
    assert [row[:5] for row in found.rows] == [("a", "t1@b", "STATIC_LINK_TABLE", "b.t1", "owner of a")]
    assert a.sql("SHOW LINKS TO b.t1").rows == found.rows
    with pytest.raises(NoSuchTableError):
        a.sql("SHOW LINKS TO b.missing")


def test_errors_of_what_is_not_a_link_are_those_of_links(a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    for text in ("DROP LINK nope", "DROP LINK TO a.nope", "DESCRIBE LINK nope", "DESC TABLELINK nope"):
        with pytest.raises(NoSuchLinkError, match="has no link nope; a link is named table@namespace"):
            a.sql(text)
    for text in ("DROP LINK own", "DESCRIBE LINK own", "DESCRIBE LINK FORMATTED own", "DESC TABLELINK own"):
        with pytest.raises(TableIsNotALinkError, match=r"a\.own"):
            a.sql(text)
    a.sql("CREATE TABLE link (own string)")
    assert described(a, "DESCRIBE link own")["col_name"] == "own"


def test_execute_immediate_has_the_route_of_its_statement(a: Session) -> None:
    a.sql("CREATE TABLE own (id int)")
    for text in ("SELECT * FROM own", "INSERT INTO own SELECT 1"):
        assert a.explain(f"EXECUTE IMMEDIATE '{text}'").cluster == a.explain(text).cluster == "c1"
    assert a.explain("EXECUTE IMMEDIATE 'SELECT * FROM own WHERE id = ?' USING 1").cluster == "c1"
    with pytest.raises(InvalidOperationError, match="only statements that run on a cluster"):
        a.explain("EXECUTE IMMEDIATE 'SHOW TABLES'")


def test_create_link_reads_the_source_and_makes_the_link(a: Session) -> None:
    (inspected,) = a.inspect("CREATE LINK TO t1@b")
    assert [(use.role, use.name, use.namespace) for use in inspected.outputs] == [("create", "t1", "b")]
    assert [(use.role, use.database, use.name) for use in inspected.inputs] == [("read", "b", "t1")]


def test_dropping_a_link_keeps_the_rows_of_the_source(a: Session, b: Session, tmp_path: Path) -> None:
    before = rows_of(b, "t1")
    files = sorted(tmp_path.rglob("bucket_*"))
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    a.sql("DROP LINK TO t1@b")
    assert rows_of(b, "t1") == before
    assert sorted(tmp_path.rglob("bucket_*")) == files
    with pytest.raises(NoSuchLinkError, match="CREATE LINK TO t1@b makes one"):
        rows_of(a, "t1@b")
    with pytest.raises(NoSuchLinkError):
        a.sql("DROP LINK TO t1@b")
    a.sql("DROP LINK IF EXISTS TO t1@b")


# -- L9: read only --------------------------------------------------------------------------------

WRITES = [
    "INSERT INTO t1@b VALUES (9, 'x', '9')",
    "INSERT OVERWRITE t1@b SELECT 9, 'x', '9'",
    "FROM t1@b INSERT INTO t1@b SELECT 1, 'x', '1'",
    "UPDATE t1@b SET v = 'x'",
    "DELETE FROM t1@b",
    "DELETE FROM `t1` @ `b` AS x WHERE x.id = 1",
    "MERGE INTO t1@b USING t1@b AS s ON t1@b.id = s.id WHEN MATCHED THEN DELETE",
    "LOAD DATA INPATH '/x' INTO TABLE t1@b",
    "TRUNCATE TABLE t1@b",
    "ANALYZE TABLE t1@b COMPUTE STATISTICS",
    "ALTER TABLE t1@b SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE t1@b ADD PARTITION (ds='9')",
    "ALTER TABLE t1@b DROP PARTITION (ds='1')",
    "ALTER TABLE t1@b PARTITION (ds='1') RENAME TO PARTITION (ds='9')",
    "ALTER TABLE t1@b ADD COLUMNS (w int)",
    "ALTER TABLE t1@b CHANGE v w string",
    "ALTER TABLE t1@b RENAME TO t2",
    "ALTER TABLE t1@b COMPACT 'major'",
    "ALTER TABLE t1@b DROP COPY ON CLUSTER c2",
    "REPLICATE TABLE t1@b TO CLUSTER c2",
    "CREATE TABLE t1@b (id int)",
    "CREATE TABLE t1@b AS SELECT 1 AS id",
    "CREATE VIEW t1@b AS SELECT 1 AS id",
    "ALTER VIEW t1@b AS SELECT 1 AS id",
]


def test_every_statement_that_writes_to_a_link_is_refused(a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    before = rows_of(b, "t1"), b.sql("DESCRIBE EXTENDED t1").rows
    for statement in WRITES:
        with pytest.raises((UnsupportedStatementError, StatementSyntaxError, InvalidOperationError)):
            a.sql(statement)
    assert (rows_of(b, "t1"), b.sql("DESCRIBE EXTENDED t1").rows) == before
    with pytest.raises((UnsupportedStatementError, InvalidOperationError)):
        a.transaction_batch("t1@b").__enter__()


# -- L10 to L13: partitions ------------------------------------------------------------------------


def test_partition_that_is_not_imported_has_no_rows(a: Session) -> None:
    a.sql("CREATE STATIC LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='2')")
    assert rows_of(a, "t1@b") == [(2, "two", "2")]
    assert a.explain("SELECT * FROM t1@b WHERE ds = '1'").cluster == "c1"
    with pytest.raises(NoSuchPartitionError):
        a.sql("DESCRIBE t1@b PARTITION (ds='1')")


def test_alter_link_refuses_unknown_duplicate_and_malformed_partitions(a: Session, b: Session) -> None:
    a.sql("CREATE STATIC LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    for text, error in (
        ("ADD PARTITION (ds='9')", NoSuchPartitionError),
        ("ADD PARTITION (ds='2') PARTITION (ds='9')", NoSuchPartitionError),
        ("ADD PARTITION (ds='1')", AlreadyExistsError),
        ("ADD PARTITION (ds='2') PARTITION (ds='2')", AlreadyExistsError),
        ("ADD PARTITION (hr='1')", NoSuchColumnError),
        ("ADD PARTITION (ds='1', hr='1')", NoSuchColumnError),
        ("ADD PARTITION (ds)", StatementSyntaxError),
        ("ADD PARTITION (ds='1'", StatementSyntaxError),
        ("ADD PARTITION ()", StatementSyntaxError),
        ("ADD", StatementSyntaxError),
        ("DROP PARTITION (ds='2')", NoSuchPartitionError),
        ("DROP PARTITION (hr='2')", NoSuchColumnError),
        ("RENAME TO u@b", StatementSyntaxError),
        ("SET TBLPROPERTIES ('a'='b')", StatementSyntaxError),
    ):
        with pytest.raises(error):
            a.sql(f"ALTER LINK t1@b {text}")
        assert partitions(a, "t1@b") == ["ds=1"], text
    assert a.sql("ALTER LINK t1@b ADD IF NOT EXISTS PARTITION (ds='1') PARTITION (ds='2')").rows == [("ds=2",)]
    a.sql("ALTER LINK t1@b DROP IF EXISTS PARTITION (ds='9')")
    assert a.sql("ALTER LINK t1@b DROP PARTITION (ds > '1')").rows == [("ds=2",)]
    assert partitions(a, "t1@b") == ["ds=1"]
    with pytest.raises(NoSuchLinkError):
        a.sql("ALTER LINK t2@b ADD PARTITION (ds='1')")
    with pytest.raises(TableIsNotALinkError):
        b.sql("ALTER LINK t1 ADD PARTITION (ds='1')")


def test_values_of_other_types_and_several_keys_name_partitions(a: Session, b: Session) -> None:
    b.sql("CREATE TABLE k (id int) PARTITIONED BY (n int, day date)")
    b.sql("INSERT INTO k VALUES (1, 7, DATE '2024-01-01'), (2, 8, DATE '2024-01-01'), (3, null, DATE '2024-01-02')")
    a.sql("CREATE STATIC LINK TO k@b")
    a.sql("ALTER LINK k@b ADD PARTITION (day='2024-01-01', n='07') PARTITION (n=null, day='2024-01-02')")
    assert rows_of(a, "k@b") == [(1, "7", "2024-01-01"), (3, None, "2024-01-02")]
    for text, error in (("n=7", InvalidObjectError), ("n='x', day='2024-01-01'", InvalidObjectError)):
        with pytest.raises(error):
            a.sql(f"ALTER LINK k@b ADD PARTITION ({text})")
    assert partitions(a, "k@b PARTITION (n=7)") == ["n=7/day=2024-01-01"]
    a.sql("ALTER LINK k@b DROP PARTITION (day='2024-01-01')")
    assert rows_of(a, "k@b") == [(3, None, "2024-01-02")]


def test_source_drops_a_partition_and_both_kinds_of_links_lose_it(metastore: Metastore, a: Session, b: Session) -> None:
    a.sql("CREATE STATIC LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1') PARTITION (ds='2')")
    b.sql("CREATE DATABASE c")
    b.sql("USE c")
    b.sql("CREATE LINK TO t1@b")
    b.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    b.sql("USE b")
    b.sql("ALTER TABLE t1 DROP PARTITION (ds='1')")
    assert partitions(a, "t1@b") == ["ds=2"]
    assert metastore.links.partitions("c", "t1@b") == []
    # It is reported for the static link, which does not follow its source by itself.
    events = [event for event in metastore.notification_log.events() if event.type is EventType.ALTER_LINK]
    assert (events[-1].database, events[-1].message["removed_partitions"]) == ("a", ["ds=1"])
    # Another partition of the same name is another partition.
    b.sql("INSERT INTO t1 VALUES (5, 'again', '1')")
    assert partitions(a, "t1@b") == ["ds=2"]
    assert metastore.links.partitions("c", "t1@b") == ["ds=1"]


def test_partition_that_is_renamed_or_overwritten_stays_in_both_kinds_of_links(
    metastore: Metastore, a: Session, b: Session
) -> None:
    a.sql("CREATE STATIC LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    b.sql("INSERT OVERWRITE t1 PARTITION (ds='1') VALUES (10, 'ten')")
    b.sql("INSERT INTO t1 VALUES (11, 'eleven', '1')")
    b.sql("ALTER TABLE t1 PARTITION (ds='1') RENAME TO PARTITION (ds='first')")
    assert rows_of(a, "t1@b") == [(10, "ten", "first"), (11, "eleven", "first")]
    b.sql("ALTER TABLE t1 ADD COLUMNS (w double)")
    assert [row[0] for row in a.sql("DESCRIBE t1@b").rows][:3] == ["id", "v", "w"]


def test_every_way_to_add_a_partition_adds_it_to_dynamic_links(metastore: Metastore, a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    table = metastore.catalog.get_table("b", "t1")
    for number, add in enumerate(
        (
            lambda: b.sql("INSERT INTO t1 VALUES (1, 'x', 'new0')"),
            lambda: b.sql("INSERT OVERWRITE t1 PARTITION (ds='new1') VALUES (1, 'x')"),
            lambda: b.sql("ALTER TABLE t1 ADD PARTITION (ds='new2')"),
            lambda: metastore.catalog.add_partitions("b", "t1", [metastore.catalog.new_partition(table, ["new3"])]),
        )
    ):
        add()
        assert partitions(a, "t1@b")[-1] == f"ds=new{number}"
    with pytest.raises(AlreadyExistsError):
        a.sql("ALTER LINK t1@b ADD PARTITION (ds='new0')")
    # A dynamic link can leave one out, and take it back.
    a.sql("ALTER LINK t1@b DROP PARTITION (ds='new1')")
    assert partitions(a, "t1@b") == ["ds=new0", "ds=new2", "ds=new3"]
    a.sql("ALTER LINK t1@b DROP PARTITION (ds='new0')")
    b.sql("INSERT INTO t1 VALUES (2, 'x', 'new1'), (3, 'x', 'new4')")
    assert partitions(a, "t1@b") == ["ds=new2", "ds=new3", "ds=new4"]
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='new1')")
    assert partitions(a, "t1@b") == ["ds=new1", "ds=new2", "ds=new3", "ds=new4"]


def test_partitions_of_an_open_transaction_are_in_dynamic_links_at_its_commit(
    metastore: Metastore, a: Session, b: Session
) -> None:
    a.sql("CREATE LINK TO t1@b")
    with metastore.session(database="a") as both:
        both.sql("START TRANSACTION")
        both.sql("INSERT INTO b.t1 VALUES (7, 'own', 'own'), (8, 'own', '1')")
        # The transaction sees its own new partition through the link; partition 1 is not in it.
        assert rows_of(both, "t1@b") == [(7, "own", "own")]
        assert rows_of(a, "t1@b") == []
        both.sql("COMMIT")
    assert rows_of(a, "t1@b") == [(7, "own", "own")]


# -- L14 to L18 ----------------------------------------------------------------------------------------


def test_source_is_not_dropped_as_long_as_links_show_it(metastore: Metastore, a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    for statement in ("DROP TABLE t1", "DROP TABLE IF EXISTS t1", "DROP TABLE t1 PURGE"):
        with pytest.raises(LinkedTableError, match=r"a\.t1@b.*CASCADE"):
            b.sql(statement)
    with pytest.raises(LinkedTableError):
        metastore.catalog.drop_table("b", "t1")
    assert rows_of(b, "t1") == [(1, "one", "1"), (2, "two", "2")]
    b.sql("DROP TABLE t1 CASCADE")
    assert names(a, "SHOW LINKS") == []
    # A table of the same name is another one.
    b.sql("CREATE TABLE t1 (id int)")
    with pytest.raises(NoSuchLinkError):
        rows_of(a, "t1@b")


def test_link_follows_a_source_that_is_renamed_and_keeps_its_name(a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    b.sql("ALTER TABLE t1 RENAME TO t2")
    b.sql("CREATE TABLE t1 (other int)")
    assert rows_of(a, "t1@b") == [(1, "one", "1")]
    assert described(a, "DESCRIBE EXTENDED t1@b")["Link Target"] == "b.t2"
    # A namespace imports a table once.
    with pytest.raises(AlreadyExistsError, match=r"imports a table once, and t1@b is that import"):
        a.sql("CREATE LINK TO t2@b")
    with pytest.raises(AlreadyExistsError, match=r"imports a table once"):
        a.sql("CREATE LINK IF NOT EXISTS TO t2@b")
    with pytest.raises(AlreadyExistsError):
        a.sql("CREATE LINK TO t1@b")
    a.sql("CREATE LINK IF NOT EXISTS TO t1@b")


def test_retention_is_a_number_of_days(a: Session) -> None:
    for text in ("0", "-1", "1.5", "a week", "", "99999999999"):
        with pytest.raises(InvalidObjectError, match="number of days"):
            a.sql(f"CREATE LINK TO t1@b LINKPROPERTIES ('RETENTION'='{text}')")
    a.sql("CREATE LINK TO t1@b LINKPROPERTIES ('RETENTION'='07')")
    with pytest.raises(InvalidObjectError, match="number of days"):
        a.sql("ALTER LINK t1@b SET LINKPROPERTIES ('retention'='soon')")
    a.sql("ALTER LINK t1@b SET LINKPROPERTIES ('retention'='3', 'x'='y')")
    assert a.sql("SHOW LINKS").rows[0][5] == "RETENTION=3, x=y"
    a.sql("ALTER LINK t1@b UNSET LINKPROPERTIES ('Retention')")
    assert a.sql("SHOW LINKS").rows[0][5] == "x=y"
    with pytest.raises(InvalidObjectError):
        a.sql("ALTER LINK t1@b UNSET LINKPROPERTIES ('z')")
    a.sql("ALTER LINK t1@b UNSET LINKPROPERTIES IF EXISTS ('z')")


def test_retention_removes_partitions_from_the_link_by_their_age(
    metastore_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)

    def clock() -> int:
        return round(now.timestamp() * 1000)

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=clock) as metastore,
        metastore.session() as b,
        metastore.session() as a,
    ):
        for database in ("a", "b", "c"):
            b.sql(f"CREATE DATABASE {database}")
        b.sql("USE b")
        a.sql("USE a")
        b.sql("CREATE TABLE t1 (id int) PARTITIONED BY (ds int)")
        b.sql("ALTER TABLE t1 ADD PARTITION (ds=1) PARTITION (ds=2)")
        a.sql("CREATE LINK TO t1@b LINKPROPERTIES ('RETENTION'='3')")
        metastore.links.create("c", "t1@b", static=True, properties={"RETENTION": "3"})
        b.sql("ALTER TABLE t1 ADD PARTITION (ds=3)")
        now += timedelta(days=2)
        a.sql("ALTER LINK t1@b ADD PARTITION (ds=1)")
        metastore.links.add_partitions("c", "t1@b", ["ds=2"])
        b.sql("ALTER TABLE t1 ADD PARTITION (ds=4)")
        assert metastore.housekeeper.run().expired_partitions == 0
        # Three days after it came by itself, not after the source got it.
        now += timedelta(days=1, seconds=1)
        assert metastore.housekeeper.run().expired_partitions == 1
        assert partitions(a, "t1@b") == ["ds=1", "ds=4"]
        assert metastore.links.partitions("c", "t1@b") == ["ds=2"]
        now += timedelta(days=2)
        assert metastore.housekeeper.run().expired_partitions == 3
        assert metastore.housekeeper.run().expired_partitions == 0
        assert partitions(a, "t1@b") == metastore.links.partitions("c", "t1@b") == []
        assert partitions(b, "t1") == ["ds=1", "ds=2", "ds=3", "ds=4"]
        # What a dynamic link does not show any more needs no rows.
        assert metastore.links.get("a", "t1@b").hidden == frozenset()
        b.sql("ALTER TABLE t1 ADD PARTITION (ds=5)")
        a.sql("ALTER LINK t1@b ADD PARTITION (ds=3)")
        assert partitions(a, "t1@b") == ["ds=3", "ds=5"]


def test_link_to_a_table_without_partitions_shows_all_of_it(a: Session, b: Session) -> None:
    b.sql("CREATE TABLE u (id int)")
    b.sql("INSERT INTO u VALUES (1)")
    for kind in ("", "STATIC"):
        a.sql(f"CREATE {kind} LINK TO u@b")
        assert rows_of(a, "u@b") == rows_of(b, "u") != []
        b.sql("INSERT INTO u VALUES (2)")
        assert rows_of(a, "u@b") == rows_of(b, "u")
        assert sorted((each,) for each in a.to_arrow("u@b")["id"].to_pylist()) == rows_of(b, "u")
        with pytest.raises(HivexError, match="shows all of it"):
            a.sql("ALTER LINK u@b ADD PARTITION (ds='1')")
        with pytest.raises(InvalidOperationError, match="no partition keys"):
            a.sql("SHOW PARTITIONS u@b")
        a.sql("DROP LINK u@b")


def test_namespace_with_links_is_dropped_with_cascade_only(a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    with pytest.raises(InvalidOperationError, match="it has 1 links; use CASCADE"):
        b.sql("DROP DATABASE a")
    # The links of others to its tables go with it, too.
    b.sql("CREATE DATABASE c")
    b.sql("USE c")
    b.sql("CREATE TABLE own (id int)")
    a.sql("CREATE LINK TO own@c")
    b.sql("CREATE LINK TO t1@b")
    b.sql("USE b")
    b.sql("DROP DATABASE c CASCADE")
    assert names(a, "SHOW LINKS") == ["t1@b"]
    b.sql("DROP DATABASE a CASCADE")
    b.sql("DROP TABLE t1")


def test_both_names_work_outside_of_namespace_mode(metastore: Metastore, a: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    assert rows_of(a, "t1@b") == [(1, "one", "1")]
    assert len(rows_of(a, "b.t1")) == 2
    # A link of another namespace is named by it.
    with metastore.session() as other:
        assert rows_of(other, "a.t1@b") == [(1, "one", "1")]
        with pytest.raises(NoSuchLinkError):
            rows_of(other, "t1@b")


# -- L21: the source's snapshot and locks ----------------------------------------------------------------


def test_reader_of_a_link_has_the_snapshot_of_the_source_and_locks_it(
    metastore: Metastore, a: Session, b: Session
) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    assert a.snapshot_files("t1@b").valid_write_ids == b.snapshot_files("t1").valid_write_ids
    a.sql("START TRANSACTION READ ONLY")
    assert rows_of(a, "t1@b") == [(1, "one", "1")]
    assert [lock.txn_id for lock in metastore.locks.show("b", "t1")] == [a.txn_id]
    b.sql("INSERT INTO t1 VALUES (2, 'later', '1')")
    assert rows_of(a, "t1@b") == [(1, "one", "1")]
    a.sql("COMMIT")
    assert rows_of(a, "t1@b") == [(1, "one", "1"), (2, "later", "1")]


def test_link_is_on_the_clusters_of_its_source(a: Session, b: Session, copy_table: Callable[..., object]) -> None:
    b.sql("CREATE TABLE far (id int) TBLPROPERTIES ('hivex.cluster' = 'c2')")
    b.sql("INSERT INTO far VALUES (1)")
    a.sql("CREATE LINK TO far@b")
    assert a.explain("SELECT * FROM far@b").cluster == "c2"
    assert a.to_arrow("far@b")["id"].to_pylist() == [1]
    a.sql("CREATE TABLE near (id int) TBLPROPERTIES ('hivex.cluster' = 'c1')")
    assert a.explain("SELECT * FROM near JOIN far@b USING (id)").cluster is None
    a.sql("USE CLUSTER c1")
    with pytest.raises(RoutingError, match=r"b\.far"):
        rows_of(a, "far@b")
    with pytest.raises(RoutingError, match=r"b\.far"):
        a.to_arrow("far@b")


# -- names in every position --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t1@b",
        "SELECT x.id FROM T1 @ B AS x WHERE x.ds = '1'",
        "SELECT t1@b.id FROM `t1`@`b`, own",
        "SELECT a.`T1` @ b.*, t1@b.v FROM a.t1@b JOIN own ON a.t1@b.id = own.id WHERE a.t1@b.ds = '1' ORDER BY t1@b.v",
        "SELECT 'c@d' FROM /* no@link */ t1@b -- nor@here",
        "WITH c AS (SELECT * FROM t1@b) SELECT * FROM c JOIN own USING (id)",
        "WITH t1 AS (SELECT 1 AS id) SELECT * FROM t1, t1@b",
        "SELECT * FROM own WHERE id IN (SELECT id FROM t1@b) OR EXISTS (SELECT 1 FROM a.t1@b AS z WHERE z.id = own.id)",
        "SELECT * FROM (SELECT max(id) AS m FROM t1@b GROUP BY ds) UNION ALL SELECT id FROM own",
        "INSERT INTO own SELECT id FROM t1@b",
        "MERGE INTO own USING t1@b AS s ON own.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "UPDATE own SET id = 2 WHERE id IN (SELECT id FROM t1@b)",
        "DELETE FROM own WHERE id IN (SELECT id FROM t1@b)",
        "FROM t1@b INSERT INTO own SELECT id INSERT INTO own2 SELECT id WHERE ds = '1'",
        "CREATE TABLE made AS SELECT * FROM t1@b",
        "SELECT * FROM v",
    ],
)
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_link_is_found_in_every_position(metastore: Metastore, a: Session, b: Session, text: str) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("CREATE TABLE own (id int)")
    a.sql("CREATE TABLE own2 (id int)")
    create_view(metastore, "a", "v", "SELECT `id` AS `id` FROM (SELECT id FROM `a`.`t1`@`b` AS `t1`\n)")
    b.sql("USE CLUSTER c1")
    assert a.explain(text).cluster == "c1"
    # Without the link nothing of it can be read.
    a.sql("DROP LINK t1@b")
    with pytest.raises(NoSuchLinkError):
        a.explain(text)


def test_changes_of_links_leave_events_and_wait_for_no_transaction(metastore: Metastore, a: Session) -> None:
    before = metastore.notification_log.current_event_id()
    a.sql("CREATE LINK TO t1@b")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds='1')")
    a.sql("ALTER LINK t1@b DROP PARTITION (ds='1')")
    a.sql("ALTER LINK t1@b SET LINKPROPERTIES ('x'='y')")
    a.sql("DROP LINK t1@b")
    events = [each for each in metastore.notification_log.events(before) if "LINK" in each.type.value]
    assert [each.type.value for each in events] == ["CREATE_LINK", *["ALTER_LINK"] * 3, "DROP_LINK"]
    assert {(each.database, each.table) for each in events} == {("a", "t1@b")}
    assert events[1].message["added_partitions"] == events[2].message["removed_partitions"] == ["ds=1"]
    a.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError):
        a.sql("CREATE LINK TO t1@b")
    a.sql("ROLLBACK")


def test_errors_of_links_share_a_class(a: Session) -> None:
    for text in ("CREATE LINK TO x@a", "CREATE LINK TO x@b", "ALTER LINK x@b ADD PARTITION (ds='1')"):
        with pytest.raises(LinkError):
            a.sql(text)


def test_columns_of_a_link_are_its_source_s_and_its_properties_its_own(a: Session) -> None:
    a.sql("CREATE LINK TO t1@b LINKPROPERTIES ('RETENTION' = '7')")
    assert names(a, "SHOW COLUMNS IN t1@b") == ["id", "v", "ds"]
    assert names(a, "SHOW COLUMNS IN t1@b FROM a LIKE 'd*'") == ["ds"]
    assert a.sql("SHOW TBLPROPERTIES t1@b").rows == [("RETENTION", "7")]
    with pytest.raises(UnsupportedStatementError, match="read only"):
        a.sql("COMMENT ON TABLE t1@b IS 'x'")


def test_partitions_of_a_link_are_shown_by_a_condition(a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b")
    b.sql("INSERT INTO t1 VALUES (3, 'three', '3'), (4, 'four', '4')")
    assert partitions(a, "t1@b WHERE ds < '4'") == ["ds=3"]
    assert partitions(a, "t1@b ORDER BY ds DESC LIMIT 1") == ["ds=4"]


def test_table_like_a_link_has_the_definition_of_its_source(a: Session, metastore: Metastore) -> None:
    a.sql("CREATE LINK TO t1@b")
    a.sql("CREATE TABLE own LIKE t1@b")
    made = metastore.catalog.get_table("a", "own")
    assert [column.name for column in (*made.columns, *made.partition_keys)] == ["id", "v", "ds"]
    assert "quality" not in made.parameters
    assert partitions(a, "own") == []
    a.sql("INSERT INTO own VALUES (3, 'three', '3')")
    assert rows_of(a, "own") == [(3, "three", "3")]
    with pytest.raises(NoSuchLinkError):
        a.sql("CREATE TABLE other LIKE t2@b")


def test_link_shows_no_statistics_of_rows_that_it_hides(a: Session, b: Session) -> None:
    b.sql("ALTER TABLE t1 UPDATE STATISTICS FOR COLUMN id SET ('lowValue' = '1', 'highValue' = '2', 'numNulls' = '0')")
    a.sql("CREATE LINK TO t1@b")
    assert described(b, "DESCRIBE FORMATTED t1 id")["max"] == "2"
    for partition in ((), ("1",)):
        for value in partition:
            a.sql(f"ALTER LINK t1@b ADD PARTITION (ds = '{value}')")
        facts = described(a, "DESCRIBE FORMATTED t1@b id")
        assert {facts[fact] for fact in ("min", "max", "num_nulls", "distinct_count")} == {"NULL"}
        assert "COLUMN_STATS_ACCURATE" not in facts
    # The statistics of the whole source are those of a link that shows all of it.
    a.sql("ALTER LINK t1@b ADD PARTITION (ds = '2')")
    assert described(a, "DESCRIBE FORMATTED t1@b id")["max"] == "2"


def test_descriptions_and_errors_of_a_link_have_its_own_name_and_properties(a: Session, b: Session) -> None:
    a.sql("CREATE LINK TO t1@b LINKPROPERTIES ('mine' = 'yes')")
    a.sql("ALTER LINK t1@b ADD PARTITION (ds = '1')")
    document = json.loads(str(a.sql("DESCRIBE EXTENDED t1@b AS JSON").rows[0][0]))
    assert document["table_properties"] == {"mine": "yes"}
    of_partition = json.loads(str(a.sql("DESCRIBE EXTENDED t1@b PARTITION (ds = '1') AS JSON").rows[0][0]))
    assert (of_partition["table_name"], of_partition["table_properties"]) == ("t1@b", {"mine": "yes"})
    facts = described(a, "DESCRIBE EXTENDED t1@b PARTITION (ds = '1')")
    assert (facts["Database"], facts["Table"]) == ("a", "t1@b")
    for text in (
        "DESCRIBE t1@b PARTITION (ds = '2')",
        "DESCRIBE t1@b PARTITION (ds = '9')",
        "DESCRIBE t1@b PARTITION (nope = '9')",
        "DESCRIBE t1@b nope",
        "ALTER LINK t1@b ADD PARTITION (ds = '9')",
        "ALTER LINK t1@b ADD PARTITION (nope = '9')",
        "ALTER LINK t1@b ADD PARTITION (ds > '9')",
        "ALTER LINK t1@b DROP PARTITION (nope = '9')",
        "ALTER LINK t1@b DROP PARTITION (ds = '9')",
    ):
        with pytest.raises(HivexError) as error:
            a.sql(text)
        assert "t1@b" in str(error.value), text
        assert "b.t1" not in str(error.value), text
    row = a.sql("SHOW TABLE EXTENDED LIKE 't1@b'").rows[0]
    assert row[:3] == ("a", "t1@b", False)
    assert "Link Target: b.t1" in str(row[3])
    assert "quality" not in str(row[3])
    (location,) = (fact[1] for fact in a.sql("DESCRIBE FORMATTED t1@b").rows if fact[0] == "Location")
    assert str(location).startswith("file:")
    assert f"\nLocation: {location}\n" in str(row[3])


def test_partitions_are_added_to_a_link_by_conditions(a: Session, b: Session) -> None:
    b.sql("INSERT INTO t1 VALUES (3, 'three', '3'), (4, 'four', '4'), (5, 'five', '5')")
    a.sql("CREATE LINK TO t1@b")
    assert a.sql("ALTER LINK t1@b ADD PARTITION (ds > '2', ds < '5')").rows == [("ds=3",), ("ds=4",)]
    assert a.sql("ALTER LINK t1@b ADD PARTITION (ds >= '4'), PARTITION (ds = '1')").rows == [("ds=1",), ("ds=5",)]
    assert partitions(a, "t1@b") == ["ds=1", "ds=3", "ds=4", "ds=5"]
    with pytest.raises(NoSuchPartitionError):
        a.sql("ALTER LINK t1@b ADD PARTITION (ds > '9')")
    assert a.sql("ALTER LINK t1@b ADD IF NOT EXISTS PARTITION (ds > '9')").rows == []
    # Those that come later are not a part of it.
    b.sql("INSERT INTO t1 VALUES (0, 'none', '2')")
    assert partitions(a, "t1@b") == ["ds=1", "ds=3", "ds=4", "ds=5"]
