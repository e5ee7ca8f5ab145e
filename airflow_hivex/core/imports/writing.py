"""The results of an import, and the writer of tables with their partitions, directories and statistics."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import has_directories
from airflow_hivex.core.catalog.registration import Registration, register
from airflow_hivex.core.catalog.statistics import store_statistics
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.catalog.table_rows import hold_for_change
from airflow_hivex.core.errors import InvalidOperationError, InvalidTransactionRequestError
from airflow_hivex.core.execution.context import Services, StatementContext
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.imports.acid import HiveDirectories
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import FLAT_LAYOUT, PARTITION_ROW_IDS, Partition, StoredTable, Table
from airflow_hivex.core.model.statistics import Statistics
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.transactions.single_changes import take_write_id

_OPERATION = "An import of"
_ADDED = 1000


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table to create in this metastore, with its partitions, directories and statistics."""

    table: Table
    notes: tuple[str, ...]
    partitions: tuple[Partition, ...] = ()
    directories: HiveDirectories | None = None
    statistics: tuple[tuple[str | None, Statistics], ...] = ()

    @property
    def kind(self) -> str:
        """Return the kind of the object for users, such as ``external table``."""
        if self.table.is_view:
            return "view"
        if self.table.is_insert_only:
            return "insert-only table"
        return "transactional table" if self.table.is_transactional else "external table"


class TableWriter:
    """A writer of the tables of one import to one cluster."""

    def __init__(self, services: Services, cluster: Cluster) -> None:
        self._services = services
        self._cluster = cluster

    def prepare(self, found: ImportedTable) -> None:
        """Ensure that the transaction ids in the directories' names belong to committed transactions of this metastore.

        Compactions of the source have written these ids into the names.

        Raises:
            InvalidOperationError: one of these ids belongs to a transaction of this metastore that has not committed.
        """
        assert found.directories is not None
        highest = found.directories.highest_txn_id
        if not highest:
            return
        transactions = self._services.transactions
        try:
            transactions.seed_txn_ids(highest + 1)
        except InvalidTransactionRequestError:
            valid = transactions.valid_txns()
            for directory in found.directories.found:
                if directory.visibility_txn_id and not valid.is_valid(directory.visibility_txn_id):
                    reason = (
                        f"{directory.name} is visible by transaction {directory.visibility_txn_id} of the source, and "
                        "the transaction of that id here is open or was aborted; repeat the import after it has ended "
                        "and `hivex metastore housekeep` has run"
                    )
                    raise InvalidOperationError(_OPERATION, found.table.full_name, reason) from None

    def write(self, context: StatementContext, found: ImportedTable) -> None:
        """Create a table with its partitions, directories and statistics, in one database transaction.

        Raises:
            InvalidOperationError: a directory belongs to a transaction of this metastore that has not committed.
        """
        services = self._services
        if found.directories is not None:
            # Marks the root of the cluster: from now on its files are the warehouse's.
            services.roots.check(self._cluster.name)
            self.prepare(found)
        with own_transaction(context) as running:
            acquire(context, running, services.statement_locks.create_table(found.table.database))
            services.transactions.commit(
                running.txn_id, lambda connection: self.create(connection, running.txn_id, _with_row_ids(found))
            )

    def create(self, connection: Connection, running_id: int, found: ImportedTable) -> None:
        """Create a table with its partitions, directories and statistics, in the commit of a transaction."""
        catalog = self._services.catalog.joining(connection)
        txn_id = running_id if found.table.is_transactional else None
        created = catalog.create_table(found.table, txn_id=txn_id)
        self._fill(connection, running_id, created, found)

    def fill(self, context: StatementContext, table: StoredTable, found: ImportedTable) -> None:
        """Give an existing table without rows its partitions and directories, in one database transaction.

        Raises:
            InvalidOperationError: another client has written rows meanwhile, or a directory belongs to a
                transaction of this metastore that has not committed.
        """
        services = self._services
        services.roots.check(self._cluster.name)
        self.prepare(found)
        with own_transaction(context) as running:
            acquire(context, running, services.statement_locks.convert_table(table))

            def changes(connection: Connection) -> None:
                hold_for_change(connection, [table.id])
                if has_directories(connection, table.id):
                    raise InvalidOperationError(_OPERATION, table.full_name, "the table has rows by now")
                self._fill(connection, running.txn_id, table, found)

            services.transactions.commit(running.txn_id, changes)

    def _fill(self, connection: Connection, running_id: int, table: StoredTable, found: ImportedTable) -> None:
        directories = found.directories
        if directories is not None:
            # The write id of this definition comes after the write ids of the source.
            take_write_id(connection, running_id, table.id, at_least=directories.next_write_id)
        self.add_partitions(connection, table, found, running_id if table.is_transactional else None)
        if directories is not None:
            registration = Registration(table, self._cluster.name, running_id, directories.found)
            register(connection, [registration], self._services.clock())

    def add_partitions(
        self, connection: Connection, table: StoredTable, found: ImportedTable, txn_id: int | None
    ) -> None:
        """Add the partitions and the statistics of a table, in the caller's database transaction."""
        catalog = self._services.catalog.joining(connection)
        for batch in batches(found.partitions, _ADDED):
            catalog.add_partitions(table.database, table.name, batch, txn_id=txn_id)
        if found.statistics:
            by_name = dict(found.statistics)
            store_statistics(connection, table, by_name)
            now, names = self._services.clock(), sorted(name for name in by_name if name is not None)
            columns = {column for each in by_name.values() for column in each.columns}
            for changed in (*((None,) if None in by_name else ()), *((names,) if names else ())):
                record_statistics_event(connection, now, table, changed, sorted(columns), txn_id)


