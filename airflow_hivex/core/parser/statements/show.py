"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.parser.statements.base import (
    NOTHING,
    Named,
    ObjectKind,
    RefusedPart,
    Role,
    RoutedStatement,
    Statement,
    Uses,
    function_uses,
)
from airflow_hivex.core.parser.statements.queries import Query

_LIKE = "[LIKE <pattern> | <pattern quoted_pattern>]"
_IN = "[{IN | FROM} <database>]"
_DESCRIBE = "{DESCRIBE | DESC}"
_TABLE = f"{_DESCRIBE} [TABLE] [EXTENDED | FORMATTED !extended] <table>"
_LINK = f"{_DESCRIBE} {{LINK !as_link | TABLELINK !as_link}} [EXTENDED | FORMATTED !extended] <table>"


@dataclass(frozen=True, slots=True)
class ShowDatabases(Statement):
    """The databases, or the databases that match a pattern."""

    KIND = "SHOW DATABASES"
    SYNTAX = (f"SHOW {{DATABASES | SCHEMAS | NAMESPACES}} {_LIKE}",)

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCurrentNamespace(Statement):
    """The current database."""

    KIND = "SHOW CURRENT NAMESPACE"
    SYNTAX = ("SHOW CURRENT {NAMESPACE | DATABASE | SCHEMA}",)


@dataclass(frozen=True, slots=True)
class ShowTables(Statement):
    """The tables and views of a database, or only the views."""

    KIND = "SHOW TABLES"
    SYNTAX = (f"SHOW {{TABLES | VIEWS}} {_IN} {_LIKE}",)

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE, or_current=True)] = None
    pattern: str | None = None
    views: bool = False


@dataclass(frozen=True, slots=True)
class ShowTableExtended(Statement):
    """A description of the tables that match a pattern, or of one partition."""

    KIND = "SHOW TABLE EXTENDED"
    SYNTAX = (f"SHOW TABLE EXTENDED {_IN} LIKE <pattern> [PARTITION <partition>]",)

    pattern: str
    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE, or_current=True)] = None
    partition: Mapping[str, Literal] | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns(Statement):
    """The columns of a table."""

    KIND = "SHOW COLUMNS"
    SYNTAX = (f"SHOW [SORTED !is_sorted] COLUMNS {{IN | FROM}} <table> {_IN} {_LIKE}",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    pattern: str | None = None
    is_sorted: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ShowColumns:
        """Return the statement with the database after FROM or IN, if one is given, as the database of the table."""
        table, database = values["table"], values.get("database")
        if database is not None and table.database not in (None, str(database)):
            raise RefusedPart("database", f"the table is of database {table.database} already")
        given = {name: value for name, value in values.items() if name != "database"}
        return cls(**given | ({} if database is None else {"table": replace(table, database=str(database))}))


@dataclass(frozen=True, slots=True)
class ShowTableProperties(Statement):
    """All properties of a table, or one property."""

    KIND = "SHOW TBLPROPERTIES"
    SYNTAX = ("SHOW TBLPROPERTIES <table> ['(' <key property> ')']",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions(Statement):
    """The partitions of a table or link, or only the partitions that satisfy a condition."""

    KIND = "SHOW PARTITIONS"
    SYNTAX = (
        "SHOW PARTITIONS <table> [PARTITION <specification>] [WHERE <condition partition_condition>] "
        "[ORDER BY <order_by partition_order>] [LIMIT <limit partition_count>]",
    )

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    specification: Predicate | None = None
    condition: Predicate | None = None
    order_by: tuple[SortColumn, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable(Statement):
    """The CREATE statement of a table or view. With ``as_serde`` the CREATE statement has Hive's clauses."""

    KIND = "SHOW CREATE TABLE"
    SYNTAX = ("SHOW CREATE TABLE <table> [AS SERDE]",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    as_serde: bool = False


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Statement):
    """A description of a database."""

    KIND = "DESCRIBE DATABASE"
    SYNTAX = (f"{_DESCRIBE} {{DATABASE | SCHEMA | NAMESPACE}} [EXTENDED] <name database>",)

    name: Annotated[str, Named(Role.DESCRIBE, ObjectKind.DATABASE)]
    extended: bool = False


@dataclass(frozen=True, slots=True)
class ShowFunctions(RoutedStatement):
    """The functions of Spark on a cluster, and the functions that users created in the session or in a database."""

    KIND = "SHOW FUNCTIONS"
    SYNTAX = (
        f"SHOW [<scope: ALL | SYSTEM | USER>] FUNCTIONS {_IN} "
        "[LIKE <pattern> | <pattern quoted_pattern> | <pattern function_word>]",
    )

    pattern: str | None = None
    database: str | None = None
    scope: str = "ALL"

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return an empty tuple."""
        return ()

    def with_queries(self, change: Callable[[Query], Query]) -> Self:  # noqa: ARG002 - it has no queries
        """Return the statement unchanged, because it has no queries."""
        return self


@dataclass(frozen=True, slots=True)
class DescribeFunction(RoutedStatement):
    """A description of a function. An operator such as + is a function, too."""

    KIND = "DESCRIBE FUNCTION"
    SYNTAX = (f"{_DESCRIBE} FUNCTION [EXTENDED] <name described_function>",)

    name: str
    extended: bool = False
    database: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> DescribeFunction:
        """Return the statement, with the database of the function if one is named."""
        name, database = values["name"]
        return cls(name, values.get("extended", False), database)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return an empty tuple."""
        return ()

    @property
    def uses(self) -> Uses:
        """Return the function if its name has a database, or else an empty tuple."""
        return NOTHING if self.database is None else function_uses(TableName(self.name, self.database), Role.DESCRIBE)

    def with_queries(self, change: Callable[[Query], Query]) -> Self:  # noqa: ARG002 - it has no queries
        """Return the statement unchanged, because it has no queries."""
        return self


@dataclass(frozen=True, slots=True)
class ShowCopyHistory(Statement):
    """The files that COPY INTO has loaded into a table, the last loaded first, at most ``limit`` of them."""

    KIND = "SHOW COPY HISTORY"
    SYNTAX = ("SHOW COPY HISTORY <table> [LIMIT <limit file_count>]",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeHistory(Statement):
    """The commits to a table, the newest first."""

    KIND = "DESCRIBE HISTORY"
    SYNTAX = (f"{_DESCRIBE} HISTORY [TABLE] <table> [LIMIT <limit commit_count>]",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeTable(Statement):
    """A description of a table, view, link, partition or column: columns and, with ``extended``, other properties."""

    KIND = "DESCRIBE"
    SYNTAX = (
        f"{_TABLE} [PARTITION <partition>] [AS JSON]",
        f"{_TABLE} [PARTITION <partition>] <column described_column> [AS JSON]",
        f"{_TABLE} <column described_column> PARTITION <partition>",
        f"{_LINK} [PARTITION <partition>] [AS JSON]",
        f"{_LINK} <column described_column>",
    )

    table: Annotated[TableName, Named(Role.DESCRIBE)]
    extended: bool = False
    partition: Mapping[str, Literal] | None = None
    column: str | None = None
    as_json: bool = False
    as_link: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> DescribeTable:
        """Return the statement. AS JSON describes a whole table or partition."""
        if values.get("as_json") and ("column" in values or not values.get("extended")):
            reason = "AS JSON describes a whole table or partition: DESCRIBE EXTENDED name [PARTITION (...)] AS JSON"
            raise RefusedPart("as_json", reason, is_unsupported=True)
        return cls(**values)
