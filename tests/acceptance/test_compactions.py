"""ALTER TABLE ... COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS, as people use them. No Spark is started."""

from __future__ import annotations

import socket

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.model.compaction import SHOW_COLUMNS

pytestmark = pytest.mark.every_backend


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE TABLE t (a int)")
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (ds string, hr int)")
    session.sql("ALTER TABLE p ADD PARTITION (ds = '2013-01-01', hr = 7)")
    return session


def shown(session: Session, sql: str) -> list[dict[str, object]]:
    """The rows of a statement by the names of their columns."""
    result = session.sql(sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def test_compaction_is_asked_for_shown_and_aborted(tables: Session) -> None:
    assert shown(tables, "ALTER TABLE t COMPACT 'MINOR'") == [
        {"compactionid": "1", "state": "initiated", "message": None}
    ]
    (refused,) = shown(tables, "ALTER TABLE t COMPACT 'major' AND WAIT")
    assert (refused["compactionid"], refused["state"]) == ("-1", "refused")
    assert "compaction 1" in str(refused["message"])
    tables.sql("ALTER TABLE p PARTITION (HR = '07', ds = DATE '2013-01-01') COMPACT 'major' POOL 'etl'")
    result = tables.sql("SHOW COMPACTIONS")
    assert result.columns == list(SHOW_COLUMNS)
    assert all(value is None or isinstance(value, str) for row in result.rows for value in row)
    second, first = shown(tables, "SHOW COMPACTIONS")
    assert (first["tabname"], first["partname"], first["type"], first["poolname"]) == ("t", None, "MINOR", "default")
    assert (second["partname"], second["initiatorhost"]) == ("ds=2013-01-01/hr=7", socket.gethostname())
    assert (second["initiatorid"], second["poolname"]) == ("manual", "etl")

    def ids(rest: str) -> list[object]:
        return [row["compactionid"] for row in shown(tables, f"SHOW COMPACTIONS {rest}")]

    assert ids("t") == ids("default.t TYPE 'minor'") == ids("POOL 'default'") == ids("compactionid = 1") == ["1"]
    assert ids("p PARTITION (ds = '2013-01-01', hr = 7)") == ids("POOL 'etl' STATUS 'initiated'") == ["2"]
    assert ids("DATABASE default ORDER BY tabname DESC LIMIT 1") == ["1"]
    assert ids("STATUS 'working'") == []
    assert tables.sql("ABORT COMPACTIONS 2 9").rows == [
        ("2", "aborted", None),
        ("9", "error", "there is no such compaction"),
    ]
    assert ids("STATUS 'aborted'") == ["2"]


def test_and_wait_brings_what_became_of_it(metastore: Metastore, tables: Session) -> None:
    metastore.compactor.wait_timeout_s = 0.1
    (answer,) = shown(tables, "ALTER TABLE t COMPACT 'major' AND WAIT")
    assert (answer["compactionid"], answer["state"]) == ("1", "initiated")
    assert "still initiated" in str(answer["message"])


def test_optimize_asks_for_a_compaction_of_each_partition(tables: Session) -> None:
    tables.sql("ALTER TABLE p ADD PARTITION (ds = '2013-01-01', hr = 8)")
    assert shown(tables, "OPTIMIZE t") == [{"compactionid": "1", "state": "initiated", "message": None}]
    tables.sql("OPTIMIZE p PARTITION (ds = '2013-01-01', hr = 8) POOL 'etl'")
    first, second = shown(tables, "OPTIMIZE p")
    assert (first["partition"], first["compactionid"]) == ("ds=2013-01-01/hr=7", "3")
    assert (second["partition"], second["compactionid"], second["state"]) == ("ds=2013-01-01/hr=8", "-1", "refused")
    assert {row["type"] for row in shown(tables, "SHOW COMPACTIONS")} == {"MAJOR"}


def test_rebalance_and_properties_reach_the_queue(metastore: Metastore, tables: Session) -> None:
    tables.sql(
        "ALTER TABLE t COMPACT 'rebalance' CLUSTERED INTO 3 BUCKETS ORDER BY a DESC "
        "WITH OVERWRITE TBLPROPERTIES ('compactor.hive.compactor.job.queue' = 'night')"
    )
    entry = metastore.compactor.queue.next_entry("host-1")
    assert entry is not None
    assert (entry.buckets, entry.order_by, entry.run_as) == (3, "`a` DESC", "tester")
    assert entry.properties == {"compactor.hive.compactor.job.queue": "night"}


def test_bad_statements_are_refused_before_anything_is_changed(tables: Session) -> None:
    tables.sql("CREATE VIEW v AS SELECT * FROM t")
    tables.sql("CREATE EXTERNAL TABLE e (a int) STORED AS ORC LOCATION 'somewhere'")
    for error, match, sql in (
        (InvalidOperationError, "is a view", "ALTER TABLE v COMPACT 'major'"),
        (InvalidOperationError, "external table", "ALTER TABLE e COMPACT 'major'"),
        (InvalidOperationError, "no partition keys", "ALTER TABLE t PARTITION (ds = 1) COMPACT 'major'"),
        (InvalidOperationError, r"add PARTITION \(ds = \.\.\., hr = \.\.\.\)", "ALTER TABLE p COMPACT 'major'"),
        (InvalidObjectError, "no value for key hr", "ALTER TABLE p PARTITION (ds = '2013-01-01') COMPACT 'major'"),
        (NoSuchColumnError, "no column x", "ALTER TABLE p PARTITION (ds = 'a', hr = 1, x = 1) COMPACT 'major'"),
        (NoSuchPartitionError, "hr=8", "ALTER TABLE p PARTITION (ds = '2013-01-01', hr = 8) COMPACT 'major'"),
        (InvalidOperationError, "is a view", "OPTIMIZE v"),
        (InvalidOperationError, "external table", "VACUUM e"),
        (NoSuchTableError, "nothing", "OPTIMIZE nothing"),
        (NoSuchTableError, "nothing", "VACUUM nothing DRY RUN"),
        (NoSuchTableError, "nothing", "ALTER TABLE nothing COMPACT 'major'"),
        (NoSuchDatabaseError, "nowhere", "ALTER TABLE nowhere.t COMPACT 'major'"),
        (NoSuchColumnError, "no column b", "ALTER TABLE t COMPACT 'rebalance' ORDER BY b"),
        (NoSuchTableError, "nothing", "SHOW COMPACTIONS nothing"),
        (NoSuchDatabaseError, "nowhere", "SHOW COMPACTIONS DATABASE nowhere"),
        (InvalidOperationError, "no partition keys", "SHOW COMPACTIONS t PARTITION (ds = 1)"),
        (InvalidObjectError, "SHOW COMPACTIONS has", "SHOW COMPACTIONS ORDER BY x"),
    ):
        with pytest.raises(error, match=match):
            tables.sql(sql)
    assert tables.sql("SHOW COMPACTIONS").rows == []


def test_compaction_is_no_part_of_a_transaction(tables: Session) -> None:
    tables.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="before or after the transaction"):
        tables.sql("ALTER TABLE t COMPACT 'major'")
    assert tables.sql("SHOW COMPACTIONS").rows == []
    tables.sql("ROLLBACK")


def test_initiator_counts_what_statements_write(metastore: Metastore, tables: Session) -> None:
    tables.sql("ALTER TABLE t SET TBLPROPERTIES ('compactorthreshold.hive.compactor.delta.num.threshold' = '2')")
    for _ in range(2):
        tables.sql("INSERT INTO t VALUES (1)")
        tables.sql("INSERT INTO p PARTITION (ds = 'x', hr = 1) VALUES (1)")
    assert metastore.compactor.initiate().initiated == ()
    tables.sql("INSERT INTO t VALUES (1)")
    result = metastore.compactor.initiate()
    assert (result.candidates, result.initiated) == (2, (1,))
    (row,) = shown(tables, "SHOW COMPACTIONS")
    assert (row["tabname"], row["type"], row["state"]) == ("t", "MAJOR", "initiated")
    tables.sql("DROP TABLE t")
    assert [row["tabname"] for row in shown(tables, "SHOW COMPACTIONS t")] == ["t"]
    assert metastore.housekeeper.run().requeued_compactions == 0
