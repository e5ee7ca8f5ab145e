"""The process of a replication, by which another one on the same machine knows that it has died."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")
_FACTS = 5


def this_process() -> str:
    """Return the host, the start and the process id space of this system, and the id and the start of this process."""
    return " ".join((socket.gethostname().replace(" ", "_"), *_machine(), str(os.getpid()), _began(os.getpid())))


def is_dead(process: str) -> bool:
    """Return whether a process, as :func:`this_process` has returned it there, was one of this machine and has ended.

    False where that is not known: on other machines and in other containers.
    """
    facts = process.split(" ")
    if len(facts) != _FACTS or "" in facts or tuple(facts[1:3]) != _machine() or not facts[3].isdecimal():
        return False
    return _began(int(facts[3])) != facts[4]


def shown(process: str) -> str:
    """Return a process for people."""
    facts = process.split(" ")
    return f"process {facts[3]} on {facts[0]}" if len(facts) == _FACTS else "its process"


def _machine() -> tuple[str, str]:
    """Return the start and the process id space of this system; empty where they are not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return boot, str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return "", ""


def _began(pid: int) -> str:
    """Return the start of a process in ticks since that of the system; the empty text of one that does not run."""
    try:
        # The name of the program may have blanks and brackets.
        state, *others = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in ("Z", "X") else others[18]
