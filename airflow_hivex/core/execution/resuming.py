"""A write whose job continues on its server after the process has ended.

A writer is a named part of a transaction of several statements. If the session of a writer fails, the next session of
this writer waits for the job.

The record of the pending write belongs to one session. A session claims the record before it moves the files into
place. No other session can take over a claimed record.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, replace

from sqlalchemy import Connection

from airflow_hivex.core.execution.context import Running, Services, StatementContext
from airflow_hivex.core.execution.write_outcomes import take_back
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.model.writes import ServerOperation, TableWrite
from airflow_hivex.core.runners.registry import ResumingRunner
from airflow_hivex.core.transactions import pending_writes
from airflow_hivex.core.transactions.pending_writes import PendingWrite

log = logging.getLogger(__name__)

_COUNTED_FORMATS = ("orc", "parquet")
"""The formats whose files record the number of their rows. In other formats only the writer can count the rows."""


def take_over(services: Services, txn_id: int, writer: str, began: int) -> PendingWrite | None:
    """Return the write of an earlier session of ``writer`` that this session can continue, or None.

    The returned write belongs to this session now, and its job is possibly still running. If None is returned, all
    earlier writes of the writer are withdrawn.
    """
    with services.store.read() as connection:
        earlier = pending_writes.of_transaction(connection, txn_id, writer=writer)
    if not earlier:
        return None

    def hold(connection: Connection) -> PendingWrite | None:
        pending_writes.one_at_a_time(connection, [txn_id])
        writes = pending_writes.of_transaction(connection, txn_id, writer=writer)
        if len(writes) != 1 or not writes[0].may_be_resumed or writes[0].began > began:
            return None
        pending_writes.change_document(connection, writes[0].id, began=began)
        return replace(writes[0], began=began)

    held = services.store.write(hold) if len(earlier) == 1 and earlier[0].may_be_resumed else None
    if held is None:
        take_back(services, earlier)
    return held


def resumed(context: StatementContext, running: Running, table: StoredTable, facts: TableWrite) -> PendingWrite | None:
    """Return the write of an earlier session that the statement continues, or None if it begins a new write.

    The earlier write is withdrawn if it differs from ``facts`` in more than ids, if another statement has begun it, or
    if the server does not know its operation.
    """
    joined = running.joined
    held = None if joined is None else joined.held
    if joined is None or held is None:
        return None
    joined.held = None
    services = context.services
    stored = held.facts
    own = replace(facts, write_id=stored.write_id, statement_id=stored.statement_id, counts_inserts=False)
    cluster = services.clusters.get(facts.cluster)
    runner = services.runner(cluster)
    if (
        stored == own
        and held.table_id == table.id
        and held.statement == fingerprint(context)
        and held.operation is not None
        and isinstance(runner, ResumingRunner)
        and runner.has_operation(held.operation, cluster.name)
    ):
        log.info("Transaction %s: its job still runs on %s, and is waited for", running.txn_id, cluster.name)
        return held
    take_back(services, [held])
    return None


def fingerprint(context: StatementContext) -> str:
    """Return a hash of the statement's text and parameters, the current database and the temporary objects."""
    given = [context.text, sorted((name, repr(value)) for name, value in context.parameters.items())]
    session = context.session
    return hashlib.sha256(json.dumps([*given, session.database, session.objects.definitions]).encode()).hexdigest()


def resumable(
    context: StatementContext, running: Running, pending: PendingWrite | None, table: StoredTable, plan: Plan
) -> PendingOperation | None:
    """Return the operation of a job for which another session can wait, or None if no session can resume the job."""
    is_simple = plan.write is not None and plan.write.format in _COUNTED_FORMATS
    # Separate operations compute the source of a MERGE, and their rows are gone when their session ends. A statement
    # that loads files can find other files in a later session.
    has_own_source = (plan.changes is not None and plan.changes.source is not None) or plan.loaded is not None
    if pending is None or not pending.writer or not is_simple or has_own_source:
        return None
    running.operation = PendingOperation(context.services, table, pending, fingerprint(context))
    return running.operation


class PendingOperation:
    """The record of the server's operation that runs a pending write; an implementation of ``ResumableWrite``."""

    def __init__(self, services: Services, table: StoredTable, pending: PendingWrite, statement: str) -> None:
        self._services = services
        self._table = table
        self._pending = pending
        self._statement = statement
        self.is_running = pending.operation is not None

    @property
    def earlier(self) -> ServerOperation | None:
        """Return the operation that an earlier session has begun, or None."""
        return self._pending.operation

    def note(self, operation: ServerOperation) -> None:
        """Record the operation with the pending write; see ``ResumableWrite``."""
        self._change(operation_at_server=asdict(operation), statement=self._statement, claimed=False)
        self.is_running = True

    def claim(self) -> None:
        """Claim the record of the pending write; see ``ResumableWrite``."""
        self.is_running = False
        self._change(claimed=True)

    def _change(self, **changes: object) -> None:
        def work(connection: Connection) -> None:
            pending_writes.one_at_a_time(connection, [self._pending.facts.txn_id])
            pending_writes.check_owned(connection, self._table.full_name, self._pending)
            pending_writes.change_document(connection, self._pending.id, **changes)

        self._services.store.write(work)
