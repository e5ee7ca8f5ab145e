"""The candidates for compaction of the whole warehouse, read from the database without listing directories.

The functions read in the caller's connection. Source: docs/reference/compaction.md, "Initiator".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select

from airflow_hivex.core.catalog.snapshot_rows import read_lists
from airflow_hivex.core.model.compaction import CompactionState, resource_name
from airflow_hivex.core.model.compaction_thresholds import Aborts, Candidate, CandidateTable, DirectoryTotals
from airflow_hivex.core.model.objects import INSERT_ONLY, TRANSACTIONAL_PROPERTIES
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList, ValidTxnList
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    compaction_queue,
    completed_compactions,
    completed_txn_components,
    databases,
    directories,
    partitions,
    tables,
    txn_components,
    txns,
)
from airflow_hivex.core.store.schema.base import partition_from_column, partition_to_column

Resource = tuple[int, str | None]
"""A table or partition, as (table id, partition name). The name is None for a whole table."""
Place = tuple[int, int | None]
"""A table or partition, as (table id, partition id). The partition id is None for a table without partitions."""

# The statement that reads write ids has the id of each table four times.
_TABLES_A_BATCH = 5000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of a compaction that begins now. ``write_ids`` is a dict from table id to the write ids to merge."""

    valid_txns: ValidTxnList
    write_ids: Mapping[int, ValidCompactorWriteIdList]


@dataclass(frozen=True, slots=True)
class Written:
    """The tables and partitions that transactions have written to.

    ``partition_ids`` is a dict from resource to partition id, which is None for a whole table, and for a partition that
    does not exist. ``aborts`` is a dict from resource to the number and age of its aborted transactions. ``aborts`` is
    empty if aborted transactions were not requested.
    """

    partition_ids: Mapping[Resource, int | None]
    aborts: Mapping[Resource, Aborts]
    tables: Mapping[int, CandidateTable]


def read_written(connection: Connection, *, with_aborts: bool, only: Resource | None = None) -> Written:
    """Return every table and partition that committed transactions have written to, in the order of the writes.

    ``with_aborts`` adds the tables and partitions that aborted transactions have written to. ``only`` selects one table
    or partition, which is returned even if no transaction has written to it. Two queries, and one more for each 10,000
    tables.
    """
    partition_ids = _written(connection, only)
    aborts: dict[Resource, Aborts] = {}
    if with_aborts:
        for resource, (found, partition_id) in read_aborts(connection, only).items():
            aborts[resource] = found
            partition_ids.setdefault(resource, partition_id)
    if only is not None and only not in partition_ids:
        partition_ids[only] = _partition_id(connection, only)
    return Written(partition_ids, aborts, _tables(connection, {table_id for table_id, _ in partition_ids}))


def read_candidates(
    connection: Connection,
    written: Written,
    *,
    failures: int,
    promising: Container[Place] | None = None,
    only: Resource | None = None,
) -> list[Candidate]:
    """Return the candidates for compaction among the written tables and partitions. Two queries.

    ``failures`` is the number of successive failures after which a compaction is not retried. If ``promising`` is
    given, the result has only the tables and partitions in ``promising``, and those with aborted transactions or too
    many failures.
    """
    active = _active(connection, only)
    failed = _failed(connection, failures, only)
    return [
        Candidate(
            table=written.tables.get(resource[0]) or CandidateTable(resource[0], "", "", is_gone=True),
            partition=resource[1],
            partition_id=partition_id,
            aborts=written.aborts.get(resource),
            active=active.get(resource),
            failed_ms=failed.get(resource),
        )
        for resource, partition_id in written.partition_ids.items()
        if promising is None
        or (resource[0], partition_id) in promising
        or resource in written.aborts
        or resource in failed
    ]


def read_aborts(connection: Connection, only: Resource | None = None) -> dict[Resource, tuple[Aborts, int | None]]:
    """Return a dict from resource to a pair: the number and age of its aborted transactions, and its partition id.

    Resources with older aborted transactions come first.
    """
    components = txn_components.c
    query = (
        select(
            components.table_id,
            components.partition,
            func.min(partitions.c.id).label("partition_id"),
            func.count(components.txn_id.distinct()).label("count"),
            func.min(txns.c.started_ms).label("oldest_ms"),
        )
        .join(txns, txns.c.id == components.txn_id)
        .outerjoin(partitions, _is_partition(components.table_id, components.partition))
        .where(txns.c.state == TxnState.ABORTED.value, components.operation != Operation.COMPACT.value)
        .group_by(components.table_id, components.partition)
        .order_by(func.min(txns.c.started_ms), components.table_id, components.partition)
    )
    return {
        (row.table_id, row.partition): (Aborts(row.count, row.oldest_ms), row.partition_id)  # type: ignore[arg-type]
        for row in connection.execute(_only(query, components.table_id, components.partition, only))
    }


