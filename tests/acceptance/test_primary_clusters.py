"""Changes of the primary cluster: planned ones lose nothing, forced ones say what they lose before they do anything."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.orc
import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    LockError,
    NoSuchTableError,
    RoutingError,
    UnknownClusterError,
    WritesLostError,
)
from airflow_hivex.core.model.replication import CopyProgress, LostReason
from airflow_hivex.core.model.transactions import TxnState
from tests import evidence
from tests.acceptance.replicating_process import change_primary
from tests.conftest import Counts
from tests.processes import RandomKills

KILLS = evidence.amount("HIVEX_PRIMARY_KILLS", share=3, whole=100)


def rows_on(metastore: Metastore, cluster: str | None, table: str = "t", column: str = "id") -> list[object]:
    """Return the values of a column in the files that a query on the cluster would read now, without deleted rows."""
    with metastore.session(cluster=cluster) as session:
        found = session.snapshot_files(table)
    values: list[object] = []
    for each in found.files:
        assert not each.deletes
        values += pyarrow.orc.read_table(each.uri.removeprefix("file://"), columns=[column])[column].to_pylist()
    return sorted(values, key=str)


def primary_of(metastore: Metastore, table: str = "t") -> str:
    return metastore.catalog.get_table("default", table).storage.primary.cluster


def lose(tmp_path: Path, cluster: str) -> Path:
    """Take the file system of a cluster away, and return where it is kept."""
    return (tmp_path / cluster).rename(tmp_path / f"{cluster}.lost")


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (1)")
    return session


@pytest.fixture
def days(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
    for ds in "12":
        session.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES ({ds})")
    return session


def test_planned_change_keeps_all_and_the_old_primary_is_a_copy(metastore: Metastore, days: Session) -> None:
    days.sql("REPLICATE TABLE t TO CLUSTER c2")
    days.sql("INSERT INTO t PARTITION (ds = '3') VALUES (3)")
    result = days.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    assert result.rows[0][:4] == ("default.t", "c1", "c2", True)
    assert primary_of(metastore) == "c2"
    assert rows_on(metastore, "c2") == rows_on(metastore, "c1") == [1, 2, 3]
    assert {(each.cluster, each.is_primary, each.is_current) for each in metastore.replicator.copies("t")} == {
        ("c2", True, True),
        ("c1", False, True),
    }
    assert days.sql("INSERT INTO t PARTITION (ds = '1') VALUES (11)").cluster == "c2"
    with pytest.raises(RoutingError, match="behind its primary"):
        rows_on(metastore, "c1")
    assert days.sql("ALTER TABLE t SET PRIMARY CLUSTER c2").rows[0][3] is False
    days.sql("ALTER TABLE t SET PRIMARY CLUSTER c1")
    assert rows_on(metastore, "c1") == [1, 11, 2, 3]
    assert days.sql("INSERT INTO t PARTITION (ds = '4') VALUES (4)").cluster == "c1"
    assert metastore.doctor.examine() == []


def test_writers_wait_for_the_change_and_go_on_at_the_new_primary(metastore: Metastore, t: Session) -> None:
    written: list[str | None] = []

    def insert() -> None:
        with metastore.session() as other:
            written.append(other.sql("INSERT INTO t VALUES (2)").cluster)

    writer = threading.Thread(target=insert)
    calls = 0

    def begin_writer(progress: CopyProgress) -> None:
        nonlocal calls
        calls += 1
        if not writer.ident:
            writer.start()

    metastore.primaries.change("t", "c2", progress=begin_writer)
    writer.join(60)
    assert written in (["c1"], ["c2"])
    assert rows_on(metastore, "c2") == [1, 2]


@pytest.mark.parametrize("impl", ["CachedStore", "ObjectStore"])
def test_write_of_a_later_transaction_before_the_locks_is_kept(
    metastore_url: str, metastore: Metastore, t: Session, clusters: dict[str, dict[str, str]], impl: str
) -> None:
    points: list[str] = []

    def fault(point: str) -> None:
        points.append(point)
        # The transaction of the change, after that of the first copy, is open, and has its locks not yet.
        if point == "after open" and points.count(point) == 2:
            # A reader leaves the current directories in the cache, if there is one.
            assert rows_on(other, None) == [1]
            t.sql("INSERT INTO t VALUES (2)")

    settings = {"metastore.rawstore.impl": impl}
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": settings}
    with Metastore.open(metastore_url, **options, fault=fault) as other:
        other.primaries.change("t", "c2")
    assert rows_on(metastore, "c2") == [1, 2]


def test_change_waits_for_an_open_transaction_that_has_written(metastore: Metastore, t: Session) -> None:
    t.sql("START TRANSACTION")
    t.sql("INSERT INTO t VALUES (2)")
    changer = threading.Thread(target=lambda: metastore.primaries.change("t", "c2"))
    changer.start()
    while not [each for each in metastore.locks.show() if each.state.name == "WAITING"]:
        changer.join(0.05)
        assert changer.is_alive()
    assert primary_of(metastore) == "c1"
    t.sql("INSERT INTO t VALUES (3)")
    t.sql("COMMIT")
    changer.join(60)
    assert primary_of(metastore) == "c2"
    assert rows_on(metastore, "c2") == [1, 2, 3]


def test_transaction_with_an_earlier_snapshot_reads_it_at_the_new_primary(metastore: Metastore, t: Session) -> None:
    t.sql("CREATE TABLE other (id int)")
    with metastore.session() as reader:
        reader.sql("START TRANSACTION")
        reader.snapshot_files("other")
        t.sql("INSERT OVERWRITE t VALUES (2)")
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
        found = reader.snapshot_files("t")
        assert found.cluster == "c2"
        assert [pyarrow.orc.read_table(each.uri[7:])["id"].to_pylist() for each in found.files] == [[1]]
        reader.sql("ROLLBACK")
    assert rows_on(metastore, "c2") == [2]


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE TABLE t (id int) TBLPROPERTIES ('hivex.row.layout' = 'hive')",
        "CREATE TABLE t (id int) CLUSTERED BY (id) INTO 2 BUCKETS",
        "CREATE TABLE t (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')",
    ],
)
def test_all_kinds_of_managed_tables_change(metastore: Metastore, session: Session, definition: str) -> None:
    session.sql(definition)
    session.sql("INSERT INTO t VALUES (1), (2)")
    session.sql("ALTER TABLE t SET PRIMARY CLUSTER c3")
    assert session.sql("INSERT INTO t VALUES (3)").cluster == "c3"
    found = session.snapshot_files("t")
    assert (found.cluster, len({each.uri.rpartition("/")[0] for each in found.files})) == ("c3", 2)


def test_table_without_partitions_yet_changes(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
    assert session.sql("ALTER TABLE t SET PRIMARY CLUSTER c2").rows[0][:4] == ("default.t", "c1", "c2", True)
    session.sql("INSERT INTO t PARTITION (ds = '1') VALUES (1)")
    assert rows_on(metastore, "c2") == [1]
    session.sql("ALTER TABLE t SET PRIMARY CLUSTER c1")
    assert rows_on(metastore, "c1") == [1]


def test_external_table_changes_with_its_files(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE raw (a string) USING csv LOCATION 'raw'")
    (tmp_path / "c1" / "raw").mkdir(parents=True)
    (tmp_path / "c1" / "raw" / "one.csv").write_text("x\n")
    session.sql("ALTER TABLE raw SET PRIMARY CLUSTER c2")
    assert (primary_of(metastore, "raw"), len(session.snapshot_files("raw").files)) == ("c2", 1)
    session.sql("CREATE VIEW v AS SELECT * FROM raw")
    with pytest.raises(InvalidOperationError, match="a view"):
        session.sql("ALTER TABLE v SET PRIMARY CLUSTER c2")


def test_queued_compaction_runs_on_the_new_primary(metastore: Metastore, t: Session) -> None:
    t.sql("INSERT INTO t VALUES (2)")
    metastore.compactor.request("default", "t", None, "minor")
    t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    done = metastore.compactor.work("host-1")
    assert done is not None
    assert done.error_message is None
    metastore.compactor.clean()
    with pytest.raises(RoutingError):
        rows_on(metastore, "c1")
    assert rows_on(metastore, "c2") == [1, 2]
    assert metastore.doctor.examine() == []


def test_compaction_that_is_outrun_by_a_change_counts_nothing(
    metastore_url: str, metastore: Metastore, t: Session, clusters: dict[str, dict[str, str]]
) -> None:
    t.sql("INSERT INTO t VALUES (2)")

    def fault(point: str) -> None:
        if point == "compaction written":
            metastore.primaries.change("t", "c2")

    metastore.compactor.request("default", "t", None, "minor")
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as other:
        done = other.compactor.work("host-1")
    assert done is not None
    assert "moved meanwhile" in (done.error_message or "")
    assert rows_on(metastore, "c1") == rows_on(metastore, "c2") == [1, 2]
    assert metastore.doctor.examine() == []


def test_streaming_batch_goes_on_at_the_new_primary(metastore: Metastore, t: Session) -> None:
    with t.transaction_batch("t", 3) as batch:
        batch.write([(2,)])
        metastore.primaries.change("t", "c2")
        assert batch.write([(3,)]).cluster == "c2"
    assert rows_on(metastore, "c2") == [1, 2, 3]
    metastore.replicator.replicate("t", "c1")
    assert rows_on(metastore, "c1") == [1, 2, 3]


@pytest.mark.evidence
@pytest.mark.timeout(1800)
def test_killed_changes_leave_one_primary_with_all_rows(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1"}
    seen: Counter[str] = Counter()
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
        kills = RandomKills(rng, tmp_path)
        while seen["killed"] < KILLS:
            number = seen["changes"]
            seen["changes"] += 1
            session.sql(f"INSERT INTO t PARTITION (ds = '{number % 3}') VALUES ({number})")
            before = primary_of(metastore)
            target = rng.choice([each for each in clusters if each != before])
            seen["killed"] += kills.is_killed(change_primary, metastore_url, options, target)
            # Otherwise the next writer waits for the time-out of the killed one's transaction.
            for each in metastore.transactions.show():
                if each.state is TxnState.OPEN:
                    metastore.transactions.abort(each.id, "its client was killed")
            assert primary_of(metastore) in (before, target)
            seen["changed" if primary_of(metastore) == target else "not changed"] += 1
            assert rows_on(metastore, primary_of(metastore)) == sorted(range(number + 1), key=str)
    counts["changes of the primary cluster with a kill"] = dict(sorted(seen.items()))


def test_new_table_never_gets_the_folder_of_an_old_primary(metastore: Metastore, t: Session) -> None:
    location = metastore.catalog.get_table("default", "t").storage.primary.location
    t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    t.sql("ALTER TABLE t RENAME TO u")
    t.sql("CREATE TABLE t (id int)")
    assert metastore.catalog.get_table("default", "t").storage.primary.cluster == "c1"
    assert metastore.catalog.get_table("default", "t").storage.primary.location != location


def test_wrong_requests_are_refused(metastore: Metastore, t: Session) -> None:
    with pytest.raises(UnknownClusterError):
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c9")
    with pytest.raises(NoSuchTableError):
        t.sql("ALTER TABLE nothing SET PRIMARY CLUSTER c2")
    with pytest.raises(InvalidOperationError, match="can be used"):
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2 FORCE")
    with pytest.raises(InvalidParametersError):
        metastore.primaries.change("t", "c2", confirm="0a1b")
    t.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="transaction"):
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    t.sql("ROLLBACK")
    assert primary_of(metastore) == "c1"


def test_dry_run_of_a_planned_change_lists_what_is_copied(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    found = metastore.primaries.change("t", "c2", dry_run=True)
    assert found.replication is not None
    assert (found.is_changed, len(found.replication.tables[0].directories)) == (False, 1)
    assert not (tmp_path / "c2").exists()


# -- a lost cluster ----------------------------------------------------------------------


def test_forced_change_names_the_lost_writes_and_asks_for_confirmation(
    metastore: Metastore, t: Session, tmp_path: Path
) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    t.sql("INSERT INTO t VALUES (2), (3)")
    lose(tmp_path, "c1")
    with pytest.raises(HivexError):
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    with pytest.raises(WritesLostError, match="write id 3: 1 directory, 2 rows") as refused:
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2 FORCE")
    assert "write id 3, delta_0000003_0000003_0000: 2 rows" in refused.value.lost[0]
    with pytest.raises(WritesLostError):
        t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2 FORCE CONFIRM 'something else'")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    assert (planned.lost_write_ids, planned.confirmation) == (((3, 3),), refused.value.confirmation)
    assert primary_of(metastore) == "c1"
    t.sql(f"ALTER TABLE t SET PRIMARY CLUSTER c2 FORCE CONFIRM '{refused.value.confirmation}'")
    assert rows_on(metastore, None) == [1]
    t.sql("INSERT INTO t VALUES (4)")
    assert rows_on(metastore, "c2") == [1, 4]
    assert [each.cluster for each in metastore.replicator.copies("t")] == ["c2"]


def test_lost_cluster_that_comes_back_gets_a_copy_again(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    t.sql("INSERT INTO t VALUES (2)")
    kept = lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    t.sql("INSERT INTO t VALUES (3)")
    kept.rename(tmp_path / "c1")
    t.sql("REPLICATE TABLE t TO CLUSTER c1")
    assert rows_on(metastore, "c1") == rows_on(metastore, "c2") == [1, 3]


def test_forced_change_without_a_loss_needs_no_confirmation(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    lose(tmp_path, "c1")
    assert t.sql("ALTER TABLE t SET PRIMARY CLUSTER c2 FORCE").rows[0][5] == 0
    assert rows_on(metastore, None) == [1]


def test_current_copy_becomes_the_primary_without_the_lost_cluster(
    metastore: Metastore, days: Session, tmp_path: Path
) -> None:
    days.sql("REPLICATE TABLE t TO CLUSTER c2")
    kept = lose(tmp_path, "c1")
    days.sql("ALTER TABLE t SET PRIMARY CLUSTER c2")
    days.sql("INSERT INTO t PARTITION (ds = '1') VALUES (11)")
    assert rows_on(metastore, "c2") == [1, 11, 2]
    kept.rename(tmp_path / "c1")
    assert {(each.partition, each.is_current) for each in metastore.replicator.copies("t") if each.cluster == "c1"} == {
        ("ds=1", False),
        ("ds=2", True),
    }


def test_write_that_another_copy_has_is_not_lost(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    t.sql("INSERT INTO t VALUES (2)")
    t.sql("REPLICATE TABLE t TO CLUSTER c3")
    t.sql("INSERT INTO t VALUES (3)")
    lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    assert planned.lost_write_ids == ((4, 4),)
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    assert rows_on(metastore, "c2") == rows_on(metastore, "c3") == [1, 2]


def test_write_to_two_partitions_is_kept_or_lost_in_both(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    days.sql("REPLICATE TABLE t TO CLUSTER c2")
    with metastore.session() as writer:
        writer.sql("START TRANSACTION")
        for ds in "12":
            writer.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES (1{ds})")
        writer.sql("COMMIT")
    days.sql("REPLICATE TABLE t PARTITION (ds = '1') TO CLUSTER c2")
    lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    assert {(each.partition, each.reason) for each in planned.lost} == {
        ("ds=2", LostReason.LOST),
        ("ds=1", LostReason.WITHDRAWN),
    }
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    assert rows_on(metastore, None) == [1, 2]
    assert not list((tmp_path / "c2").rglob("delta_0000004*"))


def test_partition_without_a_copy_is_lost_alone(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    days.sql("REPLICATE TABLE t PARTITION (ds = '1') TO CLUSTER c2")
    lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    assert [(each.partition, each.reason) for each in planned.lost] == [("ds=2", LostReason.NO_COPY)]
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    assert rows_on(metastore, None) == [1]
    days.sql("INSERT INTO t PARTITION (ds = '2') VALUES (22)")
    assert rows_on(metastore, None) == [1, 22]


def test_damaged_copy_counts_as_lost(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    t.sql("INSERT INTO t VALUES (2)")
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    shutil.rmtree(next((tmp_path / "c2").rglob("delta_0000003*")))
    lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    assert planned.lost_write_ids == ((3, 3),)
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    assert rows_on(metastore, None) == [1]


def test_overwrite_that_is_lost_brings_the_rows_before_it_back(
    metastore: Metastore, t: Session, tmp_path: Path
) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    t.sql("INSERT OVERWRITE t VALUES (2)")
    lose(tmp_path, "c1")
    planned = metastore.primaries.change("t", "c2", force=True, dry_run=True)
    metastore.primaries.change("t", "c2", force=True, confirm=planned.confirmation)
    assert rows_on(metastore, None) == [1]


def test_forced_change_waits_for_writers(
    metastore_url: str, metastore: Metastore, t: Session, tmp_path: Path, clusters: dict[str, dict[str, str]]
) -> None:
    t.sql("REPLICATE TABLE t TO CLUSTER c2")
    t.sql("START TRANSACTION")
    t.sql("INSERT INTO t VALUES (2)")
    lose(tmp_path, "c1")
    with (
        Metastore.open(
            metastore_url,
            clusters=clusters,
            default_cluster="c1",
            settings={"hive.lock.numretries": 1},
        ) as impatient,
        pytest.raises(LockError),
    ):
        impatient.primaries.change("t", "c2", force=True)
    assert primary_of(metastore) == "c1"
