"""Java for Spark on this machine: the check of Java's installation, the archive of classes, the output of processes."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import deque
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.errors.secrets import hide


def check_java(cluster: str) -> None:
    """Ensure that Java, which Spark needs, is installed.

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
    """Return the path of the archive of classes (class-data sharing), or None if no archive is used.

    The file exists only after ``hivex spark archive``. The Java process of Spark starts faster with the archive. Java
    ignores an archive from another Java or Spark, or from other options.

    The environment variable ``HIVEX_SPARK_ARCHIVE`` names another file. With an empty value, no archive is used.
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
    """Return the options for a Java process that uses the archive, or an empty text.

    An archive that does not exist, or to which other users can write, is not used.
    """
    file = archive_file()
    if file is None or _cannot_be_named(file):
        return ""
    try:
        state = file.stat()
    except OSError:
        return ""
    # The archive has code: a user who can write it can run any code as this user.
    is_trusted = state.st_uid in (0, os.getuid()) and not state.st_mode & 0o022
    return f"-XX:SharedArchiveFile={file}" if is_trusted and state.st_size else ""


def options_to_make(file: Path) -> str:
    """Return the options for a Java process that writes the archive at its end.

    Raises:
        ValueError: the name of the file cannot be part of an option of Java.
    """
    if _cannot_be_named(file):
        raise ValueError(f"{file} has a character that cannot stand in an option of Java")
    return f"-XX:ArchiveClassesAtExit={file}"


def _cannot_be_named(file: Path) -> bool:
    return any(character.isspace() or character in "\"'\\%" for character in str(file))


def escaped(value: str) -> str:
    """Return a value escaped for a properties file of Java."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


_REMEMBERED_LINES = 100
_OUTPUT_LIMIT_S = 2.0
_MEMORY = ("OutOfMemoryError", "insufficient memory", "Could not reserve enough space", "Cannot allocate memory")
_NOISE = ("WARNING: ", "Error occurred during initialization of VM", "\tat ", "    at ")


class ProcessOutput:
    """The output of a Java process, which is logged line by line. The last lines are kept."""

    def __init__(self, log: logging.Logger) -> None:
        """Create the pipe for the output. The lines go to ``log``, at the level in the field ``level``."""
        self._log = log
        self.level = logging.DEBUG
        self._lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(read_end,), name="hivex-spark-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the write end of the pipe in this process, so that the pipe ends together with the Java process."""
        os.close(self.write_end)

    def cause(self) -> str:
        """Return the line of the output that best explains the end of the process, or an empty text."""
        self._thread.join(_OUTPUT_LIMIT_S)
        lines = [line for line in self._lines if not line.startswith(_NOISE)]
        causes = [line for line in lines if any(word in line for word in _MEMORY)]
        causes += [line for line in lines if "rror" in line or "xception" in line]
        return next(iter(causes), "").strip("# ")

    def last_line(self) -> str:
        """Return the last line of the output, or an empty text."""
        return next((line for line in reversed(self._lines) if line), "")

    def _read(self, read_end: int) -> None:
        with open(read_end, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                shown = hide(line.rstrip())
                self._lines.append(shown)
                self._log.log(self.level, "%s", shown)
