"""Copies of tables on other clusters, as tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.hooks.tasks import agent_info, cause_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.model.replication import CopyProgress


class HivexReplicateOperator(BaseOperator):
    """Copy to a cluster what it lacks of tables, as of one snapshot; all copies become visible at once, or none.

    A retry keeps the files that are there already. A task that was killed holds its locks until its transaction times
    out (``hive.txn.timeout``).

    It returns ``{"cluster", "tables", "txn_id", "files_copied", "bytes_copied", "files_kept"}``.

    :param tables: ``database.table``, or a list of them (templated)
    :param cluster: the cluster that is to have the copies (templated)
    :param partitions: names of partitions of one table, or leading parts such as ``year=2013``; None for all
        (templated)
    :param verify: read the registered copies, too, and copy damaged ones again
    :param threads: how many files are copied at once
    :param bytes_per_second: how much is copied at most; None sets no limit
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("tables", "cluster", "partitions", "hivex_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"tables": "json", "partitions": "json"}
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        tables: str | Sequence[str],
        cluster: str,
        partitions: Sequence[str] | None = None,
        verify: bool = False,
        threads: int = 8,
        bytes_per_second: int | None = None,
        hivex_conn_id: str = HivexHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.cluster = cluster
        self.partitions = partitions
        self.verify = verify
        self.threads = threads
        self.bytes_per_second = bytes_per_second
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Copy, and report the progress to the log.

        :raises AirflowFailException: the request is wrong or a file is damaged: a retry would fail again
        :raises HivexError: the failure may pass; Airflow retries the task as its ``retries`` say
        """
        try:
            found = (
                HivexHook(self.hivex_conn_id)
                .get_metastore()
                .replicator.replicate(
                    self.tables if isinstance(self.tables, str) else list(self.tables),
                    self.cluster,
                    self.partitions,
                    verify=self.verify,
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
        return {
            "cluster": found.cluster,
            "tables": [each.table for each in found.tables],
            "txn_id": found.txn_id,
            "files_copied": found.files_copied,
            "bytes_copied": found.bytes_copied,
            "files_kept": found.files_kept,
        }

    def _report(self, progress: CopyProgress) -> None:
        self.log.info(
            "%d of %d files, %d of %d bytes",
            progress.files_done,
            progress.files,
            progress.bytes_done,
            progress.size_bytes,
        )
