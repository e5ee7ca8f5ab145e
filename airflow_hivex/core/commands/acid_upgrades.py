"""ALTER TABLE that makes an insert-only table full ACID: its rows are written again, with row ids."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.commands.table_definitions import managed_properties
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import own_transaction
from airflow_hivex.core.execution.whole_overwrites import with_empty_bases
from airflow_hivex.core.execution.writing import begin_write, end_writes
from airflow_hivex.core.model.objects import TRANSACTIONAL_PROPERTIES, StoredTable
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids

log = logging.getLogger(__name__)

_OPERATION = "A conversion to full ACID of"


def is_upgrade(table: StoredTable, properties: Mapping[str, str]) -> bool:
    """Return whether setting these properties would make an insert-only table full ACID."""
    return table.is_insert_only and properties.get(TRANSACTIONAL_PROPERTIES, "").lower() == "default"


def upgrade_table(context: StatementContext, table: StoredTable, properties: Mapping[str, str]) -> Result:
    """Return ALTER TABLE SET TBLPROPERTIES ('transactional_properties' = 'default', ...) of an insert-only table.

    A job writes a new base of each partition under the table's exclusive lock. Earlier versions stay readable.

    Raises:
        InvalidObjectError: the table is not stored as ORC.
        InvalidOperationError: the table was changed while the statement waited for its locks.
    """
    services = context.services
    parameters = managed_properties(table.full_name, table.storage.format, {**table.parameters, **properties})
    insert = _overwrite(table)
    with own_transaction(context) as running:
        routed = route(context, insert, running, locks=services.statement_locks.convert_table(table))
        found = routed.target
        if (found.id, found.storage, found.parameters) != (table.id, table.storage, table.parameters):
            raise InvalidOperationError(_OPERATION, table.full_name, "it was changed meanwhile; try again")
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        converted = replace(table, parameters=parameters)
        write = begin_write(
            context, running, converted, cluster, overwrite=True, static={}, partition=None, input_columns=()
        )
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        names = services.catalog.list_partition_names(table.database, table.name) if table.is_partitioned else ()
        emptied = with_empty_bases(context, running, write, written, names)

        def change(connection: Connection) -> None:
            valid_txns = read_valid_txns(connection, running.txn_id)
            write_ids = read_valid_write_ids(connection, {table.id: table.full_name}, valid_txns)[table.id]
            catalog = services.catalog.joining(connection)
            catalog.alter_table(table.database, table.name, converted, write_ids, running.txn_id)

        end_writes(context, running, [(write, emptied.directories)], also=change)
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )


def _overwrite(table: StoredTable) -> Insert:
    columns = ", ".join(quoted(column.name) for column in (*table.columns, *table.partition_keys))
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    text = f"INSERT OVERWRITE TABLE {name} SELECT {columns} FROM {name}"  # noqa: S608 - quoted names
    insert = read(text, database=table.database)
    assert isinstance(insert, Insert)
    return insert