def read_totals(connection: Connection, delta_num: int, delta_pct: float) -> dict[Place, DirectoryTotals]:
    """Return a dict from table or partition to the totals of its registered directories. One query.

    Only tables and partitions that possibly need a compaction are included; :func:`decide` decides whether a compaction
    is needed. ``delta_num`` and ``delta_pct`` are the lowest thresholds of all tables.
    """
    d = directories.c
    is_base, is_original = d.kind == "base", d.kind == "original"
    is_delta = ~or_(is_base, is_original)
    delta_bytes = func.sum(case((is_delta, d.size_bytes), else_=0))
    deltas = func.sum(case((is_delta, 1), else_=0))
    bases = func.sum(case((is_base, 1), else_=0))
    smallest_base = func.min(case((and_(is_base, d.size_bytes > 0), d.size_bytes)))
    # In a converted table without a base, deltas are compared with the original files.
    originals = func.sum(case((is_original, d.size_bytes), else_=0))
    query = (
        select(d.table_id, d.partition_id, delta_bytes, deltas, bases, smallest_base, originals)
        .group_by(d.table_id, d.partition_id)
        # Source: DirectoryTotals.may_decide, which has each table's own thresholds.
        .having(
            or_(
                deltas > delta_num,
                bases > 1,
                delta_bytes > delta_pct * smallest_base,
                and_(originals > 0, delta_bytes > delta_pct * originals),
            )
        )
    )
    return {
        (row[0], row[1]): DirectoryTotals(int(row[2]), int(row[3]), int(row[4]), int(row[5] or 0), int(row[6]))
        for row in connection.execute(query)
    }


def read_snapshot(connection: Connection, names: Mapping[int, str]) -> Snapshot:
    """Return the snapshot of the given tables for a compaction that begins now.

    ``names`` is a dict from table id to full name. One query for one table; for several tables one query, and one more
    for each 5,000 tables.
    """
    if len(names) == 1:
        ((table_id, name),) = names.items()
        valid_txns, of_table = read_lists(connection, name, table_id, None)
        return Snapshot(valid_txns, {table_id: ValidCompactorWriteIdList.from_snapshot(of_table)})
    valid_txns = read_valid_txns(connection)
    found: dict[int, ValidCompactorWriteIdList] = {}
    for batch in batches(list(names), _TABLES_A_BATCH):
        lists = read_valid_write_ids(connection, {table_id: names[table_id] for table_id in batch}, valid_txns)
        found |= {table_id: ValidCompactorWriteIdList.from_snapshot(each) for table_id, each in lists.items()}
    return Snapshot(valid_txns, found)


def read_sizes(connection: Connection, places: Collection[Place]) -> dict[Place, dict[str, int]]:
    """Return the bytes of all registered directories of some tables and partitions.

    The result is a dict from table or partition to a dict from directory name to bytes. One query for each 10,000
    tables or partitions.
    """
    d = directories.c
    query = select(d.table_id, d.partition_id, d.name, d.size_bytes)
    of_partitions = sorted(partition_id for _, partition_id in places if partition_id is not None)
    of_tables = sorted(table_id for table_id, partition_id in places if partition_id is None)
    conditions: list[ColumnElement[bool]] = [d.partition_id.in_(batch) for batch in batches(of_partitions)]
    conditions += [and_(d.table_id.in_(batch), d.partition_id.is_(None)) for batch in batches(of_tables)]
    found: dict[Place, dict[str, int]] = defaultdict(dict)
    for condition in conditions:
        for table_id, partition_id, name, size_bytes in connection.execute(query.where(condition)):
            found[table_id, partition_id][name] = size_bytes
    return found


def _written(connection: Connection, only: Resource | None) -> dict[Resource, int | None]:
    completed = completed_txn_components.c
    written = _only(
        select(completed.table_id, completed.partition, func.min(completed.id).label("first"))
        .where(completed.write_id.is_not(None))
        .group_by(completed.table_id, completed.partition),
        completed.table_id,
        completed.partition,
        only,
    ).subquery()
    query = (
        select(written.c.table_id, written.c.partition, partitions.c.id)
        .select_from(written)
        .outerjoin(partitions, _is_partition(written.c.table_id, written.c.partition))
        .order_by(written.c.first)
    )
    return {(table_id, partition): place for table_id, partition, place in connection.execute(query)}


