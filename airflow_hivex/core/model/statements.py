"""Statements as values: what kind it is, what it reads, what it writes.

The reader in ``sql`` makes them, the session runs them. Positions count characters
from 0 in the text that the user gave, end excluded, so that table names can be
replaced there and all else is left as written.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.objects import Column, SortColumn
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.model.predicates import Predicate, Value
from airflow_hivex.core.model.row_ids import RowIdReads


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as the user names it: ``table`` or ``database.table``, both normalised.

    ``namespace`` is the Y of a link's name ``T@Y``.
    """

    name: str
    database: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        qualified = f"{self.database}.{self.name}" if self.database else self.name
        return f"{qualified}@{self.namespace}" if self.namespace else qualified


@dataclass(frozen=True, slots=True)
class TableReference:
    """One place in a query where a table is read.

    ``alias`` is the name by which the query's columns may call it. ``has_alias`` is false when
    the query gave none, so that one must be written where the name is replaced, or at
    ``alias_position`` if something stands between the two (``t TABLESAMPLE (1 PERCENT) AS x``).
    ``filters`` are the conjuncts that every row taken from here must satisfy, of those that
    read nothing but columns that may be this table's. ``row_id`` is the name of one more column with
    the ids of its rows, None where the query reads none.
    """

    table: TableName
    start: int
    end: int
    alias: str
    has_alias: bool
    filters: tuple[Predicate, ...] = ()
    alias_position: int | None = None
    row_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters from ``start`` to ``end`` by ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT (with its CTEs, set operations and sub-queries) as text and as what it reads.

    ``start`` and ``end`` bound it in ``text``. ``references`` stand in order of appearance.
    ``qualifiers`` are edits that shorten ``database.table.column`` to ``table.column``, which is
    how the column is called once the table's name was replaced. ``row_ids`` is where it may read ROW__ID,
    as long as that is not settled by edits, too.
    ``parameters`` are the names of its ``:name`` markers. ``code_functions`` are the functions that it calls
    which run any code of the statement's author. ``loaded`` are files that it reads beside its references.
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

    def render(self, views: Sequence[str]) -> str:
        """The query with the table of each reference replaced by the view of the same position."""
        edits: list[TextEdit] = []
        for reference, view in zip(self.references, views, strict=True):
            alias = "" if reference.has_alias else f" AS `{reference.alias}`"
            if reference.alias_position is None:
                edits.append(TextEdit(reference.start, reference.end, view + alias))
            else:
                edits.append(TextEdit(reference.start, reference.end, view))
                edits.append(TextEdit(reference.alias_position, reference.alias_position, alias))
        parts: list[str] = []
        position = self.start
        for edit in sorted([*edits, *self.qualifiers], key=lambda edit: edit.start):
            parts += [self.text[position : edit.start], edit.text]
            position = edit.end
        return "".join([*parts, self.text[position : self.end]])


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: its Python value and Spark's type of it (``int``, ``decimal(2,1)``, ``string``, ``void``...)."""

    value: Value | bytes
    type: str


# -- statements that read and write rows -------------------------------------------


class ChangeAction(enum.Enum):
    """What a clause does with a row."""

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
        """The table of each INSERT."""
        return tuple(insert.target for insert in self.inserts)

    @property
    def references(self) -> tuple[TableReference, ...]:
        """All places where tables are read: those of the sources, then those of each INSERT."""
        queries = (*self.sources, *(insert.query for insert in self.inserts))
        return tuple(each for query in queries for each in query.references if not is_source(each.table))


_SOURCE = "source "
"""No table has a name with a space."""


def source_name(number: int) -> str:
    """The name by which the INSERTs of a :class:`MultiInsert` read one of its sources."""
    return f"{_SOURCE}{number}"


def is_source(table: TableName) -> bool:
    """Whether a name is one of :func:`source_name`."""
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
        """Where the target is read, with what restricts its rows."""
        assert self.matched.target is not None
        reference = self.matched.query.references[self.matched.target]
        # What no row of the source can match is still a row that no source matches.
        return reference if self.unmatched_by_source is None else replace(reference, filters=())

    @property
    def others(self) -> tuple[TableReference, ...]:
        """All other places where tables are read."""
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
    """The column of a :class:`ChangeQuery` that has a clause's value of this number."""
    return f"__assigned_{clause}_{value}"


