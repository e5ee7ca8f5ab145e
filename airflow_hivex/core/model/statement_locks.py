"""The locks of a statement. Pure. Source: docs/reference/locks.md, "Locks of statements" (Hive AcidUtils)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.objects import Table

_NONE = DataOperation.NO_TXN
_STRONGEST_FIRST = (DataOperation.UPDATE, DataOperation.DELETE)


class StatementLocks:
    """The rules of one configuration: what is asked for, by kind of statement and of table.

    ``partitions`` of a method are the names of those that are read or written; None stands for the
    whole table.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._exclusive_writes = bool(settings["hive.txn.xlock.write"])
        self._exclusive_overwrites = bool(settings["hive.txn.xlock.iow"])
        self._exclusive_ctas = bool(settings["hive.txn.xlock.ctas"])
        self._lockless_reads = bool(settings["hive.acid.lockless.reads.enabled"])
        self._read_locks = bool(settings["hive.txn.read.locks"])
        self._plain_read_locks = bool(settings["hive.txn.nonacid.read.locks"])
        self._external_locks = bool(settings["hive.txn.ext.locking.enabled"])
        self._most_partitions = int(settings["hive.locks.max.partitions"])

    @property
    def zero_wait_reads(self) -> bool:
        """Return whether a read that would have to wait is refused at once (docs/reference/locks.md, "Queue")."""
        return not (self._exclusive_overwrites and self._exclusive_writes)

    @property
    def exclusive_ctas(self) -> bool:
        """Return whether a second CREATE TABLE AS SELECT of a name is refused (docs/reference/locks.md, "Queue")."""
        return self._exclusive_ctas

    def read(self, table: Table, partitions: Sequence[str] | None) -> list[LockComponent]:
        """Return a query's locks on a table that it reads."""
        if not self._read_locks or not self._is_locked(table):
            return []
        wanted = not self._lockless_reads if table.is_transactional else self._plain_read_locks
        return self._on(table, partitions, LockType.SHARED_READ, DataOperation.SELECT) if wanted else []

    def insert(self, table: Table, partition: str | None) -> list[LockComponent]:
        """INSERT INTO; without ``partition`` into a partitioned table, the rows decide (dynamic).

        Writers of an external table are locked whatever ``hive.txn.ext.locking.enabled`` says.
        """
        shared = self._exclusive_writes and not self._lockless_reads
        lock_type = LockType.SHARED_READ if shared else LockType.SHARED_WRITE
        return [self._write(table, partition, lock_type, DataOperation.INSERT)]

    def insert_overwrite(self, table: Table, partition: str | None) -> list[LockComponent]:
        """INSERT OVERWRITE; it counts as update."""
        alone = self._exclusive_writes and self._exclusive_overwrites and not self._lockless_reads
        # Readers of an external table have no snapshot of the files that go.
        alone = alone or not table.is_transactional
        lock_type = LockType.EXCLUSIVE if alone else LockType.EXCL_WRITE
        return [self._write(table, partition, lock_type, DataOperation.UPDATE)]

    def change_rows(
        self, table: Table, partitions: Sequence[str] | None, operations: Collection[DataOperation]
    ) -> list[LockComponent]:
        """Return the target of UPDATE, DELETE or MERGE, by what it may do to rows that are there.

        Without ``partitions`` of a partitioned table, the rows decide (dynamic). A MERGE that only
        inserts locks as INSERT does.
        """
        operation = next((each for each in _STRONGEST_FIRST if each in operations), DataOperation.INSERT)
        if operation is DataOperation.INSERT:
            return self.insert(table, None)
        lock_type = LockType.EXCL_WRITE if self._exclusive_writes else LockType.SHARED_WRITE
        if partitions is None or 0 <= self._most_partitions < len(partitions) or DataOperation.INSERT in operations:
            # An INSERT of a MERGE may go to any partition.
            return [self._write(table, None, lock_type, operation)]
        return [self._write(table, each, lock_type, operation) for each in partitions]

    def truncate(self, table: Table, partitions: Sequence[str] | None) -> list[LockComponent]:
        """TRUNCATE TABLE. Unlike in Hive it counts as update, so that an UPDATE from before it conflicts."""
        if partitions is None or 0 <= self._most_partitions < len(partitions):
            return [self._write(table, None, LockType.EXCL_WRITE, DataOperation.UPDATE)]
        return [self._write(table, each, LockType.EXCL_WRITE, DataOperation.UPDATE) for each in partitions]

    def create_table(self, database: str) -> list[LockComponent]:
        """CREATE TABLE."""
        return [LockComponent(database, None, type=LockType.SHARED_READ, operation=_NONE)]

    def create_table_as_select(self, database: str, name: str) -> list[LockComponent]:
        """Return the new table of CREATE TABLE AS SELECT."""
        # The rows of a table that is not there yet are noted when it is.
        return [LockComponent(database, name, type=LockType.EXCL_WRITE, operation=_NONE, is_new_table=True)]

    def drop_table(self, table: Table) -> list[LockComponent]:
        """DROP TABLE."""
        return [*self.create_table(table.database), *self._change(table, None, LockType.EXCLUSIVE)]

    def replace_table(self, table: Table) -> list[LockComponent]:
        """Return the locks of a statement that puts a new table in the place of one; an external one is locked, too."""
        exclusive = LockComponent(table.database, table.name, type=LockType.EXCLUSIVE, operation=_NONE)
        return [*self.create_table(table.database), exclusive]

    def create_link(self, database: str, source: Table) -> list[LockComponent]:
        """CREATE LINK in a database: neither the database nor the source is dropped meanwhile."""
        return [*self.create_table(database), *self._change(source, None, LockType.SHARED_READ)]

    def drop_database(self, name: str) -> list[LockComponent]:
        """DROP DATABASE."""
        return [LockComponent(name, None, type=LockType.EXCLUSIVE, operation=_NONE)]

    def drop_partitions(self, table: Table, partitions: Sequence[str]) -> list[LockComponent]:
        """ALTER TABLE DROP PARTITION."""
        return self._change(table, partitions, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def rename_partition(self, table: Table, partitions: Sequence[str]) -> list[LockComponent]:
        """ALTER TABLE PARTITION RENAME, on the old name and the new one."""
        return self._change(table, partitions, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def add_partitions(self, table: Table, partitions: Sequence[str], *, if_not_exists: bool) -> list[LockComponent]:
        """ALTER TABLE ADD PARTITION."""
        alone = if_not_exists and table.is_transactional
        return self._change(table, partitions, LockType.EXCL_WRITE if alone else LockType.SHARED_READ)

    def alter_table(self, table: Table) -> list[LockComponent]:
        """ALTER TABLE RENAME and ADD COLUMNS."""
        return self._change(table, None, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def merge_schema(self, table: Table) -> list[LockComponent]:
        """Return the lock of an INSERT that adds columns: no other statement changes the columns meanwhile.

        Readers do not wait: their snapshots have no row with a value in a new column.
        """
        return [LockComponent(table.database, table.name, type=LockType.EXCL_WRITE, operation=_NONE)]

    def convert_table(self, table: Table) -> list[LockComponent]:
        """ALTER TABLE that makes a plain table transactional; an external one is locked as well."""
        return [LockComponent(table.database, table.name, type=LockType.EXCLUSIVE, operation=_NONE)]

    def set_properties(self, table: Table) -> list[LockComponent]:
        """ALTER TABLE SET or UNSET TBLPROPERTIES."""
        return self._change(table, None, LockType.SHARED_READ)

    def _is_locked(self, table: Table) -> bool:
        return self._external_locks or not table.is_external

    def _change(self, table: Table, partitions: Sequence[str] | None, type: LockType) -> list[LockComponent]:
        return self._on(table, partitions, type, _NONE) if self._is_locked(table) else []

    def _write(self, table: Table, partition: str | None, type: LockType, operation: DataOperation) -> LockComponent:
        return LockComponent(
            table.database,
            table.name,
            partition,
            type=type,
            operation=operation if table.is_transactional else _NONE,
            is_dynamic_partition_write=table.is_transactional and table.is_partitioned and partition is None,
        )

    def _on(
        self, table: Table, partitions: Sequence[str] | None, type: LockType, operation: DataOperation
    ) -> list[LockComponent]:
        if partitions is None or 0 <= self._most_partitions < len(partitions):
            return [LockComponent(table.database, table.name, type=type, operation=operation)]
        return [LockComponent(table.database, table.name, each, type=type, operation=operation) for each in partitions]
