"""A warehouse whose files are rows as JSON, written and compacted by hand: for tests of the cleaner without Spark.

A row is its write id and a number. A delete delta has rows that are gone, each with the write id of the delete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from sqlalchemy import Connection

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.catalog.partition_rows import partition_ids
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.model.directories import (
    base_name,
    delete_delta_name,
    delta_name,
    directory_state,
    parse_directory,
)
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.transactions import Operation, TxnType
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList, ValidWriteIdList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.store.schema import directories

Row = tuple[int, int]


class CompactedWarehouse:
    """Writes, compacts and reads tables of one ``database`` whose files are JSON."""

    def __init__(self, metastore: Metastore, root: Path) -> None:
        self.metastore = metastore
        self.store = metastore.services.store
        self.root = root
        self._numbers = 0

    def folder(self, table: str, partition: str | None = None, cluster: str = "c1") -> Path:
        """Where directories of a table or partition lie."""
        place = self.root / cluster / self._table(table).storage.primary.location
        return place / partition if partition else place

    def names(self, table: str, partition: str | None = None, cluster: str = "c1") -> set[str]:
        """The entries of that folder."""
        folder = self.folder(table, partition, cluster)
        return {each.name for each in folder.iterdir()} if folder.exists() else set()

    def write(
        self,
        table: str,
        partition: str | None = None,
        *,
        overwrite: bool = False,
        deletes: Sequence[Row] | None = None,
        ends: str = "commit",
        before_commit: Callable[[], object] | None = None,
    ) -> list[Row]:
        """One directory of a new transaction, which then commits, aborts, or is left as it is; the new rows.

        ``before_commit`` is what others do meanwhile.
        """
        found = self._table(table)
        transactions = self.metastore.transactions
        operation = Operation.DELETE if deletes is not None else Operation.UPDATE if overwrite else Operation.INSERT
        (txn_id,) = transactions.open()
        allocated = transactions.allocate_write_ids(
            [txn_id], "default", table, operation=operation, partition=partition
        )
        write_id = allocated[txn_id]
        self._numbers += 1
        rows: list[Row] = [] if deletes is not None else [(write_id, self._numbers)]
        if deletes is not None:
            name = delete_delta_name(write_id, write_id, 0)
            self._make(table, partition, name, [(write_id, *row) for row in deletes])
        else:
            name = base_name(write_id) if overwrite else delta_name(write_id, write_id, 0)
            self._make(table, partition, name, rows)
        if before_commit is not None:
            before_commit()
        if ends == "abort":
            transactions.abort(txn_id)
        if ends != "commit":
            return rows
        values = nullable_values(partition) if partition else ()
        made = WrittenDirectory(partition, values, name, 1, 1, self._size(table, partition, name), "flat")

        def register(connection: Connection) -> None:
            facts = TableWrite(txn_id, write_id, "c1", overwrite=overwrite, partition=partition)
            self.metastore.catalog.joining(connection).register(Registration.of_write(found, facts, [made]))

        transactions.commit(txn_id, register)
        return rows

    def compact(
        self, table: str, partition: str | None = None, type: str = "major", *, until: str | None = None
    ) -> int | None:
        """A compaction by hand, ready for cleaning; its id, or None where there is nothing to compact.

        One that was given back before is done first, and instead.
        With ``until`` "abort" its transaction is aborted after the files were written.
        """
        compactor, transactions = self.metastore.compactor, self.metastore.transactions
        compactor.request("default", table, partition, type)
        entry = compactor.queue.next_entry("host-1")
        if entry is None:
            return None
        table, partition, wanted = entry.table, entry.partition, entry.type.name.lower()
        found = self._table(table)
        (txn_id,) = transactions.open(type=TxnType.COMPACTION)
        seen = transactions.valid_txns(txn_id)
        (write_ids,) = transactions.valid_write_ids([found.full_name], seen).values()
        valid = ValidCompactorWriteIdList.from_snapshot(write_ids)
        entry = compactor.queue.mark_started(entry, txn_id, valid.high_watermark)
        state = directory_state(self.registered(table, partition), valid, seen)
        parsed = [each for name in state.deltas if (each := parse_directory(name))]
        made: list[str] = []
        if wanted == "major" and len(parsed) + bool(state.base) > 1:
            rows = self._merged(table, partition, [state.base] if state.base else [], state.deltas)
            made.append(base_name(valid.high_watermark, txn_id))
            self._make(table, partition, made[0], rows)
        elif wanted == "minor" and len(parsed) > 2:
            ids = min(each.min_write_id for each in parsed), max(each.max_write_id for each in parsed)
            for named, is_delete in ((delta_name, False), (delete_delta_name, True)):
                parts = [name for name in state.deltas if name.startswith("delete_") is is_delete]
                if parts:
                    made.append(named(*ids, visibility_txn_id=txn_id))
                    content = [row for name in parts for row in self._content(table, partition, name)]
                    self._make(table, partition, made[-1], content)
        if until == "abort":
            transactions.abort(txn_id)
            return None
        if not made and not state.obsolete:
            compactor.queue.mark_refused(entry, "nothing to do")
            transactions.abort(txn_id)
            return None

        def finish(connection: Connection) -> None:
            self._register(connection, found, partition, made, txn_id)
            compactor.queue.joining(connection).mark_ready_for_cleaning(entry)

        transactions.commit(txn_id, finish)
        return entry.id

    def registered(self, table: str, partition: str | None = None) -> list[str]:
        """The names of the registered directories of a place."""
        found = self._table(table)
        with self.store.read() as connection:
            d = directories.c
            query = directories.select().where(d.table_id == found.id)
            if partition is not None:
                query = query.where(d.partition_id == partition_ids(connection, found, [partition]).get(partition))
            return [row.name for row in connection.execute(query)]

    def read(self, session: Session, table: str, version: int | None = None) -> list[Row]:
        """The rows that a session sees, or those of a version, sorted; a file that is gone is an error."""
        found = session.snapshot_files(table, version=version)
        # A reader of files skips rows only where the snapshot says so.
        valid = ValidWriteIdList.parse(found.valid_write_ids if found.is_filtered else None)
        rows: list[Row] = []
        gone: set[Row] = set()
        for file in found.files:
            content = json.loads(Path(unquote(urlparse(file.uri).path)).read_text())
            if file.deletes:
                gone |= {(row[1], row[2]) for row in content if valid.is_valid(row[0])}
            else:
                rows += [(row[0], row[1]) for row in content if valid.is_valid(row[0])]
        return sorted(row for row in rows if row not in gone)

    def now(self, table: str) -> list[Row]:
        """The rows that a new reader sees."""
        with self.metastore.session(user="now") as session:
            return self.read(session, table)

    def copy(self, table: str, cluster: str) -> None:
        """Copy the table's folder to a cluster by other means, and register it there."""
        shutil.copytree(self.folder(table), self.folder(table, cluster=cluster), dirs_exist_ok=True)
        self.metastore.catalog.register_copy("default", table, cluster)

    def _merged(
        self, table: str, partition: str | None, bases: Iterable[str], deltas: Iterable[str]
    ) -> list[tuple[int, ...]]:
        rows: list[tuple[int, ...]] = []
        gone: set[tuple[int, ...]] = set()
        for name in (*bases, *deltas):
            content = self._content(table, partition, name)
            if name.startswith("delete_"):
                gone |= {row[1:] for row in content}
            else:
                rows += content
        return [row for row in rows if row not in gone]

    def _content(self, table: str, partition: str | None, name: str) -> list[tuple[int, ...]]:
        text = (self.folder(table, partition) / name / "bucket_00000").read_text()
        return [tuple(row) for row in json.loads(text)]

    def _size(self, table: str, partition: str | None, name: str) -> int:
        return (self.folder(table, partition) / name / "bucket_00000").stat().st_size

    def _make(self, table: str, partition: str | None, name: str, rows: Iterable[Sequence[int]]) -> None:
        folder = self.folder(table, partition) / name
        folder.mkdir(parents=True)
        (folder / "bucket_00000").write_text(json.dumps([list(row) for row in rows]))

    def _register(
        self, connection: Connection, table: StoredTable, partition: str | None, names: Iterable[str], txn_id: int
    ) -> None:
        values = nullable_values(partition) if partition else ()
        written = [
            WrittenDirectory(partition, values, name, 1, 1, self._size(table.name, partition, name), "flat")
            for name in names
        ]
        registration = Registration.of_compaction(table, partition, written, txn_id, "c1")
        self.metastore.catalog.joining(connection).register(registration)

    def _table(self, name: str) -> StoredTable:
        # Its own row: locations that are relative to the cluster.
        return self.metastore.catalog.get_table("default", name)
