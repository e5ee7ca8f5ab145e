"""SHOW COLUMNS and SHOW TBLPROPERTIES: one part of what a table or link is."""

from __future__ import annotations

from airflow_hivex.core.catalog.databases import matching
from airflow_hivex.core.commands.links import linked
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.secrets import hide_in_properties
from airflow_hivex.core.parser.statements import ShowColumns, ShowTableProperties, TableName


def show_columns(context: StatementContext, statement: ShowColumns) -> Result:
    """SHOW COLUMNS: one name a row, partition keys last; those of a link are its source's."""
    temporary = context.session.objects.view(statement.table)
    if temporary is not None:
        names = [column.name for column in temporary.columns]
    else:
        table = _table(context, statement.table)
        names = [column.name for column in (*table.columns, *table.partition_keys)]
    wanted = matching(names, statement.pattern)
    shown = wanted if statement.is_sorted else [name for name in names if name in wanted]
    return Result(["col_name"], [(name,) for name in shown])


def show_table_properties(context: StatementContext, statement: ShowTableProperties) -> Result:
    """SHOW TBLPROPERTIES: one property a row, by name; of a link its own properties.

    Raises:
        InvalidObjectError: there is no property of that name.
    """
    if statement.table.namespace is None:
        table = _table(context, statement.table)
        kind, name, properties = "table", table.full_name, table.parameters
    else:
        link, _ = linked(context, statement.table)
        kind, name, properties = "link", str(link.name), link.properties
    shown = sorted(hide_in_properties(properties).items())
    if statement.key is not None:
        shown = [each for each in shown if each[0] == statement.key]
        if not shown:
            raise InvalidObjectError(kind, name, f"it has no property {statement.key}")
    return Result(["key", "value"], [(key, value) for key, value in shown])


def _table(context: StatementContext, name: TableName) -> Table:
    if name.namespace is None:
        return context.services.catalog.get_table(*context.session.qualify(name))
    return linked(context, name)[1]
