"""Statements about clusters and routes, and about the settings of a session that the route depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_hivex.core.model.statements.base import RoutedStatement, Statement, StatementWithoutObjects
from airflow_hivex.core.model.statements.uses import Role, Uses, cluster_uses


@dataclass(frozen=True, slots=True)
class UseCluster(Statement):
    """USE CLUSTER name, or USE CLUSTER alone for None. Cluster names keep their case."""

    KIND = "USE CLUSTER"

    name: str | None

    @property
    def uses(self) -> Uses:
        """Return the cluster; nothing where its pin is taken away."""
        return cluster_uses(self.name, Role.USE)


@dataclass(frozen=True, slots=True)
class ShowClusters(StatementWithoutObjects):
    """SHOW CLUSTERS."""

    KIND = "SHOW CLUSTERS"


@dataclass(frozen=True, slots=True)
class ExplainRoute(Statement):
    """EXPLAIN ROUTE statement."""

    KIND = "EXPLAIN ROUTE"

    statement: RoutedStatement

    @property
    def uses(self) -> Uses:
        """Return the objects that the statement names; none of them is read or written."""
        return tuple(dict.fromkeys(replace(each, role=Role.DESCRIBE) for each in self.statement.uses))


@dataclass(frozen=True, slots=True)
class SetSetting(StatementWithoutObjects):
    """SET name = value, or SET name, which shows the value (None)."""

    KIND = "SET"
    IN_TRANSACTIONS = False

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetSetting(StatementWithoutObjects):
    """RESET name: the value of the metastore holds again."""

    KIND = "RESET"
    IN_TRANSACTIONS = False

    name: str
