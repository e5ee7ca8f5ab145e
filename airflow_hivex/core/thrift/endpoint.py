"""The endpoint: the warehouse as the calls of Hive's interface see it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.raw_store import RawStore
from airflow_hivex.core.commands.following_folders import move_back_folders
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.execution.context import SessionState, StatementContext
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import StoredPartition, StoredTable
from airflow_hivex.core.thrift.client_locks import ClientLocks, LockOwners
from airflow_hivex.core.thrift.clients import Client, DatabaseName
from airflow_hivex.core.thrift.hive_objects import hive_partition, hive_table, linked_table
from airflow_hivex.core.thrift.messages import encoded
from airflow_hivex.core.thrift.wire_bytes import WireBytes

log = logging.getLogger(__name__)


class Endpoint:
    """The warehouse of the calls: the metastore, the cluster of clients that name none, and kept bytes of answers."""

    def __init__(
        self,
        metastore: Metastore,
        cluster: str | None = None,
        *,
        most_bytes: int = 64 << 20,
        lock_patience_s: float = 10,
    ) -> None:
        """``cluster`` is the view of clients that name none; ``most_bytes`` limits the kept answers.

        A change waits ``lock_patience_s`` seconds at most for locks of others.

        Raises:
            UnknownClusterError: the cluster is not configured.
        """
        if cluster is not None:
            metastore.clusters.get(cluster)
        self.metastore = metastore
        self.services = metastore.services
        self.cluster = cluster
        self._lock_patience_s = lock_patience_s
        self.owners = LockOwners()
        self.wire = WireBytes(most_bytes)
        self._memory = metastore.services.catalog if isinstance(metastore.services.catalog, CachedStore) else None

    @property
    def catalog(self) -> RawStore:
        """Return the catalog."""
        return self.services.catalog

    def client(self, peer: str) -> Client:
        """Return the state of a new connection."""
        return Client(peer, self.cluster)

    def context(
        self,
        client: Client,
        name: DatabaseName | None = None,
        context: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> StatementContext:
        """Return the context of a statement that makes the change of a call."""
        database = name.name if name is not None and name.name else "default"
        state = SessionState(
            owner or client.user or "hive",
            database,
            client.cluster(name, context),
            agent_info=f"Hive Metastore endpoint, {client.peer}",
        )
        locks = ClientLocks(self.services, self.owners.known_of(client), self._lock_patience_s)
        return StatementContext(replace(self.services, locks=locks), state)

    def described(self, cluster: str | None) -> Cluster | None:
        """Return the cluster whose location a client sees, None for the choice of each table.

        Raises:
            UnknownClusterError: it is not configured.
        """
        return None if cluster is None else self.services.clusters.get(cluster)

    def move_back_folders(self) -> None:
        """Move the folders of tables back whose renames were killed. The database that does not answer is logged."""
        try:
            move_back_folders(self.context(Client("the start of the endpoint", None)))
        except HivexError as error:
            log.warning("Folders of tables whose renames were killed may not be in their places: %s", error)

    # -- tables --------------------------------------------------------------------------

    def seen_on(self, table: StoredTable, cluster: str | None) -> Cluster | None:
        """Return the cluster whose copy of a table the client sees: its own, else the default one, else the primary."""
        if cluster is not None:
            return self.services.clusters.get(cluster)
        default = self.services.clusters.default
        return self.services.clusters.get(default) if table.storage.on(default) else None

    def hive_table(self, table: StoredTable, given: str, cluster: str | None) -> Any:
        """Return the structure of a table."""
        return hive_table(table, given, self.seen_on(table, cluster))

    def table_bytes(self, table: StoredTable, given: str, cluster: str | None) -> bytes:
        """Return the bytes of a table, kept as long as the cache returns this very object."""
        key = (table.id, given, cluster)
        return self.wire.made(key, lambda: encoded(self.hive_table(table, given, cluster)), table)

    def kept_table(self, name: DatabaseName, table: str, ids: GivenList, cluster: str | None) -> StoredTable | None:
        """Return a table from memory, None where the database must be asked. Never waits."""
        if self._memory is None or not (ids is None or hasattr(ids, "high_watermark")):
            return None
        return self._memory.cache.definition((name.name, normalise(table)), ids, cluster)  # type: ignore[arg-type]

    def kept_partitions(self, name: DatabaseName, table: str, ids: GivenList) -> tuple[StoredTable, Any] | None:
        """Return a table with all of its partitions from memory, None where the database must be asked."""
        if self._memory is None or not (ids is None or hasattr(ids, "high_watermark")):
            return None
        found = self._memory.cache.partitions((name.name, normalise(table)), ids)  # type: ignore[arg-type]
        return found if found is not None and found[1].is_complete else None

    # -- partitions ----------------------------------------------------------------------

    def partition_bytes(
        self, found: Sequence[StoredPartition], table: StoredTable, given: str, cluster: str | None
    ) -> list[bytes]:
        """Return the bytes of partitions of a table, in their order."""
        like = None
        answers = []
        of = self.wire.of
        for each in found:
            key = (table.id, each.id, given, cluster)
            kept = of(key, each, table)
            if kept is None:
                if like is None:
                    like = self.hive_table(table, given, cluster)
                kept = encoded(hive_partition(each, given, like))
                self.wire.keep(key, kept, len(kept) + 300, each, table)
            answers.append(kept)
        return answers

    # -- links ---------------------------------------------------------------------------

    def link(self, name: DatabaseName, table: str) -> tuple[Link, StoredTable] | None:
        """Return a link of the form ``table@namespace`` with its source, None for the name of a table.

        Raises:
            NoSuchLinkError: the namespace has no such link.
        """
        if "@" not in table:
            return None
        link = self.services.links.get(name.name, table)
        return link, self.services.links.source(link)

    def linked_table(self, link: Link, source: StoredTable, given: str, cluster: str | None) -> Any:
        """Return the structure of a link: its source under the link's name."""
        return linked_table(link, source, given, self.seen_on(source, cluster))
