"""Time as it is passed in, so that tests can drive it."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

import pendulum

Clock: TypeAlias = Callable[[], int]
"""Gives the current time in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the machine's time."""
    return time.time_ns() // 1_000_000


def to_datetime(milliseconds: int) -> pendulum.DateTime:
    """Return a stored time as a time-zone-aware one."""
    return pendulum.from_timestamp(milliseconds / 1000, tz="UTC")


def to_ms(time: datetime) -> int:
    """Return a time-zone-aware time as it is stored, cut off to the millisecond."""
    return calendar.timegm(time.utctimetuple()) * 1000 + time.microsecond // 1000
