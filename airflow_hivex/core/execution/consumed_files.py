"""The files that LOAD DATA and EXCHANGE PARTITION read into a table, and delete after the commit.

A row of ``pending_writes`` names the files before they are read. Because of this row, a second statement does not take
the same file, and the housekeeping deletes the files if the process is killed after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from airflow_hivex.core.errors import HivexError, InvalidOperationError
from airflow_hivex.core.execution.context import Running, Services, StatementContext
from airflow_hivex.core.files.filesystem import ClusterFiles, FileStamp
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import pending_writes
from airflow_hivex.core.transactions.pending_writes import PendingWrite

log = logging.getLogger(__name__)

Folders = Mapping[str, Mapping[str, FileStamp]]
"""A dict from folder to a dict from file name to stamp. The file name is empty if the folder is itself a file."""


@dataclass(frozen=True, slots=True)
class ConsumedFiles:
    """The files of one cluster that a statement reads and then deletes.

    A row of ``pending_writes`` names the files until they are deleted.
    """

    id: int
    txn_id: int
    cluster: str
    folders: Folders
    depth: int

    def register(self, connection: Connection) -> None:
        """Record in the caller's commit that the files can be deleted."""
        pending_writes.change_document(connection, self.id, registered=True)

    def finish(self, services: Services) -> None:
        """Delete the files after the commit. The housekeeping deletes files that cannot be deleted now."""
        _delete(services, self)


def take(
    context: StatementContext, running: Running, table: StoredTable, cluster: str, folders: Folders, depth: int = 0
) -> ConsumedFiles:
    """Record the files that a statement is about to read for a table.

    Folders that are empty after the deletion are deleted, too, up to ``depth`` levels.

    Raises:
        InvalidOperationError: another statement is loading one of the files now, or has loaded it already.
        TransactionNotOpenError: the transaction has ended meanwhile.
    """
    services = context.services

    def note(connection: Connection) -> ConsumedFiles:
        pending_writes.one_at_a_time(connection, [running.txn_id])
        services.transactions.check_open(connection, running.txn_id)
        facts = TableWrite(running.txn_id, 0, cluster, pending_writes.CONSUMES, statement=context.kind)
        write = pending_writes.begin(connection, table, facts, writer="")
        shown = {
            place: {name: [each.size_bytes, each.changed] for name, each in names.items()}
            for place, names in folders.items()
        }
        pending_writes.change_document(connection, write.id, consumed=shown, depth=depth)
        return ConsumedFiles(write.id, running.txn_id, cluster, folders, depth)

    taken = services.store.write(note, name="take files")
    running.undo.append(lambda: services.store.write(lambda connection: pending_writes.forget(connection, [taken.id])))
    # This is checked after the own row is written, so that at least one of two concurrent statements sees the other.
    with services.store.read() as connection:
        others = pending_writes.that_consume(connection)
        states = pending_writes.states(connection, {each.facts.txn_id for each in others})
    for write in others:
        common = None if write.id == taken.id else _common(taken, _from(write))
        state = states.get(write.facts.txn_id)
        if common is None or (state is not TxnState.OPEN and not write.is_registered):
            continue
        if state is TxnState.OPEN:
            reason = f"transaction {write.facts.txn_id} loads {common} at the same time; try again when it has ended"
        else:
            settle(services, write)
            reason = f"transaction {write.facts.txn_id} has loaded {common}, which is deleted now; try again"
        raise InvalidOperationError(context.kind, table.full_name, reason)
    return taken


def settle(services: Services, write: PendingWrite) -> bool:
    """Delete the recorded files if the statement's transaction has committed, and remove the record.

    Return False, and keep the record, if a file could not be deleted.
    """
    if write.is_registered:
        return _delete(services, _from(write))
    services.store.write(lambda connection: pending_writes.forget(connection, [write.id]))
    return True


def _from(write: PendingWrite) -> ConsumedFiles:
    noted = write.consumed or {}
    folders = {place: {name: FileStamp(*stamp) for name, stamp in names.items()} for place, names in noted.items()}
    return ConsumedFiles(write.id, write.facts.txn_id, write.facts.cluster, folders, write.depth)


def _common(one: ConsumedFiles, other: ConsumedFiles) -> str | None:
    """Return the location of a file that both statements read, or None.

    If the file was replaced or changed between the two listings, it counts as two files.
    """
    if one.cluster != other.cluster:
        return None
    theirs = {_location(place, name): stamp for place, names in other.folders.items() for name, stamp in names.items()}
    for place, names in one.folders.items():
        for name, stamp in names.items():
            location = _location(place, name)
            if theirs.get(location) == stamp:
                return location
    return None


def _location(place: str, name: str) -> str:
    return f"{place}/{name}" if name else place


def _delete(services: Services, consumed: ConsumedFiles) -> bool:
    """Delete the files, and return whether this succeeded.

    A file that has changed since it was listed stays, since it can have rows that were not read.
    """
    try:
        files = services.files_to_change(services.clusters.get(consumed.cluster))
        for place, names in consumed.folders.items():
            for name, stamp in names.items():
                _delete_file(files, _location(place, name), stamp)
            files.delete_empty_directories(place, consumed.depth)
    except HivexError as error:
        log.warning("Files that transaction %s has loaded are still there: %s", consumed.txn_id, error)
        return False
    services.store.write(lambda connection: pending_writes.forget(connection, [consumed.id]))
    return True


def _delete_file(files: ClusterFiles, location: str, stamp: FileStamp) -> None:
    found = files.stamp(location)
    if found not in (stamp, None):
        log.warning("%s is loaded and stays: it was changed after it was read", location)
        return
    files.delete_file(location)
    if files.local_path(location) is not None:
        # Hadoop would compare the next file of that name with these sums.
        folder, slash, name = location.rpartition("/")
        files.delete_file(f"{folder}{slash}.{name}.crc")
