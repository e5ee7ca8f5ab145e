"""Bugs that are planted into the client processes of a history, for the checker to find.

Each one takes a promise away from the running code, at a public name. A transaction manager that has
several lines of defence stands some bugs without an anomaly; a planted bug goes through all of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, update

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.model.locks import LockMatrix
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.schema import counters, txns
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.histories import client
from tests.histories.checker import Anomaly
from tests.histories.client import Key, Running, Work


@dataclass(frozen=True)
class SeededBug:
    """A bug: ``plant`` puts it into this process; one of the ``anomalies`` must come of it.

    The others say what histories it shows in: how long, and with how many slow and parked transactions.
    """

    plant: Callable[[], None]
    anomalies: frozenset[Anomaly]
    transactions: int
    slow: float
    parked: float


BUGS: dict[str, SeededBug] = {}


def bug(
    *anomalies: Anomaly, transactions: int = 160, slow: float = 0, parked: float = 0
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that plants the bug of its name."""

    def register(plant: Callable[[], None]) -> Callable[[], None]:
        BUGS[plant.__name__] = SeededBug(plant, frozenset(anomalies), transactions, slow, parked)
        return plant

    return register


Changes = Callable[[Connection], None] | None
_commit = TransactionManager.commit
_abort = TransactionManager.abort
_valid_txns = TransactionManager.valid_txns
_valid_write_ids = TransactionManager.valid_write_ids
_allocate_write_ids = TransactionManager.allocate_write_ids


def _set(name: str, function: Callable[..., Any]) -> None:
    assert hasattr(TransactionManager, name), f"there is no {name} to put a bug into"
    setattr(TransactionManager, name, function)


def _register_at_once() -> None:
    """Directories are made known when they are written, not with the commit."""
    write = Work.write

    def write_and_register(self: Work, running: Running, key: Key, elements: Sequence[int]) -> None:
        write(self, running, key, elements)
        store = self._metastore.services.store
        store.write(lambda connection: self.register(connection, running, key, running.written[key]))

    Work.write = write_and_register  # type: ignore[method-assign]
    Work.changes = lambda self, running: None  # type: ignore[method-assign]


@bug(Anomaly.LOST_UPDATE)
def no_first_committer_wins() -> None:
    """No commit looks for others that have updated the same."""

    def commit(self: TransactionManager, txn_id: int, changes: Changes = None, **_: bool) -> None:
        _commit(self, txn_id, changes, exclusive_write_locks=True)

    _set("commit", commit)


@bug(Anomaly.LOST_UPDATE)
def harmless_locks() -> None:
    """Every lock is granted at once."""
    LockMatrix.blocker = lambda *_: None  # type: ignore[method-assign, assignment]


@bug(Anomaly.G1A)
def dirty_snapshot() -> None:
    """Transactions that are open look committed, and what they write is registered at once."""
    _set("valid_txns", lambda self, txn_id=None: ValidTxnList.of(_valid_txns(self, txn_id).high_watermark))
    _register_at_once()


@bug(Anomaly.G1A)
def aborted_write_ids_visible() -> None:
    """Transactions that were aborted look committed, and what they write is registered at once."""

    def valid_txns(self: TransactionManager, txn_id: int | None = None) -> ValidTxnList:
        found = _valid_txns(self, txn_id)
        return ValidTxnList.of(found.high_watermark, found.open_ids)

    _set("valid_txns", valid_txns)
    _register_at_once()


@bug(Anomaly.NON_REPEATABLE_READ, Anomaly.G_SINGLE, slow=0.3)
def new_snapshot_for_every_read() -> None:
    """The write ids of a table are the current ones, whatever the snapshot of the transaction."""

    def valid_write_ids(
        self: TransactionManager, names: Sequence[str], valid_txns: ValidTxnList
    ) -> dict[str, ValidWriteIdList]:
        return {
            name: found for each in names for name, found in _valid_write_ids(self, [each], _valid_txns(self)).items()
        }

    _set("valid_write_ids", valid_write_ids)


