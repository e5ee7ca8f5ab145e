"""Moves of namespaces to other clusters.

All tables are replicated, one after the other, while other statements read and write the tables. Then the namespace is
locked as a whole, the remaining files are copied, and one commit changes the primary cluster of all tables. The state
of a move is stored in the metastore, so each process can continue, cancel or finish the move.

Source: docs/reference/clusters.md, "Moves of namespaces".
"""

from __future__ import annotations

import getpass
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.errors import (
    CopyOutdatedError,
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    LockError,
    MoveEndedError,
    MoveRefusedError,
    NamespaceChangedError,
    NoSuchTableError,
)
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import CLUSTER, StoredTable
from airflow_hivex.core.model.replication import (
    CopyProgress,
    MoveBlocker,
    MovedNamespace,
    MovePlan,
    MoveProgress,
    MoveState,
    NamespaceMove,
    PlannedMove,
    Replication,
)
from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.namespaces import moving
from airflow_hivex.core.namespaces.moving import MoveSurvey, MoveSurveyor
from airflow_hivex.core.replication.leftovers import CopyWithdrawal
from airflow_hivex.core.replication.planning import PlannedTable
from airflow_hivex.core.replication.primary import switch_table
from airflow_hivex.core.replication.replicator import Replicator
from airflow_hivex.core.replication.transfers import CopyOptions

log = logging.getLogger(__name__)

_THREADS = 8
_ASSUMED_BYTES_PER_SECOND = 50_000_000
_SHORT_ROUND_S = 5.0
_MOST_ROUNDS = 10

ReportProgress = Callable[[MoveProgress], object]


@dataclass(frozen=True, slots=True)
class _Options:
    threads: int
    bytes_per_second: int | None
    progress: ReportProgress | None
    user: str | None
    agent_info: str | None
    copy_cluster: str | None


@dataclass(slots=True)
class _Done:
    """The finished rounds and the copied bytes of a running move."""

    rounds: int = 0
    bytes_copied: int = 0


