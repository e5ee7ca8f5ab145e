"""The import of a Hive metastore: one database transaction for each object and all its parts.

A table is read from Hive completely before its rows are written. So if a metastore stops meanwhile, no incomplete table
is left, and a repeated import continues after the last table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from airflow_hivex.core.catalog.database_rows import matching
from airflow_hivex.core.errors import (
    HiveUnavailableError,
    HivexError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchFunctionError,
    NoSuchTableError,
    StoreError,
)
from airflow_hivex.core.execution.context import Services, SessionState, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.imports.acid import DirectoryReader, HiveDirectories
from airflow_hivex.core.imports.conversion import (
    PartitionConverter,
    convert_database,
    convert_function,
    convert_table,
    hive_partition_name,
)
from airflow_hivex.core.imports.hive_client import HiveMetastoreClient
from airflow_hivex.core.imports.hive_statistics import convert_statistics
from airflow_hivex.core.imports.writing import ImportedObject, ImportedTable, ImportOutcome, TableWriter
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, normalise
from airflow_hivex.core.model.objects import PARTITION_ROW_IDS, Partition, StoredTable, Table
from airflow_hivex.core.model.statistics import Statistics
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.batches import batches

log = logging.getLogger(__name__)

Progress = Callable[[str, int], None]
"""A function that is called with the name of an object and the number of partitions read since the last call."""

_OPERATION = "An import of"
_TABLES = 50
_PARTITIONS = 500
_ADDED = 1000


class HiveImporter:
    """An import from one Hive metastore to one cluster."""

    def __init__(
        self,
        services: Services,
        client: HiveMetastoreClient,
        cluster: Cluster,
        *,
        user: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._services = services
        self._client = client
        self._cluster = cluster
        self._dry_run = dry_run
        self._progress = progress or (lambda _name, _partitions: None)
        self._context = StatementContext(services, SessionState(user=user, agent_info="hivex metastore import"))
        self._writer = TableWriter(services, cluster)
        self._valid_txns: ValidTxnList | None = None

    def run(self, databases: str | None = None, tables: str | None = None) -> Iterator[ImportedObject]:
        """Yield the result for each object as soon as it is known. In each database, functions come after tables.

        ``databases`` and ``tables`` are patterns as in SHOW, with ``*`` and ``|``. With ``tables`` no functions are
        imported.

        Raises:
            HiveUnavailableError, HiveProtocolError: the metastore has stopped, or the server is not a metastore.
            StoreError: the database of this metastore cannot be used.
        """
        for name in matching(self._client.database_names(), databases):
            yield (result := self._database(name))
            if result.outcome is ImportOutcome.REFUSED:
                continue
            views: list[Any] = []
            for batch in batches(matching(self._client.table_names(name), tables), _TABLES):
                for hive in sorted(self._client.tables(name, batch), key=lambda each: str(each.tableName)):
                    if hive.tableType == "VIRTUAL_VIEW":
                        views.append(hive)
                    else:
                        yield self._object(hive)
            yield from map(self._object, views)
            if tables is None:
                yield from (self._function(name, hive) for hive in self._client.functions(name))

    # -- databases ----------------------------------------------------------------------

    def _database(self, name: str) -> ImportedObject:
        self._progress(name, 0)
        try:
            wanted, notes = convert_database(self._client.database(name), self._cluster)
            try:
                stored = self._services.catalog.get_database(wanted.name)
            except NoSuchDatabaseError:
                if not self._dry_run:
                    self._services.catalog.create_database(wanted)
                return ImportedObject("database", name, self._done, notes=notes)
        except _FATAL:
            raise
        except HivexError as error:
            return ImportedObject("database", name, ImportOutcome.REFUSED, notes=(_sentence(error),))
        differing = _differences(stored, wanted, ("description", "owner", "parameters", "location"))
        if not wanted.location:
            differing.pop("location", None)
        if not differing or stored.name == DEFAULT_DATABASE:
            # Every metastore has this database, and its tables have their own locations.
            return ImportedObject("database", name, ImportOutcome.PRESENT, notes=notes)
        return ImportedObject("database", name, ImportOutcome.DIFFERS, notes=(*_notes_of(differing), *notes))

    # -- tables and views ---------------------------------------------------------------

    def _object(self, hive: Any) -> ImportedObject:
        """Import a table or view, and return the result."""
        name = f"{hive.dbName}.{hive.tableName}"
        kind = "view" if hive.tableType == "VIRTUAL_VIEW" else "table"
        self._progress(name, 0)
        try:
            found = self._read(hive)
            kind = found.kind
            stored = self._stored(found.table)
            if stored is not None:
                return self._again(found, stored)
            if not self._dry_run:
                self._writer.write(self._context, found)
        except _FATAL:
            raise
        except HivexError as error:
            log.info("%s is not imported: %s", name, error)
            return ImportedObject(kind, name, ImportOutcome.REFUSED, notes=(_sentence(error),))
        return self._result(found, self._done, len(found.partitions), found.notes)

    @property
    def _done(self) -> ImportOutcome:
        return ImportOutcome.PLANNED if self._dry_run else ImportOutcome.IMPORTED

    @staticmethod
    def _result(found: ImportedTable, outcome: ImportOutcome, partitions: int, notes: Iterable[str]) -> ImportedObject:
        directories = 0 if found.directories is None else len(found.directories.found)
        return ImportedObject(found.kind, found.table.full_name, outcome, partitions, directories, tuple(notes))

    def _stored(self, table: Table) -> StoredTable | None:
        try:
            return self._services.catalog.get_table(table.database, table.name)
        except (NoSuchTableError, NoSuchDatabaseError):
            return None

    def _again(self, found: ImportedTable, stored: StoredTable) -> ImportedObject:
        """Compare an object with the existing object of the same name, and return the result.

        New partitions of an external table are added.
        """
        compared = [each.name for each in fields(Table) if each.name not in ("id", "location", "storage")]
        own = {key: value for key, value in stored.parameters.items() if key != PARTITION_ROW_IDS}
        differing = _differences(replace(stored, parameters=own), found.table, compared)
        storage = replace(stored.storage, secondaries=())
        differing |= _differences(storage, found.table.storage, [each.name for each in fields(storage)])
        notes = _notes_of(differing)
        new: list[Partition] = []
        if found.table.is_partitioned and stored.is_partitioned:
            names = set(self._services.catalog.list_partition_names(stored.database, stored.name))
            new = [each for each in found.partitions if each.name not in names]
            more = len(names) - (len(found.partitions) - len(new))
            if more:
                notes += (f"{more} of its partitions here are not in Hive",)
        if differing or (new and not stored.is_external):
            notes += (f"{len(new)} of its partitions are not here",) if new else ()
            return ImportedObject(found.kind, stored.full_name, ImportOutcome.DIFFERS, notes=notes)
        if not new:
            return ImportedObject(found.kind, stored.full_name, ImportOutcome.PRESENT, notes=notes)
        if not self._dry_run:
            of_new = {each.name for each in new}
            statistics = tuple(each for each in found.statistics if each[0] in of_new)
            self._add(stored, replace(found, partitions=tuple(new), statistics=statistics))
        return ImportedObject(found.kind, stored.full_name, self._done, len(new), notes=notes)

    # -- functions ----------------------------------------------------------------------

    def _function(self, database: str, hive: Any) -> ImportedObject:
        """Import a permanent function, and return the result."""
        name = f"{database}.{hive.functionName}"
        catalog = self._services.catalog
        try:
            wanted = convert_function(hive, normalise(database))
            wanted.check()
            try:
                stored = catalog.get_function(wanted.database, wanted.name)
            except NoSuchFunctionError:
                if not self._dry_run:
                    catalog.create_function(wanted)
                return ImportedObject("function", name, self._done)
        except _FATAL:
            raise
        except HivexError as error:
            return ImportedObject("function", name, ImportOutcome.REFUSED, notes=(_sentence(error),))
        compared = ("class_name", "resources", "owner", "owner_type")
        notes = _notes_of(_differences(stored, wanted, compared))
        return ImportedObject("function", name, ImportOutcome.DIFFERS if notes else ImportOutcome.PRESENT, notes=notes)

    # -- reading ------------------------------------------------------------------------

    def _read(self, hive: Any) -> ImportedTable:
        """Return a table with its partitions, directories and statistics.

        Raises:
            HivexError: the table, or one of its partitions, cannot be imported.
        """
        converted = convert_table(hive, self._cluster)
        table = converted.table
        if table.is_view:
            # A dry run does not make the database.
            with suppress(NoSuchDatabaseError):
                self._services.namespaces.check_view(table)
            return ImportedTable(table, converted.notes)
        partitions: list[Partition] = []
        statistics = list(self._statistics(hive, table))
        if table.is_partitioned:
            for batch, of_batch in self._partitions(hive, table):
                partitions += batch
                statistics += of_batch
        names = [each.name for each in partitions]
        if len(set(names)) < len(names):
            twice = next(name for number, name in enumerate(names) if name in names[:number])
            raise InvalidOperationError(_OPERATION, table.full_name, f"two of its partitions are {twice} here")
        directories = self._directories(table, names) if table.is_transactional else None
        return ImportedTable(table, converted.notes, tuple(partitions), directories, tuple(statistics))

    def _partitions(
        self, hive: Any, table: Table
    ) -> Iterator[tuple[list[Partition], list[tuple[str | None, Statistics]]]]:
        """Yield batches of the partitions of a table, each with the statistics of these partitions."""
        catalog, converter = self._services.catalog, PartitionConverter(hive, table, self._cluster)
        columns = [each.name for each in hive.sd.cols or ()]
        for batch in batches(self._client.partition_names(hive.dbName, hive.tableName), _PARTITIONS):
            found = self._client.partitions(hive.dbName, hive.tableName, batch)
            converted = [converter.convert(each, catalog.new_partition(table, list(each.values))) for each in found]
            names = [hive_partition_name(hive, each) for each in found]
            of_columns = self._client.partition_statistics(hive.dbName, hive.tableName, columns, names)
            now = self._services.clock()
            statistics = [
                (
                    partition.name,
                    convert_statistics(each.parameters or {}, table.columns, of_columns.get(name, ()), now),
                )
                for partition, each, name in zip(converted, found, names, strict=True)
            ]
            self._progress(table.full_name, len(converted))
            yield converted, [(name, each) for name, each in statistics if each is not None]

    def _statistics(self, hive: Any, table: Table) -> Iterator[tuple[str | None, Statistics]]:
        columns = [each.name for each in hive.sd.cols or ()]
        of_columns = self._client.table_statistics(hive.dbName, hive.tableName, columns)
        found = convert_statistics(hive.parameters or {}, table.columns, of_columns, self._services.clock())
        if found is not None:
            yield None, found

    def _directories(self, table: Table, partitions: Sequence[str]) -> HiveDirectories:
        if self._valid_txns is None:
            self._valid_txns = self._client.valid_txns()
        write_ids = self._client.valid_write_ids(table.database, table.name, self._valid_txns)
        files = self._services.files(self._cluster)
        return DirectoryReader(table, self._cluster, files, write_ids, self._valid_txns).read(partitions)

    # -- writing ------------------------------------------------------------------------

    def _add(self, stored: StoredTable, found: ImportedTable) -> None:
        """Add to an external table the partitions that Hive has added since the import of the table."""
        locks = self._services.statement_locks
        names = [each.name for each in found.partitions]
        change_metadata(
            self._context,
            stored,
            locks.add_partitions(stored, names, if_not_exists=True),
            lambda connection, _write_ids, txn_id: self._writer.add_partitions(connection, stored, found, txn_id),
        )


_FATAL = (HiveUnavailableError, StoreError)
"""Errors that end the import, because every other object would have the same error."""


def _differences(stored: object, wanted: object, names: Iterable[str]) -> dict[str, tuple[object, object]]:
    """Return the attributes among ``names`` with different values, as a dict from attribute to the pair of values."""
    pairs = {name: (getattr(stored, name), getattr(wanted, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _notes_of(differing: dict[str, tuple[object, object]]) -> tuple[str, ...]:
    return tuple(f"its {name.replace('_', ' ')} differs from Hive's" for name in differing)


def _sentence(error: HivexError) -> str:
    return " ".join(str(error).split())
