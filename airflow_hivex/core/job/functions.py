"""Spark's functions for the session of a job: a classic session with a JVM, or a session of Spark Connect.

An environment variable decides which kind ``pyspark.sql.functions`` serves in the whole process. A process with
clusters of both kinds needs both kinds of functions, so each job chooses its functions. Modules of this folder import
this module under the name ``F``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import pyspark.sql
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

if TYPE_CHECKING:
    from pyspark.sql.functions import *  # noqa: F403

_CLASSIC = "pyspark.sql.functions"
_CONNECT = "pyspark.sql.connect.functions"
_session: ContextVar[SparkSession | None] = ContextVar("hivex_connect_session", default=None)


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def functions_of(spark: SparkSession) -> Iterator[None]:
    """Provide the functions for a session to this thread, within the block."""
    token = _session.set(spark if is_connect(spark) else None)
    try:
        with _active(spark) if is_connect(spark) else nullcontext():
            yield
    finally:
        _session.reset(token)


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Make a session of Spark Connect the active session of this thread, as its builder would do."""
    sessions = type(spark)._active_session
    before = getattr(sessions, "session", None)
    sessions.session = spark
    try:
        yield
    finally:
        sessions.session = before


def new_observation() -> pyspark.sql.Observation:
    """Return an observation for a DataFrame of this thread's session."""
    if _session.get() is None:
        return pyspark.sql.Observation()
    # The public name is a class that chooses by the environment.
    module = importlib.import_module("pyspark.sql.connect.observation")
    return cast("pyspark.sql.Observation", module.Observation())


def parsed_type(text: str) -> DataType:
    """Return Spark's type for the text of a type. Each call asks the session, with Spark Connect over the network."""
    session: Any = _session.get()
    found: DataType = DataType.fromDDL(text) if session is None else session._parse_ddl(text)
    return found


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module(_CLASSIC if _session.get() is None else _CONNECT), name)
