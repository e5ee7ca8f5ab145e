"""Tables from the directories of a cluster alone, after the database of the metastore was lost.

The folders of managed tables are valid ACID trees by themselves: the names of folders have the partitions and write
ids, and the files have the columns. Everything that only the metastore knew is lost; :data:`LOST` lists it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date

from airflow_hivex.core.catalog.database_rows import matching
from airflow_hivex.core.catalog.directories import has_directories
from airflow_hivex.core.commands.table_definitions import describe_table
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchTableError,
    StoreError,
)
from airflow_hivex.core.execution.context import Services, SessionState, StatementContext
from airflow_hivex.core.imports.acid import DirectoryReader
from airflow_hivex.core.imports.file_columns import FileColumns, read_columns
from airflow_hivex.core.imports.writing import ImportedObject, ImportedTable, ImportOutcome, TableWriter
from airflow_hivex.core.job.layout import VERSION_FILE
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import (
    FLAT_LAYOUT,
    HIVE_LAYOUT,
    INSERT_ONLY,
    PLAIN_LAYOUT,
    ROW_LAYOUT,
    TRANSACTIONAL_PROPERTIES,
    ClusterStorageDescriptor,
    Column,
    Database,
    StoredTable,
    Table,
)
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, nullable_values
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.parser.statements import CreateTable, TableName

LOST = (
    "views, links, functions and external tables",
    "tables that never had rows",
    "copies on other clusters (register them again), quotas, moves and the primary clusters of tables",
    "versions before this one, the history of tables, events and statistics",
    "the lists of files that COPY INTO has loaded: the next COPY INTO loads all files of its folder again",
    "owners, comments, properties, buckets and constraints of tables",
    "types that ORC files do not have: VARCHAR and CHAR become STRING, and TIMESTAMP_NTZ becomes BIGINT (microseconds)",
    "locations of databases and partitions outside of their folders",
)
"""A list for users of what a rebuild cannot bring back."""

_OPERATION = "A rebuild of"
_DATABASE = ".db"
_READERS = 16
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_INT = 2**31

Progress = Callable[[str, int], None]
"""A function that is called with the name of an object, and then with the number of its partitions."""


@dataclass(slots=True)
class _Found:
    """The files of a table: (path, size) of the largest file for each directory, and the names of the partitions."""

    largest: dict[str, tuple[str, int]] = field(default_factory=dict)
    partitions: dict[str, None] = field(default_factory=dict)
    loose: str | None = None
    highest_write_id: int = 0
    highest_txn_id: int = 0
    is_full_acid: bool = False


class Rebuilder:
    """A rebuild of the tables whose folders are on one cluster."""

    def __init__(
        self,
        services: Services,
        cluster: Cluster,
        *,
        user: str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._services = services
        self._cluster = cluster
        self._files = services.files(cluster)
        self._dry_run = dry_run
        self._progress = progress or (lambda _name, _files: None)
        state = SessionState(user=user, agent_info="hivex metastore rebuild", cluster=cluster.name)
        self._context = StatementContext(services, state)
        self._writer = TableWriter(services, cluster)

    def run(self, databases: str | None = None, tables: str | None = None) -> Iterator[ImportedObject]:
        """Yield the result for each database and table as soon as it is known.

        ``databases`` and ``tables`` are patterns as in SHOW, with ``*`` and ``|``.

        Raises:
            StorageError: the root of the cluster cannot be listed.
            StoreError: the database of this metastore cannot be used.
        """
        folders = [each for each in self._files.list_folders("") if each.endswith(_DATABASE)]
        names = {each.removesuffix(_DATABASE): each for each in folders}
        chosen = matching(list(names), databases)
        if chosen and not self._dry_run:
            # The marker of the root names the lost metastore.
            self._services.roots.accept(self._cluster.name)
        for name in chosen:
            yield (result := self._database(name))
            if result.outcome is not ImportOutcome.REFUSED:
                for table in matching(self._files.list_folders(names[name]), tables):
                    yield self._table(name, table, f"{names[name]}/{table}")

    def _database(self, name: str) -> ImportedObject:
        self._progress(name, 0)
        try:
            try:
                self._services.catalog.get_database(name)
            except NoSuchDatabaseError:
                if not self._dry_run:
                    self._services.catalog.create_database(Database(name=name))
                return ImportedObject("database", name, self._done)
        except StoreError:
            raise
        except HivexError as error:
            return ImportedObject("database", name, ImportOutcome.REFUSED, notes=(_sentence(error),))
        return ImportedObject("database", name, ImportOutcome.PRESENT)

    @property
    def _done(self) -> ImportOutcome:
        return ImportOutcome.PLANNED if self._dry_run else ImportOutcome.REBUILT

    def _table(self, database: str, name: str, location: str) -> ImportedObject:
        full_name = f"{database}.{name}"
        self._progress(full_name, 0)
        try:
            stored = self._stored(database, name)
            if stored is not None:
                return self._again(stored, location)
            looked = self._look(full_name, location)
            if not looked.largest and looked.loose is None:
                note = "its folder has no rows; create the table again by SQL"
                return ImportedObject("table", full_name, ImportOutcome.SKIPPED, notes=(note,))
            found = self._read(database, name, location, looked)
            if not self._dry_run:
                self._writer.write(self._context, found)
        except StoreError:
            raise
        except HivexError as error:
            return ImportedObject("table", full_name, ImportOutcome.REFUSED, notes=(_sentence(error),))
        return self._result(found)

    def _result(self, found: ImportedTable) -> ImportedObject:
        assert found.directories is not None
        directories = len(found.directories.found)
        return ImportedObject(
            found.kind, found.table.full_name, self._done, len(found.partitions), directories, found.notes
        )

    def _stored(self, database: str, name: str) -> StoredTable | None:
        try:
            return self._services.catalog.get_table(normalise(database), normalise(name))
        except (NoSuchTableError, NoSuchDatabaseError):
            return None

    def _again(self, stored: StoredTable, location: str) -> ImportedObject:
        """Give a table that was created again, and has no rows yet, the directories of its folder; return the result.

        Raises:
            InvalidOperationError: the rows in the folder need a definition of their own.
        """
        present = ImportedObject("table", stored.full_name, ImportOutcome.PRESENT)
        if not stored.is_transactional or stored.storage.primary != ClusterStorageDescriptor(
            self._cluster.name, location
        ):
            return present
        with self._services.store.read() as connection:
            if has_directories(connection, stored.id):
                return present
        found = self._look(stored.full_name, location)
        if not found.highest_write_id:
            return present
        described = self._filled(stored, found)
        assert described.directories is not None
        layouts = {each.row_layout for each in described.directories.found}
        if not layouts <= {FLAT_LAYOUT, PLAIN_LAYOUT}:
            reason = "its files have Hive's row ids; drop the empty table, and rebuild it from them"
            raise InvalidOperationError(_OPERATION, stored.full_name, reason)
        if not self._dry_run:
            catalog = self._services.catalog
            names = catalog.list_partition_names(stored.database, stored.name) if stored.is_partitioned else ()
            new = tuple(each for each in described.partitions if each.name not in names)
            self._writer.fill(self._context, stored, replace(described, partitions=new))
        return self._result(described)

    # -- reading ------------------------------------------------------------------------

    def _read(self, database: str, name: str, location: str, found: _Found) -> ImportedTable:
        """Return a table with its partitions and directories, from the files of its folder.

        Raises:
            InvalidOperationError: the folder is not of a managed table, or its directories do not fit together.
            InvalidObjectError: a file cannot be read.
        """
        full_name = f"{database}.{name}"
        if not found.largest:
            reason = f"its folder has no base or delta directory with rows, but {found.loose}"
            raise InvalidOperationError(_OPERATION, full_name, f"{reason}. Create an external table by SQL")
        described = self._columns(full_name, location, found)
        keys, values = _partition_keys(full_name, found.partitions)
        columns = tuple(Column(*each) for each in _united(full_name, [each for _, each in described]))
        layouts = {each.layout for _, each in described if each.layout is not None}
        first = described[0][1]
        properties = {"transactional": "true"}
        if not (layouts or found.is_full_acid):
            properties[TRANSACTIONAL_PROPERTIES] = INSERT_ONLY
        elif layouts == {HIVE_LAYOUT}:
            properties[ROW_LAYOUT] = HIVE_LAYOUT
        statement = CreateTable(
            table=TableName(name=name, database=database),
            columns=columns,
            partition_keys=tuple(Column(key, type_) for key, type_ in zip(keys, _types(values), strict=True)),
            format=first.format,
            properties=properties,
        )
        table = describe_table(self._context, statement, is_external=False)
        primary = ClusterStorageDescriptor(self._cluster.name, location)
        table = replace(table, storage=replace(table.storage, primary=primary))
        return replace(self._filled(table, found), notes=_notes(table))

    def _filled(self, table: Table, found: _Found) -> ImportedTable:
        """Return a table with the partitions and directories of its folder."""
        full_name, catalog = table.full_name, self._services.catalog
        partitions = tuple(catalog.new_partition(table, nullable_values(each)) for each in found.partitions)
        moved = [each.name for each, folder in zip(partitions, found.partitions, strict=True) if each.name != folder]
        if moved:
            reason = f"the folder of partition {moved[0]} has another name; register it by ADD PARTITION"
            raise InvalidOperationError(_OPERATION, full_name, reason)
        write_ids = ValidWriteIdList.of(full_name, found.highest_write_id)
        txns = ValidTxnList.of(found.highest_txn_id)
        reader = DirectoryReader(table, self._cluster, self._files, write_ids, txns)
        return ImportedTable(table, (), partitions, reader.read([each.name for each in partitions]))

    def _look(self, full_name: str, location: str) -> _Found:
        """Return the files of a folder.

        Raises:
            StorageError: the folder cannot be listed.
        """
        found = _Found()
        for path, size in self._files.walk(location):
            names = path.split("/")
            depth = next((number for number, each in enumerate(names) if "=" not in each), len(names))
            if any(each.startswith((".", "_")) for each in names[: depth + 1]):
                continue
            directory = parse_directory(names[depth]) if depth < len(names) - 1 else None
            if directory is None:
                found.loose = found.loose or path
                continue
            if depth:
                found.partitions.setdefault("/".join(names[:depth]))
            # The base of a TRUNCATE has hidden files only.
            found.highest_write_id = max(found.highest_write_id, directory.max_write_id)
            found.highest_txn_id = max(found.highest_txn_id, directory.visibility_txn_id)
            found.is_full_acid |= names[-1] == VERSION_FILE
            if directory.kind is not DirectoryKind.DELETE_DELTA and size and not names[-1].startswith((".", "_")):
                folder = "/".join(names[: depth + 1])
                found.largest[folder] = max(found.largest.get(folder, ("", 0)), (path, size), key=lambda each: each[1])
        self._progress(full_name, len(found.partitions))
        return found

    def _columns(self, full_name: str, location: str, found: _Found) -> list[tuple[int, FileColumns]]:
        """Return (write id, columns) of one file for each directory with rows, the newest directory first."""

        def read(item: tuple[str, tuple[str, int]]) -> tuple[int, FileColumns]:
            folder, (path, _) = item
            directory = parse_directory(folder.rpartition("/")[2])
            assert directory is not None
            return directory.max_write_id, read_columns(self._cluster.uri(f"{location}/{path}"))

        with ThreadPoolExecutor(_READERS) as pool:
            described = sorted(pool.map(read, found.largest.items()), key=lambda each: -each[0])
        formats = {each.format for _, each in described}
        if len(formats) > 1:
            raise InvalidOperationError(
                _OPERATION, full_name, f"its files have several formats: {', '.join(sorted(formats))}"
            )
        return described


def _united(full_name: str, files: Sequence[FileColumns]) -> list[tuple[str, str]]:
    """Return (name, type) of all columns: those of the newest file, and then those that only older files have."""
    united: dict[str, str] = {}
    for each in files:
        for name, type_ in each.columns:
            united.setdefault(name.lower(), type_)
    if not united:
        raise InvalidObjectError("table", full_name, "its files have no columns")
    return list(united.items())


def _partition_keys(full_name: str, names: Mapping[str, None]) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
    """Return the partition keys, and for each key the values of all partitions.

    Raises:
        InvalidOperationError: the folders of the partitions have different keys.
    """
    found = {tuple(part.partition("=")[0].lower() for part in name.split("/")) for name in names}
    if len(found) > 1:
        one, other = sorted(found)[:2]
        reason = f"some of its folders are partitions by {', '.join(one)}, and others by {', '.join(other)}"
        raise InvalidOperationError(_OPERATION, full_name, reason)
    if not found:
        return (), []
    return found.pop(), list(zip(*map(nullable_values, names), strict=True))


def _types(values: Sequence[Sequence[str | None]]) -> list[str]:
    """Return a type for each partition key: the narrowest of INT, BIGINT, DATE and STRING that writes all values so."""
    return [_type_of([each for each in of_key if each not in (None, DEFAULT_PARTITION)]) for of_key in values]


def _type_of(values: Sequence[str | None]) -> str:
    texts = [each for each in values if each is not None]
    if texts and all(map(_WHOLE.fullmatch, texts)):
        return "int" if all(-_INT <= int(each) < _INT for each in texts) else "bigint"
    return "date" if texts and all(map(_is_date, texts)) else "string"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _notes(table: Table) -> tuple[str, ...]:
    if not table.is_partitioned:
        return ()
    keys = ", ".join(f"{key.name} {key.type}" for key in table.partition_keys)
    return (f"the types of its partition keys are taken from their values: {keys}",)


def _sentence(error: HivexError) -> str:
    return " ".join(str(error).split())
