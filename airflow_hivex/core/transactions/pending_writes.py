"""Pending writes: the writes of the statements of an open transaction.

The following statements of the transaction read the files of its pending writes. The commit registers these files in
the catalog. A write without directories belongs to a statement that still runs or was killed. The functions run in the
database transaction of the caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from airflow_hivex.core.errors import InvalidOperationError, WriteTakenBackError
from airflow_hivex.core.model.loads import LoadedFile
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.writes import ServerOperation, TableWrite
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later, together
from airflow_hivex.core.store.schema import directories, partitions, pending_writes, txns

CONSUMES = -1
"""The statement id of a row that records the files that a statement reads and then deletes.

The row records no write.
"""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """The write of one statement in an open transaction. ``directories`` is set when the statement has ended.

    If ``is_taken_back`` is true, the write is never committed, and its files are deleted. ``writer`` is the name of a
    task or other part of the transaction's work. ``began`` is the number of the session that owns the write. A session
    that repeats the work of the writer has a higher number. ``operation`` is a running operation of a Spark Connect
    server. ``statement`` is the fingerprint of the statement. With ``is_claimed`` the session is moving the files to
    their final place.

    For a write to an external table, ``root`` is the folder of the table, and ``depth`` is the number of its partition
    keys. ``places`` are the folders into which the session moves files. With ``is_registered`` the files are visible,
    and the replaced files can be deleted. ``consumed`` is a dict from folder to a dict from file name to (size, time):
    the files that a statement reads and then deletes. Such a row records no write. ``loaded`` are the files that a COPY
    INTO has loaded.
    """

    id: int
    table_id: int
    writer: str
    facts: TableWrite
    directories: tuple[WrittenDirectory, ...] | None = None
    is_taken_back: bool = False
    began: int = 0
    operation: ServerOperation | None = None
    statement: str = ""
    is_claimed: bool = False
    root: str = ""
    depth: int = 0
    places: tuple[str, ...] = ()
    is_registered: bool = False
    consumed: Mapping[str, Mapping[str, tuple[int, str]]] | None = None
    loaded: tuple[LoadedFile, ...] = ()

    @property
    def may_be_resumed(self) -> bool:
        """Return whether another session of the same writer can take over the write, and wait for its operation."""
        is_over = self.is_taken_back or self.is_claimed or self.directories is not None
        return self.operation is not None and not is_over

    @property
    def operations(self) -> frozenset[tuple[str | None, Operation]]:
        """Return (partition, operation) pairs for the partitions that the write changes.

        The partition None stands for a table without partitions.
        """
        facts = self.facts
        named = frozenset() if facts.partition is None else frozenset(((facts.partition, facts.operation),))
        return named | facts.operations(self.directories or ())

    @property
    def partitions(self) -> frozenset[str | None]:
        """Return the written partitions. None stands for a table without partitions."""
        return self.facts.partitions(self.directories or ())


def one_at_a_time(connection: Connection, txn_ids: Collection[int]) -> None:
    """Lock the rows of transactions until the caller's database transaction ends.

    Until then, no other client can commit these transactions or change their pending writes.
    """
    for batch in batches(sorted(txn_ids)):
        later(connection, select(txns.c.id).where(txns.c.id.in_(batch)).order_by(txns.c.id).with_for_update())


def states(connection: Connection, txn_ids: Collection[int]) -> Mapping[int, TxnState]:
    """Return a dict from transaction id to state. Transactions without a record are missing."""
    return {
        row.id: TxnState(row.state)
        for batch in batches(sorted(txn_ids))
        for row in connection.execute(select(txns.c.id, txns.c.state).where(txns.c.id.in_(batch)))
    }


def begin(
    connection: Connection, table: StoredTable, facts: TableWrite, *, writer: str, began: int = 0
) -> PendingWrite:
    """Record that a statement is about to write. The caller must have called :func:`one_at_a_time`.

    Raises:
        WriteTakenBackError: a session of the same writer with a higher number has written.
    """
    if writer and any(each.began > began for each in of_transaction(connection, facts.txn_id, writer=writer)):
        raise WriteTakenBackError(table.full_name, facts.txn_id, writer)
    document: dict[str, Any] = {
        "write_id": facts.write_id,
        "cluster": facts.cluster,
        "overwrite": facts.overwrite,
        "partition": facts.partition,
        "operation": facts.operation.value,
        "kind": facts.statement,
        "began": began,
    }
    if facts.token:
        depth = len(table.partition_keys)
        document |= {"token": facts.token, "root": table.storage.primary.location, "depth": depth}
    number = connection.execute(
        insert(pending_writes)
        .values(
            txn_id=facts.txn_id,
            statement_id=facts.statement_id,
            table_id=table.id,
            writer=writer,
            document=document,
            written=None,
        )
        .returning(pending_writes.c.id)
    ).scalar_one()
    root, depth = document.get("root", ""), document.get("depth", 0)
    return PendingWrite(number, table.id, writer, facts, began=began, root=root, depth=depth)


def record(
    connection: Connection, table: StoredTable, write: PendingWrite, written: Sequence[WrittenDirectory]
) -> None:
    """Record the directories that a statement has written. The following statements of the transaction read them.

    The caller must have called :func:`one_at_a_time`.

    Raises:
        InvalidOperationError: an INSERT OVERWRITE of this transaction has already written the same partition or table.
        WriteTakenBackError: another session of the same writer has withdrawn the write.
    """
    # One round trip.
    of_table = query_of(write.facts.txn_id, table.id)
    own, rows = together(connection, select(pending_writes).where(pending_writes.c.id == write.id), of_table)
    _check_owned(from_rows(own), table.full_name, write)
    check_not_overwritten(from_rows(rows), table, write.facts.partitions(written), except_for=write.id)
    later(
        connection,
        update(pending_writes)
        .where(pending_writes.c.id == write.id)
        .values(written=[asdict(directory) for directory in written]),
    )


def check_owned(connection: Connection, table: str, write: PendingWrite) -> PendingWrite:
    """Return the current record of a write. The caller must have called :func:`one_at_a_time`.

    Raises:
        WriteTakenBackError: another session of the same writer has withdrawn the write, or has taken over the write.
    """
    found = connection.execute(select(pending_writes).where(pending_writes.c.id == write.id))
    return _check_owned(from_rows(found), table, write)


def _check_owned(found: Sequence[PendingWrite], table: str, write: PendingWrite) -> PendingWrite:
    stored = next(iter(found), None)
    if stored is None or stored.is_taken_back or stored.began != write.began:
        raise WriteTakenBackError(table, write.facts.txn_id, write.writer)
    return stored


def check_not_overwritten(
    of_table: Iterable[PendingWrite],
    table: StoredTable,
    partitions: frozenset[str | None] | set[str | None],
    *,
    except_for: int | None = None,
) -> None:
    """Refuse a write to a partition or table that the same transaction has overwritten; see :func:`record`.

    ``of_table`` are the writes of the transaction to the table. The write with the id ``except_for`` is not compared.
    """
    for earlier in of_table:
        both = earlier.partitions & partitions if earlier.facts.overwrite and earlier.id != except_for else ()
        for partition in sorted(both, key=str):
            where = table.full_name if partition is None else f"{table.full_name} partition ({partition})"
            raise InvalidOperationError(
                "A write after INSERT OVERWRITE, in one transaction, to",
                where,
                f"transaction {earlier.facts.txn_id} has overwritten it; write all of its rows in that statement, or "
                "commit before",
            )


def check_not_being_overwritten(of_table: Iterable[PendingWrite], table: StoredTable, partition: str | None) -> None:
    """Refuse a second INSERT OVERWRITE of a partition or table while the first INSERT OVERWRITE has not ended.

    The two statements belong to one transaction, and would write the same base directory. ``of_table`` are the writes
    of the transaction to the table. ``partition`` is None for dynamic partitions, and for a table without partitions.

    Raises:
        InvalidOperationError: the first INSERT OVERWRITE still runs, or was killed and not repeated.
    """
    for earlier in of_table:
        meets = partition is None or earlier.facts.partition in (None, partition)
        if earlier.facts.overwrite and earlier.directories is None and meets:
            raise InvalidOperationError(
                "A second INSERT OVERWRITE, in one transaction, of",
                table.full_name,
                f"another one of transaction {earlier.facts.txn_id} runs there, or was killed and not repeated",
            )


def overwritten_by_others(
    connection: Connection, write: PendingWrite, besides: Collection[int]
) -> frozenset[str | None]:
    """Return the partitions that other statements of the same transaction have overwritten, in the table of the write.

    Writes with ids in ``besides`` do not count. The partition None stands for a table without partitions.
    """
    noted = (
        each.partitions
        for each in of_transaction(connection, write.facts.txn_id, table_id=write.table_id)
        if each.facts.overwrite and each.directories is not None and each.id not in besides
    )
    return frozenset[str | None]().union(*noted)


def registered(connection: Connection, write: PendingWrite) -> frozenset[str | None]:
    """Return the partitions in which directories of a write are registered.

    None stands for a table without partitions.
    """
    found = connection.execute(
        select(partitions.c.name)
        .select_from(directories.outerjoin(partitions, partitions.c.id == directories.c.partition_id))
        .where(directories.c.table_id == write.table_id, directories.c.name.in_(write.facts.directory_names))
    )
    return frozenset(found.scalars())


def of_transaction(
    connection: Connection, txn_id: int, *, table_id: int | None = None, writer: str | None = None
) -> list[PendingWrite]:
    """Return the writes of a transaction, in the order of statements. A table or a writer can be given as a filter."""
    query = query_of(txn_id, table_id)
    if writer is not None:
        query = query.where(pending_writes.c.writer == writer)
    return from_rows(connection.execute(query))


def query_of(txn_id: int, table_id: int | None = None) -> Select[Any]:
    """Return the query for the writes of a transaction, or for its writes to a table, in the order of statements."""
    query = select(pending_writes).where(pending_writes.c.txn_id == txn_id).order_by(pending_writes.c.statement_id)
    return query if table_id is None else query.where(pending_writes.c.table_id == table_id)


def from_rows(rows: Iterable[Any]) -> list[PendingWrite]:
    """Return the writes in rows of :func:`query_of`."""
    return [_from_row(row) for row in rows]


def read(connection: Connection, write_id: int) -> PendingWrite | None:
    """Return the current record of a write, or None if it was removed. Call :func:`one_at_a_time` before."""
    row = connection.execute(select(pending_writes).where(pending_writes.c.id == write_id)).one_or_none()
    return None if row is None else _from_row(row)


def written_directories(
    connection: Connection, txn_id: int
) -> Mapping[int, Mapping[str | None, list[WrittenDirectory]]]:
    """Return the directories that a transaction has written, as a dict from table id to a dict from partition.

    The partition None stands for a table without partitions.
    """
    found: dict[int, dict[str | None, list[WrittenDirectory]]] = defaultdict(lambda: defaultdict(list))
    for write in of_transaction(connection, txn_id):
        if write.directories is None:
            continue
        if write.facts.partition is not None:
            found[write.table_id][write.facts.partition].extend(())
        for directory in write.directories:
            found[write.table_id][directory.partition].append(directory)
    return found


def of_ended_transactions(connection: Connection, after: int, limit: int) -> list[PendingWrite]:
    """Return up to ``limit`` pending writes of ended transactions, sorted by id, with ids above ``after``.

    The files of these writes can be deleted.
    """
    query = (
        select(pending_writes)
        .outerjoin(txns, txns.c.id == pending_writes.c.txn_id)
        .where(pending_writes.c.id > after, txns.c.state.is_distinct_from(TxnState.OPEN.value))
        .order_by(pending_writes.c.id)
        .limit(limit)
    )
    return [_from_row(row) for row in connection.execute(query)]


def that_consume(connection: Connection) -> list[PendingWrite]:
    """Return a record of each file that a statement of an open transaction reads, and deletes afterwards."""
    query = select(pending_writes).where(pending_writes.c.statement_id == CONSUMES).order_by(pending_writes.c.id)
    return [_from_row(row) for row in connection.execute(query)]


def change_document(connection: Connection, write_id: int, **changes: Any) -> None:
    """Change fields in the stored document of a write. The caller must have called :func:`one_at_a_time`."""
    document = connection.execute(select(pending_writes.c.document).where(pending_writes.c.id == write_id)).scalar_one()
    later(
        connection,
        update(pending_writes).where(pending_writes.c.id == write_id).values(document={**document, **changes}),
    )


def note_loaded(connection: Connection, write: PendingWrite | None, files: Sequence[LoadedFile]) -> None:
    """Record the files that a COPY INTO has loaded. The caller must have called :func:`one_at_a_time`.

    Raises:
        InvalidOperationError: another statement of the transaction has loaded one of the files.
    """
    assert write is not None
    keys = {each.key for each in files}
    for other in of_transaction(connection, write.facts.txn_id, table_id=write.table_id):
        twice = next((each.path for each in other.loaded if each.key in keys), None)
        if other.id != write.id and other.directories is not None and twice is not None:
            reason = (
                f"transaction {write.facts.txn_id} has loaded it already, and loads a file once; commit it first, and "
                "run the statement in another transaction"
            )
            raise InvalidOperationError("COPY INTO of", twice, reason)
    change_document(connection, write.id, loaded=[asdict(each) for each in files])


def resumed_by_others(connection: Connection, writes: Collection[PendingWrite]) -> frozenset[int]:
    """Return the ids of the writes that another session has taken over since ``writes`` were read."""
    began = {write.id: write.began for write in writes}
    return frozenset(
        row.id
        for batch in batches(sorted(began))
        for row in connection.execute(select(pending_writes).where(pending_writes.c.id.in_(batch)))
        if _from_row(row).began > began[row.id]
    )


def mark_taken_back(connection: Connection, ids: Sequence[int]) -> Mapping[int, bool]:
    """Withdraw writes, so that they are never committed, and their files can be deleted.

    Return a dict from write id to a bool: whether the write was already withdrawn before this call. A write without a
    record is missing. The caller must have called :func:`one_at_a_time`.
    """
    rows = [
        row
        for batch in batches(ids)
        for row in connection.execute(select(pending_writes).where(pending_writes.c.id.in_(batch)))
    ]
    for row in rows:
        later(
            connection,
            update(pending_writes)
            .where(pending_writes.c.id == row.id)
            .values(written=None, document={**row.document, "taken_back": True}),
        )
    return {row.id: _from_row(row).is_taken_back for row in rows}


def forget(connection: Connection, ids: Sequence[int]) -> None:
    """Remove the records of writes. The writes must be registered, or their files deleted."""
    for batch in batches(ids):
        later(connection, delete(pending_writes).where(pending_writes.c.id.in_(batch)))


def _from_row(row: Any) -> PendingWrite:
    document = row.document
    operation = document.get("operation_at_server")
    directories = None
    if row.written is not None:
        directories = tuple(WrittenDirectory(**{**each, "values": tuple(each["values"])}) for each in row.written)
    facts = TableWrite(
        txn_id=row.txn_id,
        write_id=document["write_id"],
        cluster=document["cluster"],
        statement_id=row.statement_id,
        overwrite=document["overwrite"],
        partition=document["partition"],
        operation=Operation(document["operation"]),
        statement=document.get("kind", ""),
        token=document.get("token", ""),
    )
    return PendingWrite(
        id=row.id,
        table_id=row.table_id,
        writer=row.writer,
        facts=facts,
        directories=directories,
        is_taken_back=document.get("taken_back", False),
        began=document.get("began", 0),
        operation=None if operation is None else ServerOperation(**operation),
        statement=document.get("statement", ""),
        is_claimed=document.get("claimed", False),
        root=document.get("root", ""),
        depth=document.get("depth", 0),
        places=tuple(document.get("places", ())),
        is_registered=document.get("registered", False),
        consumed=document.get("consumed"),
        loaded=tuple(LoadedFile(**each) for each in document.get("loaded", ())),
    )
