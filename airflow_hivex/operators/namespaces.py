"""Moves of namespaces to other clusters, as tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.tasks import agent_info, cause_of
from airflow_hivex.hooks.warehouse import WarehouseHook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.model.moves import MoveProgress


class HivexMoveNamespaceOperator(BaseOperator):
    """Move a namespace to another cluster: all its tables change their primary cluster at once.

    A retry continues the move where the try before has stopped, or does nothing where the namespace has moved. It
    copies the tables as :class:`HivexReplicateOperator` does, so that it is not deferrable.

    It returns ``{"namespace", "cluster", "is_changed", "tables", "bytes_copied", "rounds", "locked_s", "txn_id"}``; a
    dry run also ``"size_bytes"``, ``"estimated_s"``, ``"blockers"`` and ``"notices"``.

    :param namespace: the database (templated)
    :param cluster: the new primary cluster of its tables (templated)
    :param copy_linked: copy tables of other namespaces, as far as links of this one show them
    :param keep_copies: keep the copies on the clusters before
    :param dry_run: change nothing, and return the plan
    :param threads: how many files are copied at once
    :param bytes_per_second: how much is copied at most; None sets no limit
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("namespace", "cluster", "hivex_conn_id")
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        namespace: str,
        cluster: str,
        copy_linked: bool = False,
        keep_copies: bool = False,
        dry_run: bool = False,
        threads: int = 8,
        bytes_per_second: int | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespace = namespace
        self.cluster = cluster
        self.copy_linked = copy_linked
        self.keep_copies = keep_copies
        self.is_dry_run = dry_run
        self.threads = threads
        self.bytes_per_second = bytes_per_second
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Move it.

        :raises AirflowFailException: the request is wrong, or an object is in the way: a retry would fail again
        :raises HivexError: the failure may pass; Airflow retries the task as its ``retries`` say
        """
        try:
            found = (
                WarehouseHook(self.hivex_conn_id)
                .get_metastore()
                .moves.move(
                    self.namespace,
                    self.cluster,
                    copy_linked=self.copy_linked,
                    keep_copies=self.keep_copies,
                    dry_run=self.is_dry_run,
                    threads=self.threads,
                    bytes_per_second=self.bytes_per_second,
                    progress=self._report,
                    agent_info=agent_info(context),
                )
            )
        except HivexError as error:
            if error.retryable:
                raise
            raise AirflowFailException(str(error)) from cause_of(error)
        answer: dict[str, Any] = {
            "namespace": found.namespace,
            "cluster": found.cluster,
            "is_changed": found.is_changed,
            "tables": list(found.tables),
            "bytes_copied": found.bytes_copied,
            "rounds": found.rounds,
            "locked_s": found.locked_s,
            "txn_id": found.txn_id,
        }
        if self.is_dry_run and found.plan is not None:
            answer["tables"] = [each.table for each in found.plan.tables]
            answer["size_bytes"] = found.plan.size_bytes
            answer["estimated_s"] = found.plan.estimated_s
            answer["blockers"] = [each.describe() for each in found.plan.blockers]
            answer["notices"] = list(found.plan.notices)
        return answer

    def _report(self, progress: MoveProgress) -> None:
        self.log.info(
            "Round %d: %d of %d tables, %d bytes; %s: %d of %d bytes",
            progress.round,
            progress.tables_done,
            progress.tables,
            progress.bytes_copied,
            progress.table,
            progress.bytes_done,
            progress.size_bytes,
        )
