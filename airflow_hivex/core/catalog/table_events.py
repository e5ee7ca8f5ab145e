"""Events of tables and partitions. An event has the changed objects after the change, and the table's write id list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.rows import partition_document, table_document
from airflow_hivex.core.catalog.snapshot_rows import read_lists
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.objects import Partition, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList


def record_table_event(
    connection: Connection,
    now_ms: int,
    type: EventType,
    table: Table,
    valid_write_ids: ValidWriteIdList | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | None = None,
) -> None:
    """Record an event of a table in the caller's database transaction.

    The event of a transactional table always has a write id list: ``valid_write_ids`` if it is given, otherwise the
    list of the transaction ``txn_id`` if this is given, otherwise the current list. The last two are read at the end of
    the commit, in one round trip. So they include the write ids that the commit itself allocates.
    """

    def complete() -> dict[str, Any]:
        write_ids = valid_write_ids
        if write_ids is None and table.is_transactional and table.id is not None:
            _, write_ids = read_lists(connection, table, table.id, txn_id)
        return {
            "table_id": table.id,
            "valid_write_ids": None if write_ids is None else str(write_ids),
            **(message or {}),
        }

    notification_log.record(
        connection, now_ms, type, database=table.database, table=table.name, txn_id=txn_id, message=complete
    )


def of_table(table: Table, **others: Any) -> dict[str, Any]:
    """Return the message of an event about a table. Source: Hive CreateTableMessage."""
    return {"object": table_document(table), **others}


def of_partitions(partitions: Sequence[Partition], **others: Any) -> dict[str, Any]:
    """Return the message of an event about partitions, sorted by name.

    Source: Hive AddPartitionMessage.
    """
    ordered = sorted(partitions, key=lambda partition: partition.name)
    return {
        "partitions": [partition.name for partition in ordered],
        "objects": [partition_document(partition) for partition in ordered],
        **others,
    }


def of_compaction(partitions: Collection[str], directories: Sequence[str]) -> dict[str, Any]:
    """Return the message of a compaction's commit: the compacted partition, if there is one, and the directories."""
    return {"partition": next(iter(partitions), None), "directories": list(directories)}


def record_statistics_event(
    connection: Connection,
    now_ms: int,
    table: Table,
    partitions: Sequence[str] | None,
    columns: Sequence[str] = (),
    txn_id: int | None = None,
) -> None:
    """Record an event about changed statistics of columns. ``partitions`` is None for statistics of the table."""
    event = EventType.UPDATE_TABLE_COLUMN_STAT if partitions is None else EventType.UPDATE_PARTITION_COLUMN_STAT
    message = {"partitions": partitions, "columns": sorted(columns)}
    record_table_event(connection, now_ms, event, table, None, txn_id, message)
