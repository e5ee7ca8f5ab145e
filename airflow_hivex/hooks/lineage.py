"""Tables that statements read and write, as assets for the collector of Airflow's hooks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hivex.assets.hivex import TableUri, table_uri
from airflow_hivex.core.errors import HivexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.core.dbapi import Cursor
    from airflow_hivex.core.parser.statements import UsedObject
    from airflow_hivex.hooks.hivex import HivexHook

log = logging.getLogger(__name__)


class ReadAndWritten(NamedTuple):
    """The tables that statements read and write: each table once, in the order of the text."""

    inputs: tuple[TableUri, ...] = ()
    outputs: tuple[TableUri, ...] = ()


def tables_of(sql: str | Sequence[str], hivex_conn_id: str, database: str) -> ReadAndWritten:
    """Return the tables that statements read and write, found in the text only.

    If a statement reads a link ``t@y``, its input is the table ``t`` of the namespace ``y``. If a statement creates or
    changes a link, its output is the link. A statement with a syntax error has no tables.

    :param database: the current database before the first statement
    """
    from airflow_hivex.core.parser.inspection import inspect

    inputs: dict[TableUri, None] = {}
    outputs: dict[TableUri, None] = {}
    script = sql if isinstance(sql, str) else ";\n".join(sql)
    try:
        for statement in inspect(script, database):
            inputs |= dict.fromkeys(_tables(statement.inputs, hivex_conn_id, database))
            outputs |= dict.fromkeys(_tables(statement.outputs, hivex_conn_id, database))
            if statement.kind == "USE":
                database = str(statement.inputs[0].name)
    except HivexError as error:
        log.debug("The tables of a statement are not known: %s", error)
    return ReadAndWritten(tuple(inputs), tuple(outputs))


def report(hook: HivexHook, statement: str, parameters: Any, cursor: Cursor) -> None:
    """Report the text of a statement, and the tables that it has read and written, to Airflow's collector."""
    from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
    from airflow.providers.common.sql.hooks.lineage import send_sql_hook_lineage

    database = cursor.connection.session.database
    send_sql_hook_lineage(context=hook, sql=statement, sql_parameters=parameters, cur=cursor, default_schema=database)
    collector = get_hook_lineage_collector()
    found = tables_of(statement, hook.hivex_conn_id, database)
    for uri in found.inputs:
        collector.add_input_asset(hook, uri=str(uri))
    for uri in found.outputs:
        collector.add_output_asset(hook, uri=str(uri))


def _tables(uses: Sequence[UsedObject], hivex_conn_id: str, database: str) -> list[TableUri]:
    from airflow_hivex.core.parser.statements import ObjectKind, Role

    def uri(use: UsedObject) -> TableUri:
        if use.namespace and use.role.is_output:
            return table_uri(hivex_conn_id, use.database or database, f"{use.name}@{use.namespace}")
        return table_uri(hivex_conn_id, use.namespace or use.database or "default", str(use.name))

    return [
        uri(use)
        for use in uses
        if use.kind is ObjectKind.TABLE and use.name is not None and use.role is not Role.DESCRIBE
    ]
