"""Sensors that wait until a table needs a compaction, or until a compaction has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.hooks.compactions import as_whole_number
from airflow_hivex.sensors.transactions import HivexObjectSensor, HivexSensor
from airflow_hivex.triggers.compaction import (
    HivexCompactionThresholdTrigger,
    HivexCompactionTrigger,
    look_at_compaction,
    look_at_thresholds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import XComArg

    from airflow_hivex.triggers.transactions import Answer, HivexTrigger


class HivexCompactionSensor(HivexSensor):
    """Wait until a compaction has ended.

    The sensor returns ``{"compaction_id", "table", "partition", "type", "state", "message", "txn_id"}``. The state is
    ``succeeded``, ``refused`` (``message`` says why) or, without ``until_cleaned``, ``ready for cleaning``. The sensor
    fails, without a retry, if the compaction has failed or was withdrawn, or if no compaction has the id.

    :param compaction_id: a number, or the ``output`` of HivexCompactOperator (templated)
    :param until_cleaned: whether to wait until the cleaner has deleted the replaced files, after their readers and
        ``hivex.history.retention``, and not only until the rows are merged
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    """

    template_fields: Sequence[str] = ("compaction_id", "hivex_conn_id")

    def __init__(
        self,
        *,
        compaction_id: int | str | Mapping[str, Any] | XComArg,
        until_cleaned: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.compaction_id = compaction_id
        self.until_cleaned = until_cleaned

    def _look(self) -> Answer | None:
        return look_at_compaction(self.hivex_conn_id, self._id(), until_cleaned=self.until_cleaned)

    def _trigger(self) -> HivexTrigger:
        return HivexCompactionTrigger(
            compaction_id=self._id(),
            until_cleaned=self.until_cleaned,
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the id of the compaction."""
        return f"compaction {self._given()}"

    def _awaited(self) -> str:
        return f"end of compaction {self._id()}"

    def _id(self) -> int:
        return as_whole_number("compaction_id", self._given())

    def _given(self) -> Any:
        given = self.compaction_id
        return given.get("compaction_id") if isinstance(given, dict) else given


class HivexCompactionThresholdSensor(HivexObjectSensor):
    """Wait until a table or partition has passed one of the initiator's thresholds.

    The sensor ignores the other conditions of the initiator, such as ``NO_AUTO_COMPACTION``.

    The sensor returns ``{"table", "partition", "type", "thresholds", "partitions", "answer"}``. ``type`` is ``major``
    or ``minor``. ``thresholds`` are the passed ones with their values. ``partitions`` is a list with ``{"partition",
    "compaction_type"}`` of the first 1,000 partitions that have passed one, for
    ``HivexCompactOperator.partial(...).expand_kwargs(...)``. ``answer`` is the current decision of the initiator.

    :param table: a transactional table, ``table`` or ``database.table`` (templated)
    :param partition: ``key=value/...``; None for the table, or for any partition of the table (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    :param check_existence: whether to fail without a retry, instead of waiting, if the object does not exist
    """

    template_fields: Sequence[str] = ("table", "partition", "hivex_conn_id")

    def __init__(self, *, table: str, partition: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition

    def _look(self) -> Answer | None:
        return look_at_thresholds(self.hivex_conn_id, self.table, self.partition)

    def _trigger(self) -> HivexTrigger:
        return HivexCompactionThresholdTrigger(
            table=self.table,
            partition=self.partition,
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        return f"threshold passed by {self.table}" + (f" ({self.partition})" if self.partition else "")
