"""The locks of a routed statement, by the tables and partitions that it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.catalog.bound_tables import BoundTable
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.insert_targets import (
    change_operations,
    check_change,
    check_changeable,
    check_insert,
    static_partition,
)
from airflow_hivex.core.execution.linked_names import shown
from airflow_hivex.core.execution.snapshot import StatementReading, candidate_clusters, reference_predicate
from airflow_hivex.core.model.locks import DataOperation, LockComponent
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.parser.statements import ChangeRows, Insert, MultiInsert, RoutedStatement, TableReference


@dataclass(frozen=True, slots=True)
class LockPlan:
    """The locks of a statement; ``read`` has the locked partitions of each read table, None for the whole table.

    ``changed`` has the locked partitions of the target of an UPDATE, DELETE or MERGE. ``write_ids_of`` are the ids of
    tables that the statement certainly writes, and does not read.
    """

    components: tuple[LockComponent, ...]
    updated: tuple[tuple[int, str | None], ...]
    read: Mapping[QualifiedName, frozenset[str] | None]
    target_ids: tuple[int, ...]
    changed: frozenset[str] | None = None
    write_ids_of: tuple[int, ...] = ()


def lock_plan(context: StatementContext, statement: RoutedStatement, reading: StatementReading) -> LockPlan:
    """Return the locks of the statement, by the current partitions.

    One round trip for each table that a filter prunes.
    """
    rules = context.services.statement_locks
    tables = reading.snapshot.tables
    candidates = candidate_clusters(context, statement, reading)
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
    for insert in _inserts(statement):
        target = tables[context.session.qualify(insert.target)]
        partition = static_partition(target, check_insert(insert, target))
        take = rules.insert_overwrite if insert.overwrite else rules.insert
        components += take(target, partition)
        updated += ((target.id, partition),) if insert.overwrite and target.is_transactional else ()
        may_skip = insert.if_not_exists or context.batch_key is not None
        if target.is_transactional and not may_skip and (target.database, target.name) not in read:
            write_ids_of[target.id] = None
    if isinstance(statement, ChangeRows):
        target = tables[targets[0]]
        # The columns that a statement adds are not there yet.
        check = check_changeable if statement.evolves else check_change
        check(statement, target)
        operations = change_operations(context, statement)
        components += rules.change_rows(target, None if changed is None else sorted(changed), operations)
        if operations != {DataOperation.INSERT}:
            partitions = [None] if changed is None else sorted(changed)
            updated = tuple((target.id, partition) for partition in partitions)
    # Several INSERTs may write one table.
    target_ids = tuple(tables[name].id for name in targets)
    return LockPlan(tuple(dict.fromkeys(components)), updated, read, target_ids, changed, tuple(write_ids_of))


def _pruned(
    reading: StatementReading, table: StoredTable, reference: TableReference, candidates: frozenset[str]
) -> frozenset[str] | None:
    """Return the partitions of the table that the reference may read, None for all."""
    link = reading.names.link(reference.table)
    predicate = reference_predicate(table, reference, link)
    if not table.is_partitioned or predicate is None:
        return None
    return frozenset(each.name for each in shown(reading.contents(table, predicate, candidates), link).partitions)


def late_locks(context: StatementContext, wanted: LockPlan, bound: BoundTable) -> list[LockComponent]:
    """Return the locks of partitions that were added after the statement requested its locks."""
    locked = wanted.read.get((bound.table.database, bound.table.name))
    if locked is None:
        return []
    added = added_partitions(bound, locked)
    return context.services.statement_locks.read(bound.table, added) if added else []


def added_partitions(bound: BoundTable, locked: frozenset[str]) -> list[str]:
    """Return the partitions that were added after the locks were requested."""
    return sorted({each.name for each in bound.partitions if each.name is not None and each.is_registered} - locked)


def _inserts(statement: RoutedStatement) -> tuple[Insert, ...]:
    match statement:
        case Insert():
            return (statement,)
        case MultiInsert():
            return statement.inserts
        case _:
            return ()
