"""Statements about the partitions of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.parser.statements.base import Named, Role, Statement


@dataclass(frozen=True, slots=True)
class AddPartitions(Statement):
    """An addition of partitions to a table. Each partition has key values (None for NULL), and a location or None."""

    KIND = "ALTER TABLE ADD PARTITION"
    SYNTAX = ("ALTER TABLE <table> ADD [IF NOT EXISTS] <partitions new_partitions>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    partitions: tuple[tuple[Mapping[str, Literal], str | None], ...]
    if_not_exists: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the locations that the statement gives for partitions."""
        return tuple(location for _, location in self.partitions if location is not None)


@dataclass(frozen=True, slots=True)
class DropPartitions(Statement):
    """A drop of partitions.

    Each specification is a predicate on some or all partition keys, such as ``PARTITION (ds < '2013')``.
    """

    KIND = "ALTER TABLE DROP PARTITION"
    SYNTAX = ("ALTER TABLE <table> DROP [IF EXISTS] <specifications> [PURGE]",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    specifications: tuple[Predicate, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenamePartition(Statement):
    """A change of a partition's key values. Both specifications name all partition keys. The value None means NULL."""

    KIND = "ALTER TABLE RENAME PARTITION"
    SYNTAX = ("ALTER TABLE <table> PARTITION <partition> RENAME TO PARTITION <name partition>",)
    REFUSED = (
        (
            "ALTER TABLE <table> PARTITION COLUMN",
            "ALTER TABLE ... PARTITION COLUMN is not a statement of this release; CREATE TABLE ... AS SELECT makes a "
            "table whose partition keys have other types",
        ),
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    partition: Mapping[str, Literal]
    name: Mapping[str, Literal]


@dataclass(frozen=True, slots=True)
class ExchangePartition(Statement):
    """A move of partitions from the table ``source`` to the table ``table``."""

    KIND = "ALTER TABLE EXCHANGE PARTITION"
    SYNTAX = ("ALTER TABLE <table> EXCHANGE PARTITION <partition> WITH TABLE <source table>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.INSERT)]
    source: Annotated[TableName, Named(Role.ALTER)]
    partition: Mapping[str, Literal]
