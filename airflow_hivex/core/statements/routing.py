"""Binding and routing: what a statement reads and writes, under which locks, in which snapshot, on which cluster."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from airflow_hivex.core.catalog.binding import BoundTable, bind, route_input
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.pruning import partition_predicate
from airflow_hivex.core.clusters.router import choose_cluster
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchTableError,
    NoUsableClusterError,
    RoutingError,
)
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.health import Health
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.locks import DataOperation, LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import And, Predicate
from airflow_hivex.core.model.routes import Route, RouteOutput
from airflow_hivex.core.model.snapshots import AsOf, QualifiedName, Snapshot
from airflow_hivex.core.model.statements import (
    ChangeRows,
    CreateTable,
    Insert,
    MultiInsert,
    RoutedStatement,
    TableName,
    TableReference,
)
from airflow_hivex.core.settings import ALLOW_CODE, MAX_LAG
from airflow_hivex.core.sql.views import expanded
from airflow_hivex.core.statements.change_targets import check_change
from airflow_hivex.core.statements.closed_names import check_views
from airflow_hivex.core.statements.context import JoinedTransaction, Running, StatementContext
from airflow_hivex.core.statements.insert_targets import check_insert, static_partition
from airflow_hivex.core.statements.lagging import ReadTable, read_earlier
from airflow_hivex.core.statements.linked_names import Names, shown, shown_of_own
from airflow_hivex.core.statements.locking import acquire, check_not_outrun
from airflow_hivex.core.statements.row_ids import with_row_ids
from airflow_hivex.core.statements.transactions import OutrunError
from airflow_hivex.core.transactions import pending_writes
from airflow_hivex.core.transactions.joined import share_snapshot, stored_snapshot

S = TypeVar("S", bound=RoutedStatement)

_DEEPEST_VIEW = 100


@dataclass(frozen=True, slots=True)
class RoutedQuery(Generic[S]):
    """A statement bound to a snapshot and routed: one bound table a reference, the targets of its writes, the route.

    ``statement`` has the queries of ``views`` in place of their names, and the columns of row ids in place of ROW__ID.
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
) -> RoutedQuery[S]:
    """Bind a statement's tables and choose its cluster.

    A query that ``may_lag`` reads copies that lag, as far as the session accepts that and no cluster has current ones.

    Without ``runs_job`` it does not matter whether jobs can run on the cluster, only whether its files are there; nor
    does it for an INSERT of constants.

    With ``running`` the statement's locks are had first, and a transaction of its own takes its
    snapshot after that; without, it is bound in the snapshot of now and nothing is locked.

    What was read for the locks is not read again where nobody has changed the table meanwhile. So besides those for
    the locks there are two round trips for the snapshots before and after them, and one for each table that is read.

    Raises:
        NoSuchTableError, NoSuchDatabaseError: a table does not exist.
        LockError, DeadlockError, OutrunError: the locks were not acquired, or too late.
        InvalidOperationError: a table whose ROW__ID is read has none, or several have one.
    """
    statement, snapshot, views, names = _without_views(context, statement, running)
    _refuse_code(context, statement)
    reading = _Reading(context, snapshot, names)
    if running is None:
        routed = _bind_and_route(context, statement, views, reading, None, runs_job=runs_job)
        return _earlier(context, routed, reading, None, may_lag=may_lag)
    wanted = _lock_plan(context, statement, reading)
    acquire(context, running, wanted.components)
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
            if wanted.changed is not None and _added(bound[0], wanted.changed):
                raise OutrunError(f"partitions of {bound[0].table.full_name} were added while it waited")
            bound = bound[1:]
        late = [lock for each in bound for lock in _late(context, wanted, each) if lock not in have]
        if not late:
            break
        acquire(context, running, late)
        have.update(late)
    return _earlier(context, routed, reading, running, may_lag=may_lag)


