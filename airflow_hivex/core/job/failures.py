"""The translation of Spark's errors into HivexErrors with one readable sentence."""

from __future__ import annotations

import re
import sys
from urllib.parse import unquote

import pyspark
from pyspark.errors import AnalysisException

from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    ExecutorsLostError,
    HivexError,
    JobCancelledError,
    JobError,
    SparkProcessError,
    StorageError,
)
from airflow_hivex.core.job import root_checks
from airflow_hivex.core.job.assignment import unreadable
from airflow_hivex.core.job.constraints import violation
from airflow_hivex.core.model.plans import Plan

_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|cancelled part of cancelled job tags")
_CAUSE = re.compile(r"^Caused by: (.*?)(?=^\s+at |^\s*\.\.\. \d+ more|^Caused by: |\Z)", re.MULTILINE | re.DOTALL)
_SERVER_STACK = re.compile(r"\n+JVM stacktrace:\n.*", re.DOTALL)
"""The server's stack, which a client of Spark Connect adds to a message."""
_FRAMES = re.compile(r"^\s+at [\w.$/<>]+\(.*", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"\AAn error occurred while calling \S+\s*:?\s*")
_CLASS = re.compile(r"\A(?:[a-z]\w*\.)+[\w$]+: ")
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_CONTEXT = re.compile(r"\s*^== .*? ==$.*", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+?)\.?(?:\s|\Z)")
_OTHER_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (.*)\s+Schema: (.*)\s+Expected: [\s\S]*?CSV file: (\S+)"
)
_OTHER_LENGTH = re.compile(
    r"Number of column in CSV header is not equal to number of fields in the schema:?\s+Header length: (\d+), "
    r"schema size: (\d+)\s+CSV file: (\S+)"
)
_LENIENT = re.compile(r"\s*Parse Mode: FAILFAST\. To process malformed records as null result, try .*?'PERMISSIVE'\.")
"""An advice of Spark that statements cannot follow."""
_NO_ROOM = re.compile(r"No space left on device|File too large|Disk quota exceeded")
_MAKE_ROOM = "Make room there, or on the disk of Spark's temporary files (spark.local.dir), and run the statement again"
_NO_ANSWER_OF_STORE = re.compile(r"Unable to execute HTTP request: (.+)")
"""The message of Amazon's library when an object store cannot be reached. Its causes do not name the store."""
_ENDPOINT = re.compile(r"spark\.hadoop\.fs\.s3a\.(?:bucket\..*\.)?endpoint")
_IN_STORE = re.compile(r"\b(s3[an]?://[^\s:,'\"]+)")
_NO_MEMORY = re.compile(r"\b(?:OutOfMemoryError|SparkOutOfMemoryError)\b")
_LOST = re.compile(r"\bExecutorLostFailure\b")
_HOST_OF_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (?!driver\b)\S+?\)")
_OF_STORAGE = ("[FAILED_READ_FILE", "[TASK_WRITE_FAILED]")
"""The beginnings of the conditions of Spark that are not about the statement, but about files."""
_NO_SESSION = re.compile(r"INVALID_HANDLE\.(?:SESSION|OPERATION)_|NO_ACTIVE_SESSION|INVALID_CURSOR\.")
_SHUT_DOWN = re.compile(r"stopped SparkContext|SparkContext was shut down")
_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
"""The states of gRPC calls that no server has answered."""
_NO_AVRO = re.compile(r"(?i)find (the )?data source: `?avro|avro is built-in but external")
_PYTHON = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError): .+|Cannot run program \"[^\"]*python.+"
    r"|(?<=\[)(?:PYTHON_VERSION_MISMATCH|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION)\] .+"
)
"""Problems of the Python that runs tasks: a missing module, a missing program, or another version."""
_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError")
_NO_CONNECTOR = re.compile(r"Class (org\.apache\.hadoop\.fs\.[\w.]+) not found|No FileSystem for scheme \"?(\w+)")
_IN_VALUES = "[INVALID_INLINE_TABLE.CANNOT_EVALUATE_EXPRESSION_IN_INLINE_TABLE]"
_INSTEAD_OF_VALUES = "Write a SELECT in place of VALUES, which calls no functions of SQL."
_AVRO_PACKAGE = (
    f"its Spark lacks the package org.apache.spark:spark-avro_2.13:{pyspark.__version__}, which reads and writes Avro; "
    "name it in spark.jars.packages, or its file in spark.jars, of the cluster's spark_conf"
)


