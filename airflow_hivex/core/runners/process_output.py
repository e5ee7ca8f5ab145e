"""The output of a Java process of Spark on its way to a log, and the line in it that explains why the process ended."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

from airflow_hivex.core.model.secrets import hide

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
