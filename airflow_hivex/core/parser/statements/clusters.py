"""Statements about clusters, routes and the settings of a session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from airflow_hivex.core.parser.statements.base import Named, ObjectKind, Role, RoutedStatement, Statement, Uses


@dataclass(frozen=True, slots=True)
class UseCluster(Statement):
    """The choice of one cluster (pin) for all later statements of the session. The name None removes the pin."""

    KIND = "USE CLUSTER"
    SYNTAX = ("USE CLUSTER [<name cluster>]",)

    name: Annotated[str | None, Named(Role.USE, ObjectKind.CLUSTER)] = None


@dataclass(frozen=True, slots=True)
class ShowClusters(Statement):
    """The clusters, and whether each of them can be used now."""

    KIND = "SHOW CLUSTERS"
    SYNTAX = ("SHOW CLUSTERS",)


@dataclass(frozen=True, slots=True)
class ExplainRoute(Statement):
    """EXPLAIN ROUTE of a statement, which shows the cluster that would run the statement."""

    KIND = "EXPLAIN ROUTE"

    statement: RoutedStatement

    @property
    def uses(self) -> Uses:
        """Return the objects that the explained statement names, each once with the role DESCRIBE."""
        return tuple(dict.fromkeys(replace(each, role=Role.DESCRIBE) for each in self.statement.uses))


@dataclass(frozen=True, slots=True)
class SetSetting(Statement):
    """SET name = value, or SET name. The form SET name shows the current value; the field ``value`` is then None."""

    KIND = "SET"
    IN_TRANSACTIONS = False

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetSetting(Statement):
    """RESET name, which removes the session's own value of a setting."""

    KIND = "RESET"
    IN_TRANSACTIONS = False

    name: str