def _is_partition(table_id: ColumnElement[Any], name: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(partitions.c.table_id == table_id, partitions.c.name == name, ~partitions.c.dropped)


def _partition_id(connection: Connection, resource: Resource) -> int | None:
    table_id, name = resource
    if name is None:
        return None
    query = select(partitions.c.id).where(
        partitions.c.table_id == table_id, partitions.c.name == name, ~partitions.c.dropped
    )
    return connection.execute(query).scalar_one_or_none()


def _tables(connection: Connection, ids: Collection[int]) -> dict[int, CandidateTable]:
    found: dict[int, CandidateTable] = {}
    of_databases: dict[int, Mapping[str, str]] = {}
    for batch in batches(sorted(ids)):
        for row in connection.execute(
            select(
                tables.c.id,
                tables.c.database_id,
                tables.c.name,
                tables.c.dropped,
                tables.c.owner,
                tables.c.partition_keys,
                tables.c.parameters,
                databases.c.name.label("database"),
                databases.c.parameters.label("database_parameters"),
            )
            .join(databases, databases.c.id == tables.c.database_id)
            .where(tables.c.id.in_(batch))
        ):
            found[row.id] = CandidateTable(
                id=row.id,
                database=row.database,
                name=row.name,
                is_gone=row.dropped,
                is_partitioned=bool(row.partition_keys),
                is_insert_only=row.parameters.get(TRANSACTIONAL_PROPERTIES, "").lower() == INSERT_ONLY,
                owner=row.owner,
                parameters=row.parameters,
                database_parameters=of_databases.setdefault(row.database_id, row.database_parameters),
            )
    return found


def _active(connection: Connection, only: Resource | None) -> dict[Resource, str]:
    """Return a dict from resource to a text with the state and id of the compaction that waits or runs."""
    q = compaction_queue.c
    states = (CompactionState.INITIATED, CompactionState.WORKING)
    query = select(q.id, q.table_id, q.partition, q.state).where(q.state.in_([state.value for state in states]))
    return {
        (table_id, partition_from_column(partition)): f"{CompactionState(state).shown} (compaction {compaction_id})"
        for compaction_id, table_id, partition, state in connection.execute(_only_stored(query, q, only))
    }


def _failed(connection: Connection, failures: int, only: Resource | None) -> dict[Resource, int]:
    """Return the resources whose last ``failures`` compactions have all failed.

    The result is a dict from resource to the time (ms) at which its last compaction failed.
    """
    h = completed_compactions.c
    failed, succeeded = CompactionState.FAILED.value, CompactionState.SUCCEEDED.value
    often = (
        select(h.table_id, h.partition)
        .where(h.state == failed)
        .group_by(h.table_id, h.partition)
        .having(func.count() >= failures)
        .subquery()
    )
    ranked = (
        select(
            h.table_id,
            h.partition,
            h.state,
            h.ended_ms,
            func.row_number().over(partition_by=(h.table_id, h.partition), order_by=h.id.desc()).label("age"),
        )
        .join(often, and_(often.c.table_id == h.table_id, often.c.partition == h.partition))
        .where(h.state.in_([failed, succeeded]))
    )
    last = _only_stored(ranked, h, only).subquery().c
    query = (
        select(last.table_id, last.partition, func.max(last.ended_ms))
        .where(last.age <= failures)
        .group_by(last.table_id, last.partition)
        .having(func.min(last.state) == failed, func.max(last.state) == failed, func.count() == failures)
    )
    return {
        (table_id, partition_from_column(partition)): ended_ms
        for table_id, partition, ended_ms in connection.execute(query)
    }


def _only(
    query: Select[Any], table_id: ColumnElement[Any], partition: ColumnElement[Any], only: Resource | None
) -> Select[Any]:
    if only is None:
        return query
    return query.where(table_id == only[0], partition.is_(None) if only[1] is None else partition == only[1])


def _only_stored(query: Select[Any], columns: Any, only: Resource | None) -> Select[Any]:
    if only is None:
        return query
    return query.where(columns.table_id == only[0], columns.partition == partition_to_column(only[1]))


def names_of(candidates: Iterable[Candidate]) -> dict[int, str]:
    """Return a dict from table id to full name for the tables of the candidates."""
    return {each.table.id: resource_name(each.table.database, each.table.name, None) for each in candidates}


def place_of(candidate: Candidate) -> Place:
    """Return the ids of the candidate's table and partition.

    The id of the partition is None for a table without partitions.
    """
    return candidate.table.id, candidate.partition_id


def places_of(candidates: Sequence[Candidate]) -> list[Place]:
    """Return the ids of table and partition of each candidate, as :func:`place_of` does."""
    return [place_of(each) for each in candidates]
