"""Transactions and locks per second, compared with a real Hive Metastore 2.3 on the same PostgreSQL server.

A transaction here is open, a write lock, a write id, commit: four calls. Hive 2.3 knows no write ids,
so there it is open, lock, commit. PostgreSQL flushes every commit to disk, as in production. Clients are
processes; each has tables of its own, as shared write locks wait for each other in Hive 2.3.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from benchmarks.harness import Figure, compare, interleave
from benchmarks.hive_metastore import connect, hive_metastore
from benchmarks.teams import Worker, case, team
from tests.postgresql import start_durable_postgresql

CLIENTS = 8
TABLES = 10
ROUNDS = 9
# The number in a round, of all clients together.
TRANSACTIONS = {1: 60, CLIENTS: 240}
CYCLES = {1: 120, CLIENTS: 480}
OTHER_LOCKS = (10, 10_000)
ACQUIRED = 50
SERVER_OPTIONS = ("fsync=on", "synchronous_commit=on", "shared_buffers=256MB", "max_connections=100")

# Nothing is read or written there.
CLUSTERS = {"c1": {"filesystem": "file:///nowhere", "jobtracker": "local[2]"}}

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def run(folder: Path) -> list[Figure]:
    """Figures for transactions and locks with 1 and 8 clients, and for locks among many others.

    In a network namespace of its own, because Hive's server listens on all addresses.
    """
    results = folder / "figures.json"
    alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    subprocess.run([*alone, sys.executable, "-m", "benchmarks.transactions", str(folder), str(results)], check=True)
    return [Figure(**figure) for figure in json.loads(results.read_text())]


def measure(folder: Path) -> list[Figure]:
    """:func:`run` where there is a loopback interface only."""
    with ExitStack() as stack:
        server = start_durable_postgresql(SERVER_OPTIONS)
        stack.callback(server.stop)
        urls = {"PostgreSQL": server.create_database(), "SQLite": f"sqlite:///{folder / 'metastore.db'}"}
        for url in urls.values():
            _prepare(url)
        port = stack.enter_context(hive_metastore(folder, server.create_database()))
        peer = "Hive 2.3, same PostgreSQL"
        teams = {name: stack.enter_context(team(HivexClient, url, CLIENTS)) for name, url in urls.items()}
        teams[peer] = stack.enter_context(team(HiveClient, port, CLIENTS))
        figures = []
        for work, counts in (("transactions", TRANSACTIONS), ("lock cycles", CYCLES)):
            for clients, count in counts.items():
                method, each = work.replace(" ", "_"), count // clients
                cases = {name: case(members[:clients], method, each) for name, members in teams.items()}
                seconds = interleave(cases, rounds=ROUNDS, warm_up=2)
                goal = 1 / 1.3 if clients == 1 else 1 / 2
                figures += [
                    compare(f"{work}, {clients} client(s), {name}", seconds, name, peer, goal=goal, count=count)
                    for name in urls
                ]
    with ExitStack() as stack:
        server = start_durable_postgresql(SERVER_OPTIONS)
        stack.callback(server.stop)
        for name in ("PostgreSQL", "SQLite"):
            figures.append(_beside_others(stack, name, folder, server.create_database))
    return figures


# -- the work of one client ----------------------------------------------------------------


class HivexClient(Worker):
    """A process's own metastore."""

    def __init__(self, url: str, number: int) -> None:
        self._metastore = Metastore.open(url, clusters=CLUSTERS)
        self._number = number
        self._random = random.Random(number)

    def transactions(self) -> None:
        transactions, table = self._metastore.transactions, self._table()
        (txn_id,) = transactions.open(user="bench")
        component = LockComponent("default", table, None, LockType.SHARED_WRITE, DataOperation.INSERT)
        assert self._metastore.locks.acquire([component], txn_id, user="bench").is_acquired
        transactions.allocate_write_ids([txn_id], "default", table)
        transactions.commit(txn_id)

    def lock_cycles(self) -> None:
        locks = self._metastore.locks
        component = LockComponent("default", self._table(), None, LockType.SHARED_READ, DataOperation.SELECT)
        response = locks.acquire([component], user="bench")
        assert response.is_acquired
        locks.unlock(response.lock_id)

    def _table(self) -> str:
        return _name(self._number, self._random.randrange(TABLES))


