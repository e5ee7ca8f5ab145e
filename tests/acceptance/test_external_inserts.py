"""INSERT into external tables: files that other programs read, partitions in the catalog, and no half writes."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    FolderExpectedError,
    HivexError,
    InvalidOperationError,
    NoSuchTableError,
    RoutingError,
    StorageError,
    TransactionAbortedError,
    TypeMismatchError,
)
from airflow_hivex.core.model.transactions import TxnState
from tests.acceptance.conftest import CopyTable

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "c1" / "files"


FORMATS = {
    "orc": "STORED AS ORC",
    "parquet": "USING parquet",
    "csv": "USING csv OPTIONS (header 'true', sep ';', compression 'gzip')",
    "json": "USING json",
    "textfile": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'",
}


@pytest.mark.parametrize("clause", FORMATS.values(), ids=FORMATS)
def test_rows_of_every_format_are_added_and_replaced(session: Session, root: Path, clause: str) -> None:
    session.sql(
        f"CREATE EXTERNAL TABLE t (id int, v string, at timestamp_ntz) PARTITIONED BY (day date) {clause} "
        "LOCATION 'files/t'"
    )
    done = session.sql("INSERT INTO t VALUES (1, 'a', timestamp_ntz'2024-01-01 12:00:00', date'2024-02-29')")
    assert (done.rows_written, done.cluster) == (1, "c1")
    session.sql("INSERT INTO t PARTITION (day = '2024-02-29') (id) SELECT 2")
    session.sql("INSERT INTO t SELECT 3, 'c', NULL, NULL")
    noon = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - a time without a zone
    assert rows(session, "SELECT id, v, at, CAST(day AS STRING) FROM t ORDER BY id") == [
        (1, "a", noon, "2024-02-29"),
        (2, None, None, "2024-02-29"),
        (3, "c", None, None),
    ]
    assert rows(session, "SHOW PARTITIONS t") == [("day=2024-02-29",), ("day=__HIVE_DEFAULT_PARTITION__",)]
    # Only partitions that get rows are replaced.
    session.sql("INSERT OVERWRITE t SELECT id + 10, v, at, day FROM t WHERE id < 3")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(3,), (11,), (12,)]
    session.sql("INSERT OVERWRITE t PARTITION (day = '2024-02-29') SELECT 1, 'x', NULL WHERE false")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(3,)]
    assert [name for name in visible(root / "t") if "/." in name or name.startswith((".", "_"))] == []


def test_other_programs_read_the_files(session: Session, root: Path) -> None:
    session.sql("CREATE TABLE o (id int, at timestamp) USING orc OPTIONS (path 'files/o')")
    session.sql("CREATE TABLE p (id int) USING parquet LOCATION 'files/p'")
    at = "timestamp'2024-01-01 00:00:00 UTC'"
    session.sql(f"FROM VALUES (1), (2) AS x(id) INSERT INTO o SELECT id, {at} INSERT INTO p SELECT id WHERE id = 2")
    times = [time for file in (root / "o").iterdir() for time in orc.read_table(str(file)).to_pydict()["at"]]
    assert [str(time) for time in times] == ["2024-01-01 00:00:00"] * 2
    (file,) = (root / "p").iterdir()
    assert parquet.read_table(file).to_pydict() == {"id": [2]}
    parquet.write_table(parquet.read_table(file), root / "p" / "of-another.parquet")
    session.sql("INSERT OVERWRITE TABLE p SELECT * FROM p")
    assert rows(session, "SELECT * FROM p") == [(2,), (2,)]


def test_rows_go_to_where_a_partition_lies(session: Session, root: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE t (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'files/t'")
    session.sql("ALTER TABLE t ADD PARTITION (p = 1) LOCATION 'files/elsewhere'")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert len(visible(root / "elsewhere")) == 1
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, 1), (2, 2)]


def test_a_failed_write_leaves_all_as_it_was(
    metastore_url: str, clusters: dict[str, dict[str, str]], root: Path
) -> None:
    breaks: list[str] = []

    def fault(point: str) -> None:
        if breaks and breaks[0] in point:
            raise StorageError(point, "broken")

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE EXTERNAL TABLE t (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'files/t'")
        session.sql("INSERT INTO t VALUES (1, 1)")
        before = visible(root)
        # In the middle: the files are in place, and the commit fails.
        breaks.append("commit")
        with pytest.raises(HivexError):
            session.sql("INSERT OVERWRITE t SELECT id + 1, x FROM t LATERAL VIEW explode(array(1, 2)) AS x")
        breaks.clear()
        assert visible(root) == before
        with pytest.raises(TypeMismatchError):
            session.sql("INSERT INTO t VALUES (array(1), 1)")
        assert visible(root) == before
        assert rows(session, "SHOW PARTITIONS t") == [("p=1",)]
        assert rows(session, "SELECT * FROM t") == [(1, 1)]


@pytest.mark.parametrize("commits", [False, True])
def test_the_housekeeping_ends_the_write_of_a_killed_statement(
    metastore_url: str, clusters: dict[str, dict[str, str]], root: Path, commits: bool
) -> None:
    killed: list[str] = []

    def fault(point: str) -> None:
        moved = any(path.name.startswith("part-") and path not in before for path in (root / "t").iterdir())
        if killed or (moved and commits == ("after" in point)):
            killed.append(point)
            raise StorageError(point, "killed")

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE EXTERNAL TABLE t (id int) STORED AS ORC LOCATION 'files/t'")
        session.sql("INSERT INTO t VALUES (1)")
        before = set((root / "t").iterdir())
        with (
            Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as other,
            other.session() as writer,
            pytest.raises(HivexError),
        ):
            writer.sql("INSERT OVERWRITE TABLE t SELECT 2")
        assert rows(session, "SELECT * FROM t") == [(2,)]
        (txn_id,) = [each.id for each in metastore.transactions.show() if each.state is TxnState.OPEN] or [None]
        if txn_id is not None:
            metastore.transactions.abort(txn_id)
        metastore.housekeeper.run()
        assert rows(session, "SELECT * FROM t") == [(2 if commits else 1,)]
        assert len(list((root / "t").iterdir())) == 1


def test_a_statement_that_was_taken_for_dead_leaves_no_file(
    metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]], root: Path
) -> None:
    """Its process stood still until the housekeeping had taken its write back, and then goes on."""
    taken_back: list[int] = []

    def stand_still(point: str) -> None:
        staged = next(root.glob("t/_hivex_*"), None)
        if point == "after write" and staged is not None and any(staged.rglob("*_0")) and not taken_back:
            # What the process has in hand, and moves when it goes on.
            shutil.copytree(staged, kept)
            (txn_id,) = metastore.transactions.valid_txns().open_ids
            metastore.transactions.abort(txn_id)
            taken_back.append(metastore.housekeeper.run().abandoned_writes)
            kept.rename(staged)

    kept = root.parent / "kept"
    with metastore.session() as session:
        session.sql("CREATE EXTERNAL TABLE t (id int) STORED AS ORC LOCATION 'files/t'")
        session.sql("INSERT INTO t VALUES (1)")
        with (
            Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=stand_still) as other,
            other.session() as writer,
            pytest.raises(TransactionAbortedError),
        ):
            writer.sql("INSERT OVERWRITE TABLE t SELECT 2")
        assert taken_back == [1]
        assert rows(session, "SELECT * FROM t") == [(1,)]
        assert len(visible(root)) == 1


def test_copies_of_what_was_written_are_withdrawn(session: Session, copy_table: CopyTable) -> None:
    session.sql("CREATE EXTERNAL TABLE t (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'files/t'")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    copy_table("t", "c2")
    session.sql("INSERT INTO t VALUES (3, 2)")
    session.sql("USE CLUSTER c2")
    assert rows(session, "SELECT id FROM t WHERE p = 1") == [(1,)]
    with pytest.raises(RoutingError):
        session.sql("SELECT id FROM t")


def test_a_new_table_of_files_has_the_rows_of_a_query(session: Session, root: Path) -> None:
    query = "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS x(id, p)"
    done = session.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) LOCATION 'files/t' AS {query}")
    assert done.rows_written == 2
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    assert rows(session, "SHOW PARTITIONS t") == [("p=a",), ("p=b",)]
    before = visible(root)
    with pytest.raises(InvalidOperationError, match="there are files in files/t"):
        session.sql(f"CREATE EXTERNAL TABLE u STORED AS ORC LOCATION 'files/t' AS {query}")
    with pytest.raises(HivexError):
        session.sql("CREATE EXTERNAL TABLE u STORED AS ORC LOCATION 'files/u' AS SELECT raise_error('x') AS id")
    assert visible(root) == before
    session.sql("CREATE OR REPLACE TABLE t USING json LOCATION 'files/u' AS SELECT id + 1 AS id FROM t")
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(2,), (3,)]
    session.sql("DROP TABLE t")
    assert len(visible(root)) == 4


@pytest.mark.parametrize(
    ("table", "statement", "reason"),
    [
        ("(id int) USING csv OPTIONS (pathGlobFilter '*.csv')", "INSERT INTO t VALUES (1)", "pathGlobFilter"),
        ("(a int) USING xml OPTIONS (rowTag 'r')", "INSERT INTO t VALUES (1)", "files of format xml are only read"),
        (
            "(id int) STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count' = '1')",
            "INSERT INTO t VALUES (1)",
            "lines of its files are skipped",
        ),
        ("(v string) USING text", "INSERT INTO t VALUES ('a\\nb')", "nothing was written"),
        ("(id int) STORED AS ORC", "UPDATE t SET id = 1", "INSERT OVERWRITE and LOAD DATA write"),
        ("(id int) STORED AS ORC", "TRUNCATE TABLE t", "external table"),
    ],
)
def test_writes_that_cannot_be_kept_are_refused(
    session: Session, root: Path, table: str, statement: str, reason: str
) -> None:
    session.sql(f"CREATE EXTERNAL TABLE t {table} LOCATION 'files/t'")
    with pytest.raises(InvalidOperationError, match=reason):
        session.sql(statement)
    assert visible(root) == []
    assert rows(session, "SHOW LOCKS") == []


def test_a_file_in_the_place_of_a_table_is_an_error_of_ours(session: Session, root: Path) -> None:
    managed = "SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')"
    for name, keys in (("t", ""), ("p", "PARTITIONED BY (k int)")):
        session.sql(f"CREATE EXTERNAL TABLE {name} (id int) {keys} STORED AS ORC LOCATION 'files/{name}'")
    session.sql("ALTER TABLE p ADD PARTITION (k = 1) LOCATION 'files/k'")
    session.sql("ALTER TABLE p ADD PARTITION (k = 2)")
    root.mkdir(parents=True)
    for name in ("t", "p", "k"):
        orc.write_table(pa.table({"id": pa.array([1], pa.int32())}), root / name)
    for name in ("t", "p"):
        for text in ("SELECT * FROM {}", "ANALYZE TABLE {} COMPUTE STATISTICS"):
            with pytest.raises(FolderExpectedError, match=r"files/[tpk] is a file"):
                session.sql(text.format(name))
        with pytest.raises(FolderExpectedError, match=r"files/[tpk] is a file"):
            session.snapshot_files(name)
        with pytest.raises(HivexError, match=f"files/{name}"):
            session.sql(f"INSERT INTO {name} VALUES (2{', 1' if name == 'p' else ''})")
    for read in (lambda: session.sql("SELECT * FROM p WHERE k = 1"), lambda: session.to_arrow("p", filter="k = 1")):
        with pytest.raises(FolderExpectedError, match="files/k is a file"):
            read()
    for text in (f"ALTER TABLE t {managed}", "MSCK REPAIR TABLE p SYNC PARTITIONS"):
        with pytest.raises(FolderExpectedError):
            session.sql(text)
    assert rows(session, "SHOW PARTITIONS p") == [("k=1",), ("k=2",)]
    assert visible(root) == ["k", "p", "t"]


def test_links_do_not_lead_to_files_of_managed_tables(session: Session, root: Path, tmp_path: Path) -> None:
    """An overwrite deletes the files that lie there."""
    session.sql("CREATE TABLE managed (id int) STORED AS PARQUET")
    session.sql("INSERT INTO managed VALUES (7)")
    (file,) = (path for path in (tmp_path / "c1" / "default.db" / "managed").rglob("0*_0*") if path.is_file())
    session.sql("CREATE EXTERNAL TABLE t (id int) PARTITIONED BY (p int) STORED AS PARQUET LOCATION 'files/t'")
    (root / "t").mkdir(parents=True)
    (root / "t" / "p=1").symlink_to(file.parent)
    for statement in ("INSERT OVERWRITE t PARTITION (p = 1)", "INSERT INTO t PARTITION (p = 1)"):
        with pytest.raises(InvalidOperationError, match=r"symbolic links to the files of table default\.managed"):
            session.sql(f"{statement} VALUES (1)")
    assert rows(session, "SELECT * FROM managed") == [(7,)]
    assert session.to_arrow("managed").num_rows == 1
    (root / "t" / "p=2").symlink_to(tmp_path / "c1" / "elsewhere")
    (tmp_path / "c1" / "elsewhere").mkdir()
    session.sql("INSERT OVERWRITE t PARTITION (p = 2) VALUES (2)")
    assert rows(session, "SELECT id FROM t WHERE p = 2") == [(2,)]


def test_a_transaction_of_several_statements_takes_no_external_table(session: Session) -> None:
    session.sql("CREATE EXTERNAL TABLE t (id int) STORED AS ORC LOCATION 'files/t'")
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="visible before transaction"):
        session.sql("INSERT INTO t VALUES (1)")
    session.sql("ROLLBACK")
    with pytest.raises(NoSuchTableError):
        session.sql("INSERT INTO nowhere VALUES (1)")
    assert rows(session, "SELECT * FROM t") == []


def test_files_are_loaded(session: Session, root: Path, tmp_path: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE t (id int) USING csv LOCATION 'files/t'")
    (tmp_path / "x.csv").write_text("1\n2\n")
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/x.csv' INTO TABLE t")
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/x.csv' OVERWRITE INTO TABLE t")
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1,), (2,)]
    assert len(visible(root)) == 1
