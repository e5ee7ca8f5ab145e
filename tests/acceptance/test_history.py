"""Earlier versions of tables: their record, how long they can be read, and what the cleaner keeps for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchVersionError,
    RoutingError,
    StatementSyntaxError,
    UnsupportedStatementError,
    VersionExpiredError,
)
from airflow_hivex.core.model.cleaning import CleaningOutcome
from tests import evidence
from tests.compacted_warehouse import CompactedWarehouse, Row
from tests.conftest import Counts

RETENTION_S = 100


@dataclass
class Clock:
    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metastore(metastore_url: str, clusters: dict[str, dict[str, str]], clock: Clock) -> Iterator[Metastore]:
    settings = {"hivex.history.retention": RETENTION_S, "hivex.dataframe.retention.time": 0}
    with Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", clock=clock, settings=settings
    ) as metastore:
        yield metastore


@pytest.fixture
def warehouse(metastore: Metastore, session: Session, tmp_path: Path) -> CompactedWarehouse:
    session.sql("CREATE TABLE t (a bigint)")
    return CompactedWarehouse(metastore, tmp_path)


def history(session: Session, table: str = "t") -> list[tuple[object, ...]]:
    """The write id, operation, rows added and deleted of each recorded commit."""
    return [(row[0], row[5], row[6], row[7]) for row in session.sql(f"DESCRIBE HISTORY {table}").rows]


# -- the record ------------------------------------------------------------------------


@pytest.mark.every_backend
def test_history_shows_who_has_committed_what(metastore: Metastore, clock: Clock) -> None:
    with metastore.session(user="ana", agent_info="dag=daily run=r1 task=load") as session:
        session.sql("CREATE TABLE t (a int)")
        clock.advance(1)
        session.sql("INSERT INTO t VALUES (1), (2)")
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO t VALUES (3)")
        session.sql("INSERT INTO t VALUES (4)")
        session.sql("COMMIT")
        session.sql("TRUNCATE TABLE t")
        session.sql("ALTER TABLE t ADD COLUMNS (b int)")
        result = session.sql("DESCRIBE HISTORY TABLE t LIMIT 4")
        everything = history(session)
    assert everything == [
        (5, "ALTER TABLE ADD COLUMNS", 0, 0),
        (4, "TRUNCATE TABLE", 0, 0),
        (3, "INSERT", 2, 0),
        (2, "INSERT", 2, 0),
        (1, "CREATE TABLE", 0, 0),
    ]
    assert result.columns[:6] == ["write_id", "txn_id", "committed_at", "user", "agent_info", "operation"]
    assert len(result.rows) == 4
    assert result.rows[-1][2:5] == ("2023-11-14 22:13:21.000+00:00", "ana", "dag=daily run=r1 task=load")
    assert int(str(result.rows[-1][8])) > 0


def test_history_is_kept_when_the_transactions_are_forgotten(
    metastore: Metastore, session: Session, warehouse: CompactedWarehouse, clock: Clock
) -> None:
    for _ in range(3):
        clock.advance(10)
        warehouse.write("t")
    warehouse.compact("t")
    metastore.compactor.clean()
    clock.advance(RETENTION_S / 2)
    metastore.housekeeper.run()
    assert [row[0] for row in history(session)] == [4, 3, 2, 1]
    clock.advance(RETENTION_S)
    metastore.compactor.clean()
    metastore.housekeeper.run()
    # The last commit is the present version, however old it is.
    assert [row[0] for row in history(session)] == [4]


@pytest.mark.every_backend
def test_record_of_a_table_goes_with_the_table(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("DROP TABLE t")
    session.sql("CREATE TABLE t (a int)")
    assert [row[1] for row in history(session)] == ["CREATE TABLE"]


# -- what can be read ------------------------------------------------------------------


def test_cleaner_keeps_versions_within_the_retention(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session, clock: Clock
) -> None:
    versions: list[list[Row]] = [[]]
    for _ in range(3):
        clock.advance(10)
        versions.append(versions[-1] + warehouse.write("t"))
    warehouse.compact("t")
    before = warehouse.names("t")
    (task,) = metastore.compactor.clean()
    assert (task.outcome, len(task.waiting), task.deleted) == (CleaningOutcome.WAITING, 3, ())
    assert "hivex.history.retention" in str(task.blockers[0])
    assert warehouse.names("t") == before
    for write_id, rows in enumerate(versions, 1):
        assert warehouse.read(session, "t", write_id) == sorted(rows)
    clock.advance(RETENTION_S)
    (task,) = metastore.compactor.clean()
    assert (task.outcome, len(task.deleted)) == (CleaningOutcome.CLEANED, 3)
    with pytest.raises(VersionExpiredError, match=r"older than hivex\.history\.retention, 100 s"):
        warehouse.read(session, "t", 3)
    assert warehouse.read(session, "t", 4) == sorted(versions[-1])


def test_cleaner_names_the_retention_and_no_transaction_that_reads_the_compacted_rows(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session
) -> None:
    for _ in range(2):
        warehouse.write("t")
    session.sql("CREATE TABLE other (a bigint)")
    with metastore.session(user="reader") as reader:
        reader.sql("START TRANSACTION")
        reader.snapshot_files("other")
        warehouse.compact("t")
        (task,) = metastore.compactor.clean()
        assert [blocker.txn_id for blocker in task.blockers] == [0]


def test_cleaner_waits_for_the_retention_only_where_the_clock_was_put_back(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session, clock: Clock
) -> None:
    clock.advance(86_400)
    rows = warehouse.write("t")
    clock.advance(-86_400)
    for _ in range(2):
        clock.advance(1)
        rows += warehouse.write("t")
        assert warehouse.read(session, "t", None) == sorted(rows)
    warehouse.compact("t")
    assert metastore.compactor.clean()[0].outcome is CleaningOutcome.WAITING
    assert [row[0] for row in history(session)] == [4, 3, 2, 1]
    clock.advance(RETENTION_S)
    (task,) = metastore.compactor.clean()
    assert (task.outcome, len(task.deleted)) == (CleaningOutcome.CLEANED, 3)
    metastore.housekeeper.run()
    assert warehouse.read(session, "t", 4) == sorted(rows)


def test_a_purged_version_is_too_old_also_where_the_clock_was_put_back(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session, clock: Clock
) -> None:
    clock.advance(86_400)
    session.sql("CREATE TABLE late (a bigint)")
    clock.advance(-86_400)
    for _ in range(3):
        clock.advance(1)
        warehouse.write("late")
    clock.advance(RETENTION_S)
    metastore.housekeeper.run()
    assert [row[0] for row in session.sql("DESCRIBE HISTORY late").rows] == [4]
    with pytest.raises(VersionExpiredError):
        warehouse.read(session, "late", 2)


def test_compaction_of_what_is_older_than_the_retention_is_cleaned_at_once(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session, clock: Clock
) -> None:
    rows = [row for _ in range(3) for row in warehouse.write("t")]
    clock.advance(2 * RETENTION_S)
    later = warehouse.write("t", before_commit=lambda: warehouse.compact("t"))
    (task,) = metastore.compactor.clean()
    assert len(task.deleted) == 3
    assert warehouse.read(session, "t", 4) == sorted(rows)
    assert warehouse.read(session, "t", 5) == sorted(rows + later)


def test_version_has_commits_in_their_order_and_not_in_that_of_write_ids(
    warehouse: CompactedWarehouse, session: Session
) -> None:
    first: list[Row] = []
    slow = warehouse.write("t", before_commit=lambda: first.extend(warehouse.write("t")))
    assert slow[0][0] == 2
    assert warehouse.read(session, "t", 3) == first
    assert warehouse.read(session, "t", 2) == sorted(first + slow)


def test_time_names_the_version_of_then(
    warehouse: CompactedWarehouse, session: Session, clock: Clock, metastore: Metastore
) -> None:
    clock.advance(10)
    one = warehouse.write("t")
    clock.advance(10)
    warehouse.write("t")
    files = session.snapshot_files("t", timestamp="2023-11-14 22:13:39.999")
    assert [file.uri.rpartition("/")[0].rpartition("/")[2] for file in files.files] == ["delta_0000002_0000002_0000"]
    assert one
    assert session.snapshot_files("t", timestamp="2023-11-14T23:13:20+01:00").files == ()
    with pytest.raises(NoSuchVersionError, match="created at 2023-11-14 22:13:20"):
        session.snapshot_files("t", timestamp="2023-11-14 22:13:19")
    with pytest.raises(NoSuchVersionError, match="the time is not yet"):
        session.snapshot_files("t", timestamp="2023-11-14 22:13:41")


@pytest.mark.every_backend
def test_retention_of_a_table_is_its_property(
    metastore: Metastore, session: Session, warehouse: CompactedWarehouse, clock: Clock
) -> None:
    rows = warehouse.write("t")
    warehouse.write("t")
    with pytest.raises(InvalidObjectError, match=r"hivex\.history\.retention"):
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = 'for ever')")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1h')")
    clock.advance(2 * RETENTION_S)
    metastore.housekeeper.run()
    assert warehouse.read(session, "t", 2) == rows
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '0')")
    with pytest.raises(VersionExpiredError, match="is 0, so that only the present version"):
        warehouse.read(session, "t", 2)
    warehouse.compact("t")
    assert metastore.compactor.clean()[0].outcome is CleaningOutcome.CLEANED


def test_version_of_an_aborted_write_has_never_been(warehouse: CompactedWarehouse, session: Session) -> None:
    rows = warehouse.write("t")
    warehouse.write("t", ends="abort")
    with pytest.raises(NoSuchVersionError, match="write id 3 was aborted"):
        warehouse.read(session, "t", 3)
    with pytest.raises(NoSuchVersionError, match="no commit has this write id; the newest one is 2"):
        warehouse.read(session, "t", 99)
    assert warehouse.read(session, "t", 2) == rows


def test_versions_before_a_dropped_partition_cannot_be_read(session: Session, metastore: Metastore) -> None:
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (ds string)")
    session.sql("INSERT INTO p PARTITION (ds='a') VALUES (1)")
    session.sql("INSERT INTO p PARTITION (ds='b') VALUES (2)")
    assert [file.partition for file in session.snapshot_files("p", version=2).files] == [{"ds": "a"}]
    session.sql("ALTER TABLE p DROP PARTITION (ds='a')")
    with pytest.raises(VersionExpiredError, match="a partition was dropped or renamed"):
        session.snapshot_files("p", version=3)
    assert [file.partition for file in session.snapshot_files("p", version=4).files] == [{"ds": "b"}]


@pytest.mark.spark
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_versions_before_a_new_field_of_a_struct_are_compared_and_restored(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, s struct<a:int>, l array<struct<b:int>>)")
    session.sql("INSERT INTO t SELECT 1, named_struct('a', 1), array(named_struct('b', 2))")
    session.sql("ALTER TABLE t CHANGE COLUMN s s STRUCT<a: INT, `n,o`: STRING>")
    session.sql("ALTER TABLE t CHANGE COLUMN l l ARRAY<STRUCT<b: INT, c: DATE>>")
    session.sql("UPDATE t SET s = named_struct('a', 5, 'n,o', 'x'), l = NULL")
    then = ({"a": 1, "n,o": None}, [{"b": 2, "c": None}])
    changes = session.sql("SELECT _change_type, s, l FROM t CHANGES FROM VERSION 3 ORDER BY 1").rows
    assert changes == [("delete", *then), ("insert", {"a": 5, "n,o": "x"}, None)]
    session.sql("RESTORE TABLE t TO VERSION AS OF 2")
    assert session.sql("SELECT s, l FROM t").rows == [then]


def test_truncated_rows_are_those_of_their_version(session: Session) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("TRUNCATE TABLE t")
    session.sql("INSERT INTO t VALUES (2), (3)")
    sizes = [len(session.snapshot_files("t", version=version).files) for version in range(1, 5)]
    assert sizes == [0, 1, 0, 1]


def test_copy_serves_the_versions_whose_directories_it_has(
    warehouse: CompactedWarehouse, session: Session, metastore: Metastore
) -> None:
    rows = warehouse.write("t")
    warehouse.copy("t", "c2")
    later = rows + warehouse.write("t")
    with metastore.session(cluster="c2") as on_copy:
        assert warehouse.read(on_copy, "t", 2) == rows
        for version in (3, None):
            with pytest.raises(RoutingError, match="behind its primary"):
                warehouse.read(on_copy, "t", version)
    assert warehouse.read(session, "t", 3) == sorted(later)


def test_files_of_a_version_stay_as_long_as_those_of_a_frame(
    metastore_url: str, clusters: dict[str, dict[str, str]], clock: Clock, tmp_path: Path
) -> None:
    settings = {"hivex.history.retention": RETENTION_S, "hivex.dataframe.retention.time": 10 * RETENTION_S}
    with Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", clock=clock, settings=settings
    ) as metastore:
        session = metastore.session()
        session.sql("CREATE TABLE t (a bigint)")
        warehouse = CompactedWarehouse(metastore, tmp_path)
        warehouse.write("t")
        files = session.snapshot_files("t", version=2).files
        warehouse.write("t")
        warehouse.compact("t")
        clock.advance(2 * RETENTION_S)
        (task,) = metastore.compactor.clean()
        assert (task.outcome, len(task.blockers)) == (CleaningOutcome.WAITING, 1)
        assert all(Path(unquote(urlparse(file.uri).path)).exists() for file in files)
        clock.advance(10 * RETENTION_S)
        assert len(metastore.compactor.clean()[0].deleted) == 2


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM t VERSION AS OF 'x'", StatementSyntaxError, "a version is the write id of a commit"),
        ("SELECT * FROM t VERSION AS OF -1", StatementSyntaxError, "a version is the write id of a commit"),
        ("SELECT * FROM t VERSION AS OF", StatementSyntaxError, "a version is the write id of a commit"),
        ("SELECT * FROM t TIMESTAMP AS OF 'noon'", StatementSyntaxError, "a time is a text"),
        ("SELECT * FROM t x VERSION AS OF 1", StatementSyntaxError, "before its alias"),
        ("SELECT * FROM (SELECT 1) VERSION AS OF 1", StatementSyntaxError, "before its alias"),
        ("WITH c AS (SELECT 1) SELECT * FROM c VERSION AS OF 1", StatementSyntaxError, "before its alias"),
        ("SELECT * FROM v VERSION AS OF 1", UnsupportedStatementError, "is a view, which has no versions"),
        ("SELECT * FROM e VERSION AS OF 1", InvalidOperationError, "it is not transactional"),
        ("DESCRIBE HISTORY v", InvalidOperationError, "it is a view"),
        ("DESCRIBE HISTORY e", InvalidOperationError, "it is not transactional"),
        ("CREATE VIEW w AS SELECT * FROM t VERSION AS OF :n", UnsupportedStatementError, "write a constant for :n"),
    ],
)
def test_version_that_cannot_be_is_a_clear_error(
    sqlite_url: str, clusters: dict[str, dict[str, str]], query: str, error: type[HivexError], message: str
) -> None:
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore:
        session = metastore.session()
        session.sql("CREATE TABLE t (a int)")
        session.sql("CREATE EXTERNAL TABLE e (a int) STORED AS ORC LOCATION 'e'")
        if " v" in query:
            session.sql("CREATE VIEW v AS SELECT a FROM default.t")
        with pytest.raises(error, match=message):
            session.sql(query, {"n": 1} if ":n" in query else None)


# -- random histories ------------------------------------------------------------------


@dataclass
class Versions:
    """The rows of a table after each of its commits, by a plain model."""

    rows: list[Row] = field(default_factory=list)
    committed: list[tuple[int, int, list[Row]]] = field(default_factory=list)

    def commit(self, write_id: int, now_ms: int, rows: list[Row]) -> None:
        self.rows = sorted(rows)
        self.committed.append((write_id, now_ms, self.rows))

    def readable(self, now_ms: int) -> int:
        """The number of commits that are before the version with which the retention begins."""
        begins = [i for i, (_, ms, _) in enumerate(self.committed) if ms <= now_ms - RETENTION_S * 1000]
        return max(begins, default=0)


class RandomHistory:
    """Random commits, compactions and cleaning of one table."""

    def __init__(
        self, metastore: Metastore, warehouse: CompactedWarehouse, clock: Clock, table: str, rng: random.Random
    ) -> None:
        self.metastore, self.warehouse, self.clock, self.table, self.rng = metastore, warehouse, clock, table, rng
        self.versions = Versions()
        self.versions.commit(1, clock.now_ms, [])
        self.last_write_id = 1
        # What is removed does not return when the clock is put back.
        self.removed = 0
        self.steps: list[Callable[[], None]] = [self.insert] * 4
        self.steps += [self.delete, self.delete, self.overwrite, self.abort, self.slow_insert, self.compact]
        self.steps += [self.compact, self.clean, self.clean, self.wait]

    def _next(self) -> int:
        self.last_write_id += 1
        return self.last_write_id

    def insert(self) -> None:
        write_id = self._next()
        new = self.warehouse.write(self.table)
        self.versions.commit(write_id, self.clock.now_ms, self.versions.rows + new)

    def delete(self) -> None:
        if not self.versions.rows:
            return self.insert()
        write_id = self._next()
        gone = self.rng.sample(self.versions.rows, min(2, len(self.versions.rows)))
        self.warehouse.write(self.table, deletes=gone)
        self.versions.commit(write_id, self.clock.now_ms, [row for row in self.versions.rows if row not in gone])
        return None

    def overwrite(self) -> None:
        write_id = self._next()
        self.versions.commit(write_id, self.clock.now_ms, self.warehouse.write(self.table, overwrite=True))

    def abort(self) -> None:
        self._next()
        self.warehouse.write(self.table, ends="abort")

    def slow_insert(self) -> None:
        """Others commit higher write ids first."""
        write_id = self._next()
        between = self.rng.choice([self.insert, self.delete, self.compact, self.clean])
        new = self.warehouse.write(self.table, before_commit=between)
        self.versions.commit(write_id, self.clock.now_ms, self.versions.rows + new)

    def compact(self) -> None:
        self.warehouse.compact(self.table, type=self.rng.choice(["major", "minor"]))

    def clean(self) -> None:
        self.removed = max(self.removed, self.versions.readable(self.clock.now_ms))
        self.metastore.compactor.clean("default", self.table)
        if self.rng.random() < 0.3:
            self.metastore.housekeeper.run()

    def wait(self) -> None:
        """Time passes; now and then the clock is put back."""
        self.clock.advance(self.rng.choice([20, 60, 130, 130, -90]))

    def check(self, session: Session, share: int) -> tuple[int, int]:
        """Compare versions with the model; the numbers of those that were read, and that were too old."""
        first = max(self.versions.readable(self.clock.now_ms), self.removed)
        places = range(len(self.versions.committed))
        read = expired = 0
        for place in sorted(self.rng.sample(places, min(share, len(places)))):
            write_id, _, rows = self.versions.committed[place]
            try:
                assert self.warehouse.read(session, self.table, write_id) == rows, (self.table, write_id)
                assert place >= self.versions.readable(self.clock.now_ms)
                read += 1
            except VersionExpiredError:
                assert place < first, (self.table, write_id)
                expired += 1
        return read, expired


@pytest.mark.evidence
def test_each_readable_version_is_that_of_its_commit(
    metastore: Metastore, session: Session, tmp_path: Path, clock: Clock, counts: Counts
) -> None:
    warehouse = CompactedWarehouse(metastore, tmp_path)
    histories = evidence.amount("HIVEX_RANDOM_HISTORIES", 3, 1000)
    read = expired = 0
    for number in range(histories):
        rng = random.Random(f"{evidence.SEED} {number}")
        table = f"h{number}"
        session.sql(f"CREATE TABLE {table} (a bigint)")
        done = RandomHistory(metastore, warehouse, clock, table, rng)
        for _ in range(14):
            rng.choice(done.steps)()
            clock.advance(rng.choice([1, 5, 20]))
        found = done.check(session, 8)
        read, expired = read + found[0], expired + found[1]
        session.sql(f"DROP TABLE {table}")
    counts["Random histories with time travel"] = {
        "histories": histories,
        "versions that equal the model": read,
        "versions that are too old": expired,
    }
