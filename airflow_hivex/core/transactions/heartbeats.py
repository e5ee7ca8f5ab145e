"""Threads that send heartbeats of transactions, and stop a job if another client has ended its transaction."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_hivex.core.errors import (
    HivexError,
    JobCancelledError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionError,
)
from airflow_hivex.core.runners.registry import Runner
from airflow_hivex.core.store.outages import Outage
from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)

Ended = Callable[[TransactionAbortedError], object]


@contextmanager
def heartbeats(
    transactions: TransactionManager, txn_id: int, timeout_s: int, ended: Ended | None = None
) -> Iterator[None]:
    """Send heartbeats of a transaction during the block, from a thread.

    The period is half of the time-out. The first heartbeat comes after a random part of the period. If another client
    aborts the transaction, the thread calls ``ended`` with the error. Source: Hive DbTxnManager.Heartbeater.
    """

    def heartbeat() -> None:
        try:
            transactions.heartbeat(txn_id)
        except NoSuchTransactionError:
            # A transaction that has just committed still has its record.
            try:
                transactions.get(txn_id)
            except NoSuchTransactionError:
                raise gone(txn_id, timeout_s) from None

    with _beating(heartbeat, f"transaction {txn_id}", timeout_s, ended):
        yield


@contextmanager
def batch_heartbeats(transactions: TransactionManager, lo: int, hi: int, timeout_s: int) -> Iterator[None]:
    """Send heartbeats of the open transactions with ids from ``lo`` to ``hi`` during the block, from a thread."""
    with _beating(lambda: transactions.heartbeat_range(lo, hi), f"transactions {lo} to {hi}", timeout_s, None):
        yield


def gone(txn_id: int, timeout_s: int) -> TransactionAbortedError:
    """Return the error for a transaction that has timed out, and has no record any more."""
    return TransactionAbortedError(
        txn_id, f"its owner had sent no heartbeat for longer than its time-out of {timeout_s} s"
    )


@contextmanager
def _beating(heartbeat: Callable[[], object], whose: str, timeout_s: int, ended: Ended | None) -> Iterator[None]:
    stop = threading.Event()
    period = timeout_s / 2
    outage = Outage(f"The heartbeat of {whose}")

    def beat() -> None:
        delay = random.uniform(0, 0.75 * period)  # noqa: S311 - spreads load, keeps no secret
        while not stop.wait(delay):
            delay = period
            try:
                heartbeat()
                outage.note_success()
            except TransactionError as error:
                if stop.is_set():
                    return
                outage.note_success()
                log.warning("Heartbeats of %s end: %s", whose, error)
                if ended is not None and isinstance(error, TransactionAbortedError):
                    ended(error)
                return
            except HivexError as error:
                if not stop.is_set():
                    outage.note_failure(error)
                delay = min(period, 1)

    thread = threading.Thread(target=beat, name=f"hivex-heartbeat of {whose}", daemon=True)
    try:
        # An interrupt during start() must stop the thread, too.
        thread.start()
        yield
    finally:
        stop.set()
        # A generator that is not closed ends at its garbage collection, perhaps in this thread itself.
        if thread.ident is not None and thread is not threading.current_thread():
            thread.join()


@dataclass(slots=True)
class TransactionJob:
    """A transaction and its current job. The job is stopped if another client ends the transaction.

    ``opened_id`` is None before the transaction is opened. ``runner`` runs the job, and is None before the first job.
    ``tag`` is the name by which the runner knows the job. ``ended`` is the error of the last heartbeat if another
    client has ended the transaction.
    """

    opened_id: int | None
    tag: str = ""
    runner: Runner | None = None
    ended: TransactionAbortedError | None = None

    @property
    def txn_id(self) -> int:
        """Return the id of the transaction."""
        assert self.opened_id is not None
        return self.opened_id

    def end(self, error: TransactionAbortedError) -> None:
        """Stop the job because another client has ended the transaction. The thread of heartbeats calls this method."""
        # begin() sets the runner first and reads `ended` then, so that one of the two threads sees the other.
        self.ended = error
        self.stop()

    def begin(self, runner: Runner, tag: str) -> None:
        """Set the runner and tag of the next job.

        Raises:
            TransactionAbortedError: the transaction has been aborted.
        """
        self.tag = tag
        self.runner = runner
        if self.ended is not None:
            raise self.ended

    def stop(self) -> None:
        """Stop the job if a job runs."""
        if self.runner is not None:
            self.runner.cancel(self.tag)

    def cause_of(self, error: BaseException) -> TransactionAbortedError | None:
        """Return ``ended`` if ``error`` follows from the end of the transaction, or else None.

        An example is a cancelled job.
        """
        is_symptom = isinstance(error, JobCancelledError | TransactionError)
        return self.ended if is_symptom and not isinstance(error, TransactionAbortedError) else None
