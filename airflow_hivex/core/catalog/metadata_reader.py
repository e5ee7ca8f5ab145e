"""The methods of the ObjectStore that read tables and their contents as of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.contents import TableContents, read_contents
from airflow_hivex.core.catalog.snapshot_rows import read_snapshot, snapshot_call, table_calls
from airflow_hivex.core.catalog.store_part import StorePart
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.write_ids import TableMark, ValidTxnList
from airflow_hivex.core.snapshots.valid_lists import read_valid_write_ids, write_id_lists, write_ids_query
from airflow_hivex.core.store.exchange import together


def _by_name(found: Iterable[StoredTable]) -> dict[QualifiedName, StoredTable]:
    return {(table.database, table.name): table for table in found}


def _is_behind(table: StoredTable | None, mark: TableMark | None) -> bool:
    return table is None or mark is None or table.id != mark.id or table.version != mark.version


def later_snapshot(earlier: Snapshot, rows: Sequence[Any], txn_id: int | None) -> Snapshot | None:
    """Return a snapshot with the tables of an ``earlier`` snapshot, or None if a table has changed since ``earlier``.

    ``rows`` are the rows of ``snapshot_rows.snapshot_call`` for the transaction ``txn_id``.
    """
    read = read_snapshot(rows, txn_id)
    is_behind = any(_is_behind(table, read.marks.get(name)) for name, table in earlier.tables.items())
    if is_behind or not read.history.continues(earlier.history):
        return None
    return Snapshot(read.valid_txns, earlier.tables, read.write_ids, read.committed, read.history)


class SnapshotReading(StorePart):
    """The methods of ``ObjectStore`` that read tables, partitions, directories and copies as of a snapshot.

    A cache compares its entries with a snapshot to find out whether they are still valid (``Snapshot.agrees_with``). A
    snapshot has the write id list and the version of each table. A commit changes the write id list of the written
    table. Every other change that readers notice raises the version: the commit of a compaction, the removal of
    directories by the cleaner, a registration of copies, an addition of partitions, and a change of a table without
    write ids.
    """

    def snapshot(
        self,
        names: Collection[QualifiedName],
        txn_id: int | None = None,
        *,
        valid_txns: ValidTxnList | None = None,
        known: Iterable[StoredTable] = (),
    ) -> Snapshot:
        """Return a snapshot of the named tables: the tables and their write id lists at one moment.

        By default this is the current snapshot. If ``txn_id`` is given, it is the snapshot that this transaction takes
        now. If ``valid_txns`` is given, it is the earlier snapshot with these transactions. ``known`` are tables from
        an earlier snapshot of the caller; unchanged tables are not read again. The call takes one round trip, or more
        if a table of ``known`` has changed, or if ``valid_txns`` is given and a table is missing in ``known``.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: a table does not exist.
        """
        wanted = dict.fromkeys(names)
        found = _by_name(known)
        calls = [snapshot_call(wanted, txn_id)]
        if wanted.keys() - found.keys():
            calls += table_calls(wanted)
        shared: list[Any] | None = None
        if valid_txns is not None and wanted and not wanted.keys() - found.keys():
            ids = [found[name].id for name in wanted]
            with self._read() as connection:
                answer, shared = together(connection, *calls, write_ids_query(ids, valid_txns))
                rows = []
        else:
            answer, *rows = self._store.ask(*calls, connection=self._connection)
        read = read_snapshot(answer, txn_id)
        if rows:
            found.update(_by_name(table_rows.tables_from_rows(*rows)))
        behind = [name for name in wanted if _is_behind(found.get(name), read.marks.get(name))]
        if behind:
            with self._read() as connection:
                # Distinguishes a missing database from a missing table.
                found.update(_by_name([table_rows.select_table(connection, *name) for name in behind]))
            if any(found[name].id not in read.write_ids for name in behind):
                # The table was created during the read.
                return self.snapshot(names, txn_id, valid_txns=valid_txns)
        write_ids = read.write_ids
        if valid_txns is not None:
            named = {found[name].id: found[name].full_name for name in wanted}
            if shared is not None and not behind:
                write_ids = write_id_lists(named, [tuple(row) for row in shared], valid_txns)
            else:
                with self._read() as connection:
                    write_ids = read_valid_write_ids(connection, named, valid_txns)
        return Snapshot(
            valid_txns or read.valid_txns,
            {name: found[name] for name in wanted},
            write_ids,
            read.committed,
            read.history,
        )

    def contents(
        self,
        snapshot: Snapshot,  # noqa: ARG002 - for caches; the database is never stale
        table: StoredTable,
        predicate: Predicate | None,
        clusters: Collection[str],
    ) -> TableContents:
        """Return the partitions that match ``predicate``, with their directories and their copies on ``clusters``.

        The result has at least the directories that the snapshot sees; ``bind_table`` removes the others. Most reads
        take one round trip. A read takes more round trips if the database cannot decide the predicate and many
        partitions remain.
        """
        with self._read() as connection:
            return read_contents(connection, table, predicate, clusters)