def _earlier(
    context: StatementContext,
    routed: RoutedQuery[S],
    reading: _Reading,
    running: Running | None,
    *,
    may_lag: bool,
) -> RoutedQuery[S]:
    """Return the query with copies that lag, where it has no other route and its session accepts them.

    A transaction of several statements reads one snapshot, and all that it writes is based on rows of now.
    """
    lacks = (lack for candidate in routed.route.candidates for lack in candidate.lacks)
    is_stale = any(lack.reason == "stale" for lack in lacks)
    if routed.route.cluster is not None or not context.session.max_lag.accepts_any or not is_stale:
        return routed
    if not may_lag or context.session.transaction is not None:
        reason = f"{routed.route.reason} {MAX_LAG} holds for a SELECT outside of transactions only."
        return replace(routed, route=replace(routed.route, reason=reason))
    candidates = _candidates(context, routed.statement, reading)
    tables = []
    for reference in routed.statement.references:
        table, link = reading.table(reference.table), reading.names.link(reference.table)
        tables.append(ReadTable(table, _predicate(table, reference, link), partial(shown, link=link)))
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
    _snapshot(context, (), running)


class _Reading:
    """What a statement has read of its tables, in the snapshot that it has by now.

    Contents are read again where their table has changed since (``Snapshot.agrees_with``).
    """

    def __init__(self, context: StatementContext, snapshot: Snapshot, names: Names) -> None:
        self.snapshot = snapshot
        self.names = names
        self._context = context
        self._read: dict[tuple[int, Predicate | None], tuple[Snapshot, Collection[str], TableContents]] = {}

    def take_snapshot(self, running: Running) -> None:
        """Go on to the statement's own snapshot, after it has waited for its locks.

        Raises:
            OutrunError: the source of a link was renamed or dropped meanwhile.
        """
        names = list(self.snapshot.tables)
        try:
            self.snapshot = _snapshot(self._context, names, running, known=self.snapshot.tables.values())
        except NoSuchTableError as error:
            if not self.names.have_links:
                raise
            raise OutrunError("the source of a link was renamed or dropped while the statement waited") from error
        if not self.names.are_of(self.snapshot):
            raise OutrunError("the source of a link was renamed or dropped while the statement waited")

    def table(self, name: TableName) -> StoredTable:
        """Return the table of a name, for a link its source."""
        return self.snapshot.tables[self.names.of(name)]

    def contents(self, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]) -> TableContents:
        """Return the partitions of a table that ``predicate`` leaves in the snapshot, with copies on ``clusters``."""
        key = (table.id, predicate)
        if key in self._read:
            earlier, on, contents = self._read[key]
            if on == clusters and self.snapshot.agrees_with(earlier, table):
                return contents
        contents = self._context.services.catalog.contents(self.snapshot, table, predicate, clusters)
        self._read[key] = (self.snapshot, clusters, contents)
        return contents


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

    def text_of(reference: TableReference) -> str | None:
        return known[names.of(reference.table)].view_expanded_text

    txn_id = None if running is None else running.txn_id
    valid_txns = None if running is None or running.joined is None else running.joined.snapshot
    views: set[QualifiedName] = set()
    for _ in range(_DEEPEST_VIEW):
        names.look_up(reference.table for reference in statement.references)
        wanted = {names.of(reference.table) for reference in statement.references}
        wanted |= {session.qualify(name) for name in statement.targets}
        snapshot = context.services.catalog.snapshot(
            sorted(wanted), txn_id, valid_txns=valid_txns, known=known.values()
        )
        known.update(snapshot.tables)
        viewed = {names.of(reference.table) for reference in statement.view_references}
        found = {name for name in viewed if known[name].is_view}
        if not found:
            return statement, snapshot, frozenset(views), names
        views |= found
        statement = expanded(statement, text_of, context.parameters, session.database)
        check_views(context, statement, found, known)
    raise InvalidObjectError("view", ".".join(sorted(found)[0]), f"its views are nested deeper than {_DEEPEST_VIEW}")


