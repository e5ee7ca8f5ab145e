"""A statement's write to an external table: files in a hidden folder, moves of the files, and the catalog.

Readers see no new row before the files are moved. A record in ``pending_writes`` names the folders. If the process is
killed before the commit, the housekeeping deletes the files of the statement. If the process is killed after the
commit, the housekeeping deletes the replaced files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from airflow_hivex.core.catalog import partition_rows, table_rows
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import HivexError, InvalidOperationError, NoSuchTableError
from airflow_hivex.core.execution.context import Running, Services, StatementContext
from airflow_hivex.core.execution.folder_owners import linked_owner
from airflow_hivex.core.files import external_files
from airflow_hivex.core.files.external_files import NewFiles
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import pending_writes
from airflow_hivex.core.transactions.pending_writes import PendingWrite

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishedWrite:
    """A write whose files are in their final folders.

    ``locations`` is a dict from partition to folder. The partition is None for a table without partitions.
    """

    table: StoredTable
    pending: PendingWrite
    locations: dict[str | None, str]


def begin(
    context: StatementContext, running: Running, table: StoredTable, facts: TableWrite
) -> tuple[TableWrite, PendingWrite]:
    """Record a write to an external table. Return a pair: the write with a token, and its row of ``pending_writes``.

    The names of the written files contain the token.

    Raises:
        InvalidOperationError: the statement is part of a transaction of several statements, or a partition has another
            format.
    """
    if running.joined is not None:
        reason = (
            f"its files would be visible before transaction {running.txn_id} commits; COMMIT or ROLLBACK comes first"
        )
        raise InvalidOperationError("A write in a transaction to", table.full_name, reason)
    if facts.partition is not None:
        with context.services.store.read() as connection:
            partition_rows.locations_of(connection, table, [facts.partition])
    return context.services.store.write(lambda connection: note(context, connection, running, table, facts))


def note(
    context: StatementContext, connection: Connection, running: Running, table: StoredTable, facts: TableWrite
) -> tuple[TableWrite, PendingWrite]:
    """Record a write as :func:`begin` does, in the caller's database transaction; return the same pair."""
    token = f"{running.tag.removeprefix('hivex_')}_{facts.statement_id}"
    facts = replace(facts, write_id=1, operation=Operation.INSERT, token=token)
    pending_writes.one_at_a_time(connection, [running.txn_id])
    context.services.transactions.check_open(connection, running.txn_id)
    return facts, pending_writes.begin(connection, table, facts, writer="")


def publish(
    context: StatementContext,
    running: Running,
    table: StoredTable,
    facts: TableWrite,
    pending: PendingWrite,
    directories: Sequence[WrittenDirectory],
) -> PublishedWrite:
    """Move the files of a job into the folders of the table.

    Raises:
        InvalidOperationError: a partition that gets rows has another format than the table, or symbolic links lead out
            of the cluster's root or to the files of another table.
        StorageError: a file could not be moved.
        TransactionNotOpenError, WriteTakenBackError: the transaction has ended meanwhile.
    """
    services = context.services
    names = {each.partition for each in directories} | {facts.partition}
    if table.is_partitioned:
        names.discard(None)
    root = table.storage.primary.location
    staging = f"{root}/{facts.staging_name}"
    staged = {
        each.partition: f"{staging}/{each.name}"
        if each.partition is None
        else f"{staging}/{each.partition}/{each.name}"
        for each in directories
    }

    def work(connection: Connection) -> dict[str | None, str]:
        pending_writes.one_at_a_time(connection, [running.txn_id])
        services.transactions.check_open(connection, running.txn_id)
        pending_writes.check_owned(connection, table.full_name, pending)
        known = partition_rows.locations_of(connection, table, [name for name in names if name is not None])
        found: dict[str | None, str] = {
            name: root if name is None else known.get(name, f"{root}/{name}")
            for name in sorted(names, key=lambda name: name or "")
        }
        pending_writes.change_document(connection, pending.id, places=list(found.values()))
        return found

    locations = services.store.write(work)
    files = services.files_to_change(services.clusters.get(facts.cluster))
    for place in locations.values():
        outside = files.link_target(place)
        if outside is not None:
            reason = f"{place} leads by symbolic links to {outside}, out of the root of its cluster"
            raise InvalidOperationError("INSERT", table.full_name, reason)
        owner = linked_owner(services, files, place, services.clusters.get(facts.cluster).uri(place))
        if owner is not None:
            reason = f"{place} leads by symbolic links to the files of {owner}"
            raise InvalidOperationError("INSERT", table.full_name, reason)
    overwrites = {name: facts.overwrite and (name in staged or name == facts.partition) for name in locations}
    new = [NewFiles(place, staged.get(name), overwrites[name]) for name, place in locations.items()]
    published = replace(pending, places=tuple(locations.values()))
    # If this process was taken for dead, the housekeeping has deleted all files but the ones moved since then.
    running.undo.append(partial(settle, services, published, own=True))
    external_files.publish(files, new, facts.token, table.storage.format, running.check_not_cancelled)
    return PublishedWrite(table, pending, locations)


