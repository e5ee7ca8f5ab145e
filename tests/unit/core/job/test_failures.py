from __future__ import annotations

import re

import pytest

from airflow_hivex.core.errors import (
    ExecutorsLostError,
    JobCancelledError,
    JobError,
    SparkProcessError,
    StorageError,
)
from airflow_hivex.core.job.failures import as_error
from airflow_hivex.core.model.plans import LoadedFiles, Plan, PlannedInsert, Scan, Write

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


WRITES = tuple(Write(f"file:///c1/{name}", f"d.{name}", (), (), 1) for name in ("a", "b"))


def test_a_job_that_writes_names_its_tables() -> None:
    plan = Plan("t", "n", "", inserts=tuple(PlannedInsert("SELECT 1", write) for write in WRITES))
    for given in (RuntimeError("it broke."), JobError("", "RuntimeError: it broke")):
        error = as_error(given, plan)
        assert isinstance(error, JobError)
        assert error.facts[1] == "RuntimeError: it broke. Nothing was written to d.a, d.b."


def test_no_room_is_an_error_of_the_storage_and_may_pass() -> None:
    plan = Plan("t", "n", "SELECT 1", write=WRITES[0])
    for reason in ("No space left on device", "Disk quota exceeded", "[Errno 27] File too large"):
        text = f"Job aborted\n\tat o.Some.x(S.scala:1)\nCaused by: java.io.IOException: {reason}\n\tat o.Y.y(Y.scala:2)"
        error = as_error(RuntimeError(text), plan)
        assert isinstance(error, StorageError)
        assert error.retryable
        assert error.facts[0] == "file:///c1/a"
        assert str(error.facts[1]).startswith(
            f"RuntimeError: {reason}. Nothing was written to d.a. Make room there, or"
        )


def test_failed_task_names_its_host_unless_the_statement_is_at_fault() -> None:
    text = (
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted due to stage "
        "failure: Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 9) "
        "(10.0.0.7 executor {}): {}\n\tat o.Y.y(Y.scala:2)\n\nDriver stacktrace:\nCaused by: {}\n\tat o.Y.y(Y.scala:2)"
    )

    def message(executor: str, cause: str) -> str:
        return str(as_error(RuntimeError(text.format(executor, cause, cause)), PLAN))

    assert message("3", "java.io.IOException: Input/output error").endswith("Input/output error (on host 10.0.0.7)")
    assert "10.0.0.7" in message("3", "o.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading f")
    assert "10.0.0.7" not in message("3", "o.SparkArithmeticException: [CAST_OVERFLOW] The value overflows.")
    assert "10.0.0.7" not in message("driver", "java.io.IOException: Input/output error")


def test_lost_executors_are_recognised_and_may_come_back() -> None:
    text = (
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted due to stage "
        "failure: Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 9): "
        "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: gone\nDriver stacktrace:"
    )
    error = as_error(RuntimeError(text), Plan("t", "n", "SELECT 1", write=WRITES[0]))
    assert isinstance(error, ExecutorsLostError)
    assert error.retryable
    assert "d.a" in str(error)


def test_job_without_memory_may_be_run_again() -> None:
    text = (
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted due to stage "
        "failure: Task 0 in stage 2.0 failed 1 times\nCaused by: java.lang.OutOfMemoryError: Java heap space\n"
        "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)"
    )
    error = as_error(RuntimeError(text), Plan("t", "n", "SELECT 1"))
    assert isinstance(error, SparkProcessError)
    assert error.retryable
    assert "Java heap space" in str(error)


def test_a_missing_connector_is_named_with_what_to_do() -> None:
    cause = "Caused by: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    for text in (f"An error occurred\n{cause}\n\tat a.B(C.java)", 'No FileSystem for scheme "gs"'):
        error = as_error(RuntimeError(text), Plan("t", "n", "SELECT 1"))
        assert isinstance(error, JobError)
        assert re.search(r"no connector .*\((org\S+S3AFileSystem|gs)\); name .* in spark\.jars\.packages", str(error))


