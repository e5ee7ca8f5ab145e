"""The tables that statements read and write, as assets of Airflow."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from airflow_hivex.assets.hivex import TableUri, table_uri
from airflow_hivex.core.errors import HivexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.core.parser.statements import UsedObject

log = logging.getLogger(__name__)


class ReadAndWritten(NamedTuple):
    """The tables that statements read and write, in the order of the text. Each table appears once."""

    inputs: tuple[TableUri, ...] = ()
    outputs: tuple[TableUri, ...] = ()


def tables_of(sql: str | Sequence[str], hivex_conn_id: str, database: str) -> ReadAndWritten:
    """Return the tables that statements read and write. The text of the statements is inspected, and nothing is run.

    If a statement reads a link ``t@y``, its input is the table ``t`` of the namespace ``y``. If a statement creates or
    changes a link, its output is the link. If the text has a syntax error, no tables are returned.

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
