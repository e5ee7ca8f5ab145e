"""The progress of a job that runs on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from airflow_hivex.core.model.sizes import shown_size


@dataclass(frozen=True, slots=True)
class Progress:
    """The current counts of a job: the stages and tasks that Spark has planned, and the rows of these tasks.

    Spark can plan more stages while the job runs. A count that the cluster does not report is None. ``link`` is the
    address of Spark's own pages about the job, or None.
    """

    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_running: int = 0
    tasks_failed: int | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    bytes_read: int | None = None
    elapsed_s: float = 0.0
    link: str | None = None

    def describe(self) -> str:
        """Return the counts as one line to show."""
        found = [
            f"{self.stages_done} of {self.stages} stages and {self.tasks_done} of {self.tasks} tasks are done",
            f"{self.tasks_running} tasks run",
        ]
        if self.tasks_failed:
            found.append(f"{self.tasks_failed} tasks have failed")
        if self.rows_read is not None:
            found.append(f"{self.rows_read:,} rows read")
        if self.bytes_read is not None:
            found.append(f"{shown_size(self.bytes_read)} read")
        if self.rows_written is not None:
            found.append(f"{self.rows_written:,} rows written")
        text = f"{self.elapsed_s:.0f} s: {', '.join(found)}"
        return text if self.link is None else f"{text}; {self.link}"


ProgressReport: TypeAlias = Callable[[Progress], None]
"""A function that a runner calls with the progress of a job, in a thread of the runner."""
