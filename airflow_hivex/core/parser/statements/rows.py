"""Statements that read or write rows."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from airflow_hivex.core.model.identifiers import TableName, is_frame, is_stored
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.versions import VersionAsOf
from airflow_hivex.core.parser.statements.base import (
    NOTHING,
    ExplainedStatement,
    Folder,
    Named,
    QueryStatement,
    Role,
    RoutedStatement,
    Statement,
    Uses,
    database_uses,
    table_uses,
)
from airflow_hivex.core.parser.statements.queries import Query, TableReference
from airflow_hivex.core.parser.statements.tables import FILE_FORMAT

_TARGET = (
    "{INTO | OVERWRITE !overwrite} [TABLE] <target table> [PARTITION <partition any_partition>] "
    "[IF NOT EXISTS !if_not_exists]"
)


class ChangeAction(enum.Enum):
    """The action of a clause on a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


_ROLES = {ChangeAction.INSERT: Role.INSERT, ChangeAction.UPDATE: Role.UPDATE, ChangeAction.DELETE: Role.DELETE}


@dataclass(frozen=True, slots=True)
class Select(QueryStatement):
    """A query whose rows are returned to the user."""

    KIND = "SELECT"

    query: Query


@dataclass(frozen=True, slots=True)
class DescribeQuery(QueryStatement):
    """DESCRIBE [QUERY] of a query, which shows the columns of the query's result."""

    KIND = "DESCRIBE QUERY"

    query: Query


class ExplainMode(enum.StrEnum):
    """The forms in which Spark shows a plan."""

    SIMPLE = "simple"
    EXTENDED = "extended"
    FORMATTED = "formatted"
    CODEGEN = "codegen"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class ExplainQuery(QueryStatement):
    """EXPLAIN of a query, or of the query in a statement that writes rows.

    ``mentions`` are the objects that the explained statement changes.
    """

    KIND = "EXPLAIN"

    query: Query
    mode: ExplainMode = ExplainMode.SIMPLE
    mentions: Uses = NOTHING


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """A DEFAULT in a row of VALUES: the place of the word in the text of the query, and the position of the column."""

    start: int
    end: int
    position: int


