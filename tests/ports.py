"""Ports for servers that a test starts, which take them a moment later."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

# Processes that run tests side by side have ids that follow each other: they begin to look far from each other.
_FIRST, _END, _APART = 20000, 32000, 97
_STARTS = 10000


def free_ports(count: int) -> list[int]:
    """Different ports below those that the system gives to clients: one that tries again might connect to itself."""
    found: list[int] = []
    with ExitStack() as stack:
        for port in range(_FIRST + os.getpid() * _APART % _STARTS, _END):
            opened = stack.enter_context(socket.socket())
            try:
                opened.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise OSError("no ports are free")


def free_port() -> int:
    """Such a port."""
    return free_ports(1)[0]