def _bind_and_route(
    context: StatementContext,
    statement: S,
    views: frozenset[QualifiedName],
    reading: _Reading,
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
    if running is not None and running.joined is not None:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, running.txn_id)
    references = statement.references
    candidates = _candidates(context, statement, reading)
    bound = []
    for reference in references:
        table, link = reading.table(reference.table), names.link(reference.table)
        predicate = _predicate(table, reference, link)
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
        default=clusters.default,
        pinned=session.cluster,
        use_default=clusters.use_default,
        health=health,
    )
    return RoutedQuery(statement, views, tuple(bound), targets, chosen, health.problems)


class _Health:
    """The health of the clusters that the router asks for, and the problems that it was told of."""

    def __init__(self, context: StatementContext, *, runs_job: bool) -> None:
        self.problems: dict[str, HivexError] = {}
        self._context = context
        self._runs_job = runs_job

    def __call__(self, cluster: str) -> Health:
        found = self._context.health(cluster, runs_job=self._runs_job)
        if found.problem is not None:
            self.problems[cluster] = found.problem
        return found


def _candidates(context: StatementContext, statement: RoutedStatement, reading: _Reading) -> frozenset[str]:
    """Return the clusters of which a copy could serve the statement: those that the router may try."""
    session = context.session
    named = [*(reference.table for reference in statement.references), *statement.targets]
    primaries = {reading.table(name).storage.primary.cluster for name in named}
    return frozenset({*primaries, context.services.clusters.default, *([session.cluster] if session.cluster else ())})


@dataclass(frozen=True, slots=True)
class _LockPlan:
    """The locks of a statement; ``read`` has, by table, the partitions among them, None for the whole table.

    ``changed`` has those of the target of an UPDATE, DELETE or MERGE.
    """

    components: tuple[LockComponent, ...]
    updated: tuple[tuple[int, str | None], ...]
    read: Mapping[QualifiedName, frozenset[str] | None]
    target_ids: tuple[int, ...]
    changed: frozenset[str] | None = None


def _lock_plan(context: StatementContext, statement: RoutedStatement, reading: _Reading) -> _LockPlan:
    """Return the locks of the statement, by the partitions of now.

    One round trip for each table that a filter prunes.
    """
    rules = context.services.statement_locks
    tables = reading.snapshot.tables
    candidates = _candidates(context, statement, reading)
    references = statement.references
    names = [reading.names.of(reference.table) for reference in references]
    targets = [context.session.qualify(name) for name in statement.targets]
    read: dict[QualifiedName, frozenset[str] | None] = {}
    changed: frozenset[str] | None = None
    for number, (name, reference) in enumerate(zip(names, references, strict=True)):
        is_target = number == 0 and isinstance(statement, ChangeRows)
        if not is_target and name in read and read[name] is None:
            continue
        found = _pruned(reading, tables[name], reference, candidates)
        if is_target:
            # Its write lock lets it be read as well.
            changed = found
        else:
            read[name] = None if found is None else found | (read.get(name) or frozenset())
    components = [
        component
        for name, partitions in read.items()
        for component in rules.read(tables[name], None if partitions is None else sorted(partitions))
    ]
    updated: tuple[tuple[int, str | None], ...] = ()
    for insert in _inserts(statement):
        target = tables[context.session.qualify(insert.target)]
        partition = static_partition(target, check_insert(insert, target))
        take = rules.insert_overwrite if insert.overwrite else rules.insert
        components += take(target, partition)
        updated += ((target.id, partition),) if insert.overwrite else ()
    if isinstance(statement, ChangeRows):
        target = tables[targets[0]]
        operations = check_change(statement, target)
        components += rules.change_rows(target, None if changed is None else sorted(changed), operations)
        if operations != {DataOperation.INSERT}:
            partitions = [None] if changed is None else sorted(changed)
            updated = tuple((target.id, partition) for partition in partitions)
    # Several INSERTs may write one table.
    target_ids = tuple(tables[name].id for name in targets)
    return _LockPlan(tuple(dict.fromkeys(components)), updated, read, target_ids, changed)


