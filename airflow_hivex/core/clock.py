"""The clock that services take as an argument, so that tests can set the time."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""A function that returns the current time in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the time of this machine, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


# The steady clock that runs while the machine sleeps, if the machine has one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_us() -> int:
    """Return the time of the machine's monotonic clock, which no user can set, in microseconds."""
    return time.clock_gettime_ns(_STEADY) // 1000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(milliseconds: int) -> datetime:
    """Return a time in milliseconds since the epoch as a time in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_ms(time: datetime) -> int:
    """Return a time with a time zone as milliseconds since the epoch, rounded down."""
    return calendar.timegm(time.utctimetuple()) * 1000 + time.microsecond // 1000
