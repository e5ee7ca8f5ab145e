"""A trigger that polls the metastore until a namespace has used much of its quota.

The trigger and the sensor call the function for each check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.transactions import HivexTrigger

if TYPE_CHECKING:
    from airflow_hivex.triggers.transactions import Answer

_LARGEST = 3


def look_at_quotas(
    hivex_conn_id: str, namespace: str | None, cluster: str | None, percent: float | None
) -> Answer | None:
    """Return the result of the sensor, with the quotas whose use has reached the level, or None without such a quota.

    :param namespace: the namespace; None for all namespaces
    :param cluster: the cluster; None for all clusters
    :param percent: the level in percent of the quota; None for the warning level of each quota
    :raises HivexError: the namespace or cluster does not exist, or has no quota
    """
    from airflow_hivex.core.errors import InvalidOperationError

    capacity = WarehouseHook(hivex_conn_id).get_metastore().capacity
    limited = [each for each in capacity.show(namespace, cluster) if each.quota is not None]
    if not limited:
        reason = "there is no quota to wait for; set one by ALTER DATABASE ... SET QUOTA"
        on = "" if cluster is None else f" on cluster {cluster}"
        raise InvalidOperationError("Waiting for the use of a quota of", f"{namespace or 'all namespaces'}{on}", reason)
    found = []
    for each in limited:
        quota = each.quota
        assert quota is not None
        level = quota.warning_percent if percent is None else percent
        if each.used_bytes * 100 < quota.size_bytes * level:
            continue
        largest = capacity.by_table(each.namespace, each.cluster)[:_LARGEST]
        found.append(
            {
                "namespace": each.namespace,
                "cluster": each.cluster,
                "status": each.status,
                "used_bytes": each.used_bytes,
                "quota_bytes": quota.size_bytes,
                "warning_percent": quota.warning_percent,
                "used_percent": round(each.used_bytes * 100 / quota.size_bytes, 1),
                "largest_tables": [share.name for share in largest],
            }
        )
    return {"quotas": found} if found else None


class HivexQuotaTrigger(HivexTrigger):
    """Wait until the use of a quota reaches a level.

    :param namespace: the namespace; None for all namespaces
    :param cluster: the cluster; None for all clusters
    :param percent: the level in percent of the quota; None for the warning level of each quota
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        cluster: str | None = None,
        percent: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespace = namespace
        self.cluster = cluster
        self.percent = percent

    def _arguments(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "cluster": self.cluster, "percent": self.percent}

    def _look(self) -> Answer | None:
        return look_at_quotas(self.hivex_conn_id, self.namespace, self.cluster, self.percent)

    def _awaited(self) -> str:
        return f"a quota of {self.namespace or 'any namespace'} that is used up to its level"
