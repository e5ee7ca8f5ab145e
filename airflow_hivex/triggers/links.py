"""A trigger that polls the metastore until a link shows partitions.

The trigger and the sensor call the function for each check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.transactions import HivexTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.triggers.transactions import Answer


def look_at_link(hivex_conn_id: str, link: str, namespace: str | None, partitions: Sequence[str]) -> Answer | None:
    """Return the result of the sensor if a link shows all the given partitions, or else None.

    :param link: ``table@namespace``
    :param namespace: the namespace that has the link; None for the database of the connection
    :param partitions: names of partitions, such as ``ds=2013-01-01``
    :raises HivexError: the link does not exist, or the table of the link cannot have a partition with such a name
    """
    from airflow_hivex.core.catalog.partition_rows import spelled_name

    hook = WarehouseHook(hivex_conn_id)
    links = hook.get_metastore().links
    owner = namespace or hook.get_configuration().database
    found = links.get(owner, link)
    source = links.source(found)
    wanted = [spelled_name(source, each) for each in partitions]
    if set(wanted).difference(links.partitions(owner, link)):
        return None
    return {"namespace": owner, "link": link, "source": source.full_name, "partitions": wanted}


class HivexLinkedPartitionTrigger(HivexTrigger):
    """Wait until a link shows partitions.

    :param link: ``table@namespace``
    :param partitions: names of partitions
    :param namespace: the namespace that has the link; None for the database of the connection
    """

    def __init__(
        self,
        *,
        link: str,
        partitions: Sequence[str],
        namespace: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.link = link
        self.partitions = partitions
        self.namespace = namespace

    def _arguments(self) -> dict[str, Any]:
        return {"link": self.link, "partitions": list(self.partitions), "namespace": self.namespace}

    def _look(self) -> Answer | None:
        return look_at_link(self.hivex_conn_id, self.link, self.namespace, self.partitions)

    def _awaited(self) -> str:
        return f"partitions {', '.join(self.partitions)} of link {self.link}"
