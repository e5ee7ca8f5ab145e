"""Looking for deadlocks: readers of many partitions of one table, all of which wait for one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from benchmarks.harness import Figure, compare, interleave, within
from tests.postgresql import start_durable_postgresql

READERS = 20
PARTITIONS = 1_000
LIMIT_S = 0.05
ROUNDS = 9

# Nothing is read or written there.
CLUSTERS = {"c1": {"filesystem": "file:///tmp/nowhere", "jobtracker": "local[2]"}}


def run(folder: Path) -> list[Figure]:
    """Figures for a reader's request, and for asking again, which it does in each pause of its waiting."""
    with ExitStack() as stack:
        server = start_durable_postgresql()
        stack.callback(server.stop)
        figures = []
        for name, url in (("SQLite", f"sqlite:///{folder / 'locks.db'}"), ("PostgreSQL", server.create_database())):
            metastore = stack.enter_context(Metastore.open(url, clusters=CLUSTERS))
            with metastore.session() as session:
                for table in ("many", "few"):
                    session.sql(f"CREATE TABLE {table} (id int) PARTITIONED BY (p int)")
            cases = _cases(metastore, "many", READERS) | _cases(metastore, "few", 1)
            seconds = interleave(cases, rounds=ROUNDS, warm_up=2)
            others = f"among {READERS} readers of {PARTITIONS:,} partitions, {name}"
            figures.append(within(f"asking again {others}", seconds[f"ask among {READERS}"], LIMIT_S))
            # Most of it is writing the locks.
            figures.append(
                compare(f"acquiring {others}", seconds, f"acquire among {READERS}", "acquire among 1", goal=1.5)
            )
    return figures


def _cases(metastore: Metastore, table: str, readers: int) -> dict[str, Callable[[], float]]:
    locks = metastore.locks
    holder, last, *others = metastore.transactions.open(readers + 2)
    whole = LockComponent("default", table, None, LockType.EXCLUSIVE, DataOperation.SELECT)
    assert locks.acquire([whole], holder).is_acquired
    partitions = [
        LockComponent("default", table, f"p={number}", LockType.SHARED_READ, DataOperation.SELECT)
        for number in range(PARTITIONS)
    ]
    waiting = [locks.acquire(partitions, other, wait=False).lock_id for other in others]

    def acquire() -> float:
        started = time.perf_counter()
        lock_id = locks.acquire(partitions, last, wait=False).lock_id
        elapsed = time.perf_counter() - started
        locks.unlock(lock_id)
        return elapsed

    def ask() -> float:
        started = time.perf_counter()
        locks.check(waiting[-1])
        return time.perf_counter() - started

    return {f"acquire among {readers}": acquire, f"ask among {readers}": ask}
