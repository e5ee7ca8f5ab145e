"""Queries as text and as the tables that they read."""

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

    ``alias`` is the name by which the query's columns may call it. ``has_alias`` is false when
    the query gave none, so that one must be written where the name is replaced, or at
    ``alias_position`` if something stands between the two (``t TABLESAMPLE (1 PERCENT) AS x``).
    ``filters`` are the conjuncts that every row taken from here must satisfy, of those that
    read nothing but columns that may be this table's. ``row_id`` is the name of one more column with
    the ids of its rows, None where the query reads none. ``version`` is an earlier version that is read, ``changes``
    the commits whose changes are read in place of its rows.
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
    """Replace the characters from ``start`` to ``end`` by ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One place in a query where a function is called that may be a permanent one, by its normalised name."""

    name: str
    database: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DatabaseCall:
    """One place in a query that calls for the current database; ``column`` is what it calls a column of its result."""

    start: int
    end: int
    column: str | None


@dataclass(frozen=True, slots=True)
class ValueList:
    """The rows of a query that is a list of VALUES and nothing else, all of one length.

    ``cells`` are the places of the values in the query's text, row by row. ``types`` are Spark's types of those that
    are constants, None for others. ``names`` are the names that an alias gives the columns, if it does.
    """

    cells: tuple[tuple[Span, ...], ...]
    types: tuple[tuple[str | None, ...], ...]
    names: tuple[str, ...] = ()

    def with_expressions(self, starts: Collection[int]) -> Self:
        """Return the list with other expressions for the constants that begin at these places."""
        types = tuple(
            tuple(None if cell.start in starts else known for cell, known in zip(cells, types, strict=True))
            for cells, types in zip(self.cells, self.types, strict=True)
        )
        return replace(self, types=types)


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT (with its CTEs, set operations and sub-queries) as text and as what it reads.

    ``start`` and ``end`` bound it in ``text``. ``references`` stand in order of appearance.
    ``qualifiers`` are edits that shorten ``database.table.column`` to ``table.column``, which is
    how the column is called once the table's name was replaced. ``row_ids`` is where it may read ROW__ID,
    as long as that is not settled by edits, too.
    ``parameters`` are the names of its ``:name`` markers. ``code_functions`` are the functions that it calls
    which run any code of the statement's author. ``loaded`` are files that it reads besides its references.
    ``functions`` are the calls of functions that are not Spark's own, as far as their names show.
    ``database_calls`` ask for the current database. ``texts`` are the positions of the columns of its result that are
    constant texts or NULL, from the end where they are negative. ``lists_columns`` is true where the text lists the
    columns of its result one by one, so that they stay in their order whatever happens to the tables. ``values`` are
    the values of a list of VALUES.
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
        """Return the query with the table of each reference replaced by the view of the same position."""
        return self.render_with_places(views)[0]

    def render_values(self) -> tuple[tuple[str, ...], ...]:
        """Return the text of each of its ``values``, row by row, for a query without references."""
        assert self.values is not None, "the query is a list of VALUES"

        def text(cell: Span) -> str:
            edits = tuple(edit for edit in self.qualifiers if cell.start <= edit.start and edit.end <= cell.end)
            if not edits:
                return self.text[cell.start : cell.end]
            return replace(self, start=cell.start, end=cell.end, qualifiers=edits).render(())

        return tuple(tuple(map(text, cells)) for cells in self.values.cells)

    def render_with_places(self, views: Sequence[str], *, with_versions: bool = False) -> tuple[str, tuple[Span, ...]]:
        """Return the text of :meth:`render` with the place of each view in it.

        The text that names versions of tables goes with their names, or stays ``with_versions``.
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
