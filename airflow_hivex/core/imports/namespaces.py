"""The import of a namespace from another metastore of this kind, as of one snapshot.

All tables are read in one transaction of the source. The locks of this transaction stop the cleaner of the source. The
files are copied and verified first. Then one transaction of this metastore creates all tables. A killed import leaves
no table, and the next import uses the files that were copied.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.database_rows import matching
from airflow_hivex.core.catalog.directories import NewDirectory, RegisteredDirectory
from airflow_hivex.core.catalog.table_rows import free_location
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    CopyAlteredError,
    HivexError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchFunctionError,
    NoSuchTableError,
)
from airflow_hivex.core.execution.context import Services, SessionState, StatementContext
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.imports.acid import HiveDirectories
from airflow_hivex.core.imports.writing import ImportedObject, ImportedTable, ImportOutcome, TableWriter
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import (
    CLUSTER,
    ClusterStorageDescriptor,
    Database,
    Partition,
    StoredTable,
    Table,
)
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.permanent_functions import PermanentFunction, sql_function
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.model.row_ids import ORIGINAL_WRITE_ID
from airflow_hivex.core.replication.copying import FileCopy, There, copy_files
from airflow_hivex.core.replication.planning import PlannedDirectory, plan_table
from airflow_hivex.core.replication.running import ReplicationTransactions
from airflow_hivex.core.replication.transfers import checksum_of

log = logging.getLogger(__name__)

_OPERATION = "An import of"
_AGENT = "hivex namespace import"
_MARKER = "_hivex_import"
"""The name of a hidden file in the folder of a table during the copy of its files. Its text names the source."""

_NOWHERE = ""
"""The target cluster in plans of copies. No cluster of the source has this name, so a plan has all directories."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A table of the source, the new table in this metastore, and the directories to copy."""

    bound: BoundTable
    table: Table
    directories: tuple[PlannedDirectory, ...]

    @property
    def location(self) -> str:
        return self.table.storage.primary.location


