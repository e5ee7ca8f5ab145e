"""A sensor that waits until a link shows partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hivex.sensors.transactions import HivexObjectSensor
from airflow_hivex.triggers.links import HivexLinkedPartitionTrigger, look_at_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.triggers.transactions import Answer, HivexTrigger


class HivexLinkedPartitionSensor(HivexObjectSensor):
    """Wait until a link shows partitions.

    A dynamic link shows a partition when the transaction that adds it to the source has committed.

    The sensor returns ``{"namespace", "link", "source", "partitions"}``.

    :param link: ``table@namespace`` (templated)
    :param partitions: the name of a partition, such as ``ds=2013-01-01``, or a list of names (templated)
    :param namespace: the namespace that has the link; by default the database of the connection (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    :param check_existence: whether to fail without a retry, instead of waiting, if the object does not exist
    """

    template_fields: Sequence[str] = ("link", "partitions", "namespace", "hivex_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"partitions": "json"}

    def __init__(
        self, *, link: str, partitions: str | Sequence[str], namespace: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.link = link
        self.partitions = partitions
        self.namespace = namespace

    def _look(self) -> Answer | None:
        return look_at_link(self.hivex_conn_id, self.link, self.namespace, self._names())

    def _trigger(self) -> HivexTrigger:
        return HivexLinkedPartitionTrigger(
            link=self.link,
            partitions=self._names(),
            namespace=self.namespace,
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        return f"partitions {', '.join(self._names())} of link {self.link}"

    def _names(self) -> list[str]:
        return [self.partitions] if isinstance(self.partitions, str) else list(self.partitions)
