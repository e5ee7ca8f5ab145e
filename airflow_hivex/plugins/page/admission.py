"""A limit on the running calls of each warehouse. So a slow database does not use all threads of the api-server.

Each warehouse has a few places, one for each running call. A call waits in the event loop for a place. If the call gets
no place or no answer in time, the response has status 503. The place becomes free when the thread of the call ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

MOST_CALLS = 8
"""The largest number of running calls of one warehouse in a process."""
MOST_CALLS_IN_ALL = 20
"""The largest number of running calls of all warehouses in a process."""
PATIENCE_S = 20.0
"""The longest time in seconds that a call waits for a place, and then the longest time for its answer."""


class Admission:
    """An ASGI application that passes a limited number of calls of each warehouse to another application.

    :param refusal: a function that returns a response from a status, an error code and a sentence
    :param patience_s: the longest time in seconds that a call waits for a place, and then for its answer
    """

    def __init__(
        self,
        app: ASGIApp,
        refusal: Callable[[int, str, str], JSONResponse],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._application = app
        self._refusal = refusal
        self._patience_s = patience_s
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Places] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application. Answer with status 503 if there is no place or no answer in time."""
        conn_id = _connection_of(scope)
        if conn_id is None:
            await self._application(scope, receive, send)
            return
        places = self._places.setdefault(asyncio.get_running_loop(), _Places(self._patience_s))
        if not await places.take(conn_id):
            sentence = (
                f"The warehouse of connection {conn_id} has {places.under_way(conn_id)} calls of the page under way "
                f"that have no answer yet. See whether its database answers, and refresh the page later."
            )
            await self._refusal(503, "WAREHOUSE_BUSY", sentence)(scope, receive, send)
            return
        answer = _Answer(send)
        call = asyncio.ensure_future(self._application(scope, receive, answer))
        call.add_done_callback(lambda _: places.give_back(conn_id))
        await asyncio.wait({call}, timeout=self._patience_s)
        if call.done() or answer.has_begun:
            await call
            return
        answer.is_given_up = True
        call.add_done_callback(_log_failure)
        outcome = (
            "" if scope["method"] == "GET" else " The change may still be made; refresh the list before another try."
        )
        sentence = f"The warehouse of connection {conn_id} has not answered for {PATIENCE_S:.0f} seconds.{outcome}"
        await self._refusal(503, "WAREHOUSE_SLOW", sentence)(scope, receive, send)


class _Places:
    """The taken places of all warehouses, and the calls that wait for a place, in one event loop."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._taken: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def under_way(self, conn_id: str) -> int:
        return self._taken[conn_id]

    async def take(self, conn_id: str) -> bool:
        """Wait for a place of a warehouse, and return whether the call has got the place in time."""
        if self._is_free(conn_id):
            self._taken[conn_id] += 1
            return True
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((conn_id, place))
        try:
            await asyncio.wait({place}, timeout=self._patience_s)
        except asyncio.CancelledError:
            if place.done():
                self.give_back(conn_id)
            raise
        finally:
            self._waiting.remove((conn_id, place))
        return place.done()

    def give_back(self, conn_id: str) -> None:
        self._taken[conn_id] -= 1
        if not self._taken[conn_id]:
            del self._taken[conn_id]
        for waiting, place in self._waiting:
            if not place.done() and self._is_free(waiting):
                self._taken[waiting] += 1
                place.set_result(None)

    def _is_free(self, conn_id: str) -> bool:
        return self._taken[conn_id] < MOST_CALLS and self._taken.total() < MOST_CALLS_IN_ALL


class _Answer:
    """The channel of a response to the client.

    If the client has already got the status 503, the response is dropped.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_given_up = False

    async def __call__(self, message: Message) -> None:
        if self.is_given_up:
            return
        self.has_begun = True
        await self._send(message)


def _connection_of(scope: Scope) -> str | None:
    """Return the id of the connection that a request names, or None for a request without a connection."""
    if scope["type"] != "http":
        return None
    named = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("conn_id")
    return named[-1] if named else None


def _log_failure(call: asyncio.Future[None]) -> None:
    if not call.cancelled() and call.exception() is not None:
        log.error("A call of the page Hivex failed after it had been given up", exc_info=call.exception())
