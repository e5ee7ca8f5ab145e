from __future__ import annotations

from airflow_hivex.core.errors import JobCancelledError, JobError
from airflow_hivex.core.model.plans import Plan, Scan
from airflow_hivex.core.spark.failures import as_error

PLAN = Plan("t", "n", "SELECT 1", (Scan("hivex_7_ab_0", "d.orders", (), (), "orc", ""),))


def test_the_innermost_condition_is_the_message() -> None:
    text = (
        "An error occurred while calling o1.orc.\n: org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "\tat org.apache.spark.Some.method(Some.scala:1)\n"
        "Caused by: org.apache.spark.SparkArithmeticException: [CAST_OVERFLOW] The value overflows. SQLSTATE: 22003\n"
        "== SQL (line 1, position 8) ==\nselect x\n       ^\n"
        "\tat org.apache.spark.Other.method(Other.scala:2)\n\t... 5 more\n"
    )
    error = as_error(RuntimeError(text), PLAN)
    assert isinstance(error, JobError)
    assert error.facts[1] == "RuntimeError: [CAST_OVERFLOW] The value overflows."


def test_views_are_called_by_their_tables() -> None:
    error = as_error(RuntimeError("cannot read `hivex_7_ab_0`.`x` of hivex_7_ab_0"), PLAN)
    assert error.facts[1] == "RuntimeError: cannot read `d`.`orders`.`x` of d.orders"


def test_a_stopped_job_is_cancelled_not_failed() -> None:
    text = "[SPARK_JOB_CANCELLED] Job 9 cancelled part of cancelled job tags t SQLSTATE: XXKDA"
    assert isinstance(as_error(RuntimeError(text), PLAN), JobCancelledError)
