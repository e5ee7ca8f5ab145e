"""Statements about the capacity of namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.uses import NOTHING, Role, Uses, cluster_uses, database_uses


@dataclass(frozen=True, slots=True)
class ShowCapacity(Statement):
    """SHOW CAPACITY [NAMESPACE name] [CLUSTER name] [BY TABLE | FORMAT | AGE]; without NAMESPACE of all of them."""

    KIND = "SHOW CAPACITY"

    database: str | None = None
    cluster: str | None = None
    by: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the namespace and the cluster, where they are named."""
        database = NOTHING if self.database is None else database_uses(self.database, Role.DESCRIBE)
        return (*database, *cluster_uses(self.cluster, Role.DESCRIBE))


@dataclass(frozen=True, slots=True)
class SetQuota(Statement):
    """ALTER DATABASE name SET QUOTA size [WARNING percent] [ON CLUSTER name] | UNSET QUOTA [ON CLUSTER name].

    ``size_bytes`` is None for UNSET.
    """

    KIND = "ALTER DATABASE SET QUOTA"
    IN_TRANSACTIONS = False

    database: str
    size_bytes: int | None
    warning_percent: int | None = None
    cluster: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the namespace, and the cluster where it is named."""
        return (*database_uses(self.database, Role.ALTER), *cluster_uses(self.cluster, Role.USE))