def _with_row_ids(found: ImportedTable) -> ImportedTable:
    """Return the table with a property that records the highest write id of Hive.

    Rows of write ids up to this id have the row ids of Hive, which are unique only within a partition.
    """
    table, directories = found.table, found.directories
    if directories is None or table.is_insert_only or directories.next_write_id <= 1:
        return found
    if all(each.row_layout == FLAT_LAYOUT for each in directories.found):
        return found
    parameters = {**table.parameters, PARTITION_ROW_IDS: str(directories.next_write_id - 1)}
    return replace(found, table=replace(table, parameters=parameters))


class ImportOutcome(enum.Enum):
    """The result for one object.

    ``PLANNED`` is the result of a dry run. ``PRESENT`` means that an equal object existed before. ``DIFFERS`` means
    that a different object with the name existed before, and stays unchanged. ``REFUSED`` means that the object cannot
    be imported. ``SKIPPED`` means that the folder of a rebuild has no rows.
    """

    IMPORTED = "imported"
    REBUILT = "rebuilt"
    PLANNED = "planned"
    PRESENT = "present"
    DIFFERS = "differs"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ImportedObject:
    """A database, table, view or function, and its result.

    ``kind`` is ``database``, ``external table``, ``transactional table``, ``insert-only table``, ``view``,
    ``function``, or ``table`` for a refused or skipped table. ``partitions`` is the number of added partitions.
    ``directories`` is the number of registered directories and original files. ``size_bytes`` is the number of copied
    bytes or, in a dry run, of bytes to copy. ``notes`` are the reasons of a difference or refusal, or differences from
    Hive.
    """

    kind: str
    name: str
    outcome: ImportOutcome
    partitions: int = 0
    directories: int = 0
    notes: tuple[str, ...] = ()
    size_bytes: int = 0

    @property
    def has_rows(self) -> bool:
        """Return whether the object is a table, and not a database, view or function."""
        return self.kind.endswith("table")

    @property
    def is_missing(self) -> bool:
        """Return whether this metastore lacks the object: it was refused, or another object has its name."""
        return self.outcome in (ImportOutcome.DIFFERS, ImportOutcome.REFUSED)
