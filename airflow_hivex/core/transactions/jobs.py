"""The job that a transaction runs on a cluster: it is stopped when the transaction ends under it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.errors import JobCancelledError, TransactionAbortedError, TransactionError
from airflow_hivex.core.runners.registry import Runner


@dataclass(slots=True)
class TransactionJob:
    """A transaction, and the job that it runs now: its runner, if there is one, and its tag.

    ``opened_id`` is None as long as it is not opened. ``ended`` is why the transaction has ended under its owner, as
    the heartbeats have found.
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
        """Stop the job, which would run in vain: another client has ended the transaction. For its heartbeats."""
        # Who begins a job does it the other way round, so that one of the two sees the other.
        self.ended = error
        self.stop()

    def begin(self, runner: Runner, tag: str) -> None:
        """Note the job that runs next.

        Raises:
            TransactionAbortedError: the transaction has ended.
        """
        self.tag = tag
        self.runner = runner
        if self.ended is not None:
            raise self.ended

    def stop(self) -> None:
        """Stop the job, if one runs."""
        if self.runner is not None:
            self.runner.cancel(self.tag)

    def cause_of(self, error: BaseException) -> TransactionAbortedError | None:
        """Return the end of the transaction, if ``error`` comes from it and says less."""
        is_symptom = isinstance(error, JobCancelledError | TransactionError)
        return self.ended if is_symptom and not isinstance(error, TransactionAbortedError) else None
