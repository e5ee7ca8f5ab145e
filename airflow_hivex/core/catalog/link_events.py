"""Events of links: each has the link as it is afterwards, and the partitions that have come or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.clock import to_ms
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH
from airflow_hivex.core.model.links import Link


def record_link_event(
    connection: Connection,
    now_ms: int,
    type: EventType,
    link: Link,
    *,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
) -> None:
    """Record an event of a link in the caller's transaction. One round trip."""
    message: dict[str, Any] = {
        "object": {
            "database": link.name.database,
            "link": link.name.in_database,
            "type": link.type.value,
            "source": ".".join(link.source),
            "source_id": link.source_id,
            "parameters": dict(link.properties),
            "owner": link.owner,
            "created_ms": None if link.created_at is None else to_ms(link.created_at),
        },
        "added_partitions": list(added),
        "removed_partitions": list(removed),
    }
    table = link.name.in_database[:MAX_NAME_LENGTH]
    notification_log.record(connection, now_ms, type, database=link.name.database, table=table, message=message)
