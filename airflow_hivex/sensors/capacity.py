"""A sensor that waits until a namespace has used much of its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.sensors.transactions import HivexObjectSensor
from airflow_hivex.triggers.capacity import HivexQuotaTrigger, look_at_quotas

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from airflow_hivex.triggers.transactions import Answer, HivexTrigger


class HivexQuotaSensor(HivexObjectSensor):
    """Wait until the use of a quota reaches a level. Downstream tasks can then notify people or free space.

    The sensor returns ``{"quotas": [{"namespace", "cluster", "status", "used_bytes", "quota_bytes", "warning_percent",
    "used_percent", "largest_tables"}]}`` with the quotas whose use has reached the level.

    :param namespace: the namespace; None for all namespaces with a quota (templated)
    :param cluster: the cluster; None for all clusters (templated)
    :param percent: the level in percent of the quota, above 0; None for the warning level of each quota (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    :param check_existence: whether to fail without a retry, instead of waiting, if the namespace does not exist. The
        sensor always fails for a namespace without a quota
    """

    template_fields: Sequence[str] = ("namespace", "cluster", "percent", "hivex_conn_id")

    def __init__(
        self,
        *,
        namespace: str | None = None,
        cluster: str | None = None,
        percent: float | str | None = None,
        check_existence: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(check_existence=check_existence, **kwargs)
        self.namespace = namespace
        self.cluster = cluster
        self.percent = percent

    def _look(self) -> Answer | None:
        return look_at_quotas(self.hivex_conn_id, self.namespace or None, self.cluster or None, self._percent())

    def _trigger(self) -> HivexTrigger:
        return HivexQuotaTrigger(
            namespace=self.namespace or None,
            cluster=self.cluster or None,
            percent=self._percent(),
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        return f"quota of {self.namespace or 'any namespace'} that is used up to its level"

    def _percent(self) -> float | None:
        if self.percent in (None, ""):
            return None
        try:
            percent = float(self.percent)
        except (TypeError, ValueError):
            percent = 0
        if isinstance(self.percent, bool) or not 0 < percent < float("inf"):
            raise AirflowFailException(f"percent = {self.percent!r} is not a valid share of a quota, above 0.")
        return percent
