"""Events of tables and partitions. An event has the changed objects after the change, and the table's write id list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.rows import partition_document, table_document
from airflow_hivex.core.catalog.snapshot_rows import lists_call, lists_from
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import AskedMessage, EventType
from airflow_hivex.core.model.objects import Partition, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList, with_committed
from airflow_hivex.core.transactions import allocation


def record_table_event(
    connection: Connection,
    now_ms: int,
    type: EventType,
    table: Table,
    valid_write_ids: ValidWriteIdList | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | None = None,
    *,
    with_own: bool = False,
) -> None:
    """Record an event of a table in the caller's database transaction.

    The event of a transactional table has ``valid_write_ids`` or, by default, the write id list of the transaction
    ``txn_id``. Without both, the event has the current list. A list that is not given is read at the end of the commit,
    and includes the write ids that the commit itself allocates. If ``with_own`` is true, the write id of the
    transaction is added to a given list at the end of the commit.
    """
    table_id = table.id

    def complete(write_ids: ValidWriteIdList | None) -> dict[str, Any]:
        return {
            "table_id": table_id,
            "valid_write_ids": None if write_ids is None else str(write_ids),
            **(message or {}),
        }

    def with_list(rows: Sequence[Any]) -> dict[str, Any]:
        assert table_id is not None
        return complete(lists_from(rows, table.full_name, table_id, txn_id)[1])

    def with_id(rows: Sequence[Any]) -> dict[str, Any]:
        assert valid_write_ids is not None
        return complete(with_committed(valid_write_ids, rows[0].write_id))

    asked: dict[str, Any] | AskedMessage
    if valid_write_ids is not None and with_own:
        assert txn_id is not None
        assert table_id is not None
        asked = AskedMessage(allocation.finding(txn_id, table_id), with_id)
    elif valid_write_ids is None and table.is_transactional and table_id is not None:
        asked = AskedMessage(lists_call(table_id, txn_id), with_list)
    else:
        asked = complete(valid_write_ids)
    notification_log.record(
        connection, now_ms, type, database=table.database, table=table.name, txn_id=txn_id, message=asked
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
