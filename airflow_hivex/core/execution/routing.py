"""Binding and routing: what a statement reads and writes, under which locks, in which snapshot, on which cluster."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from airflow_hivex.core.catalog.binding import BoundTable, bind, route_input
from airflow_hivex.core.catalog.versions import bind_version
from airflow_hivex.core.clusters.router import choose_cluster
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoUsableClusterError,
    RoutingError,
)
from airflow_hivex.core.execution import versions
from airflow_hivex.core.execution.bounded_staleness import ReadTable, read_earlier
from airflow_hivex.core.execution.called_functions import with_functions
from airflow_hivex.core.execution.closed_names import check_views
from airflow_hivex.core.execution.context import JoinedTransaction, Running, StatementContext
from airflow_hivex.core.execution.linked_names import Names, shown, shown_of_own
from airflow_hivex.core.execution.lock_plans import added_partitions, late_locks, lock_plan
from airflow_hivex.core.execution.locking import acquire, check_not_outrun
from airflow_hivex.core.execution.row_ids import with_row_ids
from airflow_hivex.core.execution.snapshot import (
    StatementReading,
    candidate_clusters,
    reference_predicate,
    shared_snapshot,
    statement_snapshot,
)
from airflow_hivex.core.execution.table_changes import changes_in
from airflow_hivex.core.execution.transactions import OutrunError
from airflow_hivex.core.model.clusters import Cluster, Health
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.routes import Route, RouteOutput
from airflow_hivex.core.model.snapshots import AsOf, QualifiedName, Snapshot
from airflow_hivex.core.model.versions import VersionRange
from airflow_hivex.core.parser.grammar.views import expanded
from airflow_hivex.core.parser.statements import (
    ChangeRows,
    CreateTable,
    Insert,
    RoutedStatement,
    TableName,
    TableReference,
    is_stored,
)
from airflow_hivex.core.settings import ALLOW_CODE, MAX_LAG
from airflow_hivex.core.transactions import pending_writes

S = TypeVar("S", bound=RoutedStatement)

_DEEPEST_VIEW = 100


@dataclass(frozen=True, slots=True)
class RoutedQuery(Generic[S]):
    """A statement bound to a snapshot and routed: one bound table a reference, the targets of its writes, the route.

    ``statement`` has the queries of ``views`` in place of their names, and the columns of row ids in place of ROW__ID;
    temporary views are those of the database with the empty name.
    ``problems`` are those of the clusters that cannot be used now. ``as_of`` is the earlier moment that is read on a
    cluster whose copies lag.
    """

    statement: S
    views: frozenset[QualifiedName]
    bound: tuple[BoundTable, ...]
    targets: tuple[StoredTable, ...]
    route: Route
    problems: Mapping[str, HivexError] = field(default_factory=dict)
    as_of: AsOf | None = None

    @property
    def target(self) -> StoredTable:
        """Return the table that a statement writes that writes one."""
        (target,) = self.targets
        return target

    @property
    def row_ids(self) -> tuple[str | None, ...]:
        """Return the column with the ids of its rows that each of ``bound`` is read with, if any."""
        return tuple(reference.row_id for reference in self.statement.references)


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
    """Bind a statement's tables and choose its cluster.

    A query that ``may_lag`` reads copies that lag, as far as the session accepts that and no cluster has current ones.

    Without ``runs_job`` it does not matter whether jobs can run on the cluster, only whether its files are there; nor
    does it for an INSERT of constants.

    With ``running`` one request first acquires the statement's locks together with the other ``locks``. If possible it
    also opens the statement's own transaction, which takes its snapshot after that. Without ``running`` nothing is
    locked, and the statement is bound in the current snapshot. In an open transaction of the session, that is the
    transaction's snapshot with its own writes. The permanent functions that the statement calls are added to those of
    ``running``, or to ``declarations``.

    A table that was read for the locks is not read again unless it has changed meanwhile. So besides those for
    the locks there are two round trips for the snapshots before and after them, and one for each table that is read.

    Raises:
        NoSuchTableError, NoSuchDatabaseError: a table does not exist.
        LockError, DeadlockError, OutrunError: the locks were not acquired, or too late.
        InvalidOperationError: a table whose ROW__ID is read has no row ids, or several tables have them.
    """
    statement, snapshot, views, names = _without_views(context, statement, running)
    _refuse_code(context, statement)
    statement = with_functions(context, statement, declarations if running is None else running.functions)
    reading = StatementReading(context, snapshot, names)
    if running is None:
        routed = _bind_and_route(context, statement, views, reading, None, runs_job=runs_job)
        return _earlier(context, routed, reading, None, may_lag=may_lag)
    wanted = lock_plan(context, statement, reading)
    # In two requests, another statement that waits between them would wait in a circle with this one.
    acquire(context, running, (*locks, *wanted.components), write_ids_of=wanted.write_ids_of)
    check_not_outrun(context, running, wanted.updated)
    have = set(wanted.components)
    for _ in range(int(context.services.settings["hive.txn.retrysnapshot.max.count"])):
        reading.take_snapshot(running)
        routed = _bind_and_route(context, statement, views, reading, running, runs_job=runs_job)
        for target, locked_id in zip(routed.targets, wanted.target_ids, strict=True):
            if target.id != locked_id:
                raise OutrunError(f"table {target.full_name} was dropped and created again while the statement waited")
        # Partitions that others have added since the locks were asked for.
        bound = routed.bound
        if isinstance(statement, ChangeRows):
            if wanted.changed is not None and added_partitions(bound[0], wanted.changed):
                raise OutrunError(f"partitions of {bound[0].table.full_name} were added while it waited")
            bound = bound[1:]
        late = [lock for each in bound for lock in late_locks(context, wanted, each) if lock not in have]
        if not late:
            break
        acquire(context, running, late)
        have.update(late)
    return _earlier(context, routed, reading, running, may_lag=may_lag)


def _earlier(
    context: StatementContext,
    routed: RoutedQuery[S],
    reading: StatementReading,
    running: Running | None,
    *,
    may_lag: bool,
) -> RoutedQuery[S]:
    """Return the query with copies that lag, where it has no other route and its session accepts them.

    A transaction of several statements reads one snapshot, and all that it writes is based on current rows.
    """
    lacks = (lack for candidate in routed.route.candidates for lack in candidate.lacks)
    is_stale = any(lack.reason == "stale" for lack in lacks)
    if routed.route.cluster is not None or not context.session.max_lag.accepts_any or not is_stale:
        return routed
    if any(reference.version is not None for reference in routed.statement.references):
        # A version is what the statement says it is.
        return routed
    if not may_lag or context.session.transaction is not None:
        reason = f"{routed.route.reason} {MAX_LAG} holds for a SELECT outside of transactions only."
        return replace(routed, route=replace(routed.route, reason=reason))
    candidates = candidate_clusters(context, routed.statement, reading)
    tables = []
    for reference in routed.statement.references:
        table, link = reading.table(reference.table), reading.names.link(reference.table)
        tables.append(ReadTable(table, reference_predicate(table, reference, link), partial(shown, link=link)))
    found = read_earlier(
        context,
        routed.route,
        tables,
        lambda table, predicate: reading.contents(table, predicate, candidates),
        running,
    )
    if found.as_of is None:
        return replace(routed, route=found.route)
    return replace(routed, route=found.route, bound=found.bound, as_of=found.as_of)


def take_snapshot(context: StatementContext, running: Running) -> None:
    """Take the snapshot of a statement that has its locks and is not routed."""
    statement_snapshot(context, (), running)


def _without_views(
    context: StatementContext, statement: S, running: Running | None
) -> tuple[S, Snapshot, frozenset[QualifiedName], Names]:
    """Return the statement with the queries of its views instead of their names, its tables, the views, and its names.

    One round trip, and one more for each depth of views, and for links.

    Raises:
        InvalidObjectError: views read each other without an end.
        ForeignNameError: a view of a closed namespace reads a table of another one.
    """
    session = context.session
    known: dict[QualifiedName, StoredTable] = {}
    names = Names(context)
    changes: dict[tuple[TableName, VersionRange], str] = {}

    def text_of(reference: TableReference) -> str | None:
        if not is_stored(reference.table):
            return None
        if reference.changes is not None:
            key = (reference.table, reference.changes)
            if key not in changes:
                changes[key] = changes_in(context, *key)
            return changes[key]
        temporary = session.objects.view(reference.table)
        return known[names.of(reference.table)].view_expanded_text if temporary is None else temporary.text

    joined = _joined(context, running)
    txn_id = joined.txn_id if joined is not None else None if running is None else running.opened_id
    valid_txns = None if joined is None else joined.snapshot if running else shared_snapshot(context, joined)
    views: set[QualifiedName] = set()
    for _ in range(_DEEPEST_VIEW):
        temporary = {each.table.name for each in statement.references if session.objects.view(each.table) is not None}
        named = [each.table for each in statement.references if session.objects.view(each.table) is None]
        names.look_up(named)
        wanted = {names.of(name) for name in named}
        wanted |= {session.qualify(name) for name in statement.targets}
        snapshot = context.services.catalog.snapshot(
            sorted(wanted), txn_id, valid_txns=valid_txns, known=known.values()
        )
        known.update(snapshot.tables)
        viewed = {
            names.of(each.table) for each in statement.view_references if session.objects.view(each.table) is None
        }
        found = {name for name in viewed if known[name].is_view}
        for view in found:
            _check_read(statement, known[view])
        has_changes = any(each.changes is not None for each in statement.references)
        if not found and not temporary and not has_changes:
            return statement, snapshot, frozenset(views), names
        views |= found
        views.update(("", name) for name in temporary)
        statement = expanded(statement, text_of, context.parameters, session.database)
        check_views(context, statement, {name: known[name] for name in found})
    name = ".".join(sorted(found or wanted)[0])
    raise InvalidObjectError("view", name, f"its views are nested deeper than {_DEEPEST_VIEW}")


def _joined(context: StatementContext, running: Running | None) -> JoinedTransaction | None:
    """Return the transaction of several statements in which a statement is bound, also one that does not run."""
    return context.session.transaction if running is None else running.joined


def _bind_and_route(
    context: StatementContext,
    statement: S,
    views: frozenset[QualifiedName],
    reading: StatementReading,
    running: Running | None,
    *,
    runs_job: bool,
) -> RoutedQuery[S]:
    session, names = context.session, reading.names
    targets = tuple(reading.table(name) for name in statement.targets)
    outputs = [RouteOutput(table.full_name, table.storage.primary.cluster) for table in targets]
    if isinstance(statement, CreateTable):
        outputs.append(RouteOutput(".".join(session.qualify(statement.table)), None))
    own: Mapping[int, Mapping[str | None, Sequence[WrittenDirectory]]] = {}
    joined = _joined(context, running)
    if joined is not None:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, joined.txn_id)
    references = statement.references
    candidates = candidate_clusters(context, statement, reading)
    bound = []
    for reference in references:
        table, link = reading.table(reference.table), names.link(reference.table)
        _check_read(statement, table)
        predicate = reference_predicate(table, reference, link)
        if reference.version is not None:
            found_version = versions.find(context, reading.snapshot, table, reference.version, running)
            contents = shown(versions.contents_of(context, table, predicate, candidates), link)
            at = (found_version.version, found_version.floors)
            bound.append(bind_version(table, contents, predicate, reading.snapshot, candidates, *at))
            continue
        contents = reading.contents(table, predicate, candidates)
        written = shown_of_own(own.get(table.id, {}), contents, link)
        bound.append(bind(table, shown(contents, link), predicate, reading.snapshot, candidates, written))
    found = {reference.table: each.table for reference, each in zip(references, bound, strict=True)}
    statement = with_row_ids(statement, lambda reference: found[reference.table])
    clusters = context.services.clusters
    writes_constants = isinstance(statement, Insert) and statement.rows is not None
    health = _Health(context, runs_job=runs_job and not writes_constants)
    chosen = choose_cluster(
        [route_input(each) for each in bound],
        outputs,
        clusters=clusters.names,
        default=_default_cluster(context, statement),
        pinned=session.cluster,
        use_default=clusters.use_default,
        health=health,
    )
    return RoutedQuery(statement, views, tuple(bound), targets, chosen, health.problems)


def _check_read(statement: RoutedStatement, table: StoredTable) -> None:
    """Refuse a table or view that only another engine reads.

    Raises:
        InvalidOperationError: it is one.
    """
    if table.not_read:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_read)


def _default_cluster(context: StatementContext, statement: RoutedStatement) -> str:
    """Return the cluster of a statement that names no table; a new table belongs where its database's tables are."""
    if isinstance(statement, CreateTable) and not statement.references:
        return context.home_cluster(context.session.qualify(statement.table)[0])
    return context.services.clusters.default


