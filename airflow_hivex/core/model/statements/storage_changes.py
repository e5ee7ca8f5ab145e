"""Statements that change where an external table lies, and how its files are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, table_uses


@dataclass(frozen=True, slots=True)
class SetLocation(Statement):
    """ALTER TABLE name [PARTITION (...)] SET LOCATION '...'."""

    KIND = "ALTER TABLE SET LOCATION"
    IN_TRANSACTIONS = False

    table: TableName
    location: str
    partition: Mapping[str, Literal] | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class SetFormat(Statement):
    """ALTER TABLE name SET FILEFORMAT format, or SET SERDE 'class' [WITH SERDEPROPERTIES (...)].

    ``serde_library``, ``input_format`` and ``output_format`` are classes of Hive, where the statement names them.
    """

    KIND = "ALTER TABLE SET FILEFORMAT"
    IN_TRANSACTIONS = False

    table: TableName
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    serde_library: str | None = None
    input_format: str | None = None
    output_format: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class SetSerdeProperties(Statement):
    """ALTER TABLE name SET SERDEPROPERTIES (...) | UNSET SERDEPROPERTIES [IF EXISTS] (...)."""

    KIND = "ALTER TABLE SET SERDEPROPERTIES"
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
class ExchangePartition(Statement):
    """ALTER TABLE name EXCHANGE PARTITION (...) WITH TABLE source: its partitions become those of the table."""

    KIND = "ALTER TABLE EXCHANGE PARTITION"
    IN_TRANSACTIONS = False

    table: TableName
    source: TableName
    partition: Mapping[str, Literal]

    @property
    def uses(self) -> Uses:
        """Return both tables."""
        return (*table_uses(self.table, Role.INSERT), *table_uses(self.source, Role.ALTER))
