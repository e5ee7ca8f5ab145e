"""The registration of directories in a commit. Statements, compactions and conversions all use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from sqlalchemy import Connection

from airflow_hivex.core.catalog import capacity, directories, history, partition_rows, table_rows
from airflow_hivex.core.catalog.directories import NewDirectory
from airflow_hivex.core.errors import NoSuchPartitionError
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.row_ids import ORIGINAL_WRITE_ID
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import commit_record


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file that a table had before it became transactional. ``name`` is the file's path below its partition."""

    partition: str | None
    name: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Registration:
    """The directories of a table that a transaction has written on ``cluster``, and that its commit registers.

    ``partitions`` are the written partitions, also those without a directory. If ``adds_partitions`` is True, missing
    partitions are added. ``replaces`` is True if other directories had the rows before, as after a compaction.
    ``is_batch`` is True for the directories of a streaming batch; earlier transactions of the batch can have added
    files to these directories. If ``reveals_table`` is True, a hidden table becomes visible. ``operation`` names the
    statement in the record of the commit.
    """

    table: StoredTable
    cluster: str
    txn_id: int
    directories: tuple[NewDirectory, ...]
    partitions: frozenset[str] = field(default_factory=frozenset)
    adds_partitions: bool = False
    replaces: bool = False
    is_batch: bool = False
    reveals_table: bool = False
    operation: str = ""

    @property
    def grows(self) -> bool:
        """Return whether a quota applies to the added bytes. It does not apply to a compaction or a DELETE."""
        return not self.replaces and any(each.kind != "delete_delta" for each in self.directories)

    @classmethod
    def of_write(
        cls,
        table: StoredTable,
        write: TableWrite,
        written: Iterable[WrittenDirectory],
        *,
        reveals_table: bool = False,
    ) -> Self:
        """Return the registration of the directories that a statement has written."""
        first, last = write.batch or (write.write_id, write.write_id)
        found = tuple(
            NewDirectory(
                partition=each.partition,
                name=each.name,
                kind="base" if write.overwrite else "delete_delta" if each.is_delete_delta else "delta",
                min_write_id=0 if write.overwrite else first,
                max_write_id=last,
                statement_id=None if write.overwrite or write.batch else write.statement_id,
                row_layout=each.row_layout or table.row_layout,
                files=each.files,
                rows=each.rows,
                size_bytes=each.size_bytes,
            )
            for each in written
        )
        return cls(
            table,
            write.cluster,
            write.txn_id,
            found,
            frozenset() if write.partition is None else frozenset((write.partition,)),
            adds_partitions=True,
            is_batch=write.batch is not None,
            reveals_table=reveals_table,
            operation=write.statement or ("INSERT OVERWRITE" if write.overwrite else write.operation.name),
        )

    @property
    def partition_names(self) -> list[str]:
        """Return the sorted names of the partitions to which the directories belong."""
        return sorted(self.partitions | {each.partition for each in self.directories if each.partition is not None})

    @classmethod
    def of_compaction(
        cls, table: StoredTable, partition: str | None, written: Iterable[WrittenDirectory], txn_id: int, cluster: str
    ) -> Self:
        """Return the registration of the directories that a compaction has written.

        ``partition`` is None for a table without partitions.
        """
        found = []
        for each in written:
            named = parse_directory(each.name)
            if named is None or named.visibility_txn_id != txn_id:
                raise AssertionError(f"{each.name} is not named as one of the compaction in transaction {txn_id}")
            found.append(
                NewDirectory(
                    partition=partition,
                    name=each.name,
                    kind=named.kind.value,
                    min_write_id=named.min_write_id,
                    max_write_id=named.max_write_id,
                    visibility_txn_id=txn_id,
                    row_layout=each.row_layout or table.row_layout,
                    files=each.files,
                    rows=each.rows,
                    size_bytes=each.size_bytes,
                )
            )
        names = frozenset() if partition is None else frozenset((partition,))
        return cls(table, cluster, txn_id, tuple(found), names, replaces=True)

    @classmethod
    def of_originals(
        cls, table: StoredTable, files: Iterable[OriginalFile], row_layout: str, txn_id: int, cluster: str
    ) -> Self:
        """Return the registration of the files of a table that becomes transactional.

        Each file is registered separately, so that it can be deleted or copied separately.
        """
        found = tuple(
            NewDirectory(
                partition=file.partition,
                name=file.name,
                kind="original",
                min_write_id=ORIGINAL_WRITE_ID,
                max_write_id=ORIGINAL_WRITE_ID,
                row_layout=row_layout,
                files=1,
                rows=file.rows,
                size_bytes=file.size_bytes,
            )
            for file in files
        )
        return cls(table, cluster, txn_id, found)


