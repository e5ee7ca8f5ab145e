"""Metastore: the object by which users open a warehouse and reach its services."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.follower import RegisteredCache, registered_caches
from airflow_hivex.core.cache.metadata_cache import MetadataCache
from airflow_hivex.core.catalog.commits import Commits
from airflow_hivex.core.catalog.listed_objects import CatalogListing
from airflow_hivex.core.catalog.pending_registration import register_pending_writes
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.errors import HivexError, StoreMissingError
from airflow_hivex.core.events.notification_log import NotificationLog, PartitionEvents
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.locks import StatementLocks
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.opening import (
    Check,
    ClusterProperties,
    check_clusters,
    check_database,
    open_catalog,
    open_clusters,
    with_environment,
)
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import DatabaseClock, Store
from airflow_hivex.core.transactions.listed_transactions import TransactionListing
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.shared_settings import SHARED, agree
from airflow_hivex.core.transactions.statement_history import StatementHistory

if TYPE_CHECKING:
    from airflow_hivex.core.compaction.compactor import Compactor
    from airflow_hivex.core.compaction.history import CompactionListing
    from airflow_hivex.core.doctor.doctor import Doctor
    from airflow_hivex.core.imports.hive_client import HiveTransport
    from airflow_hivex.core.imports.importer import Progress
    from airflow_hivex.core.imports.writing import ImportedObject
    from airflow_hivex.core.namespaces.capacity import Capacities
    from airflow_hivex.core.namespaces.closure import NamedStatement
    from airflow_hivex.core.namespaces.homes import NamespaceHomes
    from airflow_hivex.core.namespaces.links import Links
    from airflow_hivex.core.namespaces.namespaces import Namespaces
    from airflow_hivex.core.preflight import ExpectedRoute
    from airflow_hivex.core.replication.namespace_moves import NamespaceMoves
    from airflow_hivex.core.replication.primary import PrimaryClusters
    from airflow_hivex.core.replication.replicator import Replicator
    from airflow_hivex.core.session import Session
    from airflow_hivex.core.transactions.housekeeper import Housekeeper

log = logging.getLogger(__name__)


class Metastore:
    """An open warehouse: its catalog, its transactions, and sessions on it.

    Threads can share a Metastore. Close it, or use it as a context manager.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        """The services of the warehouse, for tools that need more than the attributes of this class."""
        self.settings = services.settings
        self.clusters = services.clusters
        self.catalog = services.catalog
        self.cache: MetadataCache | None = None
        """The cache of metadata, or None if ``metastore.rawstore.impl`` turns it off."""
        if isinstance(services.catalog, CachedStore):
            self.cache = MetadataCache(services.store, services.settings, services.clock, services.catalog)
            services.transactions.when_committed = services.catalog.keep_written
        self.transactions = services.transactions
        self.commits = Commits(services.store, services.clock, services.transactions)
        self.notification_log = NotificationLog(services.store)
        self.partition_events = PartitionEvents(services.store, services.clock)
        """The marks with which clients of the Hive Metastore endpoint say that a partition is loaded."""
        self.locks = services.locks
        self.catalog_listing = CatalogListing(services.store)
        """Lists of databases, tables and other objects, page by page.

        ``transaction_listing`` and ``compaction_listing`` also return pages.
        """
        self.transaction_listing = TransactionListing(services.store, services.clock)
        # A statement that waits for a lock also ends the transactions of dead clients, so that it is not stuck without
        # a scheduled housekeeping.
        services.locks.waiter.while_waiting = self._housekeep

    @property
    def compactor(self) -> Compactor:
        """Return the compactor, which requests, runs and cleans compactions."""
        return self.services.compactor

    @property
    def replicator(self) -> Replicator:
        """Return the replicator, which copies tables between clusters."""
        return self.services.replicator

    @property
    def links(self) -> Links:
        """Return the links between namespaces."""
        return self.services.links

    @property
    def namespaces(self) -> Namespaces:
        """Return the service for namespaces and their closure."""
        return self.services.namespaces

    @property
    def primaries(self) -> PrimaryClusters:
        """Return the service that changes the primary clusters of tables."""
        return self.services.primaries

    @property
    def capacity(self) -> Capacities:
        """Return the use of storage and the quotas of the namespaces."""
        return self.services.capacity

    @property
    def statements(self) -> StatementHistory:
        """Return the history of statements."""
        return self.services.statements

    @property
    def moves(self) -> NamespaceMoves:
        """Return the moves of namespaces between clusters."""
        return self.services.moves

    @cached_property
    def homes(self) -> NamespaceHomes:
        """Return the home clusters of the namespaces."""
        from airflow_hivex.core.namespaces.homes import NamespaceHomes

        return NamespaceHomes(self.services.store, self.services.clock)

    @cached_property
    def doctor(self) -> Doctor:
        """Return the doctor, which compares the metadata with the files."""
        from airflow_hivex.core.doctor.doctor import Doctor

        return Doctor(self.services)

    @cached_property
    def compaction_listing(self) -> CompactionListing:
        """Return the lists of compactions, page by page."""
        from airflow_hivex.core.compaction.history import CompactionListing

        return CompactionListing(self.services)

    @cached_property
    def housekeeper(self) -> Housekeeper:
        """Return the housekeeper, which ends the transactions of dead clients, and removes unused records and files."""
        from airflow_hivex.core.commands import partitions, tables, temporary_tables
        from airflow_hivex.core.execution import write_outcomes
        from airflow_hivex.core.transactions.housekeeper import Housekeeper

        services = self.services
        return Housekeeper(
            services.store,
            services.settings,
            services.clock,
            services.transactions,
            services.locks,
            delete_abandoned=partial(write_outcomes.delete_abandoned, services),
            keep_compactions=services.compactor.housekeep,
            clean_copies=lambda most_s: services.moves.clean(most_s) + services.replicator.clean(most_s),
            expire_links=services.links.expire,
            record_capacity=services.capacity.record,
            drop_temporary_tables=partial(temporary_tables.drop_unused, services),
            delete_dropped=lambda: tables.delete_dropped(services) + partitions.delete_left(services),
        )

    def note_restore(self) -> None:
        """Record that the database was restored from a backup. Call this method before any other use of the database.

        After the call, all processes empty their caches, and readers of the notification log get ``EventsPurgedError``.
        The call can be repeated.
        """
        self.notification_log.note_restore()

    def _housekeep(self) -> None:
        try:
            self.housekeeper.run(only_due=True)
        except HivexError as error:
            # An error of the housekeeping must not fail the statement that waits for a lock.
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
        """Return the warehouse whose metadata is in the database at ``url``. An empty database gets the schema.

        Args:
            url: ``sqlite:////path/to/metastore.db`` or ``postgresql://user@host/database``.
            clusters: ``hive.cluster.properties``: a mapping, JSON text, or the path of a JSON file. Optional with
                SQLite: by default one local cluster in the folder of the database file has all data.
            default_cluster: ``hive.default.cluster.name``; optional if there is only one cluster.
            settings: any ``hive.*`` parameters by Hive's names.
            clock: returns the current time in milliseconds since the epoch; by default the clock of the database.
            fault: a function for tests, which is called with the name of a point in the code, such as "before commit".

        Raises:
            SettingsError: a parameter or a cluster's description is not valid, or ``hive.txn.timeout`` differs from the
                value that other clients of the metastore use.
            StoreTooOldError, StoreTooNewError: the database has the schema of another release.
            StoreUnavailableError: the database cannot be reached.
        """
        checked = with_environment(Settings(settings or {}))
        store = Store(url, fault, settings=checked)
        clock = clock or DatabaseClock(store)
        try:
            configured = open_clusters(store, checked, clusters, default_cluster)
            checked = agree(store, checked, migrating.prepare(store, *SHARED))
            catalog = open_catalog(store, checked, configured, clock)
        except BaseException:
            store.close()
            raise
        transactions = TransactionManager(store, checked, clock, partial(register_pending_writes, catalog))
        locks = LockManager(store, checked, clock, transactions)
        roots = Roots(store, configured, clock)
        health = ClusterHealth(configured, roots)
        statement_locks = StatementLocks(checked)
        return cls(
            Services(store, checked, clock, configured, roots, health, catalog, transactions, locks, statement_locks)
        )

    @staticmethod
    def upgrade(url: str) -> dict[str, str | None]:
        """Upgrade the schema of the database at ``url`` to this release; return the old and the new revision."""
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
        """Check the database and the clusters, with the arguments of :meth:`open`. The database is only read.

        The check writes a small file to the existing root of each cluster, and deletes it.

        Raises:
            SettingsError: a parameter, the URL or a cluster's description is not valid.
            StoreUnavailableError: the SQLite file, or its folder, cannot be used.
        """
        checked = with_environment(Settings(settings or {}))
        store = Store(url, settings=checked, create=False)
        try:
            configured = open_clusters(store, checked, clusters, default_cluster)
            return [check_database(store), *check_clusters(configured)]
        finally:
            store.close()

    @staticmethod
    def status(url: str) -> dict[str, str | None]:
        """Return the ``state`` of the schema of the database at ``url``: new, current, older or newer.

        The database is only read.

        Raises:
            NotAMetastoreError: the database has tables of another program.
            StoreUnavailableError: the database cannot be reached.
        """
        store = Store(url, create=False)
        try:
            found = migrating.status(store)
        finally:
            store.close()
        return {"url": store.name, "revision": found.found, "head": found.head, "state": found.state}

    @staticmethod
    def check_exists(url: str) -> None:
        """Ensure that the database at ``url`` has a metastore. The database is only read.

        Raises:
            StoreMissingError: the database has no metastore yet; :meth:`open` would create one.
            NotAMetastoreError: the database has tables of another program.
            StoreUnavailableError: the database cannot be reached.
        """
        found = Metastore.status(url)
        if found["state"] == "new":
            raise StoreMissingError(str(found["url"]))

    def session(
        self,
        user: str | None = None,
        database: str = DEFAULT_DATABASE,
        cluster: str | None = None,
        agent_info: str | TaskTry | None = None,
        txn_id: int | None = None,
        writer: str | None = None,
        progress: ProgressReport | None = None,
        max_lag: float | str | None = None,
        max_lag_commits: int | str | None = None,
        server_jobs_only: bool = False,
    ) -> Session:
        """Return a new session.

        Args:
            user: the owner of the session's transactions, and of the objects that its statements create; by default the
                user of the operating system.
            database: the current database.
            cluster: the cluster to pin, as USE CLUSTER does.
            agent_info: a text for users that names the owner of a transaction, or the try of a task. The history of
                statements can be filtered by the DAG and task of a try.
            txn_id: an open transaction of any process, which all statements of the session join. The statements share
                the snapshot of the transaction, and see its writes. The session does not end the transaction.
            writer: a name for the session's writes in the transaction ``txn_id``. If a previous session has used the
                name in this transaction, the writes of the previous session are discarded, so that a task can be
                repeated.
            progress: called by another thread, each second, with the progress of a job that takes longer than three
                seconds. By default the progress goes to the log every few seconds.
            max_lag: the lag of copies that queries accept, in seconds or as a text such as ``10min``; see
                ``hivex.replica.max.lag``.
            max_lag_commits: the largest number of commits by which copies are allowed to lag.
            server_jobs_only: whether to refuse a statement that would run its job in this process
                (``InProcessJobError``).

        Raises:
            NoSuchDatabaseError, UnknownClusterError: the database or the cluster does not exist.
            NoSuchTransactionError, TransactionAbortedError, TransactionCommittedError: the transaction is not open.
            InvalidSettingError: a lag is not valid.
        """
        from airflow_hivex.core.session import Session

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
        """Commit a transaction with the writes of all sessions that have joined it. It is safe to repeat the call.

        Raises:
            WriteConflictError: a different transaction has updated the same rows before; ``txn_id`` is aborted.
            TransactionAbortedError: the transaction was aborted; its writes never become visible.
            NoSuchTransactionError: no transaction has the id.
            CommitOutcomeUnknownError: the connection was lost; look up the state of the transaction by its id.
        """
        from airflow_hivex.core.commands import transactions

        transactions.commit_transaction(self.services, txn_id)

    def abort(self, txn_id: int, reason: str | None = None) -> None:
        """Abort a transaction, and delete the files that it has written. It is safe to repeat the call.

        Raises:
            TransactionCommittedError: the transaction has committed.
            NoSuchTransactionError: no transaction has the id.
        """
        from airflow_hivex.core.commands import transactions

        transactions.abort_transaction(self.services, txn_id, reason)

    def preflight(
        self, statements: Iterable[NamedStatement], *, namespace: str = DEFAULT_DATABASE, user: str | None = None
    ) -> list[ExpectedRoute]:
        """Return the route that each statement would take now, or the reason why the statement would be refused.

        No statement is run. Pass the statements in the order in which they would run. ``namespace`` is the current
        database of each statement that names no current database.
        """
        from airflow_hivex.core.preflight import Preflight

        def open_session(database: str, cluster: str | None) -> Session:
            return self.session(user=user, database=database, cluster=cluster)

        return Preflight(open_session, namespace).check(statements)

    def registered_caches(self) -> list[RegisteredCache]:
        """Return the caches of all processes that follow the notification log."""
        return registered_caches(self.services.store)

    def accept_root(self, cluster: str) -> int:
        """Accept the current root of a cluster's file system after the previous root was lost or replaced.

        Returns the number of directories that are registered on the cluster. :attr:`doctor` reports which of them the
        file system does not have.

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
        """Import the databases, tables and views of a Hive metastore, and yield the result of each object.

        The import can be repeated: an object that exists in this metastore is compared, and not changed. Files are
        neither moved nor copied. Each table is imported with all its partitions, or not at all.

        Args:
            address: ``thrift://host:port``, or several addresses with commas, which are tried in this order.
            cluster: the cluster whose file system has the files; by default the default cluster.
            databases: a pattern of names, in which ``*`` stands for any characters and ``|`` for or.
            tables: a pattern of the names of tables and views.
            dry_run: return the results of an import, and write nothing.
            user: the user for Hive and for the transactions of this metastore, by default the user of the operating
                system.
            timeout_s: the longest time to wait for an answer of Hive.
            transport: TLS and framed transport, if the Hive metastore uses them.
            progress: called with the name of an object, and the number of its partitions that were read since the
                previous call.

        Raises:
            UnknownClusterError: the cluster is not configured.
            InvalidHiveAddressError, InvalidSettingError: the address or the transport is not valid.
            HiveClientMissingError: the client for Hive is not installed.
            HiveUnavailableError, HiveProtocolError: no Hive metastore answers at the address.
        """
        from airflow_hivex.core.imports.hive_client import HiveMetastoreClient, HiveTransport
        from airflow_hivex.core.imports.importer import HiveImporter

        target = self.clusters.get(cluster or self.clusters.default)
        user = user or getpass.getuser()
        client = HiveMetastoreClient(address, user=user, timeout_s=timeout_s, transport=transport or HiveTransport())
        importer = HiveImporter(self.services, client, target, user=user, dry_run=dry_run, progress=progress)

        def results() -> Iterator[ImportedObject]:
            with client:
                yield from importer.run(databases, tables)

        return results()

    def rebuild(
        self,
        *,
        cluster: str | None = None,
        databases: str | None = None,
        tables: str | None = None,
        dry_run: bool = False,
        user: str | None = None,
        progress: Progress | None = None,
    ) -> Iterator[ImportedObject]:
        """Create the managed tables whose folders are on a cluster, and yield the result of each object.

        Use this method in a new metastore after the database of the old one was lost, without a backup, and while no
        client of the old one writes. Databases are the folders ``name.db``. The names of folders have the partitions
        and write ids, and the files have the columns. Files are neither moved nor changed. The rebuild can be repeated:
        existing objects are not changed. ``imports.rebuilding.LOST`` lists what does not come back.

        Args:
            cluster: the cluster whose root is searched, by default the default cluster.
            databases: a pattern of names, in which ``*`` stands for any characters and ``|`` for or.
            tables: a pattern of the names of tables.
            dry_run: return the results of a rebuild, and write nothing.
            user: the owner of the tables and of their transactions, by default the user of the operating system.
            progress: called with the name of an object, and then with the number of its partitions.

        Raises:
            UnknownClusterError: the cluster is not configured.
            StorageError: the root of the cluster cannot be listed.
        """
        from airflow_hivex.core.imports.rebuilding import Rebuilder

        target = self.clusters.get(cluster or self.clusters.default)
        rebuilder = Rebuilder(self.services, target, user=user or getpass.getuser(), dry_run=dry_run, progress=progress)
        return rebuilder.run(databases, tables)

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

        The rows are read in one snapshot of the source. Files are copied and verified, and all objects become visible
        at once. An import that is killed leaves no table. A repeated import uses the copied files.

        Args:
            source: the metastore to import from. This process must be able to reach the clusters of ``source``.
            namespace: the name of the namespace in the source.
            tables: a pattern of tables and views, in which ``*`` stands for any characters and ``|`` for or.
            into: the name of the namespace in this metastore, by default ``namespace``.
            cluster: the cluster that gets the files, by default the default cluster.
            dry_run: return the results of an import, and write nothing.
            user: the owner of the transactions, by default the user of the operating system.
            threads: the number of files that are copied at once.
            progress: called every few seconds, in this thread.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchDatabaseError: the source has no such namespace.
            CopyAlteredError: files of the source differ from their registration, or a copy differs from its source.
            InvalidOperationError: the folder of a table has files already, or no object matches the pattern.
            QuotaExceededError: the namespace would exceed its quota on the cluster.
        """
        from airflow_hivex.core.imports.namespaces import NamespaceImporter
        from airflow_hivex.core.replication.running import ReplicationTransactions

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

    def __exit__(self, *error: object) -> None:
        self.close()