@bug(Anomaly.REAL_TIME, Anomaly.LOST_UPDATE)
def cached_snapshot() -> None:
    """A snapshot is used again for a while, as if nothing could have been committed since."""
    kept: list[tuple[float, ValidTxnList]] = []

    def valid_txns(self: TransactionManager, txn_id: int | None = None) -> ValidTxnList:
        if not kept or time.monotonic() - kept[0][0] > 0.2:
            kept[:] = [(time.monotonic(), _valid_txns(self))]
        return kept[0][1]

    _set("valid_txns", valid_txns)


@bug(Anomaly.FENCE, parked=0.1)
def missing_fence() -> None:
    """A transaction that was aborted while its client was away commits nevertheless."""

    def commit(self: TransactionManager, txn_id: int, changes: Changes = None, **options: bool) -> None:
        revive = update(txns).where(txns.c.id == txn_id).values(state=TxnState.OPEN.value)
        self._store.write(lambda connection: connection.execute(revive))
        _commit(self, txn_id, changes, **options)

    _set("commit", commit)


@bug(Anomaly.NON_REPEATABLE_READ, Anomaly.G_SINGLE, slow=0.8)
def ids_visible_before_their_transactions() -> None:
    """An id is handed out in a database transaction of its own: until the row follows, it looks committed."""

    def open_(
        self: TransactionManager, count: int = 1, *, timeout: int, type: TxnType = TxnType.DEFAULT, **_: object
    ) -> list[int]:
        next_ids = update(counters).where(counters.c.name == "txn").values(value=counters.c.value + count)
        last = self._store.write(
            lambda connection: connection.execute(next_ids.returning(counters.c.value)).scalar_one()
        )
        ids = list(range(last - count + 1, last + 1))
        # The gap in which others see the id without its row is the bug.
        time.sleep(random.choice((0, 0.1)))
        row = {
            "state": TxnState.OPEN.value,
            "type": type.value,
            "started_ms": system_clock(),
            "heartbeat_ms": system_clock(),
            "timeout_s": timeout,
            "user": "",
            "host": "",
            "min_open_id": 0,
        }
        rows = [{"id": txn_id, **row} for txn_id in ids]
        self._store.write(lambda connection: connection.execute(insert(txns), rows))
        return ids

    _set("open", open_)
    # A reader whose id is older than the writer's does not see the writer anyway.
    client.READERS = 1


@bug(Anomaly.LOST_UPDATE, Anomaly.LOST_WRITE, Anomaly.FROM_NOWHERE, Anomaly.G1A)
def write_ids_used_twice() -> None:
    """Two transactions get one write id for a table, and so one directory."""

    def allocate_write_ids(self: TransactionManager, *arguments: Any, **options: Any) -> dict[int, int]:
        return {txn: -(-write_id // 2) for txn, write_id in _allocate_write_ids(self, *arguments, **options).items()}

    _set("allocate_write_ids", allocate_write_ids)


@bug(Anomaly.LOST_WRITE)
def commit_applied_in_part() -> None:
    """Of what a transaction has written to several tables, only the first becomes visible."""
    register = ObjectStore.register
    latest: list[int] = []

    def register_first(self: ObjectStore, registration: Registration) -> None:
        if registration.txn_id not in latest:
            register(self, registration)
        latest[:] = [registration.txn_id]

    ObjectStore.register = register_first  # type: ignore[method-assign]


@bug(Anomaly.LOST_WRITE)
def acknowledged_before_it_is_committed() -> None:
    """Some commits are acknowledged, and then do not happen."""

    def commit(self: TransactionManager, txn_id: int, changes: Changes = None, **options: bool) -> None:
        if random.random() < 0.05:
            _abort(self, txn_id)
        else:
            _commit(self, txn_id, changes, **options)

    _set("commit", commit)
