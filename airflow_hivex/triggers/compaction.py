"""Triggers that poll the metastore for the end of a compaction, or for a threshold of the initiator.

Triggers, sensors and operators call the functions for each check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.hooks.compactions import describe_compaction, table_to_compact
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.transactions import HivexTrigger

if TYPE_CHECKING:
    from airflow_hivex.triggers.transactions import Answer

MOST_PARTITIONS = 1000
"""The largest number of partitions in a result. Airflow's default limit of mapped tasks is higher."""


def look_at_compaction(hivex_conn_id: str, compaction_id: int, *, until_cleaned: bool) -> Answer | None:
    """Return the record of a compaction if it has ended, or else None.

    :param until_cleaned: True: the end is the deletion of the replaced files. False: the end is the merge of the rows
    :raises CompactionNotDoneError: the compaction has failed, or was withdrawn from the queue
    :raises NoSuchCompactionError: no compaction has the id, or its record is already deleted
    """
    from airflow_hivex.core.errors import CompactionNotDoneError
    from airflow_hivex.core.model.compaction import CompactionState

    entry = WarehouseHook(hivex_conn_id).get_metastore().compactor.history.get(compaction_id)
    if entry.state in (CompactionState.FAILED, CompactionState.ABORTED, CompactionState.DID_NOT_INITIATE):
        raise CompactionNotDoneError(entry.id, entry.name, entry.state.shown, entry.error_message)
    is_done = entry.state is CompactionState.READY_FOR_CLEANING and not until_cleaned
    return describe_compaction(entry) if is_done or entry.state.is_over else None


def look_at_thresholds(hivex_conn_id: str, table: str, partition: str | None) -> Answer | None:
    """Return the thresholds of the initiator that a table or a partition of the table has passed, or else None.

    Conditions that stop the initiator, such as ``NO_AUTO_COMPACTION``, are ignored.

    :param table: ``table`` or ``database.table``
    :raises HivexError: the table does not exist, is never compacted, or has thresholds that cannot be read
    """
    from airflow_hivex.core.errors import InvalidOperationError
    from airflow_hivex.core.model.compaction import CompactionType

    hook = WarehouseHook(hivex_conn_id)
    database, name = table_to_compact(hook, table)
    found = hook.get_metastore().compactor.explain(database, name, partition)
    if found.problem is not None:
        raise InvalidOperationError("Waiting for a threshold of", found.name, found.problem)
    if not found.worthwhile:
        return None
    is_major = any(kind is CompactionType.MAJOR for _, kind in found.worthwhile)
    partitions = [(each, kind) for each, kind in found.worthwhile if each is not None]
    return {
        "table": f"{database}.{name}",
        "partition": partition,
        "type": "major" if is_major else "minor",
        "thresholds": [
            {"name": each.name, "value": each.value, "threshold": each.threshold, "type": each.result}
            for each in found.passed
        ],
        "partitions": [
            {"partition": each, "compaction_type": kind.name.lower()} for each, kind in partitions[:MOST_PARTITIONS]
        ],
        "answer": found.answer,
    }


class HivexCompactionTrigger(HivexTrigger):
    """Wait until a compaction has ended.

    :param compaction_id: the id of the compaction
    :param until_cleaned: True: wait until the replaced files are deleted. False: wait only until the rows are merged
    """

    def __init__(self, *, compaction_id: int, until_cleaned: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compaction_id = compaction_id
        self.until_cleaned = until_cleaned

    def _arguments(self) -> dict[str, Any]:
        return {"compaction_id": self.compaction_id, "until_cleaned": self.until_cleaned}

    def _look(self) -> Answer | None:
        return look_at_compaction(self.hivex_conn_id, self.compaction_id, until_cleaned=self.until_cleaned)

    def _awaited(self) -> str:
        return f"compaction {self.compaction_id}"


class HivexCompactionThresholdTrigger(HivexTrigger):
    """Wait until a table or partition has passed one of the initiator's thresholds.

    :param table: ``table`` or ``database.table``
    :param partition: ``key=value/...``, or None for the table or any partition of the table
    """

    def __init__(self, *, table: str, partition: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition

    def _arguments(self) -> dict[str, Any]:
        return {"table": self.table, "partition": self.partition}

    def _look(self) -> Answer | None:
        return look_at_thresholds(self.hivex_conn_id, self.table, self.partition)

    def _awaited(self) -> str:
        return f"a threshold of {self.table}" + (f" ({self.partition})" if self.partition else "")
