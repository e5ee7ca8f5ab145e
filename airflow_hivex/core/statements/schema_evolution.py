"""INSERT WITH SCHEMA EVOLUTION: columns that only the query has come to the table, in the commit of its rows.

The columns of the query are looked up first, and the INSERT is retried if another statement has changed those of the
table meanwhile.
"""

from __future__ import annotations

import logging

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.statements import DescribeQuery, Insert
from airflow_hivex.core.statements.column_definitions import with_merged_columns
from airflow_hivex.core.statements.context import Result, StatementContext
from airflow_hivex.core.statements.queries import run_describe_query, run_insert
from airflow_hivex.core.statements.schema_merges import ColumnsChangedError, SchemaMerge

log = logging.getLogger(__name__)

_MOST_TRIES = 20


def run_insert_statement(context: StatementContext, statement: Insert) -> Result:
    """Return the rows written by an INSERT, which adds columns to its table if it says so.

    Raises:
        InvalidObjectError: the new columns cannot be columns of the table.
        InvalidOperationError: it adds columns in a transaction of several statements, or others change them each time.
    """
    if not statement.evolves:
        return run_insert(context, statement)
    described = run_describe_query(context, DescribeQuery(statement.query)).rows
    columns = [Column(str(row[0]), str(row[1])) for row in described]
    named = context.session.qualify(statement.target)
    for _ in range(_MOST_TRIES):
        table = context.services.catalog.get_table(*named)
        if table.not_inserted:
            raise InvalidOperationError(statement.kind, table.full_name, table.not_inserted)
        after = with_merged_columns(table, columns)
        if after.columns == table.columns:
            return run_insert(context, statement)
        if context.session.transaction is not None:
            reason = "it gets new columns, which others would see before the transaction commits; write outside of it"
            raise InvalidOperationError(statement.kind, table.full_name, reason)
        try:
            return run_insert(context, statement, merge=SchemaMerge(table, after))
        except ColumnsChangedError:
            log.info("The columns of %s were changed meanwhile, and the INSERT is retried", table.full_name)
    reason = f"other statements have changed its columns {_MOST_TRIES} times meanwhile; try again later"
    raise InvalidOperationError(statement.kind, ".".join(named), reason)
