"""A fault at each step of each statement that writes: all is as it was before, and the next statement works.

``make evidence``, or ``HIVEX_EVERY_FAULT=1``, tries each step of each statement; ``make test`` every twentieth one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import CommitOutcomeUnknownError, HivexError, StoreUnavailableError
from tests import evidence
from tests.acceptance.faults import Dead, Faults, install

pytestmark = [pytest.mark.spark, pytest.mark.evidence]

HOURS_MS = 3_600_000
_STRIDE = 1 if evidence.does_all("HIVEX_EVERY_FAULT") else 20


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return install(monkeypatch)


@dataclass
class Opened:
    """A warehouse with some tables, and what they hold."""

    url: str
    clusters: dict[str, dict[str, str]]
    metastore: Metastore
    session: Session
    root: Path

    def rows(self) -> dict[str, list[Any]]:
        names = [str(row[0]) for row in self.session.sql("SHOW TABLES").rows]
        query = " UNION ALL ".join(f"SELECT '{name}' AS name, * FROM {name}" for name in names)
        found: dict[str, list[Any]] = {name: [] for name in names}
        for name, *values in self.session.sql(query).rows:
            found[str(name)].append(tuple(values))
        return {name: sorted(rows, key=str) for name, rows in found.items()}

    def held(self) -> list[Any]:
        """The files that its tables consist of, and their definitions: what decides the rows, without Spark."""
        found: list[Any] = list(self.session.sql("SHOW TABLES").rows)
        for name in ("p", "q", "b"):
            found += self.session.sql(f"DESCRIBE {name}").rows
            found += self.session.sql(f"SHOW PARTITIONS {name}").rows
            found += sorted((each.uri, each.size_bytes) for each in self.session.snapshot_files(name).files)
        return found

    def tree(self) -> set[str]:
        """All files, and the directories of writes; the folder of a partition may be there without any."""
        found = (path for path in self.root.rglob("*") if path.is_file() or "=" not in path.name)
        return {str(path.relative_to(self.root)) for path in found}


FIRST = {table: [(1, "x", "1"), (2, "y", "2"), (3, None, None)] for table in ("b", "p", "q")}
"""The rows of the tables, as :meth:`Opened.rows` finds them before a statement has changed any."""


@pytest.fixture
def warehouse(sqlite_url: str, tmp_path: Path, faults: Faults) -> Iterator[Opened]:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(sqlite_url, clusters=clusters, fault=faults.database) as metastore, metastore.session() as s:
        for table, clause in (("p", ""), ("q", ""), ("b", "CLUSTERED BY (a) INTO 2 BUCKETS")):
            s.sql(f"CREATE TABLE {table} (a int, v string) PARTITIONED BY (k string) {clause}")
            s.sql(f"INSERT INTO {table} VALUES (1, 'x', '1'), (2, 'y', '2'), (3, NULL, NULL)")
        yield Opened(sqlite_url, clusters, metastore, s, tmp_path / "c1")


@pytest.fixture
def later(warehouse: Opened) -> Iterator[Metastore]:
    """The same warehouse, hours later: every time-out is over."""
    clock = lambda: system_clock() + HOURS_MS  # noqa: E731 - as short as the clock is
    with Metastore.open(warehouse.url, clusters=warehouse.clusters, clock=clock) as metastore:
        yield metastore


STATEMENTS = {
    "INSERT VALUES": "INSERT INTO p VALUES (7, 'n', '1'), (8, 'n', 'new')",
    "INSERT SELECT": "INSERT INTO b SELECT a + 10, v, concat(k, 'n') FROM p",
    "INSERT OVERWRITE, dynamic": "INSERT OVERWRITE p SELECT a + 20, v, k FROM q WHERE k > ''",
    "INSERT OVERWRITE, static": "INSERT OVERWRITE p PARTITION (k = '1') VALUES (9, 'o')",
    "multi-table INSERT": "FROM (SELECT * FROM b) s INSERT INTO p SELECT a, v, k "
    "INSERT OVERWRITE TABLE q SELECT a, v, 'm'",
    "UPDATE": "UPDATE p SET v = 'u' WHERE a > 1",
    "DELETE": "DELETE FROM b WHERE a < 3",
    "MERGE": "MERGE INTO p USING q AS s ON p.a = s.a + 1 WHEN MATCHED AND p.a = 2 THEN DELETE WHEN MATCHED THEN "
    "UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.a + 30, s.v, s.k)",
    "TRUNCATE": "TRUNCATE TABLE p",
    "TRUNCATE a partition": "TRUNCATE TABLE p PARTITION (k = '1')",
    "LOAD DATA": "LOAD DATA INPATH '{root}/load' INTO TABLE p PARTITION (k = 'l')",
    "LOAD DATA OVERWRITE": "LOAD DATA INPATH '{root}/load' OVERWRITE INTO TABLE p PARTITION (k = '1')",
    "CREATE TABLE AS SELECT": "CREATE TABLE made PARTITIONED BY (k) AS SELECT a, v, k FROM p",
    "REPLACE TABLE AS SELECT": "REPLACE TABLE q PARTITIONED BY (k) AS SELECT a + 40 AS a, v, k FROM q",
    "RENAME PARTITION": "ALTER TABLE p PARTITION (k = '1') RENAME TO PARTITION (k = 'z/z')",
    "DROP PARTITION": "ALTER TABLE p DROP PARTITION (k = '1')",
    "REPLACE COLUMNS": "ALTER TABLE p REPLACE COLUMNS (a bigint, w string)",
}
IN_TRANSACTIONS = ("INSERT VALUES", "INSERT OVERWRITE, dynamic", "UPDATE", "TRUNCATE a partition", "LOAD DATA")


def prepared(warehouse: Opened, name: str) -> str:
    if name.startswith("LOAD"):
        folder = warehouse.root / "load"
        folder.mkdir(exist_ok=True)
        orc.write_table(pa.table({"a": pa.array([5], pa.int32()), "v": ["l"]}), str(folder / "f.orc"))
    return STATEMENTS[name].format(root=warehouse.root)


def steps(name: str) -> range:
    """The steps of a statement that are tried: the first one differs, so that all kinds of steps have their turn."""
    return range((len(name) + evidence.SEED) % _STRIDE, 400, _STRIDE)


def attempt(session: Session, statement: str) -> HivexError | None:
    """The error that a statement ends with, if it does."""
    try:
        session.sql(statement)
    except HivexError as error:
        return error
    return None


def is_quiet(metastore: Metastore) -> bool:
    return not metastore.locks.show() and not metastore.transactions.valid_txns().open_ids


@contextmanager
def reporting(name: str, faults: Faults) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"{name}, fault at step {faults.at}: {faults.seen}")
        raise


@pytest.mark.timeout(600)
@pytest.mark.evidence(cases=4)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_failed_step_of_files_leaves_all_as_it_was(warehouse: Opened, faults: Faults, name: str) -> None:
    statement = prepared(warehouse, name)
    held, tree = warehouse.held(), warehouse.tree()
    for at in steps(name):
        faults.begin(at, lasts=bool(at % 3))
        with reporting(name, faults):
            error = attempt(warehouse.session, statement)
            assert (error is not None) == faults.is_done, error or "a failed step was not noticed"
            if error is None:
                break
            faults.begin(None)
            assert is_quiet(warehouse.metastore)
            assert warehouse.tree() == tree
            assert warehouse.held() == held
    else:
        pytest.fail("it has no end of steps")
    faults.begin(None)
    assert warehouse.rows() != FIRST
    assert is_quiet(warehouse.metastore)


@pytest.mark.timeout(600)
@pytest.mark.evidence(cases=2)
@pytest.mark.parametrize(
    "name", ["INSERT VALUES", "multi-table INSERT", "UPDATE", "TRUNCATE", "CREATE TABLE AS SELECT", "RENAME PARTITION"]
)
def test_a_database_that_fails_at_a_step_leaves_all_as_it_was(
    warehouse: Opened, faults: Faults, later: Metastore, name: str
) -> None:
    statement = prepared(warehouse, name)
    held, tree = warehouse.held(), warehouse.tree()
    for at in steps(name):
        faults.begin(at, of_database=True)
        with reporting(name, faults):
            error = attempt(warehouse.session, statement)
            assert error is None or faults.is_done, error
            if not faults.is_done:
                break
            seen = faults.seen[at]
            faults.begin(None)
            if not is_quiet(warehouse.metastore):
                # The owner is not known; it will time out.
                assert seen.startswith("after"), "it was not aborted"
                later.housekeeper.run()
            assert is_quiet(warehouse.metastore)
            if error is None or isinstance(error, CommitOutcomeUnknownError) or seen == "after commit":
                # It counts, as after a fault behind its commit: the next one begins from there.
                assert warehouse.rows() != FIRST
                break
            assert warehouse.tree() == tree
            assert warehouse.held() == held
    else:
        pytest.fail("it has no end of steps")


@pytest.mark.evidence(cases=4)
@pytest.mark.parametrize("name", STATEMENTS)
def test_an_interrupt_after_the_commit_takes_nothing_back(warehouse: Opened, faults: Faults, name: str) -> None:
    statement = prepared(warehouse, name)
    held = warehouse.held()
    faults.interrupted = "after commit"
    with pytest.raises(KeyboardInterrupt):
        warehouse.session.sql(statement)
    assert is_quiet(warehouse.metastore)
    assert warehouse.held() != held
    # Its files are there.
    warehouse.rows()


@pytest.mark.timeout(600)
@pytest.mark.evidence(cases=4)
@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_those_before_or_after_a_statement_whose_process_dies_at_a_step(
    warehouse: Opened, faults: Faults, later: Metastore, name: str
) -> None:
    statement = prepared(warehouse, name)
    held = warehouse.held()
    for at in steps(name):
        # Never closed: the process is gone.
        session = warehouse.metastore.session()
        faults.begin(at, dies=True)
        died = False
        with reporting(name, faults):
            try:
                session.sql(statement)
            except Dead:
                died = True
            assert died == faults.is_done, "something went on after the end"
            committed = "after commit" in faults.seen[: at + 1]
            faults.begin(None)
            later.housekeeper.run()
            assert is_quiet(warehouse.metastore)
            if not died or committed:
                break
            assert warehouse.held() == held
    # The leftovers of dead processes are in no one's way.
    warehouse.session.sql("INSERT INTO q VALUES (99, 'x', '1')")
    found = warehouse.rows()
    found["q"].remove((99, "x", "1"))
    assert found != FIRST


@pytest.mark.timeout(600)
@pytest.mark.parametrize("of_database", [False], ids=["files"])
def test_a_failed_step_in_a_transaction_leaves_the_statements_before_it(
    warehouse: Opened, faults: Faults, later: Metastore, of_database: bool
) -> None:
    # What was noted without an answer stays noted until the transaction ends.
    faults.loses_answers = False
    first = warehouse.tree()
    session = warehouse.session
    for name in IN_TRANSACTIONS:
        statement = prepared(warehouse, name)
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO p SELECT a + 50, v, k FROM q")
        held, tree = warehouse.held(), warehouse.tree()
        for at in steps(name):
            faults.begin(at, lasts=bool(at % 3) and not of_database, of_database=of_database)
            with reporting(name, faults):
                error = attempt(session, statement)
                assert error is None or faults.is_done, error
                if not faults.is_done:
                    break
                assert error is not None, "a failed step was not noticed"
                faults.begin(None)
                assert warehouse.tree() == tree
                assert warehouse.held() == held
        faults.begin(0, of_database=True)
        assert warehouse.tree() != tree
        with pytest.raises(StoreUnavailableError):
            session.sql("COMMIT" if name == "UPDATE" else "ROLLBACK")
        faults.begin(None)
        if name == "UPDATE":
            assert session.txn_id is not None
        if session.txn_id is not None:
            session.sql("ROLLBACK")
        else:
            later.housekeeper.run()
        assert is_quiet(warehouse.metastore)
        assert warehouse.rows() == FIRST
        assert {each for each in warehouse.tree() if not each.startswith("load")} == first
