"""Lists of compactions for people: the queue and the history, paged, sorted and filtered by the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, cast, func, select

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.compaction.entries import compaction_from_row
from airflow_hivex.core.compaction.history import ALL_COMPACTIONS, SHOWN_TYPE
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import Compaction, CompactionState
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.store.paging import Page, PageRequest, contains, read_page
from airflow_hivex.core.store.schema import compaction_queue, completed_compactions
from airflow_hivex.core.transactions.commit_record import own_retentions

_A = ALL_COMPACTIONS.c
_MS_PER_DAY = 86_400_000
_ORDERS: dict[str, ColumnElement[Any]] = {
    "id": _A.id,
    "table": _A.database + "." + _A.table,
    "type": SHOWN_TYPE,
    "enqueued": _A.enqueued_ms,
    "started": _A.started_ms,
    "ended": _A.ended_ms,
    # The merge has ended before the replaced files are deleted.
    "duration": func.coalesce(_A.committed_ms, _A.ended_ms) - _A.started_ms,
    "worker": _A.worker_id,
}


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """The queue by state, the oldest entry that waits for a worker, and the failures of the last 24 hours."""

    queue: dict[CompactionState, int]
    oldest_enqueued_at: datetime | None
    failed: int
    last_failed: Compaction | None


class CompactionListing:
    """Lists of the queue and the history. Only reads."""

    def __init__(self, services: Foundation) -> None:
        self._services = services

    def compactions(self, wanted: PageRequest, states: Sequence[CompactionState] = ()) -> Page[Compaction]:
        """Return compactions in one of the states, or all. Names, workers and errors are searched. Two statements.

        Raises:
            InvalidObjectError: the list cannot be sorted by the column.
        """
        query = select(ALL_COMPACTIONS)
        if states:
            query = query.where(_A.state.in_([state.value for state in states]))
        if wanted.search:
            name = _A.database + "." + _A.table
            query = query.where(
                contains(wanted.search, cast(_A.id, String), name, _A.partition, _A.worker_id, _A.error_message)
            )
        with self._services.store.read() as connection:
            return read_page(connection, query, wanted, _ORDERS, _A.id, compaction_from_row)

    def kept_until(self, listed: Sequence[Compaction]) -> dict[int, datetime]:
        """Return the time until which earlier versions keep the replaced files of each merged compaction, by its id.

        Open transactions may keep them for longer. One statement.
        """
        merged = [each for each in listed if each.state is CompactionState.READY_FOR_CLEANING and each.committed_at]
        if not merged:
            return {}
        with self._services.store.read() as connection:
            own = own_retentions(connection, self._services.settings)
        default_ms = history_retention_ms(self._services.settings, {})
        return {
            each.id: each.committed_at + timedelta(milliseconds=own.get(each.table_id, default_ms))
            for each in merged
            if each.committed_at is not None
        }

    def counts(self) -> CompactionCounts:
        """Return the numbers of the queue, and of failures. Two statements, and a third for the last failure."""
        q, h = compaction_queue.c, completed_compactions.c
        by_state = select(q.state, func.count(), func.min(q.enqueued_ms)).group_by(q.state)
        failures = select(func.count(), func.max(h.id)).where(
            h.state == CompactionState.FAILED.value, h.ended_ms >= self._services.clock() - _MS_PER_DAY
        )
        last = None
        with self._services.store.read() as connection:
            queue = {CompactionState(state): (number, since) for state, number, since in connection.execute(by_state)}
            failed, last_id = connection.execute(failures).one()
            if last_id is not None:
                last = connection.execute(select(ALL_COMPACTIONS).where(_A.id == last_id)).first()
        oldest_ms = queue.get(CompactionState.INITIATED, (0, None))[1]
        return CompactionCounts(
            {state: number for state, (number, _) in queue.items()},
            None if oldest_ms is None else to_datetime(oldest_ms),
            failed,
            None if last is None else compaction_from_row(last),
        )
