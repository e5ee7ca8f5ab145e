"""The commits to tables and partitions. Clients wait for commits, and store their reading position with a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, func, or_, select

from airflow_hivex.core.catalog.partition_rows import spelled_name
from airflow_hivex.core.catalog.table_events import of_table, record_table_event
from airflow_hivex.core.catalog.table_rows import select_table, select_table_for_change, update_table
from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, InvalidTransactionRequestError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.directories import DirectoryKind
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import (
    completed_txn_components,
    databases,
    directories,
    partitions,
    tables,
    txn_to_write_id,
)
from airflow_hivex.core.transactions.manager import TransactionManager

_MOST_OPEN_IDS = 1000
_META = "_meta"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A committed transaction that has written to a table or partition.

    ``partition`` is None for a table without partitions, or if the written partitions are not known.
    """

    table: str
    partition: str | None
    write_id: int
    txn_id: int
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Volume:
    """The numbers of rows and bytes that commits added to a table. An update adds the rows that it changes."""

    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A registered directory that a committed transaction has written.

    ``partition`` is None for a table without partitions.
    """

    txn_id: int
    table: str
    partition: str | None
    name: str
    kind: str
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CommitMark:
    """A position in the commits to a table.

    A transaction gets its write id when it begins to write, so a lower id can be committed after a higher id. The mark
    includes all commits up to ``write_id``, except commits with ``open_ids``: the write ids of transactions that were
    open. A later table of the same name continues with higher write ids; ``table_id`` shows which table is meant.
    """

    table_id: int
    write_id: int
    open_ids: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the mark as a JSON object."""
        return {"table_id": self.table_id, "write_id": self.write_id, "open_ids": list(self.open_ids)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the mark from a JSON object of :meth:`to_json`.

        Raises:
            InvalidObjectError: the value is not a valid mark.
        """
        try:
            return cls(int(value["table_id"]), int(value["write_id"]), tuple(int(one) for one in value["open_ids"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidObjectError("mark", repr(value), "it is not one that was taken of a table") from error


class Commits:
    """The service that reads the commits to tables, and commits a transaction together with a table's property.

    For each table and partition, the housekeeper never removes the records of the last commit and of the commit with
    the highest write id.
    """

    def __init__(self, store: Store, clock: Clock, transactions: TransactionManager) -> None:
        self._store = store
        self._clock = clock
        self._transactions = transactions

    def mark(self, database: str, table: str) -> CommitMark:
        """Return the position after all current commits to a table. Six round trips.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: the table does not exist.
            InvalidOperationError: the table is not transactional.
        """
        with self._store.read() as connection:
            table_id, full_name = _identify(_transactional(connection, database, table))
            snapshot = read_valid_txns(connection)
            seen = read_valid_write_ids(connection, {table_id: full_name}, snapshot)[table_id]
        if len(seen.open_ids) > _MOST_OPEN_IDS:
            # Clients store marks and read them back. An earlier point is safe: a commit may count twice, but none is
            # missed.
            return CommitMark(table_id, seen.open_ids[0] - 1)
        return CommitMark(table_id, seen.high_watermark, seen.open_ids)

    def after(
        self, database: str, table: str, partition: str | None = None, *, since: CommitMark | int | None = None
    ) -> TableCommit | None:
        """Return the last commit to a table or partition after ``since``, or None if there was no such commit.

        ``since`` is a mark or a write id. After a write id, only commits with higher write ids count. Without ``since``
        all commits count. The partition is ``key=value/...``, and need not exist yet. A commit without recorded
        partitions counts for all partitions. Three round trips.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: the table does not exist.
            InvalidOperationError: the table is not transactional.
            InvalidObjectError: the table cannot have such a partition.
        """
        completed = completed_txn_components.c
        with self._store.read() as connection:
            found = _transactional(connection, database, table)
            table_id, full_name = _identify(found)
            query = select(completed_txn_components).where(
                completed.table_id == table_id, completed.write_id.is_not(None)
            )
            if partition is not None:
                name = spelled_name(found, partition)
                query = query.where(or_(completed.partition == name, completed.partition.is_(None)))
            # A mark of an earlier table of the same name does not count: all commits are new.
            if isinstance(since, int) or (since is not None and since.table_id == table_id):
                query = query.where(_is_after(since))
            row = connection.execute(query.order_by(completed.id.desc()).limit(1)).one_or_none()
        if row is None:
            return None
        return TableCommit(full_name, row.partition, row.write_id, row.txn_id, to_datetime(row.committed_ms))

    def of_transactions(self, txn_ids: Sequence[int]) -> list[TableCommit]:
        """Return the commits of transactions to tables and partitions, oldest first. One round trip.

        A commit is missing if the housekeeping has removed its record.
        """
        completed = completed_txn_components.c
        named = databases.c.name.label("database_name"), tables.c.name.label("table_name")
        # Found by the tables of their write ids, which have an index.
        written = select(txn_to_write_id.c.table_id).where(txn_to_write_id.c.txn_id.in_(txn_ids))
        query = (
            select(completed_txn_components, *named)
            .join(tables, tables.c.id == completed.table_id)
            .join(databases, databases.c.id == tables.c.database_id)
            .where(completed.table_id.in_(written), completed.txn_id.in_(txn_ids), completed.write_id.is_not(None))
            .order_by(completed.id)
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return [
            TableCommit(
                f"{row.database_name}.{row.table_name}",
                row.partition,
                row.write_id,
                row.txn_id,
                to_datetime(row.committed_ms),
            )
            for row in rows
        ]

    def directories_of(self, txn_ids: Sequence[int], limit: int) -> list[WrittenDirectory]:
        """Return the registered directories that committed transactions have written, oldest first. One round trip.

        A directory is missing if it was compacted and cleaned meanwhile.
        """
        d = directories.c
        written = select(txn_to_write_id.c.table_id).where(txn_to_write_id.c.txn_id.in_(txn_ids))
        query = (
            select(
                d.txn_id,
                databases.c.name.label("database_name"),
                tables.c.name.label("table_name"),
                partitions.c.name.label("partition_name"),
                d.name,
                d.kind,
                d.files,
                d.rows,
                d.size_bytes,
            )
            .join(tables, tables.c.id == d.table_id)
            .join(databases, databases.c.id == tables.c.database_id)
            .outerjoin(partitions, partitions.c.id == d.partition_id)
            .where(d.table_id.in_(written), d.txn_id.in_(txn_ids))
            .order_by(d.id)
            .limit(limit)
        )
        with self._store.read() as connection:
            return [
                WrittenDirectory(txn_id, f"{database}.{table}", *others)
                for txn_id, database, table, *others in connection.execute(query)
            ]

    def volumes(self, txn_ids: Sequence[int]) -> dict[str, Volume]:
        """Return a dict from table to the rows and bytes that committed transactions have added. One round trip.

        A table is missing if its directories were compacted and cleaned meanwhile.
        """
        written = select(txn_to_write_id.c.table_id).where(txn_to_write_id.c.txn_id.in_(txn_ids))
        query = (
            select(
                databases.c.name.label("database_name"),
                tables.c.name.label("table_name"),
                func.sum(directories.c.rows).label("row_count"),
                func.sum(directories.c.size_bytes).label("size_bytes"),
            )
            .join(tables, tables.c.id == directories.c.table_id)
            .join(databases, databases.c.id == tables.c.database_id)
            .where(
                directories.c.table_id.in_(written),
                directories.c.txn_id.in_(txn_ids),
                directories.c.kind != DirectoryKind.DELETE_DELTA.value,
            )
            .group_by(databases.c.name, tables.c.name)
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return {
            f"{row.database_name}.{row.table_name}": Volume(int(row.row_count), int(row.size_bytes)) for row in rows
        }

    def commit_with_property(self, txn_id: int, database: str, table: str, key: str, value: str) -> None:
        """Commit a transaction and set one property of a table, such as a reader's offset, in one database transaction.

        Source: Hive CommitTxnKeyValue.

        Raises:
            InvalidTransactionRequestError: the key does not start with ``_meta``, or the table has no such property.
            TransactionNotOpenError: the transaction is not open, or is read-only.
            NoSuchTableError: the table does not exist.
        """
        if not key.startswith(_META):
            raise InvalidTransactionRequestError(f"A commit sets no property {key}; its name starts with {_META}.")

        def change(connection: Connection) -> None:
            found = select_table_for_change(connection, database, table)
            if key not in found.parameters:
                raise InvalidTransactionRequestError(f"Table {found.full_name} has no property {key} to set.")
            changed = replace(found, parameters={**found.parameters, key: value})
            if found.is_transactional:
                self._transactions.allocate_in(connection, [txn_id], found.id)
            update_table(connection, found, changed)
            message = of_table(changed, was=found.name)
            record_table_event(connection, self._clock(), EventType.ALTER_TABLE, changed, None, txn_id, message)

        self._transactions.commit(txn_id, change)


def _transactional(connection: Connection, database: str, name: str) -> StoredTable:
    table = select_table(connection, database, name)
    if not table.is_transactional:
        reason = "it is not transactional, so that the metastore does not know when it was written to"
        raise InvalidOperationError("Waiting for commits to", table.full_name, reason)
    return table


def _identify(table: StoredTable) -> tuple[int, str]:
    return table.id, table.full_name


def _is_after(since: CommitMark | int) -> ColumnElement[bool]:
    write_id = completed_txn_components.c.write_id
    if isinstance(since, int):
        return write_id > since
    return or_(write_id > since.write_id, write_id.in_(since.open_ids))
