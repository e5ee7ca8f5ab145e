"""The anomaly matrix: what interleaved transactions can do to each other.

The scenarios are those of Hermitage (https://github.com/ept/hermitage). A partition is a row of
theirs, INSERT OVERWRITE of the partition its update. What happened is put into a word, and held
against ``MATRIX``, which is also what docs/transactions.md publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import DeadlockError, TransactionAbortedError, WriteConflictError
from airflow_hivex.core.model.locks import LockState

if TYPE_CHECKING:
    from tests.conftest import Counts
    from tests.postgresql import PostgresqlServer

ALLOWED, SNAPSHOT, WAIT, RESTART, CONFLICT, DEADLOCK = (
    "allowed",
    "prevented: snapshot",
    "prevented: lock wait",
    "prevented: lock wait, then restart",
    "prevented: write conflict",
    "prevented: deadlock, one is aborted",
)
DATABASES = ("SQLite", "PostgreSQL")
EXCLUSIVE, SHARED = "exclusive overwrites", "hive.txn.xlock.iow = false"
MODES: dict[str, dict[str, object]] = {EXCLUSIVE: {}, SHARED: {"hive.txn.xlock.iow": False}}

# By anomaly, what prevents it with exclusive overwrites, which is the default, and without; both databases alike.
MATRIX = {
    "G0 dirty write": (CONFLICT, CONFLICT),
    "G1a aborted read": (WAIT, SNAPSHOT),
    "G1b intermediate read": (WAIT, SNAPSHOT),
    "G1c circular information flow": (DEADLOCK, SNAPSHOT),
    "OTV observed transaction vanishes": (CONFLICT, CONFLICT),
    "PMP predicate-many-preceders": (SNAPSHOT, SNAPSHOT),
    "PMP of a write": (CONFLICT, CONFLICT),
    "P4 lost update": (DEADLOCK, CONFLICT),
    "P4 lost update of a single statement": (RESTART, RESTART),
    "P4 lost insert": (CONFLICT, CONFLICT),
    "P4 lost insert that was not committed yet": (WAIT, ALLOWED),
    "G-single read skew": (WAIT, SNAPSHOT),
    "G-single read skew of a predicate": (WAIT, SNAPSHOT),
    "G-single read skew of a write": (CONFLICT, CONFLICT),
    "G2-item write skew": (DEADLOCK, ALLOWED),
    "G2 anti-dependency cycle": (ALLOWED, ALLOWED),
    "Fractured read of two tables": (SNAPSHOT, SNAPSHOT),
    "Fractured read over two clusters": (SNAPSHOT, SNAPSHOT),
}

START, COMMIT, ROLLBACK = "START TRANSACTION", "COMMIT", "ROLLBACK"
READ_ALL = "SELECT k, value FROM t"
BEGIN_BOTH = (("T1", START), ("T2", START))


def read(k: int) -> str:
    return f"SELECT value FROM t WHERE k = {k}"


def read_where(condition: str) -> str:
    return f"SELECT k, value FROM t WHERE {condition}"


def write(k: int, value: int) -> str:
    return f"INSERT OVERWRITE t PARTITION (k = {k}) VALUES ({value})"


def compute(k: int, expression: str) -> str:
    return f"INSERT OVERWRITE t PARTITION (k = {k}) SELECT {expression} FROM t WHERE k = {k}"


def append(k: int, value: int) -> str:
    return f"INSERT INTO t PARTITION (k = {k}) VALUES ({value})"


# -- what happens ------------------------------------------------------------------------


@dataclass
class History:
    """What the sessions of a scenario saw and did."""

    reads: dict[str, list[list[tuple[object, ...]]]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    errors: dict[str, TransactionAbortedError] = field(default_factory=dict)
    waited: dict[str, set[int]] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    final: list[tuple[object, ...]] = field(default_factory=list)

    def values(self, name: str) -> set[object]:
        """All values that a session has seen."""
        return {row[-1] for rows in self.reads.get(name, []) for row in rows}

    def prevented_by(self) -> str:
        """What came in the way; nothing but what each one saw, if no session waited."""
        kinds = {type(error) for error in self.errors.values()}
        if DeadlockError in kinds:
            return DEADLOCK
        if WriteConflictError in kinds:
            return CONFLICT
        if any(self.waited[name] - {self.transactions[name]} for name in self.waited):
            return RESTART
        return WAIT if self.waited else SNAPSHOT


@dataclass(frozen=True)
class Scenario:
    """Steps of sessions in the order in which they are tried, and what would be the anomaly.

    A session that waits for a lock takes its later steps once it goes on; one whose transaction
    was aborted takes none.
    """

    steps: Sequence[tuple[str, str]]
    anomaly: Callable[[History], bool]
    setup: Sequence[str] = (
        "CREATE TABLE t (value int) PARTITIONED BY (k int)",
        "INSERT INTO t VALUES (10, 1), (20, 2)",
    )
    results: Sequence[str] = (READ_ALL,)


TWO_TABLES = ("CREATE TABLE a (value int)", "CREATE TABLE b (value int)")
TWO_CLUSTERS = (
    "CREATE TABLE a (value int) TBLPROPERTIES ('hivex.cluster' = 'c1')",
    "CREATE TABLE b (value int) TBLPROPERTIES ('hivex.cluster' = 'c2')",
)
READ_BOTH = ("SELECT value FROM a", "SELECT value FROM b")
FRACTURED_STEPS = (
    *BEGIN_BOTH,
    ("T1", "INSERT INTO a VALUES (1)"),
    ("T2", READ_BOTH[0]),
    ("T1", "INSERT INTO b VALUES (1)"),
    ("T1", COMMIT),
    ("T2", READ_BOTH[1]),
    ("T2", COMMIT),
)


def is_fractured(history: History) -> bool:
    """A reader saw one table without the other."""
    return history.reads["T2"][0] != history.reads["T2"][1] or history.final != [(1,), (1,)]


SCENARIOS = {
    "G0 dirty write": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", write(1, 11)),
            ("T2", write(1, 12)),
            ("T1", write(2, 21)),
            ("T1", COMMIT),
            ("T2", write(2, 22)),
            ("T2", COMMIT),
        ),
        lambda history: history.final not in ([(1, 11), (2, 21)], [(1, 12), (2, 22)]),
    ),
    "G1a aborted read": Scenario(
        (*BEGIN_BOTH, ("T1", write(1, 101)), ("T2", READ_ALL), ("T1", ROLLBACK), ("T2", READ_ALL), ("T2", COMMIT)),
        lambda history: 101 in history.values("T2"),
    ),
    "G1b intermediate read": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", append(1, 101)),
            ("T2", READ_ALL),
            ("T1", write(1, 11)),
            ("T2", READ_ALL),
            ("T2", COMMIT),
            ("T1", COMMIT),
        ),
        lambda history: 101 in history.values("T2"),
    ),
    "G1c circular information flow": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", write(1, 11)),
            ("T2", write(2, 22)),
            ("T1", read(2)),
            ("T2", read(1)),
            ("T1", COMMIT),
            ("T2", COMMIT),
        ),
        lambda history: 22 in history.values("T1") or 11 in history.values("T2"),
    ),
    "OTV observed transaction vanishes": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", write(1, 11)),
            ("T1", write(2, 19)),
            ("T2", write(1, 12)),
            ("T1", COMMIT),
            ("T3", START),
            ("T3", read(1)),
            ("T2", write(2, 18)),
            ("T3", read(2)),
            ("T2", COMMIT),
            ("T3", READ_ALL),
            ("T3", COMMIT),
        ),
        lambda history: history.values("T3") not in ({11, 19}, {12, 18}),
    ),
    "PMP predicate-many-preceders": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read_where("value = 30")),
            ("T2", append(3, 30)),
            ("T2", COMMIT),
            ("T1", read_where("value % 3 = 0")),
            ("T1", COMMIT),
        ),
        lambda history: 30 in history.values("T1"),
    ),
    "PMP of a write": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", "INSERT OVERWRITE t PARTITION (k) SELECT value + 10, k FROM t"),
            ("T2", compute(2, "if(value = 20, 40, value)")),
            ("T1", COMMIT),
            ("T2", COMMIT),
        ),
        lambda history: history.final not in ([(1, 20), (2, 30)], [(1, 20), (2, 50)]),
    ),
    "P4 lost update": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read(1)),
            ("T2", read(1)),
            ("T1", write(1, 11)),
            ("T2", write(1, 12)),
            ("T1", COMMIT),
            ("T2", COMMIT),
        ),
        lambda history: history.committed == {"T1", "T2"},
    ),
    "P4 lost update of a single statement": Scenario(
        (("T1", START), ("T1", compute(1, "value + 1")), ("T2", compute(1, "value + 1")), ("T1", COMMIT)),
        lambda history: history.final != [(1, 12), (2, 20)],
    ),
    "P4 lost insert": Scenario(
        (("T1", START), ("T1", read(2)), ("T2", append(1, 5)), ("T1", compute(1, "value + 1")), ("T1", COMMIT)),
        lambda history: not {5, 6} & {row[-1] for row in history.final},
    ),
    "P4 lost insert that was not committed yet": Scenario(
        (("T2", START), ("T2", append(1, 5)), ("T1", compute(1, "value + 1")), ("T2", COMMIT)),
        lambda history: not {5, 6} & {row[-1] for row in history.final},
    ),
    "G-single read skew": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read(1)),
            ("T2", write(1, 12)),
            ("T2", write(2, 18)),
            ("T2", COMMIT),
            ("T1", read(2)),
            ("T1", COMMIT),
        ),
        lambda history: history.values("T1") != {10, 20},
    ),
    "G-single read skew of a predicate": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read_where("value % 5 = 0")),
            ("T2", write(1, 12)),
            ("T2", COMMIT),
            ("T1", read_where("value % 3 = 0")),
            ("T1", COMMIT),
        ),
        lambda history: 12 in history.values("T1"),
    ),
    "G-single read skew of a write": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read(1)),
            ("T2", write(1, 12)),
            ("T2", write(2, 18)),
            ("T2", COMMIT),
            ("T1", compute(2, "if(value = 20, 25, value)")),
            ("T1", COMMIT),
        ),
        # T1 has read 10, so that it comes before T2 if both commit.
        lambda history: (
            history.final != ([(1, 12), (2, 18)] if "T2" in history.committed else [(1, 10), (2, 25)])
            or not history.committed
        ),
    ),
    "G2-item write skew": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", READ_ALL),
            ("T2", READ_ALL),
            ("T1", write(1, 11)),
            ("T2", write(2, 21)),
            ("T1", COMMIT),
            ("T2", COMMIT),
        ),
        lambda history: history.committed == {"T1", "T2"},
    ),
    "G2 anti-dependency cycle": Scenario(
        (
            *BEGIN_BOTH,
            ("T1", read_where("value % 3 = 0")),
            ("T2", read_where("value % 3 = 0")),
            ("T1", append(3, 30)),
            ("T2", append(4, 42)),
            ("T1", COMMIT),
            ("T2", COMMIT),
        ),
        lambda history: history.committed == {"T1", "T2"},
    ),
    "Fractured read of two tables": Scenario(FRACTURED_STEPS, is_fractured, TWO_TABLES, READ_BOTH),
    "Fractured read over two clusters": Scenario(FRACTURED_STEPS, is_fractured, TWO_CLUSTERS, READ_BOTH),
}


# -- making it happen --------------------------------------------------------------------


class Player:
    """A session in a thread of its own, which takes its steps one after the other."""

    def __init__(self, metastore: Metastore, name: str, database: str, history: History) -> None:
        self.name = name
        self._metastore = metastore
        self._history = history
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._session: Session = self._pool.submit(metastore.session, name, database).result()
        self._in_transaction = False
        self._steps: list[Future[None]] = []

    def take(self, sql: str) -> None:
        """Try a step; it has been taken, or waits for a lock, when this returns."""
        self._steps.append(self._pool.submit(self._take, sql))
        self.settle()

    def _take(self, sql: str) -> None:
        if self.name in self._history.errors:
            return
        try:
            result = self._session.sql(sql)
        except (WriteConflictError, DeadlockError) as error:
            self._history.errors[self.name] = error
            return
        if result.txn_id is not None:
            self._history.transactions[self.name] = result.txn_id
        if sql.startswith("SELECT"):
            self._history.reads.setdefault(self.name, []).append(sorted(result.rows))
        self._in_transaction = sql == START or (self._in_transaction and sql not in (COMMIT, ROLLBACK))
        if not self._in_transaction and sql != ROLLBACK:
            self._history.committed.add(self.name)

    def settle(self) -> None:
        """Wait until all steps are taken, or one of them waits for a lock that another session still has."""
        while not self._waits():
            with suppress(TimeoutError):
                self._steps[-1].result(timeout=0.05)
                return

    def _waits(self) -> bool:
        locks = self._metastore.locks.show()
        present = {lock.lock_id for lock in locks}
        waiting = [lock for lock in locks if lock.user == self.name and lock.state is LockState.WAITING]
        self._history.waited.setdefault(self.name, set()).update(lock.txn_id for lock in waiting if lock.txn_id)
        if not self._history.waited[self.name]:
            del self._history.waited[self.name]
        return any(lock.blocked_by is not None and lock.blocked_by[0] in present for lock in waiting)

    def finish(self) -> None:
        """Take all steps to their end."""
        for step in self._steps:
            step.result(timeout=60)

    def close(self) -> None:
        """End the session, also in the middle of a step."""
        self._session.close()
        self._pool.shutdown()


def play(metastore: Metastore, scenario: Scenario, database: str) -> History:
    """What happens when the scenario's steps are tried in their order."""
    history = History()
    with metastore.session("setup") as session:
        session.sql(f"CREATE DATABASE {database}")
        session.sql(f"USE {database}")
        for sql in scenario.setup:
            session.sql(sql)
        players: dict[str, Player] = {}
        try:
            for name, sql in scenario.steps:
                if name not in players:
                    players[name] = Player(metastore, name, database, history)
                players[name].take(sql)
                for player in players.values():
                    player.settle()
            for player in players.values():
                player.finish()
        finally:
            for player in players.values():
                player.close()
        found = [sorted(session.sql(sql).rows) for sql in scenario.results]
        history.final = [row for rows in found for row in rows]
    return history


