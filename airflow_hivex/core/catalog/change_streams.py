"""The progress of streams that read the changes of tables in batches, and of applications that write batches.

The end of a batch is recorded before the batch is processed, so a repeated batch has the same rows. The number of a
batch is the number of its last commit. Commits are numbered over all tables, so the numbers of a stream rise even if
the table is dropped and created again.

Functions here take part in the caller's database transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, text, update

from airflow_hivex.core.model.writes import BatchKey
from airflow_hivex.core.store.schema import change_streams, table_commits, written_batches
from airflow_hivex.core.store.upserts import insert_into

_S, _C = change_streams.c, table_commits.c


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """A batch of a stream: the changes after the version ``since`` up to the version ``until``.

    Without ``since`` the batch has all rows of the version ``until``.
    """

    batch_id: int
    since: int | None
    until: int


def newest_version(connection: Connection, table_id: int) -> tuple[int, int] | None:
    """Return the number and write id of the last commit to a table, or None if the table has no commit.

    On PostgreSQL the function waits for commits that are being recorded. After the call, no commit with a lower number
    can appear. Two round trips.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE table_commits IN SHARE MODE"))
    last = select(func.max(_C.id)).where(_C.table_id == table_id, _C.write_id.is_not(None)).scalar_subquery()
    found = connection.execute(select(_C.id, _C.write_id).where(_C.id == last)).one_or_none()
    return None if found is None else (found.id, found.write_id)


def begin_batch(connection: Connection, table_id: int, stream: str, since: int | None) -> ChangeBatch | None:
    """Return the batch that a stream must process now, or None if the table has no new commits.

    An unfinished batch is returned again. A new stream begins after the version ``since``. Four round trips.
    """
    of_stream = (_S.table_id == table_id, _S.stream == stream)
    row = connection.execute(select(change_streams).where(*of_stream).with_for_update()).one_or_none()
    if row is not None and row.until_write_id is not None:
        return ChangeBatch(row.batch_id, row.since_write_id, row.until_write_id)
    newest = newest_version(connection, table_id)
    begin = since if row is None else row.since_write_id
    if newest is None or newest[1] == begin:
        return None
    number, until = newest
    if row is None:
        values = {"table_id": table_id, "stream": stream, "batch_id": number, "since_write_id": begin}
        connection.execute(insert(change_streams).values(**values, until_write_id=until))
    else:
        # An earlier release has counted batches.
        number = max(number, row.batch_id)
        connection.execute(update(change_streams).where(*of_stream).values(batch_id=number, until_write_id=until))
    return ChangeBatch(number, begin, until)


def end_batch(connection: Connection, table_id: int, stream: str, batch: ChangeBatch) -> None:
    """Record that a batch is processed. A second call for one batch changes nothing. One round trip."""
    connection.execute(
        update(change_streams)
        .where(_S.table_id == table_id, _S.stream == stream, _S.batch_id == batch.batch_id)
        .values(batch_id=batch.batch_id + 1, since_write_id=batch.until, until_write_id=None)
    )


# The batches of an application that a table has: one row for each application, changed by the commit of its rows.
#
# Source: Delta Lake's `txnAppId` and `txnVersion`: a batch whose number is not above the last one is skipped.


def is_written(connection: Connection, table_id: int, key: BatchKey) -> bool:
    """Return whether the batch ``key``, or a later batch of its application, was written to a table. One round trip."""
    query = select(written_batches.c.batch_id).where(
        written_batches.c.table_id == table_id, written_batches.c.app_id == key.app_id
    )
    last = connection.execute(query).scalar_one_or_none()
    return last is not None and last >= key.batch_id


def record(connection: Connection, table_id: int, key: BatchKey, txn_id: int) -> bool:
    """Record that a transaction writes the batch ``key`` to a table. One round trip.

    Return False if this batch, or a later batch of its application, was written to the table before. If two writers
    write one batch, the second writer waits for the commit of the first, and then gets False.
    """
    statement = insert_into(connection, written_batches).values(
        table_id=table_id, app_id=key.app_id, batch_id=key.batch_id, txn_id=txn_id
    )
    changed = statement.on_conflict_do_update(
        index_elements=[written_batches.c.table_id, written_batches.c.app_id],
        set_={"batch_id": key.batch_id, "txn_id": txn_id},
        where=written_batches.c.batch_id < key.batch_id,
    ).returning(written_batches.c.batch_id)
    return connection.execute(changed).scalar_one_or_none() is not None
