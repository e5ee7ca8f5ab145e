"""The locks of a statement.

A statement requests its locks before it takes its snapshot. So the statement sees the commits for which it has waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from airflow_hivex.core.catalog.bound_tables import BoundTable
from airflow_hivex.core.errors import LockNotAcquiredError, NoSuchLockError
from airflow_hivex.core.execution.context import Answers, Running, StatementContext
from airflow_hivex.core.execution.insert_targets import (
    change_operations,
    check_change,
    check_changeable,
    check_insert,
    inserts_of,
)
from airflow_hivex.core.execution.read_tables import StatementReading
from airflow_hivex.core.execution.statement_record import in_step
from airflow_hivex.core.execution.statement_transactions import OutrunError
from airflow_hivex.core.model.locks import DataOperation, LockComponent
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.parser.statements import ChangeRows, RoutedStatement, TableReference
from airflow_hivex.core.store.exchange import Call


@in_step("locks")
def acquire(
    context: StatementContext,
    running: Running,
    components: Sequence[LockComponent],
    *,
    new_table: bool = False,
    write_ids_of: Sequence[int] = (),
    also: Sequence[Call] = (),
) -> Answers | None:
    """Acquire the locks ``components``, and wait for them if necessary. Without components do nothing.

    If the transaction is opened together with the locks, return the answers to the queries ``also``. Then no other
    transaction has committed a change under a conflicting lock since this transaction began. Otherwise return None.

    With ``new_table`` and ``hive.txn.xlock.ctas`` the call does not wait for another statement that creates the same
    table. If no other lock conflicts, a transaction that is not open yet is opened together with the locks, and with
    write ids for the tables ``write_ids_of``. The queries ``also`` run after the locks are granted.

    Raises:
        LockNotAcquiredError: another transaction holds a lock for which the statement does not wait.
        LockTimeoutError, DeadlockError: the locks were not acquired.
        StatementCancelledError, TransactionAbortedError: the statement was cancelled while it waited.
        NoSuchTableError: a table was dropped meanwhile.
    """
    if not components:
        return None
    running.check_not_cancelled()
    session = context.session
    if running.opened_id is None:
        answers = running.begin_with(components, write_ids_of, also)
        if answers is not None:
            return answers

    waits_since: float | None = None

    def waiting(lock_id: int) -> None:
        nonlocal waits_since
        waits_since = time.monotonic()
        running.waiting_lock_id = lock_id
        # A thread that cancels the statement looks for the request after that.
        running.check_not_cancelled()

    try:
        response = context.services.locks.acquire(
            components,
            running.txn_id,
            user=session.user,
            agent_info=session.agent_info,
            zero_wait_read=context.services.statement_locks.zero_wait_reads,
            exclusive_ctas=new_table and context.services.statement_locks.exclusive_ctas,
            waiting=waiting,
        )
    except NoSuchLockError:
        running.check_not_cancelled()
        raise
    finally:
        running.waiting_lock_id = None
        if session.record is not None and waits_since is not None:
            session.record.wait_s += time.monotonic() - waits_since
    if not response.is_acquired:
        raise LockNotAcquiredError(response.message or "The locks are held by another transaction.")
    running.check_not_cancelled()
    return None


@in_step("commit")
def commit_at_once(
    context: StatementContext, components: Sequence[LockComponent], changes: Callable[[Connection], None]
) -> int | None:
    """Commit changes at once if no other lock conflicts; see ``LockManager``.

    Return the id of the transaction. If another lock conflicts, change nothing and return None: the statement must open
    a transaction and wait for its locks.
    """
    session = context.session
    record = session.record
    txn_id = context.services.locks.commit_at_once(
        components,
        changes,
        user=session.user,
        agent_info=session.agent_info,
        also=None if record is None else record.calls_of_new,
    )
    if record is not None and txn_id is None:
        record.is_sent = False
    return txn_id


def check_not_outrun(
    context: StatementContext, running: Running, resources: Collection[tuple[int, str | None]]
) -> None:
    """Ensure that no other transaction has updated the statement's targets since its transaction began.

    ``resources`` are pairs (table id, partition name); the name is None for a whole table. The statement must hold its
    locks. Source: docs/reference/transactions.md.

    Raises:
        OutrunError: a target was updated, and the commit would be refused.
    """
    if resources and context.services.transactions.would_conflict(running.txn_id, resources):
        raise OutrunError("another transaction has updated the same rows since its transaction began")


@dataclass(frozen=True, slots=True)
class LockPlan:
    """The locks of a statement.

    ``read`` is a dict from each table that is read to its locked partitions, or None for the whole table. ``changed``
    has the locked partitions of the target of an UPDATE, DELETE or MERGE. ``write_ids_of`` are the ids of tables that
    the statement certainly writes.
    """

    components: tuple[LockComponent, ...]
    updated: tuple[tuple[int, str | None], ...]
    read: Mapping[QualifiedName, frozenset[str] | None]
    target_ids: tuple[int, ...]
    changed: frozenset[str] | None = None
    write_ids_of: tuple[int, ...] = ()


def lock_plan(context: StatementContext, statement: RoutedStatement, reading: StatementReading) -> LockPlan:
    """Return the locks of the statement. A table with a filter on its partitions is locked by partition.

    Other tables are locked as a whole. The call takes one round trip for each table with a filter on its partitions.
    """
    rules = context.services.statement_locks
    tables = reading.snapshot.tables
    candidates = reading.candidates(statement)
    references = statement.references
    names = [reading.names.of(reference.table) for reference in references]
    targets = [context.session.qualify(name) for name in statement.targets]
    read: dict[QualifiedName, frozenset[str] | None] = {}
    changed: frozenset[str] | None = None
    for number, (name, reference) in enumerate(zip(names, references, strict=True)):
        is_target = number == 0 and isinstance(statement, ChangeRows)
        if not is_target and name in read and read[name] is None:
            continue
        found = _pruned(reading, reference, candidates)
        if is_target:
            # A write lock allows reads, too.
            changed = found
        else:
            read[name] = None if found is None else found | (read.get(name) or frozenset())
    components = [
        component
        for name, partitions in read.items()
        for component in rules.read(tables[name], None if partitions is None else sorted(partitions))
    ]
    updated: tuple[tuple[int, str | None], ...] = ()
    write_ids_of: dict[int, None] = {}
    for insert in inserts_of(statement):
        target = tables[context.session.qualify(insert.target)]
        partition = check_insert(insert, target).partition
        take = rules.insert_overwrite if insert.overwrite else rules.insert
        components += take(target, partition)
        updated += ((target.id, partition),) if insert.overwrite and target.is_transactional else ()
        may_skip = insert.if_not_exists or context.batch_key is not None
        # An overwrite that reads its target must not have a write id below that of rows that a later snapshot shows:
        # its base would have these rows, and their delta above the base would show them again.
        reads_target = insert.overwrite and (target.database, target.name) in read
        if target.is_transactional and not may_skip and not reads_target:
            write_ids_of[target.id] = None
    if isinstance(statement, ChangeRows):
        target = tables[targets[0]]
        # The columns that a statement adds are not there yet.
        check = check_changeable if statement.evolves else check_change
        check(statement, target)
        operations = change_operations(context, statement)
        components += rules.change_rows(target, None if changed is None else sorted(changed), operations)
        if context.batch_key is None:
            write_ids_of[target.id] = None
        if operations != {DataOperation.INSERT}:
            partitions = [None] if changed is None else sorted(changed)
            updated = tuple((target.id, partition) for partition in partitions)
    # Several INSERTs may write one table.
    target_ids = tuple(tables[name].id for name in targets)
    return LockPlan(tuple(dict.fromkeys(components)), updated, read, target_ids, changed, tuple(write_ids_of))


def _pruned(reading: StatementReading, reference: TableReference, candidates: frozenset[str]) -> frozenset[str] | None:
    """Return the partitions that the reference can read, or None for the whole table."""
    read = reading.read(reference)
    if not read.table.is_partitioned or read.predicate is None:
        return None
    contents = reading.contents(read.table, read.predicate, candidates)
    return frozenset(each.name for each in read.shown(contents).partitions)


def late_locks(context: StatementContext, wanted: LockPlan, bound: BoundTable) -> list[LockComponent]:
    """Return the read locks on partitions that were added after the statement had requested its locks."""
    locked = wanted.read.get((bound.table.database, bound.table.name))
    if locked is None:
        return []
    added = added_partitions(bound, locked)
    return context.services.statement_locks.read(bound.table, added) if added else []


def added_partitions(bound: BoundTable, locked: frozenset[str]) -> list[str]:
    """Return the registered partitions of ``bound`` that are not ``locked``."""
    return sorted({each.name for each in bound.partitions if each.name is not None and each.is_registered} - locked)
