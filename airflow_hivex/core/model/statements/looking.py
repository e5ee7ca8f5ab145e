"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.base import RoutedStatement, Statement, StatementWithoutObjects
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Query
from airflow_hivex.core.model.statements.uses import NOTHING, Role, Uses, database_uses, function_uses, table_uses


@dataclass(frozen=True, slots=True)
class ShowDatabases(StatementWithoutObjects):
    """SHOW DATABASES | SCHEMAS [LIKE 'pattern']."""

    KIND = "SHOW DATABASES"

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCurrentNamespace(StatementWithoutObjects):
    """SHOW CURRENT NAMESPACE | DATABASE | SCHEMA."""

    KIND = "SHOW CURRENT NAMESPACE"


@dataclass(frozen=True, slots=True)
class ShowTables(Statement):
    """SHOW TABLES | VIEWS [IN database] [LIKE 'pattern']; TABLES are those and views."""

    KIND = "SHOW TABLES"

    database: str | None = None
    pattern: str | None = None
    views: bool = False

    @property
    def uses(self) -> Uses:
        """Return the database whose tables are listed."""
        return database_uses(self.database, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowTableExtended(Statement):
    """SHOW TABLE EXTENDED [IN database] LIKE 'pattern' [PARTITION (...)]."""

    KIND = "SHOW TABLE EXTENDED"

    pattern: str
    database: str | None = None
    partition: Mapping[str, Literal] | None = None

    @property
    def uses(self) -> Uses:
        """Return the database whose tables are listed."""
        return database_uses(self.database, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowColumns(Statement):
    """SHOW [SORTED] COLUMNS IN name [IN database] [LIKE 'pattern']."""

    KIND = "SHOW COLUMNS"

    table: TableName
    pattern: str | None = None
    is_sorted: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowTableProperties(Statement):
    """SHOW TBLPROPERTIES name [('key')]."""

    KIND = "SHOW TBLPROPERTIES"

    table: TableName
    key: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowPartitions(Statement):
    """SHOW PARTITIONS name [PARTITION (...)] [WHERE condition] [ORDER BY key, ...] [LIMIT n]."""

    KIND = "SHOW PARTITIONS"

    table: TableName
    specification: Predicate | None = None
    condition: Predicate | None = None
    order_by: tuple[SortColumn, ...] = ()
    limit: int | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowCreateTable(Statement):
    """SHOW CREATE TABLE name [AS SERDE]; ``as_serde`` asks for Hive's clauses."""

    KIND = "SHOW CREATE TABLE"

    table: TableName
    as_serde: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class DescribeTable(Statement):
    """DESCRIBE [EXTENDED | FORMATTED] name [PARTITION (...)] [column] [AS JSON]."""

    KIND = "DESCRIBE"

    table: TableName
    extended: bool = False
    partition: Mapping[str, Literal] | None = None
    column: str | None = None
    as_json: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class DescribeHistory(Statement):
    """DESCRIBE HISTORY name [LIMIT n]."""

    KIND = "DESCRIBE HISTORY"

    table: TableName
    limit: int | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Statement):
    """DESCRIBE DATABASE [EXTENDED] name."""

    KIND = "DESCRIBE DATABASE"

    name: str
    extended: bool = False

    @property
    def uses(self) -> Uses:
        """Return the database."""
        return database_uses(self.name, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class ShowFunctions(RoutedStatement):
    """SHOW [SYSTEM | USER | ALL] FUNCTIONS [IN database] [LIKE 'pattern'].

    System functions are those of the Spark of a cluster, those of users are of the session and of a database.
    """

    KIND = "SHOW FUNCTIONS"

    pattern: str | None = None
    database: str | None = None
    scope: str = "ALL"

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return nothing."""
        return ()

    def with_queries(self, change: Callable[[Query], Query]) -> Self:  # noqa: ARG002 - it has none
        """Return the statement."""
        return self


@dataclass(frozen=True, slots=True)
class DescribeFunction(RoutedStatement):
    """DESCRIBE FUNCTION [EXTENDED] [database.]name; an operator such as + is a function, too."""

    KIND = "DESCRIBE FUNCTION"

    name: str
    extended: bool = False
    database: str | None = None

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return nothing."""
        return ()

    @property
    def uses(self) -> Uses:
        """Return the permanent function of a database that is named."""
        return NOTHING if self.database is None else function_uses(TableName(self.name, self.database), Role.DESCRIBE)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:  # noqa: ARG002 - it has none
        """Return the statement."""
        return self
