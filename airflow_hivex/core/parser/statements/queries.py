"""Queries: the text of a query, and the tables that the query reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_hivex.core.model.identifiers import Span, TableName
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.row_ids import RowIdReads
from airflow_hivex.core.model.versions import VersionAsOf, VersionRange


@dataclass(frozen=True, slots=True)
class TableReference:
    """One place in a query where a table is read.

    ``alias`` is the name that qualifies columns of the table. ``has_alias`` is false if the query gives no alias. Then
    the alias is added when the table's name is replaced. It is added at ``alias_position``, or after the name if
    ``alias_position`` is None. For example, ``AS x`` follows TABLESAMPLE in ``t TABLESAMPLE (1 PERCENT) AS x``.
    ``filters`` are conditions that every row taken from the table must satisfy, and whose columns can belong to the
    table. ``row_id`` is the name of an additional column with the row ids, or None if the query does not read row ids.
    ``version`` is an earlier version to read. ``changes`` are the commits whose changes are read in place of the rows.
    """

    table: TableName
    start: int
    end: int
    alias: str
    has_alias: bool
    filters: tuple[Predicate, ...] = ()
    alias_position: int | None = None
    row_id: str | None = None
    version: VersionAsOf | None = None
    changes: VersionRange | None = None


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The replacement of the characters from ``start`` to ``end`` by ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function that can be a permanent function. ``name`` is the normalised name of the function."""

    name: str
    database: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DatabaseCall:
    """One call of ``current_database()`` or ``current_schema()`` in a query.

    ``column`` is the name of the result column whose whole expression is this call, or None if there is no such column.
    """

    start: int
    end: int
    column: str | None


@dataclass(frozen=True, slots=True)
class ValueList:
    """The rows of a query that is only a list of VALUES. All rows have the same length.

    ``cells`` are the places of the values in the query's text, row by row. ``types`` are Spark's types of constants, or
    None for other values. ``names`` are the column names in the alias of the list, such as ``a, b`` in ``AS t (a, b)``.
    """

    cells: tuple[tuple[Span, ...], ...]
    types: tuple[tuple[str | None, ...], ...]
    names: tuple[str, ...] = ()

    def with_expressions(self, starts: Collection[int]) -> Self:
        """Return the list without the types of the values that begin at ``starts``."""
        types = tuple(
            tuple(None if cell.start in starts else known for cell, known in zip(cells, types, strict=True))
            for cells, types in zip(self.cells, self.types, strict=True)
        )
        return replace(self, types=types)


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT (with its CTEs, set operations and sub-queries) as text, with the objects that it reads.

    ``start`` and ``end`` are the place of the query in ``text``. ``references`` are in the order of the text.
    ``qualifiers`` are edits that shorten ``database.table.column`` to ``table.column``, which is valid after the
    table's name is replaced. ``row_ids`` are the places that can read ROW__ID. ``parameters`` are the names of the
    ``:name`` markers. ``code_functions`` are the called functions that run arbitrary code of the statement's author.
    ``loaded`` are files that the query reads in addition to its tables. ``functions`` are the calls of functions that
    Spark itself does not have. ``database_calls`` return the current database. ``texts`` are the positions of the
    result's columns that are constant texts or NULL; negative positions count from the end. ``lists_columns`` is true
    if the text lists each column of the result, without ``*``. ``values`` are the rows of a query that is only a list
    of VALUES, or None for any other query.
    """

    text: str
    start: int
    end: int
    references: tuple[TableReference, ...]
    qualifiers: tuple[TextEdit, ...] = ()
    parameters: frozenset[str] = frozenset()
    row_ids: RowIdReads = field(default_factory=RowIdReads)
    code_functions: frozenset[str] = frozenset()
    loaded: LoadedFiles | None = None
    functions: tuple[FunctionCall, ...] = ()
    database_calls: tuple[DatabaseCall, ...] = ()
    texts: tuple[int, ...] = ()
    lists_columns: bool = False
    values: ValueList | None = None

    def render(self, views: Sequence[str]) -> str:
        """Return the query's text with the i-th name of ``views`` in place of the table of the i-th reference."""
        return self.render_with_places(views)[0]

    def render_values(self) -> tuple[tuple[str, ...], ...]:
        """Return the text of each of the ``values``, row by row, for a query without references."""
        assert self.values is not None, "the query is a list of VALUES"

        def text(cell: Span) -> str:
            edits = tuple(edit for edit in self.qualifiers if cell.start <= edit.start and edit.end <= cell.end)
            if not edits:
                return self.text[cell.start : cell.end]
            return replace(self, start=cell.start, end=cell.end, qualifiers=edits).render(())

        return tuple(tuple(map(text, cells)) for cells in self.values.cells)

    def render_with_places(self, views: Sequence[str], *, with_versions: bool = False) -> tuple[str, tuple[Span, ...]]:
        """Return a pair: the text that :meth:`render` returns, and the place of each view in this text.

        The clauses for versions and changes after the names of tables are removed, unless ``with_versions`` is set.
        """
        tables: list[TextEdit] = []
        edits = list(self.qualifiers)
        for reference, view in zip(self.references, views, strict=True):
            alias = "" if reference.has_alias else f" AS `{reference.alias}`"
            alias_position, version = reference.alias_position, reference.version
            if reference.changes is not None:
                edits.append(TextEdit(reference.changes.start, reference.changes.end, ""))
                view += f" {reference.changes.text}" if with_versions else ""
            if version is not None and with_versions:
                alias_position = alias_position or version.end
            elif version is not None:
                edits.append(TextEdit(version.start, version.end, ""))
            if alias_position is None:
                tables.append(TextEdit(reference.start, reference.end, view + alias))
            else:
                tables.append(TextEdit(reference.start, reference.end, view))
                edits.append(TextEdit(alias_position, alias_position, alias))
        text = ""
        starts: dict[TextEdit, int] = {}
        position = self.start
        for edit in sorted([*tables, *edits], key=lambda edit: edit.start):
            text += self.text[position : edit.start]
            starts[edit] = len(text)
            text += edit.text
            position = edit.end
        places = tuple(Span(starts[table], starts[table] + len(table.text)) for table in tables)
        return text + self.text[position : self.end], places
