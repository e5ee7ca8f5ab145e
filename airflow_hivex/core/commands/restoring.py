"""RESTORE TABLE: the rows of an earlier version replace the current rows, as a new commit."""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution import versions
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.frame_columns import reshaped
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.execution.writing import begin_write, end_write, with_empty_bases
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.versions import TableVersion
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert, RestoreTable
from airflow_hivex.core.transactions import pending_writes

log = logging.getLogger(__name__)


def run_restore(context: StatementContext, statement: RestoreTable) -> Result:
    """Restore a version; return the number of its rows, which the table has now.

    RESTORE runs as an INSERT OVERWRITE of all partitions, so the versions in between stay readable.
    """
    table = context.services.catalog.get_table(*context.session.qualify(statement.table))
    if table.not_written:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_written)
    snapshot = context.services.catalog.snapshot([(table.database, table.name)])
    version = versions.find(context, snapshot, table, statement.version, None).version
    insert = _overwrite(table, version)

    def work(running: Running) -> Result:
        running.check_may_write(statement.kind)
        routed = route(context, insert, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        write = begin_write(
            context, running, routed.target, cluster, overwrite=True, static={}, partition=None, input_columns=()
        )
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        names = _partitions(context, running, routed.target)
        end_write(context, running, write, with_empty_bases(context, running, write, written, names))
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )

    return in_transaction(context, work)


def _overwrite(table: StoredTable, version: TableVersion) -> Insert:
    """Return the INSERT OVERWRITE of the version's rows. Current columns and fields that the version lacks are NULL."""
    then = {column.in_files.lower(): column for column in version.columns or table.columns}
    values = [
        reshaped(table.full_name, quoted(then[column.in_files.lower()].name), then[column.in_files.lower()], column)
        if column.in_files.lower() in then
        else f"CAST(NULL AS {column.type})"
        for column in table.columns
    ]
    values += [quoted(key.name) for key in table.partition_keys]
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    text = f"SELECT {', '.join(values)} FROM {name} VERSION AS OF {version.write_id}"  # noqa: S608 - quoted names
    insert = read(f"INSERT OVERWRITE TABLE {name} {text}", database=table.database)
    assert isinstance(insert, Insert)
    return insert


def _partitions(context: StatementContext, running: Running, table: StoredTable) -> list[str]:
    """Return the partitions of a table, including new partitions of the statement's own transaction."""
    if not table.is_partitioned:
        return []
    names = set(context.services.catalog.list_partition_names(table.database, table.name))
    if running.joined is not None:
        with context.services.store.read() as connection:
            own = pending_writes.written_directories(connection, running.txn_id)
        names.update(name for name in own.get(table.id, {}) if name is not None)
    return sorted(names)
