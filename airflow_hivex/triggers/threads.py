"""Threads for calls of the core that take long, so that the event loop of the triggerer is not blocked."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Returned = TypeVar("_Returned")


async def in_thread(work: Callable[[], _Returned], name: str) -> _Returned:
    """Run ``work`` in a separate thread, and return its result. ``work`` can take hours.

    The process can exit without waiting for this thread, because it is a daemon thread.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Returned] = loop.create_future()

    def succeed(answer: _Returned) -> None:
        if not result.cancelled():
            result.set_result(answer)

    def fail(error: BaseException) -> None:
        if not result.cancelled():
            result.set_exception(error)

    def run() -> None:
        try:
            settle = partial(succeed, work())
        except BaseException as raised:
            settle = partial(fail, raised)
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    target = partial(contextvars.copy_context().run, run)
    threading.Thread(target=target, name=name, daemon=True).start()
    return await result