class _Health:
    """The health of the clusters that the router asks for, and the problems that it has found."""

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
        RoutingError: no cluster can run the statement; its ``route`` says what each lacks.
        NoUsableClusterError: one has everything, and cannot be used now.
        HivexError: the only cluster that could run it cannot be used now; RootMissingError, for example.
    """
    return _cluster_of(context, routed.route, routed.problems)


def writing_cluster(context: StatementContext, table: StoredTable) -> Cluster:
    """Return the cluster of a statement that changes files of a table without a query: its primary one.

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
    if found.cluster is None:
        raise _refusal(found, problems)
    return context.services.clusters.get(found.cluster)


def _refusal(found: Route, problems: Mapping[str, HivexError]) -> HivexError:
    """Return why no cluster can run a statement: in the words of the problem itself, if that is all there is to say."""
    if len(found.candidates) == 1 and found.candidates[0].is_unusable and found.alternative is None:
        # A problem is remembered, and other threads may raise it, too.
        return copy.copy(problems[found.candidates[0].cluster])
    return NoUsableClusterError(found) if found.may_pass else RoutingError(found)


def _refuse_code(context: StatementContext, statement: RoutedStatement) -> None:
    """Refuse functions that run any code, in the statement itself and in the views that it reads.

    Raises:
        InvalidOperationError: there is one, and ``hivex.allow.code.execution`` is off.
    """
    if context.services.settings[ALLOW_CODE]:
        return
    found = frozenset().union(*(query.code_functions for query in statement.queries))
    if found:
        raise InvalidOperationError(
            "A call of",
            ", ".join(sorted(found)),
            f"it runs any code on the cluster; an administrator may allow it by the setting {ALLOW_CODE}",
        )
