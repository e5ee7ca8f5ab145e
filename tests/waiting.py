"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail after two minutes."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not happen within two minutes"
        # Between two looks: nothing tells this thread of it.
        time.sleep(0.01)
