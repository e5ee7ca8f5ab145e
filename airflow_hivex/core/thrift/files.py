"""Makes and deletes directories of tables and partitions, since clients of Hive leave this to the metastore."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from airflow_hivex.core.catalog.table_rows import sharer_of
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import PURGE, StoredTable
from airflow_hivex.core.thrift.endpoint import Endpoint

log = logging.getLogger(__name__)


def make_directories(endpoint: Endpoint, cluster: Cluster, locations: Sequence[str]) -> None:
    """Make directories on a cluster.

    A failure is only logged, because clients also make the directories that they need.
    """
    if not locations:
        return
    try:
        files = endpoint.services.files_to_change(cluster)
        for location in locations:
            files.make_directory(location)
    except HivexError as error:
        log.warning("Directories of cluster %s were not made, such as %s: %s", cluster.name, locations[0], error)


def owns_files(table: StoredTable) -> bool:
    """Return whether a drop of an external table deletes its files. Source: Hive's ``external.table.purge``."""
    return table.is_external and table.parameters.get(PURGE, "").lower() == "true"


def delete_directory(endpoint: Endpoint, table: StoredTable, location: str, *, is_partition: bool = False) -> None:
    """Delete the directory of a dropped table, or of a dropped partition of a table.

    The directory stays if another table or partition also uses the directory. A failure to delete is only logged.
    """
    cluster = table.storage.primary.cluster
    try:
        found = endpoint.services.clusters.get(cluster)
        relative = found.relative(location)
        if not relative:
            return
        with endpoint.services.store.read() as connection:
            sharer = sharer_of(connection, table, relative, is_partition=is_partition)
        if sharer is not None:
            log.warning("Directory %s of cluster %s stays: it is shared with %s", location, cluster, sharer)
            return
        endpoint.services.files_to_change(found).delete_directory(relative)
    except HivexError as error:
        log.warning("Directory %s of cluster %s is still there: %s", location, cluster, error)


def drop_owned_files(endpoint: Endpoint, tables: Sequence[StoredTable]) -> None:
    """Delete the files of the dropped tables for which :func:`owns_files` is true."""
    for table in tables:
        if owns_files(table):
            delete_directory(endpoint, table, table.storage.primary.location)