class NamespaceMoves:
    """The moves of namespaces to other clusters. The object is safe to share between threads and processes."""

    def __init__(self, services: Foundation, replicator: Replicator) -> None:
        self._services = services
        self._store = services.store
        self._replicator = replicator
        self._surveyor = MoveSurveyor(services.store, services.clusters)
        self._withdrawal = CopyWithdrawal(services)
        self._grace_ms = int(services.settings["hivex.move.grace.time"]) * 1000
        self._lock_timeout_s = float(services.settings["hivex.move.lock.timeout"])
        self._lock_tries = int(services.settings["hivex.move.lock.tries"])

    def move(
        self,
        namespace: str,
        cluster: str,
        *,
        copy_linked: bool = False,
        keep_copies: bool = False,
        dry_run: bool = False,
        threads: int = _THREADS,
        bytes_per_second: int | None = None,
        copy_cluster: str | None = None,
        progress: ReportProgress | None = None,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> MovedNamespace:
        """Make a cluster the primary of all existing and new tables of a namespace.

        The call is safe to repeat after an error or a kill. A killed call has either only made copies, or moved all
        tables. In both cases the next call continues the move. Readers and writers wait only while the remaining files
        are copied.

        Args:
            namespace: the database.
            cluster: the new primary cluster of the database's tables.
            copy_linked: whether to copy the tables of other namespaces to which the namespace has links. If False, the
                move is refused if the table of a link is on another cluster.
            keep_copies: whether to keep the copies on the previous clusters. If False, the housekeeper withdraws these
                copies after ``hivex.move.grace.time``.
            dry_run: whether to return only the plan, with the reasons against the move.
            threads: the number of files that are copied at the same time.
            bytes_per_second: the limit of written bytes.
            copy_cluster: the cluster whose Spark copies the files until the namespace is locked. With None the amount
                of data decides whether a job or this process copies, as in :meth:`Replicator.replicate`. After the
                lock, this process copies the remaining files.
            progress: called every few seconds, in this thread.
            user: the owner of the transactions.
            agent_info: a text for people that names the caller, such as a DAG run and task.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchDatabaseError: the namespace does not exist.
            MoveRefusedError: an object prevents the move; nothing was changed.
            MoveUnderWayError: the namespace is being moved to another cluster.
            MoveEndedError: another process has cancelled the move during the call.
            LockError: readers or writers held their locks for too long at each attempt. The copies stay, and the next
                call continues the move.
            HivexError: for the reasons of :meth:`Replicator.replicate`.
        """
        if threads < 1 or (bytes_per_second is not None and bytes_per_second < 1):
            raise InvalidParametersError("threads and bytes_per_second are whole numbers above 0.")
        target, name = self._services.clusters.get(cluster).name, normalise(namespace)
        if copy_cluster is not None:
            copy_cluster = self._services.clusters.get(copy_cluster).name
        options = _Options(threads, bytes_per_second, progress, user, agent_info, copy_cluster)
        survey = self._surveyor.survey(name, target, copies_linked=copy_linked)
        plan = self._plan(survey, target, options, copies_linked=copy_linked)
        if dry_run:
            return MovedNamespace(name, target, is_changed=False, plan=plan)
        with self._store.read() as connection:
            current = moving.find_move(connection, name)
        if current is None and not survey.tables and survey.home == target:
            return MovedNamespace(name, target, is_changed=False, plan=plan)
        if plan.blockers:
            raise MoveRefusedError(name, target, [each.describe() for each in plan.blockers])
        move = self._store.write(
            lambda connection: moving.begin_move(
                connection,
                name,
                target,
                copies_linked=copy_linked,
                keeps_copies=keep_copies,
                user=user or getpass.getuser(),
                now_ms=self._services.clock(),
            )
        )
        log.info("Move %s of namespace %s to cluster %s: %s bytes to copy", move.id, name, target, plan.size_bytes)
        done = _Done()
        try:
            self._catch_up(move, options, done)
            return replace(self._switch(move, options, done), plan=plan)
        except MoveEndedError as error:
            if error.state != MoveState.SWITCHED.value:
                raise
            # Another process has finished the same move.
            return MovedNamespace(name, target, is_changed=False, bytes_copied=done.bytes_copied, rounds=done.rounds)

    def cancel(self, namespace: str, *, keep_copies: bool = False) -> NamespaceMove:
        """Cancel the running move of a namespace, and return the move. The tables stay on their clusters.

        Copies that the move has made are withdrawn, unless ``keep_copies`` is set. If the cluster had a copy of a table
        before the move, this copy stays.

        If the process dies during the call, the housekeeper withdraws the remaining copies.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
            InvalidOperationError: the namespace is not being moved.
            MoveEndedError: the move has ended during the call.
        """
        name = normalise(namespace)

        def work(connection: Connection) -> NamespaceMove:
            move = moving.find_move(connection, name)
            if move is None:
                raise InvalidOperationError("CANCEL MOVE", name, "it is not being moved")
            now_ms = self._services.clock()
            moving.end_move(connection, move, MoveState.CANCELLED, now_ms)
            moving.doom_new_copies(connection, move, now_ms, keeps_copies=keep_copies)
            return replace(move, state=MoveState.CANCELLED)

        move = self._store.write(work)
        self._withdraw(move.id)
        return move

    def show(self, namespace: str | None = None) -> list[NamespaceMove]:
        """Return the moves of a namespace, or of all namespaces, the oldest first. The call takes one round trip."""
        with self._store.read() as connection:
            return moving.list_moves(connection, None if namespace is None else normalise(namespace))

    def clean(self, most_s: float | None = None) -> int:
        """Withdraw the copies whose grace time has passed, and return the number of withdrawn copies.

        The call stops after ``most_s`` seconds, if given, and the next call continues.
        """
        return self._withdraw(None, most_s)

    # -- the plan ------------------------------------------------------------------

    def _plan(self, survey: MoveSurvey, target: str, options: _Options, *, copies_linked: bool) -> MovePlan:
        blockers = list(survey.blockers)
        planned: list[PlannedMove] = []
        own_bytes = 0
        try:
            self._services.roots.examine(target)
        except HivexError as error:
            blockers.append(MoveBlocker(f"cluster {target}", str(error), "repair its root, or choose another cluster"))
        wanted: list[tuple[StoredTable, tuple[str, ...] | None, bool]] = [(each, None, False) for each in survey.tables]
        if copies_linked:
            wanted += [(each.table, each.partitions, True) for each in survey.linked]
        for table, partitions, is_linked in wanted:
            if partitions == ():
                continue
            try:
                found = self._replicator.replicate(table.full_name, target, partitions, dry_run=True).tables[0]
            except HivexError as error:
                blockers.append(MoveBlocker(f"table {table.full_name}", str(error), "repair the table first"))
                continue
            planned.append(
                PlannedMove(table.full_name, table.storage.primary.cluster, found.files, found.size_bytes, is_linked)
            )
            own_bytes += 0 if is_linked or not table.is_transactional else found.size_bytes
        quota = self._surveyor.quota_blocker(survey.namespace, target, own_bytes)
        if quota is not None:
            blockers.append(quota)
        return MovePlan(
            survey.namespace,
            target,
            tuple(planned),
            tuple(blockers),
            survey.notices,
            options.bytes_per_second or _ASSUMED_BYTES_PER_SECOND,
        )

    # -- copying ---------------------------------------------------------------------

    def _catch_up(self, move: NamespaceMove, options: _Options, done: _Done) -> None:
        """Replicate all tables in rounds, until a round takes little time."""
        for _ in range(_MOST_ROUNDS):
            begun, copied = time.monotonic(), done.bytes_copied
            self._round(move, options, done)
            took_s = time.monotonic() - begun
            log.info(
                "Move of namespace %s: round %d has copied %d bytes in %.1f s",
                move.namespace,
                done.rounds,
                done.bytes_copied - copied,
                took_s,
            )
            if took_s < _SHORT_ROUND_S or done.bytes_copied == copied:
                return

    def _round(self, move: NamespaceMove, options: _Options, done: _Done) -> None:
        done.rounds += 1
        wanted = list(self._wanted(move))
        for number, (table, partitions) in enumerate(wanted):
            self._store.write(lambda connection, table=table: self._note(connection, move, table))  # type: ignore[misc]

            def report(
                progress: CopyProgress, name: str = table.full_name, tables_done: int = number, total: int = len(wanted)
            ) -> None:
                if options.progress is not None:
                    options.progress(
                        MoveProgress(
                            done.rounds,
                            name,
                            tables_done,
                            total,
                            progress.bytes_done,
                            progress.size_bytes,
                            done.bytes_copied,
                        )
                    )

            found = self._replicate(move, table, partitions, options, report)
            if found is not None:
                done.bytes_copied += found.bytes_copied
            report(CopyProgress(0, 0, 0, 0), tables_done=number + 1)

    def _wanted(self, move: NamespaceMove) -> Iterator[tuple[StoredTable, tuple[str, ...] | None]]:
        for table in self._surveyor.tables(move.namespace, move.cluster):
            yield table, None
        if move.copies_linked:
            for linked in self._surveyor.linked(move.namespace, move.cluster):
                if linked.partitions != ():
                    yield linked.table, linked.partitions

    def _note(self, connection: Connection, move: NamespaceMove, table: StoredTable) -> None:
        moving.note_copy(connection, move, table, self._services.clock())

    def _replicate(
        self,
        move: NamespaceMove,
        table: StoredTable,
        partitions: tuple[str, ...] | None,
        options: _Options,
        report: Callable[[CopyProgress], object],
    ) -> Replication | None:
        """Replicate a table, and return the result, or None if the table was dropped, renamed or moved."""
        try:
            return self._replicator.replicate(
                table.full_name,
                move.cluster,
                partitions,
                threads=options.threads,
                bytes_per_second=options.bytes_per_second,
                copy_cluster=options.copy_cluster,
                progress=report,
                user=options.user,
                agent_info=options.agent_info,
            )
        except (NoSuchTableError, InvalidOperationError):
            with self._store.read() as connection:
                elsewhere = moving.tables_elsewhere(connection, table.database, move.cluster)
            if table.id in elsewhere and table.full_name in {
                each.full_name for each in self._surveyor.tables(table.database, move.cluster)
            }:
                raise
            log.info("Table %s was dropped, renamed or moved meanwhile", table.full_name)
            return None

    # -- the switch ------------------------------------------------------------------

    def _switch(self, move: NamespaceMove, options: _Options, done: _Done) -> MovedNamespace:
        for attempt in range(self._lock_tries):
            names = [each.full_name for each in self._surveyor.tables(move.namespace, move.cluster)]
            try:
                return self._try_to_switch(move, names, options, done)
            except (
                LockError,
                NoSuchTableError,
                CopyOutdatedError,
                NamespaceChangedError,
                # Another process has changed the primary cluster of a table, or has finished the same move.
                InvalidOperationError,
            ) as error:
                if attempt + 1 == self._lock_tries:
                    raise
                log.info("The switch of namespace %s is tried again: %s", move.namespace, error)
                self._catch_up(move, options, done)
        raise AssertionError("the loop returns or raises")

    def _try_to_switch(
        self, move: NamespaceMove, names: Sequence[str], options: _Options, done: _Done
    ) -> MovedNamespace:
        begun = time.monotonic()
        last: Replication | None = None
        if names:
            last = self._replicator.replicate_alone(
                names,
                move.cluster,
                lambda connection, txn_id, planned, moment: self._apply(connection, move, txn_id, planned, moment),
                CopyOptions(options.threads, options.bytes_per_second),
                database=move.namespace,
                lock_timeout_s=self._lock_timeout_s,
                user=options.user,
                agent_info=options.agent_info,
            )
        else:
            self._store.write(lambda connection: self._apply(connection, move, None, (), None))
        locked_s = time.monotonic() - begun
        copied = done.bytes_copied + (0 if last is None else last.bytes_copied)
        log.info(
            "Namespace %s is on cluster %s now: %d tables, %d bytes copied in %d rounds, %.1f s for the switch",
            move.namespace,
            move.cluster,
            len(names),
            copied,
            done.rounds,
            locked_s,
        )
        return MovedNamespace(
            move.namespace,
            move.cluster,
            is_changed=True,
            tables=tuple(names),
            bytes_copied=copied,
            rounds=done.rounds,
            locked_s=locked_s,
            txn_id=None if last is None else last.txn_id,
        )

    def _apply(
        self,
        connection: Connection,
        move: NamespaceMove,
        txn_id: int | None,
        planned: Sequence[PlannedTable],
        moment: Moment | None,
    ) -> None:
        """Switch all tables of a namespace, in one database transaction."""
        now_ms = self._services.clock()
        moving.end_move(connection, move, MoveState.SWITCHED, now_ms)
        elsewhere = moving.tables_elsewhere(connection, move.namespace, move.cluster)
        if elsewhere != {each.table.id for each in planned}:
            raise NamespaceChangedError(move.namespace)
        before = [(each.table.id, each.table.storage.primary.cluster) for each in planned]
        if txn_id is not None and moment is not None:
            for each in planned:
                switch_table(connection, txn_id, each, moment, now_ms)
        catalog = self._services.catalog.joining(connection)
        if catalog.get_database(move.namespace).parameters.get(CLUSTER) != move.cluster:
            catalog.change_database(
                move.namespace,
                lambda database: replace(database, parameters={**database.parameters, CLUSTER: move.cluster}),
            )
        moving.leave_copies(connection, move, before, now_ms, self._grace_ms)

    # -- copies that are not needed any more ------------------------------------------

    def _withdraw(self, move_id: int | None, most_s: float | None = None) -> int:
        until = None if most_s is None else time.monotonic() + most_s
        with self._store.read() as connection:
            doomed = moving.doomed_copies(connection, self._services.clock(), move_id)
        gone = 0
        for row in doomed:
            if until is not None and time.monotonic() >= until:
                break
            try:
                with self._store.read() as connection:
                    is_renewed = row.state == MoveState.SWITCHED.value and moving.is_renewed(
                        connection, row.table_id, row.cluster, row.noted_ms
                    )
                if not is_renewed:
                    reason = f"move {row.move_id} of namespace {row.namespace}"
                    if not self._withdrawal.withdraw(row.table_id, row.cluster, reason):
                        continue
                    gone += 1
            except HivexError as error:
                log.warning("A copy on cluster %s, left by a move of %s, stays: %s", row.cluster, row.namespace, error)
                continue
            self._store.write(
                lambda connection, row=row: moving.forget_copy(  # type: ignore[misc]
                    connection, row.move_id, row.table_id, row.cluster
                ),
                name="forget copy",
            )
        return gone
