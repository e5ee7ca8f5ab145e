"""INSERT and MERGE WITH SCHEMA EVOLUTION: columns that only the query or the source has come to the table.

They come in the commit of the rows. The columns of the query are looked up first, and the statement is retried if
another one has changed those of the table meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from airflow_hivex.core.commands.column_definitions import with_merged_columns
from airflow_hivex.core.commands.row_changes import run_change, run_explain_changes
from airflow_hivex.core.errors import ColumnCountMismatchError, InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.change_targets import check_changeable
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.queries import run_describe_query, run_insert
from airflow_hivex.core.execution.schema_merges import ColumnsChangedError, SchemaMerge
from airflow_hivex.core.model.column_types import Primitive
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.plans import SOURCE_ROW
from airflow_hivex.core.parser.statements import (
    ChangeRows,
    DescribeQuery,
    ExplainChanges,
    Insert,
    Query,
    TableName,
    TextEdit,
)

log = logging.getLogger(__name__)

_MOST_TRIES = 20

Evolved = Callable[[StoredTable], Table]
Run = Callable[[SchemaMerge | None], Result]


def run_insert_statement(context: StatementContext, statement: Insert) -> Result:
    """Return the rows written by an INSERT, which adds columns to its table if it says so.

    Raises:
        InvalidObjectError: the new columns cannot be columns of the table.
        InvalidOperationError: it adds columns in a transaction of several statements, or others change them each time.
    """
    if not statement.evolves:
        return run_insert(context, statement)

    def evolved(table: StoredTable) -> Table:
        if table.not_inserted:
            raise InvalidOperationError(statement.kind, table.full_name, table.not_inserted)
        given = _columns_of(context, _with_types_of_new_columns(statement, table))
        return with_merged_columns(table, given if statement.by_name else _by_position(statement, table, given))

    return _retried(
        context, statement.kind, statement.target, evolved, lambda merge: run_insert(context, statement, merge=merge)
    )


def run_change_statement(context: StatementContext, statement: ChangeRows) -> Result:
    """Return the rows written and deleted by an UPDATE, DELETE or MERGE; a MERGE adds columns if it says so.

    Raises:
        InvalidObjectError, InvalidOperationError: as :func:`run_insert_statement`.
    """
    if not statement.evolves:
        return run_change(context, statement)
    evolved = _evolved_by(context, statement)
    return _retried(
        context, statement.kind, statement.target, evolved, lambda merge: run_change(context, statement, merge=merge)
    )


def run_explain_statement(context: StatementContext, statement: ExplainChanges) -> Result:
    """Return the plan of an UPDATE, DELETE or MERGE, with the columns that it would add.

    Raises:
        InvalidObjectError, InvalidOperationError: as :func:`run_insert_statement`.
    """
    changes = statement.statement
    if not changes.evolves:
        return run_explain_changes(context, statement)
    evolved = _evolved_by(context, changes)
    return _retried(
        context, changes.kind, changes.target, evolved, lambda merge: run_explain_changes(context, statement, merge)
    )


def _retried(context: StatementContext, kind: str, target: TableName, evolved: Evolved, run: Run) -> Result:
    """Return the result of a statement that is run with the current columns and its own.

    Raises:
        InvalidOperationError: it adds columns in a transaction of several statements, or others change them each time.
    """
    named = context.session.qualify(target)
    for _ in range(_MOST_TRIES):
        table = context.services.catalog.get_table(*named)
        after = evolved(table)
        if after.columns == table.columns:
            return run(None)
        if context.session.transaction is not None:
            reason = "it gets new columns, which others would see before the transaction commits; write outside of it"
            raise InvalidOperationError(kind, table.full_name, reason)
        try:
            return run(SchemaMerge(table, after))
        except ColumnsChangedError:
            log.info("The columns of %s were changed meanwhile, and the %s is retried", table.full_name, kind)
    reason = f"other statements have changed its columns {_MOST_TRIES} times meanwhile; try again later"
    raise InvalidOperationError(kind, ".".join(named), reason)


def _columns_of(context: StatementContext, query: Query) -> list[Column]:
    return [Column(str(row[0]), str(row[1])) for row in run_describe_query(context, DescribeQuery(query)).rows]


def _with_types_of_new_columns(statement: Insert, table: StoredTable) -> Query:
    """Return the query, of a list of VALUES without the values that are stored as the type of a column of the table.

    Spark may find no type that all values of such a column have.
    """
    query = statement.query
    if query.values is None:
        return query
    own = [column for column in table.columns if isinstance(column.parsed_type, Primitive)]
    names = {column.name.lower() for column in (*own, *table.partition_keys)}
    width = len(query.values.cells[0])
    if statement.by_name:
        known = {i for i, name in enumerate(query.values.names) if name.lower() in names}
    else:
        known = {i for i, column in enumerate(table.columns[:width]) if column in own}
    edits = [TextEdit(*row[i], "NULL") for row in query.values.cells[1:] for i in known]
    others = [
        edit
        for edit in query.qualifiers
        if not any(each.start <= edit.start and edit.end <= each.end for each in edits)
    ]
    return replace(query, qualifiers=(*others, *edits))


def _by_position(statement: Insert, table: StoredTable, given: Sequence[Column]) -> list[Column]:
    """Return the columns of a query under the names that they have in the table; new ones keep their own.

    Raises:
        InvalidOperationError: the query has values of partition keys, which stand behind all columns.
        InvalidObjectError: a new column has the name of one of the table.
        ColumnCountMismatchError: the query has fewer columns than the table.
    """
    dynamic = [key.name for key in table.partition_keys if key.name.lower() not in statement.static]
    if dynamic:
        reason = (
            f"new columns by position would stand behind partition key {dynamic[0]} in the query, and before it in the "
            "table; write BY NAME behind the table"
        )
        raise InvalidOperationError("INSERT WITH SCHEMA EVOLUTION", table.full_name, reason)
    names = [column.name for column in table.columns]
    if len(given) < len(names):
        raise ColumnCountMismatchError(table.full_name, len(names), len(given), names)
    known = {column.name.lower() for column in (*table.columns, *table.partition_keys)}
    for column in given[len(names) :]:
        if column.name.lower() in known:
            reason = f"it has a column {column.name} already; give the new one another name, or write BY NAME"
            raise InvalidObjectError("table", table.full_name, reason)
    renamed = (replace(column, name=name) for column, name in zip(given, names, strict=False))
    return [*renamed, *given[len(names) :]]


def _evolved_by(context: StatementContext, statement: ChangeRows) -> Evolved:
    """Return how a MERGE changes the columns of its table.

    ``SET *`` and ``INSERT *`` name all columns of the source. Other clauses name those that they copy, and those that
    they assign and the table lacks, whose types are those of the source's columns of their names.
    """
    assert statement.source is not None
    source = [column for column in _columns_of(context, statement.source) if column.name != SOURCE_ROW]
    takes_all = any(clause.by_name for clause in statement.clauses)
    copied = {name.lower() for clause in statement.clauses for name in clause.copied}
    assigned = {name.lower() for clause in statement.clauses for name in clause.columns or ()}

    def evolved(table: StoredTable) -> Table:
        check_changeable(statement, table)
        known = {column.name.lower() for column in table.columns}
        wanted = copied | (assigned - known)
        return with_merged_columns(table, [column for column in source if takes_all or column.name.lower() in wanted])

    return evolved
