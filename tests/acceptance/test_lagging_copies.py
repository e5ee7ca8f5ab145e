"""Copies that lag serve queries of sessions that accept it, as of one earlier moment, or are refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from airflow_hivex.core import Metastore, Result, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    InvalidSettingError,
    RoutingError,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def lagging(metastore: Metastore) -> Iterator[Session]:
    """A session on c2 that accepts copies that lag by at most an hour."""
    with metastore.session(cluster="c2", max_lag="1h") as session:
        yield session


def ids(result: Result) -> list[object]:
    return sorted(row[0] for row in result.rows)  # type: ignore[type-var]


@pytest.fixture
def ab(session: Session) -> Session:
    """Tables a and b, whose primary cluster is c1, with a row each, and copies on c2."""
    for table in "ab":
        session.sql(f"CREATE TABLE {table} (id int)")
        session.sql(f"INSERT INTO {table} VALUES (1)")
        session.sql(f"REPLICATE TABLE {table} TO CLUSTER c2")
    return session


JOIN = "SELECT a.id FROM a JOIN b ON a.id = b.id"


def test_stale_copy_is_read_as_of_its_replication(ab: Session, lagging: Session) -> None:
    ab.sql("INSERT INTO a VALUES (2)")
    ab.sql("DELETE FROM a WHERE id = 1")
    before = datetime.now(UTC)
    result = lagging.sql("SELECT id FROM a")
    assert (ids(result), result.cluster) == ([1], "c2")
    assert result.as_of is not None
    assert result.as_of.time < before
    assert (result.as_of.commits, result.as_of.write_ids) == (2, {"default.a": 2})
    assert 0 < result.as_of.lag_ms < 3_600_000
    assert lagging.explain("SELECT id FROM a").cluster == "c2"
    assert ids(ab.sql("SELECT id FROM a")) == [2]
    ab.sql("REPLICATE TABLE a TO CLUSTER c2")
    result = lagging.sql("SELECT id FROM a")
    assert (ids(result), result.as_of) == ([2], None)


def test_joined_tables_are_read_of_one_moment(ab: Session, lagging: Session) -> None:
    # One transaction writes both tables, and each is replicated on its own: the copies are of two moments.
    for number in (2, 3):
        ab.sql("START TRANSACTION")
        ab.sql(f"INSERT INTO a VALUES ({number})")
        ab.sql(f"INSERT INTO b VALUES ({number})")
        ab.sql("COMMIT")
        ab.sql(f"REPLICATE TABLE {'ab'[number - 2]} TO CLUSTER c2")
    # a has write 2, and b has writes 2 and 3: both have had write 2 when a was copied.
    result = lagging.sql(JOIN)
    assert ids(result) == [1, 2]
    assert result.as_of is not None
    assert (result.as_of.commits, result.as_of.write_ids) == (1, {"default.a": 3, "default.b": 3})
    # A column of b alone, in a query that reads both, is of the same moment.
    assert ids(lagging.sql("SELECT b.id FROM b LEFT JOIN a ON a.id = b.id")) == [1, 2]


def test_table_on_its_own_primary_is_read_of_the_moment_too(metastore: Metastore, ab: Session) -> None:
    with metastore.session(cluster="c2") as there:
        there.sql("CREATE TABLE own (id int)")
        there.sql("INSERT INTO own VALUES (1)")
    ab.sql("INSERT INTO a VALUES (2)")
    ab.sql("REPLICATE TABLE a TO CLUSTER c2")
    with metastore.session(max_lag=3600) as session:
        session.sql("INSERT INTO own VALUES (2)")
        session.sql("INSERT INTO a VALUES (3)")
        result = session.sql("SELECT own.id FROM a JOIN own ON a.id >= own.id")
        assert result.cluster == "c2"
        assert ids(result) == [1, 1]
        assert result.as_of is not None
        assert result.as_of.commits == 2


def test_moment_that_no_copy_holds_is_refused(metastore: Metastore, ab: Session, lagging: Session) -> None:
    ab.sql("INSERT INTO a VALUES (2)")
    ab.sql("INSERT INTO b VALUES (2)")
    ab.sql("REPLICATE TABLE a TO CLUSTER c2")
    ab.sql("INSERT INTO a VALUES (3)")
    # What a was when b was copied is merged and cleaned away.
    metastore.compactor.request("default", "a", None, "major")
    assert metastore.compactor.work("host-1") is not None
    metastore.compactor.clean()
    with pytest.raises(RoutingError, match="has replaced directories that were read then"):
        lagging.sql(JOIN)
    ab.sql("REPLICATE TABLE a TO CLUSTER c2")
    with pytest.raises(RoutingError, match="cannot be read"):
        lagging.sql(JOIN)
    ab.sql("REPLICATE TABLE b TO CLUSTER c2")
    assert ids(lagging.sql(JOIN)) == [1, 2]


def test_compaction_that_is_not_cleaned_hides_nothing(metastore: Metastore, ab: Session, lagging: Session) -> None:
    ab.sql("INSERT INTO a VALUES (2)")
    metastore.compactor.request("default", "a", None, "major")
    assert metastore.compactor.work("host-1") is not None
    result = lagging.sql("SELECT id FROM a")
    assert ids(result) == [1]
    ab.sql("REPLICATE TABLE a TO CLUSTER c2")
    metastore.compactor.clean()
    ab.sql("INSERT INTO a VALUES (3)")
    assert ids(lagging.sql("SELECT id FROM a")) == [1, 2]


def test_cleaner_keeps_what_a_running_query_reads(
    metastore_url: str, metastore: Metastore, ab: Session, clusters: dict[str, dict[str, str]]
) -> None:
    ab.sql("INSERT INTO a VALUES (2)")
    cleaned: list[str] = []

    def fault(point: str) -> None:
        if point == "after read as of" and not cleaned:
            metastore.compactor.request("default", "a", None, "major")
            assert metastore.compactor.work("host-1") is not None
            cleaned.extend(task.outcome.value for task in metastore.compactor.clean())

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as other,
        other.session(cluster="c2", max_lag="1h") as session,
    ):
        assert ids(session.sql("SELECT id FROM a")) == [1]
        assert cleaned == ["waiting"]
        metastore.compactor.clean()
        with pytest.raises(RoutingError, match="has replaced directories"):
            session.sql("SELECT id FROM a")


def test_overwritten_partition_is_read_as_it_was(session: Session, lagging: Session) -> None:
    session.sql("CREATE TABLE p (id int) PARTITIONED BY (ds int)")
    session.sql("INSERT INTO p VALUES (1, 1), (2, 2)")
    session.sql("REPLICATE TABLE p TO CLUSTER c2")
    session.sql("INSERT OVERWRITE p PARTITION (ds = 1) VALUES (11)")
    session.sql("INSERT INTO p PARTITION (ds = 3) VALUES (3)")
    result = lagging.sql("SELECT id FROM p")
    assert ids(result) == [1, 2]
    assert result.as_of is not None
    assert result.as_of.commits == 2
    assert lagging.sql("SELECT id FROM p WHERE ds = 2").as_of is None
    session.sql("ALTER TABLE p DROP PARTITION (ds = 2)")
    with pytest.raises(RoutingError, match="dropped or renamed"):
        lagging.sql("SELECT id FROM p")


def test_lag_beyond_the_limit_is_refused_and_says_how_much_it_is(metastore: Metastore, ab: Session) -> None:
    for number in (2, 3):
        ab.sql(f"INSERT INTO a VALUES ({number})")
    with metastore.session(cluster="c2") as session:
        with pytest.raises(RoutingError, match="behind its primary"):
            session.sql("SELECT id FROM a")
        session.sql("SET hivex.replica.max.lag = 1ms")
        with pytest.raises(RoutingError, match=r"2 commits behind, and hivex.replica.max.lag accepts 0\.001 s"):
            session.sql("SELECT id FROM a")
        assert session.sql("EXPLAIN ROUTE SELECT id FROM a").cluster is None
        with pytest.raises(InvalidSettingError, match="315"):
            session.sql("SET hivex.replica.max.lag = 4000d")
        session.sql("SET hivex.replica.max.lag = 10min")
        session.sql("SET hivex.replica.max.lag.commits = 1")
        with pytest.raises(RoutingError, match="accepts 600 s and 1 commits"):
            session.sql("SELECT id FROM a")
        session.sql("RESET hivex.replica.max.lag")
        session.sql("SET hivex.replica.max.lag.commits = 2")
        assert ids(session.sql("SELECT id FROM a")) == [1]
        assert session.sql("SET hivex.replica.max.lag.commits").rows == [("hivex.replica.max.lag.commits", "2")]
        session.sql("SET hivex.replica.max.lag.commits = 0")
        with pytest.raises(RoutingError):
            session.sql("SELECT id FROM a")


def test_writes_and_transactions_never_read_copies_that_lag(ab: Session, lagging: Session) -> None:
    lagging.sql("CREATE TABLE own (id int)")
    ab.sql("INSERT INTO a VALUES (2)")
    for sql in ("INSERT INTO own SELECT id FROM a", "CREATE TABLE made AS SELECT id FROM a"):
        with pytest.raises(RoutingError, match="SELECT outside of transactions only"):
            lagging.sql(sql)
    lagging.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError):
        lagging.sql("SET hivex.replica.max.lag = 1h")
    with pytest.raises(RoutingError, match="SELECT outside of transactions only"):
        lagging.sql("SELECT id FROM a")
    lagging.sql("ROLLBACK")
    assert ids(lagging.sql("SELECT id FROM a")) == [1]


def test_change_of_the_primary_keeps_the_moments(metastore: Metastore, ab: Session) -> None:
    ab.sql("REPLICATE TABLE a TO CLUSTER c3")
    ab.sql("INSERT INTO a VALUES (2)")
    ab.sql("ALTER TABLE a SET PRIMARY CLUSTER c2")
    ab.sql("INSERT INTO a VALUES (3)")
    with metastore.session(cluster="c3", max_lag="1h") as session:
        result = session.sql("SELECT id FROM a")
        assert ids(result) == [1]
        assert result.as_of is not None
        assert result.as_of.commits == 2


def test_wrong_settings_are_refused(metastore: Metastore, session: Session) -> None:
    for sql in (
        "SET hivex.replica.max.lag = soon",
        "SET hivex.replica.max.lag = -1",
        "SET hivex.replica.max.lag = 1Gb",
    ):
        with pytest.raises(InvalidSettingError):
            session.sql(sql)
    with pytest.raises(InvalidOperationError, match="it is a setting of the metastore"):
        session.sql("SET hive.txn.timeout = 1")
    with pytest.raises(InvalidSettingError):
        metastore.session(max_lag="soon")
