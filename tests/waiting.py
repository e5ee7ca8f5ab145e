"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def wait_until(condition: Callable[[], bool], limit_s: float = 120) -> None:
    """Return as soon as the condition holds; fail after two minutes, or another limit."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {limit_s:g} seconds"
        # Between two looks: no event reaches this thread.
        time.sleep(0.01)


def wait_for_no_job(context: SparkContext) -> None:
    """Return when no job of Spark runs, which Spark reports a moment after the end of the last one."""
    tracker = context.statusTracker()
    wait_until(lambda: not list(tracker.getActiveJobsIds()), limit_s=15)