def register(connection: Connection, registrations: Sequence[Registration], now_ms: int) -> list[list[int]]:
    """Register the directories of a transaction as part of its commit. Return the ids of new partitions.

    The result has one list of ids for each registration. Quotas are checked after all registrations.

    Raises:
        NoSuchTableError, NoSuchPartitionError: a table or partition was dropped meanwhile.
        PrimaryChangedError: the primary cluster of the table has changed since the directories were written.
        InvalidOperationError: files of a streaming batch have another row layout than the batch's earlier files.
        QuotaExceededError: a namespace would have more bytes than its quota.
    """
    # These changes have no write id. They come first, as they lock the rows of the tables for a change.
    table_rows.raise_versions(connection, [each.table.id for each in registrations if each.replaces])
    finding = [partition_rows.finding_ids(each.table, each.partition_names) for each in registrations]
    have_quotas, answers = table_rows.check_writable(
        connection, [(each.table, each.cluster) for each in registrations], [*chain(*finding)]
    )
    growing = [
        (each.table.database, each.cluster, each.table.id)
        for each, has_quota in zip(registrations, have_quotas, strict=True)
        if has_quota and each.grows
    ]
    # Always in the same order, so that commits to several namespaces do not wait for each other. Each namespace counts
    # once.
    of_namespaces = {(database, cluster): table_id for database, cluster, table_id in growing}
    uses = [capacity.lock_use(connection, of_namespaces[key], key[1]) for key in sorted(of_namespaces)]
    found = iter(answers)
    existing = [{row.name: row.id for _ in queries for row in next(found)} for queries in finding]
    added = [_register(connection, each, ids, now_ms) for each, ids in zip(registrations, existing, strict=True)]
    for use in uses:
        capacity.check_use(connection, use)
    return added


def _register(connection: Connection, registration: Registration, ids: dict[str, int], now_ms: int) -> list[int]:
    """Register directories, and return the ids of new partitions. ``ids`` has the existing partitions."""
    table, found = registration.table, registration.directories
    added: Mapping[str, int] = {}
    missing = [name for name in registration.partition_names if name not in ids]
    if missing and not registration.adds_partitions:
        raise NoSuchPartitionError(table.database, table.name, missing[0])
    if missing:
        added = partition_rows.insert_partitions(connection, table, dict.fromkeys(missing, ""), now_ms)
        if len(added) < len(missing):
            # A concurrent writer has added some of the partitions first.
            ids |= partition_rows.partition_ids(connection, table, missing)
    if any(each.kind == "original" for each in found):
        # Before this change the table was not transactional.
        history.begin_with(connection, table.id, registration.txn_id, now_ms)
    directories.insert_directories(
        connection,
        table,
        found,
        {**ids, **added},
        txn_id=registration.txn_id,
        cluster=registration.cluster,
        now_ms=now_ms,
        may_grow=registration.is_batch,
    )
    if not registration.replaces and table.is_transactional:
        _note_commit(connection, registration)
    return sorted(added.values())


def _note_commit(connection: Connection, registration: Registration) -> None:
    """Note the statement, and the numbers of its rows and bytes, for the record of the commit."""
    written, table_id = registration.directories, registration.table.id
    if registration.operation:
        commit_record.note_operation(connection, table_id, registration.operation)
    commit_record.note_volume(
        connection,
        table_id,
        added=sum(each.rows for each in written if each.kind != DirectoryKind.DELETE_DELTA.value),
        deleted=sum(each.rows for each in written if each.kind == DirectoryKind.DELETE_DELTA.value),
        size_bytes=sum(each.size_bytes for each in written),
    )