class NamespaceImporter:
    """An import of a namespace from another metastore to a cluster of this metastore."""

    def __init__(
        self,
        services: Services,
        source: Services,
        sources: ReplicationTransactions,
        cluster: Cluster,
        *,
        user: str,
        threads: int = 8,
        progress: Callable[[CopyProgress], object] | None = None,
    ) -> None:
        self._services = services
        self._source = source
        self._sources = sources
        self._cluster = cluster
        self._user = user
        self._threads = threads
        self._progress = progress
        self._writer = TableWriter(services, cluster)
        self._context = StatementContext(services, SessionState(user=user, agent_info=_AGENT))

    def run(
        self, namespace: str, *, tables: str | None = None, into: str | None = None, dry_run: bool = False
    ) -> list[ImportedObject]:
        """Import the objects of a namespace in one transaction; return the result for each object.

        Objects that exist already under the same names stay unchanged. External tables and links are refused, and the
        other objects are imported. With ``tables``, a pattern as in SHOW, only matching tables and views are imported,
        and no functions. ``into`` is the name of the new namespace, by default the name in the source.

        Raises:
            NoSuchDatabaseError: the source has no such namespace.
            CopyAlteredError: files of the source differ from their registration, or a copy differs from its source.
            InvalidOperationError: the folder for a table has files of other programs, or the pattern matches no table.
            HivexError: a metastore or a file system cannot be used.
        """
        name, here = normalise(namespace), normalise(into or namespace)
        database = self._source.catalog.get_database(name)
        names = matching(self._source.catalog.list_tables(name), tables)
        links = list(self._links(name, tables))
        functions = [] if tables is not None else self._functions(name, here)
        if tables is not None and not names and not links:
            raise InvalidOperationError(_OPERATION, name, f"it has no table, view or link that matches {tables!r}")
        found: list[ImportedObject] = []
        with self._sources.open(self._user, _AGENT) as running:
            before = self._source.catalog.snapshot([(name, each) for each in names])
            taken, wanted, views = self._sort(before.tables.values(), here)
            # If all objects are refused, an empty database is useless.
            is_wanted = bool(wanted or views or functions or not (names or links))
            if is_wanted and not self._exists(here):
                found.append(_result("database", here, dry_run=dry_run))
            found += [*taken, *links]
            new_functions = [each for each in functions if not self._has_function(each)]
            self._sources.lock(running, wanted, f"import_{here}")
            snapshot = self._source.catalog.snapshot(
                [(name, each.name) for each in wanted], running.txn_id, known=before.tables.values()
            )
            planned = []
            for _, stored in sorted(snapshot.tables.items()):
                contents = self._source.catalog.contents(snapshot, stored, None, ())
                bound = bind_table(stored, contents, None, snapshot, ())
                planned.append(self._plan(bound, here))
            if dry_run and self._exists(here):
                self._check_names(here, views, new_functions)
            if is_wanted and not dry_run:
                self._import(here, database, planned, views, new_functions, running.stop)
            self._sources.give_up(running, "the import has read what it needs")
        for plan in planned:
            found.append(_of_table(plan, dry_run=dry_run))
        found += [_result("view", f"{here}.{view.name}", dry_run=dry_run) for view in views]
        for function in functions:
            if function in new_functions:
                found.append(_result("function", function.full_name, dry_run=dry_run))
            else:
                note = "a function of this name is here and is left as it is"
                found.append(ImportedObject("function", function.full_name, ImportOutcome.DIFFERS, notes=(note,)))
        return found

    # -- what is imported ---------------------------------------------------------------

    def _sort(
        self, tables: Collection[StoredTable], here: str
    ) -> tuple[list[ImportedObject], list[StoredTable], list[StoredTable]]:
        """Return a triple: the results of objects that are not imported, the tables to import, and the views."""
        taken: list[ImportedObject] = []
        wanted: list[StoredTable] = []
        views: list[StoredTable] = []
        for table in sorted(tables, key=lambda each: each.name):
            note, outcome = "", ImportOutcome.REFUSED
            if self._has(here, table.name):
                note, outcome = "an object of this name is here and is left as it is", ImportOutcome.DIFFERS
            elif table.is_view:
                if here != table.database:
                    note = f"its query names tables of {table.database}; create it again in {here}"
            elif not table.is_transactional:
                note = "it is an external table, whose files are not the warehouse's; create it over its files here"
            if note:
                kind = "view" if table.is_view else "table"
                taken.append(ImportedObject(kind, f"{here}.{table.name}", outcome, notes=(note,)))
            else:
                (views if table.is_view else wanted).append(table)
        return taken, wanted, views

    def _functions(self, name: str, here: str) -> list[PermanentFunction]:
        """Return the functions of the source namespace as functions of the namespace ``here``.

        The addresses of their resources, such as JAR files, stay.
        """
        found = []
        for each in self._source.catalog.get_functions(name):
            definition = sql_function(each)
            moved = replace(each, database=here, created_at=None)
            if definition is not None and definition.database == name:
                own = replace(definition, database=here)
                moved = own.as_function(here, each.name, each.owner, self._services.clock())
            found.append(moved)
        return found

    def _has_function(self, function: PermanentFunction) -> bool:
        try:
            self._services.catalog.get_function(function.database, function.name)
        except NoSuchFunctionError:
            return False
        return True

    def _links(self, name: str, pattern: str | None) -> Iterator[ImportedObject]:
        note = "a link shows a table of the same metastore; import that namespace, too, and create the link here"
        for link in self._source.links.show(name):
            if matching([link.name.table], pattern):
                yield ImportedObject("link", link.name.in_database, ImportOutcome.REFUSED, notes=(note,))

    def _plan(self, bound: BoundTable, here: str) -> _Planned:
        stored = bound.table
        if bound.partly_visible:
            reason = (
                "a stream writes to it, and one of its directories has rows that are not committed; repeat the import "
                "when the stream has closed its batch"
            )
            raise InvalidOperationError(_OPERATION, stored.full_name, reason)
        primary = stored.storage.primary.cluster
        plan = plan_table(bound, _NOWHERE, (), {}, self._files_of_source, lambda _bound, _partition: primary)
        for each in plan.lacking:
            data = [name for name in each.files if not name.rpartition("/")[2].startswith(("_", "."))]
            if each.registered is not None and len(data) > each.registered.files:
                reason = f"{each.location} gets files of a stream just now; repeat the import"
                raise InvalidOperationError(_OPERATION, stored.full_name, reason)
        folder = self._folder(here)
        with self._services.store.read() as connection:
            location = free_location(connection, self._cluster.name, f"{folder}/{stored.name}")
        root = stored.storage.primary.location
        directories = tuple(replace(each, place=location + each.place.removeprefix(root)) for each in plan.lacking)
        storage = replace(
            stored.storage, primary=ClusterStorageDescriptor(self._cluster.name, location), secondaries=()
        )
        table = Table(
            here,
            stored.name,
            storage,
            stored.partition_keys,
            stored.type,
            stored.parameters,
            stored.owner,
            stored.comment,
            owner_type=stored.owner_type,
            retention=stored.retention,
        )
        return _Planned(bound, table, directories)

    # -- copying ------------------------------------------------------------------------

    def _copy(self, planned: Sequence[_Planned], stop: threading.Event) -> dict[int, str]:
        """Copy the files of all tables; return a dict from directory id in the source to checksum.

        If the source has recorded a checksum for a directory, the checksum of the copy must equal it.
        """
        target = self._services.files_to_change(self._cluster)
        copies = []
        for plan in planned:
            mark = f"{plan.bound.table.full_name} {plan.bound.table.id} of {self._source.store.name}"
            marker = f"{plan.location}/{_MARKER}"
            present = dict(target.walk(plan.location))
            if present and target.read_text(marker) != mark:
                reason = (
                    f"{plan.location} on cluster {self._cluster.name} has files that this import has not written; "
                    "move them away"
                )
                raise InvalidOperationError(_OPERATION, plan.table.full_name, reason)
            target.make_directory(plan.location)
            target.write_text(marker, mark)
            for directory in plan.directories:
                for name, size in directory.files.items():
                    place = directory.place_of(name)
                    there = There.OWN if place.removeprefix(f"{plan.location}/") in present else There.NOTHING
                    source = directory.source_of(name)
                    copies.append(FileCopy(plan.table.full_name, directory.source, source, place, size, there))
        done = copy_files(
            self._files_of_source,
            target,
            self._cluster.name,
            copies,
            stop,
            threads=self._threads,
            progress=self._progress,
        )
        found: dict[int, str] = {}
        for plan in planned:
            found |= self._checked(plan, done.checksums)
        return found

    def _checked(self, plan: _Planned, checksums: Mapping[str, str]) -> dict[int, str]:
        registered = [each.registered for each in plan.directories if each.registered is not None]
        known = self._source.catalog.copy_checksums(registered)
        found: dict[int, str] = {}
        for each in plan.directories:
            if each.registered is None:
                continue
            checksum = checksum_of({name: checksums[each.place_of(name)] for name in each.files})
            if known.get(each.registered.id, checksum) != checksum:
                reason = "its checksum is not the one that the source has recorded"
                raise CopyAlteredError(plan.table.full_name, each.source, each.location, reason)
            found[each.registered.id] = checksum
        return found

    # -- writing ------------------------------------------------------------------------

    def _import(
        self,
        here: str,
        database: Database,
        planned: Sequence[_Planned],
        views: Sequence[StoredTable],
        functions: Sequence[PermanentFunction],
        stop: threading.Event,
    ) -> None:
        """Copy the files, and create all objects in one transaction.

        Other statements that create one of these objects wait. If the import is refused, the database that it has
        created is dropped. If the import is killed, the database stays, and the next import uses the database.
        """
        if self._exists(here):
            self._create(here, planned, views, functions, stop)
            return
        parameters = dict(database.parameters)
        if CLUSTER in parameters:
            # The names of the source's clusters have no meaning here.
            parameters[CLUSTER] = self._cluster.name
        self._services.catalog.create_database(
            replace(database, name=here, location="", parameters=parameters, id=None, created_at=None)
        )
        try:
            self._create(here, planned, views, functions, stop)
        except CommitOutcomeUnknownError:
            raise
        except Exception:
            self._take_back(here)
            raise

    def _take_back(self, here: str) -> None:
        """Drop the database that this import has created, unless other statements use it. Do not wait for locks."""
        services = self._services

        def drop(connection: Connection) -> None:
            services.catalog.joining(connection).drop_database(here)

        try:
            with own_transaction(self._context) as running:
                wanted = services.statement_locks.drop_database(here)
                if services.locks.acquire(wanted, running.txn_id, wait=False).is_acquired:
                    services.transactions.commit(running.txn_id, drop)
                else:
                    services.transactions.abort(running.txn_id, f"database {here} is in use")
        except HivexError as error:
            # The caller needs the first error.
            log.warning("Database %s, which the refused import has made, stays: %s", here, error)

    def _check_names(self, here: str, views: Sequence[StoredTable], functions: Sequence[PermanentFunction]) -> None:
        """Refuse views and functions that name objects of other namespaces, if the namespace ``here`` is closed.

        Raises:
            ForeignNameError: a definition names an object of another namespace.
        """
        for view in views:
            self._services.namespaces.check_view(replace(view, database=here))
        for function in functions:
            self._services.namespaces.check_function(function)

    def _create(
        self,
        here: str,
        planned: Sequence[_Planned],
        views: Sequence[StoredTable],
        functions: Sequence[PermanentFunction],
        stop: threading.Event,
    ) -> None:
        """Copy the files, and create the objects in a database that exists."""
        services = self._services
        self._check_names(here, views, functions)
        with own_transaction(self._context) as running:
            locks = services.statement_locks
            names = [plan.table.name for plan in planned] + [view.name for view in views]
            for name in names:
                acquire(self._context, running, locks.create_table_as_select(here, name), new_table=True)
            made = next((name for name in names if self._has(here, name)), None)
            if made is not None:
                raise InvalidOperationError(_OPERATION, f"{here}.{made}", "it was created meanwhile")
            checksums = self._copy(planned, stop)
            tables = [
                ImportedTable(plan.table, (), self._partitions(plan), _directories(plan, checksums)) for plan in planned
            ]
            for table in tables:
                self._writer.prepare(table)

            def create(connection: Connection) -> None:
                for table in tables:
                    self._writer.create(connection, running.txn_id, table)
                for view in views:
                    services.catalog.joining(connection).create_table(self._view(view))
                for function in functions:
                    services.catalog.joining(connection).create_function(function)

            services.transactions.commit(running.txn_id, create)
        target = services.files_to_change(self._cluster)
        for plan in planned:
            target.delete_file(f"{plan.location}/{_MARKER}")

    def _partitions(self, plan: _Planned) -> tuple[Partition, ...]:
        catalog, names = self._services.catalog, plan.bound.partition_names
        return tuple(catalog.new_partition(plan.table, partition_values(name)) for name in names)

    def _view(self, view: StoredTable) -> Table:
        storage = replace(view.storage, primary=ClusterStorageDescriptor(self._cluster.name, ""), secondaries=())
        return Table(
            view.database,
            view.name,
            storage,
            view.partition_keys,
            view.type,
            view.parameters,
            view.owner,
            view.comment,
            view_original_text=view.view_original_text,
            view_expanded_text=view.view_expanded_text,
        )

    # -- both metastores ----------------------------------------------------------------

    def _files_of_source(self, cluster: str) -> ClusterFiles:
        return self._source.files(self._source.clusters.get(cluster))

    def _exists(self, here: str) -> bool:
        try:
            self._services.catalog.get_database(here)
        except NoSuchDatabaseError:
            return False
        return True

    def _has(self, here: str, name: str) -> bool:
        try:
            self._services.catalog.get_table(here, name)
        except (NoSuchDatabaseError, NoSuchTableError):
            return False
        return True

    def _folder(self, here: str) -> str:
        """Return the folder of the namespace ``here``, or the default folder if the namespace does not exist yet."""
        try:
            return self._services.catalog.get_database(here).location
        except NoSuchDatabaseError:
            return f"{here}.db"