def _pruned(
    reading: _Reading, table: StoredTable, reference: TableReference, candidates: frozenset[str]
) -> frozenset[str] | None:
    """Return the partitions that may be read there, None for all of the table."""
    link = reading.names.link(reference.table)
    predicate = _predicate(table, reference, link)
    if not table.is_partitioned or predicate is None:
        return None
    return frozenset(each.name for each in shown(reading.contents(table, predicate, candidates), link).partitions)


def _predicate(table: StoredTable, reference: TableReference, link: Link | None) -> Predicate | None:
    """Return the conditions on the partitions that are read there: of the query, and of a static link."""
    predicate = partition_predicate(reference.filters, table.partition_keys)
    restriction = None if link is None else link.restriction(table.partition_keys)
    if predicate is None or restriction is None:
        return predicate or restriction
    return And((restriction, predicate))


def _late(context: StatementContext, wanted: _LockPlan, bound: BoundTable) -> list[LockComponent]:
    locked = wanted.read.get((bound.table.database, bound.table.name))
    if locked is None:
        return []
    added = _added(bound, locked)
    return context.services.statement_locks.read(bound.table, added) if added else []


def _added(bound: BoundTable, locked: frozenset[str]) -> list[str]:
    """Return the partitions that were not there when the locks were asked for."""
    return sorted({each.name for each in bound.partitions if each.name is not None and each.is_registered} - locked)


def _snapshot(
    context: StatementContext,
    names: Collection[QualifiedName],
    running: Running,
    known: Iterable[StoredTable] = (),
) -> Snapshot:
    """Take the snapshot of a statement: that of its own transaction, or the one that a joined transaction shares."""
    if running.joined is not None and running.joined.snapshot is None:
        _share_snapshot(context, running.joined)
    shared = None if running.joined is None else running.joined.snapshot
    snapshot = context.services.catalog.snapshot(names, running.txn_id, valid_txns=shared, known=known)
    running.snapshot = snapshot.valid_txns
    return snapshot


def _share_snapshot(context: StatementContext, joined: JoinedTransaction) -> None:
    with context.services.store.read() as connection:
        joined.snapshot = stored_snapshot(connection, joined.txn_id)
    if joined.snapshot is None:
        joined.snapshot = context.services.store.write(lambda writing: share_snapshot(writing, joined.txn_id))


def chosen_cluster(context: StatementContext, routed: RoutedQuery[Any]) -> Cluster:
    """Return the cluster of a route.

    Raises:
        RoutingError: no cluster can run the statement; its ``route`` says what each lacks.
        NoUsableClusterError: one has everything, and cannot be used now.
        HivexError: the only cluster that could run it cannot be used now; RootMissingError, for example.
    """
    if routed.route.cluster is None:
        raise _refusal(routed)
    return context.services.clusters.get(routed.route.cluster)


def _refusal(routed: RoutedQuery[Any]) -> HivexError:
    """Return why no cluster can run a statement: in the words of the problem itself, if that is all there is to say."""
    found = routed.route
    if len(found.candidates) == 1 and found.candidates[0].is_unusable and found.alternative is None:
        # A problem is remembered, and other threads may raise it, too.
        return copy.copy(routed.problems[found.candidates[0].cluster])
    return NoUsableClusterError(found) if found.may_pass else RoutingError(found)


def _inserts(statement: RoutedStatement) -> tuple[Insert, ...]:
    match statement:
        case Insert():
            return (statement,)
        case MultiInsert():
            return statement.inserts
        case _:
            return ()


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
            "Calling",
            ", ".join(sorted(found)),
            f"it runs any code on the cluster; an administrator may allow it by the setting {ALLOW_CODE}",
        )
