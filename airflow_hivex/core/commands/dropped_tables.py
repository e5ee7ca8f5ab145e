"""The files of dropped or replaced tables whose statements were killed after their commits."""

from __future__ import annotations

import logging

from airflow_hivex.core.catalog.directories import forget_tables
from airflow_hivex.core.catalog.tables import read_dropped
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.execution.context import Services

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 100
_KEPT_MS = 10 * 86_400_000
"""The time for which the row of a dropped table stays, so that the process that dropped it can delete the files."""


def delete_left(services: Services) -> int:
    """Delete the folders of dropped tables on their primary clusters; return the number of folders that existed."""
    before_ms = services.clock() - _KEPT_MS
    count = after = 0
    while True:
        with services.store.read() as connection:
            found = read_dropped(connection, after, _MOST_AT_ONCE)
        if not found:
            return count
        old = []
        for table in found:
            try:
                files = services.files_to_change(services.clusters.get(table.cluster))
                count += files.exists(table.location)
                files.delete_directory(table.location)
            except HivexError as error:
                log.warning("Files of the dropped table %s are still there: %s", table.name, error)
            else:
                old += [table.id] if table.dropped_ms < before_ms else []
        if old:
            services.store.write(lambda connection, ids=old: forget_tables(connection, ids))  # type: ignore[misc]
        after = found[-1].id
