"""Round trips to PostgreSQL of each statement, and its seconds with a database that is 0, 5 and 20 ms away.

A proxy before the server counts how often a client speaks after the server, on each connection, and delays these round
trips. A statement was run before it is measured, so that its connections and its prepared statements are there. Eight
clients are threads of one process with a session and tables of their own; only statements without a job of Spark are
measured with them.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from airflow_hivex.core import Metastore, Session
from tests.postgresql import start_durable_postgresql
from tests.postgresql_proxy import CountingProxy, described

CLIENTS = 8
DELAYS_MS = (0, 5, 20)
ROUNDS = 3
VERBOSE = "HIVEX_BENCH_VERBOSE" in os.environ
"""Whether the statements of each round trip are printed, too."""

Work: TypeAlias = Callable[["Client"], object]


@dataclass(frozen=True, slots=True)
class Trips:
    """One line of the report: the round trips of a statement, and its seconds by the delay in milliseconds."""

    name: str
    round_trips: int
    goal: int
    seconds: Mapping[int, float]
    seconds_of_eight: Mapping[int, float] | None

    @property
    def reached(self) -> bool:
        return self.round_trips <= self.goal

    @classmethod
    def headings(cls) -> tuple[str, ...]:
        return (
            "measured",
            "round trips",
            "goal",
            *(f"{delay} ms: s" for delay in DELAYS_MS),
            *(f"{CLIENTS} clients, {delay} ms: s" for delay in DELAYS_MS),
            "",
        )

    def cells(self) -> tuple[str, ...]:
        eight = self.seconds_of_eight or {}
        return (
            self.name,
            str(self.round_trips),
            str(self.goal),
            *(f"{self.seconds[delay]:.3f}" for delay in DELAYS_MS),
            *(f"{eight[delay]:.3f}" if eight else "" for delay in DELAYS_MS),
            "reached" if self.reached else "missed",
        )


class Client:
    """A session with tables of its own."""

    def __init__(self, url: str, clusters: Mapping[str, Mapping[str, str]], number: int) -> None:
        self._url, self._clusters, self._number = url, clusters, number
        self.metastore = self.open()
        self.session: Session = self.metastore.session(user="bench")

    def open(self) -> Metastore:
        return Metastore.open(self._url, clusters=self._clusters, default_cluster="c1")

    def sql(self, *texts: str) -> None:
        """Run statements; ``$`` in a name is the number of the client."""
        for text in texts:
            self.session.sql(text.replace("$", str(self._number)))

    def prepare(self) -> None:
        """Make the tables that the statements read and change."""
        self.sql(
            "CREATE TABLE t$ (id INT, v STRING)",
            "CREATE TABLE p$ (id INT) PARTITIONED BY (d STRING)",
            "CREATE TABLE r$ (id INT)",
            "CREATE VIEW v$ AS SELECT * FROM t$",
            "INSERT INTO t$ VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO p$ PARTITION (d = 'x') VALUES (1)",
            "INSERT INTO r$ VALUES (1)",
            "REPLICATE TABLE r$ TO CLUSTER c2",
        )

    def close(self) -> None:
        self.session.close()
        self.metastore.close()


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, or a piece of work, what is run before it and after it, and the goal for its round trips."""

    name: str
    goal: int
    work: str | Work
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    has_job: bool = False
    of_all: bool = False
    """Whether it works for all tables, so that only one client runs it at a time."""

    def seconds(self, client: Client, proxy: CountingProxy, trips: list[list[list[str]]] | None = None) -> float:
        """Return the seconds of the work alone; its round trips are added to ``trips``."""
        client.sql(*self.before)
        with proxy.counted() as counted:
            started = time.perf_counter()
            if isinstance(self.work, str):
                client.sql(self.work)
            else:
                self.work(client)
            elapsed = time.perf_counter() - started
        if trips is not None:
            trips.append(counted)
        client.sql(*self.after)
        return elapsed


def _open(client: Client) -> None:
    client.open().close()


