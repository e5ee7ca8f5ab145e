"""Metastore: opens the warehouse and wires its parts; the one object that users hold."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.follower import RegisteredCache, registered_caches
from airflow_hivex.core.cache.metadata_cache import MetadataCache
from airflow_hivex.core.catalog.commits import Commits
from airflow_hivex.core.catalog.listing import CatalogListing
from airflow_hivex.core.catalog.pending_registration import register_pending_writes
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.commands import partitions, tables, temporary_tables, transactions
from airflow_hivex.core.compaction.compactor import Compactor
from airflow_hivex.core.compaction.history import CompactionListing
from airflow_hivex.core.doctor.doctor import Doctor
from airflow_hivex.core.errors import HivexError, StoreMissingError
from airflow_hivex.core.events.notification_log import NotificationLog, PartitionEvents
from airflow_hivex.core.execution import pending
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.imports.hive_client import HiveMetastoreClient, HiveTransport
from airflow_hivex.core.imports.importer import HiveImporter, Progress
from airflow_hivex.core.imports.namespaces import NamespaceImporter
from airflow_hivex.core.imports.writing import ImportedObject
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.locks import StatementLocks
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.namespaces.capacity import Capacities
from airflow_hivex.core.namespaces.closure import NamedStatement
from airflow_hivex.core.namespaces.homes import NamespaceHomes
from airflow_hivex.core.namespaces.links import Links
from airflow_hivex.core.namespaces.namespaces import Namespaces
from airflow_hivex.core.opening import (
    Check,
    ClusterProperties,
    check_clusters,
    check_database,
    open_catalog,
    open_clusters,
    with_environment,
)
from airflow_hivex.core.preflight import ExpectedRoute, Preflight
from airflow_hivex.core.replication.namespace_moves import NamespaceMoves
from airflow_hivex.core.replication.primary import PrimaryClusters
from airflow_hivex.core.replication.replicator import Replicator
from airflow_hivex.core.replication.running import ReplicationTransactions
from airflow_hivex.core.session import Session
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import DatabaseClock, Store
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.listing import TransactionListing
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.shared_settings import agree

log = logging.getLogger(__name__)


class Metastore:
    """An open warehouse: its catalog, its transactions, and sessions on it.

    Safe to share between threads. Close it, or use it as a context manager.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        """The parts that the warehouse is made of, for tools that need more than this class has."""
        self.settings = services.settings
        self.clusters = services.clusters
        self.catalog = services.catalog
        self.cache: MetadataCache | None = None
        """The cache of metadata, None without one (``metastore.rawstore.impl``)."""
        if isinstance(services.catalog, CachedStore):
            self.cache = MetadataCache(services.store, services.settings, services.clock, services.catalog)
            services.transactions.when_committed = services.catalog.keep_written
        self.transactions = services.transactions
        self.commits = Commits(services.store, services.clock, services.transactions)
        self.notification_log = NotificationLog(services.store)
        self.partition_events = PartitionEvents(services.store, services.clock)
        """The marks of partitions that clients of the Hive Metastore endpoint set and ask for."""
        self.locks = services.locks
        self.compactor = services.compactor
        self.doctor = Doctor(services)
        self.replicator = services.replicator
        self.links = services.links
        self.namespaces = services.namespaces
        self.homes = NamespaceHomes(services.store, services.clock)
        self.primaries = services.primaries
        self.capacity = services.capacity
        self.moves = services.moves
        self.catalog_listing = CatalogListing(services.store)
        """Pages of long lists for people, as are the next two."""
        self.transaction_listing = TransactionListing(services.store, services.clock)
        self.compaction_listing = CompactionListing(services)
        self.housekeeper = Housekeeper(
            services.store,
            services.settings,
            services.clock,
            services.transactions,
            services.locks,
            delete_abandoned=partial(pending.delete_abandoned, services),
            keep_compactions=services.compactor.housekeep,
            clean_copies=lambda most_s: services.moves.clean(most_s) + services.replicator.clean(most_s),
            expire_links=services.links.expire,
            record_capacity=services.capacity.record,
            drop_temporary_tables=partial(temporary_tables.drop_unused, services),
            delete_dropped=lambda: tables.delete_dropped(services) + partitions.delete_left(services),
        )
        # A waiter settles what a dead holder has left, even where no housekeeping is scheduled.
        services.locks.waiter.while_waiting = self._housekeep

    def note_restore(self) -> None:
        """Note that the database was restored from a backup: call it before anything else uses the restored one.

        Caches of all processes are emptied, and readers of the notification log get ``EventsPurgedError``. Safe to
        repeat.
        """
        self.notification_log.note_restore()

    def _housekeep(self) -> None:
        try:
            self.housekeeper.run(only_due=True)
        except HivexError as error:
            # A failed housekeeping must not fail the statement that waits.
            log.warning("The housekeeping was not done while a lock is waited for: %s", error)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clusters: ClusterProperties | None = None,
        default_cluster: str | None = None,
        settings: Mapping[str, object] | None = None,
        clock: Clock | None = None,
        fault: Callable[[str], None] | None = None,
    ) -> Self:
        """Return the warehouse whose metadata is in the database at ``url``; an empty database is made one.

        Args:
            url: ``sqlite:////path/to/metastore.db`` or ``postgresql://user@host/database``.
            clusters: ``hive.cluster.properties``: a mapping, JSON text, or a file with it. With a
                SQLite database it may be left out: one local cluster next to the file then holds all data.
            default_cluster: ``hive.default.cluster.name``; may be left out when there is one cluster.
            settings: any ``hive.*`` parameters by Hive's names.
            clock: the current time in milliseconds since the epoch; by default the database's.
            fault: for tests: called at named points, such as "before commit" and "while waiting".

        Raises:
            SettingsError: a parameter or a cluster's description is not usable, or ``hive.txn.timeout``
                is not the one that the metastore's other clients have.
            StoreTooOldError, StoreTooNewError: the database has the schema of another release.
            StoreUnavailableError: the database cannot be reached.
        """
        checked = with_environment(Settings(settings or {}))
        store = Store(url, fault)
        clock = clock or DatabaseClock(store)
        try:
            configured = open_clusters(store, checked, clusters, default_cluster)
            migrating.prepare(store)
            checked = agree(store, checked)
            catalog = open_catalog(store, checked, configured, clock)
        except BaseException:
            store.close()
            raise
        transactions = TransactionManager(store, checked, clock, partial(register_pending_writes, catalog))
        locks = LockManager(store, checked, clock, transactions)
        roots = Roots(store, configured, clock)
        health = ClusterHealth(configured, roots)
        foundation = Foundation(store, checked, clock, configured, roots, health, catalog, transactions, locks)
        replicator = Replicator(foundation)
        services = Services(
            **vars(foundation),
            statement_locks=StatementLocks(checked),
            compactor=Compactor(foundation),
            replicator=replicator,
            links=Links(store, clock),
            namespaces=Namespaces(store, configured),
            primaries=PrimaryClusters(foundation, replicator),
            capacity=Capacities(store, configured, clock),
            moves=NamespaceMoves(foundation, replicator),
        )
        return cls(services)

    @staticmethod
    def upgrade(url: str) -> dict[str, str | None]:
        """Bring the schema of the database at ``url`` to this release's; return the revisions before and after."""
        store = Store(url)
        try:
            before = migrating.upgrade(store)
        finally:
            store.close()
        return {"url": store.name, "before": before.found, "revision": before.head, "state": "current"}

    @staticmethod
    def check(
        url: str,
        *,
        clusters: ClusterProperties | None = None,
        default_cluster: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> list[Check]:
        """Check the database and each cluster that :meth:`open` would get. The database is only read.

        In the root of each cluster that exists a small file is written and deleted again.

        Raises:
            SettingsError: a parameter, the URL or a cluster's description is not usable.
            StoreUnavailableError: the place of the database file cannot hold one.
        """
        checked = with_environment(Settings(settings or {}))
        store = Store(url, create=False)
        try:
            configured = open_clusters(store, checked, clusters, default_cluster)
            return [check_database(store), *check_clusters(configured)]
        finally:
            store.close()

    @staticmethod
    def status(url: str) -> dict[str, str | None]:
        """Return the state of the schema of the database at ``url``: ``state`` is new, current, older or newer.

        Reads only.

        Raises:
            NotAMetastoreError: the database holds something else.
            StoreUnavailableError: it cannot be reached.
        """
        store = Store(url, create=False)
        try:
            found = migrating.status(store)
        finally:
            store.close()
        return {"url": store.name, "revision": found.found, "head": found.head, "state": found.state}

    @staticmethod
    def check_exists(url: str) -> None:
        """Ensure that there is a metastore in the database at ``url``, which :meth:`open` would create. Reads only.

        Raises:
            StoreMissingError: the database has no metastore yet.
            NotAMetastoreError: the database holds something else.
            StoreUnavailableError: it cannot be reached.
        """
        found = Metastore.status(url)
        if found["state"] == "new":
            raise StoreMissingError(str(found["url"]))

    def session(
        self,
        user: str | None = None,
        database: str = DEFAULT_DATABASE,
        cluster: str | None = None,
        agent_info: str | None = None,
        txn_id: int | None = None,
        writer: str | None = None,
        progress: ProgressReport | None = None,
        max_lag: float | str | None = None,
        max_lag_commits: int | str | None = None,
        server_jobs_only: bool = False,
    ) -> Session:
        """Return a session of ``user`` (by default, of the operating system's).

        Args:
            user: who owns its transactions and what it creates.
            database: the current database.
            cluster: the cluster to pin, as USE CLUSTER does.
            agent_info: a text for people that names the owner of a transaction: a DAG run and task, for example.
            txn_id: an open transaction, of whatever process, that all statements of the session are
                part of: they share its snapshot and see what it has written. The session does not end it.
            writer: the name of the part of that transaction's work that the session does. What an
                earlier session of the same name has written in it is discarded now, so that a part
                can be repeated.
            progress: called each second with the progress of a job that takes longer than three seconds, from
                another thread; without, the progress goes to the log every few seconds.
            max_lag: the lag of copies that its queries accept, in seconds or as a text such as ``10min``; see
                ``hivex.replica.max.lag``.
            max_lag_commits: the number of commits that such copies may lack.
            server_jobs_only: a statement that would run its job in this process is refused (``InProcessJobError``).

        Raises:
            NoSuchDatabaseError, UnknownClusterError: it cannot begin there.
            NoSuchTransactionError, TransactionAbortedError, TransactionCommittedError: ``txn_id`` is not open.
            InvalidSettingError: a lag is not valid.
        """
        return Session(
            self.services,
            user=user or getpass.getuser(),
            database=database,
            cluster=cluster,
            agent_info=agent_info,
            txn_id=txn_id,
            writer=writer or "",
            progress=progress,
            max_lag=max_lag,
            max_lag_commits=max_lag_commits,
            server_jobs_only=server_jobs_only,
        )

    def commit(self, txn_id: int) -> None:
        """Commit a transaction with all that the sessions that joined it have written; twice is a no-op.

        Raises:
            WriteConflictError: another transaction has updated the same rows before; this one is aborted.
            TransactionAbortedError: it was aborted; nothing of it is or becomes visible.
            NoSuchTransactionError: no transaction has that id.
            CommitOutcomeUnknownError: the database was lost; look the transaction up by its id.
        """
        transactions.commit_transaction(self.services, txn_id)

    def abort(self, txn_id: int, reason: str | None = None) -> None:
        """Abort a transaction and delete what the sessions that joined it have written; twice is a no-op.

        Raises:
            TransactionCommittedError: it has committed.
            NoSuchTransactionError: no transaction has that id.
        """
        transactions.abort_transaction(self.services, txn_id, reason)

    def preflight(
        self, statements: Iterable[NamedStatement], *, namespace: str = DEFAULT_DATABASE, user: str | None = None
    ) -> list[ExpectedRoute]:
        """Return the route that each statement would take now, or why it would be refused; no statement is run.

        The statements are in the order of their runs. They run in ``namespace`` unless they name another one.
        """

        def open_session(database: str, cluster: str | None) -> Session:
            return self.session(user=user, database=database, cluster=cluster)

        return Preflight(open_session, namespace).check(statements)

    def registered_caches(self) -> list[RegisteredCache]:
        """Return the caches of metadata of all processes that follow the notification log. One round trip."""
        return registered_caches(self.services.store)

    def accept_root(self, cluster: str) -> int:
        """Take the root of a cluster's file system as it is now, after the one that was there is lost or replaced.

        Returns how many directories are registered there; :attr:`doctor` reports the missing ones.

        Raises:
            UnknownClusterError: the cluster is not configured.
            StorageError: the file system cannot be written.
        """
        return self.services.roots.accept(cluster)

    def import_from_hive(
        self,
        address: str,
        *,
        cluster: str | None = None,
        databases: str | None = None,
        tables: str | None = None,
        dry_run: bool = False,
        user: str | None = None,
        timeout_s: float = 60,
        transport: HiveTransport | None = None,
        progress: Progress | None = None,
    ) -> Iterator[ImportedObject]:
        """Import the databases, tables and views of a Hive metastore; yield the result for each as it is certain.

        What is there already is compared and left as it is, so that an import may be repeated. Files stay where they
        are. Each table is imported with all that belongs to it, or not at all.

        Args:
            address: ``thrift://host:port``, or several with commas between them, which are tried in this order.
            cluster: the cluster whose file system has the files; by default the default cluster (M7).
            databases: a pattern of names, in which ``*`` stands for any characters and ``|`` for or.
            tables: such a pattern for tables and views.
            dry_run: return what an import would write, and write nothing.
            user: the name for Hive and for our transactions, by default that of the operating system.
            timeout_s: how long Hive may take for an answer.
            transport: TLS and framed transport, where the metastore has them.
            progress: is called with an object's name and the number of its partitions that were read since the last
                call.

        Raises:
            UnknownClusterError: the cluster is not configured.
            InvalidHiveAddressError, InvalidSettingError, HiveClientMissingError: Hive cannot be asked.
            HiveUnavailableError, HiveProtocolError: it does not answer, or not as a Hive metastore does.
        """
        target = self.clusters.get(cluster or self.clusters.default)
        user = user or getpass.getuser()
        client = HiveMetastoreClient(address, user=user, timeout_s=timeout_s, transport=transport or HiveTransport())
        importer = HiveImporter(self.services, client, target, user=user, dry_run=dry_run, progress=progress)

        def results() -> Iterator[ImportedObject]:
            with client:
                yield from importer.run(databases, tables)

        return results()

    def import_namespace(
        self,
        source: Metastore,
        namespace: str,
        *,
        tables: str | None = None,
        into: str | None = None,
        cluster: str | None = None,
        dry_run: bool = False,
        user: str | None = None,
        threads: int = 8,
        progress: Callable[[CopyProgress], object] | None = None,
    ) -> list[ImportedObject]:
        """Import the tables and views of a namespace of another metastore; return the result for each object.

        The rows are those of one snapshot of the source. Files are copied and verified, and all objects appear at once.
        A killed import leaves no table, and the next one goes on with the files that it has copied.

        Args:
            source: the other metastore. Its clusters must be reachable from here.
            namespace: its name there.
            tables: a pattern of tables and views, in which ``*`` stands for any characters and ``|`` for or.
            into: the name of the namespace here, by default the same.
            cluster: the cluster that gets the files, by default the default cluster.
            dry_run: return what an import would write, and write nothing.
            user: the name for the transactions, by default that of the operating system.
            threads: how many files are copied at once.
            progress: called every few seconds, in this thread.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchDatabaseError: the source has no such namespace.
            CopyAlteredError: files of the source are not as they are registered, or a copy differs.
            InvalidOperationError: files of others lie where a table would, or the pattern matches nothing.
            QuotaExceededError: the namespace would hold more than its quota on the cluster.
        """
        target = self.clusters.get(cluster or self.clusters.default)
        from_services = source.services
        transactions = ReplicationTransactions(from_services)
        importer = NamespaceImporter(
            self.services,
            from_services,
            transactions,
            target,
            user=user or getpass.getuser(),
            threads=threads,
            progress=progress,
        )
        return importer.run(namespace, tables=tables, into=into, dry_run=dry_run)

    def close(self) -> None:
        """Stop the background threads, and close the connections to the database."""
        if self.cache is not None:
            self.cache.close()
        self.services.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
