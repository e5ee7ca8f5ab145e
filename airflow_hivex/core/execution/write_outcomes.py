"""The outcomes of the writes of statements: a commit registers a write, or the write and its files are withdrawn."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from sqlalchemy import Connection

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.execution import consumed_files, external_writes
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import allocation, pending_writes
from airflow_hivex.core.transactions.pending_writes import PendingWrite

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 1000


def register_writes(
    services: Services,
    connection: Connection,
    writes: Sequence[tuple[StoredTable, TableWrite, Sequence[WrittenDirectory]]],
    *,
    reveals_table: bool = False,
) -> None:
    """Register the writes of a statement's own transaction in its commit.

    The transaction's records of changed tables and partitions, its components, are updated: they name the partitions
    that were really changed.

    Raises:
        NoSuchTableError: a table was dropped meanwhile.
        QuotaExceededError: a namespace would have more bytes than its quota.
    """
    registrations = [
        Registration.of_write(table, write, directories, reveals_table=reveals_table)
        for table, write, directories in writes
    ]
    services.catalog.joining(connection).register(*registrations)
    for table, write, directories in writes:
        if write.operation in (Operation.UPDATE, Operation.DELETE) and not write.overwrite:
            # The locks have noted all partitions that might change. Only the partitions that did change stay noted.
            done = write.operations(directories)
            allocation.replace_components(connection, write.txn_id, {(table.id, each, kind) for each, kind in done})
        elif table.is_partitioned and write.partition is None:
            names = sorted(each.partition for each in directories if each.partition is not None)
            allocation.add_dynamic_partitions(
                connection, write.txn_id, table.id, names, write.operation, write.write_id
            )


def take_back(services: Services, writes: Sequence[PendingWrite], *, own: bool = False) -> int:
    """Withdraw writes and delete their files. The writes of a committed transaction stay.

    Return the number of writes that are completely removed. With ``own`` the caller is the failing statement itself,
    and a write that another session has taken over stays. If the files of a write cannot be deleted, the record of the
    write stays for :func:`delete_abandoned`.
    """
    external = [write for write in writes if write.facts.token]
    settled = sum(external_writes.settle(services, write, own=own) for write in external)
    settled += sum(consumed_files.settle(services, write) for write in writes if write.consumed is not None)
    writes = [write for write in writes if not write.facts.token and write.consumed is None]
    if not writes:
        return settled

    def mark(
        connection: Connection,
    ) -> tuple[list[PendingWrite], dict[int, StoredTable], dict[int, frozenset[str | None]]]:
        txn_ids = {write.facts.txn_id for write in writes}
        pending_writes.one_at_a_time(connection, txn_ids)
        states = pending_writes.states(connection, txn_ids)
        resumed = pending_writes.resumed_by_others(connection, writes) if own else frozenset()
        ids = [write.id for write in writes if write.id not in resumed]
        there = pending_writes.mark_taken_back(connection, ids)
        mine = []
        kept = {}
        for write in writes:
            if write.id in resumed:
                continue
            before = there.get(write.id)
            is_open = states.get(write.facts.txn_id) is TxnState.OPEN
            if is_open and write.facts.overwrite and (before is None or (before and own)):
                # Another process has deleted it, or is deleting it. A later try may have made its base directories
                # again.
                continue
            mine.append(write)
            if before is None and not is_open and states.get(write.facts.txn_id) is not TxnState.ABORTED:
                kept[write.id] = pending_writes.registered(connection, write)
            if write.facts.overwrite and write.directories is None:
                # All base directories of one write id have one name.
                others = pending_writes.overwritten_by_others(connection, write, ids)
                kept[write.id] = others | pending_writes.registered(connection, write)
        return mine, _tables(connection, writes), kept

    mine, by_id, kept = services.store.write(mark)
    deleted = [
        write.id
        for write in mine
        if _delete(services, write, by_id.get(write.table_id), kept.get(write.id, frozenset()))
    ]
    if deleted:
        services.store.write(lambda connection: pending_writes.forget(connection, deleted))
    return settled + len(deleted)


def take_back_writer(services: Services, txn_id: int, writer: str | None = None, *, before: int | None = None) -> None:
    """Withdraw all writes of a transaction, or of one writer.

    With ``before``, only writes of sessions whose ``began`` is lower than ``before`` are withdrawn.
    """
    with services.store.read() as connection:
        found = pending_writes.of_transaction(connection, txn_id, writer=writer)
    writes = [write for write in found if before is None or write.began < before]
    if writes:
        take_back(services, writes)


def delete_abandoned(services: Services) -> int:
    """Delete the files of writes that no commit can register any more, and return the number of these writes.

    Such writes are those of aborted transactions and of killed statements.
    """
    gone = after = 0
    while True:
        with services.store.read() as connection:
            writes = pending_writes.of_ended_transactions(connection, after, _MOST_AT_ONCE)
        if not writes:
            return gone
        gone += take_back(services, writes)
        after = writes[-1].id


def delete_directories(
    services: Services, table: Table, directories: Iterable[WrittenDirectory], cluster: str, write: Write
) -> None:
    """Delete the directories of an aborted write, or, in a streaming batch, only the files of this write."""
    try:
        files = services.files_to_change(services.clusters.get(cluster))
        for directory in directories:
            if write.batch is None:
                _delete_directory(files, table, directory.partition, directory.name)
            else:
                _delete_files(files, f"{_folder(table, directory.partition)}/{directory.name}", write.batch_suffix)
    except HivexError as error:
        log.warning("Files of an aborted write to %s could not be deleted: %s", table.full_name, error)


def _delete(services: Services, write: PendingWrite, table: Table | None, kept: Collection[str | None]) -> bool:
    if table is None:
        # Its folder went with the table.
        return True
    root = table.storage.primary.location
    try:
        files = services.files_to_change(services.clusters.get(write.facts.cluster))
        for partition in _partitions(files, table, write):
            if partition not in kept:
                for name in write.facts.directory_names:
                    _delete_directory(files, table, partition, name)
        files.delete_directory(f"{root}/{write.facts.staging_name}")
    except HivexError as error:
        log.warning(
            "Files of transaction %s in %s could not be deleted: %s", write.facts.txn_id, table.full_name, error
        )
        return False
    return True


def _partitions(files: ClusterFiles, table: Table, write: PendingWrite) -> Iterable[str | None]:
    """Return the partitions in which a write has directories. For a killed statement, the folders are listed."""
    if not table.is_partitioned:
        return (None,)
    if write.facts.partition is not None:
        return (write.facts.partition,)
    if write.directories is not None:
        return sorted(each.partition for each in write.directories if each.partition is not None)
    root, depth = table.storage.primary.location, len(table.partition_keys)
    found = (files.find_directories(root, name, depth) for name in write.facts.directory_names)
    return dict.fromkeys(chain.from_iterable(found))


def _folder(table: Table, partition: str | None) -> str:
    root = table.storage.primary.location
    return root if partition is None else f"{root}/{partition}"


def _delete_files(files: ClusterFiles, directory: str, suffix: str) -> None:
    for name in files.list_files(directory):
        if name.endswith(suffix):
            files.delete_file(f"{directory}/{name}")


def _delete_directory(files: ClusterFiles, table: Table, partition: str | None, name: str) -> None:
    folder = _folder(table, partition)
    files.delete_directory(f"{folder}/{name}")
    files.delete_empty_directories(folder, len(table.partition_keys))


def _tables(connection: Connection, writes: Iterable[PendingWrite]) -> dict[int, StoredTable]:
    found = table_rows.select_tables_by_id(connection, {write.table_id for write in writes})
    return {table.id: table for table in found}
