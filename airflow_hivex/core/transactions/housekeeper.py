"""The housekeeper, which ends the transactions of dead clients, and removes unused records and files.

Source: docs/reference/transactions.md, "Time-outs and housekeeping" (Hive AcidHouseKeeperService, TxnCleaner).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import BigInteger, ColumnElement, Connection, ScalarSelect, and_, cast, delete, func, select, tuple_

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.events.notification_log import NotificationLog, PartitionEvents
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.snapshots.valid_lists import IS_ABORTED, IS_OPEN, purge_moments
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import (
    completed_txn_components,
    counters,
    txn_components,
    txn_to_write_id,
    txns,
    write_set,
)
from airflow_hivex.core.transactions import commit_record, snapshots
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.statement_history import StatementHistory

log = logging.getLogger(__name__)

_HIGHEST = select(counters.c.value).where(counters.c.name == "txn").scalar_subquery()
_HAS_COMPONENTS = select(txn_components.c.id).where(txn_components.c.txn_id == txns.c.id).exists()

_COPIES_WHILE_WAITING_S = 2.0
"""The time limit in seconds for the deletion of unused copies if the caller waits for a lock."""


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """The result of a round: ids of aborted transactions and of dropped lock requests, and numbers of removed objects.

    ``aborted`` has the ids of timed-out transactions. ``dropped_locks`` has the ids of timed-out lock requests without
    a transaction. ``abandoned_writes`` counts the writes of killed statements whose files were deleted.
    ``unused_copies`` counts deleted folders of unused copies. ``requeued_compactions`` counts compactions that were
    taken from lost workers. ``expired_partitions`` counts partitions that links do not show any more.
    ``temporary_tables`` counts dropped tables of ended sessions. ``dropped_objects`` counts tables and partitions whose
    files were deleted after a killed DROP. ``events`` counts removed events of the notification log. ``statements``
    counts removed rows of the history of statements. The other fields count removed records.
    """

    aborted: tuple[int, ...] = ()
    dropped_locks: tuple[int, ...] = ()
    write_sets: int = 0
    write_ids: int = 0
    completed_components: int = 0
    transactions: int = 0
    abandoned_writes: int = 0
    unused_copies: int = 0
    requeued_compactions: int = 0
    compactions: int = 0
    events: int = 0
    expired_partitions: int = 0
    temporary_tables: int = 0
    dropped_objects: int = 0
    statements: int = 0


class Housekeeper:
    """The periodic tasks of the metastore, as in Hive's AcidHouseKeeper and TxnCleaner. Each call runs one round."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        transactions: TransactionManager,
        locks: LockManager,
        *,
        delete_abandoned: Callable[[], int] | None = None,
        keep_compactions: Callable[[], tuple[int, int]] | None = None,
        clean_copies: Callable[[float | None], int] | None = None,
        expire_links: Callable[[], int] | None = None,
        record_capacity: Callable[[], int] | None = None,
        drop_temporary_tables: Callable[[], int] | None = None,
        delete_dropped: Callable[[], int] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._transactions = transactions
        self._locks = locks
        self._delete_abandoned = delete_abandoned
        self._keep_compactions = keep_compactions
        self._clean_copies = clean_copies
        self._expire_links = expire_links
        self._record_capacity = record_capacity
        self._drop_temporary_tables = drop_temporary_tables
        self._delete_dropped = delete_dropped
        self._interval_ms = int(settings["metastore.acid.housekeeper.interval"]) * 1000
        self._cleaner_interval_ms = int(settings["metastore.acid.txn.cleaner.interval"]) * 1000
        self._log = NotificationLog(store)
        self._log_interval_ms = int(settings["metastore.event.db.listener.clean.interval"]) * 1000
        self._log_kept_ms = int(settings["metastore.event.db.listener.timetolive"] * 86_400_000)
        self._marks = PartitionEvents(store, clock)
        self._statements = StatementHistory(store, settings, clock)
        self._marks_kept_ms = int(settings["metastore.event.expiry.duration"]) * 1000
        self._housekept_ms: int | None = None
        self._cleaned_ms: int | None = None
        self._log_purged_ms: int | None = None

    def run(self, *, only_due: bool = False) -> HousekeepingResult:
        """Run one round of all tasks. Several processes can do this at the same time.

        A caller that waits for a lock sets ``only_due``. Then a task is skipped if this housekeeper has run the task
        within the task's interval (``metastore.acid.housekeeper.interval``, ``metastore.acid.txn.cleaner.interval``,
        ``metastore.event.db.listener.clean.interval``). Unused copies are deleted for a few seconds only, and temporary
        tables are not dropped.
        """
        now = self._clock()
        most_s = _COPIES_WHILE_WAITING_S if only_due else None
        result = HousekeepingResult()
        if not only_due or self._housekept_ms is None or now - self._housekept_ms >= self._interval_ms:
            self._housekept_ms = now
            result = HousekeepingResult(
                aborted=tuple(self._transactions.abort_timed_out()),
                dropped_locks=tuple(self._locks.drop_timed_out()),
                write_sets=self._store.write_one(_purge_write_sets, name="purge"),
                write_ids=self._store.write_one(_purge_write_ids, name="purge"),
                completed_components=self._store.write_one(_purge_completed_components, name="purge"),
                abandoned_writes=0 if self._delete_abandoned is None else self._delete_abandoned(),
                unused_copies=0 if self._clean_copies is None else self._clean_copies(most_s),
            )
            self._store.write_one(lambda connection: snapshots.purge(connection, self._clock()), name="purge")
            self._store.write_one(purge_moments, name="purge")
            self._purge_record()
            result = replace(result, statements=self._store.write_one(self._statements.purge, name="purge"))
            if self._marks_kept_ms:
                self._marks.purge(now - self._marks_kept_ms)
            if self._keep_compactions is not None:
                # After the transactions of dead workers were aborted.
                requeued, removed = self._keep_compactions()
                result = replace(result, requeued_compactions=requeued, compactions=removed)
            if self._expire_links is not None:
                result = replace(result, expired_partitions=self._expire_links())
            if self._delete_dropped is not None:
                result = replace(result, dropped_objects=self._delete_dropped())
            if self._drop_temporary_tables is not None and not only_due:
                # The drop locks the tables; a caller that waits for a lock cannot wait for these locks, too.
                result = replace(result, temporary_tables=self._drop_temporary_tables())
            if self._record_capacity is not None:
                self._record_capacity()
            if result.aborted:
                log.warning("Aborted %s transactions without heartbeat: %s", len(result.aborted), result.aborted)
            if result.dropped_locks:
                log.warning("Dropped locks without heartbeat: %s", result.dropped_locks)
        if not only_due or self._cleaned_ms is None or now - self._cleaned_ms >= self._cleaner_interval_ms:
            self._cleaned_ms = now
            removed = self._store.write(self._purge_transactions, name="purge")
            result = replace(result, transactions=removed)
        if not only_due or self._log_purged_ms is None or now - self._log_purged_ms >= self._log_interval_ms:
            self._log_purged_ms = now
            result = replace(result, events=self._log.purge(now - self._log_kept_ms))
        return result

    def _purge_record(self) -> None:
        """Remove the records of commits that are older than the retention of the table."""
        with self._store.read() as connection:
            own = commit_record.own_retentions(connection, self._settings)
        for purge in commit_record.purges(self._clock(), own, self._settings):
            self._store.write_one(purge, name="purge")

    def _purge_transactions(self, connection: Connection) -> int:
        """Remove the records of ended transactions without components. The record with the highest id always stays.

        A record stays for one time-out after the end of the transaction, so that the owner can read the state.
        """
        ended_ms = func.coalesce(txns.c.ended_ms, txns.c.heartbeat_ms)
        self._statements.settle(connection)
        kept_until = ended_ms + cast(txns.c.timeout_s, BigInteger) * 1000
        return connection.execute(
            delete(txns).where(
                txns.c.state != TxnState.OPEN.value,
                txns.c.id < _HIGHEST,
                kept_until < self._clock(),
                ~_HAS_COMPONENTS,
            )
        ).rowcount


