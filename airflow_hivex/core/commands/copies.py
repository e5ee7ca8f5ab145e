"""REPLICATE TABLE, SHOW COPIES, and ALTER TABLE ... DROP COPY and SET PRIMARY CLUSTER."""

from __future__ import annotations

from airflow_hivex.core.commands.partitions import covered_partitions, partition_name_of
from airflow_hivex.core.errors import NoSuchPartitionError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.predicates import And, ColumnReference, Comparison, IsNull, Predicate
from airflow_hivex.core.model.replication import MOVE_COLUMNS
from airflow_hivex.core.parser.statements import (
    CancelMove,
    DropCopy,
    MoveDatabase,
    ReplicateTable,
    SetPrimaryCluster,
    ShowCopies,
)
from airflow_hivex.core.replication.planning import check_target

REPLICATE_COLUMNS = ("table", "partition", "directory", "source", "location", "files", "bytes", "note")
PRIMARY_COLUMNS = ("table", "primary_before", "primary", "is_changed", "bytes_copied", "directories_lost")
SHOW_COLUMNS = (
    "partition",
    "cluster",
    "role",
    "state",
    "location",
    "directories",
    "bytes",
    "lacking_directories",
    "lacking_bytes",
    "lag_s",
    "lag_commits",
    "write_id",
)


def replicate(context: StatementContext, statement: ReplicateTable) -> Result:
    """Run REPLICATE TABLE: return one row for each directory that the cluster lacked.

    Raises:
        NoSuchPartitionError: the PARTITION clause has only = or IS NULL, and no partition has these values.
    """
    table = _table(context, statement)
    partitions = None
    if statement.specification is not None:
        partitions = covered_partitions(context, statement.KIND, table, statement.specification)
        if not partitions:
            check_target(table, context.services.clusters.get(statement.cluster).name)
            named = _named(statement.specification)
            if named is not None:
                raise NoSuchPartitionError(table.database, table.name, named)
            row = (table.full_name, None, None, None, None, 0, 0, "no partition matches")
            return Result(list(REPLICATE_COLUMNS), [row], cluster=statement.cluster)
    found = context.services.replicator.replicate(
        table.full_name,
        statement.cluster,
        partitions,
        user=context.session.user,
        agent_info=context.session.agent_info,
    )
    rows: list[tuple[object, ...]] = [
        (each.table, one.partition, one.name, one.source, one.location, one.files, one.size_bytes, None)
        for each in found.tables
        for one in each.directories
    ]
    return Result(list(REPLICATE_COLUMNS), rows, cluster=found.cluster, txn_id=found.txn_id)


def _named(specification: Predicate) -> str | None:
    """Return the name of the partition that a PARTITION clause gives by = and IS NULL, or None for other conditions.

    The result has the form ``year=2013/month=1``.
    """
    match specification:
        case And(operands):
            names = [_named(each) for each in operands]
            return None if None in names else "/".join(filter(None, names))
        case Comparison(ColumnReference(name=key), "=", value):
            return f"{key}={value}"
        case IsNull(ColumnReference(name=key)):
            return f"{key}={DEFAULT_PARTITION}"
    return None


def drop_copy(context: StatementContext, statement: DropCopy) -> Result:
    """Run ALTER TABLE ... DROP COPY: withdraw the copy, and delete its files."""
    table = _table(context, statement)
    partition = None
    if statement.partition is not None:
        partition = partition_name_of(f"{statement.KIND} with PARTITION", table, statement.partition)
    context.services.replicator.drop_copy(
        table.full_name,
        statement.cluster,
        partition,
        user=context.session.user,
        agent_info=context.session.agent_info,
    )
    return Result()


def set_primary(context: StatementContext, statement: SetPrimaryCluster) -> Result:
    """Run ALTER TABLE ... SET PRIMARY CLUSTER: return one row that describes the change."""
    found = context.services.primaries.change(
        _table(context, statement).full_name,
        statement.cluster,
        force=statement.force,
        confirm=statement.confirm,
        user=context.session.user,
        agent_info=context.session.agent_info,
    )
    copied = 0 if found.replication is None else found.replication.bytes_copied
    row = (found.table, found.before, found.cluster, found.is_changed, copied, len(found.lost))
    return Result(list(PRIMARY_COLUMNS), [row], cluster=found.cluster, txn_id=found.txn_id)


def show_copies(context: StatementContext, statement: ShowCopies) -> Result:
    """Run SHOW COPIES: return one row for each partition and each cluster that has it, the primary cluster first."""
    shown = context.services.replicator.copies(_table(context, statement).full_name)
    rows: list[tuple[object, ...]] = [
        (
            each.partition,
            each.cluster,
            "primary" if each.is_primary else "secondary",
            "current" if each.is_current else "stale",
            each.location,
            each.directories,
            each.size_bytes,
            each.lacking_directories,
            each.lacking_bytes,
            None if each.lag_ms is None else each.lag_ms // 1000,
            None if each.is_primary else each.lag_commits,
            each.write_id,
        )
        for each in shown
    ]
    return Result(list(SHOW_COLUMNS), rows)


def _table(context: StatementContext, statement: ReplicateTable | DropCopy | SetPrimaryCluster | ShowCopies) -> Table:
    return context.services.catalog.get_table(*context.session.qualify(statement.table))


def move_database(context: StatementContext, statement: MoveDatabase) -> Result:
    """Run ALTER DATABASE ... SET PRIMARY CLUSTER: return one row that describes the change."""
    found = context.services.moves.move(
        statement.database,
        statement.cluster,
        copy_linked=statement.copy_linked,
        keep_copies=statement.keep_copies,
        user=context.session.user,
        agent_info=context.session.agent_info,
    )
    return Result(list(MOVE_COLUMNS), [found.row], cluster=found.cluster, txn_id=found.txn_id)


def cancel_move(context: StatementContext, statement: CancelMove) -> Result:
    """Run ALTER DATABASE ... CANCEL MOVE: cancel a running move. The tables stay on their clusters.

    The copies that the move has made are withdrawn, unless the statement keeps them.
    """
    context.services.moves.cancel(statement.database, keep_copies=statement.keep_copies)
    return Result()
