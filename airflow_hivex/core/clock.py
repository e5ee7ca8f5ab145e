"""The clock that services take as an argument, so that tests can set the time."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

import pendulum

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


def to_datetime(milliseconds: int) -> pendulum.DateTime:
    """Return a time in milliseconds since the epoch as a time in UTC."""
    return pendulum.from_timestamp(milliseconds / 1000, tz="UTC")


def to_ms(time: datetime) -> int:
    """Return a time with a time zone as milliseconds since the epoch, rounded down."""
    return calendar.timegm(time.utctimetuple()) * 1000 + time.microsecond // 1000
