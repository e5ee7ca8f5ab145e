"""Every kind of exception, out of every adapter, at every step: one of our errors, and nothing is left open.

``make evidence``, or ``HIVEX_EVERY_FAULT=1``, tries each kind at each step; ``make test`` a share.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from py4j.protocol import Py4JNetworkError
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, ResourceClosedError

import airflow_hivex.core.job.values
import airflow_hivex.core.session
from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.runners.local import LocalRunner
from tests import evidence
from tests.acceptance.faults import DELETING, OF_FILES

if TYPE_CHECKING:
    from tests.conftest import Counts

pytestmark = pytest.mark.evidence

_EVERY = evidence.does_all("HIVEX_EVERY_FAULT")
_SHARE = 12
"""How many faults of each list of statements are tried."""

_ODD = "odd \0 \ud800 text\nof lines"


class Alarm(BaseException):
    """As a time-out of a task raises it, in a signal's handler."""


KINDS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError(_ODD),
    "TypeError": lambda: TypeError(_ODD),
    "KeyError": lambda: KeyError("x"),
    "AssertionError": AssertionError,
    "OSError": lambda: OSError(5, "Input/output error", "x"),
    "TimeoutError": TimeoutError,
    "UnicodeError": lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    "OverflowError": lambda: OverflowError("int too large"),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "MemoryError": MemoryError,
    "StopIteration": StopIteration,
    "sqlite3": lambda: sqlite3.OperationalError("disk I/O error"),
    "sqlite3, of an interface": lambda: sqlite3.InterfaceError("bad parameter"),
    "psycopg": lambda: psycopg.DataError(_ODD),
    "psycopg, lost": lambda: psycopg.OperationalError("the connection is lost"),
    "SQLAlchemy": lambda: DBAPIError(_ODD, {}, Exception(_ODD)),
    "SQLAlchemy's own": lambda: ResourceClosedError("This Connection is closed"),
    "py4j": lambda: Py4JNetworkError("Answer from Java side is empty"),
    "ours": lambda: HivexError("it fails"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(1),
    "Alarm": Alarm,
}


@dataclass
class Thrower:
    """Throws what ``kind`` makes at the step of this number; those of other threads do not count."""

    at: int | None = None
    kind: str = ""
    seen: list[str] = field(default_factory=list)

    def begin(self, at: int | None, kind: str = "") -> None:
        self.at, self.kind, self.seen = at, kind, []

    def step(self, name: str) -> None:
        if self.at is None or threading.current_thread().name.startswith(("hivex-heartbeat", "hivex-cache-follower")):
            return
        self.seen.append(name)
        if len(self.seen) - 1 == self.at:
            raise KINDS[self.kind]()

    @property
    def is_done(self) -> bool:
        return self.at is not None and len(self.seen) > self.at


@pytest.fixture
def thrower(monkeypatch: pytest.MonkeyPatch) -> Thrower:
    """Steps of files, Spark, the database and the reader."""
    found = Thrower()
    adapters: list[tuple[Any, tuple[str, ...]]] = [
        *OF_FILES,
        *DELETING,
        (LocalRunner, ("run",)),
        (airflow_hivex.core.job.values, ("write_rows",)),
        (airflow_hivex.core.session, ("read",)),
    ]
    for owner, names in adapters:
        for name in names:
            monkeypatch.setattr(owner, name, _throwing(found, f"{owner.__name__}.{name}", getattr(owner, name)))
    return found


