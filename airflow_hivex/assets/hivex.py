"""URIs of tables: ``hivex://connection/database/table``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.identifiers import check_name, normalise

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.providers.common.compat.openlineage.facet import Dataset as OpenLineageDataset
    from airflow.sdk import Asset

SCHEME = "hivex"
FORM = "hivex://connection/database/table"


class TableUri(NamedTuple):
    """The parts of a table's URI; names are in the form in which they are compared."""

    hivex_conn_id: str
    database: str
    table: str

    def __str__(self) -> str:
        return f"{SCHEME}://{self.hivex_conn_id}/{self.database}/{self.table}"

    @property
    def full_name(self) -> str:
        """Return ``database.table``."""
        return f"{self.database}.{self.table}"


def table_uri(hivex_conn_id: str, database: str, table: str) -> TableUri:
    """Return the URI of a table."""
    return TableUri(hivex_conn_id, normalise(database), normalise(table))


def parse_uri(uri: str) -> TableUri:
    """Return the parts of the URI of a table.

    :raises ValueError: it is not such a URI
    """
    return _parts(urlsplit(uri))


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return a URI in the form in which Airflow compares assets: names of databases and tables in lower case.

    :raises ValueError: it is not the URI of a table
    """
    parts = _parts(uri)
    return uri._replace(path=f"/{parts.database}/{parts.table}")


def create_asset(
    *,
    table: str,
    database: str = "default",
    hivex_conn_id: str = "hivex_default",
    name: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset of a table.

    :param table: ``table`` or ``database.table``
    :param database: the database of a table that is named without one
    :param hivex_conn_id: the connection of type ``hivex``
    :param name: the asset's name; its URI by default
    :param extra: its extra
    """
    from airflow.sdk import Asset

    first, _, second = table.rpartition(".")
    uri = str(parse_uri(str(table_uri(hivex_conn_id, first or database, second))))
    return Asset(name=name or uri, uri=uri, extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> OpenLineageDataset:  # noqa: ARG001
    """Return the dataset of OpenLineage for an asset: namespace ``hivex://connection``, name ``database.table``."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = parse_uri(str(asset.uri))
    return Dataset(namespace=f"{SCHEME}://{uri.hivex_conn_id}", name=uri.full_name)


def _parts(uri: SplitResult) -> TableUri:
    segments = uri.path.removeprefix("/").split("/")
    if not uri.netloc or "@" in uri.netloc or uri.query or len(segments) != 2:
        raise ValueError(f"{uri.geturl()} is not a valid URI of a table. Write {FORM}.")
    try:
        database, table = check_name("database", segments[0]), check_name("table", segments[1])
    except InvalidObjectError as error:
        raise ValueError(f"{uri.geturl()} is not a valid URI of a table: {error}") from None
    return TableUri(uri.netloc, database, table)
