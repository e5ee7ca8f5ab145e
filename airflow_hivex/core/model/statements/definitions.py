"""Statements that define databases, tables, partitions and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column, Skew, SortColumn
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.base import RoutedStatement, Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Query
from airflow_hivex.core.model.statements.uses import Role, Uses, database_uses, named_uses, table_uses


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE | SCHEMA | NAMESPACE."""

    KIND = "CREATE DATABASE"
    IN_TRANSACTIONS = False

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> Uses:
        """Return the database."""
        return database_uses(self.name, Role.CREATE)


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]."""

    KIND = "DROP DATABASE"
    IN_TRANSACTIONS = False

    name: str
    if_exists: bool = False
    cascade: bool = False

    @property
    def uses(self) -> Uses:
        """Return the database."""
        return database_uses(self.name, Role.DROP)


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """ALTER DATABASE name [UN]SET DBPROPERTIES (...) | SET OWNER USER name | SET LOCATION '...'."""

    KIND = "ALTER DATABASE"
    IN_TRANSACTIONS = False

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    location: str | None = None
    unset: tuple[str, ...] = ()
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the database."""
        return database_uses(self.name, Role.ALTER)


@dataclass(frozen=True, slots=True)
class UseDatabase(Statement):
    """USE name."""

    KIND = "USE"

    name: str

    @property
    def uses(self) -> Uses:
        """Return the database."""
        return database_uses(self.name, Role.USE)


@dataclass(frozen=True, slots=True)
class CreateTable(RoutedStatement):
    """CREATE [EXTERNAL] TABLE, with ``query`` for CREATE TABLE AS SELECT.

    ``format`` is the word after USING or STORED AS in lower case, None where none is given.
    ``partition_keys`` whose type is the empty string name columns of ``columns`` (or of the
    query), as in Spark's PARTITIONED BY (a, b). ``input_format``, ``output_format`` and ``serde_library``
    are classes of Hive, where the statement names them. With ``or_replace`` the table takes the place of one of its
    name, which ``must_exist`` in REPLACE TABLE. A ``temporary`` one belongs to the session.
    """

    KIND = "CREATE TABLE"
    IN_TRANSACTIONS = False

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
    skew: Skew | None = None
    query: Query | None = None
    input_format: str | None = None
    output_format: str | None = None
    serde_library: str | None = None
    or_replace: bool = False
    must_exist: bool = False
    constraints: Constraints = field(default_factory=Constraints)
    temporary: bool = False

    @property
    def kind(self) -> str:
        """Return CREATE TABLE or REPLACE TABLE, with AS SELECT where it has a query."""
        if self.temporary:
            return "CREATE TEMPORARY TABLE" if self.query is None else "CREATE TEMPORARY TABLE AS SELECT"
        name = "REPLACE TABLE" if self.must_exist else "CREATE OR REPLACE TABLE" if self.or_replace else self.KIND
        return name if self.query is None else f"{name} AS SELECT"

    @property
    def writes(self) -> tuple[tuple[TableName, tuple[Role, ...]], ...]:
        """Return the new table, and the one in whose place it comes."""
        return ((self.table, (Role.CREATE, Role.DROP) if self.or_replace else (Role.CREATE,)),)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the query, if there is one."""
        return () if self.query is None else (self.query,)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:
        """Return the statement with its query changed."""
        return self if self.query is None else replace(self, query=change(self.query))


@dataclass(frozen=True, slots=True)
class CreateTableLike(Statement):
    """CREATE [EXTERNAL] TABLE name LIKE source, with the clauses that it may have.

    ``new`` has the name and those clauses, and no columns.
    """

    KIND = "CREATE TABLE LIKE"
    IN_TRANSACTIONS = False

    new: CreateTable
    source: TableName

    @property
    def uses(self) -> Uses:
        """Return the new table, and the one that it takes its definition from."""
        return (*self.new.uses, *table_uses(self.source, Role.DESCRIBE))


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """DROP TABLE [IF EXISTS] name [PURGE] [RESTRICT | CASCADE]; with CASCADE its links are dropped, too."""

    KIND = "DROP TABLE"
    IN_TRANSACTIONS = False

    table: TableName
    if_exists: bool = False
    cascade: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DROP)


@dataclass(frozen=True, slots=True)
class AddPartitions(Statement):
    """ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (...) [LOCATION '...'] ...; a value of None is NULL."""

    KIND = "ALTER TABLE ADD PARTITION"
    IN_TRANSACTIONS = False

    table: TableName
    partitions: tuple[tuple[Mapping[str, Literal], str | None], ...]
    if_not_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class DropPartitions(Statement):
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (...) [, PARTITION (...)]; a specification may name some keys only.

    Each specification is a predicate, as Hive allows comparisons there: ``PARTITION (ds < '2013')``.
    """

    KIND = "ALTER TABLE DROP PARTITION"
    IN_TRANSACTIONS = False

    table: TableName
    specifications: tuple[Predicate, ...]
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class RenamePartition(Statement):
    """ALTER TABLE name PARTITION (...) RENAME TO PARTITION (...); both name all keys, None is NULL."""

    KIND = "ALTER TABLE RENAME PARTITION"
    IN_TRANSACTIONS = False

    table: TableName
    partition: Mapping[str, Literal]
    name: Mapping[str, Literal]

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class SetTableProperties(Statement):
    """ALTER TABLE name SET TBLPROPERTIES (...) | UNSET TBLPROPERTIES [IF EXISTS] (...)."""

    KIND = "ALTER TABLE SET TBLPROPERTIES"
    IN_TRANSACTIONS = False

    table: TableName
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class ChangeConstraints(Statement):
    """ALTER TABLE name ALTER COLUMN c SET or DROP DEFAULT or NOT NULL, ADD CONSTRAINT or DROP CONSTRAINT.

    It adds constraints, or drops the default value or the NOT NULL of a column, or a CHECK or key by its name.
    """

    KIND = "ALTER TABLE of constraints"
    IN_TRANSACTIONS = False

    table: TableName
    added: Constraints = field(default_factory=Constraints)
    dropped_default: str | None = None
    dropped_not_null: str | None = None
    dropped_name: str | None = None
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class CommentOn(Statement):
    """COMMENT ON DATABASE | TABLE | COLUMN name IS 'text' | NULL.

    Either ``database`` or ``table`` is named, and for a column ``table`` and ``column``.
    """

    KIND = "COMMENT ON"
    IN_TRANSACTIONS = False

    comment: str | None
    database: str | None = None
    table: TableName | None = None
    column: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the database or the table."""
        return named_uses(self.database, self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] VIEW name (column COMMENT '...', ...) AS query, or ALTER VIEW name AS query.

    ``columns`` are names and comments, empty where the query names its columns. ``must_exist`` is set for
    ALTER, which keeps properties and comment.
    """

    KIND = "CREATE VIEW"
    IN_TRANSACTIONS = False

    view: TableName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    must_exist: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Return CREATE VIEW or ALTER VIEW."""
        return "ALTER VIEW" if self.must_exist else self.KIND

    @property
    def uses(self) -> Uses:
        """Return the view, and all that its query reads."""
        view = table_uses(self.view, Role.ALTER if self.must_exist else Role.CREATE)
        return (*view, *(use for each in self.query.references for use in table_uses(each.table, Role.READ)))


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    """DROP VIEW [IF EXISTS] name."""

    KIND = "DROP VIEW"
    IN_TRANSACTIONS = False

    view: TableName
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the view."""
        return table_uses(self.view, Role.DROP)


