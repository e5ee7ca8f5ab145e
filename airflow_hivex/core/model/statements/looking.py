"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Literal


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
