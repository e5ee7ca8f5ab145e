"""The withdrawal of copies without waiting for their readers: of no use to new queries, and their files deleted later.

A withdrawn copy serves no new query. The housekeeping deletes its files when each transaction has ended that was open
at the withdrawal, and no DataFrame can read them any more.
"""

from __future__ import annotations

import getpass

from sqlalchemy import Connection, insert, select

from airflow_hivex.core.catalog import copies
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.table_events import record_table_event
from airflow_hivex.core.catalog.tables import lock_for_change, raise_versions, select_tables_by_id
from airflow_hivex.core.errors import NoSuchObjectError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.replication.running import ReplicationTransactions, this_process
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import copy_places, counters

_HIGHEST_TXN = select(counters.c.value).where(counters.c.name == "txn").scalar_subquery()


class CopyWithdrawal:
    """Withdraws copies of tables on clusters. Safe to share between threads and processes."""

    def __init__(self, services: Foundation) -> None:
        self._services = services
        self._running = ReplicationTransactions(services)

    def withdraw(self, table_id: int, cluster: str, agent_info: str) -> bool:
        """Withdraw the copy of a table on a cluster; return False if a replication to the cluster is running.

        A table that was dropped, or whose primary cluster it is, stays as it is. Safe to repeat after any end.

        Raises:
            RootMissingError, ForeignRootError, StorageError: the files on the cluster cannot be listed.
        """
        table = self._table(table_id)
        if table is None or table.storage.primary.cluster == cluster:
            return True
        self._services.roots.check(cluster)
        with self._running.open(getpass.getuser(), agent_info) as running:
            if not self._running.try_lock(running, [(table.database, table.id)], cluster):
                self._running.give_up(running, "a replication is running")
                return False
            name = (table.database, table.name)
            try:
                snapshot = self._services.catalog.snapshot([name])
            except NoSuchObjectError:
                self._running.give_up(running, "the table was dropped or renamed")
                return self._table(table_id) is None
            current = snapshot.tables[name]
            if current.id != table_id or current.storage.primary.cluster == cluster:
                self._running.give_up(running, "the table has changed")
                return False
            contents = self._services.catalog.contents(snapshot, current, None, [cluster])
            rows = [] if current.is_external else self._places(current, contents, cluster, running.txn_id)
            self._running.commit(running, lambda connection: self._forget(connection, current, cluster, rows))
        return True

    def _table(self, table_id: int) -> StoredTable | None:
        with self._services.store.read() as connection:
            return next(iter(select_tables_by_id(connection, [table_id])), None)

    def _places(
        self, table: StoredTable, contents: TableContents, cluster: str, txn_id: int
    ) -> list[dict[str, object]]:
        """Return the rows of the places that the copy takes; lists each of its directories."""
        files = self._services.files(cluster)
        held = contents.held.get(cluster, frozenset())
        rows: list[dict[str, object]] = []
        for partition_id, location in contents.locations.get(cluster, {}).items():
            for each in contents.directories.get(partition_id, ()):
                if each.id not in held:
                    continue
                place = f"{location}/{each.name}"
                rows.append(
                    {
                        "table_id": table.id,
                        "cluster": cluster,
                        "location": place,
                        "directory_id": each.id,
                        "files": sorted(name for name, _ in files.walk(place)),
                        "txn_id": txn_id,
                        "process": this_process(),
                        "noted_ms": self._services.clock(),
                        "is_complete": True,
                        "unused_ms": self._services.clock(),
                    }
                )
        return rows

    def _forget(self, connection: Connection, table: StoredTable, cluster: str, rows: list[dict[str, object]]) -> None:
        if not lock_for_change(connection, [table.id]):
            return
        copies.drop_all_copies(connection, table, cluster)
        for batch in batches(rows):
            connection.execute(insert(copy_places).values(unused_txn_id=_HIGHEST_TXN), batch)
        raise_versions(connection, [table.id])
        message = {"cluster": cluster, "partitions": None}
        record_table_event(connection, self._services.clock(), EventType.UNREGISTER_COPY, table, None, None, message)
