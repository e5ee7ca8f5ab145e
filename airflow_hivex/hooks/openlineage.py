"""OpenLineage: the datasets of statements, with their columns, clusters, rows and bytes.

A table is the dataset ``database.table`` of the namespace ``hivex://connection``.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_hivex.assets.hivex import SCHEME, TableUri, table_uri
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.errors.secrets import hide
from airflow_hivex.hooks.lineage import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_hivex.core.catalog.commits import Volume
    from airflow_hivex.core.model.objects import Table
    from airflow_hivex.core.parser.statements import TableName
    from airflow_hivex.hooks.warehouse import WarehouseHook

log = logging.getLogger(__name__)

_SCHEMA_URL = "https://airflow-hivex.readthedocs.io/en/latest/reference/openlineage/"


def lineage_of(
    hook: WarehouseHook, statements: Sequence[str], database: str | None, txn_ids: Sequence[int] = ()
) -> OperatorLineage[Any, Any] | None:
    """Return the lineage of statements, or None if OpenLineage is not installed.

    :param database: the current database; None for the database of the connection
    :param txn_ids: the committed transactions of the statements; the lineage has their rows and bytes
    """
    try:
        from airflow.providers.common.compat.openlineage.facet import SQLJobFacet
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    current = database or hook.get_configuration().database
    found = tables_of(statements, hook.hivex_conn_id, current)
    datasets = _Datasets(hook, txn_ids)
    columns = datasets.column_lineage(statements, current)
    return OperatorLineage(
        inputs=[datasets.input(uri) for uri in found.inputs],
        outputs=[datasets.output(uri, columns.get(uri)) for uri in found.outputs],
        run_facets=_run_facets(hook, txn_ids),
        job_facets={"sql": SQLJobFacet(query=hide(";\n".join(statements)))},
    )


def lineage_of_transaction(hook: WarehouseHook, txn_id: int) -> OperatorLineage[Any, Any] | None:
    """Return the tables that a committed transaction has written, or None if OpenLineage is not installed."""
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    datasets = _Datasets(hook, [txn_id])
    uris = dict.fromkeys(
        table_uri(hook.hivex_conn_id, *commit.table.split(".", 1))
        for commit in hook.get_metastore().commits.of_transactions([txn_id])
    )
    return OperatorLineage(outputs=[datasets.output(uri, None) for uri in uris], run_facets=_run_facets(hook, [txn_id]))


def _run_facets(hook: WarehouseHook, txn_ids: Sequence[int]) -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import ExternalQueryRunFacet

    if not txn_ids:
        return {}
    query_id = ",".join(str(txn_id) for txn_id in txn_ids)
    return {"externalQuery": ExternalQueryRunFacet(externalQueryId=query_id, source=_namespace(hook))}


def _namespace(hook: WarehouseHook) -> str:
    return f"{SCHEME}://{hook.hivex_conn_id}"


class _Datasets:
    """The OpenLineage datasets of tables. A table that cannot be looked up is a dataset without facets."""

    def __init__(self, hook: WarehouseHook, txn_ids: Sequence[int]) -> None:
        self._hook = hook
        self._namespace = _namespace(hook)
        self._tables: dict[TableUri, Table | None] = {}
        self._volumes: dict[str, Volume] = {}
        if txn_ids:
            self._volumes = _known(lambda: hook.get_metastore().commits.volumes(txn_ids)) or {}

    def input(self, uri: TableUri) -> Any:
        """Return the dataset of a table that is read."""
        from airflow.providers.common.compat.openlineage.facet import Dataset

        return Dataset(namespace=self._namespace, name=uri.full_name, facets=self._facets(uri))

    def output(self, uri: TableUri, columns: dict[str, list[tuple[TableUri, str]]] | None) -> Any:
        """Return the dataset of a written table.

        :param columns: a dict from each column to its source columns, or None if the source columns are not known
        """
        from airflow.providers.common.compat.openlineage.facet import (
            ColumnLineageDatasetFacet,
            Fields,
            InputField,
            OutputDataset,
            OutputStatisticsOutputDatasetFacet,
        )

        facets = self._facets(uri)
        if columns:
            facets["columnLineage"] = ColumnLineageDatasetFacet(
                fields={
                    name: Fields(
                        inputFields=[InputField(self._namespace, table.full_name, column) for table, column in sources],
                        transformationType="",
                        transformationDescription="",
                    )
                    for name, sources in columns.items()
                }
            )
        volume = self._volumes.get(uri.full_name)
        of_output: dict[str, Any] = {}
        if volume is not None:
            of_output["outputStatistics"] = OutputStatisticsOutputDatasetFacet(
                rowCount=volume.rows, size=volume.size_bytes
            )
        return OutputDataset(namespace=self._namespace, name=uri.full_name, facets=facets, outputFacets=of_output)

    def column_lineage(
        self, statements: Sequence[str], database: str
    ) -> dict[TableUri, dict[str, list[tuple[TableUri, str]]]]:
        """Return the source columns of written columns, as a dict from table to a dict from column to sources."""
        from airflow_hivex.core.parser.inspection import column_lineage

        def uri_of(name: TableName) -> TableUri:
            return table_uri(self._hook.hivex_conn_id, name.namespace or name.database or database, name.name)

        def columns_of(name: TableName) -> list[str] | None:
            table = self._table(uri_of(name))
            return None if table is None else [column.name for column in (*table.columns, *table.partition_keys)]

        found = _known(lambda: column_lineage(";\n".join(statements), columns_of, database)) or ()
        return {
            uri_of(each.target): {
                name: [(uri_of(table), column) for table, column in sources] for name, sources in each.columns.items()
            }
            for each in found
        }

    def _facets(self, uri: TableUri) -> dict[str, Any]:
        from airflow.providers.common.compat.openlineage.facet import (
            Identifier,
            SchemaDatasetFacet,
            SchemaDatasetFacetFields,
            SymlinksDatasetFacet,
        )

        table = self._table(uri)
        if table is None:
            return {}
        columns = (*table.columns, *table.partition_keys)
        facets: dict[str, Any] = {
            "schema": SchemaDatasetFacet(
                fields=[SchemaDatasetFacetFields(name=column.name, type=column.type) for column in columns]
            )
        }
        if not table.is_view:
            place = table.storage.primary
            address = _known(lambda: self._hook.get_metastore().clusters.get(place.cluster).uri(place.location))
            facets["hivexCluster"] = _cluster_facet()(cluster=place.cluster)
            if address is not None:
                facets["symlinks"] = SymlinksDatasetFacet(
                    identifiers=[Identifier(namespace=place.cluster, name=str(address), type="LOCATION")]
                )
        return facets

    def _table(self, uri: TableUri) -> Table | None:
        if uri not in self._tables:
            catalog = self._hook.get_metastore().catalog
            self._tables[uri] = _known(lambda: catalog.get_table(uri.database, uri.table))
        return self._tables[uri]


def _known(look: Callable[[], Any]) -> Any:
    """Return the result of a call, or None after an error. Missing lineage must not fail the task."""
    try:
        return look()
    except HivexError as error:
        log.debug("A part of the lineage is not known: %s", error)
        return None


@cache
def _cluster_facet() -> Any:
    """Return the class of the facet that names the primary cluster of a table."""
    import attr
    from airflow.providers.common.compat.openlineage.facet import DatasetFacet

    @attr.define
    class HivexClusterDatasetFacet(DatasetFacet):
        cluster: str

        @staticmethod
        def _get_schema() -> str:
            return _SCHEMA_URL

    return HivexClusterDatasetFacet
