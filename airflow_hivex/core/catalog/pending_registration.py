"""The commit of a transaction of several statements, which registers their pending writes or is refused."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from airflow_hivex.core.catalog import directories, table_rows
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import NoSuchObjectError
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import allocation, pending_writes
from airflow_hivex.core.transactions.conflicts import ConflictFoundError, one_after_the_other
from airflow_hivex.core.transactions.shared_state import stored_snapshot


def register_pending_writes(catalog: ObjectStore, connection: Connection, txn_id: int) -> None:
    """Register the writes of a transaction's statements, as part of its commit.

    The records of killed statements stay, so that the cleaner finds their files.

    Raises:
        NoSuchObjectError: a written table has been dropped.
        ConflictFoundError: rows of this transaction hide rows that another one has written meanwhile, or vice versa.
    """
    done = [write for write in pending_writes.of_transaction(connection, txn_id) if write.directories is not None]
    by_id = {each.id: each for each in table_rows.select_tables_by_id(connection, {write.table_id for write in done})}
    snapshot = stored_snapshot(connection, txn_id)
    overwritten = {write.table_id for write in done if write.facts.overwrite}
    one_after_the_other(connection, {table_id: table_id in overwritten for table_id in by_id})
    # Checked before the registration, so that the transaction's own directories do not count as another's.
    for write in done:
        table = by_id.get(write.table_id)
        if table is None:
            continue
        names = write.partitions or {None}
        sentence = hidden(connection, table, names, snapshot, write.facts)
        if sentence is not None:
            raise ConflictFoundError(sentence)
    registrations = []
    for write in done:
        table = by_id.get(write.table_id)
        if table is None:
            raise NoSuchObjectError(
                f"A table that transaction {txn_id} has written to was dropped meanwhile, so it cannot commit."
            )
        registrations.append(Registration.of_write(table, write.facts, write.directories or ()))
    catalog.joining(connection).register(*registrations)
    pending_writes.forget(connection, [write.id for write in done])
    # The locks have noted the partitions that the statements might write; now only the written ones stay.
    allocation.replace_components(
        connection,
        txn_id,
        {(write.table_id, each, operation) for write in done for each, operation in write.operations},
    )


def hidden(
    connection: Connection,
    table: Table,
    names: Collection[str | None],
    snapshot: ValidTxnList | None,
    write: TableWrite,
) -> str | None:
    """Return the reason why the rows of a write to partitions would be hidden, or None if they would be visible.

    A base directory hides all directories of lower write ids, also directories that its statement could not see. The
    commit does not check this, since an INSERT INTO does not conflict with an update. Other transactions can insert
    between the snapshot of a transaction and its INSERT OVERWRITE; with shared locks, both run at the same time.
    """
    if not write.overwrite:
        if directories.has_later_base(connection, table, names, write.write_id):
            return f"another transaction has overwritten {table.full_name} while it inserted"
    elif snapshot is not None:
        writers = directories.writers_of(connection, table, names)
        if any(not snapshot.is_valid(txn_id) for txn_id in writers):
            return "another transaction has inserted into what it overwrites since its snapshot was taken"
    return None
