"""Statements about moves of namespaces to other clusters."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.uses import Role, Uses, cluster_uses, database_uses


@dataclass(frozen=True, slots=True)
class MoveDatabase(Statement):
    """ALTER DATABASE name SET PRIMARY CLUSTER name [WITH LINKED TABLES] [KEEP COPIES]."""

    KIND = "ALTER DATABASE SET PRIMARY CLUSTER"
    IN_TRANSACTIONS = False

    database: str
    cluster: str
    copy_linked: bool = False
    keep_copies: bool = False

    @property
    def uses(self) -> Uses:
        """Return the namespace and the cluster."""
        return (*database_uses(self.database, Role.ALTER), *cluster_uses(self.cluster, Role.USE))


@dataclass(frozen=True, slots=True)
class CancelMove(Statement):
    """ALTER DATABASE name CANCEL MOVE [KEEP COPIES]."""

    KIND = "ALTER DATABASE CANCEL MOVE"
    IN_TRANSACTIONS = False

    database: str
    keep_copies: bool = False

    @property
    def uses(self) -> Uses:
        """Return the namespace."""
        return database_uses(self.database, Role.ALTER)
