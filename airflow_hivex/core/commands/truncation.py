"""TRUNCATE TABLE: an empty base in the table or in each partition, without a job."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.catalog.specifications import covered, typed_specification
from airflow_hivex.core.errors import InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.locking import acquire, check_not_outrun
from airflow_hivex.core.execution.routing import take_snapshot, writing_cluster
from airflow_hivex.core.execution.transactions import OutrunError, in_transaction
from airflow_hivex.core.execution.writing import begin_write, end_write
from airflow_hivex.core.job.new_directories import write_empty_bases
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.parser.statements import Truncate
from airflow_hivex.core.transactions import pending_writes


def run_truncate(context: StatementContext, statement: Truncate) -> Result:
    """TRUNCATE TABLE: return only the cluster, as the removed rows are not counted.

    Raises:
        RoutingError: the session is pinned to another cluster than the table's primary one.
    """

    def work(running: Running) -> Result:
        running.check_may_write("TRUNCATE TABLE")
        table = context.services.catalog.get_table(*context.session.qualify(statement.table))
        if table.not_written:
            raise InvalidOperationError("TRUNCATE TABLE", table.full_name, table.not_written)
        cluster = writing_cluster(context, table)
        chosen = None if statement.specification is None else _partitions(context, running, table, statement)
        locks = context.services.statement_locks.truncate(table, chosen)
        acquire(context, running, locks, write_ids_of=[table.id] if table.is_transactional else ())
        resources = [(table.id, partition) for partition in (chosen if chosen is not None else [None])]
        check_not_outrun(context, running, resources)
        take_snapshot(context, running)
        if context.services.catalog.get_table(table.database, table.name).id != table.id:
            raise OutrunError(f"table {table.full_name} was dropped and created again while the statement waited")
        names: Sequence[str | None] = [None]
        if table.is_partitioned:
            # The lock on the whole table also covers partitions that were added before the statement acquired it.
            names = chosen if chosen is not None else _partitions(context, running, table, statement)
        write = begin_write(context, running, table, cluster, overwrite=True, static={}, partition=None)
        written = write_empty_bases(write.write, [(name, nullable_values(name)) for name in names])
        end_write(context, running, write, written)
        return Result(cluster=cluster.name, txn_id=running.txn_id)

    return in_transaction(context, work)


def _partitions(context: StatementContext, running: Running, table: StoredTable, statement: Truncate) -> list[str]:
    """Return the partitions that the statement covers, sorted, including new partitions of its own transaction.

    Raises:
        NoSuchPartitionError: the specification covers no partition.
    """
    exact = None
    if statement.specification is not None:
        exact = typed_specification("TRUNCATE TABLE ... PARTITION", table, statement.specification)
    names = set(context.services.catalog.list_partition_names(table.database, table.name, exact))
    if running.joined is not None:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, running.txn_id)
        names.update(name for name in own.get(table.id, {}) if name is not None)
    found = sorted(names) if exact is None else covered(sorted(names), exact, table.partition_keys)
    if exact is not None and not found:
        raise NoSuchPartitionError(table.database, table.name, "that the specification covers")
    return found
