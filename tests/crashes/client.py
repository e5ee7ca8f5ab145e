"""A client process that kills itself with SIGKILL at a named point, and one that waits for a lock."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.model.writes import TableWrite
from tests.histories.client import CLUSTER, DATABASE, open_warehouse, write_elements

TABLES = ("list_a", "list_b")
KEY = "k=1"
LOCKS = [LockComponent(DATABASE, name, KEY, LockType.EXCL_WRITE, DataOperation.UPDATE) for name in TABLES]


@dataclass(frozen=True)
class Victim:
    """The orders of the process: the place of the warehouse, the point of its death, and the file of its progress."""

    url: str
    folder: Path
    point: str
    progress: Path


def commit_both(metastore: Metastore, folder: Path, txn_id: int, write_ids: dict[str, int], element: int) -> None:
    """Write one element to the same key of both tables, and commit."""
    writes = {
        name: Write("", f"{DATABASE}.{name}", (), (), write_id=write_id, overwrite=True)
        for name, write_id in write_ids.items()
    }
    tables = {name: metastore.catalog.get_table(DATABASE, name) for name in write_ids}
    for name, write in writes.items():
        location = tables[name].storage.primary.location
        write_elements(folder / CLUSTER / location / KEY / f"base_{write.write_id:07d}", [element])

    def register(connection: Connection) -> None:
        for name, write in writes.items():
            directory = WrittenDirectory(KEY, ("1",), f"base_{write.write_id:07d}", files=1, rows=1, size_bytes=1)
            facts = TableWrite(txn_id, write.write_id, CLUSTER, overwrite=write.overwrite)
            metastore.catalog.joining(connection).register(Registration.of_write(tables[name], facts, [directory]))

    metastore.transactions.commit(txn_id, register)


def _open(victim: Victim) -> tuple[Metastore, Callable[[str, int], None]]:
    def fault(point: str) -> None:
        if point == victim.point:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(step: str, number: int = 0) -> None:
        # Written when the call returns, whatever becomes of this process.
        with victim.progress.open("a") as file:
            file.write(json.dumps([step, number]) + "\n")

    return open_warehouse(victim.url, victim.folder, fault=fault), note


def noted_steps(progress: Path) -> dict[str, int]:
    """Return the steps that were acknowledged to a victim, with their ids."""
    return dict(map(json.loads, progress.read_text().splitlines())) if progress.exists() else {}


def write_until_killed(victim: Victim) -> None:
    """A whole transaction: open, lock, allocate, heartbeat, commit."""
    metastore, note = _open(victim)
    with metastore:
        (txn_id,) = metastore.transactions.open(user="victim")
        note("open", txn_id)
        note("lock", metastore.locks.acquire(LOCKS, txn_id, user="victim").lock_id)
        write_ids = {}
        for name in TABLES:
            write_ids[name] = metastore.transactions.allocate_write_ids([txn_id], DATABASE, name)[txn_id]
            note(f"allocate {name}", write_ids[name])
        metastore.transactions.heartbeat(txn_id)
        note("heartbeat", txn_id)
        if victim.point.endswith("abort"):
            metastore.transactions.abort(txn_id)
            note("abort", txn_id)
        else:
            commit_both(metastore, victim.folder, txn_id, write_ids, element=1)
            note("commit", txn_id)


def lock_until_killed(victim: Victim) -> None:
    """Locks without a transaction: acquire, heartbeat, unlock."""
    metastore, note = _open(victim)
    with metastore:
        lock_id = metastore.locks.acquire(LOCKS, user="victim").lock_id
        note("lock", lock_id)
        metastore.locks.heartbeat(lock_id)
        note("heartbeat", lock_id)
        metastore.locks.unlock(lock_id)
        note("unlock", lock_id)


def wait_for_lock(url: str, folder: Path, progress: Path, ahead_s: float) -> None:
    """Wait for the locks with a clock that is ``ahead_s``, then write and commit as a whole."""
    with open_warehouse(url, folder, clock=lambda: system_clock() + int(ahead_s * 1000)) as metastore:
        (txn_id,) = metastore.transactions.open(user="waiter")
        metastore.locks.acquire(LOCKS, txn_id, user="waiter", timeout=60)
        write_ids = {
            name: metastore.transactions.allocate_write_ids([txn_id], DATABASE, name)[txn_id] for name in TABLES
        }
        commit_both(metastore, folder, txn_id, write_ids, element=2)
        progress.write_text(json.dumps(["commit", txn_id]) + "\n")
