"""The opening of a transaction together with its locks and write ids, in one database transaction.

This takes one commit of the database, in place of three, if no lock must wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError, StoreUnavailableError
from airflow_hivex.core.model.locks import LockMatrix, LockResponse
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Call, Exchange
from airflow_hivex.core.transactions.allocation import allocated_to_new, allocating_to_new
from airflow_hivex.core.transactions.locks.grants import LockRequest, are_simple, granted_to_new, granting_to_new
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.opening import NewTransaction, open_with

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A new transaction, with its locks and write ids if no lock had to wait.

    If ``lock`` is None, the transaction has no locks and no write ids, and the caller must request the locks.
    ``write_ids`` is a dict from table id to write id. If a table is missing in the dict, the caller must allocate the
    write id of the table. If the transaction has its locks, ``answers`` are the rows of the queries that the caller has
    sent along.
    """

    txn_id: int
    lock: LockResponse | None = None
    write_ids: Mapping[int, int] = field(default_factory=dict)
    answers: Sequence[Sequence[Any]] = ()


def begin(
    store: Store,
    transactions: TransactionManager,
    clock: Clock,
    matrix: LockMatrix,
    new: NewTransaction,
    request: LockRequest,
    table_ids: Sequence[int],
    also: Sequence[Call],
    begun: Callable[[Begun], object],
) -> Begun:
    """Open a transaction, if possible with the locks of ``request`` and write ids of ``table_ids``, and return it.

    If a lock would have to wait, or there are many locks, the transaction has no locks and no write ids. The queries
    ``also`` run in the same database transaction, between the grant of the locks and the allocation of write ids.
    ``begun`` is called with the transaction. If ``begun`` raises an error, the transaction is aborted. One round trip,
    or two if the number of open transactions is perhaps near the limit.

    Raises:
        TooManyOpenTransactionsError: the limit ``hive.max.open.txns`` is reached; see ``OpenTransactionLimit``.
        StoreUnavailableError: the database cannot be reached, and no transaction was opened.
    """
    # After a lost connection or an interrupt, the transaction can be found by its key.
    new = replace(new, key=f"statement {uuid4().hex}")
    committed = False

    def work(exchange: Exchange) -> Begun:
        nonlocal committed
        now = clock()
        limit = transactions.limit
        counts, is_near = limit.must_count(1, now), limit.is_near(1)
        check = (lambda count: limit.check(count, now)) if is_near else None
        locking = granting_to_new(matrix, request, now)
        # Others that open a transaction wait meanwhile: many locks are requested afterwards.
        calls = [*locking, *also, *allocating_to_new(table_ids)] if are_simple(request.components) else []
        txn_id, others, answers = open_with(exchange, new, now, check, calls, counts=counts)
        committed = True
        if counts and not is_near:
            # Far from the limit by the last count: the count may come with the transaction, which is aborted if there
            # are too many.
            limit.check(others, now)
        lock = granted_to_new(request, answers) if calls else None
        if lock is None:
            return Begun(txn_id)
        first, end = len(locking), len(locking) + len(also)
        found = [call.statement.named(rows) for call, rows in zip(also, answers[first:end], strict=True)]
        return Begun(txn_id, lock, allocated_to_new(table_ids, answers[end:]), found)

    try:
        found = store.exchange(work, name="open")
        transactions.limit.opened(1)
        begun(found)
        return found
    except OutcomeUnknownError as error:
        _abort(transactions, new)
        raise StoreUnavailableError(*error.facts) from error
    except BaseException as error:
        # An interrupt may have come after the commit.
        if committed or not isinstance(error, HivexError):
            _abort(transactions, new)
        raise


def _abort(transactions: TransactionManager, new: NewTransaction) -> None:
    """Abort a transaction that was perhaps opened, because no caller has received its id."""
    try:
        # This call waits for the end of the first database transaction, which has locked the counter of ids.
        txn_ids = transactions.open(user=new.user, agent_info=new.agent_info, key=new.key)
        transactions.abort_many(txn_ids, "its owner was interrupted when it was opened")
    except HivexError as failure:
        log.warning("A transaction that was perhaps opened could not be aborted; an open one times out: %s", failure)
