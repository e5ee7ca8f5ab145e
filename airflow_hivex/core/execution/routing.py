"""The steps of a routed statement: bind its names, acquire its locks, take its snapshot, choose its cluster."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table, route_input
from airflow_hivex.core.catalog.history import bind_version
from airflow_hivex.core.clusters.router import choose_cluster
from airflow_hivex.core.errors import (
    HivexError,
    NoUsableClusterError,
    RoutingError,
)
from airflow_hivex.core.execution import read_versions
from airflow_hivex.core.execution.binding import BoundStatement, bind
from airflow_hivex.core.execution.bounded_staleness import read_earlier
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.insert_targets import InsertedRows, check_insert, inserts_of
from airflow_hivex.core.execution.locking import (
    LockPlan,
    acquire,
    added_partitions,
    check_not_outrun,
    late_locks,
    lock_plan,
)
from airflow_hivex.core.execution.read_tables import (
    StatementReading,
    statement_snapshot,
)
from airflow_hivex.core.execution.statement_record import in_step
from airflow_hivex.core.execution.statement_transactions import OutrunError
from airflow_hivex.core.model.clusters import Cluster, Health
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.routes import Route, RouteOutput
from airflow_hivex.core.model.snapshots import AsOf, QualifiedName
from airflow_hivex.core.parser.statements import (
    ChangeRows,
    CreateTable,
    Insert,
    RoutedStatement,
)
from airflow_hivex.core.settings import MAX_LAG
from airflow_hivex.core.transactions import pending_writes

S = TypeVar("S", bound=RoutedStatement)


@dataclass(frozen=True, slots=True)
class RoutedQuery(Generic[S]):
    """A bound and routed statement: the bound table of each reference, the targets of writes, and the route.

    In ``statement``, the names of ``views`` are replaced by queries, and ROW__ID by columns of row ids. In ``views``, a
    temporary view has an empty database name. ``problems`` has the error of each cluster that cannot be used now.
    ``rows`` has an item for each INSERT: the partition and the columns of its rows. If a query reads lagging copies,
    ``as_of`` is the time of their rows, else None.
    """

    statement: S
    views: frozenset[QualifiedName]
    bound: tuple[BoundTable, ...]
    targets: tuple[StoredTable, ...]
    rows: tuple[InsertedRows, ...]
    route: Route
    problems: Mapping[str, HivexError] = field(default_factory=dict)
    as_of: AsOf | None = None

    @property
    def target(self) -> StoredTable:
        """Return the target of a statement that writes exactly one table."""
        (target,) = self.targets
        return target

    @property
    def row_ids(self) -> tuple[str | None, ...]:
        """Return for each table of ``bound`` the name of its row id column, or None if its row ids are not read."""
        return tuple(reference.row_id for reference in self.statement.references)


@in_step("plan")
def route(
    context: StatementContext,
    statement: S,
    running: Running | None = None,
    *,
    runs_job: bool = True,
    may_lag: bool = False,
    declarations: dict[str, str] | None = None,
    locks: Sequence[LockComponent] = (),
) -> RoutedQuery[S]:
    """Return the statement with its tables bound and its cluster chosen.

    With ``may_lag`` the query reads lagging copies if the session accepts them and no cluster has current copies.
    Without ``runs_job``, and for an INSERT of constants, the cluster must have the files, but need not be able to run
    jobs.

    With ``running`` one request acquires the statement's locks and the additional ``locks``. If possible, this request
    also opens the statement's own transaction. Then the snapshot is taken. Without ``running`` nothing is locked, and
    the statement is bound in the current snapshot. In an open transaction of the session, the current snapshot is the
    transaction's snapshot with the transaction's writes. The permanent functions that the statement calls are added to
    those of ``running``, or to ``declarations``.

    The call takes one round trip for the first snapshot, one for the locks and the second snapshot, and one for each
    table that is read. If the statement must wait for locks, the call takes more.

    Raises:
        NoSuchTableError, NoSuchDatabaseError: a table does not exist.
        LockError, DeadlockError: the locks were not acquired.
        OutrunError: while the statement waited for its locks, a table of the statement was changed or replaced.
        InvalidOperationError: ROW__ID is read from a table without row ids, or can mean several tables.
    """
    bound = bind(context, statement, running, declarations if running is None else running.functions)
    reading = StatementReading(context, bound.snapshot, bound.names)
    if running is None:
        return _earlier(
            context, _routed(context, bound, reading, None, runs_job=runs_job), reading, None, may_lag=may_lag
        )
    wanted = lock_plan(context, bound.statement, reading)
    # With two requests, this statement and another one that waits between them could wait for each other.
    components = (*locks, *wanted.components)
    answers = acquire(context, running, components, write_ids_of=wanted.write_ids_of, also=reading.asking())
    if answers is None:
        check_not_outrun(context, running, wanted.updated)
    have = set(wanted.components)
    for _ in range(int(context.services.settings["hive.txn.retrysnapshot.max.count"])):
        reading.take_snapshot(running, answers)
        bound.check_row_ids(reading.snapshot)
        routed = _routed(context, bound, reading, running, runs_job=runs_job)
        late = [lock for lock in _late_locks(context, routed, wanted) if lock not in have]
        if not late:
            break
        answers = acquire(context, running, late)
        have.update(late)
    return _earlier(context, routed, reading, running, may_lag=may_lag)


def _late_locks(context: StatementContext, routed: RoutedQuery[S], wanted: LockPlan) -> list[LockComponent]:
    """Return the locks of partitions that other transactions have added since the statement requested its locks.

    Raises:
        OutrunError: a target is another table now, or an UPDATE, DELETE or MERGE would miss a partition.
    """
    for target, locked_id in zip(routed.targets, wanted.target_ids, strict=True):
        if target.id != locked_id:
            raise OutrunError(f"table {target.full_name} was dropped and created again while the statement waited")
    bound = routed.bound
    if isinstance(routed.statement, ChangeRows):
        if wanted.changed is not None and added_partitions(bound[0], wanted.changed):
            raise OutrunError(f"partitions of {bound[0].table.full_name} were added while it waited")
        bound = bound[1:]
    return [lock for each in bound for lock in late_locks(context, wanted, each)]


def _earlier(
    context: StatementContext,
    routed: RoutedQuery[S],
    reading: StatementReading,
    running: Running | None,
    *,
    may_lag: bool,
) -> RoutedQuery[S]:
    """Return the query, with a route to lagging copies if it has no other route and the session accepts such copies.

    A transaction of several statements never reads lagging copies.
    """
    lacks = (lack for candidate in routed.route.candidates for lack in candidate.lacks)
    is_stale = any(lack.reason == "stale" for lack in lacks)
    if routed.route.cluster is not None or not context.session.max_lag.accepts_any or not is_stale:
        return routed
    if any(reference.version is not None for reference in routed.statement.references):
        # The statement itself names its version.
        return routed
    if not may_lag or context.session.transaction is not None:
        reason = f"{routed.route.reason} {MAX_LAG} holds for a SELECT outside of transactions only."
        return replace(routed, route=replace(routed.route, reason=reason))
    candidates = reading.candidates(routed.statement)
    found = read_earlier(
        context,
        routed.route,
        [reading.read(reference) for reference in routed.statement.references],
        lambda table, predicate: reading.contents(table, predicate, candidates),
        running,
    )
    if found.as_of is None:
        return replace(routed, route=found.route)
    return replace(routed, route=found.route, bound=found.bound, as_of=found.as_of)


def take_snapshot(context: StatementContext, running: Running) -> None:
    """Take the snapshot of a statement that has its locks and needs no route."""
    statement_snapshot(context, (), running)


def _routed(
    context: StatementContext,
    bound: BoundStatement[S],
    reading: StatementReading,
    running: Running | None,
    *,
    runs_job: bool,
) -> RoutedQuery[S]:
    """Return the statement with a cluster, chosen by the tables that it reads and writes in its current snapshot."""
    statement = bound.statement
    targets = tuple(reading.table(name) for name in statement.targets)
    inserts = () if running is None else inserts_of(statement)
    rows = tuple(check_insert(insert, table) for insert, table in zip(inserts, targets, strict=bool(inserts)))
    outputs = [RouteOutput(table.full_name, table.storage.primary.cluster) for table in targets]
    if isinstance(statement, CreateTable):
        outputs.append(RouteOutput(".".join(context.session.qualify(statement.table)), None))
    tables = _read_tables(context, statement, reading, running)
    clusters = context.services.clusters
    writes_constants = isinstance(statement, Insert) and statement.rows is not None
    health = _Health(context, runs_job=runs_job and not writes_constants)
    chosen = choose_cluster(
        [route_input(each) for each in tables],
        outputs,
        clusters=clusters.names,
        default=_default_cluster(context, statement),
        pinned=context.session.cluster,
        use_default=clusters.use_default,
        health=health,
    )
    return RoutedQuery(statement, bound.views, tables, targets, rows, chosen, health.problems)


def _read_tables(
    context: StatementContext, statement: RoutedStatement, reading: StatementReading, running: Running | None
) -> tuple[BoundTable, ...]:
    """Return the table of each reference of a statement, in its snapshot or in the version that the reference names."""
    own: Mapping[int, Mapping[str | None, Sequence[WrittenDirectory]]] = {}
    joined = context.joined(running)
    if joined is not None and statement.references:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, joined.txn_id)
    candidates = reading.candidates(statement)
    found = []
    for reference in statement.references:
        read = reading.read(reference)
        table, predicate = read.table, read.predicate
        if reference.version is not None:
            version = read_versions.find(context, reading.snapshot, table, reference.version, running)
            contents = read.shown(read_versions.contents_of(context, table, predicate, candidates))
            at = (version.version, version.floors)
            found.append(bind_version(table, contents, predicate, reading.snapshot, candidates, *at))
            continue
        contents = reading.contents(table, predicate, candidates)
        written = read.shown_of_own(own.get(table.id, {}), contents)
        found.append(bind_table(table, read.shown(contents), predicate, reading.snapshot, candidates, written))
    return tuple(found)


def _default_cluster(context: StatementContext, statement: RoutedStatement) -> str:
    """Return the cluster of a statement that reads no table: for a new table, the cluster of its database."""
    if isinstance(statement, CreateTable) and not statement.references:
        return context.home_cluster(context.session.qualify(statement.table)[0])
    return context.services.clusters.default


class _Health:
    """The health of the clusters for which the router asks, and the problems of these clusters."""

    def __init__(self, context: StatementContext, *, runs_job: bool) -> None:
        self.problems: dict[str, HivexError] = {}
        self._context = context
        self._runs_job = runs_job

    def __call__(self, cluster: str) -> Health:
        found = self._context.health(cluster, runs_job=self._runs_job)
        if found.problem is not None:
            self.problems[cluster] = found.problem
        return found


def chosen_cluster(context: StatementContext, routed: RoutedQuery[Any]) -> Cluster:
    """Return the cluster of a route.

    Raises:
        RoutingError: no cluster can run the statement; the ``route`` of the error says what each cluster lacks.
        NoUsableClusterError: clusters have all the files, but cannot be used now.
        HivexError: the only cluster that could run the statement cannot be used now; RootMissingError, for example.
    """
    return _cluster_of(context, routed.route, routed.problems)


def writing_cluster(context: StatementContext, table: StoredTable) -> Cluster:
    """Return the primary cluster of a table, for a statement that changes its files without a query.

    Raises:
        RoutingError: the session is pinned to another cluster.
        HivexError: the cluster cannot be used now; RootMissingError, for example.
    """
    health = _Health(context, runs_job=False)
    chosen = choose_cluster(
        (),
        [RouteOutput(table.full_name, table.storage.primary.cluster)],
        clusters=context.services.clusters.names,
        default=context.services.clusters.default,
        pinned=context.session.cluster,
        health=health,
    )
    return _cluster_of(context, chosen, health.problems)


def _cluster_of(context: StatementContext, found: Route, problems: Mapping[str, HivexError]) -> Cluster:
    if context.session.record is not None:
        context.session.record.note_route(found)
    if found.cluster is None:
        raise _refusal(found, problems)
    return context.services.clusters.get(found.cluster)


def _refusal(found: Route, problems: Mapping[str, HivexError]) -> HivexError:
    """Return the error of a statement without a usable cluster.

    If only one cluster has a problem, the error is this problem.
    """
    if len(found.candidates) == 1 and found.candidates[0].is_unusable and found.alternative is None:
        # A remembered problem may be raised by other threads, too.
        return copy.copy(problems[found.candidates[0].cluster])
    return NoUsableClusterError(found) if found.may_pass else RoutingError(found)
