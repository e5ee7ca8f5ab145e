"""The Java process of this process's Spark: its Java, its archive of classes, its start, its output and its end.

It writes to standard output and standard error, where Airflow takes every line for an error. So its output goes to
this module's log: at DEBUG while Spark starts, at INFO afterwards, when users' functions print there.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from airflow_hivex.core.errors import JobError, SparkProcessError
from airflow_hivex.core.model.secrets import hide, is_secret_name

log = logging.getLogger(__name__)

_OF_SHORT_NAMES = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
_OF_EXCEPTIONS = "py4j.reflection.TypeUtil"


_output: ProcessOutput | None = None


def start(master: str, conf: Mapping[str, str], cluster: str) -> SparkSession:
    """Start Spark in this process; the thread that called may be any.

    Raises:
        SparkProcessError: the Java process has ended before Spark ran.
        PySparkException, Py4JError: Spark refuses its configuration.
    """
    global _output
    _quiet_py4j()
    output = None
    options = {"spark.master": master, "spark.app.name": "hivex", **conf}
    # Every user of the machine can read the arguments of a process. Spark itself gets the rest below.
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
    """Give py4j the classes that pyspark asks for by their short names, or part by part.

    py4j asks the JVM each time, which looks for the name in all of its jars, in one package after the other: a
    millisecond for each use of a column, and a twentieth of a second for each exception.
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
    """Return whether the Java process was started and is gone, after waiting up to ``wait_s`` for its end."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(wait_s)
    except TimeoutExpired:
        return False
    return True


def end_as_error(cluster: str) -> SparkProcessError:
    """Return why the Java process has ended."""
    process: Any = getattr(SparkContext._gateway, "proc", None)
    code = process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
    cause = _output.cause() if _output is not None else ""
    because = f" ({cause})" if cause else ""
    return SparkProcessError(cluster, f"Spark's process {how}{because}. The next statement starts a new one.")


def forget() -> None:
    """Let the next start begin a new Java process; for one that has ended."""
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
    """End this process's Spark and its Java process, if they run."""
    context = SparkContext._active_spark_context
    process = getattr(SparkContext._gateway, "proc", None)
    if context is not None:
        context.stop()
    if process is not None:
        # It ends with its input.
        process.stdin.close()
        process.wait()
        forget()


def _quiet_py4j() -> None:
    # Under a root logger at INFO, as in Airflow, py4j logs every connection, and of each lost one with its stack.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger().addFilter(_is_not_of_py4j)
    # It repeats each failed query with the whole stack as one line of JSON.
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a message on the root logger is another's: py4j writes there what it raises as well."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def check_java(cluster: str) -> None:
    """Ensure that there is a Java to start Spark with.

    Raises:
        JobError: JAVA_HOME is wrong, or no java is on the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise JobError(
            cluster,
            f"Spark needs Java 17 or newer, and {where}. Install one (Debian: openjdk-17-jre-headless or "
            "openjdk-21-jre-headless), or set JAVA_HOME",
        )


VARIABLE = "HIVEX_SPARK_ARCHIVE"


def archive_file() -> Path | None:
    """Return the path of the archive of classes (class-data sharing); None if none is used. It may not exist yet.

    ``hivex spark archive`` makes it, and Spark's Java process starts faster with it. Java looks whether it fits: with
    one of another Java, another Spark or other options the classes are loaded as ever.

    The variable ``HIVEX_SPARK_ARCHIVE`` names another file; if it is empty, none is used.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given).absolute() if given else None
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "hivex" / f"spark-{spark}.jsa"


def options_to_use() -> str:
    """Return the options for a Java process that uses the archive; or an empty text without a trusted archive."""
    file = archive_file()
    if file is None or _cannot_be_named(file):
        return ""
    try:
        state = file.stat()
    except OSError:
        return ""
    # It holds code: a user who can write it can run any code as this user.
    is_trusted = state.st_uid in (0, os.getuid()) and not state.st_mode & 0o022
    return f"-XX:SharedArchiveFile={file}" if is_trusted and state.st_size else ""


def options_to_make(file: Path) -> str:
    """Return the options for a Java process that leaves the archive when it ends.

    Raises:
        ValueError: no option of Java can name the file.
    """
    if _cannot_be_named(file):
        raise ValueError(f"{file} has a character that cannot stand in an option of Java")
    return f"-XX:ArchiveClassesAtExit={file}"


def _cannot_be_named(file: Path) -> bool:
    return any(character.isspace() or character in "\"'\\%" for character in str(file))


_REMEMBERED_LINES = 100
_OUTPUT_LIMIT_S = 2.0
_MEMORY = ("OutOfMemoryError", "insufficient memory", "Could not reserve enough space", "Cannot allocate memory")
_NOISE = ("WARNING: ", "Error occurred during initialization of VM", "\tat ", "    at ")


class ProcessOutput:
    """The output of a Java process: handed on to the log line by line, the last lines kept."""

    def __init__(self, log: logging.Logger) -> None:
        """``log`` receives the lines, at ``level``."""
        self._log = log
        self.level = logging.DEBUG
        self._lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(read_end,), name="hivex-spark-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the pipe to the Java process alone: it ends when that does."""
        os.close(self.write_end)

    def cause(self) -> str:
        """Return the line that best explains why the process has ended, or an empty text."""
        self._thread.join(_OUTPUT_LIMIT_S)
        lines = [line for line in self._lines if not line.startswith(_NOISE)]
        causes = [line for line in lines if any(word in line for word in _MEMORY)]
        causes += [line for line in lines if "rror" in line or "xception" in line]
        return next(iter(causes), "").strip("# ")

    def last_line(self) -> str:
        """Return the last line that it has printed, or nothing."""
        return next((line for line in reversed(self._lines) if line), "")

    def _read(self, read_end: int) -> None:
        with open(read_end, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                shown = hide(line.rstrip())
                self._lines.append(shown)
                self._log.log(self.level, "%s", shown)
