"""The part of the compaction queue for the cleaner: entries that are ready for cleaning, and the outcome of cleaning.

Source: docs/reference/compaction.md, "Cleaner" (Hive CompactionCleaner, TaskHandler).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection, and_, delete, func, insert, select

from airflow_hivex.core.compaction.queue_entries import (
    IS_ABORT_CLEANUP,
    IS_READY,
    MESSAGE_LENGTH,
    QUEUE_COLUMNS,
    Q,
    change,
    compaction_from_row,
    end,
    end_locked,
    lock_ids,
    new_row,
    take_ids,
)
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import (
    Compaction,
    CompactionRequest,
    CompactionState,
    CompactionType,
    to_milliseconds,
)
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import JoinsTransactions
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    compaction_queue,
    completed_txn_components,
    txn_components,
    txn_to_write_id,
    txns,
)
from airflow_hivex.core.store.schema.base import partition_to_column


class CleaningQueue(JoinsTransactions):
    """The entries of the compaction queue that are ready for cleaning.

    Each change is a database transaction of its own. After :meth:`joining`, each change is a part of the caller's
    transaction.
    """

    def __init__(self, services: Foundation) -> None:
        settings = services.settings
        super().__init__(services.store)
        self._clock = services.clock
        self._most = int(settings["metastore.compactor.fetch.size"])
        delayed = bool(settings["hive.compactor.delayed.cleanup.enabled"])
        retention_ms = int(settings["hive.compactor.cleaner.retention.time.seconds"]) * 1000
        self._delay_ms = retention_ms if delayed else 0
        self._attempts = int(settings["hive.compactor.cleaner.retry.maxattempts"])
        self._pause_ms = max(1, int(settings["hive.compactor.cleaner.retry.retention.time"]) * 1000)

    def entries_to_clean(self) -> list[Compaction]:
        """Return the entries that can be cleaned now, one for each table or partition, the oldest first.

        If a table or partition has several entries, the one with the lowest ``highest_write_id`` is returned. The
        result has at most ``metastore.compactor.fetch.size`` entries. One query.
        """
        return [entry for entry in self.ready()[0] if self.is_due(entry)][: self._most]

    def ready(self) -> tuple[list[Compaction], list[Compaction]]:
        """Return the entries that are ready for cleaning, the oldest first, including paused entries. One query.

        The first list has one entry for each table or partition. If a table or partition has several entries, the one
        with the lowest ``highest_write_id`` is returned. The second list has the entries of type ABORT_CLEANUP. While
        such an entry is paused, the cleaner skips the aborted data of its table or partition.
        """
        with self._read() as connection:
            rows = connection.execute(select(*QUEUE_COLUMNS).where(IS_READY).order_by(Q.id))
            found = [compaction_from_row(row) for row in rows]
        cleanups = [entry for entry in found if entry.type is CompactionType.ABORT_CLEANUP]
        lowest: dict[tuple[int, str | None], Compaction] = {}
        for entry in found:
            if entry.type is CompactionType.ABORT_CLEANUP:
                continue
            key = (entry.table_id, entry.partition)
            other = lowest.get(key)
            if other is None or (entry.highest_write_id or 0) < (other.highest_write_id or 0):
                lowest[key] = entry
        return sorted(lowest.values(), key=lambda entry: entry.id), cleanups

    def note_abort_cleanup(self, request: CompactionRequest, message: str) -> Compaction:
        """Record that files of aborted transactions could not be deleted. Return the queue entry for the next attempt.

        The entry has the type ABORT_CLEANUP and is ready for cleaning after a pause. If the table or partition already
        has such an entry, one more failure is counted in it. the second list of :meth:`ready` has these entries.
        """

        def work(connection: Connection) -> Compaction:
            new_id = lock_ids(connection)
            of_resource = (Q.table_id == request.table_id, Q.partition == partition_to_column(request.partition))
            stored = connection.execute(
                select(*QUEUE_COLUMNS).where(IS_READY, IS_ABORT_CLEANUP, *of_resource).with_for_update()
            ).one_or_none()
            if stored is not None:
                entry = compaction_from_row(stored)
                return self.joining(connection).mark_cleaning_failed(entry, message) or entry
            now = self._clock()
            cleanup = replace(request, type=CompactionType.ABORT_CLEANUP)
            values = {
                **new_row(cleanup, new_id, "cleaner", now),
                "state": CompactionState.READY_FOR_CLEANING.value,
                "committed_ms": now,
                "retry_retention_ms": self._pause_ms,
                "error_message": shortened(message, MESSAGE_LENGTH),
            }
            take_ids(connection, 1)
            row = connection.execute(insert(compaction_queue).values(**values).returning(*QUEUE_COLUMNS)).one()
            return compaction_from_row(row)

        return self._write(work, "note cleanup")

    def is_due(self, entry: Compaction) -> bool:
        """Return whether the pause of an entry that is ready for cleaning is over."""
        delay_ms = 0 if entry.type is CompactionType.ABORT_CLEANUP else self._delay_ms
        return (to_milliseconds(entry.committed_at) or 0) + entry.retry_retention_ms + delay_ms <= self._clock()

    def mark_cleaning_started(self, entry: Compaction) -> Compaction:
        """Record that a cleaner has begun with an entry, and return the changed entry.

        Raises:
            CompactionLostError: the entry is not ready for cleaning any more.
        """
        values = {"cleaner_started_ms": self._clock()}
        return self._write_one(lambda connection: change(connection, entry, values), "start cleaning")

    def clear_cleaning_started(self, entry: Compaction) -> Compaction:
        """Keep an entry for a later round, because readers still need some directories; return the changed entry.

        Raises:
            CompactionLostError: the entry is not ready for cleaning any more.
        """
        values = {"cleaner_started_ms": None}
        return self._write_one(lambda connection: change(connection, entry, values), "stop cleaning")

    def mark_cleaning_failed(self, entry: Compaction, message: str) -> Compaction | None:
        """Record an error of the cleaner, and double the pause before the next attempt; return the changed entry.

        After too many errors, the entry ends as failed, and the result is None.

        Raises:
            CompactionLostError: the entry is not ready for cleaning any more.
        """
        attempts = 0
        if entry.retry_retention_ms:
            # As in Hive, the pause gives the number of failures: it is the first pause times a power of two.
            attempts = max(1, entry.retry_retention_ms // self._pause_ms).bit_length()
        if 0 < self._attempts <= attempts:
            self._end(entry, CompactionState.FAILED, message)
            return None
        values = {
            "retry_retention_ms": self._pause_ms << min(attempts, 20),
            "error_message": shortened(message, MESSAGE_LENGTH),
            "cleaner_started_ms": None,
        }
        return self._write(lambda connection: change(connection, entry, values), "cleaning failed")

    def mark_refused(self, entry: Compaction, message: str) -> None:
        """End an entry as refused, because there is nothing to clean, or cleaning is not allowed.

        Raises:
            CompactionLostError: the entry is not ready for cleaning any more.
        """
        self._end(entry, CompactionState.REFUSED, message)

    def mark_cleaned(
        self,
        entry: Compaction,
        removed_write_ids: Collection[int] | None = None,
    ) -> None:
        """End an entry as succeeded. The caller has already deleted the replaced directories.

        Rows about committed writes up to the entry's highest write id are deleted, too. Rows about the last commits
        stay, because sensors read them (``metastore.commits``). Rows about aborted writes with ``removed_write_ids``
        are deleted; None means all aborted writes. An ABORT_CLEANUP entry of the same table or partition is removed.

        Raises:
            CompactionLostError: the entry is not ready for cleaning any more.
        """

        def work(connection: Connection) -> None:
            end(connection, entry, CompactionState.SUCCEEDED, None, self._clock())
            later(
                connection,
                delete(compaction_queue).where(
                    IS_READY,
                    IS_ABORT_CLEANUP,
                    Q.table_id == entry.table_id,
                    Q.partition == partition_to_column(entry.partition),
                ),
            )
            if entry.highest_write_id is not None:
                _forget_completed(connection, entry, entry.highest_write_id)
                _forget_aborted(connection, entry, entry.highest_write_id, removed_write_ids)

        self._write(work, "cleaned")

    def forget_aborted(self, table_id: int, partition: str | None, txn_ids: Collection[int]) -> None:
        """Delete the rows about writes of aborted transactions to a table or partition.

        The caller has already deleted the files of these writes. An entry of type ABORT_CLEANUP for the table or
        partition ends as succeeded.
        """
        components = txn_components.c
        aborted = select(txns.c.id).where(txns.c.state == TxnState.ABORTED.value)
        of_place = (
            components.table_id == table_id,
            components.partition.is_(None) if partition is None else components.partition == partition,
        )

        def work(connection: Connection) -> None:
            for batch in batches(sorted(txn_ids)):
                later(
                    connection,
                    delete(txn_components).where(
                        *of_place, components.txn_id.in_(batch), components.txn_id.in_(aborted)
                    ),
                )
            rows = connection.execute(
                select(*QUEUE_COLUMNS)
                .where(
                    IS_READY, IS_ABORT_CLEANUP, Q.table_id == table_id, Q.partition == partition_to_column(partition)
                )
                .with_for_update()
            )
            entries = [compaction_from_row(row) for row in rows]
            end_locked(connection, entries, CompactionState.SUCCEEDED, None, self._clock())

        self._write(work, "cleaned")

    def _end(self, entry: Compaction, state: CompactionState, message: str) -> None:
        self._write(lambda connection: end(connection, entry, state, message, self._clock()), f"mark {state.shown}")


def _forget_completed(connection: Connection, entry: Compaction, highest: int) -> None:
    completed = completed_txn_components.c
    own = (
        completed.table_id == entry.table_id,
        completed.partition.is_(None) if entry.partition is None else completed.partition == entry.partition,
    )
    newest = select(func.max(completed.id)).where(*own).scalar_subquery()
    most = select(func.max(completed.write_id)).where(*own).scalar_subquery()
    later(
        connection,
        delete(completed_txn_components).where(
            *own, completed.write_id <= highest, completed.id != newest, completed.write_id != most
        ),
    )


def _forget_aborted(
    connection: Connection, entry: Compaction, highest: int, removed_write_ids: Collection[int] | None
) -> None:
    components, mapping = txn_components.c, txn_to_write_id.c
    own_write_id = (
        select(mapping.write_id)
        .where(mapping.table_id == components.table_id, mapping.txn_id == components.txn_id)
        .scalar_subquery()
    )
    write_id = func.coalesce(components.write_id, own_write_id)
    aborted = select(txns.c.id).where(txns.c.state == TxnState.ABORTED.value)
    condition = and_(
        components.table_id == entry.table_id,
        components.partition.is_(None) if entry.partition is None else components.partition == entry.partition,
        components.txn_id.in_(aborted),
        write_id <= highest,
    )
    if removed_write_ids is None:
        later(connection, delete(txn_components).where(condition))
        return
    for batch in batches(sorted(removed_write_ids)):
        later(connection, delete(txn_components).where(condition, write_id.in_(batch)))
