"""The rows of the queue and of the history as values, and back."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from airflow_hivex.core.model.compaction import Compaction, CompactionState, CompactionType
from airflow_hivex.core.store.schema import compaction_queue, completed_compactions

QUEUE_COLUMNS = tuple(compaction_queue.c)
HISTORY_COLUMNS = tuple(completed_compactions.c)


def compaction_from_row(row: Row[Any]) -> Compaction:
    """A row with the columns of the queue, or with those of the history."""
    values = dict(row._mapping)
    values["partition"] = values["partition"] or None
    values["state"] = CompactionState(values["state"])
    values["type"] = CompactionType(values["type"])
    return Compaction(**values)


def compaction_to_values(entry: Compaction) -> dict[str, Any]:
    """The columns of the history, for an entry that is over."""
    return {
        **{name: getattr(entry, name) for name in Compaction.__slots__},
        "partition": entry.partition or "",
        "state": entry.state.value,
        "type": entry.type.value,
        "properties": dict(entry.properties),
    }
