"""Statements about copies of tables on other clusters, and about moves of namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.parser.statements.base import Named, ObjectKind, Role, Statement

_DATABASE = "ALTER {DATABASE | SCHEMA | NAMESPACE} <database>"


@dataclass(frozen=True, slots=True)
class ReplicateTable(Statement):
    """A replication of a table, or of some of its partitions, to another cluster. The table itself is only read."""

    KIND = "REPLICATE TABLE"
    SYNTAX = ("REPLICATE TABLE <table> [PARTITION <specification>] TO CLUSTER <cluster>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.READ)]
    cluster: Annotated[str, Named(Role.USE, ObjectKind.CLUSTER)]
    specification: Predicate | None = None


@dataclass(frozen=True, slots=True)
class DropCopy(Statement):
    """A drop of the copy of a table or partition."""

    KIND = "ALTER TABLE DROP COPY"
    SYNTAX = ("ALTER TABLE <table> [PARTITION <partition>] DROP COPY ON CLUSTER <cluster>",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    cluster: Annotated[str, Named(Role.USE, ObjectKind.CLUSTER)]
    partition: Mapping[str, Literal] | None = None


@dataclass(frozen=True, slots=True)
class SetPrimaryCluster(Statement):
    """A change of the primary cluster of a table.

    ``force`` is for a lost primary cluster: the table keeps only the rows that other clusters have.
    """

    KIND = "ALTER TABLE SET PRIMARY CLUSTER"
    SYNTAX = ("ALTER TABLE <table> SET PRIMARY CLUSTER <cluster> [FORCE !force [CONFIRM <confirm confirmation>]]",)
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    cluster: Annotated[str, Named(Role.USE, ObjectKind.CLUSTER)]
    force: bool = False
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCopies(Statement):
    """The copies of a table, and the lag of each copy."""

    KIND = "SHOW COPIES"
    SYNTAX = ("SHOW COPIES <table>",)

    table: Annotated[TableName, Named(Role.DESCRIBE)]


@dataclass(frozen=True, slots=True)
class MoveDatabase(Statement):
    """A move of a database and its tables to another cluster."""

    KIND = "ALTER DATABASE SET PRIMARY CLUSTER"
    SYNTAX = (f"{_DATABASE} SET PRIMARY CLUSTER <cluster> [WITH LINKED TABLES !copy_linked] [KEEP COPIES]",)
    IN_TRANSACTIONS = False

    database: Annotated[str, Named(Role.ALTER, ObjectKind.DATABASE)]
    cluster: Annotated[str, Named(Role.USE, ObjectKind.CLUSTER)]
    copy_linked: bool = False
    keep_copies: bool = False


@dataclass(frozen=True, slots=True)
class CancelMove(Statement):
    """The cancellation of a move of a database, before the target cluster becomes the database's primary cluster."""

    KIND = "ALTER DATABASE CANCEL MOVE"
    SYNTAX = (f"{_DATABASE} CANCEL MOVE [KEEP COPIES]",)
    IN_TRANSACTIONS = False

    database: Annotated[str, Named(Role.ALTER, ObjectKind.DATABASE)]
    keep_copies: bool = False
