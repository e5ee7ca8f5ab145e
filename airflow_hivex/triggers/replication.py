"""A trigger that polls the metastore until a copy of a table is fresh.

The trigger and the sensor call the function for each check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.transactions import HivexTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.triggers.transactions import Answer


def look_at_copy(
    hivex_conn_id: str,
    table: str,
    cluster: str,
    partitions: Sequence[str] | None,
    max_lag_s: float,
    max_lag_commits: int | None,
) -> Answer | None:
    """Return the result of the sensor if the copy of a table on a cluster is fresh, or else None.

    :param table: ``table`` or ``database.table``
    :param partitions: names of partitions; None for all partitions
    :param max_lag_s: the largest age of the oldest missing commit, in seconds
    :param max_lag_commits: the largest number of commits that the copy of a partition lacks
    :raises HivexError: the table or cluster does not exist, or the table is a view
    """
    from airflow_hivex.core.errors import InvalidOperationError

    hook = WarehouseHook(hivex_conn_id)
    metastore = hook.get_metastore()
    database, _, name = table.rpartition(".")
    full_name = f"{database or hook.get_configuration().database}.{name}"
    target = metastore.clusters.get(cluster).name
    states = metastore.replicator.copies(full_name)
    wanted = {each.partition for each in states if each.is_primary}
    if partitions is not None:
        if None in wanted:
            raise InvalidOperationError(
                "Waiting for copies of partitions of", full_name, "the table has no partition keys"
            )
        wanted = set(partitions)
    found = [each for each in states if each.cluster == target and each.partition in wanted]
    if {each.partition for each in found} != wanted:
        return None
    lags = [0 if each.is_primary else each.lag_ms for each in found]
    commits = [each.lag_commits for each in found]
    if any(lag is None or lag > max_lag_s * 1000 for lag in lags):
        return None
    if max_lag_commits is not None and any(each > max_lag_commits for each in commits):
        return None
    return {
        "table": full_name,
        "cluster": target,
        "partitions": len(found) if None not in wanted else 0,
        "write_id": max((each.write_id for each in found if each.write_id is not None), default=None),
        "lag_s": max((lag for lag in lags if lag is not None), default=0) / 1000,
        "commits": max(commits, default=0),
    }


class HivexReplicaFreshnessTrigger(HivexTrigger):
    """Wait until a copy of a table is fresh.

    :param table: ``table`` or ``database.table``
    :param cluster: the cluster of the copy
    :param partitions: names of partitions; None for all partitions
    :param max_lag_s: the largest age of the oldest missing commit, in seconds
    :param max_lag_commits: the largest number of commits that the copy of a partition lacks
    """

    def __init__(
        self,
        *,
        table: str,
        cluster: str,
        partitions: Sequence[str] | None = None,
        max_lag_s: float = 0,
        max_lag_commits: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.cluster = cluster
        self.partitions = partitions
        self.max_lag_s = max_lag_s
        self.max_lag_commits = max_lag_commits

    def _arguments(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "cluster": self.cluster,
            "partitions": self.partitions,
            "max_lag_s": self.max_lag_s,
            "max_lag_commits": self.max_lag_commits,
        }

    def _look(self) -> Answer | None:
        return look_at_copy(
            self.hivex_conn_id, self.table, self.cluster, self.partitions, self.max_lag_s, self.max_lag_commits
        )

    def _awaited(self) -> str:
        return f"a fresh copy of {self.table} on cluster {self.cluster}"
