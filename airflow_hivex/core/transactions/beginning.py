"""Transactions that begin with their locks and write ids, in one database transaction.

Most statements wait for no other, and know their tables before they open a transaction. So they commit once before
their work, not three times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError, StoreUnavailableError
from airflow_hivex.core.model.locks import LockMatrix, LockResponse
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Exchange
from airflow_hivex.core.transactions.allocation import allocated_to_new, allocating_to_new
from airflow_hivex.core.transactions.locks.grants import LockRequest, granted_to_new, granting_to_new
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.opening import NewTransaction, open_with

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A new transaction. ``lock`` is None if its locks are still to be asked for; then it has no write ids.

    ``write_ids`` are by the ids of tables. A table may be missing: then its write id is still to be allocated.
    """

    txn_id: int
    lock: LockResponse | None = None
    write_ids: Mapping[int, int] = field(default_factory=dict)


def begin(
    store: Store,
    transactions: TransactionManager,
    clock: Clock,
    matrix: LockMatrix,
    new: NewTransaction,
    request: LockRequest,
    table_ids: Sequence[int],
    begun: Callable[[Begun], object],
) -> bool:
    """Open a transaction, with the locks of ``request`` and write ids of tables if nothing is in the way of any lock.

    ``begun`` is called with it; its error aborts the transaction. Returns whether it has the locks. One round trip, two
    when open ones must be counted.

    Raises:
        TooManyOpenTransactionsError: ``hive.max.open.txns`` are open, or were and no tenth has ended.
        StoreUnavailableError: there is no transaction.
    """
    # If the connection is lost while committing, or an interrupt comes, the transaction is found by its key.
    new = replace(new, key=f"statement {uuid4().hex}")
    committed = False

    def work(exchange: Exchange) -> Begun:
        nonlocal committed
        now = clock()
        limit = transactions.limit
        check = (lambda count: limit.check(count, now)) if limit.must_count(1, now) else None
        locking = granting_to_new(matrix, request, now)
        txn_id, answers = open_with(exchange, new, now, check, [*locking, *allocating_to_new(table_ids)])
        committed = True
        lock = granted_to_new(request, answers)
        return Begun(txn_id, lock, allocated_to_new(table_ids, answers[len(locking) :]) if lock else {})

    try:
        found = store.exchange(work, name="open")
        transactions.limit.opened(1)
        begun(found)
        return found.lock is not None
    except OutcomeUnknownError as error:
        _abort(transactions, new)
        raise StoreUnavailableError(*error.facts) from error
    except BaseException as error:
        # An interrupt may have come on the way.
        if committed or not isinstance(error, HivexError):
            _abort(transactions, new)
        raise


def _abort(transactions: TransactionManager, new: NewTransaction) -> None:
    """Abort a transaction whose id no caller has received, if it was opened."""
    try:
        # It waits for the end of the database transaction, which has the counter.
        txn_ids = transactions.open(user=new.user, agent_info=new.agent_info, key=new.key)
        transactions.abort_many(txn_ids, "its owner was interrupted when it was opened")
    except HivexError as failure:
        log.warning("A transaction that was perhaps opened could not be aborted; an open one times out: %s", failure)