# -- the matrix --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=DATABASES)
def metastore_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a new, empty database."""
    if request.param == "SQLite":
        yield f"sqlite:///{tmp_path_factory.mktemp('anomalies') / 'metastore.db'}"
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="module")
def root(metastore_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clusters: those of a database stay where they are."""
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module", params=MODES)
def metastore(request: pytest.FixtureRequest, metastore_url: str, root: Path) -> Iterator[Metastore]:
    """An open metastore over two clusters, which all scenarios of a mode share."""
    clusters = {name: {"filesystem": (root / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    settings = MODES[request.param]
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        yield metastore


@pytest.mark.spark
@pytest.mark.evidence(cases=12)
@pytest.mark.parametrize("anomaly", SCENARIOS)
def test_transactions_do_to_each_other_what_is_published(
    request: pytest.FixtureRequest,
    metastore: Metastore,
    counts: Counts,
    anomaly: str,
) -> None:
    scenario = SCENARIOS[anomaly]
    parameters = request.node.callspec.params
    mode = list(MODES).index(parameters["metastore"])
    history = play(metastore, scenario, f"s{list(SCENARIOS).index(anomaly)}_{mode}")
    outcome = ALLOWED if scenario.anomaly(history) else history.prevented_by()
    assert outcome == MATRIX[anomaly][mode], history
    assert history.committed, history
    assert metastore.transactions.valid_txns().open_ids == ()
    assert metastore.locks.show() == []
    counts[f"anomaly matrix, {parameters['metastore_url']}"] = {"cells as published": 1, outcome: 1}


BOTH = {"T1", "T2"}
ANOMALIES = {
    "G0 dirty write": History(final=[(1, 11), (2, 22)]),
    "G1a aborted read": History(reads={"T2": [[(1, 101), (2, 20)], [(1, 10), (2, 20)]]}),
    "G1b intermediate read": History(reads={"T2": [[(1, 10), (1, 101), (2, 20)]]}),
    "G1c circular information flow": History(reads={"T1": [[(22,)]], "T2": [[(11,)]]}),
    "OTV observed transaction vanishes": History(reads={"T3": [[(11,)], [(18,)]]}),
    "PMP predicate-many-preceders": History(reads={"T1": [[], [(3, 30)]]}),
    "PMP of a write": History(committed=BOTH, final=[(1, 20), (2, 40)]),
    "P4 lost update": History(committed=BOTH, final=[(1, 12), (2, 20)]),
    "P4 lost update of a single statement": History(committed=BOTH, final=[(1, 11), (2, 20)]),
    "P4 lost insert": History(committed=BOTH, final=[(1, 11), (2, 20)]),
    "P4 lost insert that was not committed yet": History(committed=BOTH, final=[(1, 11), (2, 20)]),
    "G-single read skew": History(reads={"T1": [[(10,)], [(18,)]]}),
    "G-single read skew of a predicate": History(reads={"T1": [[(1, 10), (2, 20)], [(1, 12)]]}),
    "G-single read skew of a write": History(committed=BOTH, final=[(1, 12), (2, 25)]),
    "G2-item write skew": History(committed=BOTH, final=[(1, 11), (2, 21)]),
    "G2 anti-dependency cycle": History(committed=BOTH, final=[(1, 10), (2, 20), (3, 30), (4, 42)]),
    "Fractured read of two tables": History(reads={"T2": [[], [(1,)]]}, final=[(1,), (1,)]),
    "Fractured read over two clusters": History(reads={"T2": [[], [(1,)]]}, final=[(1,), (1,)]),
}


def test_anomaly_would_be_noticed() -> None:
    assert ANOMALIES.keys() == SCENARIOS.keys() == MATRIX.keys()
    for anomaly, history in ANOMALIES.items():
        assert SCENARIOS[anomaly].anomaly(history), anomaly


def test_matrix_is_the_published_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    (titles,) = (tuple(row[1:]) for row in rows if row[0] == "anomaly")
    assert titles == tuple(f"{database}, {mode}" for mode in ("default", "shared") for database in DATABASES)
    assert {row[0]: tuple(row[1:]) for row in rows if row[0] in MATRIX} == {
        anomaly: tuple(outcome for outcome in outcomes for _ in DATABASES) for anomaly, outcomes in MATRIX.items()
    }
