"""The progress of jobs in the log, where a program asks for it in no other way: so it reaches the logs of tasks."""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_hivex.core.model.progress import Progress

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
_UNCHANGED_INTERVAL_S = 60.0


class ProgressLog:
    """Writes the progress of one job to the log: every five seconds while it changes, else every minute."""

    def __init__(self, whose: str) -> None:
        """``whose`` is the name of the job at the beginning of each line."""
        self._whose = whose
        self._told: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Write the progress, unless the last line is younger than the interval."""
        if self._told is not None:
            is_unchanged = replace(self._told, elapsed_s=progress.elapsed_s) == progress
            interval_s = _UNCHANGED_INTERVAL_S if is_unchanged else _INTERVAL_S
            if progress.elapsed_s - self._told.elapsed_s < interval_s:
                return
        self._told = progress
        log.info("%s: %s", self._whose, progress.describe())