@dataclass(frozen=True, slots=True)
class Insert(QueryStatement):
    """An INSERT into one table. With ``overwrite`` the new rows replace the table or the written partitions.

    ``partition`` has the keys of the PARTITION clause in order. ``static`` is a dict from each key that has a value in
    this clause to the value (None for NULL). ``columns`` is the column list, or None. ``rows`` has the values of a
    VALUES list if all values are constants; then the statement can run without Spark. ``query`` is always set.
    ``defaults`` are the places of DEFAULT in the query. With ``by_name`` a column of the query is written to the
    table's column of the same name. With ``evolves`` the query's columns that the table does not have are added to the
    table: with ``by_name`` the columns whose names the table does not have, otherwise the query's last columns.
    """

    KIND = "INSERT"
    SYNTAX = (
        f"INSERT [WITH SCHEMA EVOLUTION !evolves] {_TARGET} [<columns column_names>] "
        "{VALUES <source rows> | <source inserted_query>}",
        f"INSERT [WITH SCHEMA EVOLUTION !evolves] {_TARGET} BY NAME !by_name [<columns column_names>] <query>",
    )
    REFUSED = (
        (
            f"INSERT [WITH SCHEMA EVOLUTION] {_TARGET} REPLACE",
            "INSERT ... REPLACE is not a statement of this release; DELETE and INSERT in one transaction replace rows, "
            "and so does mode replace_where of warehouse.write",
        ),
    )

    target: TableName
    query: Query
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    partition: tuple[str, ...] = ()
    static: Mapping[str, Literal] = field(default_factory=dict)
    rows: tuple[tuple[Literal, ...], ...] | None = None
    if_not_exists: bool = False
    by_name: bool = False
    defaults: tuple[DefaultValue, ...] = ()
    evolves: bool = False

    @property
    def row_of_markers(self) -> tuple[str, ...] | None:
        """Return the names of the markers if the statement inserts one row that has only ``:name`` markers, or None.

        The result is also None for a statement that does more than to insert the row, such as one with PARTITION.
        """
        values = self.query.values
        does_more = self.overwrite or self.partition or self.if_not_exists or self.evolves or self.target.namespace
        if does_more or self.by_name or self.rows is None or len(self.rows) != 1 or values is None:
            return None
        texts = [self.query.text[cell.start : cell.end] for cell in values.cells[0]]
        return tuple(text[1:] for text in texts) if all(text.startswith(":") for text in texts) else None

    @property
    def kind(self) -> str:
        """Return INSERT or INSERT OVERWRITE."""
        return "INSERT OVERWRITE" if self.overwrite else "INSERT"

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the written table, with the role OVERWRITE or INSERT."""
        return ((self.target, (Role.OVERWRITE if self.overwrite else Role.INSERT,)),)


@dataclass(frozen=True, slots=True)
class InsertDirectory(QueryStatement):
    """A query whose rows are written to files of a ``format``, in a folder that belongs to no table.

    ``options`` are the options of the format, as for a table of this format.
    """

    KIND = "INSERT OVERWRITE DIRECTORY"
    SYNTAX = (
        "INSERT OVERWRITE [LOCAL !is_local] DIRECTORY [<path directory>] "
        f"[{FILE_FORMAT} & OPTIONS <options properties>] <query>",
    )
    REFUSED = (
        (
            "INSERT OVERWRITE [LOCAL] DIRECTORY [<path directory>] STORED BY",
            "files are stored AS a format, such as ORC, PARQUET or TEXTFILE",
        ),
    )
    IN_TRANSACTIONS = False

    path: Annotated[str, Folder()]
    query: Query
    format: str
    is_local: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    serde_library: str | None = None


@dataclass(frozen=True, slots=True)
class MultiInsert(RoutedStatement):
    """FROM source INSERT INTO a SELECT ... INSERT INTO b SELECT ...: several INSERTs that are committed together.

    ``sources`` are the sub-queries and the common table expressions in the FROM clause. They are computed once for all
    INSERTs. The INSERTs read the i-th source as the table ``source_name(i)``.
    """

    KIND = "INSERT"
    BRANCH = f"INSERT {_TARGET} [BY NAME !by_name] [<columns column_names>] <query branch>"
    """The form of one INSERT among several."""

    inserts: tuple[Insert, ...]
    sources: tuple[Query, ...] = ()

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the table of each INSERT."""
        return tuple(each for insert in self.inserts for each in insert.writes)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the queries of the sources, then the query of each INSERT."""
        return (*self.sources, *(insert.query for insert in self.inserts))

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with ``change(query)`` in place of each of its queries."""
        inserts = tuple(insert.with_queries(change) for insert in self.inserts)
        return replace(self, inserts=inserts, sources=tuple(map(change, self.sources)))