def _purge_write_sets(connection: Connection) -> int:
    """Remove write sets that were committed before the oldest open transaction began."""
    lowest_open = select(func.min(txns.c.id)).where(IS_OPEN).scalar_subquery()
    return connection.execute(
        delete(write_set).where(write_set.c.commit_id < func.coalesce(lowest_open, _HIGHEST + 1))
    ).rowcount


def _purge_write_ids(connection: Connection) -> int:
    """Remove the write ids of transactions that every snapshot sees as committed.

    The highest of these write ids stays for each table, because write id lists need this write id as high watermark.
    """
    settled = and_(
        _below(txn_to_write_id.c.txn_id, _lowest_seen_open()),
        _below(txn_to_write_id.c.txn_id, _lowest_aborted()),
    )
    newer = txn_to_write_id.alias("newer")
    superseded = (
        select(newer.c.write_id)
        .where(
            newer.c.table_id == txn_to_write_id.c.table_id,
            newer.c.write_id > txn_to_write_id.c.write_id,
            _below(newer.c.txn_id, _lowest_seen_open()),
            _below(newer.c.txn_id, _lowest_aborted()),
        )
        .exists()
    )
    return connection.execute(delete(txn_to_write_id).where(settled, superseded)).rowcount


def _purge_completed_components(connection: Connection) -> int:
    """Remove the records of committed writes that are not needed.

    For each table or partition, three records stay: the newest record, the newest record of an update or delete, and
    the record with the highest write id.
    """
    completed = completed_txn_components.c
    newest = select(func.max(completed.id)).group_by(completed.table_id, completed.partition)
    resource = (completed.table_id, func.coalesce(completed.partition, ""))
    highest = select(*resource, func.max(func.coalesce(completed.write_id, 0))).group_by(*resource)
    return connection.execute(
        delete(completed_txn_components).where(
            _below(completed.txn_id, _lowest_seen_open()),
            completed.id.not_in(newest),
            completed.id.not_in(newest.where(completed.updates)),
            tuple_(*resource, func.coalesce(completed.write_id, 0)).not_in(highest),
        )
    ).rowcount


def _lowest_seen_open() -> ScalarSelect[int | None]:
    """Return a subquery for an id. The snapshots of all open transactions see every transaction below the id as ended.

    Source: Hive's MIN_HISTORY_LEVEL.
    """
    return select(func.min(txns.c.min_open_id)).where(IS_OPEN).scalar_subquery()


def _lowest_aborted() -> ScalarSelect[int | None]:
    return select(func.min(txns.c.id)).where(IS_ABORTED, _HAS_COMPONENTS).scalar_subquery()


def _below(txn_id: ColumnElement[int], lowest: ScalarSelect[int | None]) -> ColumnElement[bool]:
    """Return the condition that an id is below ``lowest``.

    If ``lowest`` is NULL, the condition is true for every id.
    """
    return txn_id < func.coalesce(lowest, _HIGHEST + 1)
