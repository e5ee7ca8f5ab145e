"""URIs of tables, ``hivex://connection/database/table``, and of links, ``hivex://connection/database/table@namespace``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.identifiers import check_name, normalise

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.providers.common.compat.openlineage.facet import Dataset as OpenLineageDataset
    from airflow.sdk import Asset, AssetAlias

SCHEME = "hivex"
FORM = "hivex://connection/database/table"


class TableUri(NamedTuple):
    """The connection, database and table that a table's URI names, with names in lower case.

    For a link, ``table`` is ``table@namespace``.
    """

    hivex_conn_id: str
    database: str
    table: str

    def __str__(self) -> str:
        return f"{SCHEME}://{self.hivex_conn_id}/{self.database}/{self.table}"

    @property
    def full_name(self) -> str:
        """Return ``database.table``, or ``database.table@namespace``."""
        return f"{self.database}.{self.table}"

    @property
    def is_link(self) -> bool:
        """Return whether the URI names a link."""
        return "@" in self.table

    @property
    def source_name(self) -> str:
        """Return ``database.table`` of the stored table: the table itself or, for a link, its source table."""
        table, _, namespace = self.table.partition("@")
        return f"{namespace or self.database}.{table}"


def table_uri(hivex_conn_id: str, database: str, table: str) -> TableUri:
    """Return the URI of a table, or of a link such as ``table@namespace``."""
    return TableUri(hivex_conn_id, normalise(database), normalise(table))


def parse_uri(uri: str) -> TableUri:
    """Return the connection, database and table that a URI names.

    :raises ValueError: the text is not a valid URI of a table
    """
    return _parts(urlsplit(uri))


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return a URI in the form in which Airflow compares assets, with names of databases and tables in lower case.

    :raises ValueError: the URI is not a valid URI of a table
    """
    parts = _parts(uri)
    return uri._replace(path=f"/{parts.database}/{parts.table}")


def create_asset(
    *,
    table: str,
    database: str = "default",
    hivex_conn_id: str = "hivex_default",
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset of a table or link. Its name is its URI.

    :param table: ``table`` or ``database.table``; for a link ``table@namespace`` or ``database.table@namespace``
    :param database: the database, if ``table`` does not name it
    :param hivex_conn_id: the connection of type ``hivex``
    :param extra: the extra of the asset
    """
    from airflow.sdk import Asset

    first, _, second = table.rpartition(".")
    uri = str(parse_uri(str(table_uri(hivex_conn_id, first or database, second))))
    return Asset(name=uri, uri=uri, extra=extra)


def alias_of_task(dag_id: str, task_id: str) -> AssetAlias:
    """Return the alias of a task. Its assets are the tables and links that the task has changed."""
    from airflow.sdk import AssetAlias

    return AssetAlias(f"hivex.{dag_id}.{task_id}")


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> OpenLineageDataset:  # noqa: ARG001
    """Return the dataset of OpenLineage for an asset: namespace ``hivex://connection``, name ``database.table``.

    For a link, return the dataset of the link's source table.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = parse_uri(str(asset.uri))
    return Dataset(namespace=f"{SCHEME}://{uri.hivex_conn_id}", name=uri.source_name)


def _parts(uri: SplitResult) -> TableUri:
    segments = uri.path.removeprefix("/").split("/")
    if not uri.netloc or "@" in uri.netloc or uri.query or len(segments) != 2:
        raise ValueError(f"{uri.geturl()} is not a valid URI of a table. Write {FORM}.")
    name, at, namespace = segments[1].partition("@")
    try:
        database, table = check_name("database", segments[0]), check_name("table", name)
        if at:
            table = f"{table}@{check_name('namespace', namespace)}"
    except InvalidObjectError as error:
        raise ValueError(f"{uri.geturl()} is not a valid URI of a table: {error}") from None
    return TableUri(uri.netloc, database, table)
