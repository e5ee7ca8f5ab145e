"""Time as it is passed in, so that tests can drive it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import pendulum

Clock: TypeAlias = Callable[[], int]
"""Gives the current time in milliseconds since the epoch."""


def system_clock() -> int:
    """The machine's time."""
    return time.time_ns() // 1_000_000


def to_datetime(milliseconds: int) -> pendulum.DateTime:
    """A stored time as a time-zone-aware one."""
    return pendulum.from_timestamp(milliseconds / 1000, tz="UTC")
