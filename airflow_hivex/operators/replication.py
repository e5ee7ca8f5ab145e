"""Operators that copy tables to other clusters, and change their primary clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hivex.hooks.tasks import NamedInMap, agent_info, failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.asset_events import WritingOperator, declare_tables, send_event
from airflow_hivex.operators.copying import CopyOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class HivexReplicateOperator(CopyOperator):
    """Copy missing files of tables to a cluster, as of one snapshot. All copies become visible together, or no copy.

    A retry keeps the files that are already copied. The locks of a killed task stay until the transaction times out
    (``hivex.replication.timeout``).

    The operator returns ``{"cluster", "tables", "txn_id", "files_copied", "bytes_copied", "files_kept"}``.

    :param tables: ``database.table``, or a list of such names (templated)
    :param cluster: the cluster that gets the copies (templated)
    :param partitions: names of partitions of one table, or leading parts such as ``year=2013``; None for all
        (templated)
    :param partition_filter: conditions on the partition keys of one table, as in a PARTITION clause
        (``year = 2013, month < 3``), instead of names (templated)
    :param dry_run: whether to copy nothing, and return ``"directories"``, a list with ``{"table", "partition",
        "directory", "source", "files", "bytes"}`` for each directory that would be copied
    :param verify: whether to read copied files, too, and replace damaged ones
    :param threads: the number of files that are copied at once
    :param bytes_per_second: the most bytes a second; None: no limit
    :param copy_cluster: the cluster whose Spark copies the files; None: a Spark job copies large amounts, the task
        small ones (templated)
    :param deferrable: True: free the worker slot while the job of ``copy_cluster`` copies, which needs a Spark Connect
        server. None: as ``[operators] default_deferrable`` says, and in the worker without such a server
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = (
        "tables",
        "cluster",
        "partitions",
        "partition_filter",
        "copy_cluster",
        "hivex_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"tables": "json", "partitions": "json"}
    call = "replicate"

    def __init__(
        self,
        *,
        tables: str | Sequence[str],
        cluster: str,
        partitions: Sequence[str] | None = None,
        partition_filter: str | None = None,
        dry_run: bool = False,
        verify: bool = False,
        threads: int = 8,
        bytes_per_second: int | None = None,
        copy_cluster: str | None = None,
        deferrable: bool | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(copy_cluster=copy_cluster, deferrable=deferrable, hivex_conn_id=hivex_conn_id, **kwargs)
        self.tables = tables
        self.cluster = cluster
        self.partitions = partitions
        self.partition_filter = partition_filter
        self.is_dry_run = dry_run
        self.verify = verify
        self.threads = threads
        self.bytes_per_second = bytes_per_second

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the tables, and the partitions."""
        tables = self.tables if isinstance(self.tables, str) else ", ".join(self.tables)
        partitions = self.partition_filter or ", ".join(self.partitions or ())
        return f"{tables} ({partitions})" if partitions else tables

    def _arguments(self) -> dict[str, Any]:
        return {
            "tables": self.tables if isinstance(self.tables, str) else list(self.tables),
            "cluster": self.cluster,
            "partitions": None if self.partitions is None else list(self.partitions),
            "partition_filter": self.partition_filter or None,
            "dry_run": self.is_dry_run,
            "verify": self.verify,
            "threads": self.threads,
            "bytes_per_second": self.bytes_per_second,
            "copy_cluster": self.copy_cluster or None,
        }

    def _complete(self, answer: dict[str, Any]) -> dict[str, Any]:
        if not self.is_dry_run:
            declare_tables(self, self.hivex_conn_id, [self.tables] if isinstance(self.tables, str) else self.tables)
        return answer


class HivexSetPrimaryClusterOperator(NamedInMap, WritingOperator):
    """Change the primary cluster of a table. The previous one keeps a copy. A retry is harmless.

    The operator waits for the readers and writers of the table, and is not deferrable.

    The operator returns ``{"table", "before", "cluster", "is_changed", "txn_id", "bytes_copied", "lost_write_ids"}``.

    :param table: ``database.table`` (templated)
    :param cluster: the new primary cluster (templated)
    :param force: whether the previous cluster is lost. If writes would be lost, the task fails without a retry; the
        error lists them, and a text for ``confirm``
    :param confirm: the text of that error, which confirms the loss (templated)
    :param threads: the number of files that are copied at once
    :param bytes_per_second: the most bytes a second; None: no limit
    :param asset_events: whether to send an event for the asset of each changed table or link
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("table", "cluster", "confirm", "hivex_conn_id")
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        table: str,
        cluster: str,
        force: bool = False,
        confirm: str | None = None,
        threads: int = 8,
        bytes_per_second: int | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.cluster = cluster
        self.force = force
        self.confirm = confirm
        self.threads = threads
        self.bytes_per_second = bytes_per_second
        self.hivex_conn_id = hivex_conn_id

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the table."""
        return self.table

    def execute(self, context: Context) -> dict[str, Any]:
        """Change the primary cluster.

        :raises AirflowFailException: the request is wrong, or writes would be lost, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        from airflow_hivex.assets.hivex import table_uri

        with failing_for_good():
            found = (
                WarehouseHook(self.hivex_conn_id)
                .get_metastore()
                .primaries.change(
                    self.table,
                    self.cluster,
                    force=self.force,
                    confirm=self.confirm or None,
                    threads=self.threads,
                    bytes_per_second=self.bytes_per_second,
                    agent_info=agent_info(context),
                )
            )
        declare_tables(self, self.hivex_conn_id, [found.table])
        lost = [list(each) for each in found.lost_write_ids]
        # If the try before has changed the cluster, this try does not know the lost writes.
        if lost or (self.force and context["ti"].try_number > 1):
            uri = table_uri(self.hivex_conn_id, *found.table.split(".", 1))
            send_event(self, context, uri, {"lost_write_ids": lost})
        return {
            "table": found.table,
            "before": found.before,
            "cluster": found.cluster,
            "is_changed": found.is_changed,
            "txn_id": found.txn_id,
            "bytes_copied": 0 if found.replication is None else found.replication.bytes_copied,
            "lost_write_ids": lost,
        }