@dataclass(frozen=True, slots=True)
class ChangeClause:
    """The change of a row: one WHEN clause of a MERGE, or the whole change of an UPDATE or a DELETE.

    ``columns`` are the assigned columns, or None for an INSERT without a column list. ``values`` is the number of
    values of such an INSERT; the values are in the order of the table's columns. The query of the change returns the
    i-th value of the n-th clause in the column ``assigned_name(n, i)``. With ``by_name`` (``SET *``, ``INSERT *``) each
    column gets the value of the source's column of the same name. ``copied`` are the columns in ``columns`` to which
    the statement assigns the source's column of the same name. ``defaults`` are the positions of the values that are
    DEFAULT. ``texts`` are the positions of the values that are constant texts or NULL.
    """

    action: ChangeAction
    columns: tuple[str, ...] | None = None
    values: int = 0
    by_name: bool = False
    defaults: tuple[int, ...] = ()
    copied: tuple[str, ...] = ()
    texts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A query that returns rows to change or to insert, and the clauses that can apply to these rows.

    The query adds columns to each row: the number of the clause that applies to the row (or NULL), and the values that
    the clause assigns. ``target`` is the position of the changed table among the query's references, or None if the
    query does not read this table. ``source`` is the position of the source of a MERGE, or None.
    """

    query: Query
    clauses: tuple[ChangeClause, ...]
    target: int | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeRows(RoutedStatement):
    """UPDATE, DELETE or MERGE, which updates or deletes rows of a table. A MERGE also inserts rows.

    ``target`` is the changed table. ``matched`` is the query of the target's rows; in a MERGE the query joins the
    target with the source. ``unmatched`` is the query of the source's rows without a match, or of the rows to insert if
    there is no source. ``unmatched_by_source`` is the query of the target's rows without a match. ``source`` is the
    query of all source rows of a MERGE. ``evolves`` is true for WITH SCHEMA EVOLUTION: the table gets those columns of
    the source that the table does not have and that clauses of the MERGE name.
    """

    KIND = "UPDATE, DELETE and MERGE"
    SYNTAX = (
        "UPDATE <target table_with_alias> SET <assignments> [WHERE <where condition>]",
        "DELETE FROM <target table_with_alias> [WHERE <where condition>]",
        "MERGE [WITH SCHEMA EVOLUTION !evolves] INTO <target table_with_alias> USING <source merge_source> "
        "ON <on condition_before_when> "
        "{WHEN {MATCHED | NOT MATCHED BY SOURCE !by_source} [AND <condition condition_before_then>] "
        "THEN {DELETE !is_end | UPDATE SET {'*' !by_name | <assignments assignments_before_when>}} "
        "| WHEN NOT MATCHED !is_new [BY TARGET] [AND <condition condition_before_then>] "
        "THEN INSERT {'*' !by_name | [<columns column_names>] VALUES <values new_values>}}*whens",
    )
    REFUSED = (
        (
            "DELETE FROM <target table_with_alias> USING",
            "DELETE has no USING; MERGE INTO ... USING source ON ... WHEN MATCHED THEN DELETE joins the table with a "
            "source, or EXISTS does",
        ),
    )

    operation: str
    target: TableName
    matched: ChangeQuery
    source: Query | None = None
    unmatched: ChangeQuery | None = None
    unmatched_by_source: ChangeQuery | None = None
    evolves: bool = False

    @property
    def kind(self) -> str:
        """Return UPDATE, DELETE or MERGE."""
        return self.operation

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the target, with one role for each kind of change in the clauses: INSERT, UPDATE, DELETE."""
        actions = {clause.action for clause in self.clauses}
        return ((self.target, tuple(role for action, role in _ROLES.items() if action in actions)),)

    @property
    def clauses(self) -> tuple[ChangeClause, ...]:
        """Return the clauses of all queries that find rows: the matched rows, then the rows without a match."""
        return tuple(clause for part in self._parts for clause in part.clauses)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the queries that find rows, then the whole source of a MERGE."""
        found = tuple(part.query for part in self._parts)
        return found if self.source is None else (*found, self.source)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with ``change(query)`` in place of each of its queries."""

        def changed(part: ChangeQuery | None) -> ChangeQuery | None:
            return None if part is None else replace(part, query=change(part.query))

        return replace(
            self,
            matched=replace(self.matched, query=change(self.matched.query)),
            source=None if self.source is None else change(self.source),
            unmatched=changed(self.unmatched),
            unmatched_by_source=changed(self.unmatched_by_source),
        )

    @property
    def references(self) -> tuple[TableReference, ...]:
        """Return the reference to the target, then all other references to tables."""
        return (self.target_reference, *self.others)

    @property
    def view_references(self) -> tuple[TableReference, ...]:
        """Return all references except the target."""
        return self.others

    @property
    def target_reference(self) -> TableReference:
        """Return the reference to the target, with the conditions that restrict its rows."""
        assert self.matched.target is not None
        reference = self.matched.query.references[self.matched.target]
        # A row of the target that no row of the source can match is still a row without a match.
        return reference if self.unmatched_by_source is None else replace(reference, filters=())

    @property
    def others(self) -> tuple[TableReference, ...]:
        """Return all references to tables except the target."""
        return tuple(each for each in self._computed if is_stored(each.table))

    @property
    def frame_reads(self) -> tuple[str, ...]:
        """Return the names of the DataFrames that are read. The source of a MERGE is read once for all queries."""
        return tuple(each.table.name for each in self._computed if is_frame(each.table))

    @property
    def _computed(self) -> tuple[TableReference, ...]:
        """Return all references, except the references to the target and to a source that is already computed."""
        found = list(self.source.references) if self.source is not None else []
        for part in self._parts:
            taken = (part.target, part.source)
            found += [each for index, each in enumerate(part.query.references) if index not in taken]
        return tuple(found)

    @property
    def _parts(self) -> tuple[ChangeQuery, ...]:
        parts = (self.matched, self.unmatched, self.unmatched_by_source)
        return tuple(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class ExplainChanges(ExplainedStatement):
    """EXPLAIN of an UPDATE, DELETE or MERGE, which changes no row."""

    statement: ChangeRows
    mode: ExplainMode = ExplainMode.SIMPLE


@dataclass(frozen=True, slots=True)
class ExplainMultiInsert(ExplainedStatement):
    """EXPLAIN of a multi-table INSERT, which writes no row."""

    statement: MultiInsert
    mode: ExplainMode = ExplainMode.SIMPLE


@dataclass(frozen=True, slots=True)
class LoadData(Statement):
    """A load of the files of a folder into a table. With ``overwrite`` the new rows replace the existing rows.

    ``static`` has the partition columns with their values, and ``dynamic`` the partition columns without a value.
    ``format`` is the format of the files, or None for the table's format. ``options`` are options of the files' format.
    """

    KIND = "LOAD DATA"
    SYNTAX = (
        "LOAD DATA [LOCAL !is_local] INPATH <path> [OVERWRITE] INTO TABLE <target table> "
        "[PARTITION <partition any_partition>] [INPUTFORMAT <input_format> SERDE <serde_library serde_class>]",
    )

    target: TableName
    path: Annotated[str, Folder()]
    is_local: bool = False
    overwrite: bool = False
    static: Mapping[str, Literal] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> Uses:
        """Return the written table, with the role OVERWRITE or INSERT."""
        return table_uses(self.target, Role.OVERWRITE if self.overwrite else Role.INSERT)


COPIED_FILES = "hivex_copied_files"
"""The name of the files in the query of a COPY INTO, until the statement runs."""
COPIED_FORMATS = ("csv", "json", "parquet", "orc", "avro", "text")
"""The formats of files that COPY INTO reads, by Spark's names."""


@dataclass(frozen=True, slots=True)
class CopyInto(QueryStatement):
    """A load of those files of a folder into a table that the table has not loaded before.

    ``path`` is the folder or file, which ``query`` reads as :data:`COPIED_FILES`. ``selects`` is true if the user has
    written the query. ``columns`` is the column list, or None. ``files`` are paths below ``path``, and ``patterns`` are
    glob patterns for such paths. ``format_options`` are options of Spark's reader. ``force`` loads all files again, and
    ``reloads_changed`` those that have changed since they were loaded. ``merges_schema`` adds the columns of the files
    that the table lacks. With ``validates`` nothing is written, and the first rows that do not fit are returned: at
    most ``most_rows`` of them, or all with ``validates_all``. ``rejects`` is the table that gets such rows, or None if
    such a row is an error.
    """

    KIND = "COPY INTO"
    SYNTAX = (
        "COPY INTO <target table> [<columns column_names>] FROM {<source copied_query> | <path>} "
        "FILEFORMAT '=' <format copied_format> [VALIDATE !validates [ALL !validates_all | <most_rows row_count> ROWS]] "
        "[FILES '=' <files texts> & PATTERN '=' <patterns> "
        "& FORMAT_OPTIONS <format_options properties> & COPY_OPTIONS <copy_options properties> "
        "& ON_ERROR '=' {ABORT | CONTINUE REJECTS INTO <rejects table>}]",
    )
    REFUSED = (
        (
            "COPY INTO <target table> [<columns column_names>] FROM {<source copied_query> | <path>} WITH",
            "the cluster of the table has the keys of its file system; a statement names none",
        ),
    )

    target: TableName
    path: Annotated[str, Folder()]
    query: Query
    format: str
    selects: bool = False
    columns: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    format_options: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    reloads_changed: bool = False
    merges_schema: bool = False
    validates: bool = False
    validates_all: bool = False
    most_rows: int = 10
    rejects: TableName | None = None

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the table and the table of rejected rows, with the role INSERT."""
        return tuple((name, (Role.INSERT,)) for name in (self.target, self.rejects) if name is not None)


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """The removal of all rows of a table or of some partitions. ``specification`` names some or all partition keys."""

    KIND = "TRUNCATE TABLE"
    SYNTAX = ("TRUNCATE [TABLE] <table> [PARTITION <specification any_specification>]",)
    REFUSED = (
        (
            "TRUNCATE [TABLE] <table> [PARTITION <specification any_specification>] COLUMNS",
            "TRUNCATE empties whole partitions; UPDATE ... SET column = NULL empties a column",
        ),
    )

    table: Annotated[TableName, Named(Role.DELETE)]
    specification: Predicate | None = None


@dataclass(frozen=True, slots=True)
class RestoreTable(Statement):
    """A return of a table to the rows of an earlier version."""

    KIND = "RESTORE TABLE"
    SYNTAX = ("RESTORE [TABLE] <table> [TO] <version>",)

    table: TableName
    version: VersionAsOf

    @property
    def uses(self) -> Uses:
        """Return the restored table, with the role OVERWRITE."""
        return table_uses(self.table, Role.OVERWRITE)


@dataclass(frozen=True, slots=True)
class Analyze(Statement):
    """The computation of statistics of a table, its partitions and columns.

    ``partition`` has the keys of the PARTITION clause; a key without a value has None, which stands for all values.
    ``columns`` is None if no column is analyzed, and empty if all columns are analyzed.
    """

    KIND = "ANALYZE TABLE"
    SYNTAX = (
        "ANALYZE TABLE <table> [PARTITION <partition any_partition>] COMPUTE STATISTICS "
        "[NOSCAN | FOR ALL COLUMNS !all_columns | FOR COLUMNS !all_columns [<columns column_list>]]",
    )
    IN_TRANSACTIONS = False

    table: TableName
    partition: Mapping[str, Literal | None] | None = None
    noscan: bool = False
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Analyze:
        """Return the statement. FOR [ALL] COLUMNS without a list means all columns."""
        given = {name: value for name, value in values.items() if name != "all_columns"}
        return cls(**({"columns": ()} if "all_columns" in values else {}) | given)

    @property
    def uses(self) -> Uses:
        """Return the table with the role ALTER and, if the statement reads rows (without NOSCAN), the role READ."""
        return table_uses(self.table, *((Role.ALTER,) if self.noscan else (Role.READ, Role.ALTER)))


@dataclass(frozen=True, slots=True)
class AnalyzeTables(Statement):
    """The computation of statistics of all tables of a database."""

    KIND = "ANALYZE TABLES"
    SYNTAX = ("ANALYZE TABLES [{IN | FROM} <database>] COMPUTE STATISTICS [NOSCAN]",)
    IN_TRANSACTIONS = False

    database: str | None = None
    noscan: bool = False

    @property
    def uses(self) -> Uses:
        """Return the named database, or else the current database."""
        return database_uses(self.database, *((Role.ALTER,) if self.noscan else (Role.READ, Role.ALTER)))
