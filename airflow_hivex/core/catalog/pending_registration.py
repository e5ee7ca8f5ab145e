"""The registration of the pending writes of a transaction of several statements, as part of its commit."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from airflow_hivex.core.catalog import directories, table_rows
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import NoSuchObjectError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.store.exchange import together
from airflow_hivex.core.store.schema import tables
from airflow_hivex.core.transactions import allocation, pending_writes
from airflow_hivex.core.transactions.conflicts import ConflictFoundError, one_after_the_other
from airflow_hivex.core.transactions.shared_state import snapshot_from, snapshot_query


def register_pending_writes(catalog: ObjectStore, connection: Connection, txn_id: int) -> bool:
    """Register the pending writes of a transaction, as part of its commit.

    Return whether the transaction also has writes of killed statements. The records of these writes stay, since the
    cleaner needs the records to find the files.

    Raises:
        NoSuchObjectError: a written table has been dropped.
        ConflictFoundError: rows of this transaction would hide rows that another transaction has written meanwhile, or
            would be hidden by them.
    """
    noted = pending_writes.query_of(txn_id)
    of_writes = tables.c.id.in_(noted.order_by(None).with_only_columns(noted.selected_columns.table_id))
    rows, stored, *of_tables = together(connection, noted, snapshot_query(txn_id), *table_rows.queries_where(of_writes))
    pending, snapshot = pending_writes.from_rows(rows), snapshot_from(stored)
    done = [write for write in pending if write.directories is not None]
    written = {write.table_id for write in done}
    by_id = {each.id: each for each in table_rows.tables_from_rows(*of_tables) if each.id in written}
    overwritten = {write.table_id for write in done if write.facts.overwrite}
    one_after_the_other(connection, {table_id: table_id in overwritten for table_id in by_id})
    # Checked before the registration, so that the transaction's own directories do not count as another's.
    for write in done:
        table = by_id.get(write.table_id)
        if table is None:
            continue
        names = write.partitions or {None}
        check_nothing_hidden(connection, table, names, snapshot, write.facts, ConflictFoundError)
    registrations = []
    for write in done:
        table = by_id.get(write.table_id)
        if table is None:
            raise NoSuchObjectError(
                f"A table that transaction {txn_id} has written to was dropped meanwhile, so it cannot commit."
            )
        registrations.append(Registration.of_write(table, write.facts, write.directories or ()))
    joining = catalog.joining(connection)
    joining.register(*registrations)
    for write in done:
        joining.record_loaded_files(write.facts.txn_id, write.table_id, write.loaded, write.directories or ())
    pending_writes.forget(connection, [write.id for write in done])
    # The locks have noted the partitions that the statements might write; now only the written ones stay.
    allocation.replace_components(
        connection,
        txn_id,
        {(write.table_id, each, operation) for write in done for each, operation in write.operations},
    )
    return len(done) < len(pending)


def check_nothing_hidden(
    connection: Connection,
    table: Table,
    names: Collection[str | None],
    snapshot: ValidTxnList | None,
    write: TableWrite,
    error: Callable[[str], Exception],
) -> None:
    """Raise ``error`` if a base directory would hide rows: rows of other transactions, or the rows of this write.

    A base directory hides all directories with lower write ids. For example, an INSERT OVERWRITE would hide rows that
    another transaction has inserted since the snapshot of the INSERT OVERWRITE. For an INSERT INTO, the caller's next
    query can raise the error in place of this function.
    """
    if not write.overwrite:
        overwritten = error(f"another transaction has overwritten {table.full_name} while it inserted")
        directories.check_no_later_base(connection, table, names, write.write_id, overwritten)
    elif snapshot is not None:
        writers = directories.writers_of(connection, table, names)
        if any(not snapshot.is_valid(txn_id) for txn_id in writers):
            raise error("another transaction has inserted into what it overwrites since its snapshot was taken")
