"""Capacity and quotas of namespaces, from the registered directories."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from sqlalchemy import Connection, create_engine
from sqlalchemy import text as sql

from airflow_hivex.cli import demo
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchDatabaseError,
    QuotaExceededError,
    StatementSyntaxError,
    UnknownClusterError,
)
from tests.acceptance.conftest import CopyTable
from tests.acceptance.linked_rows import rows_of
from tests.waiting import wait_until


@pytest.fixture
def a(metastore: Metastore) -> Iterator[Session]:
    with metastore.session() as session:
        session.sql("CREATE DATABASE a")
        session.sql("CREATE DATABASE b")
        session.sql("USE a")
        session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (ds int)")
        session.sql("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
        yield session


@contextmanager
def watching_connection(url: str) -> Iterator[Connection]:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with closing(engine.connect()) as connection:
        yield connection
    engine.dispose()


def shown(session: Session, text: str) -> list[dict[str, object]]:
    result = session.sql(text)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def bytes_on(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("bucket_*"))


@pytest.mark.every_backend
def test_capacity_is_that_of_the_files(metastore: Metastore, a: Session, tmp_path: Path) -> None:
    a.sql("CREATE TABLE u (id int)")
    a.sql("INSERT INTO u VALUES (1)")
    a.sql("INSERT INTO u VALUES (2)")
    (row,) = shown(a, "SHOW CAPACITY NAMESPACE a")
    assert (row["cluster"], row["owned_bytes"], row["owned_rows"]) == ("c1", bytes_on(tmp_path / "c1/a.db"), 4)
    assert (row["secondary_bytes"], row["obsolete_bytes"], row["quota_bytes"], row["status"]) == (0, 0, None, None)
    # A link counts for the owner only.
    a.sql("USE b")
    a.sql("CREATE LINK TO t@a")
    a.sql("CREATE LINK TO u@a")
    a.sql("ALTER LINK t@a ADD PARTITION (ds=1)")
    owned = row["owned_bytes"]
    (of_b,) = shown(a, "SHOW CAPACITY NAMESPACE b")
    assert of_b["owned_bytes"] == 0
    linked = bytes_on(tmp_path / "c1/a.db/u") + bytes_on(tmp_path / "c1/a.db/t/ds=1")
    assert of_b["linked_bytes"] == linked
    a.sql("INSERT INTO a.t VALUES (3, 'three', 3)")
    (of_b,) = shown(a, "SHOW CAPACITY NAMESPACE b CLUSTER c1")
    assert of_b["linked_bytes"] == linked + bytes_on(tmp_path / "c1/a.db/t/ds=3")
    of_links = shown(a, "SHOW CAPACITY NAMESPACE b BY TABLE")
    assert [(each["table"], each["owned_bytes"]) for each in of_links] == [("t@a", 0), ("u@a", 0)]
    assert sum(int(str(each["linked_bytes"])) for each in of_links) == of_b["linked_bytes"]
    every = {(str(each["namespace"]), str(each["cluster"])): each for each in shown(a, "SHOW CAPACITY")}
    assert every.keys() == {("a", "c1"), ("b", "c1"), ("default", "c1")}
    # What an overwrite leaves waits for the cleaner, and so does a dropped partition until its files are gone.
    before = bytes_on(tmp_path / "c1/a.db/u")
    a.sql("INSERT OVERWRITE a.u VALUES (7)")
    (row,) = shown(a, "SHOW CAPACITY NAMESPACE a")
    assert row["obsolete_bytes"] == before
    assert int(str(row["owned_bytes"])) + before == bytes_on(tmp_path / "c1/a.db") > int(str(owned))
    tables = shown(a, "SHOW CAPACITY NAMESPACE a BY TABLE")
    assert [each["table"] for each in tables] == ["t", "u"]
    assert [each["format"] for each in shown(a, "SHOW CAPACITY NAMESPACE a CLUSTER c1 BY FORMAT")] == ["orc"]
    assert [each["age"] for each in shown(a, "SHOW CAPACITY BY AGE")] == ["up to 1 day"]


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_secondary_copies_are_distinguished(metastore: Metastore, copy_table: CopyTable) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        copy_table("t", "c2")
        first, second = shown(session, "SHOW CAPACITY NAMESPACE default")
        assert (first["cluster"], second["cluster"]) == ("c1", "c2")
        assert second["secondary_bytes"] == first["owned_bytes"] != 0
        assert second["owned_bytes"] == first["secondary_bytes"] == 0
        session.sql("ALTER DATABASE default SET QUOTA '1 TB' ON CLUSTER c2")
        session.sql("INSERT INTO t VALUES (2)")
        metastore.capacity.set_quota("default", int(str(second["secondary_bytes"])), "c2")
        # A copy that is too large is not registered.
        with pytest.raises(QuotaExceededError, match="on cluster c2"):
            copy_table("t", "c2")


@pytest.mark.every_backend
def test_commit_above_the_quota_is_refused_and_leaves_nothing(
    metastore: Metastore, a: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    used = bytes_on(tmp_path / "c1/a.db")
    a.sql(f"ALTER DATABASE a SET QUOTA {used + 10} WARNING 50 % ON CLUSTER c1")
    (row,) = shown(a, "SHOW CAPACITY NAMESPACE a")
    assert (row["quota_bytes"], row["warning_percent"], row["status"]) == (used + 10, 50, "warning")
    before = rows_of(a, "t")
    files = sorted(tmp_path.rglob("bucket_*"))
    for statement in ("INSERT INTO t VALUES (3, 'x', 3)", "INSERT INTO t PARTITION (ds=1) VALUES (3, 'x')"):
        with pytest.raises(QuotaExceededError) as error:
            a.sql(statement)
        assert error.value.excess_bytes == error.value.used_bytes - used - 10 > 0
        assert error.value.largest[0][0] == "a.t"
        assert rows_of(a, "t") == before
        assert sorted(tmp_path.rglob("bucket_*")) == files
        assert a.sql("SHOW PARTITIONS t").rows == [("ds=1",), ("ds=2",)]
    a.sql("START TRANSACTION")
    a.sql("INSERT INTO t VALUES (3, 'x', 3)")
    with pytest.raises(QuotaExceededError):
        a.sql("COMMIT")
    assert a.txn_id is None
    assert rows_of(a, "t") == before
    # Other namespaces, and statements that take rows away, go on.
    a.sql("CREATE TABLE b.free (id int)")
    a.sql("INSERT INTO b.free VALUES (1)")
    a.sql("TRUNCATE TABLE t PARTITION (ds=1)")
    a.sql("ALTER DATABASE a SET QUOTA '1 GiB' WARNING 100 ON CLUSTER c1")
    a.sql("INSERT INTO t VALUES (3, 'x', 3)")
    assert shown(a, "SHOW CAPACITY NAMESPACE a")[0]["status"] == "ok"
    with caplog.at_level(logging.WARNING, "airflow_hivex"):
        metastore.capacity.set_quota("a", bytes_on(tmp_path / "c1/a.db") * 2, warning_percent=1)
        a.sql("INSERT INTO t VALUES (4, 'x', 3)")
    assert "Namespace a uses" in caplog.text
    a.sql("ALTER DATABASE a UNSET QUOTA ON CLUSTER c1")
    a.sql("DROP DATABASE a CASCADE")


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_invalid_quotas_are_refused(metastore: Metastore, a: Session, tmp_path: Path) -> None:
    used = bytes_on(tmp_path / "c1/a.db")
    with pytest.raises(InvalidOperationError, match=rf"hold {used:,} bytes on cluster c1, 1 more"):
        a.sql(f"ALTER DATABASE a SET QUOTA {used - 1}")
    assert shown(a, "SHOW CAPACITY NAMESPACE a")[0]["quota_bytes"] is None
    for text in (
        "0",
        "-1",
        "'ten'",
        "'10 XB'",
        "x",
        "'1 IB'",
        "10 WARNING 0",
        "10 WARNING 101",
        "10 WARNING x",
        "10 ON c1",
    ):
        with pytest.raises(StatementSyntaxError):
            a.sql(f"ALTER DATABASE a SET QUOTA {text}")
    with pytest.raises(UnknownClusterError):
        a.sql("ALTER DATABASE a SET QUOTA '1 TB' ON CLUSTER c9")
    with pytest.raises(NoSuchDatabaseError):
        a.sql("ALTER DATABASE nothing SET QUOTA '1 TB'")
    with pytest.raises(InvalidOperationError, match="no quota on cluster c2"):
        a.sql("ALTER DATABASE a UNSET QUOTA ON CLUSTER c2")
    with pytest.raises(NoSuchDatabaseError):
        a.sql("SHOW CAPACITY NAMESPACE nothing BY TABLE")
    with pytest.raises(UnknownClusterError):
        a.sql("SHOW CAPACITY CLUSTER c9")


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_growth_is_that_since_the_record_of_seven_days_ago(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    day_ms = 86_400_000
    now = [20_000 * day_ms]
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=lambda: now[0]) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int)")
        sizes = []
        for _ in range(9):
            session.sql("INSERT INTO t VALUES (1)")
            sizes.append(bytes_on(tmp_path / "c1"))
            metastore.housekeeper.run()
            assert metastore.capacity.record() == 0
            now[0] += day_ms
        history = metastore.capacity.history("default")
        assert [each.amounts.owned_bytes for each in history] == sizes
        (row,) = shown(session, "SHOW CAPACITY NAMESPACE default")
        assert row["growth_7d_bytes"] == sizes[-1] - sizes[-7]
        by_age = {str(each["age"]): each["owned_rows"] for each in shown(session, "SHOW CAPACITY BY AGE")}
        assert by_age == {"up to 1 day": 1, "up to 7 days": 6, "up to 30 days": 2}


@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
def test_two_housekeepers_record_one_day_at_once(
    metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    waiting = sql(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    second: list[Future[int]] = []
    with ThreadPoolExecutor(1) as threads, watching_connection(metastore_url) as watching:

        def fault(point: str) -> None:
            if point == "before purge" and not second:
                second.append(threads.submit(metastore.capacity.record))
                wait_until(lambda: watching.execute(waiting).scalar_one() == 1)

        with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as other:
            with other.session() as session:
                session.sql("CREATE TABLE t (id int)")
                session.sql("INSERT INTO t VALUES (1)")
            other.capacity.record()
        second[0].result(30)
    (record,) = metastore.capacity.history("default")
    assert record.amounts.owned_rows == 1


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
@pytest.mark.spark
def test_every_way_of_bringing_bytes_is_counted_and_refused(
    metastore: Metastore, a: Session, tmp_path: Path, copy_table: CopyTable
) -> None:
    external = tmp_path / "c1/plain"
    a.sql("CREATE TABLE u (id int, v string)")
    a.sql("INSERT INTO u VALUES (1, 'one'), (2, 'two')")
    for name in ("plain", "part"):
        keys = " PARTITIONED BY (ds int)" if name == "part" else ""
        a.sql(f"CREATE EXTERNAL TABLE {name} (id int, v string){keys} STORED AS ORC LOCATION '{external / name}'")
    for folder in ("plain", "loaded", "elsewhere"):
        (external / folder).mkdir(parents=True, exist_ok=True)
        orc.write_table(pa.table({"id": pa.array([7], pa.int32()), "v": ["seven"]}), external / folder / "file.orc")
    used = bytes_on(tmp_path / "c1/a.db")
    a.sql(f"ALTER DATABASE a SET QUOTA {used} ON CLUSTER c1")
    a.sql("ALTER DATABASE a SET QUOTA 1 ON CLUSTER c2")
    # External tables are not counted, nor are their partitions.
    a.sql(f"ALTER TABLE part ADD PARTITION (ds=1) LOCATION '{external / 'elsewhere'}'")
    files = sorted((tmp_path / "c1").rglob("bucket_*"))
    convert = "SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')"
    for statement in (
        "INSERT INTO u SELECT * FROM u",
        "FROM u INSERT INTO u SELECT id, v INSERT INTO t PARTITION (ds=3) SELECT id, v",
        "CREATE TABLE w AS SELECT * FROM u",
        "UPDATE u SET v = 'longer'",
        "MERGE INTO u USING t ON u.id = t.id + 7 WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.v)",
        "INSERT OVERWRITE u SELECT id, concat(v, sha2(v, 512), sha2(cast(id AS string), 512)) FROM u",
        f"LOAD DATA LOCAL INPATH '{external / 'loaded'}' INTO TABLE u",
        f"ALTER TABLE plain {convert}",
        "REPLICATE TABLE u TO CLUSTER c2",
        "ALTER TABLE u SET PRIMARY CLUSTER c2",
    ):
        with pytest.raises(QuotaExceededError) as error:
            a.sql(statement)
        assert error.value.namespace == "a", statement
        assert error.value.excess_bytes == error.value.used_bytes - error.value.quota_bytes > 0, statement
        assert error.value.largest[0][0].startswith("a."), statement
    with a.transaction_batch("u", 2) as batch, pytest.raises(QuotaExceededError):
        batch.write([(3, "three")])
    assert sorted((tmp_path / "c1").rglob("bucket_*")) == files
    assert a.sql("SELECT count(*) FROM u").rows == [(2,)]
    assert shown(a, "SHOW CAPACITY NAMESPACE a CLUSTER c1")[0]["owned_bytes"] == used
    # All statements of a transaction count together.
    a.sql("START TRANSACTION")
    a.sql("INSERT INTO u VALUES (3, 'three')")
    a.sql("TRUNCATE TABLE t")
    a.sql("COMMIT")
    assert int(str(shown(a, "SHOW CAPACITY NAMESPACE a CLUSTER c1")[0]["owned_bytes"])) < used


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
@pytest.mark.spark
def test_statements_that_bring_no_rows_are_never_refused(metastore: Metastore, a: Session, tmp_path: Path) -> None:
    a.sql("CREATE TABLE u (id int, v string)")
    for number in range(3):
        a.sql(f"INSERT INTO u VALUES ({number}, 'one'), ({number + 10}, 'two')")
    a.sql("REPLICATE TABLE u TO CLUSTER c2")
    metastore.capacity.set_quota("a", bytes_on(tmp_path / "c1/a.db"), "c1")
    metastore.capacity.set_quota("a", bytes_on(tmp_path / "c2/a.db"), "c2")
    # The delete events take the namespace above its quota.
    a.sql("DELETE FROM u WHERE id = 1")
    assert shown(a, "SHOW CAPACITY NAMESPACE a CLUSTER c1")[0]["status"] == "exceeded"
    a.sql("MERGE INTO u USING t ON u.id = t.id + 1 WHEN MATCHED THEN DELETE")
    a.sql("DELETE FROM t WHERE id = 2")
    for kind in ("minor", "major"):
        a.sql(f"ALTER TABLE u COMPACT '{kind}'")
        while metastore.compactor.work() is not None:
            pass
        metastore.compactor.clean()
    assert {row["state"] for row in shown(a, "SHOW COMPACTIONS")} == {"succeeded"}, shown(a, "SHOW COMPACTIONS")
    a.sql("ALTER TABLE u ADD COLUMNS (more int)")
    a.sql("ALTER TABLE t DROP PARTITION (ds=2)")
    a.sql("TRUNCATE TABLE t")
    a.sql("INSERT OVERWRITE t SELECT id, v, 1 FROM t WHERE false")
    a.sql("ALTER DATABASE a UNSET QUOTA ON CLUSTER c2")
    a.sql("REPLICATE TABLE u TO CLUSTER c2")
    a.sql("ALTER DATABASE a SET QUOTA '1 TB' ON CLUSTER c2")
    a.sql("ALTER TABLE u SET PRIMARY CLUSTER c2")
    a.sql("DROP TABLE u")
    a.sql("DROP TABLE t")


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
@pytest.mark.spark
def test_second_team_of_the_demo_reads_flights_through_a_link(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE DATABASE nycflights")
    session.sql("CREATE TABLE nycflights.flights (carrier string, delay int) PARTITIONED BY (month int)")
    session.sql("INSERT INTO nycflights.flights VALUES ('AA', 1, 1), ('AA', 2, 1), ('UA', 3, 1), ('UA', 4, 2)")
    for _ in range(2):
        with metastore.session() as another:
            done = demo.work_as_second_team(another)
        assert done.answer.rows == [("AA", 2), ("UA", 1)]
        assert "nycflights.flights belongs to another namespace" in done.refusal
        assert "CREATE LINK TO flights@nycflights" in done.refusal
        table = demo.table_of_capacity(done.capacity)
        assert list(table.columns[0].cells) == ["delays", "nycflights"]
        assert "0" not in list(table.columns[5].cells)[:1]
