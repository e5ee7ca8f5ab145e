"""The rows of the queue and of the history as values, and back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.compaction import Compaction, CompactionState, CompactionType
from airflow_hivex.core.store.partition_names import partition_from_column, partition_to_column
from airflow_hivex.core.store.schema import compaction_queue, completed_compactions

QUEUE_COLUMNS = tuple(compaction_queue.c)
HISTORY_COLUMNS = tuple(completed_compactions.c)
_NAMES = frozenset(column.name for column in HISTORY_COLUMNS)

_TIMES = ("enqueued", "started", "committed", "cleaner_started", "ended")


def compaction_from_row(row: Row[Any]) -> Compaction:
    """Return a row with the columns of the queue, or with those of the history. It may have others."""
    values = {name: value for name, value in row._mapping.items() if name in _NAMES}
    for name in _TIMES:
        time_ms = values.pop(f"{name}_ms", None)
        values[f"{name}_at"] = None if time_ms is None else to_datetime(time_ms)
    values["partition"] = partition_from_column(values["partition"])
    values["state"] = CompactionState(values["state"])
    values["type"] = CompactionType(values["type"])
    return Compaction(**values)


def compaction_to_values(entry: Compaction) -> dict[str, Any]:
    """Return the columns of the history, for an entry that is over."""
    values = {name: getattr(entry, name) for name in Compaction.__slots__}
    for name in _TIMES:
        values[f"{name}_ms"] = to_milliseconds(values.pop(f"{name}_at"))
    return values | {
        "partition": partition_to_column(entry.partition),
        "state": entry.state.value,
        "type": entry.type.value,
        "properties": dict(entry.properties),
    }


def to_milliseconds(time: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if time is None else round(time.timestamp() * 1000)
