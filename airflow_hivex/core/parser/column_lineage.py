"""The columns that each written column is computed from, where sqlglot can find them; no metastore is read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage as lineage_of_column
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from airflow_hivex.core.parser.reader import read_all
from airflow_hivex.core.parser.statements import CreateTable, Insert, Query, TableName

log = logging.getLogger(__name__)

ColumnsOf = Callable[[TableName], Sequence[str] | None]
MOST_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The columns of one table that a statement writes: for each the columns that it is computed from."""

    target: TableName
    columns: Mapping[str, tuple[tuple[TableName, str], ...]]


def column_lineage(text: str, columns_of: ColumnsOf, database: str | None = None) -> tuple[ColumnLineage, ...]:
    """Return the column lineage of each INSERT with a query and each CREATE TABLE AS SELECT of a text.

    A statement whose columns cannot be found is skipped.

    Args:
        text: any number of statements. Markers need no values.
        columns_of: returns the columns of a table in their order, its partition columns last; None if it is not known.
        database: the current database.

    Raises:
        StatementSyntaxError: a statement cannot be read.
    """
    found = []
    for each in read_all(text, database=database):
        lineage = _of_statement(each.statement, columns_of, each.database)
        found += [] if lineage is None else [lineage]
    return tuple(found)


def _of_statement(statement: Any, known_columns: ColumnsOf, database: str | None) -> ColumnLineage | None:
    def columns_of(table: TableName) -> Sequence[str] | None:
        return known_columns(_qualified(table, database))

    match statement:
        case Insert(rows=None):
            target, query = statement.target, statement.query
            by_place = statement.columns or _without_static(columns_of(target), statement.static)
            names = None if statement.by_name else by_place
        case CreateTable() if statement.query is not None:
            target, query, names = statement.table, statement.query, None
        case _:
            return None
    try:
        columns = list(_of_query(query, columns_of))
    except (SqlglotError, ValueError, KeyError, AttributeError, RecursionError) as error:
        log.debug("The columns of a statement that writes %s are not known: %s", target, error)
        return None
    if names is not None and len(names) != len(columns):
        return None
    written = names or [name for name, _ in columns]
    return ColumnLineage(
        _qualified(target, database),
        {
            name: tuple((_qualified(table, database), column) for table, column in sources)
            for name, (_, sources) in zip(written, columns, strict=True)
        },
    )


def _qualified(table: TableName, database: str | None) -> TableName:
    """Return a name, with the current database where it has no database."""
    has_one = table.database is not None or table.namespace is not None
    return table if has_one else replace(table, database=database)


def _without_static(columns: Sequence[str] | None, static: Mapping[str, Any]) -> list[str] | None:
    return None if columns is None else [column for column in columns if column not in static]


def _of_query(query: Query, columns_of: ColumnsOf) -> Iterator[tuple[str, tuple[tuple[TableName, str], ...]]]:
    tables = [reference.table for reference in query.references]
    views = [f"hivex_table_{at}" for at in range(len(tables))]
    schema: dict[str, object] = {
        view: dict.fromkeys(columns, "string")
        for view, table in zip(views, tables, strict=True)
        if (columns := columns_of(table)) is not None
    }
    tree = parse_one(query.render(views), dialect="spark")
    qualified = qualify(tree, schema=schema, dialect="spark", validate_qualify_columns=False, quote_identifiers=False)
    if not isinstance(qualified, exp.Query):
        raise ValueError("it is not a query")
    scope = build_scope(qualified)
    if scope is None or len(qualified.named_selects) > MOST_COLUMNS:
        raise ValueError("it has too many columns, or none")
    of_view = dict(zip(views, tables, strict=True))
    for name in qualified.named_selects:
        if name == "*":
            raise ValueError("it has a star over a table that is not known")
        yield name, tuple(dict.fromkeys(_sources(name, qualified, scope, of_view)))


def _sources(
    name: str, query: exp.Query, scope: Scope, of_view: Mapping[str, TableName]
) -> Iterator[tuple[TableName, str]]:
    for node in lineage_of_column(name, query, {}, scope=scope, dialect="spark", trim_selects=False).walk():
        if isinstance(node.source, exp.Table) and node.source.name in of_view:
            yield of_view[node.source.name], node.name.rpartition(".")[2].strip('`"')