def _throwing(thrower: Thrower, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        thrower.step(step)
        result = function(*given, **named)
        thrower.step(f"{step}, done")
        return result

    return call


@pytest.fixture
def metastore(metastore_url: str, tmp_path: Path, thrower: Thrower) -> Iterator[Metastore]:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(metastore_url, clusters=clusters, fault=thrower.step) as metastore:
        # Each use of the database begins with this; the metastore reports the steps before and after its commit.
        event.listen(metastore.services.store.engine, "checkout", lambda *_: thrower.step("database"))
        with metastore.session() as session:
            session.sql("CREATE TABLE p (a int, v string) PARTITIONED BY (k string)")
            session.sql("CREATE TABLE t (a int)")
            session.sql("INSERT INTO p VALUES (1, 'x', '1'), (2, 'y', '2')")
        yield metastore


def settled(metastore: Metastore) -> bool:
    return not metastore.transactions.valid_txns().open_ids and not metastore.locks.show()


def throw(metastore: Metastore, thrower: Thrower, statements: list[str], at: int, kind: str) -> bool:
    """Run statements with a fault at a step, look at what is left, and return whether the step has come."""
    raised: BaseException | None
    thrown, raised = KINDS[kind](), None
    try:
        with metastore.session() as session:
            thrower.begin(at, kind)
            try:
                for statement in statements:
                    session.sql(statement)
            except BaseException as error:
                raised = error
            came = thrower.is_done
            thrower.at = None
        # Of what asks the process to end nothing else is made. Some steps may fail unnoticed.
        expected_error = HivexError if isinstance(thrown, Exception) else type(thrown)
        assert came or raised is None
        assert raised is None or isinstance(raised, expected_error)
        str(raised).encode()
        assert settled(metastore)
        with metastore.session() as other:
            other.sql("DROP TABLE IF EXISTS d")
            other.sql("INSERT INTO t VALUES (1)")
    except BaseException as error:
        error.add_note(f"{kind} at step {at} of {statements}: {thrower.seen[-3:]}")
        raise
    return came


STATEMENTS = {
    "INSERT": ["INSERT INTO p VALUES (7, 'n', '1'), (8, 'n', 'new')"],
    "INSERT OVERWRITE": ["INSERT OVERWRITE p PARTITION (k = '1') VALUES (9, 'o')"],
    "TRUNCATE": ["TRUNCATE TABLE p PARTITION (k = '2')"],
    "definitions": [
        "CREATE TABLE IF NOT EXISTS d (a int) PARTITIONED BY (k string)",
        "ALTER TABLE d ADD IF NOT EXISTS PARTITION (k = '1')",
        "ALTER TABLE d SET TBLPROPERTIES ('x' = 'y')",
        "ALTER TABLE d PARTITION (k = '1') RENAME TO PARTITION (k = '2')",
        "ALTER TABLE d DROP IF EXISTS PARTITION (k = '2')",
        "DROP TABLE d",
    ],
    "a transaction": ["START TRANSACTION", "INSERT INTO p VALUES (7, 'n', '1')", "INSERT INTO t VALUES (5)", "COMMIT"],
    "a transaction that is rolled back": ["START TRANSACTION", "INSERT INTO t VALUES (5)", "ROLLBACK"],
    "one that is left": ["START TRANSACTION", "INSERT INTO p VALUES (7, 'n', '3')"],
    "looking": ["SHOW TABLES", "DESCRIBE p", "SHOW PARTITIONS p", "EXPLAIN ROUTE SELECT * FROM p", "SHOW LOCKS"],
}


@pytest.mark.timeout(1800 if _EVERY else 240)
@pytest.mark.parametrize("name", STATEMENTS)
def test_any_exception_at_any_step_is_raised_as_ours_and_settles_all(
    metastore: Metastore, thrower: Thrower, counts: Counts, name: str
) -> None:
    counts["exceptions out of adapters"] = {"faults": _try(metastore, thrower, STATEMENTS[name], name)}


@pytest.mark.spark
@pytest.mark.timeout(1800 if _EVERY else 240)
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM p", "UPDATE p SET v = 'u' WHERE a > 1", "CREATE TABLE IF NOT EXISTS made AS SELECT a, v, k FROM p"],
)
def test_any_exception_at_any_step_of_a_job(
    metastore: Metastore, thrower: Thrower, counts: Counts, statement: str
) -> None:
    found = _try(metastore, thrower, [statement], statement, share=8)
    counts["exceptions out of adapters, with Spark"] = {"faults": found}


def _try(metastore: Metastore, thrower: Thrower, statements: list[str], name: str, share: int = _SHARE) -> int:
    # How many steps there are, none of which fails.
    assert throw(metastore, thrower, statements, 10_000, "ours") is False
    thrower.begin(10_000, "ours")
    with metastore.session() as session:
        for statement in statements:
            session.sql(statement)
    count = len(thrower.seen)
    thrower.begin(None)
    faults = [(at, kind) for at in range(count) for kind in KINDS]
    if not _EVERY:
        faults = random.Random(f"{evidence.SEED} {name}").sample(faults, min(share, len(faults)))
    for at, kind in faults:
        throw(metastore, thrower, statements, at, kind)
    return len(faults)
