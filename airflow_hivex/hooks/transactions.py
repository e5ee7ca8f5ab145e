"""Functions for the tasks of one transaction: its id, the states of the other tasks, lasting failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.hooks.tasks import failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.errors import HivexError


def as_txn_id(value: object) -> int:
    """Return a transaction id that is the argument of a task, as a number.

    :raises AirflowFailException: the value is not a valid transaction id
    """
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise AirflowFailException(f"{value!r} is not the id of a transaction.")
    return int(text)


def lasting_failure(error: HivexError, begin_task_id: str | None) -> AirflowFailException | None:
    """Return the error for a task of a transaction, or None if the failure may pass.

    A retry cannot help if the transaction has ended: the error names the tasks to clear.
    """
    from airflow_hivex.core.errors import (
        NoSuchTransactionError,
        TransactionAbortedError,
        TransactionCommittedError,
        TransactionNotOpenError,
    )

    if isinstance(error, TransactionAbortedError):
        because = f": {error.reason}" if error.reason else ""
        sentence = f"Transaction {error.txn_id} was aborted{because}. Nothing that its tasks wrote is visible."
    elif isinstance(error, NoSuchTransactionError | TransactionCommittedError | TransactionNotOpenError):
        sentence = str(error)
    else:
        return failure_of(error)
    return AirflowFailException(f"{sentence} {what_to_clear(begin_task_id)}")


def what_to_clear(begin_task_id: str | None) -> str:
    """Return the sentence that names the tasks to clear in order to repeat a transaction."""
    what = begin_task_id or "the task that has begun it"
    return f"To do the work again, clear {what} together with all that is downstream of it."


def states_of_tasks(context: Context, task_ids: Sequence[str]) -> dict[str, str | None]:
    """Return the states of tasks of this run by task id; ``_`` and the map index follow the id of a mapped task."""
    ti = context["ti"]
    if not task_ids:
        return {}
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id])
    states: dict[str, str | None] = found.get(ti.run_id, {})
    if ti.map_index is not None and ti.map_index >= 0:
        # In a mapped task group, only tasks with the same map index belong to this transaction.
        states = {name: state for name, state in states.items() if name.endswith(f"_{ti.map_index}")}
    return states
