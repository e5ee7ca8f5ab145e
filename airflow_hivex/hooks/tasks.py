"""The names of tasks in the metastore and in Airflow's web interface, and the errors that fail tasks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import HivexError, JobError, Outcome, StorageError, StoreError
from airflow_hivex.core.model.ended_statements import TaskTry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.errors import HivexError


def agent_info(context: Context) -> str:
    """Return the name of this try as the owner of transactions, the text of :func:`task_try`."""
    return str(task_try(context))


def agent_info_of_try(context: Context, try_number: int) -> str:
    """Return the name of one try of the task as the owner of transactions, in the form of :func:`agent_info`."""
    return str(task_try(context, try_number))


def task_try(context: Context, try_number: int | None = None) -> TaskTry:
    """Return one try of the task, by default this try."""
    ti = context["ti"]
    number = ti.try_number if try_number is None else try_number
    return TaskTry(ti.dag_id, ti.task_id, ti.run_id, number, _map_index(ti.map_index))


def agent_of(dag_id: str, task_id: str, map_index: int | None, run_id: str, try_number: int) -> str:
    """Return the name of one try of any task as the owner of transactions, in the form of :func:`agent_info`."""
    return str(TaskTry(dag_id, task_id, run_id, try_number, _map_index(map_index)))


def _map_index(given: int | None) -> int | None:
    return given if given is not None and given >= 0 else None


def part_name(context: Context) -> str:
    """Return ``dag_id/run_id/task_id/map_index``, the name of a task's part of a transaction.

    All tries share the name.
    """
    ti = context["ti"]
    map_index = ti.map_index if ti.map_index is not None else -1
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{map_index}"


class NamedInMap:
    """The base of operators whose mapped tasks are shown with their ``map_name`` in Airflow's web interface.

    If the task has its own ``map_index_template``, this template is used.
    """

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, *args: Any, **kwargs: Any
    ) -> None:
        """Render the template fields of the task, and set its ``map_index_template``.

        Airflow then renders ``map_index_template``, before the task runs.
        """
        render: Callable[..., None] = super()._do_render_template_fields  # type: ignore[misc]
        render(parent, template_fields, context, *args, **kwargs)
        map_index = context["ti"].map_index
        if parent is self and map_index is not None and map_index >= 0 and context.get("map_index_template") is None:
            context["map_index_template"] = "{{ task.map_name }}"


def cause_of(error: HivexError) -> BaseException | None:
    """Return ``error`` if the log must show its traceback, or None if the message alone explains the failure.

    A failure of a job, the database or a file system needs a traceback. A wrong statement needs no traceback.
    """
    return error if isinstance(error, JobError | StoreError | StorageError) else None


def failure_of(error: HivexError) -> AirflowFailException | None:
    """Return the error that fails a task without a retry, or None if a retry can succeed.

    A retry can also succeed after a failure with an unknown outcome, because the retry finds the applied changes.
    """
    if error.retryable or error.outcome is Outcome.UNKNOWN:
        return None
    return AirflowFailException(str(error))


@contextmanager
def failing_for_good(
    may_pass: Callable[[HivexError], bool] | None = None,
    describe: Callable[[HivexError], AirflowFailException | None] = failure_of,
) -> Iterator[None]:
    """Replace an error of the block by AirflowFailException if a retry would fail again. Airflow then does not retry.

    :param may_pass: a function that returns True for an error after which a retry can succeed. ``describe`` is then not
        called
    :param describe: a function that returns the error for the task, or None if a retry can succeed
    :raises AirflowFailException: the same call would fail again
    :raises HivexError: a retry can succeed
    """
    try:
        yield
    except HivexError as error:
        failure = None if may_pass is not None and may_pass(error) else describe(error)
        if failure is None:
            raise
        raise failure from cause_of(error)


def as_txn_id(value: object) -> int:
    """Return the transaction id in an argument of a task, as a number.

    :raises AirflowFailException: the value is not a valid transaction id
    """
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise AirflowFailException(f"{value!r} is not the id of a transaction.")
    return int(text)


def lasting_failure(error: HivexError, begin_task_id: str | None) -> AirflowFailException | None:
    """Return the error that fails a task of a transaction without a retry, or None if a retry can succeed.

    If the transaction has ended, a retry cannot succeed. Then the error names the tasks to clear.
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
    """Return a sentence that says which tasks the user must clear in Airflow to repeat a transaction."""
    what = begin_task_id or "the task that has begun it"
    return f"To do the work again, clear {what} together with all that is downstream of it."


def states_of_tasks(context: Context, task_ids: Sequence[str]) -> dict[str, str | None]:
    """Return a dict from task id to state, for tasks of this DAG run.

    The key of a mapped task is its id, ``_`` and its map index, such as ``load_0``. If the running task is in a mapped
    task group, the dict has only the tasks with the same map index.
    """
    ti = context["ti"]
    if not task_ids:
        return {}
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id])
    states: dict[str, str | None] = found.get(ti.run_id, {})
    if ti.map_index is not None and ti.map_index >= 0:
        # In a mapped task group, only tasks with the same map index belong to this transaction.
        states = {name: state for name, state in states.items() if name.endswith(f"_{ti.map_index}")}
    return states
