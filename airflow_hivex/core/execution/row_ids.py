"""The replacement of ROW__ID in bound statements by a column with the row ids of a table.

If row ids of a table are read, the scan of the table gets a row id column. ``*`` does not include this column.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.row_ids import ROW_ID, Candidates, RowIdReads, RowIdUse
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.statements import (
    ChangeQuery,
    ChangeRows,
    MultiInsert,
    Query,
    RoutedStatement,
    TableName,
    TableReference,
    TextEdit,
    is_stored,
    source_name,
)

TableOf: TypeAlias = Callable[[TableReference], Table]

S = TypeVar("S", bound=RoutedStatement)

_OPERATION = "A read of the ROW__ID of"
_OF_TARGET = "__row_id_of_target"
_OF_SOURCE = "__row_id_of_source"


class _Kind(enum.Enum):
    """The meaning of the name ROW__ID in a table."""

    ROW_IDS = "the ids of its rows"
    OWN_COLUMN = "a column of its own"
    NAMED = "a column of the sub-query that was computed before"
    UNKNOWN = "it is not known"
    NOTHING = "nothing"


def with_row_ids(statement: S, table_of: TableOf) -> S:
    """Return the statement with each ROW__ID replaced by a column of row ids.

    The attribute ``row_id`` of the table's reference has the name of this column.

    Raises:
        InvalidOperationError: several tables have a ROW__ID, or the table has no row ids.
    """
    match statement:
        case MultiInsert():
            before = {TableName(source_name(number)): source for number, source in enumerate(statement.sources)}
            tables = _Tables(table_of, before)
            return statement.with_queries(lambda query: _settled(query, tables))
        case ChangeRows():
            source, matched, unmatched, by_source = _of_change(statement, table_of)
            return replace(
                statement, source=source, matched=matched, unmatched=unmatched, unmatched_by_source=by_source
            )
    return statement.with_queries(lambda query: _settled(query, _Tables(table_of)))


class _Tables:
    """The meaning of ROW__ID in each reference of a query.

    ``before`` is a dict from name to query, for the queries that are computed before this query.
    """

    def __init__(self, table_of: TableOf, before: Mapping[TableName, Query] | None = None) -> None:
        self._table_of = table_of
        self._before = before or {}

    def kind(self, reference: TableReference) -> _Kind:
        query = self._before.get(reference.table)
        if query is not None:
            return self._result(query)
        if not is_stored(reference.table):
            return _Kind.UNKNOWN
        table = self._table_of(reference)
        if _has_own(table):
            return _Kind.OWN_COLUMN
        return _Kind.NOTHING if _why_none(table) else _Kind.ROW_IDS

    def name(self, reference: TableReference) -> str:
        return reference.alias if reference.table in self._before else self._table_of(reference).full_name

    def why_none(self, reference: TableReference) -> str:
        if reference.table in self._before:
            return "none of its columns is called so"
        return _why_none(self._table_of(reference))

    def _result(self, query: Query) -> _Kind:
        result = query.row_ids.result
        if result.named or any(self.kind(query.references[place]) is _Kind.OWN_COLUMN for place in result.through):
            return _Kind.NAMED
        return _Kind.UNKNOWN if result.is_open else _Kind.NOTHING


def _has_own(table: Table) -> bool:
    return any(column.name.lower() == ROW_ID.lower() for column in (*table.columns, *table.partition_keys))


def _why_none(table: Table) -> str:
    """Return the reason why a table has no row ids, as a sentence, or an empty text if it has row ids."""
    if not table.is_transactional:
        return "it is an external table, whose rows have no ids"
    return "it is an insert-only table, whose rows have no ids" if table.is_insert_only else ""


def row_id_meaning(table: Table) -> tuple[bool, str]:
    """Return a pair: whether a column of the table is named ROW__ID, and why the table has no row ids."""
    return _has_own(table), _why_none(table)


# -- one query ---------------------------------------------------------------------------


def _settled(query: Query, tables: _Tables, names: Mapping[int | None, str] | None = None) -> Query:
    """Return the query with each ROW__ID replaced by a column. ``names`` gives the column names of some references."""
    uses = query.row_ids.uses
    if not uses:
        return query
    kinds = [tables.kind(reference) for reference in query.references]
    chosen = [(use, _chosen(use, query, kinds, tables)) for use in uses]
    marked = sorted({place for _, (place, _) in chosen if place is not None})
    # A subquery may read the ids of a table next to it.
    is_repeated = any(use.alias is not None and depth > 0 for use, (_, depth) in chosen)
    columns = _columns(query, marked, kinds, names or {}, is_repeated=is_repeated)
    edits = list(query.qualifiers)
    for use, (place, _) in chosen:
        if place is not None and columns[place] != ROW_ID:
            alias = f" AS {quoted(use.alias)}" if use.alias is not None else ""
            edits.append(TextEdit(use.start, use.end, quoted(columns[place]) + alias))
    for star in query.row_ids.stars:
        hidden = ", ".join(quoted(columns[place]) for place in star.tables if place in columns)
        if hidden:
            edits.append(TextEdit(star.start, star.end, star.before + hidden + star.after))
    return replace(
        query,
        references=tuple(
            replace(reference, row_id=columns.get(place)) for place, reference in enumerate(query.references)
        ),
        qualifiers=tuple(edits),
        row_ids=RowIdReads(result=query.row_ids.result),
    )


def _columns(
    query: Query,
    marked: Sequence[int],
    kinds: Sequence[_Kind],
    names: Mapping[int | None, str],
    *,
    is_repeated: bool,
) -> dict[int, str]:
    """Return a dict from the place of a table's reference in the query to the name of the column with its row ids.

    The column is named ROW__ID if nothing else in the query has this name. Otherwise its name is unique in the query,
    so that it is never ambiguous.
    """
    plain = len(marked) == 1 and not names and not query.row_ids.is_named_otherwise and not is_repeated
    if plain and all(kind in (_Kind.ROW_IDS, _Kind.NOTHING) for kind in kinds):
        return {marked[0]: ROW_ID}
    return {place: names.get(place, f"__row_id_of_{place}") for place in marked}


def _chosen(use: RowIdUse, query: Query, kinds: Sequence[_Kind], tables: _Tables) -> tuple[int | None, int]:
    """Return a pair: the place of the reference that a ROW__ID means, and the number of scopes between the two.

    The place is None if ROW__ID is, or can be, an ordinary column, and must not be replaced.

    Raises:
        InvalidOperationError: ROW__ID can mean several tables, or means no table with row ids.
    """
    for depth, scope in enumerate(use.scopes):
        if any(kinds[place] is _Kind.OWN_COLUMN for place in (*scope.tables, *scope.through)):
            return None, 0
        having = [place for place in scope.tables if kinds[place] is _Kind.ROW_IDS]
        named = [place for place in scope.tables if kinds[place] is _Kind.NAMED]
        if having and len(having) + len(named) + scope.named > 1:
            raise _ambiguous([query.references[place] for place in (*having, *named)], scope, tables)
        if having:
            if scope.is_pivoted:
                reason = "PIVOT and UNPIVOT leave no row of the table; read the ids in a sub-query"
                raise InvalidOperationError(_OPERATION, tables.name(query.references[having[0]]), reason)
            return having[0], depth
        if named or scope.named or scope.is_open or any(kinds[place] is _Kind.UNKNOWN for place in scope.tables):
            return None, 0
    without = [query.references[place] for scope in use.scopes for place in scope.tables]
    if without:
        names = " and ".join(dict.fromkeys(map(tables.name, without)))
        reasons = "; ".join(dict.fromkeys(map(tables.why_none, without)))
        raise InvalidOperationError(_OPERATION, names, f"{reasons}. Only full ACID tables have ROW__ID")
    others = [alias for scope in use.scopes for alias in scope.others if alias]
    if others:
        reason = "no column of the view or sub-query has this name"
        raise InvalidOperationError(_OPERATION, " and ".join(dict.fromkeys(others)), reason)
    return None, 0


def _ambiguous(found: Sequence[TableReference], scope: Candidates, tables: _Tables) -> InvalidOperationError:
    called = [f"{tables.name(each)} ({each.alias})" for each in found]
    called += [alias for alias in scope.others if alias and scope.named]
    reason = f"each of them has one; say which is meant, as in {found[0].alias}.ROW__ID"
    return InvalidOperationError(_OPERATION, " and ".join(called), reason)


# -- UPDATE, DELETE and MERGE ----------------------------------------------------------------


def _of_change(
    statement: ChangeRows, table_of: TableOf
) -> tuple[Query | None, ChangeQuery, ChangeQuery | None, ChangeQuery | None]:
    """Return the source and the three parts of a statement, with each ROW__ID replaced by a column.

    All parts share one scan of the target and one scan of the source.
    """
    source = statement.source
    before = {}
    kept = None if statement.matched.source is None else statement.matched.query.references[statement.matched.source]
    is_table = source is not None and kept is not None and [kept.table] == [each.table for each in source.references]
    if source is not None and kept is not None and not is_table:
        before = {kept.table: source}
    tables = _Tables(table_of, before)

    def part_of(part: ChangeQuery | None) -> ChangeQuery | None:
        if part is None:
            return None
        names = {part.target: _OF_TARGET, part.source: _OF_SOURCE}
        return replace(part, query=_settled(part.query, tables, names))

    parts = [part_of(part) for part in (statement.matched, statement.unmatched, statement.unmatched_by_source)]
    matched, unmatched, by_source = parts
    assert matched is not None
    named = {reference.row_id for part in parts if part is not None for reference in part.query.references}
    if _OF_TARGET in named and matched.target is not None:
        matched = replace(matched, query=_marked(matched.query, matched.target, _OF_TARGET))
    if source is not None and is_table:
        # The parts read only SELECT * of it, which includes the column.
        source = _marked(source, 0, _OF_SOURCE) if _OF_SOURCE in named else source
    elif source is not None:
        source = _settled(source, tables)
    return source, matched, unmatched, by_source


def _marked(query: Query, place: int, column: str) -> Query:
    references = list(query.references)
    references[place] = replace(references[place], row_id=column)
    return replace(query, references=tuple(references))
