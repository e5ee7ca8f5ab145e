"""Compactions as a worker does them: what readers see stays the same, for all writes and all readers."""

from __future__ import annotations

import json
import random
import re
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import orc
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import CompactionLostError, JobCancelledError
from airflow_hivex.core.job.storage import Place
from airflow_hivex.core.model.compaction import Compaction, CompactionState, CompactionType
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.acceptance.registered_directories import check_accounted, registered
from tests.acceptance.test_conversion import write
from tests.acceptance.test_hive_layout import as_text, read_by_hive, seen_by_us
from tests.acceptance.test_statistics import facts

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

TABLES = {
    "partitioned": "PARTITIONED BY (p string)",
    "bucketed": "CLUSTERED BY (id) INTO 3 BUCKETS",
}
COLUMNS = {"id": "int", "v": "string", "n": "struct<a:int,b:array<int>>"}


def compact(metastore: Metastore, type: str, partition: str | None = None, table: str = "t") -> Compaction:
    """What has become of a compaction that is asked for and done."""
    response = metastore.compactor.request("default", table, partition, type)
    assert response.is_accepted, response
    done = metastore.compactor.work("host-1")
    assert done is not None
    assert done.id == response.id
    return done


def rows(session: Session, table: str = "t") -> list[tuple[Any, ...]]:
    return session.sql(f"SELECT id, v, n.a, p FROM {table} ORDER BY ALL").rows


def names(root: Path, partition: str | None = None, table: str = "t") -> list[str]:
    folder = root / "c1" / "default.db" / table / (partition or "")
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and "=" not in path.name)


