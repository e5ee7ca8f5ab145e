"""Queries over copies that lag, in sessions that accept a lag. A query reads all tables as of one moment.

A moment is the snapshot in which a replication has read the tables that it has copied. The newest moment of the query's
tables is tried first. All tables are read as of the same moment, even tables whose primary copy is on the cluster that
runs the query. The lag is computed from the commits that the moment does not see. Before the job begins, the moment is
recorded for the cleaner, and the tables are bound again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.bound_tables import BoundTable
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.history import EarlierTable, NotReadableError, TableHistory, bind_earlier
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.read_tables import ReadTable
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.routes import Candidate, Lack, Route
from airflow_hivex.core.model.snapshots import AsOf, MaxLag, Moment, lag_text
from airflow_hivex.core.settings import MAX_LAG
from airflow_hivex.core.transactions.shared_state import read_as_of

log = logging.getLogger(__name__)

_MOST_MOMENTS = 50
_LAGS = ("stale", "missing")

ReadContents = Callable[[StoredTable, Predicate | None], TableContents]


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """A query's tables as of the moment of a replication, in the order of the references, and the route."""

    route: Route
    bound: tuple[BoundTable, ...] = ()
    as_of: AsOf | None = None


def read_earlier(
    context: StatementContext,
    route: Route,
    tables: Sequence[ReadTable],
    contents: ReadContents,
    running: Running | None,
) -> EarlierRead:
    """Return a query's tables as of the moment of a replication, and the route.

    Call this function if the query has no route to current rows. If no candidate cluster can serve the moment of a
    replication, the route names no cluster, and has a reason for each candidate.
    """
    limit = context.session.max_lag
    catalog = context.services.catalog
    histories: dict[int, TableHistory] = {}
    candidates = []
    for candidate in route.candidates:
        if not candidate.lacks or any(lack.reason not in _LAGS for lack in candidate.lacks):
            candidates.append(candidate)
            continue
        clusters = [each.cluster for each in route.candidates]
        for each in tables:
            if each.table.id not in histories:
                histories[each.table.id] = catalog.history(each.table, clusters)
        now_ms = context.services.clock()
        search = _Search(tables, contents, histories, candidate.cluster, limit, now_ms)
        try:
            moment, found = search.newest()
            if running is not None:
                _keep(context, running, moment)
                # Cleaners that begin from now on keep the directories that the moment sees.
                fresh = {each.table.id: catalog.history(each.table, clusters) for each in tables}
                search = replace(search, contents=_uncached(context, clusters), histories=fresh)
                found = search.at(moment)
        except NotReadableError as error:
            lack = Lack("", "lags", candidate.cluster, problem=str(error))
            candidates.append(replace(candidate, lacks=(*candidate.lacks, lack)))
            continue
        as_of = _as_of(moment, found, now_ms)
        candidates.append(Candidate(candidate.cluster, candidate.why, ()))
        reason = f"The statement runs on cluster {candidate.cluster} ({candidate.why}), {as_of.describe()}."
        log.info("%s", reason)
        taken = Route(candidate.cluster, reason, tuple(candidates))
        return EarlierRead(taken, tuple(each.bound for each in found), as_of)
    return EarlierRead(replace(route, candidates=tuple(candidates)))


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for a moment at which a cluster can serve all tables of a query."""

    tables: Sequence[ReadTable]
    contents: ReadContents
    histories: Mapping[int, TableHistory]
    cluster: str
    limit: MaxLag
    now_ms: int

    def newest(self) -> tuple[Moment, list[EarlierTable]]:
        """Return a pair: the newest moment that can be read, and the tables as of this moment.

        Raises:
            NotReadableError: no moment can be read; the error says why the newest moment cannot be read.
        """
        moments = {
            moment.id: moment
            for each in self.tables
            for moment in self.histories[each.table.id].moments.get(self.cluster, ())
        }
        newest_first = sorted(moments.values(), key=lambda each: each.id or 0, reverse=True)
        reason = "no moment of its copies is known; replicate the tables once more"
        for number, moment in enumerate(newest_first[:_MOST_MOMENTS]):
            try:
                return moment, self.at(moment)
            except NotReadableError as error:
                if number == 0:
                    reason = str(error)
                if isinstance(error, _TooOldError):
                    break
        raise NotReadableError(reason)

    def at(self, moment: Moment) -> list[EarlierTable]:
        """Return the tables as of a moment.

        Raises:
            NotReadableError: a table cannot be read as of the moment, or the moment lags more than is accepted.
        """
        time = to_datetime(moment.taken_ms).isoformat()
        found = []
        for each in self.tables:
            table, predicate = each.table, each.predicate
            contents = each.shown(self.contents(table, predicate))
            try:
                found.append(bind_earlier(table, contents, predicate, self.histories[table.id], moment, self.cluster))
            except NotReadableError as error:
                raise NotReadableError(f"the moment {time} of its copies cannot be read, since {error}") from None
        lag_ms, commits = _lag(found, self.now_ms)
        if not self.limit.accepts(lag_ms, commits):
            raise _TooOldError(
                f"its copies can be read as of {time}, {lag_text(lag_ms, commits)} behind, and "
                f"{MAX_LAG} accepts {self.limit}"
            )
        return found


class _TooOldError(NotReadableError):
    """The moment lags more than the session accepts, so no older moment needs to be tried."""


def _lag(found: Sequence[EarlierTable], now_ms: int) -> tuple[int, int]:
    """Return a pair: the age of the oldest unseen commit in milliseconds, and the number of unseen commits."""
    unseen: dict[int, int] = {}
    for each in found:
        for txn_id, time_ms in (each.unseen or {}).items():
            unseen[txn_id] = min(time_ms, unseen.get(txn_id, time_ms))
    return (max(0, now_ms - min(unseen.values())) if unseen else 0), len(unseen)


def _as_of(moment: Moment, found: Sequence[EarlierTable], now_ms: int) -> AsOf:
    lag_ms, commits = _lag(found, now_ms)
    write_ids = {each.bound.table.full_name: each.write_id for each in found if each.bound.table.is_transactional}
    return AsOf(to_datetime(moment.taken_ms), lag_ms, commits, write_ids)


def _keep(context: StatementContext, running: Running, moment: Moment) -> None:
    """Record the moment as the transaction's snapshot, so that the cleaner keeps the directories of this moment."""

    def work(connection: Connection) -> None:
        read_as_of(connection, running.txn_id, moment.valid_txns)

    context.services.store.write(work, name="read as of")


def _uncached(context: StatementContext, clusters: Sequence[str]) -> ReadContents:
    def contents(table: StoredTable, predicate: Predicate | None) -> TableContents:
        snapshot = context.services.catalog.snapshot([(table.database, table.name)])
        return context.services.catalog.contents(snapshot, table, predicate, frozenset(clusters))

    return contents