def register(services: Services, connection: Connection, write: PublishedWrite) -> None:
    """Register the partitions of a write in the commit of the statement's transaction.

    New partitions are added, an event names the changed partitions, and copies on other clusters are withdrawn.

    Raises:
        NoSuchTableError: the table was dropped meanwhile.
        PrimaryChangedError: another cluster is the table's primary now.
        InvalidOperationError: the table or one of the partitions was moved or replaced meanwhile.
    """
    table = write.table
    if not table_rows.lock_for_change(connection, [table.id]):
        raise NoSuchTableError(table.database, table.name)
    table_rows.check_writable(connection, [(table, table.storage.primary.cluster)])
    catalog = services.catalog.joining(connection)
    database, name = table.database, table.name
    current = catalog.get_table(database, name)
    if (current.id, current.storage.primary, current.is_external) != (table.id, table.storage.primary, True):
        raise InvalidOperationError("INSERT", table.full_name, "it was changed meanwhile; try again")
    pending_writes.change_document(connection, write.pending.id, registered=True)
    if not table.is_partitioned:
        for copy in current.storage.secondaries:
            catalog.unregister_copy(database, name, copy.cluster)
        catalog.alter_table(database, name, catalog.get_table(database, name), None)
        return
    names = [each for each in write.locations if each is not None]
    new = [catalog.new_partition(table, nullable_values(each)) for each in names]
    added = set(catalog.add_partitions(database, name, new, None, if_not_exists=True)) if new else set()
    moved = [
        each
        for each, place in partition_rows.locations_of(connection, table, names).items()
        if place != write.locations[each]
    ]
    if moved:
        raise InvalidOperationError("INSERT", f"{table.full_name} {moved[0]}", "it was changed meanwhile; try again")
    there = catalog.get_partitions_by_names(database, name, [each for each in names if each not in added])
    by_cluster: dict[str, list[str]] = {}
    for partition in there:
        for copy in partition.secondaries:
            by_cluster.setdefault(copy.cluster, []).append(partition.name)
    for cluster, copied in sorted(by_cluster.items()):
        catalog.unregister_copy(database, name, cluster, copied)
    if there:
        catalog.alter_partitions(database, name, there, None)


def register_new(connection: Connection, write: PublishedWrite, txn_id: int) -> Registration:
    """Record in the caller's commit that a new table's rows were written; return what the catalog must register."""
    pending_writes.change_document(connection, write.pending.id, registered=True)
    names = frozenset(each for each in write.locations if each is not None)
    cluster = write.table.storage.primary.cluster
    return Registration(write.table, cluster, txn_id, (), names, adds_partitions=True, reveals_table=True)


def finish(services: Services, write: PublishedWrite) -> None:
    """Delete the replaced files of a write that has committed. The housekeeping deletes the files that remain."""
    _settle_one(services, write.pending, tuple(write.locations.values()), counts=True)


def settle(services: Services, write: PendingWrite, *, own: bool) -> bool:
    """Withdraw the write of an aborted transaction, or finish the write of a committed transaction.

    Return whether all work is done. With ``own`` the caller is the failing statement itself, whose transaction is
    aborted.
    """

    def work(connection: Connection) -> PendingWrite | None:
        txn_id = write.facts.txn_id
        pending_writes.one_at_a_time(connection, [txn_id])
        state = pending_writes.states(connection, [txn_id]).get(txn_id)
        current = pending_writes.read(connection, write.id)
        if current is None and own:
            return write
        if current is None or (state is TxnState.OPEN and not own):
            return None
        if not current.is_registered:
            pending_writes.mark_taken_back(connection, [write.id])
        return current

    current = services.store.write(work)
    return current is not None and _settle_one(services, current, current.places, counts=current.is_registered)


def _settle_one(services: Services, write: PendingWrite, places: Sequence[str], *, counts: bool) -> bool:
    facts = write.facts
    try:
        files = services.files_to_change(services.clusters.get(facts.cluster))
        if counts:
            external_files.settle(files, places, facts.token)
        else:
            external_files.take_back(files, places, facts.token, write.depth)
        # A server's job may still write there. Then the next housekeeping deletes its files.
        files.delete_directory(f"{write.root}/{facts.staging_name}")
    except HivexError as error:
        log.warning("Files of transaction %s in the external table at %s are left: %s", facts.txn_id, write.root, error)
        return False
    services.store.write(lambda connection: pending_writes.forget(connection, [write.id]))
    return True