@dataclass(frozen=True, slots=True)
class RenameTable(Statement):
    """ALTER TABLE | VIEW name RENAME TO name."""

    KIND = "ALTER TABLE RENAME"
    IN_TRANSACTIONS = False

    table: TableName
    name: TableName

    @property
    def uses(self) -> Uses:
        """Return the table, and its new name."""
        return (*table_uses(self.table, Role.ALTER), *table_uses(self.name, Role.CREATE))


@dataclass(frozen=True, slots=True)
class AddColumns(Statement):
    """ALTER TABLE name ADD COLUMNS (name type [COMMENT '...'] [FIRST | AFTER c], ...).

    They stand behind those that are there, or where ``places`` says: behind a column, or first for the empty text.
    """

    KIND = "ALTER TABLE ADD COLUMNS"
    IN_TRANSACTIONS = False

    table: TableName
    columns: tuple[Column, ...]
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class ChangeColumn(Statement):
    """ALTER TABLE name CHANGE COLUMN, ALTER COLUMN or RENAME COLUMN; what is None stays as it is.

    ``after`` is the column to stand behind, or the empty text to stand first. ``added`` are constraints that the column
    gets, with which no rows are compared.
    """

    KIND = "ALTER TABLE CHANGE COLUMN"
    IN_TRANSACTIONS = False

    table: TableName
    column: str
    name: str | None = None
    type: str | None = None
    comment: str | None = None
    after: str | None = None
    added: Constraints = field(default_factory=Constraints)

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class ReplaceColumns(Statement):
    """ALTER TABLE name REPLACE COLUMNS (...): those of the same names keep their values, all others go."""

    KIND = "ALTER TABLE REPLACE COLUMNS"
    IN_TRANSACTIONS = False

    table: TableName
    columns: tuple[Column, ...]

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class DropColumns(Statement):
    """ALTER TABLE name DROP COLUMN[S] [IF EXISTS] (...)."""

    KIND = "ALTER TABLE DROP COLUMNS"
    IN_TRANSACTIONS = False

    table: TableName
    columns: tuple[str, ...]
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)
