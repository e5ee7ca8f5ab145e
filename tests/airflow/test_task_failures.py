"""Errors of the core in a task: which of them a retry of Airflow may cure."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    JobError,
    NoSuchTableError,
    WriteConflictError,
)
from airflow_hivex.hooks.tasks import failing_for_good, lasting_failure


@pytest.mark.parametrize(
    "error", [WriteConflictError(7, "rows of t"), CommitOutcomeUnknownError(7, "postgresql://h/d")], ids=repr
)
def test_error_that_may_pass_stays_for_retries_of_airflow(error: HivexError) -> None:
    with pytest.raises(type(error)) as raised, failing_for_good():
        raise error
    assert raised.value is error


def test_lasting_error_fails_task_without_retry_and_stack() -> None:
    with pytest.raises(AirflowFailException, match="flights") as raised, failing_for_good():
        raise NoSuchTableError("default", "flights")
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_operator_decides_which_lasting_errors_may_pass() -> None:
    with pytest.raises(NoSuchTableError), failing_for_good(lambda _: True):
        raise NoSuchTableError("default", "flights")


def test_error_of_ended_transaction_names_task_to_clear() -> None:
    conflict = WriteConflictError(7, "rows of t")
    with (
        pytest.raises(AirflowFailException, match="clear begin together"),
        failing_for_good(describe=lambda error: lasting_failure(error, "begin")),
    ):
        raise conflict


def test_failed_job_shows_its_stack() -> None:
    error = JobError("c1", "out of memory")
    with pytest.raises(AirflowFailException) as raised, failing_for_good():
        raise error
    assert raised.value.__cause__ is error