def as_error(error: Exception, plan: Plan) -> HivexError:
    """Return ``error`` as a HivexError: about the statement if Spark refused it, about full storage, or about the job.

    If the job writes, an error about storage or the job names the tables. In a JobError the name of the cluster is
    empty. The caller that has started the job must add the name.
    """
    found = _as_error(error, plan)
    silent = _silent_store(str(error), plan) if type(found) is JobError else None
    if not isinstance(found, JobError) or isinstance(found, JobCancelledError) or not plan.writes:
        return silent or found
    tables = ", ".join(dict.fromkeys(write.table for write in plan.writes))
    if silent is not None:
        return StorageError(silent.location, f"{silent.reason}. Nothing was written to {tables}")
    message = f"{found.facts[1].rstrip('.')}. Nothing was written to {tables}"
    if _NO_ROOM.search(message):
        places = ", ".join(dict.fromkeys(write.path for write in plan.writes))
        return StorageError(places, f"{message}. {_MAKE_ROOM}")
    return type(found)("", f"{message}.")


def _silent_store(text: str, plan: Plan) -> StorageError | None:
    """Return the error for a text that says that an object store does not answer Spark, or None for any other text."""
    found = _NO_ANSWER_OF_STORE.findall(text)
    if not found:
        return None
    endpoints = [value for key, value in plan.spark_conf.items() if _ENDPOINT.fullmatch(key)]
    store = f"the object store at {endpoints[0]}" if endpoints else "its object store"
    file = _IN_STORE.search(text)
    return StorageError(
        file[1] if file else "S3",
        f"{store} does not answer Spark ({found[-1].strip().rstrip('.')}). Check that it runs, and that the hosts of "
        "Spark reach it, then repeat the statement",
    )


def _as_error(error: Exception, plan: Plan) -> HivexError:
    if isinstance(error, HivexError):
        return error
    text = str(error)
    unseen = root_checks.as_error(text, plan.roots)
    if unseen is not None:
        return unseen
    violated = None if isinstance(error, AnalysisException) else violation(text) or unreadable(text)
    if violated is not None:
        return violated
    if _CANCELLED.search(text):
        return JobCancelledError("")
    lost = _lost_connection(error)
    if lost is not None:
        return ClusterUnreachableError("", lost)
    message = (
        _problem_of_python(text)
        or _other_header(text)
        or with_table_names(_message(text), plan)
        or type(error).__name__
    )
    if isinstance(error, AnalysisException):
        if _NO_AVRO.search(message):
            return JobError("", _AVRO_PACKAGE)
        if error.getCondition() != "PATH_NOT_FOUND":
            is_in_values = message.startswith(_IN_VALUES)
            return AnalysisError(f"{message} {_INSTEAD_OF_VALUES}" if is_in_values else message)
        # A missing directory is not an error of the statement.
        message += _whose_directory(message, plan)
    message += _advice(message, plan) + _host_of_task(text, message)
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        message = f"{type(error).__name__}: {message}"
    if missing := _NO_CONNECTOR.search(message):
        message = (
            f"its Spark has no connector for files that it reads or writes ({missing[1] or missing[2]}); name the "
            "library in spark.jars.packages of the cluster's spark_conf: for s3a org.apache.hadoop:hadoop-aws in the "
            "release of Spark's own Hadoop libraries"
        )
    if _NO_MEMORY.search(text):
        return SparkProcessError("", message)
    return ExecutorsLostError("", message) if _LOST.search(text) else JobError("", message)


