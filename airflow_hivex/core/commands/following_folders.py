"""Folders that are renamed together with their tables.

Hive's clients expect that the folder of a managed table has the table's name: Spark refuses to rename or create a table
if the folder of the new name exists already. So a rename moves the folder, as a Hive Metastore does. Before the move,
the new location is stored with the table, so that the folder is moved back if the process is killed before the commit.

Source: Hive's HiveAlterHandler.alterTable; Spark's SessionCatalog.validateNewLocationOfRename.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.table_rows import free_location, lock_as_named, owner_at
from airflow_hivex.core.errors import AlreadyExistsError, HivexError, NoSuchTableError, StorageError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import MOVING_FOLDER, StoredTable, Table

log = logging.getLogger(__name__)

_VERSION = r"(?:\.v[0-9]{7})?"


@dataclass(slots=True)
class FollowingFolder:
    """The folder of a table that is being renamed. ``location`` is its new location, and empty before :meth:`move`."""

    context: StatementContext
    table: StoredTable
    name: tuple[str, str]
    wanted: str
    location: str = ""
    copied_from: str = ""

    def move(self, running: Running) -> None:
        """Move the folder, or copy it if the file system cannot move directories. The caller has the rename's locks.

        If the rename is rolled back, the folder is moved back.

        Raises:
            AlreadyExistsError: another table has the new name.
            StorageError: the folder cannot be moved.
        """
        if self.context.services.catalog.get_tables(self.name[0], [self.name[1]]):
            raise AlreadyExistsError("table", ".".join(self.name), "choose another name")
        files = _files(self.context, self.table)
        _move_back(self.context, files, self.table)
        source = self.table.storage.primary.location
        self.location = self._free(files)
        if not files.exists(source):
            return
        running.undo.append(lambda: _move_back(self.context, files, self.table))
        _note(self.context, self.table, self.location)
        if files.renames_directories:
            files.move_directory(source, self.location)
        else:
            files.copy_directory(source, self.location)
            self.copied_from = source

    def store(self, connection: Connection) -> None:
        """Store the new location of the folder. The table must already have its new name."""
        self.context.services.catalog.joining(connection).move_folder(*self.name, self.location)

    def finish(self) -> None:
        """Delete the old folder after the commit if it was copied and not moved. A failure is only logged."""
        if self.copied_from:
            try:
                _files(self.context, self.table).delete_directory(self.copied_from)
            except HivexError as error:
                log.warning("Folder %s of the renamed table %s stays: %s", self.copied_from, ".".join(self.name), error)

    def _free(self, files: ClusterFiles) -> str:
        """Return the wanted location. If it has files, or belongs to a dropped table, a number is appended."""
        cluster = self.table.storage.primary.cluster
        for number in count(1):
            place = self.wanted if number == 1 else f"{self.wanted}.v{number:07d}"
            with self.context.services.store.read() as connection:
                is_free = free_location(connection, cluster, place) == place
            files.delete_empty_directories(place, 1)
            if is_free and not files.exists(place):
                break
        return place


def following_folder(context: StatementContext, table: StoredTable, database: str, name: str) -> FollowingFolder | None:
    """Return the folder that moves with the rename of a table, or None if the folder stays.

    The folder stays if clients do not see the table as managed, or if the folder does not have the table's name.
    """
    if not table.is_managed_by_clients:
        return None
    catalog = context.services.catalog
    location = table.storage.primary.location
    parent, _, last = location.rpartition("/")
    is_own = re.fullmatch(re.escape(table.name) + _VERSION, last) is not None
    if not is_own or parent != catalog.get_database(table.database).location:
        return None
    new = (normalise(database), normalise(name))
    return FollowingFolder(context, table, new, f"{catalog.get_database(new[0]).location}/{new[1]}")


def rename_with_folder(
    context: StatementContext,
    table: StoredTable,
    locks: Sequence[LockComponent],
    change: Callable[[Connection, GivenList, int | None], None],
    folder: FollowingFolder | None,
) -> Result:
    """Apply a change that renames a table, and move its ``folder``. If ``folder`` is None, no file is moved."""
    if folder is None:
        return change_metadata(context, table, locks, change)

    def with_folder(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        change(connection, write_ids, txn_id)
        folder.store(connection)

    result = change_metadata(context, table, locks, with_folder, folder.move)
    folder.finish()
    return result


def without_note(table: Table) -> Table:
    """Return the table without the property that records the new location of a folder that is being moved."""
    return replace(table, parameters={key: value for key, value in table.parameters.items() if key != MOVING_FOLDER})


def move_back_folders(context: StatementContext) -> None:
    """Move back the folders of renames whose processes were killed before the commit.

    The table of a running rename is locked, and is skipped. Errors are logged.
    """
    catalog = context.services.catalog
    for database, name in catalog.tables_with_moving_folders():
        try:
            table = catalog.get_table(database, name)
            files = _files(context, table)

            def back(_: Running, files: ClusterFiles = files, table: StoredTable = table) -> None:
                _move_back(context, files, table)

            locks = context.services.statement_locks.convert_table(table)
            change_metadata(context, table, locks, _nothing, back)
        except NoSuchTableError:
            continue
        except HivexError as error:
            log.warning("The folder of table %s.%s is not in its place: %s", database, name, error)


def _nothing(_connection: Connection, _write_ids: GivenList, _txn_id: int | None) -> None:
    return


def _files(context: StatementContext, table: StoredTable) -> ClusterFiles:
    return context.services.files_to_change(context.services.clusters.get(table.storage.primary.cluster))


def _note(context: StatementContext, table: StoredTable, place: str | None) -> None:
    def work(connection: Connection) -> None:
        lock_as_named(connection, table)
        catalog = context.services.catalog.joining(connection)
        current = catalog.get_table(table.database, table.name)
        changed = without_note(current)
        if place is not None:
            changed = replace(changed, parameters={**changed.parameters, MOVING_FOLDER: place})
        if changed.parameters != current.parameters:
            catalog.alter_table(table.database, table.name, changed)

    context.services.store.write(work, name="note folder")


def _move_back(context: StatementContext, files: ClusterFiles, table: StoredTable) -> None:
    """Move the folder of a table back from the new location that is recorded.

    If the folder was copied, only delete the copy.

    Raises:
        StorageError: both locations have files, or the folder cannot be moved.
    """
    moved = context.services.catalog.get_table(table.database, table.name).parameters.get(MOVING_FOLDER)
    if moved is None:
        return
    location = table.storage.primary.location
    with context.services.store.read() as connection:
        owner = owner_at(connection, table.storage.primary.cluster, moved)
    if owner is None and files.exists(moved):
        if files.renames_directories and files.exists(location):
            raise StorageError(moved, f"files of table {table.full_name} are here and in {location}; put them together")
        if files.renames_directories:
            files.move_directory(moved, location)
        else:
            files.delete_directory(moved)
    _note(context, table, None)
