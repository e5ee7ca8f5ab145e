"""Statements about clusters and routes."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.model.statements.rows import RoutedStatement


@dataclass(frozen=True, slots=True)
class UseCluster:
    """USE CLUSTER name, or USE CLUSTER alone for None. Cluster names keep their case."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ShowClusters:
    """SHOW CLUSTERS."""


@dataclass(frozen=True, slots=True)
class ExplainRoute:
    """EXPLAIN ROUTE statement."""

    statement: RoutedStatement
