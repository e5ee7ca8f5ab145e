"""Statements that define databases, tables, partitions and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.objects import Column, SortColumn
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Literal, Query


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
    query), as in Spark's PARTITIONED BY (a, b). ``input_format``, ``output_format`` and ``serde_library``
    are classes of Hive, where the statement names them.
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
    input_format: str | None = None
    output_format: str | None = None
    serde_library: str | None = None


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
