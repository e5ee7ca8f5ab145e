"""The steps of a statement's write, from the allocation of its ids to the registration of its directories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from airflow_hivex.core.catalog import change_streams
from airflow_hivex.core.catalog.pending_registration import check_nothing_hidden
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution import external_writes, planning, resuming
from airflow_hivex.core.execution.context import JoinedTransaction, Result, Running, StatementContext
from airflow_hivex.core.execution.insert_targets import AS_GIVEN, InsertedRows
from airflow_hivex.core.execution.statement_record import in_step
from airflow_hivex.core.execution.statement_transactions import OutrunError, in_transaction
from airflow_hivex.core.execution.write_outcomes import (
    delete_directories,
    register_writes,
    take_back,
    take_back_writer,
)
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.loads import LoadedFile
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import JobResult, Write, WrittenDirectory
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.store.exchange import joined, together
from airflow_hivex.core.transactions import allocation, pending_writes
from airflow_hivex.core.transactions.conflicts import one_after_the_other
from airflow_hivex.core.transactions.pending_writes import PendingWrite
from airflow_hivex.core.transactions.shared_state import statement_id_from, taking_statement_id


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """A statement's write to a table, and its target in the plan of the job.

    ``pending`` is the record of the write in ``pending_writes``. Only a write in a transaction of several statements,
    or to an external table, has such a record.
    """

    table: StoredTable
    facts: TableWrite
    write: Write
    pending: PendingWrite | None = None


def begin_write(
    context: StatementContext,
    running: Running,
    table: StoredTable,
    cluster: Cluster,
    rows: InsertedRows = AS_GIVEN,
    *,
    operation: Operation | None = None,
    number: int = 0,
) -> OpenWrite:
    """Begin a write to a locked table: allocate a write id, and in a transaction of several statements a statement id.

    If the statement is not an INSERT, ``operation`` is its change of existing rows. ``number`` distinguishes the writes
    of one statement.

    Raises:
        BatchWrittenError: the batch of the statement was written to the table before.
        InvalidOperationError: the transaction has overwritten the same table or partition before, or another statement
            of the transaction is possibly overwriting it now.
        TransactionNotOpenError: the transaction has ended meanwhile.
        WriteTakenBackError: another session has taken over the writer's part of the transaction.
        RootMissingError, ForeignRootError: the cluster's root is not mounted, or belongs to another cluster.
    """
    services = context.services
    services.roots.check(cluster.name)
    _check_is_new(context, table)
    casts = planning.casts_values(context, cluster)
    # INSERT OVERWRITE counts as update.
    kind = operation or (Operation.UPDATE if rows.overwrite else Operation.INSERT)
    facts = TableWrite(
        running.txn_id,
        0,
        cluster.name,
        number,
        rows.overwrite,
        rows.partition,
        kind,
        _shared_delta(context, running, table.id),
        context.kind,
        operation is Operation.UPDATE and bool(services.settings["hive.txn.xlock.mergeinsert"]),
    )
    pending: PendingWrite | None
    if table.is_external:
        facts, pending = external_writes.begin(context, running, table, facts)
    else:
        facts, pending = _begin_managed(context, running, table, facts)
    if pending is not None:
        running.undo.append(partial(take_back, services, [pending], own=True))
    services.store.reach("while writing")
    return OpenWrite(table, facts, planning.write(table, cluster, facts, rows, casts=casts), pending)


def _begin_managed(
    context: StatementContext, running: Running, table: StoredTable, facts: TableWrite
) -> tuple[TableWrite, PendingWrite | None]:
    """Return a pair: the write with its ids, and its record in ``pending_writes`` or None (see :class:`OpenWrite`)."""
    joined = running.joined
    if joined is not None and joined.writer:
        # An earlier session that is still alive may have continued since this session began.
        take_back_writer(context.services, running.txn_id, joined.writer, before=joined.began)
    resumed = resuming.resumed(context, running, table, facts)
    if resumed is not None:
        return resumed.facts, resumed
    if table.id in running.write_ids:
        return replace(facts, write_id=running.write_ids[table.id]), None
    if joined is None:
        write_id = context.services.transactions.allocate_one(running.txn_id, table.id)
        return replace(facts, write_id=write_id), None
    return context.services.store.write(partial(_allocate, context, joined, table, facts), name="allocate")


def _allocate(
    context: StatementContext, joined: JoinedTransaction, table: StoredTable, facts: TableWrite, connection: Connection
) -> tuple[TableWrite, PendingWrite]:
    """Allocate the ids of a write in a transaction of several statements.

    Return a pair: the write with these ids, and its record in ``pending_writes``.
    """
    txn_id = joined.txn_id
    pending_writes.one_at_a_time(connection, [txn_id])
    # All base directories of one write id have one name. Another process may still write or delete a base that was
    # taken back. So this base gets a new id, unless other writes count under the last id.
    if facts.overwrite and not pending_writes.of_transaction(connection, txn_id, table_id=table.id):
        context.services.transactions.allocate_in(connection, [txn_id], table.id, reallocate=True)
    else:
        allocation.allocate_later(connection, txn_id, table.id)
    ((mapped,), taken, rows) = together(
        connection,
        allocation.finding(txn_id, table.id),
        taking_statement_id(txn_id),
        pending_writes.query_of(txn_id, table.id),
    )
    facts = replace(facts, write_id=mapped.write_id, statement_id=statement_id_from(taken, txn_id))
    of_table = pending_writes.from_rows(rows)
    if facts.partition is not None or not table.is_partitioned:
        pending_writes.check_not_overwritten(of_table, table, {facts.partition})
    if facts.overwrite:
        pending_writes.check_not_being_overwritten(of_table, table, facts.partition)
    return facts, pending_writes.begin(connection, table, facts, writer=joined.writer, began=joined.began)


def _shared_delta(context: StatementContext, running: Running, table_id: int) -> tuple[int, int] | None:
    """Return the range of write ids of the streaming batch whose directory the statement shares, or None."""
    batch = context.batch
    # A retried statement has a transaction and a write id outside of the batch.
    if batch is None or (batch.txn_id, batch.table_id) != (running.txn_id, table_id):
        return None
    return batch.write_ids


def end_write(context: StatementContext, running: Running, write: OpenWrite, written: JobResult) -> None:
    """End the write of a statement that writes one table, as :func:`end_writes` does."""
    end_writes(context, running, [(write, written.directories)])


@in_step("commit")
def end_writes(
    context: StatementContext,
    running: Running,
    done: Sequence[tuple[OpenWrite, Sequence[WrittenDirectory]]],
    check: Callable[[], None] | None = None,
    also: Callable[[Connection], None] | None = None,
    loaded: Sequence[LoadedFile] = (),
) -> None:
    """Commit the job's writes with the statement's own transaction, or record them in the session's transaction.

    ``check`` is called first. If ``check`` raises an error, the directories are deleted. ``also`` runs in the commit of
    the statement's own transaction. ``loaded`` are the files whose rows the first write has; they count as loaded when
    the transaction commits.

    Raises:
        WriteConflictError, TransactionAbortedError: the transaction cannot commit.
        OutrunError: this INSERT OVERWRITE would hide rows that were inserted since its snapshot, or another INSERT
            OVERWRITE would hide the rows of this INSERT.
        NoSuchTableError: the table was dropped meanwhile.
        InvalidOperationError: the transaction has overwritten one of the partitions before.
        StorageError: the files of an external table could not be moved into place.
    """
    if running.joined is None:
        _commit_writes(context, running, done, check, also, loaded)
        return
    if check is not None:
        check()

    def record(connection: Connection) -> None:
        pending_writes.one_at_a_time(connection, [running.txn_id])
        context.services.transactions.check_open(connection, running.txn_id)
        for write, directories in done:
            assert write.pending is not None
            _check_nothing_hidden(connection, running.snapshot, write, directories)
            pending_writes.record(connection, write.table, write.pending, directories)
        if loaded:
            pending_writes.note_loaded(connection, done[0][0].pending, loaded)
        if context.session.record is not None:
            joined(connection).later(*context.session.record.calls_of_open())

    context.services.store.write(record)


def _commit_writes(
    context: StatementContext,
    running: Running,
    done: Sequence[tuple[OpenWrite, Sequence[WrittenDirectory]]],
    check: Callable[[], None] | None,
    also: Callable[[Connection], None] | None,
    loaded: Sequence[LoadedFile],
) -> None:
    """Commit the writes of a statement with its own transaction."""
    services = context.services
    managed = [each for each in done if not each[0].table.is_external]
    for write, directories in managed:
        running.undo.append(
            partial(delete_directories, services, write.table, directories, write.facts.cluster, write.write)
        )
    if check is not None:
        check()
    published = [
        external_writes.publish(context, running, write.table, write.facts, write.pending, directories)
        for write, directories in done
        if write.table.is_external and write.pending is not None
    ]

    def register(connection: Connection) -> None:
        changed: dict[int, bool] = {}
        for write, _ in managed:
            table_id = write.table.id
            changed[table_id] = changed.get(table_id, False) or write.facts.operation is not Operation.INSERT
        one_after_the_other(connection, changed)
        for write, directories in managed:
            _check_nothing_hidden(connection, running.snapshot, write, directories)
        for write, _ in done:
            record_batch(context, connection, write.table, running.txn_id)
        register_writes(
            services, connection, [(write.table, write.facts, directories) for write, directories in managed]
        )
        for each in published:
            external_writes.register(services, connection, each)
        if loaded:
            write, directories = done[0]
            catalog = services.catalog.joining(connection)
            catalog.record_loaded_files(running.txn_id, write.table.id, loaded, directories)
        if also is not None:
            also(connection)

    services.transactions.commit(running.txn_id, register)
    for each in published:
        external_writes.finish(services, each)


def _check_nothing_hidden(
    connection: Connection, snapshot: ValidTxnList | None, write: OpenWrite, directories: Sequence[WrittenDirectory]
) -> None:
    """Refuse an INSERT OVERWRITE that would hide rows, or an INSERT whose rows would be hidden.

    Raises:
        OutrunError: rows would be hidden.
    """
    names = {each.partition for each in directories} | {write.facts.partition}
    check_nothing_hidden(connection, write.table, names, snapshot, write.facts, OutrunError)


def with_empty_bases(
    context: StatementContext, running: Running, write: OpenWrite, written: JobResult, names: Iterable[str]
) -> JobResult:
    """Make an empty base in each named partition without new rows; return the result of the job with these bases.

    Raises:
        StorageError: the bases cannot be made. The directories of the job are deleted, too.
    """
    if running.joined is None:
        # A transaction of several statements has noted its directories before.
        undo = partial(delete_directories, context.services, write.table, written.directories)
        running.undo.append(partial(undo, write.facts.cluster, write.write))
    with_rows = {each.partition for each in written.directories}
    empty = [(name, nullable_values(name)) for name in names if name not in with_rows]
    from airflow_hivex.core.job.new_directories import write_empty_bases

    emptied = write_empty_bases(write.write, empty)
    return replace(written, directories=(*written.directories, *emptied.directories))


log = logging.getLogger(__name__)


class BatchWrittenError(Exception):
    """The batch of a statement was written to the table before, so the statement writes nothing."""


def run_once(context: StatementContext, work: Callable[[Running], Result], skipped: Result) -> Result:
    """Call ``work`` in a transaction and return its result, or ``skipped`` if the batch was written before.

    ``work`` must begin its write by :func:`begin_write`, and call :func:`record_batch` in its commit.

    Raises:
        InvalidOperationError: a statement with a batch is part of a transaction of several statements.
    """
    if context.batch_key is not None and context.session.transaction is not None:
        raise InvalidOperationError(
            "A write with app_id and batch_id in",
            f"transaction {context.session.transaction.txn_id}",
            "it is open, and the batch is recorded by a commit of its own; COMMIT or ROLLBACK comes first",
        )
    try:
        return in_transaction(context, work)
    except BatchWrittenError as error:
        log.info("Nothing is written: %s", error)
        return skipped


def _check_is_new(context: StatementContext, table: StoredTable) -> None:
    """Refuse a statement whose batch was written to the table before.

    The call takes one round trip if the statement has a batch, else none.

    Raises:
        BatchWrittenError: the batch was written to the table before.
    """
    key = context.batch_key
    if key is None:
        return
    with context.services.store.read() as connection:
        is_written = change_streams.is_written(connection, table.id, key)
    if is_written:
        raise BatchWrittenError(f"{table.full_name} has {key} already")


def record_batch(context: StatementContext, connection: Connection, table: StoredTable, txn_id: int) -> None:
    """Record the batch of a statement, if it has one, in the commit of its rows.

    Raises:
        BatchWrittenError: another statement has committed the batch meanwhile.
    """
    key = context.batch_key
    if key is not None and not change_streams.record(connection, table.id, key, txn_id):
        raise BatchWrittenError(f"another writer has written {key} to {table.full_name} meanwhile")
