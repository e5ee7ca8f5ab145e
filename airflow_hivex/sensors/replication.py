"""A sensor that waits until a copy of a table is fresh."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.hooks.compactions import as_whole_number
from airflow_hivex.sensors.transactions import HivexObjectSensor
from airflow_hivex.triggers.replication import HivexReplicaFreshnessTrigger, look_at_copy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.triggers.transactions import Answer, HivexTrigger


class HivexReplicaFreshnessSensor(HivexObjectSensor):
    """Wait until the copy of a table on a cluster is fresh: its lag is at most ``max_lag`` and ``max_lag_commits``.

    Each partition must have a copy on the cluster. A primary copy is always fresh.

    The sensor returns ``{"table", "cluster", "partitions", "write_id", "lag_s", "commits"}`` with the number of
    partitions, the highest write id of the copy, and the largest lag of a partition.

    :param table: ``table`` or ``database.table`` (templated)
    :param cluster: the cluster of the copy (templated)
    :param partitions: names of partitions such as ``year=2013/month=1``; None for all partitions (templated)
    :param max_lag: the largest age of the oldest missing commit, in seconds or as a ``timedelta`` (templated)
    :param max_lag_commits: the largest number of commits that the copy of a partition lacks (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    :param check_existence: whether to fail without a retry, instead of waiting, if the object does not exist
    """

    template_fields: Sequence[str] = (
        "table",
        "cluster",
        "partitions",
        "max_lag",
        "max_lag_commits",
        "hivex_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"partitions": "json"}

    def __init__(
        self,
        *,
        table: str,
        cluster: str,
        partitions: Sequence[str] | None = None,
        max_lag: float | str | timedelta = 0,
        max_lag_commits: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.cluster = cluster
        self.partitions = partitions
        self.max_lag = max_lag
        self.max_lag_commits = max_lag_commits

    def _look(self) -> Answer | None:
        return look_at_copy(
            self.hivex_conn_id, self.table, self.cluster, self._partitions(), self._max_lag_s(), self._max_commits()
        )

    def _trigger(self) -> HivexTrigger:
        return HivexReplicaFreshnessTrigger(
            table=self.table,
            cluster=self.cluster,
            partitions=self._partitions(),
            max_lag_s=self._max_lag_s(),
            max_lag_commits=self._max_commits(),
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        return f"fresh copy of {self.table} on cluster {self.cluster}"

    def _partitions(self) -> list[str] | None:
        return None if self.partitions is None else list(self.partitions)

    def _max_lag_s(self) -> float:
        if isinstance(self.max_lag, timedelta):
            return self.max_lag.total_seconds()
        try:
            seconds = float(self.max_lag or 0)
        except (TypeError, ValueError):
            seconds = -1
        if not seconds >= 0:
            raise AirflowFailException(f"max_lag = {self.max_lag!r} is not a valid number of seconds, 0 or more.")
        return seconds

    def _max_commits(self) -> int | None:
        if self.max_lag_commits in (None, ""):
            return None
        # 0 is valid: it stands for a current copy.
        return 0 if str(self.max_lag_commits) == "0" else as_whole_number("max_lag_commits", self.max_lag_commits)
