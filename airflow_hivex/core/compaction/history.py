"""The queue and the history as one list: the rows and pages of SHOW COMPACTIONS, and the age limit of the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    String,
    and_,
    case,
    cast,
    delete,
    func,
    null,
    or_,
    select,
    union_all,
)

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.compaction.queue_entries import HISTORY_COLUMNS, QUEUE_COLUMNS, compaction_from_row
from airflow_hivex.core.errors import InvalidObjectError, NoSuchCompactionError
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import (
    DEFAULT_POOL,
    SHOW_COLUMNS,
    Compaction,
    CompactionState,
    CompactionType,
    pool_name,
)
from airflow_hivex.core.model.compaction_thresholds import FAILED_COMPACTIONS
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.store.exchange import together
from airflow_hivex.core.store.paging import Page, PageRequest, contains, read_page
from airflow_hivex.core.store.schema import compaction_queue, completed_compactions
from airflow_hivex.core.transactions.commit_record import own_retentions

ALL_COMPACTIONS = union_all(
    select(*QUEUE_COLUMNS, cast(null(), BigInteger).label("ended_ms")), select(*HISTORY_COLUMNS)
).subquery("compactions")
"""The queue and the history as one relation."""
_A = ALL_COMPACTIONS.c
SHOWN_TYPE: ColumnElement[object] = case({each.value: each.shown for each in CompactionType}, value=_A.type)
_ORDERS: dict[str, ColumnElement[object]] = {
    "compactionid": _A.id,
    "dbname": _A.database,
    "tabname": _A.table,
    "partname": func.nullif(_A.partition, ""),
    "type": SHOWN_TYPE,
    "state": case({each.value: each.shown for each in CompactionState}, value=_A.state),
    "workerhost": _A.worker_id,
    "workerid": _A.worker_id,
    "enqueuetime": _A.enqueued_ms,
    "starttime": _A.started_ms,
    "duration": _A.ended_ms - _A.started_ms,
    "hadoopjobid": _A.job_id,
    "errormessage": _A.error_message,
    "initiatorhost": _A.initiator_id,
    "initiatorid": _A.initiator_id,
    "poolname": func.coalesce(_A.pool, DEFAULT_POOL),
    "txnid": _A.txn_id,
    "nexttxnid": _A.next_txn_id,
    "committime": _A.committed_ms,
    "hightestwriteid": _A.highest_write_id,
}
_H = completed_compactions.c


@dataclass(frozen=True, slots=True)
class CompactionFilter:
    """The filter of SHOW COMPACTIONS: all given conditions must be true.

    ``order_by`` has columns of SHOW COMPACTIONS, each with True for ascending order. By default the newest compactions
    come first.
    """

    database: str | None = None
    table: str | None = None
    partition: str | None = None
    id: int | None = None
    pool: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


class CompactionHistory:
    """The queue and the history together, and the removal of old entries."""

    def __init__(self, services: Foundation) -> None:
        self._services, settings = services, services.settings
        failed = max(int(settings["metastore.compactor.history.retention.failed"]), int(settings[FAILED_COMPACTIONS]))
        refused = int(settings["metastore.compactor.history.retention.refused"])
        self._kept = {
            CompactionState.SUCCEEDED: int(settings["metastore.compactor.history.retention.succeeded"]),
            CompactionState.FAILED: failed,
            CompactionState.DID_NOT_INITIATE: int(settings["metastore.compactor.history.retention.did.not.initiate"]),
            CompactionState.REFUSED: refused,
            CompactionState.ABORTED: refused,
        }
        self._timeout_ms = round(float(settings["metastore.compactor.history.retention.timeout"]) * 86_400_000)

    def show(self, wanted: CompactionFilter | None = None) -> list[Compaction]:
        """Return the compactions of the queue and the history that match a filter. One query.

        Raises:
            InvalidObjectError: ``order_by`` names a column that SHOW COMPACTIONS does not have.
        """
        query = _filtered(select(ALL_COMPACTIONS), wanted or CompactionFilter())
        with self._services.store.read() as connection:
            return [compaction_from_row(row) for row in connection.execute(query)]

    def get(self, id: int) -> Compaction:
        """Return the compaction with the id, from the queue or the history. One query.

        Raises:
            NoSuchCompactionError: no compaction has the id.
        """
        found = self.show(CompactionFilter(id=id))
        if not found:
            raise NoSuchCompactionError(id)
        return found[0]

    def purge(self) -> int:
        """Remove old entries of the history; return their number. Six queries.

        Settings limit, for each state, how many entries of a table or partition are kept. An unsuccessful entry is also
        removed after ``metastore.compactor.history.retention.timeout`` if a newer major compaction of the same table or
        partition has succeeded. An unsuccessful minor compaction is also removed if a newer minor compaction has
        succeeded.
        """
        return self._services.store.write(self._purge, name="purge compactions")

    def _purge(self, connection: Connection) -> int:
        removals = []
        for state, kept in self._kept.items():
            ranked = (
                select(
                    _H.id,
                    func.row_number()
                    .over(partition_by=(_H.table_id, _H.partition), order_by=_H.id.desc())
                    .label("age"),
                )
                .where(_H.state == state.value)
                .subquery()
            )
            surplus = select(ranked.c.id).where(ranked.c.age > kept)
            removals.append(delete(completed_compactions).where(_H.id.in_(surplus)))
        newer = completed_compactions.alias("newer")
        did_as_much = or_(
            newer.c.type == CompactionType.MAJOR.value,
            and_(newer.c.type == CompactionType.MINOR.value, _H.type == CompactionType.MINOR.value),
        )
        is_settled = (
            select(newer.c.id)
            .where(
                newer.c.table_id == _H.table_id,
                newer.c.partition == _H.partition,
                newer.c.id > _H.id,
                newer.c.state == CompactionState.SUCCEEDED.value,
                did_as_much,
            )
            .exists()
        )
        unsuccessful = [state.value for state in self._kept if state is not CompactionState.SUCCEEDED]
        old = _H.ended_ms < self._services.clock() - self._timeout_ms
        removals.append(delete(completed_compactions).where(_H.state.in_(unsuccessful), old, is_settled))
        return sum(map(len, together(connection, *(removal.returning(_H.id) for removal in removals))))


def check_order(columns: Sequence[str]) -> None:
    """Refuse columns that SHOW COMPACTIONS does not have.

    Raises:
        InvalidObjectError: a column is unknown.
    """
    for column in columns:
        if column.lower() not in _ORDERS:
            raise InvalidObjectError("column", column, f"SHOW COMPACTIONS has {', '.join(SHOW_COLUMNS)}")


def _filtered(query: Select[tuple[object, ...]], wanted: CompactionFilter) -> Select[tuple[object, ...]]:
    check_order([column for column, _ in wanted.order_by])
    equal = {
        _A.database: wanted.database,
        _A.table: wanted.table,
        _A.partition: wanted.partition,
        _A.id: wanted.id,
        _A.type: wanted.type.value if wanted.type is not None else None,
        _A.state: wanted.state.value if wanted.state is not None else None,
    }
    for column, value in equal.items():
        if value is not None:
            query = query.where(column == value)
    if wanted.pool is not None:
        pool = pool_name(wanted.pool)
        query = query.where(_A.pool.is_(None) if pool is None else _A.pool == pool)
    for column_name, rises in wanted.order_by:
        order = _ORDERS[column_name.lower()]
        query = query.order_by((order.asc() if rises else order.desc()).nulls_last())
    return query.order_by(_A.id.desc()).limit(wanted.limit)


_MS_PER_DAY = 86_400_000
_LIST_ORDERS: dict[str, ColumnElement[Any]] = {
    "id": _A.id,
    "table": _A.database + "." + _A.table,
    "type": SHOWN_TYPE,
    "enqueued": _A.enqueued_ms,
    "started": _A.started_ms,
    "ended": _A.ended_ms,
    # The duration is that of the merge, which ends before the replaced files are deleted.
    "duration": func.coalesce(_A.committed_ms, _A.ended_ms) - _A.started_ms,
    "worker": _A.worker_id,
}


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """Numbers of queue entries by state, the time of the oldest waiting entry, and the failures of the last 24 hours.

    ``failed`` is the number of failures in these 24 hours, and ``last_failed`` is the last failure.
    """

    queue: dict[CompactionState, int]
    oldest_enqueued_at: datetime | None
    failed: int
    last_failed: Compaction | None


class CompactionListing:
    """Pages of compactions from the queue and the history, and their counts. No method changes them."""

    def __init__(self, services: Foundation) -> None:
        self._services = services

    def compactions(self, wanted: PageRequest, states: Sequence[CompactionState] = ()) -> Page[Compaction]:
        """Return a page of the compactions that are in one of ``states``, by default of all compactions. Two queries.

        The search text is compared with ids, names, workers and errors.

        Raises:
            InvalidObjectError: ``wanted`` names a column by which the list cannot be sorted.
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
            return read_page(connection, query, wanted, _LIST_ORDERS, _A.id, compaction_from_row)

    def kept_until(self, listed: Sequence[Compaction]) -> dict[int, datetime]:
        """Return a dict from compaction id to the time until which replaced files are kept for reads of old versions.

        The dict has only the compactions in ``listed`` that wait for the cleaner. Open transactions can need the
        replaced files for longer. One query.
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
        """Return the numbers of entries and failures. Two queries, and a third one for the last failure."""
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