_ROW = "INSERT INTO t$ VALUES (9, 'z')"
CASES = (
    Case("open an existing metastore", 3, _open),
    Case("SELECT", 3, "SELECT * FROM t$", has_job=True),
    Case("SELECT with a join", 3, "SELECT * FROM t$ JOIN p$ USING (id)", has_job=True),
    Case("SELECT of a view", 3, "SELECT * FROM v$", has_job=True),
    Case("INSERT VALUES", 5, _ROW),
    Case("INSERT VALUES into partitions", 5, "INSERT INTO p$ PARTITION (d) VALUES (1, 'x'), (2, 'y')"),
    Case("INSERT SELECT", 6, "INSERT INTO t$ SELECT id, d FROM p$", has_job=True),
    Case("UPDATE", 7, "UPDATE t$ SET v = 'c' WHERE id = 1", has_job=True),
    Case("DELETE", 7, "DELETE FROM t$ WHERE id = 9", before=(_ROW,), has_job=True),
    Case("CREATE TABLE", 6, "CREATE TABLE n$ (id INT, v STRING)", after=("DROP TABLE n$",)),
    Case("CREATE VIEW", 6, "CREATE VIEW w$ AS SELECT * FROM t$", after=("DROP VIEW w$",)),
    Case("CREATE TABLE AS SELECT", 10, "CREATE TABLE n$ AS SELECT * FROM t$", after=("DROP TABLE n$",), has_job=True),
    Case("DROP TABLE", 8, "DROP TABLE n$", before=("CREATE TABLE n$ (id INT)", "INSERT INTO n$ VALUES (1)")),
    Case("ALTER TABLE SET TBLPROPERTIES", 6, "ALTER TABLE t$ SET TBLPROPERTIES ('x' = '1')"),
    Case(
        "ALTER TABLE ADD PARTITION",
        6,
        "ALTER TABLE p$ ADD PARTITION (d = 'z')",
        after=("ALTER TABLE p$ DROP PARTITION (d = 'z')",),
    ),
    Case("START TRANSACTION", 1, "START TRANSACTION", after=("ROLLBACK",)),
    Case(
        "SELECT in a transaction",
        3,
        "SELECT * FROM t$",
        before=("START TRANSACTION", "SELECT * FROM t$"),
        after=("ROLLBACK",),
        has_job=True,
    ),
    Case("INSERT VALUES in it", 5, _ROW, before=("START TRANSACTION", _ROW), after=("ROLLBACK",)),
    Case("COMMIT of two INSERTs", 4, "COMMIT", before=("START TRANSACTION", _ROW, _ROW)),
    Case("REPLICATE TABLE, nothing to do", 6, "REPLICATE TABLE r$ TO CLUSTER c2"),
    Case("REPLICATE TABLE, one delta", 15, "REPLICATE TABLE r$ TO CLUSTER c2", before=("INSERT INTO r$ VALUES (1)",)),
    Case("SHOW TABLES", 1, "SHOW TABLES"),
    Case("compaction, request", 4, "ALTER TABLE t$ COMPACT 'major'", before=(_ROW,), of_all=True),
    Case(
        "compaction, work",
        12,
        lambda client: client.metastore.compactor.work(),
        before=(_ROW, _ROW, "ALTER TABLE t$ COMPACT 'major'"),
        has_job=True,
    ),
    Case("compaction, clean", 8, lambda client: client.metastore.compactor.clean(), of_all=True),
    Case("housekeeping, nothing to do", 12, lambda client: client.metastore.housekeeper.run(), of_all=True),
)


def run(folder: Path) -> list[Trips]:
    """Lines for all statements."""
    clusters = {name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    for name in clusters:
        (folder / name).mkdir()
    server = start_durable_postgresql()
    try:
        with CountingProxy(server.create_database()) as proxy:
            Metastore.open(proxy.url, clusters=clusters, default_cluster="c1").close()
            clients = [Client(proxy.url, clusters, 0)]
            try:
                clients[0].prepare()
                # Counted before the others are there: their caches also ask the server now and then.
                counts = {case.name: _counted(case, clients[0], proxy) for case in CASES}
                clients += [Client(proxy.url, clusters, number) for number in range(1, CLIENTS)]
                for client in clients[1:]:
                    client.prepare()
                return [_measured(case, clients, proxy, counts[case.name]) for case in CASES]
            finally:
                for client in clients:
                    client.close()
    finally:
        server.stop()


def _counted(case: Case, client: Client, proxy: CountingProxy) -> int:
    """Return the fewest round trips of a few rounds."""
    case.seconds(client, proxy)
    trips: list[list[list[str]]] = []
    for _ in range(ROUNDS):
        case.seconds(client, proxy, trips)
    fewest = min(trips, key=len)
    print(f"{case.name}: {len(fewest)} round trips, goal {case.goal}", file=sys.stderr, flush=True)
    if VERBOSE:
        print(described(fewest), file=sys.stderr, flush=True)
    return len(fewest)


def _measured(case: Case, clients: Sequence[Client], proxy: CountingProxy, round_trips: int) -> Trips:
    seconds, of_eight = {}, {}
    for delay in DELAYS_MS:
        proxy.delay_s = delay / 1000
        seconds[delay] = round(statistics.median(case.seconds(clients[0], proxy) for _ in range(ROUNDS)), 4)
        if not case.has_job and not case.of_all:
            of_eight[delay] = _of_all(case, clients, proxy)
    proxy.delay_s = 0
    return Trips(case.name, round_trips, case.goal, seconds, of_eight or None)


def _of_all(case: Case, clients: Sequence[Client], proxy: CountingProxy) -> float:
    """Return the median seconds of all clients that run a statement at once, each in a thread."""
    together = threading.Barrier(len(clients))

    def run(client: Client) -> list[float]:
        together.wait()
        return [case.seconds(client, proxy) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(len(clients)) as pool:
        return round(statistics.median(elapsed for each in pool.map(run, clients) for elapsed in each), 4)
