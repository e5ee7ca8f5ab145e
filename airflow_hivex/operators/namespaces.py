"""Operators that move namespaces to other clusters, and import them from other metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.hooks.tasks import failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.asset_events import WritingOperator, declare_tables, send_event
from airflow_hivex.operators.copying import CopyOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.replication import CopyProgress


class HivexMoveNamespaceOperator(CopyOperator):
    """Move a namespace to another cluster: all its tables change their primary cluster at once.

    A retry continues the move, and does nothing after it.

    The operator returns ``{"namespace", "cluster", "is_changed", "tables", "bytes_copied", "rounds", "locked_s",
    "txn_id"}``. A dry run also returns ``"size_bytes"``, ``"estimated_s"``, ``"blockers"`` and ``"notices"``.

    :param namespace: the database (templated)
    :param cluster: the new primary cluster of the tables (templated)
    :param copy_linked: whether to copy linked tables and partitions of other namespaces, too
    :param keep_copies: whether to keep the copies on the previous clusters
    :param dry_run: whether to change nothing, and return the plan
    :param threads: the number of files that are copied at once
    :param bytes_per_second: the most bytes a second; None: no limit
    :param copy_cluster: the cluster whose Spark copies the files; None: Spark jobs copy large amounts, the task small
        ones. The task always copies the last files (templated)
    :param deferrable: True: free the worker slot while jobs of ``copy_cluster`` copy, which needs a Spark Connect
        server. None: as ``[operators] default_deferrable`` says, and in the worker without such a server
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("namespace", "cluster", "copy_cluster", "hivex_conn_id")
    call = "move"

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
        copy_cluster: str | None = None,
        deferrable: bool | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(copy_cluster=copy_cluster, deferrable=deferrable, hivex_conn_id=hivex_conn_id, **kwargs)
        self.namespace = namespace
        self.cluster = cluster
        self.copy_linked = copy_linked
        self.keep_copies = keep_copies
        self.is_dry_run = dry_run
        self.threads = threads
        self.bytes_per_second = bytes_per_second

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the namespace."""
        return self.namespace

    def _arguments(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "cluster": self.cluster,
            "copy_linked": self.copy_linked,
            "keep_copies": self.keep_copies,
            "dry_run": self.is_dry_run,
            "threads": self.threads,
            "bytes_per_second": self.bytes_per_second,
            "copy_cluster": self.copy_cluster or None,
        }

    def _complete(self, answer: dict[str, Any]) -> dict[str, Any]:
        if not self.is_dry_run:
            declare_tables(self, self.hivex_conn_id, answer["tables"])
        return answer


class HivexImportNamespaceOperator(WritingOperator):
    """Import the tables and views of a namespace from another metastore, as of one snapshot.

    A retry keeps copied files. Objects that exist here already are not changed.

    The operator returns ``{"namespace", "imported", "present", "size_bytes"}``. ``present`` are the objects that
    existed already. Unless ``skip_refused`` is set, the task fails if an object, such as an external table, cannot be
    imported.

    :param namespace: the namespace in the other metastore (templated)
    :param source_conn_id: the connection of the other metastore; by default the home of the namespace that ``hivex
        namespace home`` has set (templated)
    :param tables: a pattern of tables and views, such as ``flights|air*`` (templated)
    :param into: the name of the namespace in this metastore; by default the same name (templated)
    :param cluster: the cluster that gets the files; by default the default cluster (templated)
    :param skip_refused: whether to skip such objects, and log the reasons
    :param dry_run: whether to change nothing, and return the names that would be imported
    :param threads: the number of files that are copied at once
    :param asset_events: whether to send an event for the asset of each changed table or link
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("namespace", "source_conn_id", "tables", "into", "cluster", "hivex_conn_id")
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        namespace: str,
        source_conn_id: str | None = None,
        tables: str | None = None,
        into: str | None = None,
        cluster: str | None = None,
        skip_refused: bool = False,
        dry_run: bool = False,
        threads: int = 8,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespace = namespace
        self.source_conn_id = source_conn_id
        self.tables = tables
        self.into = into
        self.cluster = cluster
        self.skip_refused = skip_refused
        self.is_dry_run = dry_run
        self.threads = threads
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Import the namespace, and report the progress to the log.

        :raises AirflowFailException: the request is wrong, or an object is refused, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        from airflow_hivex.assets.hivex import table_uri
        from airflow_hivex.core.imports.writing import ImportOutcome

        with failing_for_good():
            if self.source_conn_id:
                # First, so that a wrong source does not create a metastore here.
                WarehouseHook(self.source_conn_id).get_existing_metastore()
            metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
            source = self.source_conn_id or self._home(metastore)
            found = metastore.import_namespace(
                WarehouseHook(source).get_existing_metastore(),
                self.namespace,
                tables=self.tables or None,
                into=self.into or None,
                cluster=self.cluster or None,
                dry_run=self.is_dry_run,
                threads=self.threads,
                progress=self._report,
            )
        new = {ImportOutcome.IMPORTED}
        if context["ti"].try_number > 1 and not self.is_dry_run:
            # The try before may have been lost after it had imported objects, and before it sent their events.
            new |= {ImportOutcome.PRESENT, ImportOutcome.DIFFERS}
        tables = [each.name.partition(".")[2] for each in found if each.outcome in new and each.has_rows]
        declare_tables(self, source, [f"{self.namespace}.{name}" for name in tables])
        for name in tables:
            uri = table_uri(self.hivex_conn_id, self.into or self.namespace, name)
            send_event(self, context, uri, {"imported_from": source})
        refused = [each for each in found if each.outcome is ImportOutcome.REFUSED]
        for each in refused:
            self.log.warning("%s is not imported: %s", each.name, "; ".join(each.notes))
        if refused and not self.skip_refused:
            names = ", ".join(f"{each.name} ({'; '.join(each.notes)})" for each in refused)
            raise AirflowFailException(f"Not imported: {names}. skip_refused=True leaves these out.")
        done = ImportOutcome.PLANNED if self.is_dry_run else ImportOutcome.IMPORTED
        return {
            "namespace": self.into or self.namespace,
            "imported": [each.name for each in found if each.outcome is done and each.kind != "database"],
            "present": [each.name for each in found if each.outcome is ImportOutcome.DIFFERS],
            "size_bytes": sum(each.size_bytes for each in found),
        }

    def _home(self, metastore: Metastore) -> str:
        home = metastore.homes.find(self.namespace)
        if home.is_url:
            raise AirflowFailException(
                f"The home of namespace {home.namespace} is the URL {home.metastore}; note the id of a connection, "
                "which has the clusters, too."
            )
        return home.metastore

    def _report(self, progress: CopyProgress) -> None:
        self.log.info(
            "%d of %d files, %d of %d bytes",
            progress.files_done,
            progress.files,
            progress.bytes_done,
            progress.size_bytes,
        )