@pytest.mark.parametrize("cause", ["Connect to 10.0.0.9:9000 [/10.0.0.9] failed: Connection refused", "Read timed out"])
def test_an_object_store_that_does_not_answer_is_named(cause: str) -> None:
    asked = f"com.amazonaws.SdkClientException: Unable to execute HTTP request: {cause}"
    text = (
        f"An error occurred while calling o56.orc.\n: java.io.IOException: getFileStatus on s3a://data/t/x: {asked}\n"
        f"\tat a.B(C.java)\nCaused by: {asked}\n\tat a.B(C.java)\n"
        "Caused by: java.net.ConnectException: Connection refused\n\tat a.B(C.java)"
    )
    conf = {"spark.hadoop.fs.s3a.bucket.data.endpoint": "http://10.0.0.9:9000"}
    error = as_error(RuntimeError(text), Plan("t", "n", "SELECT 1", spark_conf=conf))
    assert isinstance(error, StorageError)
    assert error.retryable
    assert str(error) == (
        "Storage at s3a://data/t/x cannot be used: the object store at http://10.0.0.9:9000 does not answer Spark "
        f"({cause}). Check that it runs, and that the hosts of Spark reach it, then repeat the statement."
    )
    write = Write("s3a://data/t", "db.t", (), (), 1)
    error = as_error(RuntimeError(text), Plan("t", "n", "", write=write, spark_conf=conf))
    assert str(error).endswith("repeat the statement. Nothing was written to db.t.")


_WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f'{_WORKER}  File "worker.py", line 1079, in read_single_udf\n    f()\n'
            "ModuleNotFoundError: No module named 'numpy'\n",
            "ModuleNotFoundError: No module named 'numpy'. They need",
        ),
        (
            f"{_WORKER}pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker "
            "has different version: 3.12 than that in driver: 3.11.\nPlease check.\n",
            "PYTHON_VERSION_MISMATCH: Python in worker has different version: 3.12 than that in driver: 3.11",
        ),
        (
            f"{_WORKER}PySparkImportError: [UNSUPPORTED_PACKAGE_VERSION] PyArrow >= 18.0.0 must be installed\n",
            "UNSUPPORTED_PACKAGE_VERSION: PyArrow >= 18.0.0 must be installed",
        ),
        (
            "Job aborted\n\tat o.Some.x(S.scala:1)\nCaused by: java.io.IOException: Cannot run program "
            '"python3.11": error=2, No such file or directory\n\tat o.Y.y(Y.scala:2)',
            'Cannot run program "python3.11": error=2, No such file or directory. They need',
        ),
    ],
)
def test_another_python_of_executors_is_one_sentence(text: str, problem: str) -> None:
    error = as_error(RuntimeError(text), Plan("t", "n", "SELECT 1", write=WRITES[0]))
    assert isinstance(error, JobError)
    message = str(error.facts[1])
    assert f"the Python of its executors cannot run its tasks: {problem}" in message
    assert "spark.pyspark.python" in message
    assert message.endswith("Nothing was written to d.a.")
    assert "Traceback" not in message


def test_error_that_a_statement_quotes_is_no_problem_of_python() -> None:
    error = as_error(RuntimeError("[USER_RAISED_EXCEPTION] ImportError: of the user"), Plan("t", "n", "SELECT 1"))
    assert "ImportError: of the user" in str(error)
    assert "spark.pyspark.python" not in str(error)


def test_a_malformed_row_of_a_load_leads_to_on_error() -> None:
    text = (
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [null,a].\n"
        "Parse Mode: FAILFAST. To process malformed records as null result, try setting the option 'mode' as "
        "'PERMISSIVE'.  SQLSTATE: 22023"
    )
    message = str(as_error(RuntimeError(text), Plan("t", "n", "", loaded=LoadedFiles("v", "csv", ()))))
    assert "[null,a]. ON_ERROR = CONTINUE" in message
    assert "PERMISSIVE" not in message
