"""The serving of calls of several clients in one database transaction. While some calls run, other calls wait.

The waiting calls are then served together, because one commit of the database takes as long for many changes as for one
change. If no call runs, a call is served at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hivex.core.thrift.calls.registry import ALONE, Call
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.messages import Head

if TYPE_CHECKING:
    from airflow_hivex.core.thrift.connection import Connection

log = logging.getLogger(__name__)

_MOST = 16
"""The largest number of calls that are served together. Each call waits for the end of all these calls."""


class JoinedCall(NamedTuple):
    """A waiting call of a client, and the time of its arrival."""

    connection: Connection
    head: Head
    args: Any
    began: float


class JoinedCalls:
    """The waiting calls of one method of Hive's interface, from all clients. Use this class only in the event loop."""

    def __init__(self, endpoint: Endpoint, call: Call, executor: Executor) -> None:
        self._endpoint = endpoint
        self._call = call
        self._executor = executor
        self._waiting: deque[JoinedCall] = deque()
        self._is_serving = False

    def add(self, joined: JoinedCall) -> None:
        """Serve a call at once or, if other calls are running, after them, together with all waiting calls."""
        self._waiting.append(joined)
        if not self._is_serving:
            self._serve_next()

    def _serve_next(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        self._is_serving = True
        self._executor.submit(self._serve, asyncio.get_running_loop(), batch)

    def _serve(self, loop: asyncio.AbstractEventLoop, batch: list[JoinedCall]) -> None:
        """Serve calls together in a thread of the executor, and let the event loop answer them."""
        assert self._call.serve_together is not None
        replies: list[tuple[bytes, str] | None] = [None] * len(batch)
        try:
            asked = [(each.connection.client, each.args) for each in batch]
            results = self._call.serve_together(self._endpoint, asked)
            replies = [
                None if result is ALONE else each.connection.reply(each.head, self._call, result)
                for each, result in zip(batch, results, strict=True)
            ]
        except Exception:
            # Each call is then served alone, and reports its own error.
            log.debug("%s calls of %s are not served together", len(batch), self._call.method.name, exc_info=True)
        # A stopped server has no loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._answer, batch, replies)

    def _answer(self, batch: list[JoinedCall], replies: list[tuple[bytes, str] | None]) -> None:
        self._is_serving = False
        for each, reply in zip(batch, replies, strict=True):
            if reply is None:
                each.connection.serve_alone(each.head, self._call, each.args)
            else:
                each.connection.done(each.head, each.began, *reply)
        if self._waiting and not self._is_serving:
            self._serve_next()
