"""Statements that read and write rows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.definitions import CreateTable
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Literal, Query, TableReference


class ChangeAction(enum.Enum):
    """The action of a clause on a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Select:
    """A query whose rows go to the user."""

    query: Query


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE one table.

    ``partition`` lists the PARTITION clause in order: a value (None for NULL) where it is static,
    absent in ``static`` where it is dynamic. ``columns`` is the column list, if one was given.
    ``rows`` holds the constants of a VALUES list where all of them are constants: then the
    statement can be run without Spark; ``query`` is always there.
    """

    target: TableName
    query: Query
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    partition: tuple[str, ...] = ()
    static: Mapping[str, Literal] = field(default_factory=dict)
    rows: tuple[tuple[Literal, ...], ...] | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """FROM source INSERT INTO a SELECT ... INSERT INTO b SELECT ...: several INSERTs that count together.

    ``sources`` are queries that are computed once for all of them: the sub-queries of the FROM clause and
    the common table expressions that it names. The INSERTs read the i-th as table :func:`source_name` of i.
    """

    inserts: tuple[Insert, ...]
    sources: tuple[Query, ...] = ()

    @property
    def targets(self) -> tuple[TableName, ...]:
        """Return the table of each INSERT."""
        return tuple(insert.target for insert in self.inserts)

    @property
    def references(self) -> tuple[TableReference, ...]:
        """Return all places where tables are read: those of the sources, then those of each INSERT."""
        queries = (*self.sources, *(insert.query for insert in self.inserts))
        return tuple(each for query in queries for each in query.references if not is_source(each.table))


_SOURCE = "source "
"""No table has a name with a space."""


def source_name(number: int) -> str:
    """Return the name by which the INSERTs of a :class:`MultiInsert` read one of its sources."""
    return f"{_SOURCE}{number}"


def is_source(table: TableName) -> bool:
    """Return whether a name is one of :func:`source_name`."""
    return table.database is None and table.name.startswith(_SOURCE)


@dataclass(frozen=True, slots=True)
class ChangeClause:
    """What becomes of a row: one WHEN of a MERGE, or all that an UPDATE or a DELETE does.

    The value for the i-th of ``columns`` is the column :func:`assigned_name` of the query. ``columns``
    is None where none are listed: an INSERT has ``values`` values in the table's order then. With
    ``by_name`` (``SET *``, ``INSERT *``) the source's columns of the same names are the values.
    """

    action: ChangeAction
    columns: tuple[str, ...] | None = None
    values: int = 0
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """The rows that clauses look at, each with the number of its clause and with the values assigned.

    ``target`` and ``source`` are the places of the target and of a MERGE's source among the query's
    references; None where it does not read them.
    """

    query: Query
    clauses: tuple[ChangeClause, ...]
    target: int | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """UPDATE, DELETE or MERGE.

    ``matched`` reads the target, in a MERGE joined with its source. ``unmatched`` are the rows of the
    source that match nothing, ``unmatched_by_source`` those of the target that nothing matches.
    """

    operation: str
    target: TableName
    matched: ChangeQuery
    source: Query | None = None
    unmatched: ChangeQuery | None = None
    unmatched_by_source: ChangeQuery | None = None

    @property
    def target_reference(self) -> TableReference:
        """Return where the target is read, with what restricts its rows."""
        assert self.matched.target is not None
        reference = self.matched.query.references[self.matched.target]
        # What no row of the source can match is still a row that no source matches.
        return reference if self.unmatched_by_source is None else replace(reference, filters=())

    @property
    def others(self) -> tuple[TableReference, ...]:
        """Return all other places where tables are read."""
        found = list(self.source.references) if self.source is not None else []
        for part in (self.matched, self.unmatched, self.unmatched_by_source):
            if part is not None:
                taken = (part.target, part.source)
                found += [each for index, each in enumerate(part.query.references) if index not in taken]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class LoadData:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE name [PARTITION (...)]."""

    target: TableName
    path: str
    is_local: bool = False
    overwrite: bool = False
    static: Mapping[str, Literal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE name [PARTITION (...)]; a specification may name some keys only."""

    table: TableName
    specification: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Analyze:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS ... | FOR ALL COLUMNS].

    ``partition`` has the keys of the PARTITION clause, with None for one without a value (all of its
    values). ``columns`` is None where none are asked about, and empty where all are.
    """

    table: TableName
    partition: Mapping[str, Literal | None] | None = None
    noscan: bool = False
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AnalyzeTables:
    """ANALYZE TABLES [IN database] COMPUTE STATISTICS [NOSCAN]."""

    database: str | None = None
    noscan: bool = False


CLAUSE = "__clause"
"""The column of a :class:`ChangeQuery` that has the number of the clause that holds for a row, or NULL."""


SOURCE_ROW = "__source_row"
"""The column of a MERGE's source that tells its rows apart."""
SOURCE_STRUCT = "__source"
"""The column of a :class:`ChangeQuery` that holds the source's row where a clause takes columns by name."""


def assigned_name(clause: int, value: int) -> str:
    """Return the column of a :class:`ChangeQuery` that has a clause's value of this number."""
    return f"__assigned_{clause}_{value}"


RoutedStatement: TypeAlias = Select | Insert | MultiInsert | ChangeRows | CreateTable
"""Statements that run on a cluster (CreateTable when it has a query)."""
