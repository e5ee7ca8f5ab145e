"""Run the statements of a session in a thread, so that a task which is killed or times out can stop them."""

from __future__ import annotations

import contextvars
import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenacity import RetryCallState

    from airflow_hivex.core.session import Result, Session

log = logging.getLogger(__name__)

# How long a task that timed out waits for its statement to end.
CANCEL_LIMIT_S = 60


class StatementThread:
    """Runs a session's statements in a thread of its own while the caller waits.

    Signals come to the main thread: Airflow's time-out raises there, and ``on_kill`` is called on top
    of whatever it does. It must find a wait that can be broken off, not a connection to the JVM or to
    the metastore in the middle of an answer.
    """

    def __init__(self, session: Session, conflict_retries: int) -> None:
        self._session = session
        self._conflict_retries = conflict_retries
        self._broken_off = threading.Event()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hivex-statement")

    def __enter__(self) -> StatementThread:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False)

    def sql(self, statement: str, parameters: Mapping[str, Any] | None, max_rows: int | None) -> Result:
        """Return the result of a statement, which is cancelled if the wait for it is broken off."""
        variables = contextvars.copy_context()
        future = self._executor.submit(variables.run, self._sql, statement, parameters, max_rows)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self.cancel()
                wait([future], timeout=CANCEL_LIMIT_S)
            raise

    def cancel(self) -> None:
        """Stop the statement that runs now, or waits to be run again."""
        self._broken_off.set()
        self._session.cancel()

    def _sql(self, statement: str, parameters: Mapping[str, Any] | None, max_rows: int | None) -> Result:
        """Return the statement's result; run again as long as it was aborted for the sake of others."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

        from airflow_hivex.core.errors import DeadlockError, WriteConflictError

        # A transaction of several statements cannot be completed by running one of them again.
        is_alone = self._session.txn_id is None

        def may_run_again(error: BaseException) -> bool:
            return is_alone and isinstance(error, WriteConflictError | DeadlockError)

        attempts = Retrying(
            retry=retry_if_exception(may_run_again),
            stop=stop_after_attempt(self._conflict_retries + 1),
            wait=wait_random_exponential(multiplier=0.5, max=30),
            sleep=self._pause,
            before_sleep=_tell,
            reraise=True,
        )
        return attempts(self._session.sql, statement, parameters, max_rows)

    def _pause(self, seconds: float) -> None:
        if self._broken_off.wait(seconds):
            raise AirflowException("The task was killed before its statement was run again.")


def _tell(attempt: RetryCallState) -> None:
    error = attempt.outcome.exception() if attempt.outcome is not None else None
    pause = attempt.next_action.sleep if attempt.next_action is not None else 0
    log.warning("Running the statement again in %.1f s, for the %d. time: %s", pause, attempt.attempt_number, error)
