"""The batches of an application that a table has: one row for each application, changed by the commit of its rows.

Source: Delta Lake's ``txnAppId`` and ``txnVersion``: a batch whose number is not above the last one is skipped.
"""

from __future__ import annotations

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from airflow_hivex.core.model.batches import BatchKey
from airflow_hivex.core.store.schema import written_batches


def is_written(connection: Connection, table_id: int, key: BatchKey) -> bool:
    """Return whether the table has the batch, or a later one of its application. One round trip."""
    query = select(written_batches.c.batch_id).where(
        written_batches.c.table_id == table_id, written_batches.c.app_id == key.app_id
    )
    last = connection.execute(query).scalar_one_or_none()
    return last is not None and last >= key.batch_id


def record(connection: Connection, table_id: int, key: BatchKey, txn_id: int) -> bool:
    """Record a batch with the commit of its rows; return whether it is new. One round trip.

    Of two writers of the same batch the second waits here for the first to commit, and is told that it is not.
    """
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    statement = insert(written_batches).values(
        table_id=table_id, app_id=key.app_id, batch_id=key.batch_id, txn_id=txn_id
    )
    changed = statement.on_conflict_do_update(
        index_elements=[written_batches.c.table_id, written_batches.c.app_id],
        set_={"batch_id": key.batch_id, "txn_id": txn_id},
        where=written_batches.c.batch_id < key.batch_id,
    ).returning(written_batches.c.batch_id)
    return connection.execute(changed).scalar_one_or_none() is not None
