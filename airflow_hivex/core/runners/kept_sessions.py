"""The sessions of Spark that a runner keeps: one for each pair of a configuration and a set of session objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")

MOST_SESSIONS = 64
"""The largest number of sessions that a process keeps. For example, each SET VARIABLE in a loop needs another session.
"""


def kept_session(sessions: dict[K, S], key: K, make: Callable[[], S]) -> S:
    """Return the session of a key, which ``make`` makes on the first use of the key.

    With more than :data:`MOST_SESSIONS` sessions, the least recently used session is dropped. The running jobs of a
    dropped session continue.
    """
    session = sessions.pop(key, None)
    session = make() if session is None else session
    sessions[key] = session
    while len(sessions) > MOST_SESSIONS:
        del sessions[next(iter(sessions))]
    return session