def seen_by_hive(root: Path, scratch: Path) -> Counter[str]:
    """What Hive 2.3 reads, which knows no visibility suffixes: of a copy without them."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(root / "c1" / "default.db" / "t", scratch)
    for path in list(scratch.glob("**/*_v[0-9]*")):
        path.rename(path.with_name(re.sub(r"_v\d+$", "", path.name)))
    found: Counter[str] = Counter()
    for folder in sorted({path.parent.parent for path in scratch.glob("**/_orc_acid_version")}):
        found.update(map(as_text, read_by_hive(folder, COLUMNS)))
    return found


class History:
    """Random statements on a table, and what its rows are after each."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self.random = random.Random(seed)
        self.rows: dict[int, tuple[str | None, str]] = {}
        self.next_id = 0

    def step(self) -> None:
        self.random.choice([self.insert, self.insert, self.update, self.delete, self.roll_back, self.merge])()

    def insert(self) -> None:
        new = range(self.next_id, self.next_id + self.random.randint(1, 40))
        self.next_id = new.stop
        self.session.sql(
            "INSERT INTO t (id, v, n, p) SELECT CAST(id AS INT), IF(id % 5 = 0, NULL, concat('v', id)), "
            f"named_struct('a', CAST(id AS INT), 'b', array(1, NULL)), concat('p', id % 2) "
            f"FROM range({new.start}, {new.stop})"
        )
        self.rows |= {each: (None if each % 5 == 0 else f"v{each}", f"p{each % 2}") for each in new}

    def update(self) -> None:
        modulus = self.random.randint(2, 9)
        self.session.sql(f"UPDATE t SET v = 'u{modulus}' WHERE id % {modulus} = 1")
        self.rows |= {each: (f"u{modulus}", self.rows[each][1]) for each in self.rows if each % modulus == 1}

    def delete(self) -> None:
        modulus = self.random.randint(3, 9)
        self.session.sql(f"DELETE FROM t WHERE id % {modulus} = 0")
        self.rows = {each: row for each, row in self.rows.items() if each % modulus}

    def merge(self) -> None:
        new, self.next_id = self.next_id, self.next_id + 1
        old = self.random.choice(sorted(self.rows) or [new])
        self.session.sql(
            f"MERGE INTO t USING (SELECT explode(array({old}, {new})) AS k) s ON t.id = s.k "
            "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (k, 'n', 'p0')"
        )
        if old in self.rows:
            self.rows[old] = ("m", self.rows[old][1])
        self.rows.setdefault(new, ("n", "p0"))

    def roll_back(self) -> None:
        self.session.sql("START TRANSACTION")
        self.session.sql("INSERT INTO t (id, v, p) VALUES (-1, 'never', 'p0')")
        self.session.sql("DELETE FROM t WHERE id % 2 = 0")
        self.session.sql("ROLLBACK")

    def check(self, session: Session | None = None) -> None:
        found = {(row[0], row[1], row[3]) for row in rows(session or self.session)}
        expected = {(each, v, p) for each, (v, p) in self.rows.items()}
        assert found == expected, (sorted(found - expected), sorted(expected - found))


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize(("kind", "layout"), [("partitioned", "hive"), ("bucketed", "flat")])
def test_no_reader_sees_a_compaction(metastore: Metastore, tmp_path: Path, kind: str, layout: str) -> None:
    with metastore.session() as session, metastore.session() as old:
        keys = ", p string" if kind != "partitioned" else ""
        declared = ", ".join(f"{name} {of}" for name, of in COLUMNS.items())
        session.sql(f"CREATE TABLE t ({declared}{keys}) {TABLES[kind]} TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
        history = History(session, seed=sum(map(ord, kind + layout)))
        partitions = ["p=p0", "p=p1"] if kind == "partitioned" else [None]
        history.insert()
        for types in (["minor", "major"], ["major", "minor"]):
            history.step()
            history.insert()
            history.delete()
            old.sql("START TRANSACTION")
            before = rows(old)
            for each in types:
                for partition in partitions:
                    done = compact(metastore, each, partition)
                    assert done.state in (CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED), done
                history.check()
                if layout == "hive":
                    assert seen_by_hive(tmp_path, tmp_path / "copy") == seen_by_us(session, COLUMNS)
                # What is written from here on names rows by the ids that they had before.
                history.insert()
                history.update()
                assert rows(old) == before
            for partition in partitions:
                assert any(re.search(r"_v\d+$", name) for name in names(tmp_path, partition))
            old.sql("ROLLBACK")
            # The next major compaction turns what was flat into files for Hive.
            layout = "hive"
            session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")
        history.check()
        assert seen_by_hive(tmp_path, tmp_path / "copy") == seen_by_us(session, COLUMNS)


def test_a_failing_job_leaves_all_as_it_was(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
    for at in range(3):
        session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
    session.sql("DELETE FROM t WHERE id = 1")
    before, directories = rows(session), names(tmp_path)
    damaged = next((tmp_path / "c1" / "default.db" / "t").glob("delete_delta_*/bucket_*"))
    content = damaged.read_bytes()
    damaged.unlink()
    for each in ("major", "minor"):
        failed = compact(metastore, each)
        assert failed.state is CompactionState.FAILED
        assert "t has 0 files of delete deltas" in str(failed.error_message)
        assert names(tmp_path) == directories
    damaged.write_bytes(content)
    assert rows(session) == before
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert rows(session) == before


def test_a_worker_that_wakes_up_too_late_changes_nothing(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    late = []

    def fault(point: str) -> None:
        if point == "compaction written" and not late:
            (working,) = metastore.compactor.show()
            late.append(working)
            metastore.transactions.abort(int(working.txn_id or 0), "its heartbeat timed out")
            assert metastore.compactor.housekeep()[0] == 1

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for at in range(3):
            session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
        before, directories = rows(session), names(tmp_path)
        metastore.compactor.request("default", "t")
        with pytest.raises(CompactionLostError):
            metastore.compactor.work("host-1")
        assert (rows(session), names(tmp_path)) == (before, directories)
        done = metastore.compactor.work("host-2")
        assert done is not None
        assert (done.id, done.state) == (late[0].id, CompactionState.READY_FOR_CLEANING)
        assert rows(session) == before
        assert len(names(tmp_path)) == len(directories) + 1


def test_a_worker_whose_transaction_was_ended_runs_no_job_in_vain_and_says_why(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    def fault(point: str) -> None:
        if point == "compaction started":
            txn_id = int(metastore.compactor.show()[0].txn_id or 0)
            metastore.transactions.abort(txn_id, "an administrator was in a hurry")
            for thread in threading.enumerate():
                if thread.name == f"hivex-heartbeat of transaction {txn_id}":
                    thread.join(60)
                    assert not thread.is_alive()

    def jobs() -> int:
        return len(SparkSession.builder.getOrCreate().sparkContext.statusTracker().getJobIdsForGroup(None))

    with (
        Metastore.open(
            metastore_url, clusters=clusters, default_cluster="c1", settings={"hive.txn.timeout": 2}, fault=fault
        ) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for at in range(2):
            session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
        before, directories, run_before = rows(session), names(tmp_path), jobs()
        failed = compact(metastore, "major")
        assert failed.state is CompactionState.FAILED
        assert "an administrator was in a hurry" in str(failed.error_message)
        assert (jobs(), names(tmp_path)) == (run_before, directories)
        assert rows(session) == before


@pytest.mark.parametrize("point", ["before its transaction", "compaction started"])
def test_columns_that_come_while_a_worker_begins_keep_their_values(
    metastore_url: str, clusters: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    met: list[str] = []
    begin = TransactionManager.open

    def reached(there: str) -> None:
        if not met and there == point:
            met.append(there)
            session.sql("ALTER TABLE t ADD COLUMNS (late string)")
            session.sql("INSERT INTO t VALUES (7, 'new', 'kept')")

    def open_transaction(self: TransactionManager, *given: Any, **named: Any) -> tuple[int, ...]:
        if named.get("type") is TxnType.COMPACTION:
            reached("before its transaction")
        return begin(self, *given, **named)

    monkeypatch.setattr(TransactionManager, "open", open_transaction)
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=reached) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string)")
        for at in range(2):
            session.sql(f"INSERT INTO t VALUES ({at}, 'x')")
        assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
        assert met
        assert session.sql("SELECT * FROM t ORDER BY id").rows == [(0, "x", None), (1, "x", None), (7, "new", "kept")]


def test_a_worker_that_is_cancelled_gives_its_entry_back(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    cancelled = []

    def fault(point: str) -> None:
        if point == "compaction started" and not cancelled:
            cancelled.append(metastore.compactor.show()[0])
            metastore.compactor.cancel("host-1")

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for at in range(2):
            session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
        before, directories = rows(session), names(tmp_path)
        response = metastore.compactor.request("default", "t")
        with pytest.raises(JobCancelledError):
            metastore.compactor.work("host-1")
        (entry,) = metastore.compactor.show()
        assert (entry.id, entry.state, entry.txn_id) == (response.id, CompactionState.INITIATED, None)
        assert metastore.transactions.get(int(cancelled[0].txn_id or 0)).state is TxnState.ABORTED
        assert (rows(session), names(tmp_path)) == (before, directories)
        done = metastore.compactor.work("host-1", compaction_id=entry.id)
        assert done is not None
        assert done.state is CompactionState.READY_FOR_CLEANING
        assert rows(session) == before


def test_nothing_to_gain_and_what_is_gone_are_refused(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
    session.sql("INSERT INTO t (id) VALUES (1)")
    refused = compact(metastore, "minor")
    assert (refused.state, refused.error_message) == (
        CompactionState.REFUSED,
        "there is nothing to merge: it has 1 delta, and a minor compaction takes two of a kind",
    )
    assert compact(metastore, "major").state is CompactionState.REFUSED
    session.sql("CREATE TABLE s (id int) CLUSTERED BY (id) SORTED BY (id) INTO 2 BUCKETS")
    assert "SORTED BY" in str(compact(metastore, "major", table="s").error_message)
    waiting = metastore.compactor.request("default", "s", type="major").id
    session.sql("DROP TABLE s")
    gone = metastore.compactor.history.get(waiting)
    assert (gone.state, gone.error_message) == (CompactionState.ABORTED, "the table or partition was dropped")
    assert metastore.compactor.work("host-1") is None


def test_more_deltas_than_at_once_are_merged_in_steps(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {"hive.compactor.max.num.delta": 2}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for at in range(3):
            session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x'), ({at + 10}, 'y')")
        session.sql("UPDATE t SET v = 'z' WHERE id IN (1, 12)")
        before = rows(session)
        assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
        made = [name for name in names(tmp_path) if "_v" in name]
        assert [re.sub(r"_v\d+$", "", name) for name in made] == [
            "delete_delta_0000002_0000005",
            "delta_0000002_0000005",
        ]
        assert rows(session) == before


@pytest.mark.evidence(cases=2)
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_deltas_of_one_transaction_are_never_parted(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, most: int
) -> None:
    settings = {"hive.compactor.max.num.delta": most}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for statements in (1, 4, 1):
            session.sql("START TRANSACTION")
            for at in range(statements):
                session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
            session.sql("COMMIT")
        before = rows(session)
        done = compact(metastore, "minor")
        assert (done.state, done.error_message) == (CompactionState.READY_FOR_CLEANING, None)
        assert rows(session) == before
        metastore.compactor.clean()
        made = [re.sub(r"_v\d+$", "", name) for name in names(tmp_path)]
        assert made == ["delete_delta_0000002_0000004", "delta_0000002_0000004"]


def test_what_a_compaction_could_not_delete_goes_with_its_cleaning(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise OSError("not now")

    settings = {"hive.compactor.max.num.delta": 3}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
        for at in range(4):
            session.sql(f"INSERT INTO t (id, v) VALUES ({at}, 'x')")
        for owner, method, kind in ((LocalFileSystem, "rm", "delta_"), (Place, "delete", "_staging_")):
            session.sql("INSERT INTO t (id, v) VALUES (7, 'x')")
            before = rows(session)
            with monkeypatch.context() as broken:
                broken.setattr(owner, method, refuse)
                assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
            left = set(names(tmp_path)) - {Path(path).name for path in registered(metastore, "c1")}
            assert {name for name in left if name.startswith(kind)}
            metastore.compactor.clean()
            check_accounted(metastore, tmp_path)
            assert rows(session) == before


def test_a_batch_with_aborted_transactions_keeps_what_committed(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id int, v string, n struct<a:int>, p string)")
    with session.transaction_batch("t", 4) as batch:
        batch.write([{"id": 1, "v": "x"}])
        batch.write([{"id": 2, "v": "y"}])
    session.sql("INSERT INTO t (id) VALUES (7)")
    before = rows(session)
    assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
    assert rows(session) == before
    session.sql("DELETE FROM t WHERE id = 2")
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert rows(session) == [row for row in before if row[0] != 2]


def test_statistics_describe_the_files_that_are_there_now(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (p STRING)")
    for number in range(3):
        session.sql(f"INSERT INTO t VALUES ({number}, 'a')")
    session.sql("ANALYZE TABLE t PARTITION (p = 'a') COMPUTE STATISTICS FOR COLUMNS id")
    before = facts(session, "t PARTITION (p = 'a')")
    compact(metastore, "minor", "p=a")
    after = facts(session, "t PARTITION (p = 'a')")
    assert (before["numFiles"], after["numFiles"]) == ("3", "1")
    assert int(after["totalSize"]) < int(before["totalSize"])
    # No row is another one.
    kept = ("numRows", "COLUMN_STATS_ACCURATE")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after["numRows"] == "3"
    assert "Statistics" not in facts(session, "t")
    # Those of an older snapshot stay what they are.
    session.sql("INSERT INTO t VALUES (4, 'a')")
    compact(metastore, "major", "p=a")
    later = facts(session, "t PARTITION (p = 'a')")
    assert (later["numFiles"], later["numRows"]) == ("1", "3")
    assert "COLUMN_STATS_ACCURATE" not in later or json.loads(later["COLUMN_STATS_ACCURATE"]) == {}


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("format", ["orc", "parquet", "json", "csv"])
def test_insert_only_tables_are_compacted(metastore: Metastore, session: Session, tmp_path: Path, format: str) -> None:
    session.sql(
        f"CREATE TABLE t (id int, v string) STORED AS {format} "
        "TBLPROPERTIES ('transactional_properties' = 'insert_only')"
    )
    for at in range(3):
        session.sql(f"INSERT INTO t SELECT CAST(id AS INT), concat('v', id) FROM range({at * 10}, {at * 10 + 10})")
    session.sql("START TRANSACTION")
    session.sql("INSERT INTO t VALUES (-1, 'never')")
    session.sql("ROLLBACK")
    query = "SELECT * FROM t ORDER BY ALL"
    before = session.sql(query).rows
    assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
    assert session.sql(query).rows == before
    session.sql("INSERT INTO t VALUES (99, NULL)")
    after = session.sql(query).rows
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert session.sql(query).rows == after == [*before, (99, None)]
    assert any(name.startswith("base_") for name in names(tmp_path))


def test_insert_only_tables_fail_where_they_are_left_out(
    metastore_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    settings = {"hive.compactor.compact.insert.only": False}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
        for _ in range(2):
            session.sql("INSERT INTO t VALUES (1)")
        done = compact(metastore, "major")
        assert done.state is CompactionState.FAILED
        assert "hive.compactor.compact.insert.only" in str(done.error_message)


def test_converted_files_become_a_base_and_keep_their_ids(
    metastore: Metastore, session: Session, tmp_path: Path
) -> None:
    session.sql("CREATE EXTERNAL TABLE t (id int, v string) STORED AS orc LOCATION 't'")
    for name, first in (("000000_0", 0), ("000000_0_copy_1", 40), ("part-00000-1b-c000.snappy.orc", 70)):
        write(tmp_path / "c1" / "t" / name, range(first, {0: 40, 40: 70, 70: 100}[first]))
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('transactional' = 'true', 'EXTERNAL' = 'FALSE')")
    session.sql("DELETE FROM t WHERE id % 10 = 3")
    before = session.sql("SELECT ROW__ID, id, v FROM t ORDER BY id").rows
    assert len(before) == 90
    # The delete delta is larger than a tenth of the files that it belongs to.
    explanation = metastore.compactor.explain("default", "t")
    assert explanation.type is CompactionType.MAJOR
    (waiting,) = metastore.compactor.initiate().initiated
    assert metastore.compactor.history.get(waiting).type is explanation.type
    assert metastore.compactor.queue.abort([waiting]) == {waiting: None}
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert session.sql("SELECT ROW__ID, id, v FROM t ORDER BY id").rows == before
    session.sql("DELETE FROM t WHERE id % 10 = 4")
    assert len(session.sql("SELECT id FROM t").rows) == 80
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert len(session.sql("SELECT id FROM t").rows) == 80


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_large_stripes_are_copied_as_they_are(
    metastore: Metastore, session: Session, tmp_path: Path, layout: str
) -> None:
    session.sql(f"CREATE TABLE t (id int, v string) TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
    for start in (0, 100_000, 200_000):
        session.sql(f"INSERT INTO t SELECT CAST(id AS INT), concat('v', id) FROM range({start}, {start + 90_000})")
    session.sql("DELETE FROM t WHERE id = 100001")
    query = "SELECT count(*), sum(id), sum(hash(ROW__ID, v)) FROM t"
    before = session.sql(query).rows
    folder = tmp_path / "c1" / "default.db" / "t"
    lengths = Counter(orc.ORCFile(path).nrows for path in folder.glob("delta_*/bucket_*"))
    assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
    merged = [orc.ORCFile(path) for path in folder.glob("delta_*_v*/bucket_*")]
    assert sum(file.nstripes for file in merged) == sum(lengths.values())
    assert session.sql(query).rows == before
