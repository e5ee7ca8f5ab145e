"""The endpoint: access to the warehouse for the calls of Hive's interface."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.commands.following_folders import move_back_folders
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.execution.context import Services, SessionState, StatementContext
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.locks import LockComponent, LockResponse, LockState, covers
from airflow_hivex.core.model.objects import StoredPartition, StoredTable
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.store.exchange import Call
from airflow_hivex.core.thrift.clients import Client, DatabaseName
from airflow_hivex.core.thrift.hive_objects import hive_partition, hive_table, linked_table
from airflow_hivex.core.thrift.messages import encoded
from airflow_hivex.core.transactions.beginning import Begun
from airflow_hivex.core.transactions.locks.manager import LockManager

log = logging.getLogger(__name__)


class Endpoint:
    """The objects that calls use: the metastore, the default cluster of clients, and a cache of encoded answers."""

    def __init__(
        self,
        metastore: Metastore,
        cluster: str | None = None,
        *,
        most_bytes: int = 64 << 20,
        lock_patience_s: float = 10,
    ) -> None:
        """Create the endpoint. ``cluster`` is the default cluster, for clients that do not name a cluster.

        The cached answers together have at most ``most_bytes``. A change waits at most ``lock_patience_s`` seconds for
        the locks that other clients hold.

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
    def catalog(self) -> ObjectStore:
        """Return the catalog."""
        return self.services.catalog

    def client(self, peer: str) -> Client:
        """Return a new client, for a new connection."""
        return Client(peer, self.cluster)

    def context(
        self,
        client: Client,
        name: DatabaseName | None = None,
        context: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> StatementContext:
        """Return the context with which a call uses the functions of SQL statements."""
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
        """Return the cluster that a client names, or None if the client names no cluster.

        Raises:
            UnknownClusterError: the cluster is not configured.
        """
        return None if cluster is None else self.services.clusters.get(cluster)

    def move_back_folders(self) -> None:
        """Move folders of tables back to the old names of the tables after a killed RENAME. An error is only logged."""
        try:
            move_back_folders(self.context(Client("the start of the endpoint", None)))
        except HivexError as error:
            log.warning("Folders of tables whose renames were killed may not be in their places: %s", error)

    # -- tables --------------------------------------------------------------------------

    def seen_on(self, table: StoredTable, cluster: str | None) -> Cluster | None:
        """Return the cluster whose copy of a table the client sees, or None for the table's primary.

        The cluster is ``cluster``, or else the default cluster if the default cluster has a copy of the table.
        """
        if cluster is not None:
            return self.services.clusters.get(cluster)
        default = self.services.clusters.default
        return self.services.clusters.get(default) if table.storage.on(default) else None

    def hive_table(self, table: StoredTable, given: str, cluster: str | None) -> Any:
        """Return a table as a structure of Hive's interface."""
        return hive_table(table, given, self.seen_on(table, cluster))

    def table_bytes(self, table: StoredTable, given: str, cluster: str | None) -> bytes:
        """Return a table as an encoded structure. The bytes are reused while the catalog's cache keeps the table."""
        key = (table.id, given, cluster)
        return self.wire.made(key, lambda: encoded(self.hive_table(table, given, cluster)), table)

    def kept_table(self, name: DatabaseName, table: str, ids: GivenList, cluster: str | None) -> StoredTable | None:
        """Return a table from the cache, or None if the database must be read. This method never waits."""
        if self._memory is None or not (ids is None or hasattr(ids, "high_watermark")):
            return None
        return self._memory.cache.definition((name.name, normalise(table)), ids, cluster)  # type: ignore[arg-type]

    def kept_partitions(self, name: DatabaseName, table: str, ids: GivenList) -> tuple[StoredTable, Any] | None:
        """Return a pair from the cache: a table and all its partitions. Return None if the database must be read."""
        if self._memory is None or not (ids is None or hasattr(ids, "high_watermark")):
            return None
        found = self._memory.cache.partitions((name.name, normalise(table)), ids)  # type: ignore[arg-type]
        return found if found is not None and found[1].is_complete else None

    # -- partitions ----------------------------------------------------------------------

    def partition_bytes(
        self, found: Sequence[StoredPartition], table: StoredTable, given: str, cluster: str | None
    ) -> list[bytes]:
        """Return partitions of a table as encoded structures, in the given order."""
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
        """Return (link, source table) for ``table@namespace``, or None if the name does not have this form.

        Raises:
            NoSuchLinkError: the namespace has no such link.
        """
        if "@" not in table:
            return None
        link = self.services.links.get(name.name, table)
        return link, self.services.links.source(link)

    def linked_table(self, link: Link, source: StoredTable, given: str, cluster: str | None) -> Any:
        """Return a link as a structure of Hive's interface: the source table with the name of the link."""
        return linked_table(link, source, given, self.seen_on(source, cluster))


_MOST_CLIENTS = 10_000
_MOST_OWNERS = 100


class LockOwners:
    """The users in whose names each client has requested locks.

    A lock's user can differ from the user of the connection. For example, Trino requests a lock in the name of the
    owner of a query. Connections with the same user count as one client.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[str, set[str]] = OrderedDict()
        self._guard = Lock()

    def owner_of(self, client: Client, given: str | None) -> str:
        """Return the user in whose name a client requests locks or transactions, and remember the user for the client.

        After a login, this is the user of the connection. Otherwise this is ``given``, or else the user of the
        connection.
        """
        owner = client.user if client.is_authenticated else given or client.user
        with self._guard:
            known = self._owners.setdefault(_key(client), set())
            self._owners.move_to_end(_key(client))
            if len(known) < _MOST_OWNERS:
                known.add(owner)
            if len(self._owners) > _MOST_CLIENTS:
                self._owners.popitem(last=False)
        return owner

    def known_of(self, client: Client) -> frozenset[str]:
        """Return the users in whose names the client has requested locks, and the user of its connection."""
        with self._guard:
            return frozenset({client.user, *self._owners.get(_key(client), ())} - {""})


def _key(client: Client) -> str:
    return client.user or f"\0{client.peer}"


class ClientLocks(LockManager):
    """A lock manager that acquires the locks for the changes of one call, except locks that the client already holds.

    A client of Hive locks an object by the call ``lock`` before it changes the object by another call. To lock the
    object again would mean to wait for the client itself. ``owners`` are the users in whose names the client has
    requested locks. A call waits at most ``patience_s`` seconds for the locks of other clients.
    """

    def __init__(self, services: Services, owners: Collection[str], patience_s: float) -> None:
        super().__init__(services.store, services.settings, services.clock, services.transactions)
        self._owners = owners
        self._patience_s = patience_s

    def acquire(self, components: Sequence[LockComponent], txn_id: int | None = None, **given: Any) -> LockResponse:
        """Acquire the locks that the client does not hold yet. See :meth:`LockManager.acquire`.

        Raises:
            LockTimeoutError: another client holds a conflicting lock.
        """
        needed = [each for each in components if not self._is_held(each)]
        if not needed:
            return LockResponse(0, LockState.ACQUIRED)
        return super().acquire(needed, txn_id, **{"timeout": self._patience_s, **given})

    def begin(
        self,
        components: Sequence[LockComponent],  # noqa: ARG002 - they are asked for by the call's own rules
        begun: Callable[[Begun], object],
        *,
        write_ids_of: Sequence[int] = (),  # noqa: ARG002 - they come after the locks
        also: Sequence[Call] = (),  # noqa: ARG002 - they come after the locks
        user: str = "",
        agent_info: str | None = None,
        timeout: int | None = None,
        type: TxnType = TxnType.DEFAULT,
        statement: str | None = None,
    ) -> Begun:
        """Open a transaction without locks.

        The caller must request the locks by :meth:`acquire`; see ``LockManager``.
        """
        (txn_id,) = self._transactions.open(
            user=user, agent_info=agent_info, timeout=timeout, type=type, statement=statement
        )
        opened = Begun(txn_id)
        begun(opened)
        return opened

    def _is_held(self, wanted: LockComponent) -> bool:
        return bool(self._owners) and any(
            each.user in self._owners and each.state is LockState.ACQUIRED and covers(each.component, wanted)
            for each in self.show(wanted.database)
        )


# The encoded bytes of tables and partitions, kept next to the cache of metadata.
#
# The cache returns the same object as long as nothing has changed, so bytes belong to an object, not to a name: they
# need no rule of their own for when they are old.


class WireBytes:
    """A cache of encoded answers. Each entry is valid only as long as the catalog's cache has the same objects.

    When the cache is full, the oldest entries are dropped. Several threads can use one cache.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, tuple[tuple[Any, ...], Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, *objects: Any) -> Any | None:
        """Return the value of a key, or None if the cache has no value that was made from exactly these objects."""
        found = self._kept.get(key)
        if found is None:
            return None
        for one, other in zip(found[0], objects, strict=True):
            if one is not other:
                return None
        return found[1]

    def keep(self, key: Hashable, value: Any, size: int, *objects: Any) -> None:
        """Store a value of ``size`` bytes that was made from these objects."""
        if size > self._most_bytes // 4:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = (objects, value, size)
            self.used_bytes += size
            while self.used_bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def made(self, key: Hashable, make: Callable[[], bytes], *objects: Any) -> bytes:
        """Return the value of a key for these objects. If the value is missing, call ``make`` and store the result."""
        found: bytes | None = self.of(key, *objects)
        if found is None:
            found = make()
            self.keep(key, found, len(found) + _OF_ENTRY, *objects)
        return found

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.used_bytes -= found[2]


_OF_ENTRY = 400
"""The estimated size in bytes of a cache entry without its value."""
