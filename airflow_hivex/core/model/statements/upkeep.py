"""Statements that bring the metastore up to date with files, or tell others that a table has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, table_uses


@dataclass(frozen=True, slots=True)
class RepairPartitions(Statement):
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS], also as ALTER TABLE name RECOVER PARTITIONS.

    Without ``is_repair`` the differences are shown only.
    """

    KIND = "MSCK REPAIR TABLE"
    IN_TRANSACTIONS = False

    table: TableName
    adds: bool = True
    drops: bool = False
    is_repair: bool = True

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER if self.is_repair else Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class RefreshTable(Statement):
    """REFRESH [TABLE] name. Each statement reads the newest snapshot: it only looks whether the table is there."""

    KIND = "REFRESH TABLE"

    table: TableName

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class TouchTable(Statement):
    """ALTER TABLE name TOUCH [PARTITION (...)]: an event that tells of a change, and no change."""

    KIND = "ALTER TABLE TOUCH"
    IN_TRANSACTIONS = False

    table: TableName
    partition: Mapping[str, Literal] | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class UpdateStatistics(Statement):
    """ALTER TABLE name [PARTITION (...)] UPDATE STATISTICS [FOR COLUMN column] SET (...), with Hive's names."""

    KIND = "ALTER TABLE UPDATE STATISTICS"
    IN_TRANSACTIONS = False

    table: TableName
    values: Mapping[str, str]
    partition: Mapping[str, Literal] | None = None
    column: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)
