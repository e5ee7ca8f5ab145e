"""The reads and writes of statements, and the source columns of each written column.

Only the text is read. No metastore is read, and no statement is run.
"""

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
from airflow_hivex.core.parser.statements import (
    CreateTable,
    CreateTemporaryView,
    DropView,
    Insert,
    ObjectKind,
    Query,
    TableName,
    UsedObject,
)


@dataclass(frozen=True, slots=True)
class Inspection:
    """One statement of a text: its kind, its place, the objects that it names, and its parameters.

    ``kind`` is for example ``SELECT``, ``INSERT OVERWRITE``, ``MERGE`` or ``CREATE TABLE AS SELECT``. ``inputs`` are
    the objects that the statement reads, describes or uses. ``outputs`` are the objects that the statement changes. The
    inputs and the outputs are in the order of the text. An object that is named twice occurs twice, and an object that
    is read and changed is both an input and an output. ``start`` and ``end`` count characters of the text from 0, end
    excluded. ``parameters`` are the names of the ``:name`` markers.
    """

    kind: str
    start: int
    end: int
    inputs: tuple[UsedObject, ...]
    outputs: tuple[UsedObject, ...]
    parameters: tuple[str, ...] = ()


def inspect(text: str, database: str | None = None) -> tuple[Inspection, ...]:
    """Return an :class:`Inspection` of each statement of a text, in order.

    The names of common table expressions, aliases and sub-queries are not objects. A view is an object, because only
    the catalog knows the tables that the view reads. In place of a temporary view that the text creates, the result has
    the objects that the query of the view reads.

    Args:
        text: any number of statements, separated by semicolons. Markers need no values.
        database: the current database, for tables without a database in their names. A USE in the text changes the
            current database for the following statements. Without a current database, the result has None as the
            database of such tables.

    Raises:
        StatementSyntaxError: a statement cannot be read; ``line`` and ``column`` count in the text.
        UnsupportedStatementError: a statement is SQL that this release does not run.
        InvalidParametersError: ``text`` is not a text.
    """
    return tuple(_inspections(text, database))


def _inspections(text: str, database: str | None) -> Iterator[Inspection]:
    temporary: dict[str, tuple[UsedObject, ...]] = {}
    for each in read_all(text, database=database):
        named = (found for use in each.statement.uses for found in _read_by(use, temporary))
        uses = sorted((_qualified(use, each.database) for use in named), key=lambda use: use.start or 0)
        if isinstance(each.statement, CreateTemporaryView):
            temporary[each.statement.view.name] = tuple(uses)
        elif isinstance(each.statement, DropView) and each.statement.view.database is None:
            temporary.pop(each.statement.view.name, None)
        yield Inspection(
            each.statement.kind,
            each.span.start,
            each.span.end,
            inputs=tuple(use for use in uses if not use.role.is_output),
            outputs=tuple(use for use in uses if use.role.is_output),
            parameters=each.markers,
        )


def _read_by(use: UsedObject, temporary: Mapping[str, tuple[UsedObject, ...]]) -> tuple[UsedObject, ...]:
    """Return the objects that ``use`` reads if it is a temporary view of the text, or else only ``use``."""
    if use.kind is not ObjectKind.TABLE or use.database is not None or use.namespace is not None:
        return (use,)
    found = temporary.get(use.name or "")
    return (use,) if found is None else tuple(replace(each, start=use.start, end=use.end) for each in found)


def _qualified(use: UsedObject, database: str | None) -> UsedObject:
    """Return an object without a database with the current database. Other objects and links stay unchanged."""
    if use.kind is ObjectKind.DATABASE and use.name is None:
        return replace(use, name=database)
    if use.kind is ObjectKind.TABLE and use.database is None and use.namespace is None:
        return replace(use, database=database)
    return use


log = logging.getLogger(__name__)

ColumnsOf = Callable[[TableName], Sequence[str] | None]
MOST_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The column lineage of one statement: a dict from each written column of ``target`` to its source columns.

    A source column is a (table, column) pair.
    """

    target: TableName
    columns: Mapping[str, tuple[tuple[TableName, str], ...]]


def column_lineage(text: str, columns_of: ColumnsOf, database: str | None = None) -> tuple[ColumnLineage, ...]:
    """Return the column lineage of each INSERT ... SELECT and each CREATE TABLE ... AS SELECT in a text.

    A statement whose columns cannot be found is skipped.

    Args:
        text: any number of statements. Markers need no values.
        columns_of: a function that returns the columns of a table in order, with the partition columns last, or None
            for an unknown table.
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
        return known_columns(_with_database(table, database))

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
        _with_database(target, database),
        {
            name: tuple((_with_database(table, database), column) for table, column in sources)
            for name, (_, sources) in zip(written, columns, strict=True)
        },
    )


def _with_database(table: TableName, database: str | None) -> TableName:
    """Return a table name; a name without a database or namespace gets the current database."""
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
