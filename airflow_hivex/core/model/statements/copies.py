"""Statements about the copies of tables on other clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, cluster_uses, table_uses


@dataclass(frozen=True, slots=True)
class ReplicateTable(Statement):
    """REPLICATE TABLE name [PARTITION (...)] TO CLUSTER name."""

    KIND = "REPLICATE TABLE"
    IN_TRANSACTIONS = False

    table: TableName
    cluster: str
    specification: Predicate | None = None

    @property
    def uses(self) -> Uses:
        """Return the table, which is only read, and the cluster."""
        return (*table_uses(self.table, Role.READ), *cluster_uses(self.cluster, Role.USE))


@dataclass(frozen=True, slots=True)
class DropCopy(Statement):
    """ALTER TABLE name [PARTITION (...)] DROP COPY ON CLUSTER name."""

    KIND = "ALTER TABLE DROP COPY"
    IN_TRANSACTIONS = False

    table: TableName
    cluster: str
    partition: Mapping[str, Literal] | None = None

    @property
    def uses(self) -> Uses:
        """Return the table and the cluster."""
        return (*table_uses(self.table, Role.ALTER), *cluster_uses(self.cluster, Role.USE))


@dataclass(frozen=True, slots=True)
class SetPrimaryCluster(Statement):
    """ALTER TABLE name SET PRIMARY CLUSTER name [FORCE [CONFIRM 'text']]."""

    KIND = "ALTER TABLE SET PRIMARY CLUSTER"
    IN_TRANSACTIONS = False

    table: TableName
    cluster: str
    force: bool = False
    confirm: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the table and the cluster."""
        return (*table_uses(self.table, Role.ALTER), *cluster_uses(self.cluster, Role.USE))


@dataclass(frozen=True, slots=True)
class ShowCopies(Statement):
    """SHOW COPIES name."""

    KIND = "SHOW COPIES"

    table: TableName

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.DESCRIBE)
