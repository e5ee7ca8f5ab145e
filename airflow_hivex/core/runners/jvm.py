"""The Java process of this process's Spark: its start, its output, and the check whether it still runs.

Airflow regards every line of standard error as an error. Therefore the output of the Java process goes to the log of
this module, at DEBUG while Spark starts, and at INFO afterwards, for the output of users' functions.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping
from subprocess import TimeoutExpired
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from airflow_hivex.core.errors import SparkProcessError
from airflow_hivex.core.errors.secrets import is_secret_name
from airflow_hivex.core.runners.java import ProcessOutput

log = logging.getLogger(__name__)

_OF_SHORT_NAMES = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
_OF_EXCEPTIONS = "py4j.reflection.TypeUtil"


_output: ProcessOutput | None = None


def start(master: str, conf: Mapping[str, str], cluster: str) -> SparkSession:
    """Start Spark in this process, from any thread, and return its session.

    Raises:
        SparkProcessError: the Java process has ended before Spark ran.
        PySparkException, Py4JError: Spark refuses its configuration.
    """
    global _output
    _quiet_py4j()
    output = None
    options = {"spark.master": master, "spark.app.name": "hivex", **conf}
    # Every user of the machine can read the arguments of a process. So secrets are set in the session below.
    arguments = {name: value for name, value in options.items() if not is_secret_name(name)}
    if SparkContext._gateway is None:
        output = _output = ProcessOutput(log)
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                SparkConf().setAll(list(arguments.items())),
                {"stdout": output.write_end, "stderr": subprocess.STDOUT},
            )
        except (PySparkException, OSError) as error:
            output.close()
            raise SparkProcessError(
                cluster, f"Spark's process did not start: {output.cause() or output.last_line() or error}"
            ) from error
        output.close()
        SparkContext._ensure_initialized(gateway=gateway)
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _keep_classes()
    if output is not None:
        output.level = logging.INFO
    return session


def _keep_classes() -> None:
    """Store Java classes in py4j, so that pyspark finds these classes fast.

    Without the stored classes, the JVM searches all of its jars, for a millisecond at each use of a column and for 50
    milliseconds at each exception.
    """
    jvm: Any = SparkContext._jvm
    for full_name in _OF_SHORT_NAMES:
        found = getattr(jvm, full_name)
        if isinstance(found, JavaClass):
            setattr(jvm, full_name.rpartition(".")[2], found)
    package = jvm
    for part in _OF_EXCEPTIONS.split("."):
        found = getattr(package, part)
        setattr(package, part, found)
        package = found


def has_ended(wait_s: float = 0) -> bool:
    """Return whether the Java process was started and has ended, after a wait of up to ``wait_s`` seconds."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(wait_s)
    except TimeoutExpired:
        return False
    return True


def end_as_error(cluster: str) -> SparkProcessError:
    """Return the error for the end of the Java process, with the cause of the end."""
    process: Any = getattr(SparkContext._gateway, "proc", None)
    code = process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
    cause = _output.cause() if _output is not None else ""
    because = f" ({cause})" if cause else ""
    return SparkProcessError(cluster, f"Spark's process {how}{because}. The next statement starts a new one.")


def forget() -> None:
    """Forget a Java process that has ended, so that the next start begins a new process."""
    with SparkContext._lock:
        gateway: Any = SparkContext._gateway
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    if gateway is not None:
        gateway.shutdown()


def end() -> None:
    """End the Spark of this process and its Java process, if they run."""
    context = SparkContext._active_spark_context
    process = getattr(SparkContext._gateway, "proc", None)
    if context is not None:
        context.stop()
    if process is not None:
        # The Java process ends when its standard input is closed.
        process.stdin.close()
        process.wait()
        forget()


def _quiet_py4j() -> None:
    # With a root logger at INFO, as in Airflow, py4j logs every connection, and each lost one with a stack.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger().addFilter(_is_not_of_py4j)
    # This logger repeats each failed query with the whole stack as one line of JSON.
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not from py4j, which logs each error that it raises."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname
