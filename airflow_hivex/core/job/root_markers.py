"""The markers of the roots that a task in Python reads or writes below. It is pickled by value, and imports nothing."""

from __future__ import annotations

import socket
from collections.abc import Sequence

Marker = tuple[int, str, str]
"""The number of a root among those of the plan, the path of its marker, and the id in it."""


def check(markers: Sequence[Marker]) -> None:
    """Look for the markers in this process.

    Raises:
        RuntimeError: one is not there, or has another id. ``root_checks.as_error`` reads the message.
    """
    for number, path, root_id in markers:
        problem = _problem(path, root_id)
        if problem:
            raise RuntimeError(f"hivex_root_unseen[{number}|{socket.gethostname()}|{problem}]")


def _problem(path: str, root_id: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - no module but those above goes with it
            return "" if root_id in file.read() else "foreign"
    except OSError:
        return "missing"
