"""Calls that copy tables to other clusters: in the worker, or in the triggerer while a Spark job copies."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.tasks import failure_of
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from airflow_hivex.core.model.replication import CopyProgress, MoveProgress

    Check = Callable[[], object]

log = logging.getLogger(__name__)

Answer = dict[str, Any]
REPLICATE, MOVE = "replicate", "move"


def copy(hivex_conn_id: str, call: str, arguments: Mapping[str, Any], check: Check = lambda: None) -> Answer:
    """Call a method that copies files, log its progress, and return the result of the task.

    :param call: ``replicate`` or ``move``
    :param arguments: the arguments of ``metastore.replicator.replicate`` or of ``metastore.moves.move``
    :param check: a function that is called every few seconds. An error of this function ends the call
    :raises HivexError: the method has failed
    """
    return {REPLICATE: _replicate, MOVE: _move}[call](hivex_conn_id, arguments, check)


def has_server(hivex_conn_id: str, cluster: str) -> bool:
    """Return whether the jobs of a cluster run on a Spark Connect server.

    :raises HivexError: the cluster does not exist
    """
    return WarehouseHook(hivex_conn_id).get_metastore().clusters.get(cluster).kind.is_server


def _replicate(hivex_conn_id: str, arguments: Mapping[str, Any], check: Check) -> Answer:
    def report(progress: CopyProgress) -> None:
        check()
        log.info(
            "%d of %d files, %d of %d bytes",
            progress.files_done,
            progress.files,
            progress.bytes_done,
            progress.size_bytes,
        )

    found = WarehouseHook(hivex_conn_id).get_metastore().replicator.replicate(**arguments, progress=report)
    answer: Answer = {
        "cluster": found.cluster,
        "tables": [each.table for each in found.tables],
        "txn_id": found.txn_id,
        "files_copied": found.files_copied,
        "bytes_copied": found.bytes_copied,
        "files_kept": found.files_kept,
    }
    if arguments.get("dry_run"):
        answer["directories"] = [
            {
                "table": table.table,
                "partition": each.partition,
                "directory": each.name,
                "source": each.source,
                "files": each.files,
                "bytes": each.size_bytes,
            }
            for table in found.tables
            for each in table.directories
        ]
    return answer


def _move(hivex_conn_id: str, arguments: Mapping[str, Any], check: Check) -> Answer:
    def report(progress: MoveProgress) -> None:
        check()
        log.info(
            "Round %d: %d of %d tables, %d bytes; %s: %d of %d bytes",
            progress.round,
            progress.tables_done,
            progress.tables,
            progress.bytes_copied,
            progress.table,
            progress.bytes_done,
            progress.size_bytes,
        )

    found = WarehouseHook(hivex_conn_id).get_metastore().moves.move(**arguments, progress=report)
    answer: Answer = {
        "namespace": found.namespace,
        "cluster": found.cluster,
        "is_changed": found.is_changed,
        "tables": list(found.tables),
        "bytes_copied": found.bytes_copied,
        "rounds": found.rounds,
        "locked_s": found.locked_s,
        "txn_id": found.txn_id,
    }
    if arguments.get("dry_run") and found.plan is not None:
        answer["tables"] = [each.table for each in found.plan.tables]
        answer["size_bytes"] = found.plan.size_bytes
        answer["estimated_s"] = found.plan.estimated_s
        answer["blockers"] = [each.describe() for each in found.plan.blockers]
        answer["notices"] = list(found.plan.notices)
    return answer


class _CancelledError(Exception):
    """Error: the trigger was cancelled, because the task has ended or the triggerer ends."""


class HivexCopyTrigger(BaseTrigger):
    """Call a method that copies files by a job on a Spark Connect server.

    The event is ``{"answer": ...}``, or ``{"error": sentence, "is_final": ...}``. ``is_final`` is true if a retry would
    fail again. A cancelled trigger stops its job. If another triggerer continues the trigger, files that are already
    copied are not copied again.

    :param call: ``replicate`` or ``move``
    :param arguments: the arguments of the call, in JSON types
    :param hivex_conn_id: the id of the connection
    """

    def __init__(self, *, call: str, arguments: Mapping[str, Any], hivex_conn_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.call = call
        self.arguments = arguments
        self.hivex_conn_id = hivex_conn_id
        self._is_cancelled = threading.Event()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and the arguments of its constructor."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "call": self.call,
            "arguments": dict(self.arguments),
            "hivex_conn_id": self.hivex_conn_id,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the only event."""
        try:
            event = await in_thread(self._run, f"hivex-{self.call}")
        except asyncio.CancelledError:
            self._is_cancelled.set()
            raise
        yield TriggerEvent(event)

    async def cleanup(self) -> None:
        """Do nothing. The metastore stays open for other triggers of this process."""

    def _run(self) -> Answer:
        try:
            return {"answer": copy(self.hivex_conn_id, self.call, self.arguments, self._check)}
        except _CancelledError:
            return {"error": "The trigger was cancelled.", "is_final": False}
        except HivexError as error:
            return {"error": str(error), "is_final": failure_of(error) is not None}

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise _CancelledError