def _result(kind: str, name: str, *, dry_run: bool, notes: Sequence[str] = ()) -> ImportedObject:
    outcome = ImportOutcome.PLANNED if dry_run else ImportOutcome.IMPORTED
    return ImportedObject(kind, name, outcome, notes=tuple(notes))


def _of_table(plan: _Planned, *, dry_run: bool) -> ImportedObject:
    size = sum(sum(each.files.values()) for each in plan.directories)
    files = sum(len(each.files) for each in plan.directories)
    kind = "insert-only table" if plan.table.is_insert_only else "transactional table"
    outcome = ImportOutcome.PLANNED if dry_run else ImportOutcome.IMPORTED
    notes = (f"{files} files, {size:,} bytes",)
    return ImportedObject(
        kind, plan.table.full_name, outcome, len(plan.bound.partition_names), len(plan.directories), notes, size
    )


def _directories(plan: _Planned, checksums: Mapping[int, str]) -> HiveDirectories:
    """Return the directories to register in this metastore, with the write ids and checksums of the source."""
    copied = ((each.partition, each.registered) for each in plan.directories)
    found = [
        _directory(partition, registered, checksums[registered.id])
        for partition, registered in copied
        if registered is not None
    ]
    write_ids = plan.bound.write_ids
    highest = max((each.visibility_txn_id for each in found), default=0)
    return HiveDirectories(tuple(found), 1 if write_ids is None else write_ids.high_watermark + 1, highest)


def _directory(partition: str | None, registered: RegisteredDirectory, checksum: str) -> NewDirectory:
    named = parse_directory(registered.name)
    return NewDirectory(
        partition=partition,
        name=registered.name,
        kind="original" if named is None else named.kind.value,
        min_write_id=ORIGINAL_WRITE_ID if named is None else named.min_write_id,
        max_write_id=ORIGINAL_WRITE_ID if named is None else named.max_write_id,
        row_layout=registered.row_layout,
        files=registered.files,
        rows=registered.rows,
        size_bytes=registered.size_bytes,
        statement_id=None if named is None else named.statement_id,
        visibility_txn_id=0 if named is None else named.visibility_txn_id,
        checksum=checksum,
    )