class HiveClient(Worker):
    """The same for Hive's server."""

    def __init__(self, port: int, number: int) -> None:
        self._client = connect(port)
        self._number = number
        self._random = random.Random(number)

    def transactions(self) -> None:
        from hive_metastore import ttypes

        (txn_id,) = self._client.open_txns(ttypes.OpenTxnRequest(1, "bench", "localhost")).txn_ids
        self._lock(txn_id, ttypes.LockType.SHARED_WRITE, ttypes.DataOperationType.INSERT)
        self._client.commit_txn(ttypes.CommitTxnRequest(txnid=txn_id))

    def lock_cycles(self) -> None:
        from hive_metastore import ttypes

        lock_id = self._lock(None, ttypes.LockType.SHARED_READ, ttypes.DataOperationType.SELECT)
        self._client.unlock(ttypes.UnlockRequest(lock_id))

    def _lock(self, txn_id: int | None, kind: int, operation: int) -> int:
        from hive_metastore import ttypes

        component = ttypes.LockComponent(
            kind,
            ttypes.LockLevel.TABLE,
            "default",
            tablename=_name(self._number, self._random.randrange(TABLES)),
            operationType=operation,
            isTransactional=True,
        )
        response = self._client.lock(ttypes.LockRequest([component], txn_id, "bench", "localhost", "bench"))
        assert response.state == ttypes.LockState.ACQUIRED
        return int(response.lockid)


# -- preparations --------------------------------------------------------------------------


def _prepare(url: str, clients: int = CLIENTS) -> None:
    with Metastore.open(url, clusters=CLUSTERS) as metastore:
        for client in range(clients):
            for number in range(TABLES):
                storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
                parameters = {"transactional": "true"}
                metastore.catalog.create_table(Table("default", _name(client, number), storage, parameters=parameters))


def _name(client: int, number: int) -> str:
    return f"t{client}_{number}"


def _beside_others(stack: ExitStack, name: str, folder: Path, create_database: Callable[[], str]) -> Figure:
    """Acquiring a lock while some others are held on other partitions, and some on the same table."""
    cases = {}
    for others in OTHER_LOCKS:
        url = create_database() if name == "PostgreSQL" else f"sqlite:///{folder / f'{others}.db'}"
        _prepare(url, clients=2)
        metastore = stack.enter_context(Metastore.open(url, clusters=CLUSTERS))
        for start in range(0, others, 500):
            components = [LockComponent("default", "t1_1", f"p={n}") for n in range(start, min(start + 500, others))]
            assert metastore.locks.acquire(components, user="other").is_acquired
        cases[str(others)] = _acquiring(metastore)
    seconds = interleave(cases, rounds=ROUNDS, warm_up=2)
    few, many = map(str, OTHER_LOCKS)
    return compare(f"acquire among {many} locks, {name}", seconds, many, few, goal=1.5, count=ACQUIRED)


def _acquiring(metastore: Metastore) -> Callable[[], float]:
    wanted = [LockComponent("default", "t0_1", None, LockType.SHARED_WRITE, DataOperation.INSERT)]

    def case() -> float:
        started = time.perf_counter()
        ids = [metastore.locks.acquire(wanted, user="bench").lock_id for _ in range(ACQUIRED)]
        elapsed = time.perf_counter() - started
        for lock_id in ids:
            metastore.locks.unlock(lock_id)
        return elapsed

    return case


def raise_loopback() -> None:
    """A new network namespace has a loopback interface, but it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))


if __name__ == "__main__":
    raise_loopback()
    Path(sys.argv[2]).write_text(json.dumps([asdict(figure) for figure in measure(Path(sys.argv[1]))]))