# -- data definition ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE | SCHEMA | NAMESPACE."""

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE name SET DBPROPERTIES (...) | SET OWNER USER name | SET LOCATION '...'."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """USE name."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [EXTERNAL] TABLE, with ``query`` for CREATE TABLE AS SELECT.

    ``format`` is the word after USING or STORED AS in lower case, None where none is given.
    ``partition_keys`` whose type is the empty string name columns of ``columns`` (or of the
    query), as in Spark's PARTITIONED BY (a, b).
    """

    table: TableName
    columns: tuple[Column, ...] = ()
    partition_keys: tuple[Column, ...] = ()
    external: bool = False
    if_not_exists: bool = False
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[SortColumn, ...] = ()
    num_buckets: int = -1
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name [PURGE]."""

    table: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (...) [LOCATION '...'] ...; a value of None is NULL."""

    table: TableName
    partitions: tuple[tuple[Mapping[str, Literal], str | None], ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (...) [, PARTITION (...)]; a specification may name some keys only.

    Each specification is a predicate, as Hive allows comparisons there: ``PARTITION (ds < '2013')``.
    """

    table: TableName
    specifications: tuple[Predicate, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenamePartition:
    """ALTER TABLE name PARTITION (...) RENAME TO PARTITION (...); both name all keys, None is NULL."""

    table: TableName
    partition: Mapping[str, Literal]
    name: Mapping[str, Literal]


@dataclass(frozen=True, slots=True)
class SetTableProperties:
    """ALTER TABLE name SET TBLPROPERTIES (...) | UNSET TBLPROPERTIES [IF EXISTS] (...)."""

    table: TableName
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW name (column COMMENT '...', ...) AS query, or ALTER VIEW name AS query.

    ``columns`` are names and comments, empty where the query names its columns. ``must_exist`` is set for
    ALTER, which keeps properties and comment.
    """

    view: TableName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    must_exist: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP VIEW [IF EXISTS] name."""

    view: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE | VIEW name RENAME TO name."""

    table: TableName
    name: TableName


@dataclass(frozen=True, slots=True)
class AddColumns:
    """ALTER TABLE name ADD COLUMNS (name type [COMMENT '...'], ...); they stand behind those that are there."""

    table: TableName
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """ALTER TABLE name CHANGE COLUMN, ALTER COLUMN or RENAME COLUMN; what is None stays as it is.

    ``after`` is the column to stand behind, or the empty text to stand first.
    """

    table: TableName
    column: str
    name: str | None = None
    type: str | None = None
    comment: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    """ALTER TABLE name REPLACE COLUMNS (...): those of the same names keep their values, all others go."""

    table: TableName
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class DropColumns:
    """ALTER TABLE name DROP COLUMN[S] [IF EXISTS] (...)."""

    table: TableName
    columns: tuple[str, ...]
    if_exists: bool = False


# -- looking -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """SHOW DATABASES | SCHEMAS [LIKE 'pattern']."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES | VIEWS [IN database] [LIKE 'pattern']; TABLES are those and views."""

    database: str | None = None
    pattern: str | None = None
    views: bool = False


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS name [PARTITION (...)]."""

    table: TableName
    specification: Predicate | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE name."""

    table: TableName


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """DESCRIBE [EXTENDED | FORMATTED] name [PARTITION (...)] [column]."""

    table: TableName
    extended: bool = False
    partition: Mapping[str, Literal] | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeDatabase:
    """DESCRIBE DATABASE [EXTENDED] name."""

    name: str
    extended: bool = False


# -- transactions ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartTransaction:
    """START TRANSACTION [READ ONLY | READ WRITE] [, ISOLATION LEVEL SNAPSHOT], or BEGIN."""

    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT [WORK | TRANSACTION]."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK [WORK | TRANSACTION]."""


@dataclass(frozen=True, slots=True)
class AbortTransactions:
    """ABORT TRANSACTIONS 1 2 3; the ids in the order given, each once."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True)
class ShowLocks:
    """SHOW LOCKS [table [PARTITION (...)]] [EXTENDED], or SHOW LOCKS DATABASE | SCHEMA name [EXTENDED].

    ``partition`` has a value for each key that is named; None stands for NULL there.
    """

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    extended: bool = False


# -- compaction --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compact:
    """ALTER TABLE name [PARTITION (...)] COMPACT 'type' [AND WAIT] [CLUSTERED INTO n BUCKETS] [ORDER BY ...] ...

    ... [POOL 'p'] [WITH OVERWRITE TBLPROPERTIES (...)].
    """

    table: TableName
    type: CompactionType
    partition: Mapping[str, Literal] | None = None
    wait: bool = False
    buckets: int | None = None
    order_by: tuple[SortColumn, ...] = ()
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShowCompactions:
    """SHOW COMPACTIONS [DATABASE | SCHEMA name | table [PARTITION (...)] | compactionid = n] [POOL 'p'] [TYPE 't'] ...

    ... [STATUS 's'] [ORDER BY ...] [LIMIT n]. ``order_by`` are columns, each with whether it rises.
    """

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    id: int | None = None
    pool: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AbortCompactions:
    """ABORT COMPACTIONS 1 2 3; the ids in the order given, each once."""

    ids: tuple[int, ...]


# -- clusters ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UseCluster:
    """USE CLUSTER name, or USE CLUSTER alone for None (S2, S3). Cluster names keep their case."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ShowClusters:
    """SHOW CLUSTERS."""


@dataclass(frozen=True, slots=True)
class ExplainRoute:
    """EXPLAIN ROUTE statement."""

    statement: RoutedStatement


RoutedStatement: TypeAlias = Select | Insert | MultiInsert | ChangeRows | CreateTable
"""Statements that run on a cluster (CreateTable when it has a query)."""

Statement: TypeAlias = (
    Select
    | Insert
    | MultiInsert
    | ChangeRows
    | LoadData
    | Truncate
    | Analyze
    | AnalyzeTables
    | CreateDatabase
    | DropDatabase
    | AlterDatabase
    | UseDatabase
    | CreateTable
    | DropTable
    | AddPartitions
    | DropPartitions
    | RenamePartition
    | SetTableProperties
    | CreateView
    | DropView
    | RenameTable
    | AddColumns
    | ChangeColumn
    | ReplaceColumns
    | DropColumns
    | ShowDatabases
    | ShowTables
    | ShowPartitions
    | ShowCreateTable
    | DescribeTable
    | DescribeDatabase
    | StartTransaction
    | Commit
    | Rollback
    | AbortTransactions
    | ShowTransactions
    | ShowLocks
    | Compact
    | ShowCompactions
    | AbortCompactions
    | UseCluster
    | ShowClusters
    | ExplainRoute
)
