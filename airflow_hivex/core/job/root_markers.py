"""The check of markers by tasks in Python. A marker is a file with an id in the root folder of a cluster.

Spark sends the code of this module to the tasks, so the module imports no other module of the package.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

Marker = tuple[int, str, str]
"""The number of a root in the plan, the path of its marker, and the id in the marker."""


def check(markers: Sequence[Marker]) -> None:
    """Ensure that this process sees the marker files, with the expected ids.

    Raises:
        RuntimeError: a marker is missing, or has another id. ``root_checks.as_error`` reads the message.
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