def _problem_of_python(text: str) -> str | None:
    """Return a sentence about the Python of the executors if it cannot run tasks, or None for any other problem."""
    found = _PYTHON.findall(text)
    # A statement can quote the name of an error, for example with raise_error().
    if not found or (found[-1].startswith(_IMPORT_ERRORS) and "Python worker" not in text):
        return None
    minor = ".".join(map(str, sys.version_info[:2]))
    return (
        f"the Python of its executors cannot run its tasks: {found[-1].replace(']', ':', 1).strip(' .')}. They need "
        f"Python {minor} with numpy, pyarrow and the modules that functions use; name it in spark.pyspark.python of "
        "the cluster's spark_conf"
    )


def _advice(message: str, plan: Plan) -> str:
    if plan.loaded is None or "MALFORMED_RECORD" not in message:
        return ""
    return " ON_ERROR = CONTINUE puts such rows of CSV and JSON files into another table."


def _other_header(text: str) -> str | None:
    """Return a sentence about a CSV file whose header is not that of the first file, or None for any other problem."""
    named, counted = _OTHER_HEADER.search(text), _OTHER_LENGTH.search(text)
    if named is not None:
        header, first, file = named.groups()
        own = f"has the columns {header.strip()}, and not {first.strip()}"
    elif counted is not None:
        header, first, file = counted.groups()
        own = f"has {header} columns, and not {first}"
    else:
        return None
    return (
        f"the header of the file {unquote(file)} {own}, as the first file has them; load files with different headers "
        "by different statements, with FILES or PATTERN"
    )


def _lost_connection(error: Exception) -> str | None:
    """Return a text about the lost Spark Connect server or session, or None for any other error."""
    condition = getattr(error, "getCondition", str)() or ""
    if _NO_SESSION.match(condition):
        return "its Spark Connect server was restarted, or has ended the session of this process; run it again"
    if type(error).__module__.endswith(".connect") and _SHUT_DOWN.search(str(error)):
        return "its Spark Connect server was stopped; run it again when it answers"
    state = getattr(getattr(error, "_grpc_status_code", None), "name", "")
    if state in _NO_ANSWER and not condition:
        return "the connection to its Spark Connect server was lost and did not come back; run it again when it answers"
    return None


def _host_of_task(text: str, message: str) -> str:
    """Return the end of a message with the host of the failed task, unless the statement itself is at fault."""
    host = _HOST_OF_TASK.search(text)
    if host is None or (message.startswith("[") and not message.startswith(_OF_STORAGE)):
        return ""
    return f" (on host {host[1]})"


def _whose_directory(message: str, plan: Plan) -> str:
    for scan in plan.scans:
        if scan.is_transactional and scan.base_path.partition(":")[2].lstrip("/") in message:
            return (
                f" It belongs to {scan.table} and was deleted by other means; restore it there, or drop the table "
                "or partition."
            )
    return ""


def _message(text: str) -> str:
    """Return the message of the innermost cause, without class names, stack and query."""
    causes = [_own(cause) for cause in _CAUSE.findall(text)]
    own = [message for message in (_own(text), *causes) if message]
    conditions = [message for message in own if message.startswith("[")]
    found = (conditions or own or [""])[-1]
    # This message says that a task failed; the cause below it has the reason.
    message = f"{found} {own[-1]}" if found.startswith("[TASK_WRITE_FAILED]") and own[-1] != found else found
    # Spark names the file in an outer error, and the unreadable row in an inner one.
    file = next((read[1] for each in own if (read := _FILE.match(each))), None)
    return message if file is None or file in message else f"{message.rstrip('.')}, in the file {unquote(file)}"


def _own(text: str) -> str:
    text = _LENIENT.sub("", text)
    text = _FRAMES.sub("", _CALL.sub("", text.strip()))
    text = _CLASS.sub("", text.strip())
    return _CONTEXT.sub("", _STATE.sub("", text)).strip()


def with_table_names(message: str, plan: Plan) -> str:
    """Return a message of Spark with the names of a plan's tables in place of the names of its views."""
    for scan in plan.scans:
        quoted = ".".join(f"`{part}`" for part in scan.table.split("."))
        message = message.replace(f"`{scan.view}`", quoted)
        # Names have no backslash, so the name of the table is its own template.
        message = re.sub(rf"(?<!\w){re.escape(scan.view)}(?!\w)", scan.table, message)
    return message
